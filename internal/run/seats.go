package run

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/record/store"
)

// seats are how many agents of all runs work at the same time. Who finds none waits; who waits
// longer goes first. An agent that was started by an earlier process has one in any case.
type seats struct {
	all int // 0 bounds nothing

	mu      sync.Mutex
	taken   int
	waiting []chan struct{}

	// told guards what people are told, and of which runs how many agents wait.
	told  sync.Mutex
	waits map[string]int
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
	run, waits := w.Order.RunID, 0 // the step may be over before who waits for a cancel has seen it
	full := func() error {
		go func() {
			if _, err := w.runner.awaitCancel(wait, run); err == nil {
				stop()
			}
		}()
		waits = 1
		most := w.runner.seats.all
		if err := w.runner.showWait(ctx, run, waits, fmt.Sprintf("a place for the agent of step %s: max_concurrent_agents has %d work at once", t.step, most)); err != nil {
			return err
		}
		s.Log.Info("an agent waits until another has ended", "event", "agent_waits", "waits_for", "limit", "step", t.step, "max_concurrent_agents", most)
		return s.AppendNote(ctx, fmt.Sprintf("limit#%d", t.attempt), NewLogItem("waits for: limit; max_concurrent_agents has %d agents work at once", most))
	}
	err := w.runner.seats.take(wait, full)
	w.seated = err == nil
	if err := w.runner.showWait(ctx, run, -waits, ""); err != nil {
		w.leaveSeat()
		return err
	}
	if w.seated || wait.Err() != nil {
		return ctx.Err()
	}
	return err
}

// showWait shows people that a run waits for a seat, with one more of its agents or one less. Where
// none does, what a process showed that died meanwhile is taken back, too.
func (r *Runner) showWait(ctx context.Context, runID string, more int, what string) error {
	s := r.seats
	s.told.Lock()
	defer s.told.Unlock()
	if s.waits[runID] += more; more > 0 {
		_, err := r.cfg.Store.NoteProgress(ctx, runID, store.Progress{WaitsFor: &nightcrier.Wait{For: nightcrier.WaitLimit, Text: what}})
		return err
	}
	if s.waits[runID] > 0 {
		return nil
	}
	delete(s.waits, runID)
	run, err := r.cfg.Store.Run(ctx, runID)
	if err == nil && run.WaitsFor != nil && run.WaitsFor.For == nightcrier.WaitLimit {
		_, err = r.cfg.Store.NoteProgress(ctx, runID, store.Progress{WaitsFor: &nightcrier.Wait{}})
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
