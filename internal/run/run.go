package run

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent"
	"nightcrier.dev/nightcrier/internal/agent/backend"
	"nightcrier.dev/nightcrier/internal/mask"
	"nightcrier.dev/nightcrier/internal/record/audit"
	"nightcrier.dev/nightcrier/internal/record/store"
	"nightcrier.dev/nightcrier/internal/record/workspace"
	"nightcrier.dev/nightcrier/internal/run/engine"
)

// Workflow is the name of the workflow in the engine that executes a pipeline. The engine finds a
// run's checkpoints by the order in which they are made. Once released, a change of that order
// needs a new name, and the code before it stays as long as a run that it began may go on.
const Workflow = "run/1"

// maxAttempts is how often an agent is tried at its work, and retryPause what
// lies between.
const (
	maxAttempts = 2
	retryPause  = 30 * time.Second
)

// Builtin is the executor that needs no agent: the facts are the report.
const Builtin = "builtin"

// Workers run agents, and outlive the server; package agent/backend has the contract.
type Workers interface {
	// Launch hands over the credential of the cluster, nil for none, and what was learned of
	// the run's secrets, sealed.
	Launch(ctx context.Context, spec backend.Spec, cluster *backend.Credential, learned []byte) (backend.Handle, error)
	Follow(ctx context.Context, h backend.Handle, from int64, fn func(nightcrier.JournalEntry) error) (backend.Ended, error)
	Cancel(ctx context.Context, h backend.Handle, cause string) error
	// List returns the workers of this server.
	List(ctx context.Context) ([]backend.Owned, error)
}

// Supervisor is whom runs answer to: what they may spend, and how they went.
type Supervisor interface {
	// Afford returns why an agent is not asked at all: an error of code Exhausted where
	// nothing is left to spend on it, another where that is not known.
	Afford(o Order, step, cluster string) error
	// Spent is what a run spent on models in all its steps, in dollars, also in attempts that
	// did not live to tell.
	Spent(o Order) (float64, error)
	// Learn is told how an executor did, before the run's lease goes.
	Learn(ctx context.Context, executor string, res nightcrier.AgentResult) error
	// Ended is told each run that has ended, and what was asked of the cluster in it.
	Ended(run nightcrier.Run, inc nightcrier.Incident, res nightcrier.AgentResult, asked audit.Summary)
	// Tell has people told of a run that has ended, as its pipeline wishes, each once.
	Tell(ctx context.Context, o Order) error
	// Ask has people told that they are asked, each once. It goes on where it stopped when it is
	// called again, and says in the log what becomes of it.
	Ask(ctx context.Context, a nightcrier.Approval)
	// Journaled is told each entry of a run's journal after it is stored.
	Journaled(e nightcrier.JournalEntry)
}

// Clusters is how an agent reaches the cluster of its run.
type Clusters interface {
	// Names are those of the clusters that are configured.
	Names() []string
	// Access returns the credential that the guard of an agent shall hold, or nil and why
	// the agent shall look without one.
	Access(ctx context.Context, cluster, namespace string) (cred *backend.Credential, why string)
}

// Config is what a Runner works with.
type Config struct {
	Store    *store.Store
	Root     *workspace.Root
	Workers  Workers
	Clusters Clusters
	// Actions are the steps of ours, by their names.
	Actions map[string]Action
	// Skills makes agents ready for theirs.
	Skills Skills
	// Report is what the agent of an investigation delivers.
	Report Deliverable
	// Mask hides the secrets that we hold. Each run has one of its own that learns.
	Mask       *mask.Masker
	Supervisor Supervisor
	// BudgetDir has the record of what is spent on models; empty is BudgetDir below Root.
	BudgetDir string
	Logger    *slog.Logger
	Now       func() time.Time
	// Agents is how many agents of all runs work at once, 0 for any number.
	Agents int
	// RetryPause replaces the pause before a second attempt, when positive.
	RetryPause time.Duration
}

// Runner executes runs.
type Runner struct {
	cfg   Config
	seats *seats

	mu      sync.Mutex
	cancels map[string]chan struct{} // run id → closed when its cancellation was asked for
	masks   map[string]*mask.Masker  // run id → what masks all that is said of it
}

// New returns a Runner.
func New(cfg Config) *Runner {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.RetryPause <= 0 {
		cfg.RetryPause = retryPause
	}
	if cfg.BudgetDir == "" && cfg.Root != nil {
		cfg.BudgetDir = filepath.Join(cfg.Root.Path(), BudgetDir)
	}
	return &Runner{cfg: cfg, seats: &seats{all: cfg.Agents, waits: map[string]int{}}, cancels: map[string]chan struct{}{}, masks: map[string]*mask.Masker{}}
}

// Register has an engine execute runs.
func (r *Runner) Register(e *engine.Engine) {
	e.Register(Workflow, r.executeRun)
	e.Register(BranchWorkflow, r.executeBranch)
}

