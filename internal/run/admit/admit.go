// Package admit decides which queued run goes next, and when: the most severe,
// then oldest, whose key (for an incident its cluster) has no run going, within the limits, and not on an
// executor whose circuit breaker is open. The choice itself is one statement of
// the store; this package is the loop around it.
package admit

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/record/store"
)

const (
	// checkEvery bounds how long an expired run stays in the queue.
	checkEvery = time.Minute
	// retryAfter is how soon what failed (store or engine) is tried again.
	retryAfter = 2 * time.Second
)

// Queue is where runs wait; *store.Store is the one.
type Queue interface {
	AdmitNext(context.Context, store.Limits) (*nightcrier.Run, error)
	LeasedRuns(context.Context) ([]nightcrier.Run, error)
	ExpireQueued(context.Context, time.Duration) ([]nightcrier.Run, error)
	QueueChanged() <-chan struct{}
}

// Config is what an Admitter works with.
type Config struct {
	Queue   Queue
	Breaker *Breaker
	// Total is how many runs may go on at once, PerKey how many investigations on one cluster.
	Total, PerKey int
	// Expiry is how long a run may wait; 0 means until its own deadline.
	Expiry time.Duration
	// Start hands a run that holds a lease to the engine. It is idempotent by the
	// run's id and returns before the run is done; after an error it is called
	// again.
	Start func(context.Context, nightcrier.Run) error
	// Expired, if not nil, is told the runs that waited too long.
	Expired func(context.Context, []nightcrier.Run)
	Logger  *slog.Logger
}

// Admitter admits runs until it is stopped.
type Admitter struct {
	cfg  Config
	stop context.CancelFunc
	done chan struct{}
	once sync.Once
	// owed hold a lease but were not handed over yet.
	owed []nightcrier.Run
}

// New returns an Admitter that does nothing yet.
func New(cfg Config) *Admitter {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Admitter{cfg: cfg, done: make(chan struct{})}
}

// Start hands over the runs that hold a lease from before, then admits in the
// background. An error means that the store could not be read; nothing goes on.
func (a *Admitter) Start(ctx context.Context) error {
	leased, err := a.cfg.Queue.LeasedRuns(ctx)
	if err != nil {
		return err
	}
	a.owed = leased
	ctx, a.stop = context.WithCancel(context.WithoutCancel(ctx))
	go a.runLoop(ctx)
	return nil
}

// Stop takes no more runs; those that go on are left alone. It may be called
// twice, and before Start.
func (a *Admitter) Stop(ctx context.Context) error {
	if a.stop == nil {
		return nil
	}
	a.once.Do(a.stop)
	select {
	case <-a.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (a *Admitter) runLoop(ctx context.Context) {
	defer close(a.done)
	for ctx.Err() == nil {
		timer := time.NewTimer(a.admitRound(ctx))
		select {
		case <-ctx.Done():
		case <-a.cfg.Queue.QueueChanged():
		case <-timer.C:
		}
		timer.Stop()
	}
}

// admitRound does all that can be done now and returns how long there is nothing to
// do unless the queue changes.
func (a *Admitter) admitRound(ctx context.Context) time.Duration {
	a.handOver(ctx)
	if len(a.owed) > 0 {
		return retryAfter // what holds a lease goes first
	}
	if err := a.expireQueued(ctx); err != nil {
		a.logWarning(ctx, "expired runs stay in the queue", err)
	}
	for ctx.Err() == nil {
		run, err := a.cfg.Queue.AdmitNext(ctx, a.Limits())
		if err != nil {
			a.logWarning(ctx, "no run can be admitted", err)
			return retryAfter
		}
		if run == nil {
			return a.idleTime()
		}
		a.handleAdmitted(ctx, *run)
		if len(a.owed) > 0 {
			return retryAfter
		}
	}
	return checkEvery
}

// Limits are those that runs are admitted by now.
func (a *Admitter) Limits() store.Limits {
	l := store.Limits{Total: a.cfg.Total, PerKey: a.cfg.PerKey}
	if a.cfg.Breaker != nil {
		l.Closed = a.cfg.Breaker.Held()
	}
	return l
}

func (a *Admitter) handleAdmitted(ctx context.Context, run nightcrier.Run) {
	if a.cfg.Breaker != nil {
		a.cfg.Breaker.Admitted(run.Executor)
	}
	a.cfg.Logger.LogAttrs(ctx, slog.LevelInfo, "run admitted", slog.String("event", "run_admitted"),
		slog.String("incident_id", run.IncidentID()), slog.String("cluster", run.Cluster()), slog.String("key", run.Key), slog.String("run", run.ID), slog.String("pipeline", run.Pipeline),
		slog.String("executor", run.Executor), slog.Duration("waited", run.AdmittedAt.Sub(run.QueuedAt)))
	a.owed = append(a.owed, run)
	a.handOver(ctx)
}

// handOver gives the engine what it is owed; what it does not take stays owed.
func (a *Admitter) handOver(ctx context.Context) {
	var left []nightcrier.Run
	for _, run := range a.owed {
		if err := a.cfg.Start(ctx, run); err != nil {
			a.logWarning(ctx, "run "+run.ID+" cannot be started yet", err)
			left = append(left, run)
		}
	}
	a.owed = left
}

func (a *Admitter) expireQueued(ctx context.Context) error {
	dropped, err := a.cfg.Queue.ExpireQueued(ctx, a.cfg.Expiry)
	if err == nil && len(dropped) > 0 && a.cfg.Expired != nil {
		a.cfg.Expired(ctx, dropped)
	}
	return err
}

// idleTime is how long nothing becomes possible by itself.
func (a *Admitter) idleTime() time.Duration {
	if a.cfg.Breaker != nil {
		if wait, ok := a.cfg.Breaker.NextProbe(); ok {
			return min(wait, checkEvery)
		}
	}
	return checkEvery
}

func (a *Admitter) logWarning(ctx context.Context, text string, err error) {
	if ctx.Err() == nil {
		a.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, text, slog.Any("error", err))
	}
}
