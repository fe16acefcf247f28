//go:build linux

package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/sandbox"
	"nightcrier.dev/nightcrier/internal/test/testproc"
)

// The test binary is the init, and the agent that tries what it must not.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case InitCommand:
			os.Exit(Init(os.Args[2:], os.Stderr))
		case "attack":
			runtime.LockOSThread() // to the first thread
			fmt.Println(attack(os.Args[2], os.Args[3:]...))
			os.Exit(0)
		case "divider":
			if err := divider(os.Args[2], os.Args[3]); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			os.Exit(0)
		case "maker":
			fmt.Fprintln(os.Stderr, maker(os.Args[2], os.Args[3], os.Args[4], os.Args[5], os.Args[6]))
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// attack does one thing and says "done", or why it could not.
func attack(name string, args ...string) string {
	var err error
	switch name {
	case "read":
		_, err = os.ReadFile(args[0])
	case "write":
		err = os.WriteFile(args[0], []byte("x"), 0o600)
	case "list":
		_, err = os.ReadDir(args[0])
	case "find":
		var entries []os.DirEntry
		if entries, err = os.ReadDir(args[0]); err == nil && !slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.Name() == args[1] }) {
			err = os.ErrNotExist
		}
	case "rename":
		err = os.Rename(args[0], args[1])
	case "link":
		err = os.Link(args[0], args[1])
	case "dial":
		var c net.Conn
		if c, err = net.DialTimeout(args[0], args[1], 2*time.Second); err == nil {
			c.Close()
		}
	case "ask": // a name server, which answers what it was asked
		err = askNames(args[0])
	case "socket":
		family, _ := strconv.Atoi(args[0])
		protocol, _ := strconv.Atoi(args[1])
		_, err = unix.Socket(family, unix.SOCK_STREAM, protocol)
	case "netlink":
		protocol, _ := strconv.Atoi(args[0])
		_, err = unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW, protocol)
	case "fastopen": // connects while it sends
		err = fastOpen(args[0])
	case "limit": // the attacker's own limits, set on somebody else
		pid, _ := strconv.Atoi(args[0])
		var now unix.Rlimit
		if err = unix.Prlimit(0, unix.RLIMIT_STACK, nil, &now); err == nil {
			err = unix.Prlimit(pid, unix.RLIMIT_STACK, &now, nil)
		}
	case "renice":
		pid, _ := strconv.Atoi(args[1])
		which, _ := strconv.Atoi(args[0])
		err = unix.Setpriority(which, pid, 19) // lower: nobody needs rights for his own
	case "pin":
		pid, _ := strconv.Atoi(args[0])
		var all unix.CPUSet
		for i := range 64 {
			all.Set(i)
		}
		err = unix.SchedSetaffinity(pid, &all)
	case "kill":
		pid, _ := strconv.Atoi(args[0])
		err = unix.Kill(pid, unix.SIGKILL)
	case "threads": // of the parent, the init: can one be signalled
		err = killThreads(os.Getppid())
	case "mount":
		err = unix.Mount("tmpfs", args[0], "tmpfs", 0, "")
	case "unshare":
		err = unix.Unshare(unix.CLONE_NEWUSER)
	case "ptrace":
		_, _, errno := unix.Syscall(unix.SYS_PTRACE, unix.PTRACE_TRACEME, 0, 0)
		err = errOf(errno)
	case "i386": // ptrace by the number that it has in the machine's other ABI
		err = errOf(unix.Errno(-callOld(26)))
	case "pipe": // made longer: the kernel reads the lower half of an argument alone
		var pair [2]int
		if err = unix.Pipe(pair[:]); err == nil {
			_, _, errno := unix.Syscall(unix.SYS_FCNTL, uintptr(pair[0]), unix.F_SETPIPE_SZ|1<<40, 1<<20)
			err = errOf(errno)
		}
	case "io_uring":
		_, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, 1, 0, 0)
		err = errOf(errno)
	case "datagram":
		var c net.Conn
		if c, err = net.Dial("udp", args[0]); err == nil {
			_, err = c.Write([]byte("secret"))
		}
	case "fetch":
		var c net.Conn
		var b []byte
		if c, err = net.DialTimeout("tcp", args[0], 20*time.Second); err == nil {
			if b, err = io.ReadAll(c); err == nil {
				return strings.TrimSpace(string(b))
			}
		}
	case "descriptors":
		n := 0
		for ; err == nil; n++ {
			_, err = unix.Dup(0)
		}
		return strconv.Itoa(n - 1)
	case "memory":
		b := make([]byte, 384<<20)
		for i := 0; i < len(b); i += 4096 {
			b[i] = 1
		}
		time.Sleep(20 * time.Second) // it has it
		b[0] = 2
	case "gram": // by a pair that is bound to each other, to somebody else
		kind := unix.SOCK_DGRAM
		if len(args) > 1 {
			kind = unix.SOCK_SEQPACKET
		}
		err = sendAstray(kind, args[0])
	case "udp":
		_, err = unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	case "watch":
		var fd int
		if fd, err = unix.InotifyInit(); err == nil {
			_, err = unix.InotifyAddWatch(fd, args[0], unix.IN_CREATE)
		}
	case "shm":
		_, err = unix.SysvShmGet(unix.IPC_PRIVATE, 4096, unix.IPC_CREAT|0o600)
	case "messages":
		_, _, errno := unix.Syscall(unix.SYS_MSGGET, unix.IPC_PRIVATE, unix.IPC_CREAT|0o600, 0)
		err = errOf(errno)
	case "semaphores":
		_, _, errno := unix.Syscall(unix.SYS_SEMGET, unix.IPC_PRIVATE, 1, unix.IPC_CREAT|0o600)
		err = errOf(errno)
	case "rights":
		return rights()
	case "hide":
		return hide(args[0])
	case "share": // a file of others, mapped and read
		err = mapShared(args[0])
	default:
		return "no such attack"
	}
	if err != nil {
		return err.Error()
	}
	return "done"
}

