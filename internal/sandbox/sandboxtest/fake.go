package sandboxtest

import (
	"context"
	"io"
	"maps"
	"os"
	"slices"
	"sync"
	"syscall"

	"nightcrier.dev/nightcrier/internal/sandbox"
)

// Fake is a Sandbox with a script in place of an agent. Its zero value is one that
// works until it is killed.
type Fake struct {
	// Held is what it has its caller accept.
	Held sandbox.Held
	// Fail is the error of Start.
	Fail error
	// Agent is how it ends at once, nil for never; Heeds are signals that end it.
	Agent *sandbox.Exit
	Heeds map[syscall.Signal]sandbox.Exit
	// Program, when it is not nil, plays the agent.
	Program Program
	// Stdout is where a Program writes; it is closed at the end.
	Stdout *os.File
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

var _ sandbox.Sandbox = (*Fake)(nil)

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

// Start returns Fail, or lets the script begin.
func (f *Fake) Start(_ context.Context, _ sandbox.Policy, c sandbox.Command, accept func(sandbox.Held) error) error {
	f.recordCall("start")
	if err := accept(f.Held); err != nil {
		return err
	}
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

// Close takes it off its Machine.
func (f *Fake) Close() error {
	f.recordCall("close")
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	return nil
}

// Machine is a Reaper of Fakes. Its zero value has none.
type Machine struct {
	// Fail is the error of Destroy, which then ends nothing.
	Fail error

	mu    sync.Mutex
	fakes map[string]*Fake
}

var _ sandbox.Reaper = (*Machine)(nil)

// Put puts a Fake on the machine and returns it.
func (m *Machine) Put(name string, f *Fake) *Fake {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fakes == nil {
		m.fakes = map[string]*Fake{}
	}
	m.fakes[name] = f
	return f
}

// List lists the Fakes that are not closed.
func (m *Machine) List(context.Context) ([]sandbox.Leftover, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var left []sandbox.Leftover
	for _, name := range slices.Sorted(maps.Keys(m.fakes)) {
		f := m.fakes[name]
		f.mu.Lock()
		if !f.closed {
			left = append(left, sandbox.Leftover{Name: name, Orphan: f.Orphan})
		}
		f.mu.Unlock()
	}
	return left, nil
}

// Destroy kills and closes the Fake of that name.
func (m *Machine) Destroy(_ context.Context, name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	f, ok := m.fakes[name]
	if !ok || m.Fail != nil {
		return m.Fail
	}
	f.Kill()
	return f.Close()
}
