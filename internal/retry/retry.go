// Package retry spaces out attempts: one that is made again after a failure, and many
// that begin at once. A server that struggles is not hammered, and many clients of it do
// not move in step.
package retry

import (
	"context"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"
)

// Backoff bounds the wait between attempts.
type Backoff struct{ Min, Max time.Duration }

// Wait returns the wait after so many failures in a row (1 and up): a ceiling that begins
// at Min and doubles up to Max, or somewhat less, by up to a half.
func (b Backoff) Wait(failures int) time.Duration {
	ceiling := b.Max
	if n := max(failures, 1) - 1; n < 20 {
		ceiling = min(ceiling, b.Min<<n)
	}
	return ceiling - rand.N(ceiling/2+1)
}

// Sleep waits as Wait says, and reports whether ctx still stands.
func (b Backoff) Sleep(ctx context.Context, failures int) bool {
	return Sleep(ctx, b.Wait(failures))
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

// ReadAfter returns how long an answer's Retry-After asks to be left alone, in either of
// its forms, and at most so long; 0 when it does not say.
func ReadAfter(h http.Header, now time.Time, most time.Duration) time.Duration {
	value := h.Get("Retry-After")
	if seconds, err := strconv.Atoi(value); err == nil {
		return time.Duration(min(max(0, seconds), int(most/time.Second))) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil {
		return min(max(0, at.Sub(now)), most)
	}
	return 0
}
