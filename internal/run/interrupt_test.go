package run

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/run/pipeline"
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

// due is an action that does nothing, in its time.
type due Due

func (d due) Do(*Work) (Done, error) { return Done{}, nil }

func (d due) Due() Due { return Due(d) }

// What concludes a run has some minutes behind its deadline, or behind now where that is over; no step
// has more time than it was given.
func TestTheTimeOfAnAction(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	for name, tt := range map[string]struct {
		action          string
		deadline, began time.Duration // from now on; 0 is none
		timeout, want   time.Duration
		what            string
	}{
		"no bound":              {action: "look"},
		"the run's":             {action: "look", deadline: time.Hour, want: time.Hour, what: "the deadline of the run"},
		"its own":               {action: "look", deadline: time.Hour, timeout: time.Minute, want: time.Minute, what: "the time of the step look"},
		"from when it began":    {action: "look", began: -40 * time.Second, timeout: time.Minute, want: 20 * time.Second, what: "the time of the step look"},
		"more than the run has": {action: "look", deadline: time.Second, timeout: time.Minute, want: time.Second, what: "the deadline of the run"},
		"it concludes":          {action: "end", deadline: time.Hour, want: time.Hour + closingTime, what: "the deadline of the run"},
		"it concludes late":     {action: "end", deadline: -time.Hour, want: closingTime, what: "the deadline of the run"},
		"it concludes in time":  {action: "end", deadline: -time.Hour, timeout: time.Second, want: time.Second, what: "the time of the step end"},
	} {
		t.Run(name, func(t *testing.T) {
			w := &Work{step: &pipeline.Step{Action: tt.action, Timeout: tt.timeout}, runner: &Runner{cfg: Config{
				Now: func() time.Time { return now }, Actions: map[string]Action{"look": due(UnlessStopped), "end": due(Always)},
			}}}
			if tt.deadline != 0 {
				w.Order.Deadline = now.Add(tt.deadline)
			}
			if tt.began != 0 {
				w.row.StartedAt = now.Add(tt.began)
			}
			until, what := w.timeOfAction()
			if until.IsZero() != (tt.want == 0) || tt.want != 0 && (until.Sub(now) != tt.want || what != tt.what) {
				t.Errorf("%s, by %q", until.Sub(now), what)
			}
		})
	}
}
