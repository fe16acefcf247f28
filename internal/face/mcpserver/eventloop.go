package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/cluster/kube"
	"nightcrier.dev/nightcrier/internal/retry"
)

const (
	// eventWatch is how long one watch of events is asked to last.
	eventWatch = 10 * time.Minute
	// eventBrief is how long a watch lasts at least; one that ends sooner has
	// failed, though nobody says so, and is not begun again at once.
	eventBrief = time.Second
)

// watchEvents follows the Kubernetes events from now on. f.mu is held.
func (f *feed) watchEvents(ctx context.Context, w *watching) {
	l := &eventLoop{feed: f, settled: make(chan struct{})}
	w.look = l.watchState
	f.running.Go(func() { l.runWatches(ctx) })
	f.running.Go(func() { f.reportOutages(ctx, w) })
}

// eventLoop is one watch of events.
type eventLoop struct {
	feed    *feed
	settled chan struct{}
	once    sync.Once

	mu  sync.Mutex
	err string
}

func (l *eventLoop) watchState() (string, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err, l.settled
}

func (l *eventLoop) setError(err string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err = err
}

// runWatches watches again whenever a watch ends. After a gap it begins anew: events
// are a stream, not a state.
func (l *eventLoop) runWatches(ctx context.Context) {
	backoff := retry.Backoff{Min: time.Second, Max: time.Minute}
	version, failures := "", 0
	for ctx.Err() == nil {
		err := l.watchOnce(ctx, &version)
		if err == nil {
			failures = 0
			continue
		}
		if failures++; failures > 1 && ctx.Err() == nil {
			l.setError(err.Error())
		}
		if !retry.Sleep(ctx, backoff.Wait(failures)) {
			return
		}
	}
}

func (l *eventLoop) watchOnce(ctx context.Context, version *string) error {
	api := l.feed.cluster.API
	if *version == "" {
		raw, err := api.List(ctx, "Event", "", "", "", 1)
		if err != nil {
			return err
		}
		var list struct {
			Metadata struct {
				ResourceVersion string `json:"resourceVersion"`
			} `json:"metadata"`
		}
		if err := json.Unmarshal(raw, &list); err != nil || list.Metadata.ResourceVersion == "" {
			return nightcrier.Errorf(nightcrier.Unreachable, "list events: the answer is not a list")
		}
		*version = list.Metadata.ResourceVersion
	}
	began := time.Now()
	err := api.Watch(ctx, kube.Selection{APIVersion: "v1", Kind: "Event"}, *version, eventWatch, func(c kube.Change) error {
		*version = c.ResourceVersion
		l.handleChange(ctx, c)
		return nil
	})
	switch {
	case errors.Is(err, kube.ErrGone):
		*version = ""
	case err == nil && time.Since(began) < eventBrief:
		return nightcrier.Errorf(nightcrier.Unreachable, "watch events: the server ended the watch at once")
	}
	return err
}

func (l *eventLoop) handleChange(ctx context.Context, c kube.Change) {
	switch c.Type {
	case kube.Opened:
		l.setError("")
		l.once.Do(func() { close(l.settled) })
		return
	case kube.Added, kube.Modified:
	default:
		return
	}
	var e corev1.Event
	if json.Unmarshal(c.Object, &e) != nil {
		return // one unreadable event is no reason to stop
	}
	f := l.feed
	f.mu.Lock()
	defer f.mu.Unlock()
	if ctx.Err() != nil {
		return
	}
	for sub := range f.events.subs {
		sub.offerEvent(&e)
	}
}
