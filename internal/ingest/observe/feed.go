package observe

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/ingest/detect"
	"nightcrier.dev/nightcrier/internal/retry"
)

// storeAgain spaces out the attempts to store one fault.
var storeAgain = retry.Backoff{Min: 100 * time.Millisecond, Max: 10 * time.Second}

// soonest bounds how often the detector is told the time.
const soonest = 100 * time.Millisecond

// feed lets one goroutine at a time at the detector, and hands on what it finds
// in that order.
type feed struct {
	detector Detector
	sink     func(context.Context, detect.Fault) error
	status   *board
	log      *slog.Logger

	mu    sync.Mutex
	armed time.Time // when keepTime wakes by itself

	wake chan struct{} // something is due before that
}

func newFeed(cfg Config, status *board) *feed {
	return &feed{detector: cfg.Detector, sink: cfg.Sink, status: status, log: cfg.Logger, wake: make(chan struct{}, 1)}
}

// callDetector calls the detector and returns when what it found is stored, or ctx has
// ended.
func (f *feed) callDetector(ctx context.Context, call func(Detector) []detect.Fault) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	for _, fault := range call(f.detector) {
		if err := f.storeFault(ctx, fault); err != nil {
			return err
		}
	}
	if next := f.detector.Next(); !next.IsZero() && next.Before(f.armed) {
		select {
		case f.wake <- struct{}{}:
		default:
		}
	}
	return nil
}

// storeFault tries until it works, the sink refuses for good, or ctx ends.
func (f *feed) storeFault(ctx context.Context, fault detect.Fault) error {
	for failures := 1; ; failures++ {
		err := f.sink(ctx, fault)
		if err == nil {
			f.status.countFault()
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		lost := isPermanent(err)
		f.status.noteStoreError(err)
		f.log.Error("storing a fault failed; it is tried again unless it is lost", "event", "fault_not_stored", "error", err,
			"fault_type", fault.Type, "resource", fault.Resource.String(), "lost", lost)
		if lost {
			return nil
		}
		if !storeAgain.Sleep(ctx, failures) {
			return ctx.Err()
		}
	}
}

// isPermanent reports whether the same fault can never be stored.
func isPermanent(err error) bool {
	c := nightcrier.CodeOf(err)
	return c == nightcrier.Invalid || c == nightcrier.Refused
}

// keepTime tells the detector the time when something is due, and every idle
// time anyway.
func (f *feed) keepTime(ctx context.Context, idle time.Duration) {
	timer := time.NewTimer(f.nextWait(idle))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.wake:
		case <-timer.C:
			if f.callDetector(ctx, Detector.Tick) != nil {
				return
			}
		}
		timer.Reset(f.nextWait(idle))
	}
}

// nextWait returns the time until something is due.
func (f *feed) nextWait(idle time.Duration) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.status.setStats(f.detector.Stats())
	wait := idle
	if next := f.detector.Next(); !next.IsZero() {
		wait = min(max(time.Until(next), soonest), idle)
	}
	f.armed = time.Now().Add(wait)
	return wait
}