// executeRun is Workflow. The id is the run's.
func (r *Runner) executeRun(ctx engine.Context, id string, input []byte) error {
	defer r.forgetCancel(id)
	defer r.forgetMask(id)
	o, err := readOrder(input)
	var w *Work
	if err == nil {
		w, err = r.newWork(ctx, o)
	}
	if err == nil {
		err = w.doPipeline()
	}
	if err == nil || ctx.Err() != nil {
		return err
	}
	// A step was given up, or a checkpoint is refused. The run must end all the
	// same: its lease goes only so. No checkpoint is asked for; both may be repeated.
	whole := o
	unread := engine.Insist(ctx, "read the run", func(c context.Context) (err error) { o, err = r.bareOrder(c, id); return err })
	ended := engine.Insist(ctx, "abandon", func(c context.Context) error { return r.abandonRun(c, o, err) })
	told := r.tellAbandoned(ctx, o)
	o.Pipeline = whole.Pipeline
	return errors.Join(err, unread, ended, told, (&Work{frozen: o, runner: r, ctx: ctx, unrecorded: true}).tellEnd())
}

// newWork begins with the work on a run, or goes on with it.
func (r *Runner) newWork(ctx engine.Context, o Order) (*Work, error) {
	if o.Unready != "" {
		return nil, nightcrier.Errorf(nightcrier.Invalid, "%s", o.Unready)
	}
	input, err := o.Pipeline.Definition.ReadInput(o.Input)
	if err != nil {
		return nil, err
	}
	w := &Work{Order: o, Result: nightcrier.AgentResult{State: nightcrier.StateCreated}, runner: r, ctx: ctx, frozen: o, input: input, done: map[string]nightcrier.Step{}, resumed: true}
	for _, s := range o.Delivered {
		w.done[s.ID] = s
		if !isAction(s) {
			w.Result = nightcrier.AgentResult{State: s.State, FailureClass: s.FailureClass, FailureReason: s.FailureReason, StartedAt: s.StartedAt, EndedAt: s.EndedAt}
		}
	}
	return w, nil
}

// tellAbandoned has the actions that are due after the end of a run done, without checkpoints.
func (r *Runner) tellAbandoned(ctx engine.Context, o Order) (failed error) {
	for _, name := range slices.Sorted(maps.Keys(r.cfg.Actions)) {
		if a := r.cfg.Actions[name]; a.Due() == AfterEnd {
			w := &Work{Order: o, frozen: o, runner: r, ctx: ctx, begun: true, ended: true, unrecorded: true, place: place{step: name}}
			_, err := a.Do(w)
			failed = errors.Join(failed, err)
		}
	}
	return failed
}

// bareOrder is as much of an order as it takes to end its run.
func (r *Runner) bareOrder(ctx context.Context, id string) (Order, error) {
	run, err := r.cfg.Store.Run(ctx, id)
	return Order{RunID: id, Subject: run.Subject, Agent: agent.Spec{Executor: run.Executor}}, err
}

// abandonRun ends a run one of whose steps can never be done. Its agents, if any,
// are verified gone first.
func (r *Runner) abandonRun(ctx context.Context, o Order, why error) error {
	err := r.eachWorker(ctx, o.RunID, func(w backend.Owned) error {
		if w.Alive {
			if err := r.cfg.Workers.Cancel(ctx, w.Handle, "the run was given up"); err != nil {
				return err
			}
		}
		ended, err := r.cfg.Workers.Follow(ctx, w.Handle, 0, nil)
		if nightcrier.CodeOf(err) == nightcrier.NotFound {
			return nil // it was never started
		}
		if err == nil {
			r.learnFrom(r.maskerFor(o.RunID), ended)
		}
		return err
	})
	if err != nil {
		return err
	}
	s, err := r.OpenSession(ctx, o)
	if err != nil {
		return err
	}
	defer s.Close()
	class := ClassOf(why, nightcrier.FailInternal)
	return s.finishRun(ctx, Outcome{Status: nightcrier.Failed, State: nightcrier.StateFailed, Reason: why.Error(), Class: class, Result: FailedResult(class, why)})
}

// eachWorker calls fn for the workers of a run.
func (r *Runner) eachWorker(ctx context.Context, runID string, fn func(backend.Owned) error) error {
	all, err := r.cfg.Workers.List(ctx)
	for _, w := range all {
		if w.RunID == runID {
			err = errors.Join(err, fn(w))
		}
	}
	return err
}

// Cancel tells a run of this process that its cancellation was recorded.
func (r *Runner) Cancel(runID string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-r.cancelChannel(runID):
	default:
		close(r.cancelChannel(runID))
	}
}

// cancelChannel returns the run's channel. The caller holds mu.
func (r *Runner) cancelChannel(runID string) chan struct{} {
	ch := r.cancels[runID]
	if ch == nil {
		ch = make(chan struct{})
		r.cancels[runID] = ch
	}
	return ch
}

func (r *Runner) cancelSignal(runID string) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.cancelChannel(runID)
}

func (r *Runner) forgetCancel(runID string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.cancels, runID)
}

// loggerFor returns the logger of a run.
func (r *Runner) loggerFor(o Order, inc nightcrier.Incident) *slog.Logger {
	if inc.ID == "" {
		return r.cfg.Logger.With("component", "run", "run", o.RunID, "pipeline", o.Pipeline.Definition.Name)
	}
	return r.cfg.Logger.With("component", "run", "incident_id", inc.ID, "cluster", inc.Cluster)
}
