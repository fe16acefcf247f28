package run

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
)

// A step of ours ends when its run's time is over, or its own, or the run is cancelled; what
// concludes the run is done all the same.
func TestAnActionIsInterrupted(t *testing.T) {
	for name, tt := range map[string]struct {
		step    string
		order   func(*Order)
		cancel  bool
		outcome nightcrier.State
		reason  string
	}{
		"the deadline of the run": {"{id: collect, action: collect}", func(o *Order) { o.Deadline = time.Now().Add(100 * time.Millisecond) }, false, nightcrier.StateTimeout, "the deadline of the run, "},
		"a deadline that is over": {"{id: collect, action: collect}", func(o *Order) { o.Deadline = time.Now().Add(-time.Hour) }, false, nightcrier.StateTimeout, "is over"},
		"its own time":            {"{id: collect, action: collect, timeout: 1s}", func(*Order) {}, false, nightcrier.StateTimeout, "the time of the step collect, "},
		"a cancellation":          {"{id: collect, action: collect}", func(*Order) {}, true, nightcrier.StateCancelled, "cancelled"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &site{}
			s.collect = func(w *Work) (Done, error) {
				_, err := Checkpoint(w, "wait", func(ctx context.Context, sn *Session) (bool, error) {
					if tt.cancel {
						if _, err := s.store.RequestCancelRun(ctx, w.Order.RunID, "somebody"); err != nil {
							return false, err
						}
						s.runner.Cancel(w.Order.RunID)
					}
					<-ctx.Done()
					return false, ctx.Err()
				})
				return Done{Result: w.Result}, err
			}
			run, _ := s.executed(t, steps("  - "+tt.step+"\n  - {id: a, skill: x/a}\n  - {id: check, action: check}\n  - {id: notify, action: notify}\n"), "", tt.order)
			if err := s.awaitSteps(t.Context(), run.ID); err != nil {
				t.Fatal(err)
			}
			_, rows := s.ended(t, run.ID)
			why := "the step collect failed"
			if tt.cancel {
				why = "the run was cancelled"
			}
			if want := []string{"collect " + string(tt.outcome), "a created, " + why, "check success", "notify success"}; run.Outcome != tt.outcome || !strings.Contains(run.FailureReason, tt.reason) || !slices.Equal(rows, want) {
				t.Errorf("%s: %s, %q", run.Outcome, run.FailureReason, rows)
			}
		})
	}
}
