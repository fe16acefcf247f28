package retry

import (
	"context"
	"sync"
	"time"
)

// hold is how long one attempt may keep a place in a gate. A peer that hangs
// loses its place then, so hung peers slow the others down but cannot keep them
// out.
const hold = 2 * time.Second

// Gate bounds how many begin something costly at once. A nil Gate lets everyone
// through.
type Gate struct{ places chan struct{} }

// NewGate returns a gate for n at a time.
func NewGate(n int) *Gate { return &Gate{places: make(chan struct{}, n)} }

// Enter waits for a place. The returned function gives it back; it may be
// called more than once.
func (g *Gate) Enter(ctx context.Context) (leave func(), err error) {
	if g == nil {
		return func() {}, nil
	}
	select {
	case g.places <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	release := sync.OnceFunc(func() { <-g.places })
	timer := time.AfterFunc(hold, release)
	return func() { timer.Stop(); release() }, nil
}
