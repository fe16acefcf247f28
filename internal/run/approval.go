package run

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/record/journal"
	"nightcrier.dev/nightcrier/internal/record/store"
	"nightcrier.dev/nightcrier/internal/run/engine"
	"nightcrier.dev/nightcrier/internal/run/pipeline"
	"nightcrier.dev/nightcrier/internal/text"
)

// People are who can be asked on behalf of a run: who may decide where a step does not say, how
// many have to agree, and for how long; 0 is for ever.
type People struct {
	Approvers []string      `json:"approvers,omitempty"`
	Needed    int           `json:"needed,omitempty"`
	Expires   time.Duration `json:"expires_ns,omitempty"`
}

// answered is what a step hands on that asked people.
type answered struct {
	ApprovalID string   `json:"approval_id"`
	Approved   bool     `json:"approved"`
	By         []string `json:"by"`
	Reason     string   `json:"reason,omitempty"`
}

// doApproval asks people, and succeeds when they agree.
func (w *Work) doApproval(step *pipeline.Step) error {
	d, scope := &w.frozen.Pipeline.Definition, w.scope(step)
	prompt, err := d.EvalPrompt(w.ctx, step, scope)
	var with map[string]any
	if err == nil {
		with, err = d.EvalWith(w.ctx, step, scope)
	}
	if err != nil {
		w.failStep(nightcrier.FailInternal, err.Error())
		return w.ctx.Err()
	}
	ask := question{Kind: nightcrier.ApproveStep, Prompt: prompt, People: People{step.Approval.Approvers, step.Approval.Needed, step.Approval.Expires}}
	if len(with) > 0 {
		ask.Arguments, _ = json.Marshal(with) // it was computed as JSON
	}
	a, err := w.askOne(ask)
	if err != nil || a.ID == "" {
		return err
	}
	by, reason := a.Deciders()
	w.row.Output, err = json.Marshal(answered{a.ID, a.Status == nightcrier.ApprovalGranted, by, reason})
	return err
}

// agreeTo asks people, where its skill says so, whether the agent of the step that is under way may
// begin, and reports whether it may.
func (w *Work) agreeTo(given map[string]any) (bool, error) {
	prompt := w.frozen.Pipeline.Skills[w.step.Skill].Approval
	if prompt == "" {
		return true, nil
	}
	ask := question{Kind: nightcrier.ApproveStep, Prompt: w.step.Skill + ": " + prompt}
	ask.Arguments, _ = json.Marshal(given) // it was computed as JSON
	a, err := w.askOne(ask)
	return a.Status == nightcrier.ApprovalGranted, err
}

// askOne asks people one thing. The step has succeeded when they agree, and failed when not; then
// the answer may be none.
func (w *Work) askOne(ask question) (nightcrier.Approval, error) {
	all, why, err := w.askPeople([]question{ask})
	if err != nil || why != nil {
		w.failBy(why)
		return nightcrier.Approval{}, err
	}
	a := all[0]
	w.Result = nightcrier.AgentResult{State: nightcrier.StateSuccess}
	switch w.row.State = nightcrier.StateSuccess; a.Status {
	case nightcrier.ApprovalRefused:
		w.failStep(nightcrier.FailRefused, a.Outcome())
	case nightcrier.ApprovalExpired:
		w.failStep(nightcrier.FailTimeout, a.Outcome())
	}
	return a, nil
}

// failBy has the step fail that was not to wait any more, if that is why.
func (w *Work) failBy(why *interrupted) {
	if why != nil {
		w.Result = nightcrier.AgentResult{State: why.State, FailureClass: why.Class, FailureReason: why.Reason}
		w.failStep(why.Class, why.Reason)
	}
}

// question is what people are asked. What is not given of who may answer is as configured.
type question struct {
	Kind         nightcrier.ApprovalKind
	Prompt       string
	Server, Tool string
	Arguments    json.RawMessage
	People       People
}

// asked is the checkpoint of questions: how they stand, or why they cannot be asked.
type asked struct {
	Approvals []nightcrier.Approval `json:"approvals"`
	Unasked   *interrupted          `json:"unasked,omitempty"`
	From      time.Time             `json:"from"`
	To        time.Time             `json:"to,omitzero"`
}

