package mcp

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/guard/toolserver"
	"nightcrier.dev/nightcrier/internal/sandbox"
	"nightcrier.dev/nightcrier/internal/sandbox/process"
	"nightcrier.dev/nightcrier/internal/text"
)

// Limits of a command.
const (
	maxMemory    = 1 << 30
	maxProcesses = 128
	maxFile      = 64 << 20
	maxFiles     = 1024
	farewell     = 2 * time.Second
)

// startCommand starts a server's command in a sandbox of its own: no file beside the
// system's, its own and what the operator names, no environment beside what the
// operator names, and connections to the ports that the operator names. It has the
// machine's network, since what it asks lies there.
func startCommand(ctx context.Context, s toolserver.Server, o Options) (*way, error) {
	program, err := findProgram(s.Command[0])
	if err != nil {
		return nil, err
	}
	home, err := os.MkdirTemp(o.Dir, "tools-")
	if err != nil {
		return nil, nightcrier.Errorf(nightcrier.Exhausted, "a directory for %s: %w", s.Name, err)
	}
	p, err := newPipes(o.MaskLog)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(home))
	}
	confined, err := process.New(ctx, process.Options{
		Stdin: p.stdin.theirs, Stdout: p.stdout.theirs, Stderr: p.stderr.theirs,
		NoNamespaces: true, MaxMemoryBytes: maxMemory, MaxProcesses: maxProcesses, Name: o.SandboxName + "-" + s.Name, Owner: o.SandboxOwner,
	})
	p.closeTheirs()
	if err != nil {
		p.close()
		return nil, errors.Join(err, os.RemoveAll(home))
	}
	stop := sync.OnceFunc(func() {
		_ = p.stdin.ours.Close() // what a server that listens ends by
		select {
		case <-confined.Done():
		case <-time.After(farewell):
			confined.Kill()
		}
		confined.Wait()
		_ = confined.Close()
		p.hearOut()
		p.close()
		_ = os.RemoveAll(home)
	})
	if err := startConfined(ctx, confined, s, o, program, home); err != nil {
		confined.Kill()
		stop()
		return nil, nightcrier.Errorf(nightcrier.Invalid, "%w%s", err, p.complaintText())
	}
	t := &sdk.IOTransport{Reader: p.out, Writer: patient{p.stdin.ours}, MaxLineLength: maxAnswer + 1}
	return &way{transport: t, stop: stop, complaint: p.complaintText, printed: p.describeSkipped}, nil
}

func startConfined(ctx context.Context, confined *process.Sandbox, s toolserver.Server, o Options, program, home string) error {
	own, err := sandbox.ProgramFiles(program)
	if err != nil {
		return err
	}
	policy := sandbox.Policy{
		Read:  slices.Concat(process.SystemFiles(), own, s.Read),
		Write: []string{home}, Devices: process.Devices(), ConnectPorts: s.Ports, Network: true,
		MaxFileBytes: maxFile, MaxOpenFiles: maxFiles, Unconfined: o.Unconfined,
	}
	env := []string{"PATH=" + filepath.Dir(program) + ":/usr/local/bin:/usr/bin:/bin", "HOME=" + home, "TMPDIR=" + home, "LANG=C.UTF-8"}
	for _, name := range s.Env {
		env = append(env, name+"="+o.Variables[name])
	}
	command := sandbox.Command{Argv: append([]string{program}, s.Command[1:]...), Env: env, Dir: home}
	return confined.Start(ctx, policy, command, func(held sandbox.Held) error { return o.acceptLayers(s.Name, held.Layers) })
}

// acceptLayers refuses to start a server's command below the floor, and notes what else it
// runs without.
func (o Options) acceptLayers(server string, layers []string) error {
	if o.Unconfined {
		return nil
	}
	if missing := process.Floor(layers); len(missing) > 0 {
		return nightcrier.Errorf(nightcrier.Refused, "this machine does not grant %s, without which no tool server is started", strings.Join(missing, ", "))
	}
	var open []string // of what a command can have; it shares the machine's network
	for _, l := range process.Strict(layers) {
		if slices.Contains([]string{process.LayerNet, process.LayerScope, process.LayerMemory, process.LayerPIDs}, l) {
			open = append(open, l)
		}
	}
	if len(open) > 0 {
		o.Note("the command of tool server " + server + " runs without " + strings.Join(open, ", ") + ": this machine does not grant them")
	}
	return nil
}

