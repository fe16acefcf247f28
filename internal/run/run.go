package run

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"path/filepath"
	"strconv"
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

// Pipeline is the name of the embedded pipeline.
const Pipeline = "k8s-incident-triage"

// Workflow is the name of the pipeline's workflow in the engine, which finds a run's
// checkpoints by the order of its steps. Once released, a change of the steps below needs a
// new name, and the steps before it stay as long as a run that they began may go on.
const Workflow = Pipeline + "/1"

// maxAttempts is how often an agent is tried at its investigation, and retryPause what
// lies between.
const (
	maxAttempts = 2
	retryPause  = 30 * time.Second
)

// Builtin is the executor that needs no agent: the facts are the report.
const Builtin = "builtin"

// step is the name of the agent step in the journal.
const step = "investigate"

// Order is a run's frozen input: what was configured when it was admitted. A
// later configuration does not change a run under way.
type Order struct {
	RunID      string `json:"runId"`
	IncidentID string `json:"incidentId"`
	// Agent is how the agent of the run is started and bounded. Its credentials are no part
	// of it; they are taken when its worker starts.
	Agent agent.Spec `json:"agent"`
}

// Executor returns what is known of the agent; of the built-in rules, nothing that matters here.
func (o Order) Executor() (agent.Executor, error) {
	if o.Agent.Executor == Builtin {
		return agent.Executor{}, nil
	}
	who, err := agent.For(o.Agent.Executor)
	if err == nil && !o.Agent.Shell {
		who, err = who.WithoutShell()
	}
	return who, err
}

// readOrder reads an order from a checkpoint. What this program does not know in it might be a
// bound that it would not keep.
func readOrder(input []byte) (o Order, err error) {
	dec := json.NewDecoder(bytes.NewReader(input))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&o); err != nil {
		return o, nightcrier.Errorf(nightcrier.Internal, "run: the order was written by another version of this program and cannot be read (%w): retry the incident, which writes a new one", err)
	}
	return o, nil
}

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
	Afford(o Order, cluster string) error
	// Spent is what a run spent on models in all, in dollars, also in attempts that did
	// not live to tell.
	Spent(o Order, cluster string) (float64, error)
	// Learn is told how an executor did, before the run's lease goes.
	Learn(ctx context.Context, executor string, res nightcrier.AgentResult) error
	// Ended is told each run that has ended, and what was asked of the cluster in it.
	Ended(run nightcrier.Run, inc nightcrier.Incident, res nightcrier.AgentResult, asked audit.Summary)
	// Journaled is told each entry of a run's journal after it is stored.
	Journaled(e nightcrier.JournalEntry)
}

// Clusters is how an agent reaches the cluster of its run.
type Clusters interface {
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
	// Report is what the agent of an investigation delivers.
	Report Deliverable
	// Mask hides the secrets that we hold. Each run has one of its own that learns.
	Mask       *mask.Masker
	Supervisor Supervisor
	// BudgetDir has the record of what is spent on models; empty is BudgetDir below Root.
	BudgetDir string
	Logger    *slog.Logger
	Now       func() time.Time
	// RetryPause replaces the pause before a second attempt, when positive.
	RetryPause time.Duration
}

// Runner executes investigations.
type Runner struct {
	cfg Config

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
	return &Runner{cfg: cfg, cancels: map[string]chan struct{}{}, masks: map[string]*mask.Masker{}}
}

// Execute is Workflow. The id is the run's.
func (r *Runner) Execute(ctx engine.Context, id string, input []byte) error {
	defer r.forgetCancel(id)
	defer r.forgetMask(id)
	o, err := readOrder(input)
	w := &Work{Order: o, runner: r, ctx: ctx, resumed: true}
	if err == nil {
		err = w.doSteps()
	} else {
		err = errors.Join(err, engine.Insist(ctx, "read the run", func(c context.Context) (err error) { w.Order, err = r.bareOrder(c, id); return err }))
	}
	if err == nil || ctx.Err() != nil {
		return err
	}
	// A step was given up, or a checkpoint is refused. The run must end all the
	// same: its lease goes only so. No checkpoint is asked for; both may be repeated.
	w.unrecorded, w.begun = true, true
	ended := engine.Insist(ctx, "abandon", func(c context.Context) error { return r.abandonRun(c, w.Order, err) })
	_, told := w.act(Notify)
	return errors.Join(err, ended, told)
}

