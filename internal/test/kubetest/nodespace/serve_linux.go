package nodespace

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// Serve is the init: it makes the space ready, does what it is asked on its
// standard input, and when that ends kills and removes everything.
func Serve(dir, cgroup string) error {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // an answer that nobody reads must not end us
	p := &place{dir: dir, cgroup: cgroup}
	if err := p.prepare(); err != nil {
		return errors.Join(err, p.remove())
	}
	in := &initd{dir: dir, answers: json.NewEncoder(os.Stdout), running: map[string]int{}, exits: map[int]chan syscall.WaitStatus{}}
	door, err := net.FileListener(os.NewFile(3, "door"))
	if err != nil {
		return err
	}
	go forward(door)
	go in.reap()
	in.serve(os.Stdin)
	in.killAll()
	return p.remove()
}

// initd starts, signals and reaps the programs of a space.
type initd struct {
	dir string

	say     sync.Mutex
	answers *json.Encoder

	mu      sync.Mutex                      // held over each start, so that reap knows every child of ours
	running map[string]int                  // pids by name
	exits   map[int]chan syscall.WaitStatus // where the end of a child of ours is told, once
}

func (in *initd) serve(r io.Reader) {
	for dec := json.NewDecoder(r); ; {
		var q request
		if dec.Decode(&q) != nil {
			return
		}
		go func() {
			out, err := in.do(q)
			a := answer{ID: q.ID, Output: out}
			if err != nil {
				a.Error = err.Error()
			}
			in.say.Lock()
			defer in.say.Unlock()
			_ = in.answers.Encode(a) // where nobody reads it, the input ends too
		}()
	}
}

func (in *initd) do(q request) (string, error) {
	switch q.Do {
	case "ready":
		return "", nil
	case "run":
		return in.run(q)
	case "start":
		return "", in.start(q)
	case "signal":
		return "", in.signal(q)
	case "await":
		return "", in.await(q)
	}
	return "", fmt.Errorf("unknown request %q", q.Do)
}

// run runs a program to its end and returns what it printed.
func (in *initd) run(q request) (string, error) {
	out, err := os.CreateTemp(in.dir, "run-")
	if err != nil {
		return "", err
	}
	defer os.Remove(out.Name())
	defer out.Close()
	_, exit, err := in.fork(q, out)
	if err != nil {
		return "", err
	}
	status := <-exit
	text, err := os.ReadFile(out.Name())
	if err == nil && status != 0 {
		err = ended(status)
	}
	return string(text), err
}

func ended(status syscall.WaitStatus) error {
	if status.Signaled() {
		return fmt.Errorf("killed by %v", status.Signal())
	}
	return fmt.Errorf("exit code %d", status.ExitStatus())
}

func (in *initd) logFile(name string) string { return filepath.Join(in.dir, name+".log") }

func (in *initd) start(q request) error {
	in.mu.Lock()
	pid := in.running[q.Name]
	in.mu.Unlock()
	if pid != 0 {
		return fmt.Errorf("%s runs already", q.Name)
	}
	log, err := os.OpenFile(in.logFile(q.Name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	_, _, err = in.fork(q, log)
	return err
}

// fork starts the program, in a session of its own, with its output in a file.
func (in *initd) fork(q request, out *os.File) (pid int, exit chan syscall.WaitStatus, err error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	null, err := os.Open(os.DevNull)
	if err != nil {
		return 0, nil, err
	}
	defer null.Close()
	pid, err = syscall.ForkExec(q.Argv[0], q.Argv, &syscall.ProcAttr{
		Dir: in.dir, Env: os.Environ(),
		Files: []uintptr{null.Fd(), out.Fd(), out.Fd()},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return 0, nil, fmt.Errorf("start %s: %w", q.Argv[0], err)
	}
	exit = make(chan syscall.WaitStatus, 1)
	in.exits[pid] = exit
	if q.Name != "" {
		in.running[q.Name] = pid
	}
	return pid, exit, nil
}

func (in *initd) signal(q request) error {
	in.mu.Lock()
	pid, ok := in.running[q.Name]
	var err error
	if ok {
		err = syscall.Kill(pid, q.Signal)
	}
	in.mu.Unlock()
	if !ok {
		return fmt.Errorf("%s does not run", q.Name)
	}
	if err != nil || q.Signal != syscall.SIGKILL {
		return err
	}
	_ = in.await(q)
	return nil
}

// await returns why the program ended, with the last of what it printed.
func (in *initd) await(q request) error {
	for in.runs(q.Name) {
		time.Sleep(20 * time.Millisecond)
	}
	log, err := os.ReadFile(in.logFile(q.Name))
	return errors.Join(fmt.Errorf("%s ended: %s", q.Name, log[max(0, len(log)-2000):]), err)
}

func (in *initd) runs(name string) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.running[name] != 0
}

// reap waits for children: those that were started here, and the orphans that
// every first process inherits.
func (in *initd) reap() {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case pid > 0:
			in.gone(pid, status)
		case err == syscall.ECHILD:
			time.Sleep(20 * time.Millisecond)
		}
	}
}

func (in *initd) gone(pid int, status syscall.WaitStatus) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for name, p := range in.running {
		if p == pid {
			delete(in.running, name)
		}
	}
	if exit, ok := in.exits[pid]; ok {
		exit <- status
		delete(in.exits, pid)
	}
}

// killAll kills every process of the space but this one until none is left.
func (in *initd) killAll() {
	for syscall.Kill(-1, syscall.SIGKILL) != syscall.ESRCH {
		time.Sleep(5 * time.Millisecond)
	}
}

// forward carries connections from the door, which is outside, to the API inside.
func forward(door net.Listener) {
	for {
		outside, err := door.Accept()
		if err != nil {
			return
		}
		go carry(outside)
	}
}

func carry(outside net.Conn) {
	defer outside.Close()
	inside, err := net.Dial("tcp", API)
	if err != nil {
		return // refused, as it would be without us
	}
	defer inside.Close()
	done := make(chan struct{}, 2)
	for _, pair := range [][2]net.Conn{{inside, outside}, {outside, inside}} {
		go func() {
			_, _ = io.Copy(pair[0], pair[1])
			_ = pair[0].(*net.TCPConn).CloseWrite()
			done <- struct{}{}
		}()
	}
	<-done
	<-done
}
