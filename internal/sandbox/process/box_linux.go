package process

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"syscall"
	"time"

	"nightcrier.dev/nightcrier"
)

// Box is one confined agent; see the package comment for the order of calls.
type Box struct {
	cmd       *exec.Cmd
	link      *link
	layers    []string
	listeners []net.Listener
	cgroup    cgroup
	answers   chan answer   // one for each request
	exit      chan Exit     // at most one
	heard     chan struct{} // closed when the link is at its end
	gone      chan struct{} // closed when the init has been reaped
}

// New starts the init in the namespaces that this machine permits. The Box must
// be waited for, or killed and waited for.
func New(ctx context.Context, o Options) (*Box, error) {
	box, flags, err := start(o)
	if err != nil {
		return nil, err
	}
	box.layers = append([]string{LayerEnv}, namespaceLayers(flags)...)
	box.cgroup = joinCgroup(o.Name, box.cmd.Process.Pid, o.MaxMemoryBytes, o.MaxProcesses)
	box.layers = append(box.layers, box.cgroup.layers...)
	if err := box.isolate(ctx, o, flags); err != nil {
		box.Kill()
		box.Wait()
		return nil, errors.Join(err, box.Close())
	}
	return box, nil
}

const allNamespaces = syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS

// start tries the strongest isolation first. A refused clone costs nothing, so
// what is permitted is found by trying.
func start(o Options) (*Box, uintptr, error) {
	tries := []uintptr{allNamespaces, allNamespaces | syscall.CLONE_NEWUSER, 0}
	if os.Geteuid() != 0 {
		tries = tries[1:]
	}
	if o.NoNamespaces {
		tries = []uintptr{0}
	}
	var errs []error
	for _, flags := range tries {
		box, err := spawn(o, flags)
		if err == nil {
			return box, flags, nil
		}
		errs = append(errs, err)
	}
	return nil, 0, nightcrier.Errorf(nightcrier.Internal, "start the sandbox's init: %w", errors.Join(errs...))
}

func spawn(o Options, flags uintptr) (*Box, error) {
	ours, theirs, err := newPair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	argv := o.Init
	if len(argv) == 0 {
		argv = []string{"/proc/self/exe", InitCommand}
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = []string{} // nil would inherit
	cmd.Stdin, cmd.Stdout, cmd.Stderr = orNil(o.Stdin), orNilW(o.Stdout), orNilW(o.Stderr)
	cmd.ExtraFiles = []*os.File{theirs}
	cmd.SysProcAttr = attributes(flags)
	box := &Box{cmd: cmd, link: ours, answers: make(chan answer, 1), exit: make(chan Exit, 1), heard: make(chan struct{}), gone: make(chan struct{})}
	if err := box.run(); err != nil {
		ours.conn.Close()
		return nil, err
	}
	return box, nil
}

func attributes(flags uintptr) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setsid: true, Cloneflags: flags}
	if flags&syscall.CLONE_NEWPID != 0 {
		// Its death is that of all. Without the namespace it must live on, for as
		// long as it takes to end what is below it.
		attr.Pdeathsig = syscall.SIGKILL
	}
	if flags&syscall.CLONE_NEWUSER != 0 {
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	return attr
}

// run starts the init and awaits it on one locked thread: the kernel sends the
// death signal when the thread that forked ends, and the runtime ends threads.
func (b *Box) run() error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := b.cmd.Start()
		started <- err
		if err != nil {
			return
		}
		_ = b.cmd.Wait() // the agent's end is told over the link, this is only the init's
		_ = b.link.conn.SetReadDeadline(time.Now().Add(time.Second))
		<-b.heard // its last word may still stand in the link
		b.link.conn.Close()
		close(b.gone)
	}()
	if err := <-started; err != nil {
		return err
	}
	go b.listen()
	return nil
}

func namespaceLayers(flags uintptr) []string {
	var layers []string
	if flags&syscall.CLONE_NEWUSER != 0 {
		layers = append(layers, LayerUserNS)
	}
	if flags&syscall.CLONE_NEWPID != 0 {
		layers = append(layers, LayerPIDNS, LayerIPCNS)
	}
	return layers
}

func (b *Box) isolate(ctx context.Context, o Options, flags uintptr) error {
	iso := isolation{
		Mounts: flags&syscall.CLONE_NEWNS != 0, Net: flags&syscall.CLONE_NEWNET != 0,
		Binds: o.Binds, Writable: o.Writable, Listen: o.Listen,
	}
	a, err := b.ask(ctx, request{Isolate: &iso})
	if err != nil {
		return fmt.Errorf("isolate the sandbox: %w", err)
	}
	b.layers = append(b.layers, a.Layers...)
	return nil
}

