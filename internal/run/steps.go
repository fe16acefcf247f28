package run

import (
	"context"
	"errors"
	"fmt"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/record/workspace"
	"nightcrier.dev/nightcrier/internal/run/engine"
	"nightcrier.dev/nightcrier/internal/run/pipeline"
)

// doPipeline does the steps of the run, and ends it. What is to be done when it has ended comes
// last, wherever it is written.
func (w *Work) doPipeline() error {
	var last []func() error
	for i := range w.frozen.Pipeline.Definition.Phases {
		phase := &w.frozen.Pipeline.Definition.Phases[i]
		if phase.Parallel {
			if err := w.doSideBySide(i); err != nil {
				return err
			}
			continue
		}
		for j := range phase.Steps {
			step := &phase.Steps[j]
			if w.dueOf(step) == AfterEnd {
				w.enter(step, 0)
				w.saveRow()
				last = append(last, func() error { return w.doStep(phase, step) })
			} else if err := w.doStep(phase, step); err != nil {
				return err
			}
		}
	}
	if err := w.finish(); err != nil {
		return err
	}
	for _, do := range last {
		if err := do(); err != nil {
			return err
		}
	}
	if err := w.showRowsNow(); err != nil {
		return err
	}
	return w.tellEnd()
}

// tellEnd has people told of a run that has ended. How that goes is no part of how the run ended.
func (w *Work) tellEnd() error {
	if !w.frozen.Pipeline.Tells() {
		return nil
	}
	tell := func(c context.Context) error { return w.runner.cfg.Supervisor.Tell(c, w.frozen) }
	if w.unrecorded {
		return engine.Insist(w.ctx, "tell", tell)
	}
	_, err := engine.Step(w.ctx, "run/tell", func(c context.Context) (bool, error) { return true, tell(c) })
	return err
}

// doStep does a step, again where it failed and that is wished, and keeps what it came to.
func (w *Work) doStep(phase *pipeline.Phase, step *pipeline.Step) error {
	if row, there := w.done[step.ID]; there { // an earlier run did it
		w.noteDone(step, row)
		return nil
	}
	w.enter(step, 0)
	why, err := w.whySkip(phase, step)
	if err != nil {
		return err
	}
	if why != "" {
		w.skipStep(why)
		return w.keepStep(step)
	}
	if err := w.doRounds(phase, step); err != nil {
		return err
	}
	return w.keepStep(step)
}

// doRounds does a step until it has not failed, or is not to be done again. What it took is that of
// all rounds.
func (w *Work) doRounds(phase *pipeline.Phase, step *pipeline.Step) error {
	var before nightcrier.Usage
	for round := 0; ; round++ {
		w.enter(step, round)
		if err := w.tryStep(phase, step); err != nil {
			return err
		}
		if step.Action == "" {
			w.Result.Usage = before.Plus(w.row.Usage)
		}
		if w.row.State == nightcrier.StateSuccess || w.row.State == nightcrier.StateCancelled || w.row.FailureClass == nightcrier.FailRefused || step.OnFailure != pipeline.Retry || round == step.Retries {
			return nil
		}
		before, w.earlier = before.Plus(w.row.Usage), w.earlier.Plus(w.row.Usage)
		w.saveRow()
	}
}

// maxRounds is more often than a step can be done again, and workersOfRound how many workers
// each of these has: the attempts at the work, and who asks for it again.
const (
	maxRounds      = 8
	workersOfRound = repairAttempt + 1
)

