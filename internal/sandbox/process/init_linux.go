package process

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"nightcrier.dev/nightcrier/internal/sandbox"
	"nightcrier.dev/nightcrier/internal/sandbox/process/internal/filter"
)

// linkFD is where the init finds its end of the link.
const linkFD = 3

// Init is the body of the init process. It serves the Sandbox that started it and
// returns an exit code; all else is told over the link.
func Init(_ []string, log io.Writer) int {
	if err := keepDescriptors(); err != nil {
		fmt.Fprintf(log, "%s: descriptors: %v\n", InitCommand, err)
		return 1
	}
	l, err := newLink(os.NewFile(linkFD, "link"))
	if err != nil {
		fmt.Fprintf(log, "%s is started by nightcrier itself, not by hand: %v\n", InitCommand, err)
		return 2
	}
	// The signals of a terminal are not for us: the Sandbox decides. They are caught,
	// because what is ignored, also by whoever started us, stays so in the agent.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM)
	in := &initProcess{link: l, first: os.Getpid() == 1, ended: make(chan os.Signal, 1)}
	if !onAThread(in.serveRequests) {
		return in.killRemaining()
	}
	go debug.FreeOSMemory() // from here on next to nothing is needed, beside each agent
	return in.superviseAgent()
}

// onAThread calls fn on a thread, locked to it, that ends with fn and is not the
// process's first. What confines the agent is a thread's own, and the agent is forked
// from that one: none that is left is in the agent's Landlock domain, where the agent
// could kill it. (The first thread never ends, and a signal by process id is judged
// by its domain.)
func onAThread(fn func() bool) bool {
	done := make(chan bool)
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() == os.Getpid() {
			done <- onAThread(fn) // this thread is taken until then
			return
		}
		done <- fn()
	}()
	return <-done
}

// keepDescriptors marks all descriptors above stderr to close on exec, also
// those that somebody above the server left open.
func keepDescriptors() error {
	if unix.CloseRange(linkFD, ^uint(0), unix.CLOSE_RANGE_CLOEXEC) == nil {
		return nil
	}
	entries, err := os.ReadDir("/proc/self/fd") // before Linux 5.11
	if err != nil {
		return err
	}
	for _, e := range entries {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd >= linkFD {
			syscall.CloseOnExec(fd)
		}
	}
	return nil
}

// initProcess starts the agent and ends with it.
type initProcess struct {
	link  *link
	ended chan os.Signal // a child did
	first bool           // process 1 of a PID namespace
	proc  int            // the tree of /proc where the mounts are ours, else 0
	fresh bool           // that shows the processes of our namespace alone
	uid   int            // the agent's own, 0 for ours
	agent int            // 0 before Exec
}

// serveRequests does what the Sandbox asks for, all on one thread, until the agent is started. It
// is false when the Sandbox is gone before.
func (in *initProcess) serveRequests() bool {
	if !in.first {
		_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) // else Reaper finds what this would have
	}
	signal.Notify(in.ended, syscall.SIGCHLD)
	for {
		var r request
		given, err := in.link.receiveMessage(&r)
		if err != nil {
			return false
		}
		a, files := in.handleRequest(r, given)
		for _, f := range given {
			f.Close()
		}
		err = in.link.sendMessage(a, files...)
		for _, f := range files {
			f.Close()
		}
		if err != nil {
			return false
		}
		if r.Exec != nil && a.Err == "" {
			return true
		}
	}
}

func (in *initProcess) handleRequest(r request, given []*os.File) (answer, []*os.File) {
	switch {
	case r.Isolate != nil:
		return in.isolateProcess(*r.Isolate)
	case r.Confine != nil:
		a, err := in.confineAgent(*r.Confine, given)
		a.Err = errorText(err)
		return a, nil
	case r.Exec != nil:
		pid, err := in.execAgent(*r.Exec)
		return answer{PID: pid, Err: errorText(err)}, nil
	}
	return answer{Err: "unknown request"}, nil
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func (in *initProcess) isolateProcess(iso isolation) (answer, []*os.File) {
	var a answer
	if iso.Mounts {
		proc, fresh, err := ownMounts()
		if err != nil {
			return answer{Err: "mount namespace: " + err.Error()}, nil
		}
		in.proc, in.fresh, a.Layers = proc, fresh, append(a.Layers, LayerMountNS)
		if fresh {
			a.Layers = append(a.Layers, LayerProc)
		}
	}
	if iso.Net {
		err := loopbackUp()
		if err == nil {
			err = unix.Sethostname([]byte(hostName))
		}
		if err != nil {
			return answer{Err: "network namespace: " + err.Error()}, nil
		}
		a.Layers = append(a.Layers, LayerNetNS)
	}
	var files []*os.File
	for range iso.Listen {
		f, err := openListener()
		if err != nil {
			return answer{Err: "listen inside the sandbox: " + err.Error()}, files
		}
		files = append(files, f)
	}
	if iso.Net && iso.Names {
		f, err := listenNames()
		if err != nil {
			return answer{Err: "listen for names inside the sandbox: " + err.Error()}, files
		}
		a.Names, files = true, append(files, f)
	}
	return a, files
}

// confineAgent builds the agent's root, where the mounts are ours, and gives up rights.
func (in *initProcess) confineAgent(c confinement, given []*os.File) (answer, error) {
	var a answer
	if in.proc > 0 && !c.Unconfined {
		note, err := in.enterRoot(&c, given)
		if err != nil {
			return a, err
		}
		a.Layers = append(a.Layers, LayerRoot)
		if note != nil {
			a.Notes = append(a.Notes, note.Error())
		}
		if in.uid > 0 {
			a.Layers = append(a.Layers, LayerUID)
		}
	}
	version := landlockVersion()
	layers, err := confineThread(c, surroundings{
		Reach: filter.Reach{
			Root: in.proc > 0, PIDs: in.first, Truncates: version >= truncateVersion,
			Datagrams: c.OwnNetwork || c.Network, Messages: c.Network,
		},
		ownProc: in.fresh, landlock: version,
	})
	a.Layers = append(a.Layers, layers...)
	return a, err
}

// enterRoot returns why the agent has no user id of its own, where it could.
func (in *initProcess) enterRoot(c *confinement, given []*os.File) (note, err error) {
	mapping := -1
	if c.UID > 0 && len(given) == 1 {
		mapping = int(given[0].Fd())
	}
	r, err := newRoot(c.Policy, in.proc, mapping)
	if err == nil && r.unowned != nil { // again, with the owners that the files have
		note = fmt.Errorf("the agent has the server's user id: the workspace's file system cannot map owners: %w", r.unowned)
		r.close()
		r, err = newRoot(c.Policy, in.proc, -1)
		mapping = -1
	}
	if err != nil {
		return nil, err
	}
	defer r.close()
	if mapping >= 0 {
		in.uid, c.Counted = c.UID, true
	}
	c.Write = append(c.Write, privateDirs...)
	return note, r.enterNewRoot(in.uid)
}

// listenNames takes the port of name servers in this network namespace.
func listenNames() (*os.File, error) {
	c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: namePort})
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.File()
}

