package process

import (
	"cmp"
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
	"nightcrier.dev/nightcrier/internal/sandbox"
)

// Box is one confined agent; see the package comment for the order of calls.
type Box struct {
	cmd       *exec.Cmd
	link      *link
	layers    []string
	notes     []string
	listeners []net.Listener
	names     net.PacketConn
	owner     owner
	mark      mark
	options   Options
	cgroup    cgroup
	watch     watch
	answers   chan answer       // one for each request
	exit      chan sandbox.Exit // at most one
	heard     chan struct{}     // closed when the link is at its end
	gone      chan struct{}     // closed when nothing is left
}

// New starts the init in the namespaces that this machine permits. The Box must
// be waited for, or killed and waited for.
func New(ctx context.Context, o Options) (*Box, error) {
	m, err := newMark(o)
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, flags := range namespaceAttempts(o) {
		box, err := attemptStart(ctx, o, m, flags)
		if err == nil {
			box.noteErrors(errs...)
			return box, nil
		}
		if errs = append(errs, err); ctx.Err() != nil {
			break
		}
	}
	return nil, nightcrier.Errorf(nightcrier.Internal, "start the sandbox's init: %w", errors.Join(errs...))
}

const allNamespaces = syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS

// namespaceAttempts lists the namespaces to start in, the strongest first. What is permitted
// is found by trying: some machines refuse to make a namespace, others refuse to
// mount anything in it.
func namespaceAttempts(o Options) []uintptr {
	switch {
	case o.NoNamespaces:
		return []uintptr{0}
	case os.Geteuid() != 0:
		return []uintptr{allNamespaces | syscall.CLONE_NEWUSER, 0}
	}
	return []uintptr{allNamespaces, allNamespaces | syscall.CLONE_NEWUSER, 0}
}

func attemptStart(ctx context.Context, o Options, m mark, flags uintptr) (*Box, error) {
	box, err := spawnInit(o, m, flags)
	if err != nil {
		return nil, err
	}
	box.layers = append([]string{LayerEnv}, namespaceLayers(flags)...)
	box.cgroup = joinCgroup(o, box.mark, box.cmd.Process.Pid)
	box.layers, box.notes = append(box.layers, box.cgroup.layers...), append(box.notes, box.cgroup.notes...)
	if err := box.requestIsolation(ctx, flags); err != nil {
		box.Kill()
		box.Wait()
		return nil, errors.Join(err, box.Close())
	}
	return box, nil
}

func spawnInit(o Options, m mark, flags uintptr) (*Box, error) {
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
	cmd.Env = m.envVariables() // never nil, which would inherit
	cmd.Stdin, cmd.Stdout, cmd.Stderr = orNil(o.Stdin), orNilW(o.Stdout), orNilW(o.Stderr)
	cmd.ExtraFiles = []*os.File{theirs}
	cmd.SysProcAttr = initAttributes(flags)
	box := &Box{cmd: cmd, options: o, mark: m, link: ours, answers: make(chan answer, 1), exit: make(chan sandbox.Exit, 1), heard: make(chan struct{}), gone: make(chan struct{})}
	if err := box.runInit(); err != nil {
		ours.conn.Close()
		return nil, err
	}
	return box, nil
}

func initAttributes(flags uintptr) *syscall.SysProcAttr {
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

// runInit starts the init and awaits it on one locked thread: the kernel sends the
// death signal when the thread that forked ends, and the runtime ends threads.
func (b *Box) runInit() error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := b.cmd.Start()
		started <- err
		if err != nil {
			return
		}
		err = b.cmd.Wait() // the agent's end is told over the link, this is only the init's
		_ = b.link.conn.SetReadDeadline(time.Now().Add(time.Second))
		<-b.heard // its last word may still stand in the link
		b.link.conn.Close()
		if err != nil {
			b.endOrphans()
		}
		close(b.gone)
	}()
	if err := <-started; err != nil {
		return err
	}
	go b.readAnswers()
	return nil
}