// askPeople asks, and waits until all of it is answered, with no worker and no seat, and unless the
// step is beside others without its lease. The time that it waits does not count to the run's. The
// second result is why there is no answer: the run is cancelled, or nobody can be asked.
func (w *Work) askPeople(questions []question) ([]nightcrier.Approval, *interrupted, error) {
	w.questions++
	suffix := ""
	if w.questions > 1 {
		suffix = fmt.Sprintf("#%d", w.questions)
	}
	put, err := Checkpoint(w, "ask"+suffix, func(c context.Context, s *Session) (asked, error) {
		return s.ask(c, questions, suffix, !w.beside)
	})
	var cut *interrupted
	if errors.As(err, &cut) {
		return nil, cut, nil
	}
	if err != nil || put.Unasked != nil {
		return nil, put.Unasked, err
	}
	w.row.State = nightcrier.StateRunning
	got, err := engine.Step(w.ctx, w.place.step+"/wait"+suffix, func(c context.Context) (asked, error) {
		return w.runner.awaitDecisions(c, w.Order.RunID, put)
	})
	if err != nil {
		return nil, nil, err
	}
	w.addWaited(got.To.Sub(got.From))
	_, err = Checkpoint(w, "answer"+suffix, func(c context.Context, s *Session) (bool, error) {
		return true, s.noteAnswers(c, got, suffix)
	})
	if errors.As(err, &cut) {
		return nil, cut, nil
	}
	return got.Approvals, got.Unasked, err
}

// addWaited puts the end of the run off for as long as it has waited for people.
func (w *Work) addWaited(d time.Duration) {
	w.waited += d
	if !w.frozen.Deadline.IsZero() {
		w.frozen.Deadline = w.frozen.Deadline.Add(d)
		w.Order.Deadline = w.frozen.Deadline
	}
}

// ask puts questions to people.
func (s *Session) ask(ctx context.Context, questions []question, suffix string, park bool) (asked, error) {
	put := asked{From: s.Now()}
	if res, err := s.CancelledEarly(ctx); err != nil || res.State.Terminal() {
		put.Unasked = &interrupted{res.State, res.FailureClass, res.FailureReason}
		return put, err
	}
	run, err := s.runner.cfg.Store.Run(ctx, s.Order.RunID)
	if err != nil {
		return put, err
	}
	var remarks []Remark
	for i, q := range questions {
		a, err := s.newApproval(q, run)
		if err == nil {
			a.ID = nightcrier.DerivedID("approval", s.Order.RunID, s.place.step, suffix, fmt.Sprint(i))
			a, err = s.runner.cfg.Store.AskApproval(ctx, a, park)
		}
		if err != nil {
			if CanBeRepeated(ctx, err) {
				return put, err
			}
			put.Unasked = &interrupted{nightcrier.StateFailed, nightcrier.FailRefused, err.Error()}
			return put, nil
		}
		put.Approvals = append(put.Approvals, a)
		remarks = append(remarks, Remark{fmt.Sprintf("asked%s/%d", suffix, i), journal.OfApproval(a)})
		s.Log.Info("people are asked", "event", "approval_requested", "approval", a.ID, "step", s.place.step, "tool", a.Tool, "digest", a.Digest, "approvers", a.Entitled(), "needed", a.Needed)
	}
	if err := s.AppendNotes(ctx, remarks...); err != nil {
		return put, err
	}
	names := put.Approvals[0].Entitled()
	wait := &nightcrier.Wait{For: nightcrier.WaitApproval, Text: fmt.Sprintf("%s to decide: nightcrier approvals show %s", strings.Join(names, " or "), put.Approvals[0].ID)}
	_, err = s.runner.cfg.Store.NoteProgress(ctx, s.Order.RunID, store.Progress{WaitsFor: wait})
	return put, err
}

// newApproval is a question as it is kept.
func (s *Session) newApproval(q question, run nightcrier.Run) (nightcrier.Approval, error) {
	people := s.Order.People
	a := nightcrier.Approval{
		RunID: s.Order.RunID, Pipeline: s.Order.Pipeline.Definition.Name, Step: s.place.id, Kind: q.Kind, Prompt: text.MaskClean(q.Prompt, s.Mask.String, text.MarkHidden),
		Server: q.Server, Tool: q.Tool, RequestedBy: run.TriggeredBy, Approvers: people.Approvers, Needed: cmp.Or(q.People.Needed, people.Needed, 1),
	}
	if len(q.People.Approvers) > 0 {
		a.Approvers = q.People.Approvers
	}
	for _, name := range a.Approvers {
		if !slices.Contains(people.Approvers, name) {
			return a, nightcrier.Errorf(nightcrier.Invalid, "approvers: %s is nobody whom approvals.approvers of the configuration names", name)
		}
	}
	if expires := cmp.Or(q.People.Expires, people.Expires); expires > 0 {
		a.ExpiresAt = s.Now().Add(expires)
	}
	if q.Arguments == nil {
		return a, nil
	}
	raw, err := s.Mask.Strings(q.Arguments)
	if err == nil {
		a.Arguments, err = nightcrier.CanonicalArguments(raw)
	}
	return a, err
}

