package run

import (
	"context"
	"slices"
	"strconv"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/run/engine"
)

// doAgentStep has an agent do the step that is under way.
func (w *Work) doAgentStep(given map[string]any) error {
	contract, err := w.contractOf(w.step)
	if err != nil {
		w.failStep(nightcrier.FailInternal, err.Error())
		return nil
	}
	if agreed, err := w.agreeTo(given); err != nil || !agreed {
		return err
	}
	w.place.cluster, w.place.namespace = w.namedCluster()
	if w.place.cluster != "" && !slices.Contains(w.runner.cfg.Clusters.Names(), w.place.cluster) {
		w.place.cluster, w.place.namespace = "", "" // any words of whoever called: they are the input's, and none of ours
	}
	task := Task{Step: *w.step, Skill: w.frozen.Pipeline.Skills[w.step.Skill], Input: given, Before: w.before()}
	res, err := w.runAgent(task, contract)
	if err != nil {
		return err
	}
	w.Result, w.row.Usage, w.row.State = res, res.Usage, nightcrier.StateSuccess
	if res.State != nightcrier.StateSuccess {
		w.failStep(res.FailureClass, res.FailureReason)
		w.row.State = res.State
	}
	if w.step.DeliversReport() {
		return nil // the action check holds it against the evidence, and keeps it
	}
	kept, err := Checkpoint(w, "keep", func(c context.Context, s *Session) (Kept, error) { return s.keepDelivered(c, contract, res) })
	if err != nil {
		return err
	}
	w.row.Output, w.row.Artifacts = kept.Output, kept.Artifacts
	switch {
	case w.row.State != nightcrier.StateSuccess:
	case len(kept.Problems) > 0 || w.Review.Failure != "":
		w.failStep(nightcrier.FailInvalidOutput, w.Review.WhyInvalid(w.place.deliverable(), kept.Problems))
	}
	return nil
}

// runAgent has the agent do its work, and asks it again for what lacks something. The result's
// usage is that of all of it.
func (w *Work) runAgent(t Task, d Deliverable) (res nightcrier.AgentResult, err error) {
	res, before, asked, err := w.runAttempts(t)
	if err == nil && asked && d != nil {
		res, w.Review, err = w.repairDeliverable(d, res)
	}
	res.Usage = before.Plus(res.Usage)
	return res, err
}

// runAttempts runs the agent, a second time where the failure says that it may help.
// It returns what the attempts before the last one used besides, and whether that came to an
// agent.
func (w *Work) runAttempts(t Task) (res nightcrier.AgentResult, before nightcrier.Usage, asked bool, err error) {
	for n := 1; n <= maxAttempts; n++ {
		if n > 1 {
			before = before.Plus(res.Usage)
			if err := w.runner.pauseBeforeRetry(w.ctx, w.Order); err != nil {
				return res, before, false, err
			}
		}
		first := w.firstAttempt(n)
		first.task = &t
		if res, asked, err = w.runAttempt(first); err != nil || !res.FailureClass.Retryable() {
			break
		}
	}
	return res, before, asked, err
}

// pauseBeforeRetry waits before the next attempt. Whoever cancels meanwhile is heard at once: the
// attempt then ends the run instead of starting an agent, and its lease is free. So it does when
// the run's time is over, behind which nothing is waited for.
func (r *Runner) pauseBeforeRetry(ctx engine.Context, o Order) error {
	listen, stop := context.WithCancel(ctx)
	defer stop()
	cancelled := make(chan struct{})
	go func() {
		if _, err := r.awaitCancel(listen, o.RunID); err == nil {
			close(cancelled)
		}
	}()
	pause := r.cfg.RetryPause
	if !o.Deadline.IsZero() {
		pause = min(pause, max(o.Deadline.Sub(r.cfg.Now()), 0)+time.Millisecond)
	}
	return engine.Sleep(ctx, pause, cancelled)
}

// runAttempt makes one try: a worker that is started and followed to its end. It reports whether
// there was one.
func (w *Work) runAttempt(t try) (res nightcrier.AgentResult, started bool, err error) {
	suffix := "#" + strconv.Itoa(t.attempt)
	defer w.leaveSeat()
	l, err := Checkpoint(w, "launch"+suffix, func(c context.Context, s *Session) (launched, error) {
		if err := w.takeSeat(c, s, t); err != nil {
			return launched{}, err
		}
		return s.launchWorker(c, t)
	})
	if err != nil || l.Result.State.Terminal() {
		return l.Result, false, err
	}
	res, err = Checkpoint(w, "await"+suffix, func(c context.Context, s *Session) (nightcrier.AgentResult, error) {
		w.claimSeat()
		return s.awaitWorker(c, t, l.Handle)
	})
	return res, true, err
}
