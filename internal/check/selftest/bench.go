package selftest

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent"
	"nightcrier.dev/nightcrier/internal/agent/backend"
	"nightcrier.dev/nightcrier/internal/agent/backend/process"
	"nightcrier.dev/nightcrier/internal/fake/fakemodel"
	"nightcrier.dev/nightcrier/internal/record/journal"
	"nightcrier.dev/nightcrier/internal/text"
)

// Bench is what a suite works with.
type Bench struct {
	Options
	script *script
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
	s, err := newScript(filepath.Join(o.Dir, "cluster"), time.Now())
	if err != nil {
		return nil, err
	}
	return &Bench{Options: o, script: s}, nil
}

// Door opens one for a run; the caller closes it.
func (b *Bench) Door() (*Door, error) { return openDoor(b.script, b.Cluster) }

// Trail is what a run left behind.
type Trail struct {
	Door    *Door
	Result  nightcrier.AgentResult
	Entries []nightcrier.JournalEntry
	// Asked is what the agent's model was sent.
	Asked []fakemodel.Request
	// Workspace is the directory that the agent worked in.
	Workspace string

	visits []Visit // of doors that are closed and gone
}

// runTime bounds one run of an agent. The slowest, some fifty orders on a busy
// machine, takes a third of it.
const runTime = 3 * time.Minute

// runWorker has a worker run an agent against a door of its own. prepare completes the
// worker's spec, which has a workspace by then.
func (b *Bench) runWorker(ctx context.Context, prepare func(*backend.Spec, *backend.Secrets, *Door) error) (t Trail, err error) {
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
		if err := writeFile(filepath.Join(t.Workspace, name), text, 0o600); err != nil {
			return t, err
		}
	}
	spec := backend.Spec{
		Version: backend.SpecVersion, RunID: nightcrier.NewID(), IncidentID: nightcrier.NewID(), Cluster: "selftest", Namespace: targetNamespace,
		Step: "investigate", Attempt: 1, Workspace: t.Workspace,
		Spec: agent.Spec{Shell: true, Require: b.requiredSandbox(), Timeout: runTime, Grace: time.Second},
	}
	secrets := backend.Secrets{Cluster: &backend.Credential{Kubeconfig: kubeconfig}, MaskKey: []byte(randomHex(16))}
	if err := prepare(&spec, &secrets, t.Door); err != nil {
		return t, err
	}
	workers := process.Backend{Dir: filepath.Join(dir, "workers"), Command: append(b.WorkerCommand[:1:1], b.workerArgs()...)}
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
	Visits   []Visit
	// Denied says that the agent's CLI, or our tools, refused the order; Refused that our
	// tools did.
	Denied, Refused bool
}

// fillDuring fills in what happened from one moment to another.
func (t Trail) fillDuring(r *Ran, from, to time.Time) error {
	r.Visits = t.Door.visitsBetween(from, to)
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
	for _, w := range walls {
		if strings.Contains(output, w) {
			return true
		}
	}
	return false
}

// maxDetail bounds what of an output or error a result tells, in bytes.
const maxDetail = 300
