// Package testproc runs the helper servers of tests so that they cannot outlive
// them: a child dies with the test binary however that ends, and what it wrote
// to disk is swept by the next run if this one had no chance to.
package testproc

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
)

// Process is a running child.
type Process struct {
	cmd  *exec.Cmd
	tail *tail
	done chan struct{}
}

// Start starts cmd with its output kept for String. The kernel sends it the
// signal onDeath when this process ends (Linux; elsewhere Stop is all there is).
func Start(cmd *exec.Cmd, onDeath syscall.Signal) (*Process, error) {
	p := &Process{cmd: cmd, tail: &tail{}, done: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = p.tail, p.tail
	dieWithParent(cmd, onDeath)
	started := make(chan error)
	go p.run(started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", filepath.Base(cmd.Path), err)
	}
	return p, nil
}

// run starts and awaits the child on one locked thread: the kernel watches the
// thread that forked, not the process, and the runtime ends idle threads.
func (p *Process) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	_ = p.cmd.Wait() // how it ended is nobody's business; what it said is kept
	close(p.done)
}

// PID is the child's process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the child has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Stop sends sig and waits until the child has ended. It may be called twice.
func (p *Process) Stop(sig os.Signal) {
	select {
	case <-p.done:
		return
	default:
	}
	_ = p.cmd.Process.Signal(sig) // it may just have ended by itself
	<-p.done
}

// String is the last of what the child printed, for error messages.
func (p *Process) String() string { return p.tail.String() }

// tail is a writer that keeps the end of what is written.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

const tailSize = 8 << 10

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, b...)
	if over := len(t.buf) - tailSize; over > 0 {
		t.buf = append(t.buf[:0], t.buf[over:]...)
	}
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.buf))
}

var _ io.Writer = (*tail)(nil)

// FreePort returns a TCP port of 127.0.0.1 that nobody listened on a moment ago.
// Another process may take it first: callers try again.
func FreePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// Scratch is a directory for a server that serves the whole test binary, which
// has no moment of its own to clean up at.
type Scratch struct {
	Path string
	lock *os.File
}

// NewScratch makes a scratch directory below the system's temporary one and
// removes those of earlier processes with the same prefix that are gone.
func NewScratch(prefix string) (*Scratch, error) {
	Sweep(prefix)
	path, err := os.MkdirTemp("", prefix)
	if err != nil {
		return nil, err
	}
	lock, err := os.Create(lockFile(path))
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	return &Scratch{Path: path, lock: lock}, nil
}

// Remove deletes the directory.
func (s *Scratch) Remove() error {
	defer s.lock.Close()
	return os.RemoveAll(s.Path)
}

func lockFile(dir string) string { return filepath.Join(dir, ".alive") }

// Sweep removes the scratch directories of the prefix whose process is gone.
func Sweep(prefix string) {
	dirs, _ := filepath.Glob(filepath.Join(os.TempDir(), prefix+"*"))
	for _, dir := range dirs {
		f, err := os.Open(lockFile(dir))
		if err != nil {
			continue // not ours, or being made this moment
		}
		if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			_ = os.RemoveAll(dir)
		}
		f.Close()
	}
}
