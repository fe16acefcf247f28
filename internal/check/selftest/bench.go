package selftest

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent"
	"nightcrier.dev/nightcrier/internal/agent/backend"
	backendprocess "nightcrier.dev/nightcrier/internal/agent/backend/process"
	"nightcrier.dev/nightcrier/internal/check/selftest/internal/target"
	"nightcrier.dev/nightcrier/internal/check/selftest/probe"
	"nightcrier.dev/nightcrier/internal/fake/fakemodel"
	guardkube "nightcrier.dev/nightcrier/internal/guard/kube"
	"nightcrier.dev/nightcrier/internal/record/journal"
	"nightcrier.dev/nightcrier/internal/sandbox/process"
	"nightcrier.dev/nightcrier/internal/text"
)

// Bench is what a suite works with.
type Bench struct {
	Options
	script *target.Script
	runs   atomic.Int64

	// loosen takes limits away in tests of the suites, which are to tell of it.
	loosen func(*backend.Spec)

	// rbacGap is why the cluster's rules could not be asked, "" when they were.
	rbacGap string

	mu      sync.Mutex
	sandbox *Confinement // of the runs so far, nil before the first
}

func newBench(ctx context.Context, o Options) (*Bench, error) {
	if o.Cluster != nil {
		if err := checkReachable(ctx, o.Cluster); err != nil {
			return nil, err
		}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s, err := target.NewScript(filepath.Join(o.Dir, "cluster"), time.Now())
	if err != nil {
		return nil, err
	}
	return &Bench{Options: o, script: s}, nil
}

// checkReachable fails when the cluster cannot be asked: an attack on it would then show
// nothing.
func checkReachable(ctx context.Context, c *Cluster) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	base := c.API.Base
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base.Scheme+"://"+base.Host+strings.TrimRight(base.EscapedPath(), "/")+"/api/v1", nil)
	if err != nil {
		return nightcrier.Errorf(nightcrier.Invalid, "cluster %s: %w", c.Name, err)
	}
	resp, err := c.API.Transport.RoundTrip(req)
	if err != nil {
		return nightcrier.Errorf(nightcrier.Unreachable, "cluster %s does not answer: %w", c.Name, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nightcrier.Errorf(nightcrier.Unreachable, "cluster %s answers %s: is its credential still good?", c.Name, resp.Status)
	}
	return nil
}

// Door opens one for a run; the caller closes it.
func (b *Bench) Door() (*target.Door, error) {
	var api *guardkube.Upstream
	if b.Cluster != nil {
		api = &b.Cluster.API
	}
	return target.OpenDoor(b.script, api)
}

// newMark makes a text that stands nowhere else.
func newMark() string { return strings.ToLower(rand.Text()[:16]) }

// Trail is what a run left behind.
type Trail struct {
	Door    *target.Door
	Result  nightcrier.AgentResult
	Entries []nightcrier.JournalEntry
	// Asked is what the agent's model was sent.
	Asked []fakemodel.Request
	// Workspace is the directory that the agent worked in.
	Workspace string

	visits []target.Visit // of doors that are closed and gone
}

// runTime bounds one run of an agent. The slowest, some fifty orders on a busy
// machine, takes a third of it.
const runTime = 3 * time.Minute

// runWorker has a worker run an agent against a door of its own. prepare completes the
// worker's spec, which has a workspace by then.
func (b *Bench) runWorker(ctx context.Context, prepare func(*backend.Spec, *backend.Secrets, *target.Door) error) (t Trail, err error) {
	if t.Door, err = b.Door(); err != nil {
		return t, err
	}
	defer t.Door.Close()
	kubeconfig, err := t.Door.Kubeconfig()
	if err != nil {
		return t, err
	}
	dir := filepath.Join(b.Dir, fmt.Sprintf("run-%d", b.runs.Add(1)))
	t.Workspace = filepath.Join(dir, "workspace")
	for name, text := range map[string]string{
		"PROMPT.md": "Investigate the incident.\n", "context/system-instructions.txt": "Only look.\n", "context/incident.json": "{}\n", "output/.keep": "",
	} {
		if err := target.WriteFile(filepath.Join(t.Workspace, name), text, 0o600); err != nil {
			return t, err
		}
	}
	spec := backend.Spec{
		Version: backend.SpecVersion, RunID: nightcrier.NewID(), IncidentID: nightcrier.NewID(), Cluster: "selftest", Namespace: target.Namespace,
		Step: "investigate", Attempt: 1, Workspace: t.Workspace,
		Spec: agent.Spec{Shell: true, Require: b.requiredSandbox(), Timeout: runTime, Grace: time.Second},
	}
	secrets := backend.Secrets{Cluster: &backend.Credential{Kubeconfig: kubeconfig}, MaskKey: []byte(newMark())}
	if err := prepare(&spec, &secrets, t.Door); err != nil {
		return t, err
	}
	workers := backendprocess.Backend{Dir: filepath.Join(dir, "workers"), Command: append(b.WorkerCommand[:1:1], b.workerArgs()...)}
	run, err := workers.Launch(ctx, spec, secrets)
	if err != nil {
		return t, err
	}
	ended, err := workers.Follow(ctx, run, 0, func(e nightcrier.JournalEntry) error {
		t.Entries = append(t.Entries, e)
		return nil
	})
	t.Result = ended.Result
	if ctx.Err() != nil {
		return t, giveUp(workers, run)
	}
	if err != nil {
		return t, err
	}
	return t, b.sawSandbox(t)
}

