package process

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// linkFD is where the init finds its end of the link.
const linkFD = 3

// Init is the body of the init process. It serves the Box that started it and
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
	// The signals of a terminal are not for us: the Box decides. They are caught,
	// because what is ignored, also by whoever started us, stays so in the agent.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM)
	in := &initProcess{link: l, first: os.Getpid() == 1}
	return besideLeader(in.serve)
}

// besideLeader calls fn on a thread, locked to it, that is not the process's
// first. A signal by process id is judged by the Landlock domain of the first
// thread: an agent that was forked there, in the same domain, could kill us.
func besideLeader(fn func() int) int {
	code := make(chan int)
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() == os.Getpid() {
			code <- besideLeader(fn) // this thread is taken until then
			return
		}
		code <- fn()
	}()
	return <-code
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

// initProcess runs on one thread: capabilities and seccomp are a thread's own,
// and the agent is forked from this one.
type initProcess struct {
	link     *link
	first    bool // process 1 of a PID namespace
	readOnly bool // the mounts are, but for the agent's own directories
	agent    int  // 0 before Exec
}

func (in *initProcess) serve() int {
	if !in.first {
		_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) // Sweep finds what this would have
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	for {
		var r request
		if _, err := in.link.receive(&r); err != nil {
			return in.end() // the Box is gone
		}
		a, files := in.handle(r)
		err := in.link.send(a, files...)
		for _, f := range files {
			f.Close()
		}
		if err != nil {
			return in.end()
		}
		if r.Exec != nil && a.Err == "" {
			return in.supervise(ended)
		}
	}
}

func (in *initProcess) handle(r request) (answer, []*os.File) {
	switch {
	case r.Isolate != nil:
		return in.isolate(*r.Isolate)
	case r.Confine != nil:
		layers, err := confine(*r.Confine, reach{modes: in.readOnly, pids: in.first})
		return answer{Layers: layers, Err: text(err)}, nil
	case r.Exec != nil:
		pid, err := in.exec(*r.Exec)
		return answer{PID: pid, Err: text(err)}, nil
	}
	return answer{Err: "unknown request"}, nil
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func (in *initProcess) isolate(iso isolation) (answer, []*os.File) {
	var a answer
	if iso.Mounts {
		if err := arrangeMounts(iso.Binds, in.first); err == nil {
			a.Layers = append(a.Layers, LayerMountNS)
			var err error
			if in.readOnly, err = freeze(iso.Binds, iso.Writable); err != nil {
				return answer{Err: "read-only mounts: " + err.Error()}, nil
			}
		}
	}
	if iso.Net {
		if err := loopbackUp(); err != nil {
			return answer{Err: "network namespace: " + err.Error()}, nil
		}
		a.Layers = append(a.Layers, LayerNetNS)
	}
	var files []*os.File
	for range iso.Listen {
		f, err := listen()
		if err != nil {
			return answer{Err: "listen inside the sandbox: " + err.Error()}, files
		}
		files = append(files, f)
	}
	return a, files
}

// listen opens a listener in this network namespace. Its descriptor can be
// served from outside: a socket stays in the namespace that it was made in.
func listen() (*os.File, error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	defer l.Close()
	return l.(*net.TCPListener).File()
}

func (in *initProcess) exec(c Command) (int, error) {
	pid, err := syscall.ForkExec(c.Argv[0], c.Argv, &syscall.ProcAttr{
		Dir: c.Dir, Env: c.Env, Files: []uintptr{0, 1, 2},
		Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return 0, fmt.Errorf("exec: %w", err)
	}
	in.agent = pid
	return pid, nil
}

// supervise forwards signals and collects every child that ends. It returns
// when the agent has ended or the Box is gone. All of it happens on this thread:
// Landlock lets a thread signal what was forked in its own domain, and each
// thread has one of its own.
func (in *initProcess) supervise(ended <-chan os.Signal) int {
	requests := make(chan request)
	go in.follow(requests)
	for {
		select {
		case r, ok := <-requests:
			if !ok {
				return in.end()
			}
			_ = syscall.Kill(-in.agent, syscall.Signal(r.Signal)) // it may just have ended
		case <-ended:
			if exit := in.reap(); exit != nil {
				_ = in.link.send(answer{Exit: exit}) // a Box that is gone does not ask
				return in.end()
			}
		}
	}
}

// follow passes requests on until the Box is gone.
func (in *initProcess) follow(requests chan<- request) {
	defer close(requests)
	for {
		var r request
		if _, err := in.link.receive(&r); err != nil {
			return
		}
		if r.Signal > 0 {
			requests <- r
		}
	}
}

// reap collects the children that have ended, and returns the agent's end when
// it is among them. One signal may stand for several.
func (in *initProcess) reap() *Exit {
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

func exitOf(status syscall.WaitStatus) *Exit {
	if status.Signaled() {
		return &Exit{Code: 128 + int(status.Signal()), Signal: unix.SignalName(status.Signal())}
	}
	return &Exit{Code: status.ExitStatus()}
}

// endPause is how long the init waits before it looks again for what is left.
const endPause = 2 * time.Millisecond

// end kills what is left below us. As process 1 our own end does it; otherwise
// orphans come to us, as their subreaper, until none is left. A look at /proc can
// miss a process that is being forked or handed over, so it never waits for the
// ones it has seen: it looks again until there is no child at all.
func (in *initProcess) end() int {
	if in.first {
		return 0
	}
	for deadline := time.Now().Add(killTime); time.Now().Before(deadline); {
		for _, pid := range children(os.Getpid()) {
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