// enter makes a step the one that is under way. The names that it gives its parts are those of
// no other.
func (w *Work) enter(step *pipeline.Step, round int) {
	var of pipeline.Phase
	agents := 0
	for p, s := range w.frozen.Pipeline.Definition.AllSteps() {
		if s.ID == step.ID {
			of = *p
			break
		}
		if s.Action == "" {
			agents++
		}
	}
	w.step, w.parts, w.questions, w.Order = step, 0, 0, w.frozen
	w.place = place{step: attemptName(step.ID, round+1), id: step.ID, own: step.Action == "" && !step.DeliversReport()}
	if step.Action == "" {
		w.place.seat = (agents*maxRounds + round) * workersOfRound
	}
	if w.place.seat > 0 || step.Action != "" && step.Action != step.ID {
		w.place.keys = w.place.step + "/"
	}
	w.row = nightcrier.Step{RunID: w.Order.RunID, ID: step.ID, Attempt: round + 1, Phase: of.Name, Uses: step.Uses(), AfterEnd: w.dueOf(step) == AfterEnd, State: nightcrier.StateCreated}
	if of.Parallel {
		w.row.Beside = of.StepIDs()
	}
	w.Order.boundByPipeline()
	w.step = w.applySkill(step)
	w.Order.Agent.Budget.Step.BoundMoney(step.BudgetUSD, "the budget of the step "+step.ID)
	if step.Timeout > 0 {
		w.Order.Agent.Timeout = step.Timeout
	}
	if step.Action == "" {
		w.row.Executor, w.row.Model = w.Order.Agent.Executor, w.Order.Agent.Model
	}
}

// attemptName is how the journal and the directories call an attempt of a step.
func attemptName(id string, attempt int) string {
	if attempt <= 1 {
		return id
	}
	return fmt.Sprintf("%s~%d", id, attempt)
}

// used is what the steps of this run have used, in all their rounds.
func (w *Work) used() nightcrier.Usage {
	all := w.earlier
	for _, s := range w.done {
		if s.FromRun == "" {
			all = all.Plus(s.Usage)
		}
	}
	return all
}

// dueOf says when a step is done.
func (w *Work) dueOf(step *pipeline.Step) Due {
	if a := w.runner.cfg.Actions[step.Action]; a != nil {
		return a.Due()
	}
	return UnlessStopped
}

// whySkip says why a step is not to be done, "" when it is. A condition that cannot be computed
// is none.
func (w *Work) whySkip(phase *pipeline.Phase, step *pipeline.Step) (string, error) {
	switch {
	case w.stopped != "" && w.dueOf(step) == UnlessStopped:
		return w.stopped, nil
	case step.Action == "" && w.Order.Agent.Executor == Builtin:
		return "the built-in rules investigate, no agent does", nil
	}
	yes, err := w.frozen.Pipeline.Definition.EvalIf(w.ctx, step, w.scope(step))
	if err != nil {
		return "", w.ctx.Err() // tryStep meets it again, and fails
	}
	if !yes {
		return "its condition does not hold: " + step.If, nil
	}
	return "", nil
}

// tryStep does a step once. Its error ends the run: a checkpoint was refused, or the server stops.
func (w *Work) tryStep(phase *pipeline.Phase, step *pipeline.Step) error {
	_, err := w.frozen.Pipeline.Definition.EvalIf(w.ctx, step, w.scope(step))
	var given map[string]any
	if err == nil {
		given, err = w.inputOf(phase, step)
	}
	if err != nil {
		w.failStep(nightcrier.FailInternal, err.Error())
		return w.ctx.Err()
	}
	if step.Approval != nil {
		return w.doApproval(step)
	}
	if step.Action == "" {
		return w.doAgentStep(given)
	}
	action := w.runner.cfg.Actions[step.Action]
	if action == nil {
		w.failStep(nightcrier.FailInternal, fmt.Sprintf("this server has no action %s", step.Action))
		return nil
	}
	w.place.cluster, w.place.namespace = w.namedCluster()
	w.given = given
	done, err := action.Do(w)
	var why *interrupted
	if errors.As(err, &why) {
		w.Result = nightcrier.AgentResult{State: why.State, FailureClass: why.Class, FailureReason: why.Reason}
		w.failStep(why.Class, why.Reason)
		return nil
	}
	if err != nil {
		return err
	}
	w.Result, w.row.Output, w.row.Artifacts = done.Result, done.Output, done.Artifacts
	if done.Outcome != nil {
		w.outcome = done.Outcome
	}
	if w.row.State = nightcrier.StateSuccess; done.Class != "" {
		w.failStep(done.Class, done.Reason)
	}
	return nil
}

// skipStep has the step that is under way not be done: nobody does it.
func (w *Work) skipStep(why string) {
	w.row.State, w.row.Skipped, w.row.Executor, w.row.Model = nightcrier.StateCreated, why, "", ""
}

