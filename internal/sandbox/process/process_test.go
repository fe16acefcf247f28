//go:build linux

package process

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The test binary is the init, and the agent that tries what it must not.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case InitCommand:
			os.Exit(Init(os.Args[2:], os.Stderr))
		case "attack":
			fmt.Println(attack(os.Args[2], os.Args[3:]...))
			os.Exit(0)
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
	case "rename":
		err = os.Rename(args[0], args[1])
	case "link":
		err = os.Link(args[0], args[1])
	case "dial":
		var c net.Conn
		if c, err = net.DialTimeout(args[0], args[1], 2*time.Second); err == nil {
			c.Close()
		}
	case "socket":
		family, _ := strconv.Atoi(args[0])
		protocol, _ := strconv.Atoi(args[1])
		_, err = unix.Socket(family, unix.SOCK_STREAM, protocol)
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
	case "mount":
		err = unix.Mount("tmpfs", args[0], "tmpfs", 0, "")
	case "unshare":
		err = unix.Unshare(unix.CLONE_NEWUSER)
	case "ptrace":
		_, _, errno := unix.Syscall(unix.SYS_PTRACE, unix.PTRACE_TRACEME, 0, 0)
		err = errOf(errno)
	case "io_uring":
		_, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, 1, 0, 0)
		err = errOf(errno)
	case "memory":
		b := make([]byte, 256<<20)
		for i := 0; i < len(b); i += 4096 {
			b[i] = 1
		}
	default:
		return "no such attack"
	}
	if err != nil {
		return err.Error()
	}
	return "done"
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

func errOf(errno unix.Errno) error {
	if errno == 0 {
		return nil
	}
	return errno
}

// lab is a workspace with a secret beside it.
type lab struct {
	*testing.T
	root, ws, secret string
	opts             Options
	policy           Policy
}

func newLab(t *testing.T, noNamespaces bool) *lab {
	t.Helper()
	root := t.TempDir()
	l := &lab{T: t, root: root, ws: filepath.Join(root, "ws"), secret: filepath.Join(root, "secret")}
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
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	l.opts = Options{
		// A race-detecting binary otherwise takes a second to exit.
		Init:         []string{"/usr/bin/env", "GORACE=atexit_sleep_ms=0", self, InitCommand},
		NoNamespaces: noNamespaces, Listen: 2, Writable: []string{filepath.Join(l.ws, ".scratch"), filepath.Join(l.ws, "home")},
		Binds: []Bind{{From: filepath.Join(l.ws, ".scratch"), To: filepath.Join(l.ws, "output")}},
	}
	l.policy = Policy{
		Read: append(SystemFiles(), self, filepath.Join(l.ws, "context")), List: []string{l.ws},
		Write: []string{filepath.Join(l.ws, ".scratch"), filepath.Join(l.ws, "home")}, Devices: Devices(),
		MaxFileBytes: 1 << 20, MaxOpenFiles: 256,
	}
	return l
}

// run runs a command to its end and returns its output.
func (l *lab) run(argv ...string) (string, Exit, []string) {
	l.Helper()
	ctx, cancel := context.WithTimeout(l.Context(), 30*time.Second)
	defer cancel()
	r, w, err := os.Pipe()
	if err != nil {
		l.Fatal(err)
	}
	defer r.Close()
	o := l.opts
	o.Stdout, o.Stderr = w, w
	box, err := New(ctx, o)
	w.Close()
	if err != nil {
		l.Fatal(err)
	}
	defer box.Close()
	l.policy.ConnectPorts = nil
	for n, ln := range box.Listeners() {
		defer ln.Close()
		p := ln.Addr().(*net.TCPAddr).Port
		l.policy.ConnectPorts = append(l.policy.ConnectPorts, p)
		for i, a := range argv {
			argv[i] = strings.ReplaceAll(a, "GUARD"+strconv.Itoa(n+1), "127.0.0.1:"+strconv.Itoa(p))
		}
	}
	layers, err := box.Confine(ctx, l.policy)
	if err == nil {
		err = box.Exec(ctx, Command{Argv: argv, Env: []string{"GORACE=atexit_sleep_ms=0", "PATH=/usr/bin:/bin", "HOME=" + filepath.Join(l.ws, "home")}, Dir: l.ws})
	}
	if err != nil {
		box.Kill()
		box.Wait()
		l.Fatal(err)
	}
	out, err := io.ReadAll(r)
	if err != nil {
		l.Error(err)
	}
	return strings.TrimSpace(string(out)), box.Wait(), layers
}