// findProgram finds a program and follows its links: the link may lie where the sandbox
// lets nothing be read.
func findProgram(command string) (string, error) {
	path, err := exec.LookPath(command)
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return "", nightcrier.Errorf(nightcrier.Invalid, "%s: %w", command, err)
	}
	return path, nil
}

// patient gives up on a command that does not listen.
type patient struct{ *os.File }

const listenTime = 10 * time.Second

// Write implements io.Writer.
func (p patient) Write(b []byte) (int, error) {
	if err := p.SetWriteDeadline(time.Now().Add(listenTime)); err != nil {
		return 0, err
	}
	return p.File.Write(b)
}

// pipe has an end for us and one for the command.
type pipe struct{ ours, theirs *os.File }

type pipes struct {
	stdin, stdout, stderr pipe
	out                   *messages // of stdout
	last                  *tail
	heard                 chan struct{} // closed at stderr's end
	mask                  func([]byte) []byte
}

func newPipes(mask func([]byte) []byte) (*pipes, error) {
	p := &pipes{last: &tail{}, heard: make(chan struct{}), mask: mask}
	var errs [3]error
	p.stdin.theirs, p.stdin.ours, errs[0] = os.Pipe()
	p.stdout.ours, p.stdout.theirs, errs[1] = os.Pipe()
	p.stderr.ours, p.stderr.theirs, errs[2] = os.Pipe()
	if err := errors.Join(errs[:]...); err != nil {
		p.closeOurs()
		return nil, nightcrier.Errorf(nightcrier.Exhausted, "pipes for a tool server: %w", err)
	}
	p.out = newMessages(&bounding{ReadCloser: p.stdout.ours, left: maxStream})
	go func() {
		defer close(p.heard)
		_, _ = io.Copy(p.last, p.stderr.ours) // until it is closed
	}()
	return p, nil
}

// closeTheirs gives up the command's ends.
func (p *pipes) closeTheirs() {
	for _, f := range []*os.File{p.stdin.theirs, p.stdout.theirs, p.stderr.theirs} {
		f.Close()
	}
}

// hearOut waits until all is read that a command said which is gone.
func (p *pipes) hearOut() {
	late, cancel := context.WithTimeout(context.Background(), farewell)
	defer cancel()
	for _, end := range []chan struct{}{p.heard, p.out.ended} {
		select {
		case <-end:
		case <-late.Done(): // something else holds its streams open
		}
	}
}

func (p *pipes) close() {
	p.closeOurs()
	<-p.heard
	<-p.out.ended
}

func (p *pipes) closeOurs() {
	for _, f := range []*os.File{p.stdin.ours, p.stdout.ours, p.stderr.ours} {
		if f != nil {
			f.Close()
		}
	}
}

// describeSkipped says what the command printed on stdout among its messages, masked.
func (p *pipes) describeSkipped() string { return p.out.describeSkipped(p.mask) }

// complaintText is what the command printed on stdout among its messages and said last on
// stderr, masked.
func (p *pipes) complaintText() (all string) {
	if said := p.describeSkipped(); said != "" {
		all = "; it printed " + said
	}
	if said := p.last.masked(p.mask); said != "" {
		all += "; it said: " + said
	}
	return all
}

// tail keeps the end of what is written to it.
type tail struct {
	mu  sync.Mutex
	end []byte
}

const (
	maxTail = 4 << 10 // is kept, and masked
	maxSaid = 512     // of it is shown
)

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.end = append(t.end, p...)
	t.end = slices.Clone(t.end[max(0, len(t.end)-maxTail):])
	return len(p), nil
}

func (t *tail) masked(mask func([]byte) []byte) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	said := string(mask(t.end))
	return strings.TrimSpace(text.MarkHidden(said[max(0, len(said)-maxSaid):]))
}
