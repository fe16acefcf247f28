package sandboxtest

import (
	"context"
	"io"
	"maps"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"

	"nightcrier.dev/nightcrier/internal/sandbox"
)

// Fake is a Box with a script in place of an agent. Its zero value is one that
// works until it is killed.
type Fake struct {
	// Held and Told are its layers and notes.
	Held, Told []string
	// Reached are its listeners.
	Reached []net.Listener
	// Fail is the error of Exec.
	Fail error
	// Agent is how it ends at once, nil for never; Heeds are signals that end it.
	Agent *sandbox.Exit
	Heeds map[syscall.Signal]sandbox.Exit
	// Program, when it is not nil, plays the agent.
	Program Program
	// Stdout is where a Program writes; it is closed at the end.
	Stdout *os.File
	// Hungry and Teeming are what it says of its memory and its processes, at its end.
	Hungry, Teeming bool
	// Orphan is what its Machine says of its maker.
	Orphan bool

	mu      sync.Mutex
	calls   []string
	exit    *sandbox.Exit
	done    chan struct{}
	signals chan syscall.Signal
	closed  bool
}

// Program plays a command: it calls started, and returns how the agent ends; or it returns
// why it could not be started. Once killed is closed, what it does counts no more.
type Program func(c sandbox.Command, out io.Writer, signals <-chan syscall.Signal, started func(), killed <-chan struct{}) (sandbox.Exit, error)

var _ sandbox.Box = (*Fake)(nil)

// Calls returns what was called, in order.
func (f *Fake) Calls() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.calls...)
}

func (f *Fake) recordCall(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, name)
}

func (f *Fake) endAgent(e sandbox.Exit) {
	f.Done() // made
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.exit == nil {
		f.exit = &e
		if f.Stdout != nil {
			f.Stdout.Close()
		}
		close(f.done)
	}
}

// Listeners returns Reached.
func (f *Fake) Listeners() []net.Listener { return f.Reached }

// Names has none.
func (f *Fake) Names() net.PacketConn { return nil }

// Layers returns Held.
func (f *Fake) Layers() []string { return f.Held }

// Notes returns Told.
func (f *Fake) Notes() []string { return f.Told }

// Confine returns Held.
func (f *Fake) Confine(context.Context, sandbox.Policy) ([]string, error) {
	f.recordCall("confine")
	return f.Held, nil
}

// Exec returns Fail, or lets the script begin.
func (f *Fake) Exec(_ context.Context, c sandbox.Command) error {
	f.recordCall("exec")
	if f.Fail == nil && f.Program != nil {
		return f.playProgram(c)
	}
	if f.Fail == nil && f.Agent != nil {
		f.endAgent(*f.Agent)
	}
	return f.Fail
}

// playProgram returns when the program was started, or could not be.
func (f *Fake) playProgram(c sandbox.Command) error {
	signals, started := make(chan syscall.Signal, 16), make(chan error, 1)
	f.mu.Lock()
	f.signals = signals
	f.mu.Unlock()
	go func() {
		exit, err := f.Program(c, f.Stdout, signals, func() { started <- nil }, f.Done())
		if err != nil {
			started <- err
			return
		}
		f.endAgent(exit)
	}()
	return <-started
}

// Signal ends the agent if it heeds the signal, or tells the program of it.
func (f *Fake) Signal(sig syscall.Signal) error {
	f.recordCall("signal " + sig.String())
	f.mu.Lock()
	signals := f.signals
	f.mu.Unlock()
	if signals != nil {
		signals <- sig
	}
	if e, ok := f.Heeds[sig]; ok {
		f.endAgent(e)
	}
	return nil
}

// Kill ends the agent.
func (f *Fake) Kill() {
	f.recordCall("kill")
	f.endAgent(sandbox.Exit{Code: 128 + int(syscall.SIGKILL), Signal: "SIGKILL"})
}

// Done is closed at the end.
func (f *Fake) Done() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.done == nil {
		f.done = make(chan struct{})
	}
	return f.done
}

// Wait returns how the script ended.
func (f *Fake) Wait() sandbox.Exit {
	<-f.Done()
	f.mu.Lock()
	defer f.mu.Unlock()
	return *f.exit
}

// OutOfMemory returns Hungry.
func (f *Fake) OutOfMemory() bool { return f.Hungry }

// OutOfProcesses returns Teeming.
func (f *Fake) OutOfProcesses() bool { return f.Teeming }

// PID has none.
func (f *Fake) PID() int { return 0 }

// Close takes it off its Machine.
func (f *Fake) Close() error {
	f.recordCall("close")
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	return nil
}

// Machine is a Keeper of Fakes. Its zero value has none.
type Machine struct {
	// Fail is the error of Destroy, which then ends nothing.
	Fail error

	mu    sync.Mutex
	boxes map[string]*Fake
}

var _ sandbox.Keeper = (*Machine)(nil)

// Put puts a Fake on the machine and returns it.
func (m *Machine) Put(name string, f *Fake) *Fake {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.boxes == nil {
		m.boxes = map[string]*Fake{}
	}
	m.boxes[name] = f
	return f
}

// List lists the Fakes that are not closed.
func (m *Machine) List(context.Context) ([]sandbox.Left, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var left []sandbox.Left
	for _, name := range slices.Sorted(maps.Keys(m.boxes)) {
		f := m.boxes[name]
		f.mu.Lock()
		if !f.closed {
			left = append(left, sandbox.Left{Name: name, Orphan: f.Orphan})
		}
		f.mu.Unlock()
	}
	return left, nil
}

// Destroy kills and closes the Fake of that name.
func (m *Machine) Destroy(_ context.Context, name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	f, ok := m.boxes[name]
	if !ok || m.Fail != nil {
		return m.Fail
	}
	f.Kill()
	return f.Close()
}
