// Package pace spaces out attempts: many sources that connect at once, and one
// that tries again. A server that struggles is not hammered, and many clients
// of it do not move in step.
package pace

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

// hold is how long one attempt may keep a place in a gate. A peer that hangs
// loses its place then, so hung peers slow the others down but cannot keep them
// out.
const hold = 2 * time.Second

// Gate bounds how many begin something costly at once. A nil Gate lets everyone
// through.
type Gate struct{ places *semaphore.Weighted }

// NewGate returns a gate for n at a time.
func NewGate(n int) *Gate { return &Gate{places: semaphore.NewWeighted(int64(n))} }

// Enter waits for a place. The returned function gives it back; it may be
// called more than once.
func (g *Gate) Enter(ctx context.Context) (leave func(), err error) {
	if g == nil {
		return func() {}, nil
	}
	if err := g.places.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	release := sync.OnceFunc(func() { g.places.Release(1) })
	timer := time.AfterFunc(hold, release)
	return func() { timer.Stop(); release() }, nil
}

// Backoff bounds the wait between attempts.
type Backoff struct{ Min, Max time.Duration }

// Wait returns the wait after so many failures in a row (1 and up): full jitter
// under a doubling ceiling, with a floor that keeps an attempt from following at
// once.
func (b Backoff) Wait(failures int) time.Duration {
	ceiling := b.Max
	if n := failures - 1; n < 20 {
		ceiling = min(ceiling, b.Min<<n)
	}
	return max(rand.N(ceiling), b.Min/10)
}

// Spread returns a time somewhat shorter than d, by up to a tenth, so that what
// many do every d does not happen at once.
func Spread(d time.Duration) time.Duration { return d - rand.N(d/10+1) }

// Sleep waits and reports whether ctx still stands.
func Sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
