package mcp

import (
	"context"
	"time"

	"golang.org/x/sync/semaphore"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/retry"
)

// Bounds of what has arrived and is not stored yet. When they are reached the
// stream is not read on, and the sender feels it.
const (
	queueLength = 16
	queueBytes  = 4 << 20
	maxPuts     = 1 << 20
)

// storeAgain spaces out the attempts to store one delivery.
var storeAgain = retry.Backoff{Min: 100 * time.Millisecond, Max: 10 * time.Second}

// queue hands deliveries to the sink one by one. It outlives the sessions, so a
// session that breaks takes nothing with it.
type queue struct {
	sink  Sink
	items chan nightcrier.Delivery
	bytes *semaphore.Weighted

	// puts has a place for each put under way; drainQueue waits for all of them and
	// keeps them.
	puts *semaphore.Weighted

	closing context.Context // ended by drainQueue: puts that wait give up
	close   context.CancelFunc
	abort   context.CancelFunc // ends the worker even within a sink call
	done    chan struct{}
	left    int // owned by the worker until done
}

func newQueue(sink Sink) *queue {
	return &queue{
		sink:  sink,
		items: make(chan nightcrier.Delivery, queueLength),
		bytes: semaphore.NewWeighted(queueBytes),
		puts:  semaphore.NewWeighted(maxPuts),
		done:  make(chan struct{}),
	}
}

// startWorker runs the worker. The values of ctx reach the sink; its end does not.
func (q *queue) startWorker(ctx context.Context) {
	q.closing, q.close = context.WithCancel(context.WithoutCancel(ctx))
	work, abort := context.WithCancel(context.WithoutCancel(ctx))
	q.abort = abort
	go q.runWorker(work)
}

// putDelivery waits until there is room, and reports whether the delivery was taken. It
// is not when the source has stopped.
func (q *queue) putDelivery(d nightcrier.Delivery) bool {
	if q.puts.Acquire(q.closing, 1) != nil {
		return false
	}
	defer q.puts.Release(1)
	if q.bytes.Acquire(q.closing, weightOf(d)) != nil {
		return false
	}
	select {
	case q.items <- d:
		return true
	case <-q.closing.Done():
		q.bytes.Release(weightOf(d))
		return false
	}
}

func weightOf(d nightcrier.Delivery) int64 { return min(int64(len(d.Raw)), queueBytes) }

// drainQueue takes nothing more but what is waiting to be put, waits until all of it
// is stored or ctx ends, and returns how many deliveries are left.
func (q *queue) drainQueue(ctx context.Context) int {
	if q.closing.Err() == nil {
		_ = q.puts.Acquire(ctx, maxPuts) // in vain when ctx ends: then puts give up
	}
	q.close()
	select {
	case <-q.done:
	case <-ctx.Done():
		q.abort()
		<-q.done
	}
	q.abort()
	return q.left
}

func (q *queue) runWorker(ctx context.Context) {
	defer close(q.done)
	for {
		select {
		case d := <-q.items:
			q.storeDelivery(ctx, d)
		case <-q.closing.Done():
			q.storeRemaining(ctx)
			return
		}
	}
}

// storeRemaining stores what is still there.
func (q *queue) storeRemaining(ctx context.Context) {
	for {
		select {
		case d := <-q.items:
			q.storeDelivery(ctx, d)
		default:
			return
		}
	}
}

// storeDelivery tries until it works, the sink refuses for good, or ctx ends.
func (q *queue) storeDelivery(ctx context.Context, d nightcrier.Delivery) {
	defer q.bytes.Release(weightOf(d))
	for failures := 1; ; failures++ {
		err := q.sink(ctx, d)
		if err == nil || isPermanent(err) {
			return
		}
		if !storeAgain.Sleep(ctx, failures) {
			q.left++
			return
		}
	}
}

// isPermanent reports whether the same delivery can never be stored.
func isPermanent(err error) bool {
	c := nightcrier.CodeOf(err)
	return c == nightcrier.Invalid || c == nightcrier.Refused
}