func closeListeners(t *testing.T, box *Box) {
	for _, ln := range box.Listeners() {
		t.Cleanup(func() { ln.Close() })
	}
}

func (l *lab) sh(script string) (string, Exit) {
	l.Helper()
	out, exit, _ := l.run("/bin/sh", "-c", script)
	return out, exit
}

// everyBox runs a test in the best box that this machine grants, and on the floor.
func everyBox(t *testing.T, test func(t *testing.T, noNamespaces bool)) {
	t.Run("namespaces", func(t *testing.T) { test(t, false) })
	t.Run("floor", func(t *testing.T) { test(t, true) })
}

func TestAttacks(t *testing.T) {
	everyBox(t, func(t *testing.T, floor bool) {
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
		self, _ := os.Executable()
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
			{[]string{"list", l.root}, false},
			{[]string{"list", "/root"}, false},
			{[]string{"write", in("context/a")}, false},
			{[]string{"write", in("new")}, false},
			{[]string{"write", "/tmp/x"}, false},
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
			{[]string{"kill", strconv.Itoa(os.Getppid())}, false},
			{[]string{"limit", "0"}, true},
			{[]string{"limit", strconv.Itoa(os.Getpid())}, false},
			{[]string{"renice", strconv.Itoa(unix.PRIO_PROCESS), strconv.Itoa(os.Getpid())}, false},
			{[]string{"renice", strconv.Itoa(unix.PRIO_PROCESS), "0"}, true},
			{[]string{"pin", strconv.Itoa(os.Getpid())}, false},
			{[]string{"mount", in("home")}, false},
			{[]string{"unshare"}, false},
			{[]string{"ptrace"}, false},
			{[]string{"io_uring"}, false},
		} {
			out, exit, _ := l.run(append([]string{self, "attack"}, c.attack...)...)
			if (out == "done") != c.ok || exit.Code != 0 {
				t.Errorf("%v: %q (exit %+v), want done: %v", c.attack, out, exit, c.ok)
			}
		}
	})
}

