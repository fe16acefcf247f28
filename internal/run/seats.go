package run

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// seats are how many agents of all runs work at the same time. Who finds none waits; who waits
// longer goes first. An agent that was started by an earlier process has one in any case.
type seats struct {
	all int // 0 bounds nothing

	mu      sync.Mutex
	taken   int
	waiting []chan struct{}
}

// take takes a seat, and waits for one; full is told before it waits.
func (s *seats) take(ctx context.Context, full func() error) error {
	s.mu.Lock()
	if s.all == 0 || s.taken < s.all && len(s.waiting) == 0 {
		s.taken++
		s.mu.Unlock()
		return nil
	}
	turn := make(chan struct{})
	s.waiting = append(s.waiting, turn)
	s.mu.Unlock()
	err := full()
	if err == nil {
		select {
		case <-turn:
			return nil
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if at := slices.Index(s.waiting, turn); at >= 0 {
		s.waiting = slices.Delete(s.waiting, at, at+1)
	} else {
		s.passOn() // it came meanwhile
	}
	return err
}

// claim takes a seat, whether there is one or not.
func (s *seats) claim() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken++
}

// leave gives a seat back.
func (s *seats) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.passOn()
}

// passOn gives a seat to who waits longest. The caller holds mu.
func (s *seats) passOn() {
	if s.taken <= s.all && len(s.waiting) > 0 {
		close(s.waiting[0])
		s.waiting = s.waiting[1:]
		return
	}
	s.taken--
}

// takeSeat has an agent wait until there is a seat for it, the run is cancelled or its time is over:
// who starts agents sees those.
func (w *Work) takeSeat(ctx context.Context, s *Session, t try) error {
	if w.seated {
		return nil
	}
	wait, stop := context.WithCancel(ctx)
	defer stop()
	if until := w.Order.Deadline; !until.IsZero() {
		timer := time.AfterFunc(until.Sub(s.Now()), stop)
		defer timer.Stop()
	}
	run := w.Order.RunID // the step may be over before who waits for a cancel has seen it
	full := func() error {
		go func() {
			if _, err := w.runner.awaitCancel(wait, run); err == nil {
				stop()
			}
		}()
		s.Log.Info("an agent waits until another has ended", "event", "agent_waits", "waits_for", "limit", "step", t.step, "max_concurrent_agents", w.runner.seats.all)
		return s.AppendNote(ctx, fmt.Sprintf("limit#%d", t.attempt), NewLogItem("waits for: limit; max_concurrent_agents has %d agents work at once", w.runner.seats.all))
	}
	err := w.runner.seats.take(wait, full)
	if w.seated = err == nil; w.seated || wait.Err() != nil {
		return ctx.Err()
	}
	return err
}

// claimSeat is takeSeat for an agent that works already.
func (w *Work) claimSeat() {
	if !w.seated {
		w.runner.seats.claim()
		w.seated = true
	}
}

func (w *Work) leaveSeat() {
	if w.seated {
		w.runner.seats.leave()
		w.seated = false
	}
}
