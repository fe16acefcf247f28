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
	"sync"
	"syscall"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/sandbox"
)

// Sandbox is one confined agent; see the package comment for the order of calls.
type Sandbox struct {
	// Listeners are on 127.0.0.1, where the agent reaches them, as many as were asked for.
	// They are the caller's to serve and to close.
	Listeners []net.Listener
	// Names is the socket on 127.0.0.1:53 at which the agent asks for names; nil without
	// Options.Names or where there is no network namespace. It is the caller's to serve and
	// to close.
	Names net.PacketConn

	cmd     *exec.Cmd
	link    *link
	held    sandbox.Held
	owner   owner
	mark    mark
	options Options
	cgroup  cgroup
	watch   watch
	answers chan answer       // one for each request
	exit    chan sandbox.Exit // at most one
	ended   func() sandbox.Exit
	heard   chan struct{} // closed when the link is at its end
	gone    chan struct{} // closed when nothing is left
}

// New starts the init in the namespaces that this machine permits. The Sandbox must
// be waited for, or killed and waited for.
func New(ctx context.Context, o Options) (*Sandbox, error) {
	m, err := newMark(o)
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, flags := range namespaceAttempts(o) {
		s, err := attemptStart(ctx, o, m, flags)
		if err == nil {
			s.noteErrors(errs...)
			return s, nil
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

func attemptStart(ctx context.Context, o Options, m mark, flags uintptr) (*Sandbox, error) {
	s, err := spawnInit(o, m, flags)
	if err != nil {
		return nil, err
	}
	s.held.Layers = append([]string{LayerEnv}, namespaceLayers(flags)...)
	s.cgroup = joinCgroup(o, s.mark, s.cmd.Process.Pid)
	s.held.Layers, s.held.Notes = append(s.held.Layers, s.cgroup.layers...), append(s.held.Notes, s.cgroup.notes...)
	if err := s.requestIsolation(ctx, flags); err != nil {
		s.Kill()
		s.Wait()
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func spawnInit(o Options, m mark, flags uintptr) (*Sandbox, error) {
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
	s := &Sandbox{cmd: cmd, options: o, mark: m, link: ours, answers: make(chan answer, 1), exit: make(chan sandbox.Exit, 1), heard: make(chan struct{}), gone: make(chan struct{})}
	s.ended = sync.OnceValue(s.readExit)
	if err := s.runInit(); err != nil {
		ours.conn.Close()
		return nil, err
	}
	return s, nil
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
func (s *Sandbox) runInit() error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := s.cmd.Start()
		started <- err
		if err != nil {
			return
		}
		err = s.cmd.Wait() // the agent's end is told over the link, this is only the init's
		_ = s.link.conn.SetReadDeadline(time.Now().Add(time.Second))
		<-s.heard // its last word may still stand in the link
		s.link.conn.Close()
		if err != nil {
			s.endOrphans()
		}
		close(s.gone)
	}()
	if err := <-started; err != nil {
		return err
	}
	go s.readAnswers()
	return nil
}

// endOrphans ends what an init left that did not end as it should. In a PID namespace
// there is nothing.
func (s *Sandbox) endOrphans() {
	if s.cmd.SysProcAttr.Cloneflags&syscall.CLONE_NEWPID == 0 {
		_ = endAll(context.Background(), func() remains { return findRemains(s.mark.isSameMark)[s.mark.name] })
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

func (s *Sandbox) requestIsolation(ctx context.Context, flags uintptr) error {
	iso := isolation{
		Mounts: flags&syscall.CLONE_NEWNS != 0, Net: flags&syscall.CLONE_NEWNET != 0,
		Listen: s.options.Listen, Names: s.options.Names,
	}
	a, err := s.askInit(ctx, request{Isolate: &iso})
	if err != nil {
		return fmt.Errorf("isolate the sandbox: %w", err)
	}
	s.held.Layers = append(s.held.Layers, a.Layers...)
	return nil
}

// readAnswers sorts what the init says into answers and the exit.
func (s *Sandbox) readAnswers() {
	defer close(s.heard)
	defer close(s.answers)
	for {
		var a answer
		files, err := s.link.receiveMessage(&a)
		if err != nil {
			return
		}
		for i, f := range files {
			s.takeSocket(f, a.Names && i == len(files)-1, &a)
		}
		if a.Exit != nil {
			s.exit <- *a.Exit
			continue
		}
		s.answers <- a
	}
}

func (s *Sandbox) takeSocket(f *os.File, names bool, a *answer) {
	defer f.Close()
	var err error
	if names {
		s.Names, err = net.FilePacketConn(f)
	} else {
		var l net.Listener
		if l, err = net.FileListener(f); err == nil {
			s.Listeners = append(s.Listeners, l)
		}
	}
	if err != nil {
		a.Err = "socket of the sandbox: " + err.Error()
	}
}

// startTimeout bounds each step of starting; they take milliseconds.
const startTimeout = 30 * time.Second

func (s *Sandbox) askInit(ctx context.Context, r request, files ...*os.File) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := s.link.sendMessage(r, files...); err != nil {
		return answer{}, nightcrier.Errorf(nightcrier.Internal, "sandbox's init: %w", err)
	}
	select {
	case a, ok := <-s.answers:
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

func (s *Sandbox) noteErrors(errs ...error) {
	for _, err := range errs {
		s.held.Notes = append(s.held.Notes, err.Error())
	}
}

// Held returns what holds so far.
func (s *Sandbox) Held() sandbox.Held {
	return sandbox.Held{Layers: slices.Clone(s.held.Layers), Notes: slices.Clone(s.held.Notes)}
}

// PID is the init's process id, as seen from here.
func (s *Sandbox) PID() int { return s.cmd.Process.Pid }

// Start gives up rights and starts the agent, if accept is content with what holds then.
func (s *Sandbox) Start(ctx context.Context, p sandbox.Policy, c sandbox.Command, accept func(sandbox.Held) error) error {
	if err := s.confineInit(ctx, p); err != nil {
		return fmt.Errorf("confine the sandbox: %w", err)
	}
	if err := accept(s.Held()); err != nil {
		return err
	}
	c.Env = slices.Concat(c.Env, s.mark.envVariables())
	if _, err := s.askInit(ctx, request{Exec: &c}); err != nil {
		return fmt.Errorf("start %s in %s: %w", c.Argv[0], c.Dir, err)
	}
	return nil
}

func (s *Sandbox) confineInit(ctx context.Context, p sandbox.Policy) error {
	c := confinement{Policy: p, MaxProcesses: s.options.MaxProcesses, Counted: slices.Contains(s.held.Layers, LayerUserNS), OwnNetwork: slices.Contains(s.held.Layers, LayerNetNS)}
	var files []*os.File
	if mapping := s.ownUser(&c); mapping != nil {
		defer mapping.Close()
		files = append(files, mapping)
	}
	a, err := s.askInit(ctx, request{Confine: &c}, files...)
	if err != nil {
		return err
	}
	s.held.Layers = append(s.held.Layers, a.Layers...)
	s.held.Notes = append(s.held.Notes, a.Notes...)
	s.watchLimits()
	return nil
}

// ownUser takes a user id for the agent, with the mapping that its files need:
// only root can give one away, and only mounts of our own can map it.
func (s *Sandbox) ownUser(c *confinement) *os.File {
	flags := s.cmd.SysProcAttr.Cloneflags
	if os.Geteuid() != 0 || flags&syscall.CLONE_NEWNS == 0 || flags&syscall.CLONE_NEWUSER != 0 {
		return nil
	}
	var err error
	if s.owner, err = takeOwner(cmp.Or(s.options.UIDBase, DefaultUIDBase), s.options.Name); err != nil {
		s.noteErrors(err)
		return nil
	}
	mapping, err := s.owner.newUserNamespace()
	if err != nil {
		s.noteErrors(err)
		return nil
	}
	c.UID = s.owner.id
	return mapping
}

// Signal sends sig to the agent's process group.
func (s *Sandbox) Signal(sig syscall.Signal) error {
	return s.link.sendMessage(request{Signal: int(sig)})
}

// killTime is how long the init may take to end what is below it.
const killTime = 3 * time.Second

// Kill ends the init and all that is below it, at once.
func (s *Sandbox) Kill() {
	s.cgroup.killGroups()
	if s.cmd.SysProcAttr.Cloneflags&syscall.CLONE_NEWPID != 0 {
		_ = s.cmd.Process.Kill() // gone already is as good
		return
	}
	// Killed without a namespace, it would leave orphans that nobody can find.
	_ = s.link.conn.CloseWrite()
	time.AfterFunc(killTime, func() { _ = s.cmd.Process.Kill() })
}

// Done is closed when nothing is left in the s. Without a PID namespace and without
// cgroups, what was started with an environment of its own is not found when the init
// was killed.
func (s *Sandbox) Done() <-chan struct{} { return s.gone }

// Wait returns how the agent ended, after Done and before Close.
func (s *Sandbox) Wait() sandbox.Exit {
	<-s.gone
	return s.ended()
}

func (s *Sandbox) readExit() (e sandbox.Exit) {
	select {
	case e = <-s.exit:
	default:
		e = sandbox.Exit{Code: 128 + int(syscall.SIGKILL), Signal: "SIGKILL"}
	}
	e.OutOfMemory = s.watch.hungry.Load() || s.cgroup.oomKilled()
	e.OutOfProcesses = s.watch.teeming.Load()
	return e
}

// Close removes what the Sandbox made on the machine. It comes after Wait.
func (s *Sandbox) Close() error {
	s.owner.releaseLock()
	return s.cgroup.removeGroups()
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