// failStep has the attempt that is under way fail.
func (w *Work) failStep(class nightcrier.FailureClass, reason string) {
	w.row.FailureClass, w.row.FailureReason = class, reason
	switch class {
	case nightcrier.FailCancelled:
		w.row.State = nightcrier.StateCancelled
	case nightcrier.FailTimeout:
		w.row.State = nightcrier.StateTimeout
	default:
		w.row.State = nightcrier.StateFailed
	}
}

// keepStep keeps what a step came to, and stops the run where it cannot go on without.
func (w *Work) keepStep(step *pipeline.Step) error {
	w.noteDone(step, w.row)
	w.saveRow()
	return w.ctx.Err()
}

// noteDone notes what a step came to, in this run or in the one that it goes on from.
func (w *Work) noteDone(step *pipeline.Step, row nightcrier.Step) {
	w.done[step.ID], w.previous = row, step
	if row.Delivered() || w.stopped != "" {
		return
	}
	switch {
	case row.State == nightcrier.StateCancelled:
		w.stopped = "the run was cancelled"
	case step.OnFailure != pipeline.Continue && (step.OnFailure != pipeline.Retry || step.Required):
		w.stopped, w.stoppedFor = "the step "+step.ID+" failed", row.FailureReason
	}
}

// saveRow has people be shown how the attempt stands: with the next checkpoint, in one
// transaction.
func (w *Work) saveRow() {
	if w.row.ID != "" {
		w.rows = append(w.rows, w.row)
	}
}

// showRows shows people what they have not been shown yet. The checkpoints are the record: what
// cannot be shown is no reason not to go on.
func (w *Work) showRows(ctx context.Context) error {
	err := w.runner.saveRows(ctx, w.rows)
	if err == nil {
		w.rows = nil
	}
	return err
}

// saveRows saves rows together or, where one of them is refused, each by itself. For which there was
// no room they are saved later.
func (r *Runner) saveRows(ctx context.Context, rows []nightcrier.Step) error {
	if len(rows) == 0 {
		return nil
	}
	err := r.cfg.Store.SaveSteps(ctx, rows...)
	switch {
	case err == nil || CanBeRepeated(ctx, err) || workspace.DiskFault(err):
		return err
	case len(rows) == 1:
		r.cfg.Logger.Warn("how a step stands cannot be shown", "event", "step_row", "run", rows[0].RunID, "step", rows[0].ID, "error", err)
		return nil
	}
	for i := range rows {
		if err := r.saveRows(ctx, rows[i:i+1]); err != nil {
			return err
		}
	}
	return nil
}

// showRowsNow shows them where no checkpoint comes next. Its error is that the server stops.
func (w *Work) showRowsNow() error {
	return engine.Insist(w.ctx, "save the steps", w.showRows)
}

// finish ends the run.
func (w *Work) finish() error {
	w.step, w.place, w.row, w.Order = nil, place{step: "run"}, nightcrier.Step{}, w.frozen
	_, err := Checkpoint(w, "finish", func(c context.Context, s *Session) (bool, error) {
		out := w.outcome
		if out == nil {
			concluded := w.conclude(s)
			out = &concluded
		}
		return true, s.finishRun(c, *out)
	})
	w.ended = true
	return err
}

// conclude is what a run comes to that no step of it has decided about.
func (w *Work) conclude(s *Session) Outcome {
	w.Result.Usage = w.used()
	out := s.NewOutcome(w.Result) // what it cost is counted by its account
	if w.stopped == "" {
		out.Status, out.State, out.Reason, out.Class = nightcrier.Resolved, nightcrier.StateSuccess, "", ""
		out.Result.State = nightcrier.StateSuccess
		return out
	}
	out.State, out.Reason, out.Class = nightcrier.StateFailed, w.stopped, nightcrier.FailInternal
	if w.stoppedFor != "" {
		out.Reason += ": " + w.stoppedFor
	}
	for _, step := range w.frozen.Pipeline.Definition.AllSteps() {
		if row := w.done[step.ID]; row.State.Terminal() && row.State != nightcrier.StateSuccess && (step.OnFailure != pipeline.Continue || row.State == nightcrier.StateCancelled) {
			out.State, out.Class = row.State, row.FailureClass
			break
		}
	}
	out.Result.State, out.Result.FailureClass, out.Result.FailureReason = out.State, out.Class, out.Reason
	return out
}