// loopbackUp brings up lo, which a new network namespace has down.
func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	ifr, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	if err := unix.IoctlIfreq(fd, unix.SIOCGIFFLAGS, ifr); err != nil {
		return err
	}
	ifr.SetUint16(ifr.Uint16() | unix.IFF_UP)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, ifr)
}

// openListener opens a listener in this network namespace. Its descriptor can be
// served from outside: a socket stays in the namespace that it was made in.
func openListener() (*os.File, error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	defer l.Close()
	return l.(*net.TCPListener).File()
}

func (in *initProcess) execAgent(c sandbox.Command) (int, error) {
	sys := &syscall.SysProcAttr{Setsid: true}
	if in.uid > 0 {
		sys.Credential = &syscall.Credential{Uid: uint32(in.uid), Gid: uint32(in.uid)}
		if err := givePipes(in.uid); err != nil {
			return 0, err
		}
	}
	pid, err := syscall.ForkExec(c.Argv[0], c.Argv, &syscall.ProcAttr{
		Dir: c.Dir, Env: c.Env, Files: []uintptr{0, 1, 2}, Sys: sys,
	})
	if err != nil {
		return 0, fmt.Errorf("exec: %w", err)
	}
	in.agent = pid
	return pid, nil
}

// givePipes makes the agent the owner of the pipes that it is given: by the names
// /dev/stdout and /dev/stderr a program opens them anew.
func givePipes(uid int) error {
	for fd := range 3 {
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFIFO {
			continue
		}
		if err := unix.Fchown(fd, uid, uid); err != nil {
			return fmt.Errorf("give the agent its pipe %d: %w", fd, err)
		}
	}
	return nil
}

// superviseAgent forwards signals and collects every child that ends. It returns
// when the agent has ended or the Sandbox is gone.
func (in *initProcess) superviseAgent() int {
	requests := make(chan request)
	go in.passOnRequests(requests)
	for {
		select {
		case r, ok := <-requests:
			if !ok {
				return in.killRemaining()
			}
			_ = syscall.Kill(-in.agent, syscall.Signal(r.Signal)) // it may just have ended
		case <-in.ended:
			if exit := in.reapChildren(); exit != nil {
				_ = in.link.sendMessage(answer{Exit: exit}) // a Sandbox that is gone does not ask
				return in.killRemaining()
			}
		}
	}
}

// passOnRequests passes requests on until the Sandbox is gone.
func (in *initProcess) passOnRequests(requests chan<- request) {
	defer close(requests)
	for {
		var r request
		if _, err := in.link.receiveMessage(&r); err != nil {
			return
		}
		if r.Signal > 0 {
			requests <- r
		}
	}
}

// reapChildren collects the children that have ended, and returns the agent's end when
// it is among them. One signal may stand for several.
func (in *initProcess) reapChildren() *sandbox.Exit {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil || pid <= 0:
			return nil
		case pid == in.agent:
			return exitOf(status)
		}
	}
}

func exitOf(status syscall.WaitStatus) *sandbox.Exit {
	if status.Signaled() {
		return &sandbox.Exit{Code: 128 + int(status.Signal()), Signal: unix.SignalName(status.Signal())}
	}
	return &sandbox.Exit{Code: status.ExitStatus()}
}

// endPause is how long the init waits before it looks again for what is left.
const endPause = 2 * time.Millisecond

// killRemaining kills what is left below us. As process 1 our own end does it; otherwise
// orphans come to us, as their subreaper, until none is left. A look at /proc can
// miss a process that is being forked or handed over, so it never waits for the
// ones it has seen: it looks again until there is no child at all.
func (in *initProcess) killRemaining() int {
	if in.first {
		return 0
	}
	for deadline := time.Now().Add(killTime); time.Now().Before(deadline); {
		for _, pid := range childrenOf(os.Getpid()) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		switch pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); {
		case err == syscall.ECHILD:
			return 0
		case pid <= 0:
			time.Sleep(endPause)
		}
	}
	return 1
}
