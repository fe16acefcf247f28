package run

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"nightcrier.dev/nightcrier"
)

// interrupted is why a step of ours was not finished.
type interrupted struct {
	State  nightcrier.State        `json:"state"`
	Class  nightcrier.FailureClass `json:"class"`
	Reason string                  `json:"reason"`
}

func (i *interrupted) Error() string { return i.Reason }

// closingTime is what the steps that conclude a run have behind its deadline, from when they begin:
// what was found is still checked and told.
const closingTime = 2 * time.Minute

// interruptible does a part of a step that is under way. One of ours ends when the run is cancelled
// or its time is over; what it had done then counts as not done. A worker keeps to that by itself.
func (w *Work) interruptible(ctx context.Context, do func(context.Context) error) (*interrupted, error) {
	if w.step == nil || w.step.Action == "" {
		return nil, do(ctx)
	}
	bound, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	if until, what := w.timeOfAction(); !until.IsZero() {
		left := until.Sub(w.runner.cfg.Now())
		late := &interrupted{nightcrier.StateTimeout, nightcrier.FailTimeout, fmt.Sprintf("%s, %s, is over", what, until.UTC().Format(time.RFC3339))}
		if left <= 0 {
			return late, nil
		}
		timer := time.AfterFunc(left, func() { stop(late) })
		defer timer.Stop()
	}
	if w.dueOf(w.step) == UnlessStopped {
		run := w.Order.RunID // the step may be over before who waits for a cancel has seen it
		go func() {
			if cause, err := w.runner.awaitCancel(bound, run); err == nil {
				stop(&interrupted{nightcrier.StateCancelled, nightcrier.FailCancelled, "cancelled: " + cause})
			}
		}()
	}
	err := do(bound)
	why, _ := context.Cause(bound).(*interrupted)
	if err == nil || why == nil || ctx.Err() != nil {
		return nil, err
	}
	return why, nil
}

// timeOfAction is when the action that is under way must have ended, zero for no such time.
func (w *Work) timeOfAction() (until time.Time, what string) {
	now := w.runner.cfg.Now()
	if until, what = w.Order.Deadline, "the deadline of the run"; !until.IsZero() && w.dueOf(w.step) != UnlessStopped {
		if now.After(until) {
			until = now
		}
		until = until.Add(closingTime)
	}
	if w.step.Timeout > 0 {
		began := w.row.StartedAt
		if began.IsZero() {
			began = now
		}
		if end := began.Add(w.step.Timeout); until.IsZero() || end.Before(until) {
			return end, "the time of the step " + cmp.Or(w.step.ID, w.step.Action)
		}
	}
	return until, what
}