// listen sorts what the init says into answers and the exit.
func (b *Box) listen() {
	defer close(b.heard)
	defer close(b.answers)
	for {
		var a answer
		files, err := b.link.receive(&a)
		if err != nil {
			return
		}
		for _, f := range files {
			b.takeListener(f, &a)
		}
		if a.Exit != nil {
			b.exit <- *a.Exit
			continue
		}
		b.answers <- a
	}
}

func (b *Box) takeListener(f *os.File, a *answer) {
	defer f.Close()
	l, err := net.FileListener(f)
	if err != nil {
		a.Err = "listener of the sandbox: " + err.Error()
		return
	}
	b.listeners = append(b.listeners, l)
}

// startTimeout bounds each step of starting; they take milliseconds.
const startTimeout = 30 * time.Second

func (b *Box) ask(ctx context.Context, r request) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := b.link.send(r); err != nil {
		return answer{}, nightcrier.Errorf(nightcrier.Internal, "sandbox's init: %w", err)
	}
	select {
	case a, ok := <-b.answers:
		if !ok {
			return a, nightcrier.Errorf(nightcrier.Internal, "sandbox's init ended early")
		}
		if a.Err != "" {
			return a, nightcrier.Errorf(nightcrier.Internal, "%s", a.Err)
		}
		return a, nil
	case <-ctx.Done():
		return answer{}, nightcrier.Errorf(nightcrier.Interrupted, "sandbox's init: %w", context.Cause(ctx))
	}
}

// Listeners returns the listeners that the agent can reach on 127.0.0.1, as many
// as were asked for. They are the caller's to close.
func (b *Box) Listeners() []net.Listener { return slices.Clone(b.listeners) }

// Layers returns the layers that hold so far.
func (b *Box) Layers() []string { return slices.Clone(b.layers) }

// PID is the init's process id, as seen from here.
func (b *Box) PID() int { return b.cmd.Process.Pid }

// Confine gives up rights and returns all layers that hold now.
func (b *Box) Confine(ctx context.Context, p Policy) ([]string, error) {
	a, err := b.ask(ctx, request{Confine: &p})
	if err != nil {
		return nil, fmt.Errorf("confine the sandbox: %w", err)
	}
	b.layers = append(b.layers, a.Layers...)
	return b.Layers(), nil
}

// Exec starts the agent. An error means that the program could not be started.
func (b *Box) Exec(ctx context.Context, c Command) error {
	_, err := b.ask(ctx, request{Exec: &c})
	if err != nil {
		return fmt.Errorf("start %s in %s: %w", c.Argv[0], c.Dir, err)
	}
	return nil
}

// Signal sends sig to the agent's process group.
func (b *Box) Signal(sig syscall.Signal) error {
	return b.link.send(request{Signal: int(sig)})
}

// killTime is how long the init may take to end what is below it.
const killTime = 3 * time.Second

// Kill ends the init and all that is below it, at once.
func (b *Box) Kill() {
	b.cgroup.kill()
	if b.cmd.SysProcAttr.Cloneflags&syscall.CLONE_NEWPID != 0 {
		_ = b.cmd.Process.Kill() // gone already is as good
		return
	}
	// Killed without a namespace, it would leave orphans that nobody can find.
	_ = b.link.conn.CloseWrite()
	time.AfterFunc(killTime, func() { _ = b.cmd.Process.Kill() })
}

// Done is closed when the init is gone.
func (b *Box) Done() <-chan struct{} { return b.gone }

// Wait returns how the agent ended. It returns when the init is gone: in a PID
// namespace that is the whole tree; elsewhere the caller must Sweep.
func (b *Box) Wait() Exit {
	<-b.gone
	select {
	case e := <-b.exit:
		return e
	default:
		return Exit{Code: 128 + int(syscall.SIGKILL), Signal: "SIGKILL"}
	}
}

// Cgroups lists the groups that hold the agent, for EndCgroups.
func (b *Box) Cgroups() []string { return slices.Clone(b.cgroup.dirs) }

// OutOfMemory reports, after Wait and before Close, whether something in the box
// was killed because it went over the memory limit.
func (b *Box) OutOfMemory() bool { return b.cgroup.oomKilled() }

// Close removes what the Box made on the machine. It comes after Wait, and after
// Sweep where there is no PID namespace.
func (b *Box) Close() error { return b.cgroup.remove() }

// orNil and orNilW keep a nil file from becoming a non-nil interface.
func orNil(f *os.File) interface{ Read([]byte) (int, error) } {
	if f == nil {
		return nil
	}
	return f
}

func orNilW(f *os.File) interface{ Write([]byte) (int, error) } {
	if f == nil {
		return nil
	}
	return f
}