// awaitDecisions waits until all is decided that was asked, or the run is to end, and has its lease
// back.
func (r *Runner) awaitDecisions(ctx context.Context, runID string, put asked) (asked, error) {
	wake, stop := r.cfg.Store.WatchJournal(runID)
	defer stop()
	telling, stopTelling := context.WithCancel(ctx)
	defer stopTelling()
	for _, a := range put.Approvals {
		if a.Status == nightcrier.ApprovalPending {
			go r.cfg.Supervisor.Ask(telling, a)
		}
	}
	for {
		next, err := r.readDecisions(ctx, &put)
		if err != nil {
			return put, err
		}
		run, err := r.cfg.Store.Run(ctx, runID)
		if err != nil {
			return put, err
		}
		put.To = r.cfg.Now()
		switch {
		case run.CancelRequested:
			put.Unasked = &interrupted{nightcrier.StateCancelled, nightcrier.FailCancelled, "cancelled: " + run.Cause}
			return put, nil
		case next < 0 && !run.Parked || run.Status == nightcrier.Finished:
			return put, nil
		}
		if err := awaitWake(ctx, wake, next); err != nil {
			return put, err
		}
	}
}

// readDecisions reads how questions stand, and ends those whose time is over. It returns when the
// next one expires, 0 where none of those that are pending does, and -1 where none is pending.
func (r *Runner) readDecisions(ctx context.Context, put *asked) (next time.Duration, err error) {
	next = -1
	for i, a := range put.Approvals {
		if a, err = r.cfg.Store.Approval(ctx, a.ID); err != nil {
			return 0, err
		}
		left := a.ExpiresAt.Sub(r.cfg.Now())
		if a.Status == nightcrier.ApprovalPending && !a.ExpiresAt.IsZero() && left <= 0 {
			if a, err = r.cfg.Store.ExpireApproval(ctx, a.ID); err != nil {
				return 0, err
			}
		}
		put.Approvals[i] = a
		switch {
		case a.Status != nightcrier.ApprovalPending:
		case a.ExpiresAt.IsZero():
			next = max(next, 0)
		case next <= 0 || left < next:
			next = max(left, time.Millisecond)
		}
	}
	return next, nil
}

// awaitWake waits until it is woken or so much time is over, where that is more than 0.
func awaitWake(ctx context.Context, wake <-chan struct{}, after time.Duration) error {
	var late <-chan time.Time
	if after > 0 {
		timer := time.NewTimer(after)
		defer timer.Stop()
		late = timer.C
	}
	select {
	case <-wake:
	case <-late:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// noteAnswers says what was decided, and that the run goes on.
func (s *Session) noteAnswers(ctx context.Context, got asked, suffix string) error {
	var remarks []Remark
	for i, a := range got.Approvals {
		if a.Status == nightcrier.ApprovalPending {
			continue // the run is cancelled
		}
		remarks = append(remarks, Remark{fmt.Sprintf("decided%s/%d", suffix, i), journal.OfApproval(a)})
		s.Log.Info("people have decided", "event", "approval_decided", "approval", a.ID, "status", a.Status, "outcome", a.Outcome(), "digest", a.Digest)
	}
	if len(remarks) > 0 {
		if err := s.AppendNotes(ctx, remarks...); err != nil {
			return err
		}
	}
	pending, _, err := s.runner.cfg.Store.Approvals(ctx, store.ApprovalFilter{RunID: s.Order.RunID, Status: nightcrier.ApprovalPending, Limit: 1})
	if err != nil || len(pending) > 0 {
		return err // another step waits
	}
	_, err = s.runner.cfg.Store.NoteProgress(ctx, s.Order.RunID, store.Progress{WaitsFor: &nightcrier.Wait{}})
	return err
}