// rights says which this process has. An ordinary user may not empty the bounding set.
func rights() string {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return err.Error()
	}
	all := data[0].Permitted | data[1].Permitted | data[0].Effective | data[1].Effective | data[0].Inheritable | data[1].Inheritable
	ask := func(what, arg uintptr) int {
		n, _, _ := unix.Syscall(unix.SYS_PRCTL, what, arg, 0)
		return int(n)
	}
	bounded := os.Geteuid() != 0 || ask(unix.PR_CAPBSET_READ, unix.CAP_SYS_ADMIN) == 0
	return fmt.Sprintf("bounded %v, capabilities %d, no_new_privs %d, seccomp %d", bounded, all, ask(unix.PR_GET_NO_NEW_PRIVS, 0), ask(unix.PR_GET_SECCOMP, 0))
}

// killThreads kills a process by one of its threads, when there is still one that it
// may signal after a while: the one that it was forked from has just to end.
func killThreads(pid int) (err error) {
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
		if err = os.ErrNotExist; len(threads) == 0 {
			return err
		}
		open := 0
		for _, path := range threads {
			open, _ = strconv.Atoi(filepath.Base(path))
			if err = unix.Tgkill(pid, open, 0); err == nil {
				break
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// mapShared has a file in memory for two seconds.
func mapShared(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	b, err := unix.Mmap(int(f.Fd()), 0, int(info.Size()), unix.PROT_READ, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return err
	}
	time.Sleep(2 * time.Second)
	return unix.Munmap(b)
}

func askNames(question string) error {
	c, err := net.Dial("udp4", "127.0.0.1:53")
	if err != nil {
		return err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := c.Write([]byte(question)); err != nil {
		return err
	}
	answer := make([]byte, 100)
	n, err := c.Read(answer)
	if err == nil && string(answer[:n]) != question {
		err = fmt.Errorf("answered %q", answer[:n])
	}
	return err
}

// sendAstray sends to a path by one end of a pair; what comes out of the other end was not
// sent there.
func sendAstray(kind int, path string) error {
	pair, err := unix.Socketpair(unix.AF_UNIX, kind|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return err
	}
	to := &unix.SockaddrUnix{Name: path}
	if err := errors.Join(unix.Sendto(pair[0], []byte("secret"), 0, to), unix.Connect(pair[0], to)); err != nil {
		return err
	}
	if n, err := unix.Read(pair[1], make([]byte, 10)); err == nil && n > 0 {
		return errors.New("it came to the other end")
	}
	return nil
}

func fastOpen(address string) error {
	at, err := net.ResolveTCPAddr("tcp4", address)
	if err != nil {
		return err
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		return err
	}
	return unix.Sendto(fd, []byte("secret"), unix.MSG_FASTOPEN, &unix.SockaddrInet4{Port: at.Port, Addr: [4]byte(at.IP.To4())})
}

// callOld makes a system call of i386 with arguments of 0.
func callOld(number byte) int {
	code, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE|unix.PROT_EXEC, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return -int(unix.ENOEXEC)
	}
	// mov eax, number; xor ebx, ebx; xor ecx, ecx; xor edx, edx; xor esi, esi; int 0x80; ret
	copy(code, []byte{0xb8, number, 0, 0, 0, 0x31, 0xdb, 0x31, 0xc9, 0x31, 0xd2, 0x31, 0xf6, 0xcd, 0x80, 0xc3})
	start := &code[0]
	at := &start
	call := *(*func() int32)(unsafe.Pointer(&at))
	return int(call())
}

func errOf(errno unix.Errno) error {
	if errno == 0 {
		return nil
	}
	return errno
}

// lab is a workspace with a secret beside it.
type lab struct {
	testing.TB
	root, ws, secret string
	opts             Options
	policy           sandbox.Policy
	served           func(*Sandbox) // before the agent starts
}

func newLab(t testing.TB, noNamespaces bool) *lab {
	t.Helper()
	root := t.TempDir()
	l := &lab{TB: t, root: root, ws: filepath.Join(root, "ws"), secret: filepath.Join(root, "secret")}
	for _, dir := range []string{"context", "output", ".scratch", "home"} {
		if err := os.MkdirAll(filepath.Join(l.ws, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{l.secret, filepath.Join(l.ws, "context", "a"), filepath.Join(l.ws, "output", "audit.jsonl")} {
		if err := os.WriteFile(name, []byte("s3cret"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	self := testproc.Self()
	l.opts = Options{
		Init:         []string{self, InitCommand},
		NoNamespaces: noNamespaces, Listen: 2,
	}
	l.policy = sandbox.Policy{
		Read: append(SystemFiles(), self, filepath.Join(l.ws, "context")), List: []string{l.ws},
		Write: []string{filepath.Join(l.ws, ".scratch"), filepath.Join(l.ws, "home")}, Devices: Devices(),
		Binds:        []sandbox.Bind{{From: filepath.Join(l.ws, ".scratch"), To: filepath.Join(l.ws, "output")}},
		MaxFileBytes: 1 << 20, MaxOpenFiles: 256,
	}
	return l
}

// run runs a command to its end and returns its output.
func (l *lab) run(argv ...string) (string, sandbox.Exit, []string) {
	l.Helper()
	ctx, cancel := context.WithTimeout(l.Context(), 3*time.Minute)
	defer cancel()
	r, w, err := os.Pipe()
	if err != nil {
		l.Fatal(err)
	}
	defer r.Close()
	o := l.opts
	o.Stdout, o.Stderr = w, w
	s, err := New(ctx, o)
	w.Close()
	if err != nil {
		l.Fatal(err)
	}
	defer s.Close()
	if l.served != nil {
		l.served(s)
	}
	l.policy.ConnectPorts = nil
	for n, ln := range s.Listeners {
		defer ln.Close()
		p := ln.Addr().(*net.TCPAddr).Port
		l.policy.ConnectPorts = append(l.policy.ConnectPorts, p)
		for i, a := range argv {
			argv[i] = strings.ReplaceAll(a, "GUARD"+strconv.Itoa(n+1), "127.0.0.1:"+strconv.Itoa(p))
		}
	}
	c := sandbox.Command{Argv: argv, Env: []string{"PATH=/usr/bin:/bin", "HOME=" + filepath.Join(l.ws, "home")}, Dir: l.ws}
	if err := s.Start(ctx, l.policy, c, acceptAll); err != nil {
		s.Kill()
		s.Wait()
		l.Fatal(err)
	}
	out, err := io.ReadAll(r)
	if err != nil {
		l.Error(err)
	}
	return strings.TrimSpace(string(out)), s.Wait(), s.Held().Layers
}

// acceptAll is content with whatever holds.
func acceptAll(sandbox.Held) error { return nil }

func (l *lab) sh(script string) (string, sandbox.Exit) {
	l.Helper()
	out, exit, _ := l.run("/bin/sh", "-c", script)
	return out, exit
}

// everySandbox runs a test in the best sandbox that this machine grants, and on the floor.
func everySandbox(t *testing.T, test func(t *testing.T, noNamespaces bool)) {
	t.Run("namespaces", func(t *testing.T) { test(t, false) })
	t.Run("floor", func(t *testing.T) { test(t, true) })
}

func TestAttacks(t *testing.T) {
	everySandbox(t, func(t *testing.T, floor bool) {
		l := newLab(t, floor)
		host, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer host.Close()
		sock, err := net.Listen("unix", filepath.Join(l.ws, "home", "s"))
		if err != nil {
			t.Fatal(err)
		}
		defer sock.Close()
		gram, err := net.ListenPacket("unixgram", filepath.Join(l.ws, "home", "g"))
		if err != nil {
			t.Fatal(err)
		}
		defer gram.Close()
		self := testproc.Self()
		in := func(name string) string { return filepath.Join(l.ws, name) }
		for _, c := range []struct {
			attack []string
			ok     bool
		}{
			{[]string{"read", in("context/a")}, true},
			{[]string{"write", in("home/x")}, true},
			{[]string{"write", in(".scratch/x")}, true},
			{[]string{"list", l.ws}, true},
			{[]string{"dial", "tcp", "GUARD1"}, true},
			{[]string{"dial", "tcp", "GUARD2"}, true},
			{[]string{"read", "/etc/passwd"}, true},
			{[]string{"write", "/dev/null"}, true},
			{[]string{"socket", strconv.Itoa(unix.AF_INET), "0"}, true},

			{[]string{"read", "/etc/shadow"}, false},
			{[]string{"read", l.secret}, false},
			{[]string{"read", in("context/../../secret")}, false},
			{[]string{"find", l.root, "secret"}, false},
			{[]string{"list", "/root"}, false},
			{[]string{"list", "/usr/local"}, false},
			{[]string{"list", "/usr/local/bin"}, false},
			{[]string{"list", "/usr"}, false},
			{[]string{"list", "/usr/share"}, true},
			{[]string{"write", in("context/a")}, false},
			{[]string{"write", in("new")}, false},
			{[]string{"write", "/tmp/x"}, !floor}, // its own /tmp
			{[]string{"find", "/tmp", "x"}, false},
			{[]string{"write", filepath.Join(l.root, "x")}, false},
			{[]string{"write", "/usr/x"}, false},
			{[]string{"rename", in("context/a"), in("home/a")}, false},
			{[]string{"link", in("context/a"), in("home/a")}, false},
			{[]string{"link", l.secret, in("home/a")}, false},
			{[]string{"read", fmt.Sprintf("/proc/%d/environ", os.Getpid())}, false},
			{[]string{"read", fmt.Sprintf("/proc/%d/root/etc/shadow", os.Getpid())}, false},
			{[]string{"dial", "tcp", host.Addr().String()}, false},
			{[]string{"fastopen", host.Addr().String()}, false},
			{[]string{"socket", strconv.Itoa(unix.AF_INET), "256"}, false}, // SMC: TCP by another name
			{[]string{"socket", strconv.Itoa(unix.AF_INET), strconv.Itoa(unix.IPPROTO_SCTP)}, false},
			{[]string{"dial", "unix", in("home/s")}, false},
			{[]string{"socket", strconv.Itoa(unix.AF_UNIX), "0"}, false},
			{[]string{"socket", strconv.Itoa(unix.AF_INET), strconv.Itoa(unix.IPPROTO_MPTCP)}, false},
			{[]string{"socket", strconv.Itoa(unix.AF_VSOCK), "0"}, false},
			{[]string{"netlink", strconv.Itoa(unix.NETLINK_ROUTE)}, true},
			{[]string{"netlink", strconv.Itoa(unix.NETLINK_SOCK_DIAG)}, false},
			{[]string{"netlink", strconv.Itoa(unix.NETLINK_NETFILTER)}, false},
			{[]string{"gram", in("home/g")}, false},
			{[]string{"gram", in("home/g"), "packets"}, false},
			{[]string{"udp"}, !floor},
			{[]string{"watch", filepath.Join(l.root)}, !floor}, // of what it sees
			{[]string{"read", "/proc/meminfo"}, true},
			{[]string{"read", "/proc/self/status"}, !floor},
			{[]string{"read", fmt.Sprintf("/proc/%d/cmdline", os.Getpid())}, false},
			{[]string{"read", fmt.Sprintf("/proc/%d/status", os.Getpid())}, false},
			{[]string{"shm"}, false},
			{[]string{"messages"}, false},
			{[]string{"semaphores"}, false},
			{[]string{"kill", strconv.Itoa(os.Getppid())}, false},
			{[]string{"threads"}, false},
			{[]string{"limit", "0"}, true},
			{[]string{"limit", strconv.Itoa(os.Getpid())}, false},
			{[]string{"renice", strconv.Itoa(unix.PRIO_PROCESS), strconv.Itoa(os.Getpid())}, false},
			{[]string{"renice", strconv.Itoa(unix.PRIO_PROCESS), "0"}, true},
			{[]string{"pin", strconv.Itoa(os.Getpid())}, false},
			{[]string{"mount", in("home")}, false},
			{[]string{"unshare"}, false},
			{[]string{"ptrace"}, false},
			{[]string{"io_uring"}, false},
			{[]string{"pipe"}, false},
		} {
			out, exit, _ := l.run(append([]string{self, "attack"}, c.attack...)...)
			if (out == "done") != c.ok || exit.Code != 0 {
				t.Errorf("%v: %q (exit %+v), want done: %v", c.attack, out, exit, c.ok)
			}
		}
	})
}

// A number means another call in the machine's other ABI, whose filter would be another one.
func TestTheOtherABIIsRefused(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("SKIPPED ALOUD: the attack is in code of amd64")
	}
	everySandbox(t, func(t *testing.T, floor bool) {
		l := newLab(t, floor)
		if out, exit, _ := l.run(testproc.Self(), "attack", "i386"); out != "" || exit.Signal != "SIGSYS" {
			t.Errorf("%q, exit %+v", out, exit)
		}
	})
}

// The agent's name server is ours to serve, from outside.
func TestNames(t *testing.T) {
	l := newLab(t, false)
	l.opts.Names, l.opts.Listen = true, 0
	l.served = func(s *Sandbox) {
		names := s.Names
		t.Cleanup(func() { names.Close() })
		go func() {
			b := make([]byte, 512)
			n, from, err := names.ReadFrom(b)
			if err == nil {
				_, _ = names.WriteTo(b[:n], from)
			}
		}()
	}
	self := testproc.Self()
	if out, _, _ := l.run(self, "attack", "ask", "telemetry.example"); out != "done" {
		t.Error(out)
	}
	l.served = nil
	if out, _ := l.sh("cat /etc/resolv.conf /etc/passwd; hostname; ls /"); !strings.Contains(out, "nameserver 127.0.0.1\n") || strings.Contains(out, "root:") || !strings.Contains(out, "\nagent\n") {
		t.Error(out)
	}
	l = newLab(t, true)
	l.opts.Names = true
	l.served = func(s *Sandbox) {
		if s.Names != nil {
			t.Error("the floor has a name server of its own")
		}
	}
	l.run("/bin/true")
}

func TestRightsAreGone(t *testing.T) {
	everySandbox(t, func(t *testing.T, floor bool) {
		l := newLab(t, floor)
		self := testproc.Self()
		out, _ := l.sh("'" + self + `' attack rights; for n in 3 4 5 6 7 8 9; do (eval ": <&$n") 2> /dev/null && echo open; done; ulimit -c; ulimit -n; echo $$; env | sort | tr '\n' ' '`)
		if want := "bounded true, capabilities 0, no_new_privs 1, seccomp 2\n0\n256\n"; !strings.HasPrefix(out, want) { // no core; few files, none of ours
			t.Errorf("%q, want %q", out, want)
		}
		if strings.Contains(out, "\n1\n") {
			t.Error("the agent is process 1")
		}
		if strings.Contains(out, "GOCACHE") || strings.Contains(out, "USER=") {
			t.Errorf("the environment was inherited:\n%s", out)
		}
	})
}

func TestLayersAreTold(t *testing.T) {
	l := newLab(t, true)
	_, _, layers := l.run("/bin/true")
	if missing := Floor(layers); len(missing) > 0 {
		t.Errorf("the floor lacks %v", missing)
	}
	if missing := Strict(layers); !slices.Contains(missing, LayerPIDNS) || !slices.Contains(missing, LayerMountNS) {
		t.Errorf("the floor claims to have namespaces: %v", layers)
	}
	l.policy.Unconfined = true
	if _, _, layers := l.run("/bin/true"); !slices.Contains(Floor(layers), LayerLandlock) {
		t.Errorf("an unconfined sandbox claims %v", layers)
	}
}

func TestOutputIsTheScratch(t *testing.T) {
	l := newLab(t, false)
	out, exit := l.sh("ls -A output; echo hi > output/report.md")
	if exit.Code != 0 || out != "" {
		t.Fatalf("exit %+v, output %q", exit, out)
	}
	if b, err := os.ReadFile(filepath.Join(l.ws, ".scratch", "report.md")); err != nil || string(b) != "hi\n" {
		t.Errorf("scratch %q, %v", b, err)
	}
	if _, err := os.Stat(filepath.Join(l.ws, "output", "report.md")); !os.IsNotExist(err) {
		t.Errorf("the real output was written: %v", err)
	}
}

// Marks come from the environment of any process of the machine.
func TestMarks(t *testing.T) {
	m, err := newMark(Options{Owner: OwnerOf("/x"), Name: "run-1"})
	if parsed, ok := parseMark(m.String()); err != nil || !ok || parsed != m || !m.maker.Alive() {
		t.Fatalf("%v: %q is %+v", err, m, parsed)
	}
	if (ID{PID: m.maker.PID, Start: m.maker.Start + 1}).Alive() {
		t.Error("a process with another start is alive")
	}
	for _, s := range []string{
		"", "nightcrier", "nightcrier.a.b", "nightcrier..b.1-1", "nightcrier.a..1-1", "nightcrier.a.b.1", "nightcrier.a.b.-1-1", "nightcrier.a.b.+1-1",
		"nightcrier.a.b.01-1", "nightcrier.a.b.1-1.c", "nightcrier.a.b.1-99999999999999999999", "nightcrier.a/../b.c.1-1", "nightcrier.a.b\n.1-1",
		"other.a.b.1-1", "nightcrier.a.*.1-1", "nightcrier.a." + strings.Repeat("b", maxMark) + ".1-1",
	} {
		if m, ok := parseMark(s); ok {
			t.Errorf("%q is %+v", s, m)
		}
	}
	for _, o := range []Options{{Name: "x"}, {Name: "..", Owner: "a"}, {Name: "x", Owner: "a.b"}, {Name: strings.Repeat("x", maxMark), Owner: "a"}} {
		if _, err := New(t.Context(), o); nightcrier.CodeOf(err) != nightcrier.Invalid {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// The limits of a group are those that were asked for.
func TestCPULimit(t *testing.T) {
	l := newLab(t, true)
	l.opts.Name, l.opts.Owner, l.opts.MaxCPUs, l.opts.Listen = "cpu", OwnerOf(l.root), 2, 0
	s, err := New(t.Context(), l.opts)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	defer s.Wait()
	defer s.Kill()
	if !slices.Contains(s.Held().Layers, LayerCPU) {
		t.Skipf("SKIPPED ALOUD: no writable cpu cgroup here; layers %v", s.Held().Layers)
	}
	for _, dir := range s.cgroup.dirs {
		for file, want := range map[string]string{"cpu.max": "200000 100000", "cpu.cfs_quota_us": "200000"} {
			b, err := os.ReadFile(filepath.Join(dir, file))
			if err == nil && strings.TrimSpace(string(b)) == want && slices.Contains(otherMembers(dir), s.PID()) {
				return
			}
		}
	}
	t.Errorf("none of %v bounds it to two CPUs", s.cgroup.dirs)
}

// All of this again as a user without any right, where namespaces come by way
// of a user namespace or not at all.
func TestAsNobody(t *testing.T) {
	asNobody(t, "true", "Attacks|ModesAreGuarded|InitCannotBeKilled|NothingElseExists|SocketsOfTheHost|RightsAreGone|OutputIsTheScratch|Conforms|MemoryIsWatched|SharedMemoryCountsOnce|ProcessesAreWatched")
}

// And where parts of /proc are covered, as containers do: the kernel then refuses a
// fresh one, and what /proc shows has the numbers of another namespace.
func TestAsNobodyBelowACoveredProc(t *testing.T) {
	asNobody(t, "mount --bind /dev/null /proc/version", "ModesAreGuarded|InitCannotBeKilled|RightsAreGone|OutputIsTheScratch|Conforms")
}

// asNobody runs tests of this binary as a user without rights, in a mount namespace
// that a command has prepared.
func asNobody(t *testing.T, prepare, tests string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED ALOUD: only root can become nobody; the other tests ran as an ordinary user already")
	}
	for _, tool := range []string{"unshare", "setpriv"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("SKIPPED ALOUD: no %s here to become nobody with", tool)
		}
	}
	const nobody = 65534
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil { // others may pass
		t.Fatal(err)
	}
	binary, err := os.ReadFile(testproc.Self())
	if err != nil {
		t.Fatal(err)
	}
	self, tmp := filepath.Join(dir, "process.test"), filepath.Join(dir, "tmp")
	for _, err := range []error{os.WriteFile(self, binary, 0o755), os.Mkdir(tmp, 0o700), os.Chown(tmp, nobody, nobody)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "unshare", "--mount", "sh", "-c", prepare+` && exec setpriv --reuid=65534 --regid=65534 --clear-groups "$@"`, "sh",
		self, "-test.v", "-test.timeout", "30m", "-test.run", "^Test("+tests+")$")
	cmd.Env, cmd.Dir = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "TMPDIR=" + tmp}, tmp
	cmd.WaitDelay = 10 * time.Second // something left behind may hold its output
	out, err := cmd.CombinedOutput()
	if err != nil || strings.Contains(string(out), "--- SKIP") || !strings.Contains(string(out), "--- PASS") {
		t.Errorf("%v\n%s", err, out)
	}
}

// What shells do by way of /proc works, also where nothing of /proc may be read.
func TestShellsReadTheirOwnDescriptors(t *testing.T) {
	everySandbox(t, func(t *testing.T, floor bool) {
		l := newLab(t, floor)
		out, exit := l.sh("echo piped | cat /dev/stdin; bash -c 'cat <(echo substituted); echo out > /dev/stdout; cat <<< here'")
		if exit.Code != 0 || out != "piped\nsubstituted\nout\nhere" {
			t.Errorf("%+v %q", exit, out)
		}
	})
}