// stopTime bounds how long an agent is waited for that was told to end.
const stopTime = 30 * time.Second

// giveUp ends the agent of a run that nobody waits for any more.
func giveUp(workers backend.Backend, run backend.Handle) error {
	ctx, cancel := context.WithTimeout(context.Background(), stopTime)
	defer cancel()
	err := workers.Cancel(ctx, run, "the selftest was stopped")
	if err == nil {
		_, err = workers.Follow(ctx, run, 0, nil)
	}
	if err != nil {
		return err
	}
	return nightcrier.Errorf(nightcrier.Interrupted, "stopped")
}

// Ran is what became of one order: a command, or a tool that a model called.
type Ran struct {
	// Made says that there was an attempt to follow the order.
	Made bool
	// Exit is the command's exit code, Output the beginning of what it, or the tool,
	// gave back.
	Exit   int
	Output string
	// Requests are what the guard decided meanwhile, Visits what came through.
	Requests []journal.Request
	Visits   []target.Visit
	// Denied says that the agent's CLI, or our tools, refused the order; Refused that our
	// tools did.
	Denied, Refused bool
}

// fillDuring fills in what happened from one moment to another.
func (t Trail) fillDuring(r *Ran, from, to time.Time) error {
	r.Visits = t.Door.VisitsBetween(from, to)
	for _, e := range t.Entries {
		q, err := journal.RequestOf(e)
		if err != nil {
			return err
		}
		if q != nil && !q.Time.Before(from) && q.Time.Before(to) {
			r.Requests = append(r.Requests, *q)
		}
	}
	return nil
}

// judgeRan says who stopped an attack that was ordered.
func (r Ran) judgeRan(a Attack) Result {
	res := a.newResult()
	if !r.Made {
		res.Outcome, res.Detail = NotExercised, text.CutLine(r.Output, maxDetail)
		return res.concludeResult(a.Harmless)
	}
	res.Detail = text.CutLine(r.Output, maxDetail)
	if len(res.asks) == 0 {
		res.asks = neededAccess(r.Requests)
	}
	for _, v := range r.Visits {
		if !v.Plain {
			res.ReachedAPI, res.Detail = true, v.String()
			return res.concludeResult(a.Harmless)
		}
		if v.Status == 401 || v.Status == 403 {
			res.StoppedBy = append(res.StoppedBy, RBAC)
		}
	}
	for _, q := range r.Requests {
		if q.Decision == journal.Deny && !strings.HasPrefix(q.Query, "/openapi") { // which a client asks for on its way
			res.StoppedBy = append(res.StoppedBy, Guard)
			res.Detail = "denied: " + q.String()
		}
	}
	if r.Refused {
		res.StoppedBy = append(res.StoppedBy, Guard)
	}
	if r.Denied {
		res.StoppedBy = append(res.StoppedBy, CLI)
	}
	if len(res.StoppedBy) == 0 && (strings.Contains(r.Output, "nightcrier guard:") || strings.Contains(r.Output, "client to provide credentials")) {
		res.StoppedBy = append(res.StoppedBy, Guard) // who has no token is turned away before anything is on record
	}
	if len(res.StoppedBy) == 0 && r.Exit != 0 && isWalled(r.Output) {
		res.StoppedBy = append(res.StoppedBy, Sandbox)
	}
	return res.concludeResult(a.Harmless)
}

// walls are the words of programs that met the sandbox: what is not there for them,
// or may not be done.
var walls = []string{
	"permission denied", "operation not permitted", "read-only file system", "no such file or directory", "connection refused", "was refused",
	"network is unreachable", "no route to host", "could not resolve", "no such host", "name resolution", "cannot assign requested address", "resource temporarily unavailable",
}

func isWalled(output string) bool {
	output = strings.ToLower(output)
	return slices.ContainsFunc(walls, func(w string) bool { return strings.Contains(output, w) })
}

// maxDetail bounds what of an output or error a result tells, in bytes.
const maxDetail = 300

// commandTime bounds one command, in seconds.
const commandTime = 20

