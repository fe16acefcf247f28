// Package sandboxtest has the suite that every backend of sandboxes must pass,
// and scripted ones.
package sandboxtest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"nightcrier.dev/nightcrier/internal/sandbox"
)

// What Backend.New gives every Sandbox.
const (
	Listeners      = 3
	MaxMemoryBytes = 192 << 20
	MaxProcesses   = 40
)

// What Backend.Policy bounds.
const (
	MaxFileBytes = 1 << 20
	MaxOpenFiles = 64
)

// Backend is what the suite needs of a backend.
type Backend struct {
	// New opens a Sandbox with the name, the standard output, and the numbers above, and
	// returns its listeners beside it.
	New func(ctx context.Context, name string, stdout *os.File) (sandbox.Sandbox, []net.Listener, error)
	// Reaper finds what New makes; Stranger is that of another owner.
	Reaper, Stranger sandbox.Reaper
	// Policy is that of an agent which may read context/ of the workspace and has
	// home/ for itself; /bin/sh and what it calls are there, and Attack.
	Policy func(workspace string) sandbox.Policy
	// Attack is a command: "fetch" reads what is served at an address and prints it;
	// "memory" fills twice MaxMemoryBytes and keeps it for a while; "descriptors" opens files until it cannot and
	// prints how many.
	Attack func(name string, args ...string) []string
	// Bounds reads from the layers which limits hold: some machines do not grant them.
	Bounds func(layers []string) (memory, processes bool)
	// Elsewhere makes such a Sandbox in a process of its own: it prints the id of a process
	// above all that is in the sandbox, on a line of its own, runs the script in the
	// workspace, and goes on until it is killed.
	Elsewhere func(name, workspace, script string) *exec.Cmd
	// Sure says that the Reaper finds also what has an environment of its own and no
	// parent any more.
	Sure bool
}

// Conform runs the suite.
func Conform(t *testing.T, b Backend) {
	Lifecycle(t, b)
	Agents(t, b)
	for name, test := range map[string]func(*testing.T, Backend){
		"files": testFiles, "file limits": fileLimits, "memory limit": memoryLimit, "process limit": processLimit,
		"maker dies": makerDies, "maker and init die": makerAndInitDie,
	} {
		t.Run(name, func(t *testing.T) { test(t, b) })
	}
}

// Agents is the part of the suite in which an agent does what can be played as well:
// what it does to the machine is not told from outside.
func Agents(t *testing.T, b Backend) {
	for name, test := range map[string]func(*testing.T, Backend){
		"exits": testExits, "orphans": testOrphans, "signals": testSignals, "stubborn": testStubborn, "no program": noProgram,
		"listeners": testListeners, "destroyed while it works": destroyedAtWork,
	} {
		t.Run(name, func(t *testing.T) { test(t, b) })
	}
}

// Lifecycle is the part of the suite in which nothing needs to happen in the sandbox.
func Lifecycle(t *testing.T, b Backend) {
	for name, test := range map[string]func(*testing.T, Backend){"unused": testUnused, "refused": testRefused, "kill": testKill, "found": testFound, "destroyed": testDestroyed} {
		t.Run(name, func(t *testing.T) { test(t, b) })
	}
}

// bench is a Sandbox with its workspace and the end of its output.
type bench struct {
	*testing.T
	Backend
	sandbox.Sandbox
	listeners []net.Listener
	ws, name  string
	out       *os.File
}

var opened atomic.Int64

// patience bounds what a test waits for that may never come.
const patience = 60 * time.Second

// newBench makes a workspace and a name for a Sandbox.
func (b Backend) newBench(t *testing.T) *bench {
	t.Helper()
	s := &bench{T: t, Backend: b, ws: filepath.Join(t.TempDir(), "ws"), name: fmt.Sprintf("test-%d-%d", os.Getpid(), opened.Add(1))}
	for _, dir := range []string{"context", "home", "shut"} {
		s.mustSucceed(os.MkdirAll(filepath.Join(s.ws, dir), 0o700))
		s.mustSucceed(os.WriteFile(filepath.Join(s.ws, dir, "given"), []byte("given "+dir+"\n"), 0o600))
	}
	return s
}