func TestRightsAreGone(t *testing.T) {
	everyBox(t, func(t *testing.T, floor bool) {
		l := newLab(t, floor)
		out, _ := l.sh(`grep -E '^(CapEff|CapPrm|CapBnd|CapAmb|NoNewPrivs|Seccomp):' /proc/self/status | tr '\n\t' '  '; ls /proc/self/fd | grep -v '^10$' | tr '\n' ' '; ulimit -c; ulimit -n; echo $$; env | sort | tr '\n' ' '`)
		for _, want := range []string{
			"CapPrm: 0000000000000000", "CapEff: 0000000000000000", "CapAmb: 0000000000000000", "NoNewPrivs: 1", "Seccomp: 2",
			"0 1 2 3 0\n256\n", // 3 is ls's own and 10 the shell's; no core; few files
		} {
			if !strings.Contains(out, want) {
				t.Errorf("lacks %q:\n%s", want, out)
			}
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
	if missing := Missing(Floor(), layers); len(missing) > 0 {
		t.Errorf("the floor lacks %v", missing)
	}
	if missing := Missing(Strict(), layers); !slices.Contains(missing, LayerPIDNS) || !slices.Contains(missing, LayerMountNS) {
		t.Errorf("the floor claims to have namespaces: %v", layers)
	}
	l.policy.Unconfined = true
	if _, _, layers := l.run("/bin/true"); !slices.Contains(Missing(Floor(), layers), LayerLandlock) {
		t.Errorf("an unconfined box claims %v", layers)
	}
}

func TestExit(t *testing.T) {
	everyBox(t, func(t *testing.T, floor bool) {
		l := newLab(t, floor)
		for script, want := range map[string]Exit{
			"exit 0":        {},
			"exit 7":        {Code: 7},
			"kill -SEGV $$": {Code: 139, Signal: "SIGSEGV"},
			"kill -KILL $$": {Code: 137, Signal: "SIGKILL"},
			"head -c 2000000 /dev/zero > home/big; exit 3": {Code: 3}, // over the file limit
		} {
			if _, exit := l.sh(script); exit != want {
				t.Errorf("%s: %+v, want %+v", script, exit, want)
			}
		}
		if info, err := os.Stat(filepath.Join(l.ws, "home", "big")); err != nil || info.Size() > l.policy.MaxFileBytes {
			t.Errorf("a file grew to %d bytes (%v)", info.Size(), err)
		}
	})
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

// Children in sessions of their own, with an empty environment, holding the
// pipe: nothing survives the agent's end, and the pipe closes.
func TestNothingSurvives(t *testing.T) {
	everyBox(t, func(t *testing.T, floor bool) {
		l := newLab(t, floor)
		mark := fmt.Sprintf("31415%d", os.Getpid())
		_, exit := l.sh("for i in 1 2 3; do env -i setsid sh -c 'trap \"\" INT TERM HUP; sleep " + mark + " & sleep " + mark + "' & done; sleep 0.1; exit 4")
		if exit.Code != 4 {
			t.Errorf("exit %+v", exit)
		}
		if out, _ := exec.Command("pgrep", "-f", "^sleep "+mark).Output(); len(out) > 0 {
			t.Errorf("still there: %s", out)
		}
	})
}

func TestKill(t *testing.T) {
	everyBox(t, func(t *testing.T, floor bool) {
		l := newLab(t, floor)
		mark := fmt.Sprintf("27182%d", os.Getpid())
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		l.opts.Stdout, l.opts.Listen = w, 0
		box, err := New(t.Context(), l.opts)
		w.Close()
		if err != nil {
			t.Fatal(err)
		}
		defer box.Close()
		if _, err := box.Confine(t.Context(), l.policy); err != nil {
			t.Fatal(err)
		}
		script := "for i in 1 2 3; do env -i setsid sh -c 'trap \"\" INT TERM HUP; sleep " + mark + " & sleep " + mark + "' & done; echo ready; sleep " + mark
		if err := box.Exec(t.Context(), Command{Argv: []string{"/bin/sh", "-c", script}, Env: []string{"PATH=/bin:/usr/bin"}, Dir: l.ws}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(r, make([]byte, 6)); err != nil {
			t.Fatal(err)
		}
		box.Kill()
		if exit := box.Wait(); exit.Signal != "SIGKILL" {
			t.Errorf("exit %+v", exit)
		}
		if out, _ := exec.Command("pgrep", "-f", "^sleep "+mark).Output(); len(out) > 0 {
			t.Errorf("still there: %s", out)
		}
	})
}

func TestSignalReachesTheGroup(t *testing.T) {
	everyBox(t, func(t *testing.T, floor bool) {
		l := newLab(t, floor)
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		l.opts.Stdout = w
		box, err := New(t.Context(), l.opts)
		w.Close()
		if err != nil {
			t.Fatal(err)
		}
		defer box.Close()
		closeListeners(t, box)
		if _, err := box.Confine(t.Context(), l.policy); err != nil {
			t.Fatal(err)
		}
		script := `trap 'exit 9' INT; sh -c "trap 'exit 0' INT; echo ready; while :; do sleep 1; done"; wait`
		if err := box.Exec(t.Context(), Command{Argv: []string{"/bin/sh", "-c", script}, Env: []string{"PATH=/bin:/usr/bin"}, Dir: l.ws}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(r, make([]byte, 6)); err != nil {
			t.Fatal(err)
		}
		if err := box.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		if exit := box.Wait(); exit.Code != 9 {
			t.Errorf("exit %+v", exit)
		}
	})
}

func TestExecFails(t *testing.T) {
	l := newLab(t, false)
	box, err := New(t.Context(), l.opts)
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close()
	closeListeners(t, box)
	if _, err := box.Confine(t.Context(), l.policy); err != nil {
		t.Fatal(err)
	}
	err = box.Exec(t.Context(), Command{Argv: []string{l.secret}, Dir: l.ws})
	if err == nil || !strings.Contains(err.Error(), l.secret) {
		t.Errorf("error %v", err)
	}
	box.Kill()
	box.Wait()
}

func TestMemoryLimit(t *testing.T) {
	l := newLab(t, false)
	l.opts.Name, l.opts.MaxMemoryBytes, l.opts.MaxProcesses = fmt.Sprintf("nightcrier-test-%d", os.Getpid()), 64<<20, 40
	self, _ := os.Executable()
	_, exit, layers := l.run(self, "attack", "memory")
	if !slices.Contains(layers, LayerMemory) || !slices.Contains(layers, LayerPIDs) {
		t.Skipf("SKIPPED ALOUD: no writable memory and pids cgroups here; layers %v", layers)
	}
	if exit.Code == 0 {
		t.Errorf("256 MiB fit into 64 MiB: %+v", exit)
	}
	out, _ := l.sh("for i in $(seq 60); do sleep 5 & done; echo spawned")
	if strings.Contains(out, "spawned") && !strings.Contains(out, "fork") {
		t.Errorf("60 processes fit into 40: %s", out)
	}
	for _, h := range hierarchies() {
		if _, err := os.Stat(filepath.Join(h.parent, l.opts.Name)); err == nil {
			t.Errorf("group %s was left in %s", l.opts.Name, h.parent)
		}
	}
}

func TestSweep(t *testing.T) {
	mark := fmt.Sprintf("SWEEP_MARK=%d", os.Getpid())
	cmd := exec.Command("/bin/sh", "-c", "setsid sleep 100 & sleep 100")
	cmd.Env = []string{mark, "PATH=/bin:/usr/bin"}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { _ = cmd.Wait() }()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := Sweep(ctx, nil, mark); err != nil {
		t.Fatal(err)
	}
	if left := survivors(nil, []string{mark}); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	// A number that was given to another process is not that process.
	me, err := Identify(os.Getpid())
	if err != nil || !me.Alive() {
		t.Fatalf("%+v, %v", me, err)
	}
	if (ID{PID: me.PID, Start: me.Start + 1}).Alive() {
		t.Error("a process with another start is alive")
	}
}

// All of this again as a user without any right, where namespaces come by way
// of a user namespace or not at all.
func TestAsNobody(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED ALOUD: only root can become nobody; the other tests ran as an ordinary user already")
	}
	const nobody = 65534
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil { // others may pass
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	binary, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	self, tmp := filepath.Join(dir, "process.test"), filepath.Join(dir, "tmp")
	for _, err := range []error{os.WriteFile(self, binary, 0o755), os.Mkdir(tmp, 0o700), os.Chown(tmp, nobody, nobody)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), self, "-test.v", "-test.timeout", "5m", "-test.run", "^Test(Attacks|ModesAreGuarded|InitCannotBeKilled|RightsAreGone|OutputIsTheScratch|NothingSurvives|Kill|Exit)$")
	cmd.Env, cmd.Dir = []string{"PATH=/usr/bin:/bin", "TMPDIR=" + tmp}, tmp
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	cmd.WaitDelay = 10 * time.Second // something left behind may hold its output
	out, err := cmd.CombinedOutput()
	if err != nil || strings.Contains(string(out), "--- SKIP") {
		t.Errorf("%v\n%s", err, out)
	}
}
