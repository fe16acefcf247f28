package admit

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/record/store"
)

const (
	// tripAfter failures in a row open a breaker.
	tripAfter = 3
	// probeEvery is how often one run is let through an open breaker.
	probeEvery = 60 * time.Second
)

// BreakerStore remembers breakers over restarts; *store.Store is the one.
type BreakerStore interface {
	Breakers(context.Context) ([]store.BreakerState, error)
	SaveBreaker(context.Context, store.BreakerState) error
}

// Transition says that a breaker has changed sides; "" that it has not.
type Transition string

// The transitions. Each is told to people once.
const (
	// BreakerOpened: the executor is unusable, its queue holds.
	BreakerOpened Transition = "down"
	// BreakerClosed: it works again.
	BreakerClosed Transition = "up"
)

// Breaker keeps work from executors that cannot do any: three failures in a row
// that say so (wrong key, no quota, no program) open the executor's circuit. Its
// queue then holds but for one probe a minute, until one of them works. Agents
// that run already are not touched.
type Breaker struct {
	store BreakerStore
	now   func() time.Time

	mu     sync.Mutex
	states map[string]store.BreakerState
	probed map[string]time.Time // when an open executor last got a run
}

// OpenBreaker returns the breakers as they were when the last process ended.
func OpenBreaker(ctx context.Context, st BreakerStore, now func() time.Time) (*Breaker, error) {
	list, err := st.Breakers(ctx)
	if err != nil {
		return nil, err
	}
	if now == nil {
		now = time.Now
	}
	b := &Breaker{store: st, now: now, states: map[string]store.BreakerState{}, probed: map[string]time.Time{}}
	for _, s := range list {
		b.states[s.Executor] = s
	}
	return b, nil
}

// Report learns from how a run of the executor ended. The transition is to be
// told to people; it is recorded before it is returned.
func (b *Breaker) Report(ctx context.Context, executor string, r nightcrier.AgentResult) (Transition, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	next, known := b.states[executor]
	next.Executor = executor
	var tr Transition
	switch {
	case r.FailureClass.TripsBreaker():
		next.Failures++
		next.LastError = r.FailureReason
		if !next.Open && next.Failures >= tripAfter {
			tr, next.Open, next.Since = BreakerOpened, true, b.now()
		}
	case !isExecutorProven(r) || !known || next.Failures == 0:
		return "", nil
	default:
		if next.Open {
			tr, next.Open, next.Since = BreakerClosed, false, b.now()
		}
		next.Failures, next.LastError = 0, ""
	}
	if err := b.store.SaveBreaker(ctx, next); err != nil {
		return "", err
	}
	b.states[executor] = next
	if tr == BreakerOpened {
		b.probed[executor] = b.now()
	}
	return tr, nil
}

// isExecutorProven reports whether the executor has shown that it can work, whatever came
// of it. A run that was cancelled, lost or late shows nothing.
func isExecutorProven(r nightcrier.AgentResult) bool {
	switch r.FailureClass {
	case "":
		return r.State == nightcrier.StateSuccess
	case nightcrier.FailAgent, nightcrier.FailInvalidOutput:
		return true
	case nightcrier.FailBudget:
		return !r.StartedAt.IsZero() // else it was not asked
	}
	return false
}

// Held lists the executors that get no run now: their breaker is open and no
// probe is due.
func (b *Breaker) Held() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var held []string
	for executor, s := range b.states {
		if s.Open && b.now().Before(b.probed[executor].Add(probeEvery)) {
			held = append(held, executor)
		}
	}
	slices.Sort(held)
	return held
}

// Admitted notes that a run of the executor was let through: on an open breaker
// it is the probe.
func (b *Breaker) Admitted(executor string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.states[executor].Open {
		b.probed[executor] = b.now()
	}
}

// NextProbe is how long until an open breaker lets a probe through, false when
// none waits for that.
func (b *Breaker) NextProbe() (time.Duration, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var first time.Duration
	found := false
	for executor, s := range b.states {
		wait := b.probed[executor].Add(probeEvery).Sub(b.now())
		if s.Open && wait > 0 && (!found || wait < first) {
			first, found = wait, true
		}
	}
	return first, found
}

// States lists the breakers that have seen a failure, by executor.
func (b *Breaker) States() []store.BreakerState {
	b.mu.Lock()
	defer b.mu.Unlock()
	var list []store.BreakerState
	for _, s := range b.states {
		list = append(list, s)
	}
	slices.SortFunc(list, func(x, y store.BreakerState) int { return cmp.Compare(x.Executor, y.Executor) })
	return list
}
