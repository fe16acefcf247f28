package triage

import (
	"context"
	"encoding/json"
	"path"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent/skill"
	"nightcrier.dev/nightcrier/internal/guard/kept"
	"nightcrier.dev/nightcrier/internal/mask"
	"nightcrier.dev/nightcrier/internal/record/journal"
	"nightcrier.dev/nightcrier/internal/record/store"
	"nightcrier.dev/nightcrier/internal/record/workspace"
	"nightcrier.dev/nightcrier/internal/run"
	"nightcrier.dev/nightcrier/internal/run/pipeline"
	"nightcrier.dev/nightcrier/internal/triage/falsify"
	"nightcrier.dev/nightcrier/internal/triage/runbook"
)

// Clusters is how the clusters are reached that incidents are of.
type Clusters interface {
	run.Clusters
	// Look opens the cluster of a step of ours. What is asked of it goes through a guard,
	// which tells of each request before it goes out and after.
	Look(l Look) (View, error)
	// Context is the context of kubectl that leads people to a cluster, "" where none is
	// known.
	Context(cluster string) string
	// Labels are those of a cluster, as it is configured.
	Labels(cluster string) map[string]string
}

// Look is who looks into a cluster, and for what.
type Look struct {
	Cluster string
	RunID   string
	// Step is the run's: what it reads is kept under this name in the Workspace.
	Step      string
	Workspace *workspace.Workspace
	// Mask hides the secrets in what is read, and learns.
	Mask *mask.Masker
	// Audit is told of each request.
	Audit func(context.Context, journal.Request) error
}

// View is what a step sees of a cluster, until it is closed.
type View struct {
	// Cluster stands still: all of a step happens at its Now.
	kept.Cluster
	// Close keeps what was read.
	Close func() error
}

// Memory is what is known beside the cluster.
type Memory interface {
	// For finds what the people who run a system wrote for a case. The errors name what
	// could not be used; the rest was.
	For(ctx context.Context, c runbook.Case) ([]nightcrier.Runbook, []error)
	// Recall finds the newest earlier incident of the same fault that came to this
	// diagnosis. It is a NotFound error where there is none.
	Recall(ctx context.Context, incidentID string, cause nightcrier.RootCause) (store.Recollection, error)
}

// Triage is what the investigation of an incident is made of.
type Triage struct {
	Store    *store.Store
	Clusters Clusters
	Memory   Memory
	Skill    *skill.Skill
	// Include are skills that are installed beside it.
	Include []*skill.Skill
	// Announce tells people how an incident ended, once; the report is nil where there is
	// none.
	Announce func(ctx context.Context, inc nightcrier.Incident, rep *nightcrier.Report, runID string) error

	workers run.Workers
}

// AddTo makes a run able to investigate.
func (t *Triage) AddTo(c *run.Config) {
	c.Actions = map[string]run.Action{
		pipeline.ActionCollect: action{t.collect, run.UnlessStopped}, pipeline.ActionCheck: action{t.check, run.Always}, pipeline.ActionNotify: action{t.notify, run.AfterEnd},
		pipeline.ActionHealth: freeAction{t.lookAtHealth},
	}
	c.Report, c.Clusters, c.Skills, t.workers = reportContract{t}, t.Clusters, t, c.Workers
}

// action is a step of a triage.
type action struct {
	do  func(*run.Work) (run.Done, error)
	due run.Due
}

// Do implements run.Action.
func (a action) Do(w *run.Work) (run.Done, error) {
	if w.Order.IncidentID() == "" {
		return run.Done{Result: w.Result, Class: nightcrier.FailInternal, Reason: "the run is about no incident, and this is for one"}, nil
	}
	return a.do(w)
}

// Due implements run.Action.
func (a action) Due() run.Due { return a.due }

// freeAction is a step of runs about anything.
type freeAction struct {
	do func(*run.Work) (run.Done, error)
}

// Do implements run.Action.
func (a freeAction) Do(w *run.Work) (run.Done, error) { return a.do(w) }

// Due implements run.Action.
func (freeAction) Due() run.Due { return run.UnlessStopped }

// PrepareSkill implements run.Skills. Who investigates finds what the action collect made ready.
func (t *Triage) PrepareSkill(_ context.Context, s *run.Session, task run.Task) error {
	if path.Base(task.Step.Skill) != t.Skill.Name {
		return nightcrier.Errorf(nightcrier.NotFound, "step %s: the skill %s cannot be executed: this version executes %s alone", task.Step.ID, task.Step.Skill, t.Skill.Name)
	}
	if _, err := s.Workspace.ReadFile(run.SentFile); err != nil {
		return nightcrier.Errorf(nightcrier.Invalid, "step %s: nothing is there for the skill %s to work on: put action: collect before it (%w)", task.Step.ID, task.Step.Skill, err)
	}
	return nil
}

// session is a run in one of the steps of a triage.
type session struct {
	*run.Session
	*Triage
}

// checkpoint does a part of a step.
func checkpoint[T any](t *Triage, w *run.Work, name string, do func(context.Context, *session) (T, error)) (T, error) {
	return run.Checkpoint(w, name, func(c context.Context, s *run.Session) (T, error) { return do(c, &session{s, t}) })
}

// collect fills the workspace: the facts, the context, the prompt, the skill. Its result is
// terminal when no agent is to be started: the builtin executor has its report, the run was
// cancelled, or there is no workspace.
func (t *Triage) collect(w *run.Work) (done run.Done, err error) {
	done.Result, err = checkpoint(t, w, "prepare", func(c context.Context, s *session) (nightcrier.AgentResult, error) { return s.prepareRun(c) })
	if done.Result.State.Terminal() && done.Result.State != nightcrier.StateSuccess {
		done.Class, done.Reason = done.Result.FailureClass, done.Result.FailureReason
	}
	return done, err
}

// check runs the tests that the report names, and decides what the run comes to.
func (t *Triage) check(w *run.Work) (done run.Done, err error) {
	tests, err := checkpoint(t, w, "test", func(c context.Context, s *session) ([]falsify.Outcome, error) {
		return s.testHypotheses(c, w.Result, w.Review)
	})
	if err != nil {
		return done, err
	}
	out, err := checkpoint(t, w, "check", func(c context.Context, s *session) (run.Outcome, error) {
		return s.checkOutcome(c, w.Result, w.Review, tests)
	})
	return run.Done{Result: out.Result, Outcome: &out}, err
}

// notify tells people how the incident ended, once. A retried incident is announced again: the
// key is the run's.
func (t *Triage) notify(w *run.Work) (done run.Done, err error) {
	_, err = checkpoint(t, w, "notify", func(c context.Context, s *session) (bool, error) { return true, s.announceEnd(c) })
	return run.Done{Result: w.Result}, err
}

func (s *session) announceEnd(ctx context.Context) error {
	var rep *nightcrier.Report
	raw, err := s.Store.Report(ctx, s.Incident.ID)
	if err == nil {
		rep = &nightcrier.Report{}
		err = json.Unmarshal(raw, rep)
	}
	if code := nightcrier.CodeOf(err); err != nil && code != nightcrier.NotFound && code != nightcrier.NoReport {
		return err
	}
	return s.Announce(ctx, s.Incident, rep, s.Order.RunID)
}