// endOrphans ends what an init left that did not end as it should. In a PID namespace
// there is nothing.
func (b *Box) endOrphans() {
	if b.cmd.SysProcAttr.Cloneflags&syscall.CLONE_NEWPID == 0 {
		_ = endAll(context.Background(), func() remains { return findRemains(b.mark.isSameMark)[b.mark.name] })
	}
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

func (b *Box) requestIsolation(ctx context.Context, flags uintptr) error {
	iso := isolation{
		Mounts: flags&syscall.CLONE_NEWNS != 0, Net: flags&syscall.CLONE_NEWNET != 0,
		Listen: b.options.Listen, Names: b.options.Names,
	}
	a, err := b.askInit(ctx, request{Isolate: &iso})
	if err != nil {
		return fmt.Errorf("isolate the sandbox: %w", err)
	}
	b.layers = append(b.layers, a.Layers...)
	return nil
}

// readAnswers sorts what the init says into answers and the exit.
func (b *Box) readAnswers() {
	defer close(b.heard)
	defer close(b.answers)
	for {
		var a answer
		files, err := b.link.receiveMessage(&a)
		if err != nil {
			return
		}
		for i, f := range files {
			b.takeSocket(f, a.Names && i == len(files)-1, &a)
		}
		if a.Exit != nil {
			b.exit <- *a.Exit
			continue
		}
		b.answers <- a
	}
}

func (b *Box) takeSocket(f *os.File, names bool, a *answer) {
	defer f.Close()
	var err error
	if names {
		b.names, err = net.FilePacketConn(f)
	} else {
		var l net.Listener
		if l, err = net.FileListener(f); err == nil {
			b.listeners = append(b.listeners, l)
		}
	}
	if err != nil {
		a.Err = "socket of the sandbox: " + err.Error()
	}
}

// startTimeout bounds each step of starting; they take milliseconds.
const startTimeout = 30 * time.Second

func (b *Box) askInit(ctx context.Context, r request, files ...*os.File) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := b.link.sendMessage(r, files...); err != nil {
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

// Names returns the socket on 127.0.0.1:53 at which the agent asks for names; nil
// without Options.Names or where there is no network namespace. It is the caller's
// to serve and to close.
func (b *Box) Names() net.PacketConn { return b.names }

// Notes tell why a layer is missing that this machine may have.
func (b *Box) Notes() []string { return slices.Clone(b.notes) }

func (b *Box) noteErrors(errs ...error) {
	for _, err := range errs {
		b.notes = append(b.notes, err.Error())
	}
}

// Layers returns the layers that hold so far.
func (b *Box) Layers() []string { return slices.Clone(b.layers) }

// PID is the init's process id, as seen from here.
func (b *Box) PID() int { return b.cmd.Process.Pid }

// Confine gives up rights and returns all layers that hold now.
func (b *Box) Confine(ctx context.Context, p sandbox.Policy) ([]string, error) {
	c := confinement{Policy: p, MaxProcesses: b.options.MaxProcesses, Counted: slices.Contains(b.layers, LayerUserNS), OwnNetwork: slices.Contains(b.layers, LayerNetNS)}
	var files []*os.File
	if mapping := b.ownUser(&c); mapping != nil {
		defer mapping.Close()
		files = append(files, mapping)
	}
	a, err := b.askInit(ctx, request{Confine: &c}, files...)
	if err != nil {
		return nil, fmt.Errorf("confine the sandbox: %w", err)
	}
	b.layers = append(b.layers, a.Layers...)
	b.notes = append(b.notes, a.Notes...)
	b.watchLimits()
	return b.Layers(), nil
}

// ownUser takes a user id for the agent, with the mapping that its files need:
// only root can give one away, and only mounts of our own can map it.
func (b *Box) ownUser(c *confinement) *os.File {
	flags := b.cmd.SysProcAttr.Cloneflags
	if os.Geteuid() != 0 || flags&syscall.CLONE_NEWNS == 0 || flags&syscall.CLONE_NEWUSER != 0 {
		return nil
	}
	var err error
	if b.owner, err = takeOwner(cmp.Or(b.options.UIDBase, DefaultUIDBase), b.options.Name); err != nil {
		b.noteErrors(err)
		return nil
	}
	mapping, err := b.owner.newUserNamespace()
	if err != nil {
		b.noteErrors(err)
		return nil
	}
	c.UID = b.owner.id
	return mapping
}

// Exec starts the agent. An error means that the program could not be started.
func (b *Box) Exec(ctx context.Context, c sandbox.Command) error {
	c.Env = slices.Concat(c.Env, b.mark.envVariables())
	_, err := b.askInit(ctx, request{Exec: &c})
	if err != nil {
		return fmt.Errorf("start %s in %s: %w", c.Argv[0], c.Dir, err)
	}
	return nil
}

// Signal sends sig to the agent's process group.
func (b *Box) Signal(sig syscall.Signal) error {
	return b.link.sendMessage(request{Signal: int(sig)})
}

// killTime is how long the init may take to end what is below it.
const killTime = 3 * time.Second

// Kill ends the init and all that is below it, at once.
func (b *Box) Kill() {
	b.cgroup.killGroups()
	if b.cmd.SysProcAttr.Cloneflags&syscall.CLONE_NEWPID != 0 {
		_ = b.cmd.Process.Kill() // gone already is as good
		return
	}
	// Killed without a namespace, it would leave orphans that nobody can find.
	_ = b.link.conn.CloseWrite()
	time.AfterFunc(killTime, func() { _ = b.cmd.Process.Kill() })
}

// Done is closed when nothing is left in the box. Without a PID namespace and without
// cgroups, what was started with an environment of its own is not found when the init
// was killed.
func (b *Box) Done() <-chan struct{} { return b.gone }

// Wait returns how the agent ended, after Done.
func (b *Box) Wait() sandbox.Exit {
	<-b.gone
	select {
	case e := <-b.exit:
		return e
	default:
		return sandbox.Exit{Code: 128 + int(syscall.SIGKILL), Signal: "SIGKILL"}
	}
}

// OutOfMemory reports, after Wait and before Close, whether something in the box
// was killed because it went over the memory limit.
func (b *Box) OutOfMemory() bool { return b.watch.hungry.Load() || b.cgroup.oomKilled() }

// OutOfProcesses reports, after Wait, whether all in the box was ended because it went
// over the limit of processes.
func (b *Box) OutOfProcesses() bool { return b.watch.teeming.Load() }

// Close removes what the Box made on the machine. It comes after Wait.
func (b *Box) Close() error {
	b.owner.releaseLock()
	return b.cgroup.removeGroups()
}

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
