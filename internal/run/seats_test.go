package run

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent/backend"
)

// Seats are given in the order in which they are waited for, once there are fewer at work than there
// are seats; one that comes to who has given up meanwhile goes to the next.
func TestSeats(t *testing.T) {
	s := &seats{all: 1}
	s.claim()
	s.claim() // of an earlier process: more than there are
	gaveUp := errors.New("gave up")
	if err := s.take(t.Context(), func() error { s.leave(); s.leave(); return gaveUp }); !errors.Is(err, gaveUp) || s.taken != 0 {
		t.Fatalf("%v, %d taken", err, s.taken)
	}
	s.claim()
	s.claim()
	order, waits := make(chan int, 2), make(chan bool)
	for i := range 2 {
		go func() {
			if err := s.take(t.Context(), func() error { waits <- true; return nil }); err != nil {
				t.Error(err)
			}
			order <- i
			s.leave()
		}()
		<-waits
	}
	s.leave()
	if n := len(order); n != 0 || s.taken != 1 {
		t.Errorf("%d have a seat, where %d are at work that there is one for", n, s.taken)
	}
	s.leave()
	if first, second := <-order, <-order; first != 0 || second != 1 {
		t.Errorf("%d came before %d", first, second)
	}
}

// A phase has no more agents work at once than is configured; the others wait, and say so.
func TestAgentsWaitForASeat(t *testing.T) {
	var now, most, begun atomic.Int64
	var met sync.WaitGroup // two that work, and three that wait
	met.Add(5)
	s := &site{seats: 2, agents: map[string]script{}}
	file := "name: p\nphases:\n- name: many\n  type: parallel\n  steps:\n"
	for _, id := range []string{"a", "b", "c", "d", "e"} {
		file += "  - {id: " + id + ", agent_id: " + id + ", skill: x/a}\n"
		s.agents[id] = func(int, backend.Spec) nightcrier.AgentResult {
			if n := now.Add(1); n > most.Load() {
				most.Store(n)
			}
			if begun.Add(1) <= 2 {
				met.Done()
			}
			met.Wait()
			now.Add(-1)
			return well("done")
		}
	}
	s.point = func(what string) {
		if strings.HasSuffix(what, "limit#1") {
			met.Done()
		}
	}
	run, rows := s.executed(t, file, "")
	entries, err := s.store.Journal(t.Context(), run.ID, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	waited := 0
	for _, e := range entries {
		if strings.Contains(string(e.Data), "waits for: limit; max_concurrent_agents has 2 agents work at once") {
			waited++
		}
	}
	if run.Outcome != nightcrier.StateSuccess || most.Load() != 2 || waited != 3 || s.runner.seats.taken != 0 {
		t.Errorf("%s: %s, %q; %d at once, %d waited, %d are left", run.Outcome, run.FailureReason, rows, most.Load(), waited, s.runner.seats.taken)
	}
}

// A run shows that one of its agents waits for a seat, for as long as it does.
func TestARunShowsThatItWaits(t *testing.T) {
	var now []string
	var working atomic.Int32
	waits := make(chan struct{})
	s := &site{seats: 1}
	look := func() {
		runs, err := s.store.LeasedRuns(t.Context())
		if err != nil || len(runs) != 1 {
			t.Error(runs, err)
		} else if w := runs[0].WaitsFor; w != nil {
			now = append(now, string(w.For)+" "+w.Text[:len("a place")])
		} else {
			now = append(now, "")
		}
	}
	s.point = func(what string) {
		if strings.HasSuffix(what, "limit#1") {
			look()
			close(waits)
		}
	}
	works := func(int, backend.Spec) nightcrier.AgentResult {
		if <-waits; working.Add(1) == 2 {
			look()
		}
		return well("done")
	}
	s.agents = map[string]script{"a": works, "b": works}
	run, rows := s.executed(t, "name: p\nphases:\n- name: many\n  type: parallel\n  steps:\n  - {id: a, agent_id: a, skill: x/a}\n  - {id: b, agent_id: b, skill: x/a}\n", "")
	if run.Outcome != nightcrier.StateSuccess || !slices.Equal(now, []string{"limit a place", ""}) {
		t.Errorf("%s: %s, %q; it showed %q", run.Outcome, run.FailureReason, rows, now)
	}
}

// Who waits for a seat is heard when the run is cancelled, and is not started when its time is over.
func TestWhoWaitsForASeatIsHeard(t *testing.T) {
	for name, tt := range map[string]struct {
		order   func(*Order)
		outcome nightcrier.State
	}{
		"cancelled": {func(*Order) {}, nightcrier.StateCancelled},
		"too late":  {func(o *Order) { o.Deadline = time.Now().Add(300 * time.Millisecond) }, nightcrier.StateTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			s := &site{seats: 1}
			s.point = func(what string) {
				if what != "entry limit#1" {
					return
				}
				if tt.outcome != nightcrier.StateCancelled {
					return
				}
				runs, err := s.store.LeasedRuns(t.Context())
				if err == nil && len(runs) == 1 {
					_, err = s.store.RequestCancelRun(t.Context(), runs[0].ID, "somebody")
					s.runner.Cancel(runs[0].ID)
				}
				if err != nil || len(runs) != 1 {
					t.Error(runs, err)
				}
			}
			run, rows := s.executed(t, steps("  - {id: a, skill: x/a}\n"), "", tt.order, func(*Order) { s.runner.seats.claim() })
			if run.Outcome != tt.outcome || s.runner.seats.taken != 1 || len(s.runner.seats.waiting) > 0 {
				t.Errorf("%s: %s, %q, %d", run.Outcome, run.FailureReason, rows, s.runner.seats.taken)
			}
		})
	}
}