// openSandbox opens a Sandbox, closed at the test's end.
func (b Backend) openSandbox(t *testing.T) *bench {
	t.Helper()
	s := b.newBench(t)
	r, w, err := os.Pipe()
	s.mustSucceed(err)
	s.mustSucceed(r.SetReadDeadline(time.Now().Add(patience)))
	s.out = r
	s.Sandbox, s.listeners, err = b.New(t.Context(), s.name, w)
	w.Close()
	s.mustSucceed(err)
	t.Cleanup(func() {
		s.Kill()
		s.Wait()
		r.Close()
		for _, l := range s.listeners {
			l.Close()
		}
		for range 2 {
			if err := s.Close(); err != nil {
				t.Errorf("closing it: %v", err)
			}
		}
		if s.listLeft() != nil {
			t.Error("it is listed after it was closed")
		}
	})
	return s
}

func (s *bench) mustSucceed(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// listLeft returns what the Reaper lists of the sandbox, nil for nothing.
func (s *bench) listLeft() *sandbox.Leftover {
	s.Helper()
	return s.listedBy(s.Reaper)
}

func (s *bench) listedBy(k sandbox.Reaper) *sandbox.Leftover {
	s.Helper()
	list, err := k.List(context.Background()) // also in a cleanup
	s.mustSucceed(err)
	for _, l := range list {
		if l.Name == s.name {
			return &l
		}
	}
	return nil
}

func (s *bench) startScript(script string) { s.Helper(); s.startCommand("/bin/sh", "-c", script) }

func (s *bench) startCommand(argv ...string) {
	s.Helper()
	s.mustSucceed(s.tryCommand(func([]string) error { return nil }, argv...))
}

// tryCommand starts a command if accept is content with the layers that hold.
func (s *bench) tryCommand(accept func(layers []string) error, argv ...string) error {
	s.Helper()
	p := s.Policy(s.ws)
	for _, l := range s.listeners {
		p.ConnectPorts = append(p.ConnectPorts, l.Addr().(*net.TCPAddr).Port)
	}
	return s.Start(s.Context(), p, sandbox.Command{Argv: argv, Env: []string{"PATH=/usr/bin:/bin"}, Dir: s.ws}, func(h sandbox.Held) error {
		if len(h.Layers) == 0 {
			s.Error("no layers")
		}
		return accept(h.Layers)
	})
}

// awaitEnd returns what the agent wrote, when nothing holds its output any more.
func (s *bench) awaitEnd() (string, sandbox.Exit) {
	s.Helper()
	out, err := io.ReadAll(s.out)
	s.mustSucceed(err)
	return string(out), s.Wait()
}

func (s *bench) runScript(script string) (string, sandbox.Exit) {
	s.Helper()
	s.startScript(script)
	return s.awaitEnd()
}

// A Sandbox in which nothing was started is killed and closed like any other.
func testUnused(t *testing.T, b Backend) { b.openSandbox(t) }

// Who is not content with what holds has started nothing, and is told his own reason.
func testRefused(t *testing.T, b Backend) {
	s := b.openSandbox(t)
	why := errors.New("too little holds")
	if err := s.tryCommand(func([]string) error { return why }, "/bin/sh", "-c", "echo started"); err != why {
		t.Errorf("error %v", err)
	}
	s.Kill()
	if out, exit := s.awaitEnd(); out != "" || exit.Signal != "SIGKILL" {
		t.Errorf("%+v %q", exit, out)
	}
}

func testKill(t *testing.T, b Backend) {
	s := b.openSandbox(t)
	s.startScript("exec sleep 1000")
	select {
	case <-s.Done():
		t.Error("done while it works")
	default:
	}
	s.Kill()
	<-s.Done()
	if exit := s.Wait(); exit.Signal != "SIGKILL" || exit.Code != 137 {
		t.Errorf("%+v", exit)
	}
}

// A sandbox is its owner's alone, and has a living maker.
func testFound(t *testing.T, b Backend) {
	s := b.openSandbox(t)
	unstarted := s.listLeft()
	s.startScript("exec sleep 1000")
	for _, l := range []*sandbox.Leftover{unstarted, s.listLeft()} {
		if l == nil || l.Orphan {
			t.Errorf("listed as %+v", l)
		}
	}
	if l := s.listedBy(b.Stranger); l != nil {
		t.Errorf("a stranger's: %+v", l)
	}
	s.mustSucceed(b.Stranger.Destroy(t.Context(), s.name))
	s.mustSucceed(b.Reaper.Destroy(t.Context(), s.name+"0"))
	s.mustSucceed(b.Reaper.Destroy(t.Context(), strings.TrimRight(s.name, "0123456789")))
	s.mustSucceed(b.Reaper.Destroy(t.Context(), ""))
	select {
	case <-s.Done():
		t.Error("it was ended by another name or owner")
	default:
	}
}

func testDestroyed(t *testing.T, b Backend) {
	s := b.openSandbox(t)
	s.startScript("exec sleep 1000")
	s.mustSucceed(b.Reaper.Destroy(t.Context(), s.name))
	if exit := s.Wait(); exit.Signal != "SIGKILL" {
		t.Errorf("%+v", exit)
	}
	if l := s.listLeft(); l != nil {
		t.Errorf("%+v is left", l)
	}
	s.mustSucceed(b.Reaper.Destroy(t.Context(), s.name)) // again
}

func testExits(t *testing.T, b Backend) {
	for script, want := range map[string]sandbox.Exit{
		"exit 0": {}, "exit 7": {Code: 7}, "kill -SEGV $$": {Code: 139, Signal: "SIGSEGV"}, "kill -KILL $$": {Code: 137, Signal: "SIGKILL"},
	} {
		if _, exit := b.openSandbox(t).runScript(script); exit != want {
			t.Errorf("%s: %+v, want %+v", script, exit, want)
		}
	}
}

func testFiles(t *testing.T, b Backend) {
	s := b.openSandbox(t)
	out, _ := s.runScript("cat context/given home/given; cat shut/given || echo shut; echo x > context/new || echo kept; echo made > home/new")
	if want := "given context\ngiven home\nshut\nkept\n"; out != want {
		t.Errorf("%q, want %q", out, want)
	}
	made, err := os.ReadFile(filepath.Join(s.ws, "home", "new"))
	if err != nil || string(made) != "made\n" {
		t.Errorf("it left %q, %v", made, err)
	}
}

// hidden is what an agent leaves behind: in sessions and groups of their own, with no
// parent and no environment, deaf, and stopped.
const hidden = `for i in 1 2 3; do env -i /usr/bin/setsid /bin/sh -c 'trap "" INT TERM HUP; sleep 1000 & sleep 1000' & done
(env -i /usr/bin/setsid /bin/sh -c '/bin/sleep 1000 & kill -STOP $$' &)
`

// All of it holds the agent's output: that ends when nothing is left.
func testOrphans(t *testing.T, b Backend) {
	s := b.openSandbox(t)
	s.startScript(hidden + "echo up; exit 4")
	if exit := s.Wait(); exit.Code != 4 { // before anything is read: Done comes when all are gone
		t.Errorf("%+v", exit)
	}
	if out, err := s.readWritten(); err != nil || out != "up\n" {
		t.Errorf("something holds its output after Done: %q, %v", out, err)
	}
}

// readWritten returns what was written to the output, whose end it must be: it does not
// wait for it.
func (s *bench) readWritten() (out string, err error) {
	s.Helper()
	conn, err := s.out.SyscallConn()
	s.mustSucceed(err)
	b := make([]byte, 100)
	for n := 1; n > 0 && err == nil; {
		s.mustSucceed(conn.Read(func(fd uintptr) bool {
			n, err = syscall.Read(int(fd), b)
			return true // never again
		}))
		out += string(b[:max(n, 0)])
	}
	return out, err
}

// A signal reaches what the agent has started in its group.
func testSignals(t *testing.T, b Backend) {
	s := b.openSandbox(t)
	s.startScript(`trap 'exit 9' INT; sh -c "trap 'echo child; exit 0' INT; echo up; while :; do sleep 0.1; done"; wait`)
	s.awaitUp()
	s.mustSucceed(s.Signal(syscall.SIGINT))
	if out, exit := s.awaitEnd(); exit.Code != 9 || out != "child\n" {
		t.Errorf("%+v %q", exit, out)
	}
}

func testStubborn(t *testing.T, b Backend) {
	s := b.openSandbox(t)
	s.startScript(hidden + `trap '' INT TERM HUP; echo up; while :; do sleep 0.1; done`)
	s.awaitUp()
	s.mustSucceed(s.Signal(syscall.SIGINT)) // which it does not heed
	s.Kill()
	<-s.Done()
	if _, exit := s.awaitEnd(); exit.Signal != "SIGKILL" {
		t.Errorf("%+v", exit)
	}
}

func (s *bench) awaitUp() {
	s.Helper()
	if _, err := io.ReadFull(s.out, make([]byte, len("up\n"))); err != nil {
		s.Fatal(err)
	}
}

func noProgram(t *testing.T, b Backend) {
	err := b.openSandbox(t).tryCommand(func([]string) error { return nil }, "/nothing/here")
	if err == nil || !strings.Contains(err.Error(), "/nothing/here") {
		t.Errorf("error %v", err)
	}
}

// Each listener is reached from inside, and served from outside.
func testListeners(t *testing.T, b Backend) {
	s := b.openSandbox(t)
	if len(s.listeners) != Listeners {
		t.Fatalf("%d listeners", len(s.listeners))
	}
	var fetches []string
	var want string
	for i, l := range s.listeners {
		at := l.Addr().(*net.TCPAddr)
		if !at.IP.Equal(net.IPv4(127, 0, 0, 1)) {
			t.Errorf("listens at %s", at)
		}
		answer := fmt.Sprintf("served %d\n", i)
		go func() {
			if c, err := l.Accept(); err == nil {
				_, _ = io.WriteString(c, answer)
				c.Close()
			}
		}()
		want += answer
		fetches = append(fetches, "'"+strings.Join(b.Attack("fetch", at.String()), "' '")+"'")
	}
	if out, exit := s.runScript(strings.Join(fetches, " && ")); out != want || exit.Code != 0 {
		t.Errorf("%+v %q, want %q", exit, out, want)
	}
}

func fileLimits(t *testing.T, b Backend) {
	s := b.openSandbox(t)
	s.startScript("head -c 3000000 /dev/full > home/big; exec '" + strings.Join(b.Attack("descriptors"), "' '") + "'")
	out, exit := s.awaitEnd()
	if n, err := strconv.Atoi(strings.TrimSpace(out)); err != nil || n < 1 || n > MaxOpenFiles {
		t.Errorf("it opened %q files (%v), exit %+v", out, err, exit)
	}
	if info, err := os.Stat(filepath.Join(s.ws, "home", "big")); err != nil || info.Size() != MaxFileBytes {
		t.Errorf("a file grew to %+v, %v", info, err)
	}
}

func memoryLimit(t *testing.T, b Backend) {
	s := b.openSandbox(t)
	if memory, _ := s.startBounded(b.Attack("memory")...); !memory {
		t.Skip("SKIPPED ALOUD: this machine bounds no memory")
	}
	if out, exit := s.awaitEnd(); exit.Signal != "SIGKILL" || !exit.OutOfMemory || exit.OutOfProcesses {
		t.Errorf("%+v %q", exit, out)
	}
	if _, exit := b.openSandbox(t).runScript("exit 0"); exit.OutOfMemory {
		t.Error("the next one is out of memory from the start")
	}
}

// startBounded starts a command and returns which of its limits hold.
func (s *bench) startBounded(argv ...string) (memory, processes bool) {
	s.Helper()
	s.mustSucceed(s.tryCommand(func(layers []string) error {
		memory, processes = s.Bounds(layers)
		return nil
	}, argv...))
	return memory, processes
}

func processLimit(t *testing.T, b Backend) {
	s := b.openSandbox(t)
	// Each prints a line; the shell ends at the first that it cannot fork, or with all.
	script := fmt.Sprintf("for i in $(seq %d); do sh -c 'echo one; exec sleep 1000' & done; echo all; sleep 1000", 2*MaxProcesses)
	if _, processes := s.startBounded("/bin/sh", "-c", script); !processes {
		t.Skip("SKIPPED ALOUD: this machine bounds no processes")
	}
	out, exit := s.awaitEnd()
	if n := strings.Count(out, "one"); !exit.OutOfProcesses && (strings.Contains(out, "all") || n > MaxProcesses) || exit == (sandbox.Exit{}) {
		t.Errorf("%d of %d processes were started, exit %+v", n, 2*MaxProcesses, exit)
	}
}

// elsewhere is a Sandbox that another process has made.
type elsewhere struct {
	*bench
	maker *exec.Cmd
	pid   int // of the sandbox
	out   *bufio.Reader
}

func (b Backend) startElsewhere(t *testing.T, script string) elsewhere {
	t.Helper()
	s := b.newBench(t)
	r, w, err := os.Pipe()
	s.mustSucceed(err)
	s.mustSucceed(r.SetReadDeadline(time.Now().Add(patience)))
	e := elsewhere{s, b.Elsewhere(s.name, s.ws, script+"echo up; while :; do sleep 0.1; done"), 0, bufio.NewReader(r)}
	e.maker.Stdout, e.maker.Stderr = w, os.Stderr
	s.mustSucceed(e.maker.Start())
	w.Close()
	t.Cleanup(func() {
		_ = e.maker.Process.Kill()
		_ = e.maker.Wait() // killed
		r.Close()
		s.mustSucceed(b.Reaper.Destroy(context.Background(), s.name))
	})
	line, err := e.out.ReadString('\n')
	s.mustSucceed(err)
	e.pid, err = strconv.Atoi(strings.TrimSpace(line))
	s.mustSucceed(err)
	if up, err := e.out.ReadString('\n'); err != nil || up != "up\n" {
		t.Fatalf("%q, %v", up, err)
	}
	if l := s.listLeft(); l == nil || l.Orphan {
		t.Errorf("while its maker lives it is listed as %+v", l)
	}
	return e
}

// checkGone checks that nothing is left that was ever in the sandbox.
func (e elsewhere) checkGone() {
	e.Helper()
	if _, err := io.ReadAll(e.out); err != nil {
		e.Errorf("something holds its output still: %v", err)
	}
	if l := e.listLeft(); l != nil {
		e.Errorf("%+v is left", l)
	}
}

// When its maker is killed, all in the sandbox dies; what was made for it can be removed.
func makerDies(t *testing.T, b Backend) {
	e := b.startElsewhere(t, hidden)
	e.mustSucceed(e.maker.Process.Kill())
	_ = e.maker.Wait()
	if _, err := io.ReadAll(e.out); err != nil {
		t.Errorf("something survived the maker: %v", err)
	}
	if l := e.listLeft(); l != nil && !l.Orphan {
		t.Error("its maker is dead, and it is listed as if it lived")
	}
	e.mustSucceed(b.Reaper.Destroy(t.Context(), e.name))
	e.checkGone()
}

// Nobody who knows of the sandbox is left, and what was in it has no parent.
func makerAndInitDie(t *testing.T, b Backend) {
	script := "for i in 1 2 3; do /usr/bin/setsid /bin/sh -c 'trap \"\" INT TERM HUP; sleep 1000 & sleep 1000' & done\n"
	if b.Sure {
		script += hidden
	}
	e := b.startElsewhere(t, script)
	e.mustSucceed(e.maker.Process.Signal(syscall.SIGSTOP)) // it must not notice
	e.mustSucceed(syscall.Kill(e.pid, syscall.SIGKILL))
	e.mustSucceed(e.maker.Process.Kill())
	_ = e.maker.Wait()
	if l := e.listLeft(); l != nil && !l.Orphan {
		t.Error("its maker is dead, and it is listed as if it lived")
	}
	e.mustSucceed(b.Stranger.Destroy(t.Context(), e.name))
	e.mustSucceed(b.Reaper.Destroy(t.Context(), e.name))
	e.checkGone()
}

// A sandbox is destroyed under a maker that lives, and forks all the while.
func destroyedAtWork(t *testing.T, b Backend) {
	s := b.openSandbox(t)
	s.startScript(hidden + `echo up; while :; do (sleep 0.01 &) ; done 2>/dev/null`)
	s.awaitUp()
	s.mustSucceed(b.Reaper.Destroy(t.Context(), s.name))
	if _, exit := s.awaitEnd(); exit == (sandbox.Exit{}) {
		t.Errorf("%+v", exit)
	}
	if err := errors.Join(s.Close(), s.Close()); err != nil || s.listLeft() != nil {
		t.Errorf("left %+v, %v", s.listLeft(), err)
	}
}