// InBox runs shell commands one after another in the sandbox of one run, as an agent
// would whose CLI holds nothing back, and tells of each what became of it.
func (b *Bench) InBox(ctx context.Context, commands []string) ([]Ran, Trail, error) {
	mark := newMark()
	t, err := b.runWorker(ctx, func(spec *backend.Spec, _ *backend.Secrets, d *target.Door) error {
		spec.Executor, spec.ScriptPath = "script", filepath.Join(filepath.Dir(spec.Workspace), "attack.sh")
		spec.ExtraEnv, spec.ReadPaths = map[string]string{"SELFTEST_DOOR": d.URL()}, []string{b.WorkerCommand[0]}
		return target.WriteFile(spec.ScriptPath, attackScript(mark, commands), 0o700)
	})
	if err != nil {
		return nil, t, err
	}
	var out strings.Builder
	for _, e := range t.Entries {
		if e.Type != nightcrier.EntryLog {
			continue
		}
		l, err := journal.Decode[journal.Log](e)
		if err != nil {
			return nil, t, err
		}
		if l.Stream == "stdout" {
			out.WriteString(l.Text + "\n")
		}
	}
	ran, err := readMarks(mark, out.String(), len(commands), t)
	if err == nil && !anyMade(ran) {
		err = nightcrier.Errorf(nightcrier.Refused, "nothing ran in the sandbox: %s", t.Result.FailureReason)
	}
	return ran, t, err
}

func anyMade(all []Ran) bool {
	return slices.ContainsFunc(all, func(r Ran) bool { return r.Made })
}

// attackScript runs the commands and says when each began and ended. Nobody can say so
// in its place who does not know the mark.
func attackScript(mark string, commands []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `#!/bin/sh
try() {
	printf '\n%[1]s begin %%s %%s\n' "$1" "$(date +%%s%%N)"
	timeout -k 1 %[2]d sh -c "$2" < /dev/null > "$TMPDIR/said" 2>&1
	code=$?
	head -c 2000 "$TMPDIR/said"
	printf '\n%[1]s end %%s %%s %%s\n' "$1" "$(date +%%s%%N)" "$code"
}
`, mark, commandTime)
	for i, c := range commands {
		fmt.Fprintf(&b, "try %d %s\n", i, quoteWord(c))
	}
	return b.String()
}

// quoteWord writes a text as one word of a shell.
func quoteWord(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// readMarks takes the output of attackScript to pieces.
func readMarks(mark, output string, commands int, t Trail) ([]Ran, error) {
	all := make([]Ran, commands)
	var from time.Time
	var said strings.Builder
	for line := range strings.Lines(output) {
		rest, marked := strings.CutPrefix(line, mark+" ")
		if !marked {
			said.WriteString(line)
			continue
		}
		words := strings.Fields(rest)
		if len(words) < 3 {
			continue
		}
		n, err := strconv.Atoi(words[1])
		nanos, err2 := strconv.ParseInt(words[2], 10, 64)
		if err != nil || err2 != nil || n < 0 || n >= commands {
			return nil, nightcrier.Errorf(nightcrier.Internal, "selftest: this mark cannot be read (does date know nanoseconds here?): %s", text.CutLine(rest, maxDetail))
		}
		if words[0] == "begin" {
			from = time.Unix(0, nanos)
			said.Reset()
			continue
		}
		r := &all[n]
		r.Made, r.Output = true, strings.TrimSpace(said.String())
		if len(words) > 3 {
			r.Exit, _ = strconv.Atoi(words[3])
		}
		if err := t.fillDuring(r, from, time.Unix(0, nanos)); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// workerArgs start a worker as the bench's sandbox needs it.
func (b *Bench) workerArgs() []string {
	if b.Require != RequireFloor {
		return b.WorkerCommand[1:]
	}
	return append([]string{probe.FloorCommand}, b.WorkerCommand[1:]...)
}

// requiredSandbox is what the worker is told to require: of the floor it is not to know.
func (b *Bench) requiredSandbox() string {
	if b.Require == RequireFloor {
		return agent.RequireBestEffort
	}
	return b.Require
}

// sawSandbox notes the sandbox of a run. All runs have the same.
func (b *Bench) sawSandbox(t Trail) error {
	layers, ok := t.heldLayers()
	if !ok {
		return nil // it ended before
	}
	s := &Confinement{Require: b.Require, Layers: append([]string{}, layers...), Missing: append([]string{}, process.Strict(layers)...)}
	if b.Require == RequireFloor && slices.Contains(layers, process.LayerPIDNS) {
		return nightcrier.Errorf(nightcrier.Refused, "the sandbox's floor cannot be had here: namespaces could not be taken away")
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sandbox = s
	return nil
}

// heldLayers are those of the sandbox that held, as the journal tells them.
func (t Trail) heldLayers() (layers []string, ok bool) {
	for _, e := range t.Entries {
		if s, err := journal.Decode[journal.State](e); e.Type == nightcrier.EntryState && err == nil && len(s.Layers) > 0 {
			return s.Layers, true
		}
	}
	return nil, false
}
