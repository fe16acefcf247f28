package sandboxtest

import (
	"context"
	"maps"
	"net"
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
	// Fail is the error of Exec.
	Fail error
	// Agent is how it ends at once, nil for never; Heeds are signals that end it.
	Agent *sandbox.Exit
	Heeds map[syscall.Signal]sandbox.Exit
	// Orphan is what its Machine says of its maker.
	Orphan bool

	mu     sync.Mutex
	calls  []string
	exit   *sandbox.Exit
	done   chan struct{}
	closed bool
}

var _ sandbox.Box = (*Fake)(nil)

// Calls returns what was called, in order.
func (f *Fake) Calls() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.calls...)
}

func (f *Fake) called(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, name)
}

func (f *Fake) end(e sandbox.Exit) {
	f.Done() // made
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.exit == nil {
		f.exit = &e
		close(f.done)
	}
}

// Listeners has none.
func (f *Fake) Listeners() []net.Listener { return nil }

// Names has none.
func (f *Fake) Names() net.PacketConn { return nil }

// Layers returns Held.
func (f *Fake) Layers() []string { return f.Held }

// Notes returns Told.
func (f *Fake) Notes() []string { return f.Told }

// Confine returns Held.
func (f *Fake) Confine(context.Context, sandbox.Policy) ([]string, error) {
	f.called("confine")
	return f.Held, nil
}

// Exec returns Fail, or lets the script begin.
func (f *Fake) Exec(context.Context, sandbox.Command) error {
	f.called("exec")
	if f.Fail == nil && f.Agent != nil {
		f.end(*f.Agent)
	}
	return f.Fail
}

// Signal ends the agent if it heeds the signal.
func (f *Fake) Signal(sig syscall.Signal) error {
	f.called("signal " + sig.String())
	if e, ok := f.Heeds[sig]; ok {
		f.end(e)
	}
	return nil
}

// Kill ends the agent.
func (f *Fake) Kill() {
	f.called("kill")
	f.end(sandbox.Exit{Code: 128 + int(syscall.SIGKILL), Signal: "SIGKILL"})
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

// OutOfMemory never happens.
func (f *Fake) OutOfMemory() bool { return false }

// OutOfProcesses never happens.
func (f *Fake) OutOfProcesses() bool { return false }

// PID has none.
func (f *Fake) PID() int { return 0 }

// Close takes it off its Machine.
func (f *Fake) Close() error {
	f.called("close")
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