// bareOrder is as much of an order as it takes to end its run.
func (r *Runner) bareOrder(ctx context.Context, id string) (Order, error) {
	run, err := r.cfg.Store.Run(ctx, id)
	return Order{RunID: id, IncidentID: run.IncidentID(), Agent: agent.Spec{Executor: run.Executor}}, err
}

// The actions of an investigation.
const (
	Collect = "collect"
	Check   = "check"
	Notify  = "notify"
)

// doSteps does the steps of the run, one after the other.
func (w *Work) doSteps() error {
	if _, err := w.act(Collect); err != nil {
		return err
	}
	if w.resumed {
		w.runner.recallLearned(w.ctx, w.Order.RunID)
	}
	if !w.Result.State.Terminal() {
		if err := w.runAgent(); err != nil {
			return err
		}
	}
	done, err := w.act(Check)
	if err != nil {
		return err
	}
	if _, err = Checkpoint(w, "finish", func(c context.Context, s *Session) (bool, error) { return true, s.finishRun(c, *done.Outcome) }); err != nil {
		return err
	}
	_, err = w.act(Notify)
	return err
}

// act does a step of ours.
func (w *Work) act(name string) (Done, error) {
	done, err := w.runner.cfg.Actions[name].Do(w)
	if err == nil {
		w.Result = done.Result
	}
	return done, err
}

// runAgent has the agent do its work, and asks it again for what lacks something. The result's
// usage is that of all of it.
func (w *Work) runAgent() (err error) {
	res, before, err := w.runAttempts()
	if err == nil {
		res, w.Review, err = w.repairDeliverable(w.runner.cfg.Report, res)
	}
	res.Usage = before.Plus(res.Usage)
	w.Result = res
	return err
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
	return s.finishRun(ctx, Outcome{Status: nightcrier.Failed, Reason: why.Error(), Class: class, Result: FailedResult(class, why)})
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

// runAttempts runs the agent, a second time where the failure says that it may help.
// It returns what the attempts before the last one used besides.
func (w *Work) runAttempts() (res nightcrier.AgentResult, before nightcrier.Usage, err error) {
	for n := 1; n <= maxAttempts; n++ {
		if n > 1 {
			before = before.Plus(res.Usage)
			if err := w.runner.pauseBeforeRetry(w.ctx, w.Order); err != nil {
				return res, before, err
			}
		}
		if res, err = w.runAttempt(firstAttempt(n)); err != nil || !res.FailureClass.Retryable() {
			break
		}
	}
	return res, before, err
}

// pauseBeforeRetry waits before the next attempt. Whoever cancels meanwhile is heard at once: the
// attempt then ends the run instead of starting an agent, and its lease is free.
func (r *Runner) pauseBeforeRetry(ctx engine.Context, o Order) error {
	listen, stop := context.WithCancel(ctx)
	defer stop()
	cancelled := make(chan struct{})
	go func() {
		if _, err := r.awaitCancel(listen, o.RunID); err == nil {
			close(cancelled)
		}
	}()
	return engine.Sleep(ctx, r.cfg.RetryPause, cancelled)
}

// runAttempt makes one try: a worker that is started and followed to its end.
func (w *Work) runAttempt(t try) (nightcrier.AgentResult, error) {
	suffix := "#" + strconv.Itoa(t.attempt)
	l, err := Checkpoint(w, "launch"+suffix, func(c context.Context, s *Session) (launched, error) { return s.launchWorker(c, t) })
	if err != nil || l.Result.State.Terminal() {
		return l.Result, err
	}
	return Checkpoint(w, "await"+suffix, func(c context.Context, s *Session) (nightcrier.AgentResult, error) {
		return s.awaitWorker(c, t, l.Handle)
	})
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
func (r *Runner) loggerFor(inc nightcrier.Incident) *slog.Logger {
	return r.cfg.Logger.With("component", "run", "incident_id", inc.ID, "cluster", inc.Cluster)
}
