package admit

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/record/store"
)

// queue is a queue in memory; it admits in order whatever the limits but Closed.
type queue struct {
	mu      sync.Mutex
	waiting []nightcrier.Run
	leased  []nightcrier.Run
	expired []nightcrier.Run
	err     error
	changed chan struct{}
}

func newQueue(waiting ...nightcrier.Run) *queue {
	return &queue{waiting: waiting, changed: make(chan struct{}, 1)}
}

func (q *queue) AdmitNext(_ context.Context, l store.Limits) (*nightcrier.Run, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.err != nil {
		return nil, q.err
	}
	for i, run := range q.waiting {
		if !slices.Contains(l.Closed, run.Executor) {
			q.waiting = slices.Delete(q.waiting, i, i+1)
			return &run, nil
		}
	}
	return nil, nil
}

func (q *queue) LeasedRuns(context.Context) ([]nightcrier.Run, error) { return q.leased, q.err }

func (q *queue) ExpireQueued(context.Context, time.Duration) ([]nightcrier.Run, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	late := q.expired
	q.expired = nil
	return late, nil
}

func (q *queue) QueueChanged() <-chan struct{} { return q.changed }

func (q *queue) length() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting)
}

func (q *queue) add(run nightcrier.Run) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = append(q.waiting, run)
	q.changed <- struct{}{}
}

// engine records what it was given, and fails as long as it is told to.
type engine struct {
	mu      sync.Mutex
	started []string
	broken  bool
}

func (e *engine) start(_ context.Context, run nightcrier.Run) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.broken {
		return errors.New("engine is down")
	}
	e.started = append(e.started, run.ID)
	return nil
}

func (e *engine) set(broken bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.broken = broken
}

func (e *engine) want(t *testing.T, ids ...string) {
	t.Helper()
	synctest.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	if !slices.Equal(e.started, ids) {
		t.Errorf("started %v, want %v", e.started, ids)
	}
}

func run(id string) nightcrier.Run {
	return nightcrier.Run{ID: id, Key: "k-" + id, Executor: "claude-code"}
}

// admitting starts an Admitter in the bubble and stops it at the test's end.
func admitting(t *testing.T, cfg Config) *Admitter {
	t.Helper()
	cfg.Total, cfg.PerKey = 5, 1
	a := New(cfg)
	if err := a.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(a.Stop(context.Background()), a.Stop(context.Background())); err != nil {
			t.Error(err)
		}
	})
	return a
}

func TestLeasedRunsGoFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, e := newQueue(run("new")), &engine{broken: true}
		q.leased = []nightcrier.Run{run("old-1"), run("old-2")}
		admitting(t, Config{Queue: q, Start: e.start})
		e.want(t)
		e.set(false)
		time.Sleep(retryAfter)
		e.want(t, "old-1", "old-2", "new")
		q.add(run("later"))
		e.want(t, "old-1", "old-2", "new", "later")
	})
}

func TestEngineDown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, e := newQueue(run("a"), run("b")), &engine{broken: true}
		admitting(t, Config{Queue: q, Start: e.start})
		time.Sleep(10 * retryAfter)
		synctest.Wait()
		if n := q.length(); n != 1 {
			t.Errorf("%d runs wait; no second one may be taken while the first is not started", n)
		}
		e.set(false)
		time.Sleep(retryAfter)
		e.want(t, "a", "b")
	})
}

func TestStoreDown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, e := newQueue(run("a")), &engine{}
		admitting(t, Config{Queue: q, Start: e.start})
		e.want(t, "a")
		q.mu.Lock()
		q.err = errors.New("disk full")
		q.mu.Unlock()
		q.add(run("b"))
		e.want(t, "a")
		q.mu.Lock()
		q.err = nil
		q.mu.Unlock()
		time.Sleep(retryAfter)
		e.want(t, "a", "b")

		q.err = errors.New("gone")
		if err := New(Config{Queue: q}).Start(t.Context()); err == nil {
			t.Error("an unreadable store is no start-up error")
		}
	})
}

func TestBreakerHoldsItsQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, e := newQueue(), &engine{}
		b := newBreaker(t, &memory{states: map[string]store.BreakerState{}}, time.Now)
		for range tripAfter {
			report(t, b, failed(nightcrier.FailQuota))
		}
		admitting(t, Config{Queue: q, Start: e.start, Breaker: b})
		q.add(run("a"))
		e.want(t)
		q.add(run("b"))
		other := run("c")
		other.Executor = "builtin"
		e.want(t)
		q.add(other)
		e.want(t, "c")
		time.Sleep(probeEvery)
		e.want(t, "c", "a")
		time.Sleep(probeEvery)
		e.want(t, "c", "a", "b")
	})
}

func TestExpiredAreTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, e := newQueue(), &engine{}
		var told []nightcrier.Run
		admitting(t, Config{Queue: q, Start: e.start, Expiry: time.Hour, Expired: func(_ context.Context, list []nightcrier.Run) { told = append(told, list...) }})
		synctest.Wait()
		q.mu.Lock()
		q.expired = []nightcrier.Run{run("late")}
		q.mu.Unlock()
		time.Sleep(checkEvery)
		synctest.Wait()
		if len(told) != 1 || told[0].ID != "late" {
			t.Errorf("told of %v", told)
		}
	})
}
