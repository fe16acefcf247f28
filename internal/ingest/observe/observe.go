// Package observe follows one cluster over its API: for every kind that a fault
// detector wants to see it takes a snapshot, watches from there, and takes
// another snapshot when changes were missed. Objects are read one at a time and
// not kept. Where only some namespaces are looked at, a kind is followed in each
// of them by itself.
//
// A kind that the cluster lacks, or that the credential may not read, is named
// in the status and asked for again now and then; it stops no other. An API
// server that struggles is asked less and less often.
package observe

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"nightcrier.dev/nightcrier/internal/cluster/kube"
	"nightcrier.dev/nightcrier/internal/ingest/detect"
	"nightcrier.dev/nightcrier/internal/retry"
)

// API is how a cluster is read; *kube.Client is one.
type API interface {
	ListEach(ctx context.Context, sel kube.Selection, each func(object []byte) error) (resourceVersion string, err error)
	Watch(ctx context.Context, sel kube.Selection, resourceVersion string, lasting time.Duration, each func(kube.Change) error) error
	Ready(ctx context.Context) (ready bool, why string, err error)
}

// Detector makes faults of objects; *detect.Detector is one. It is called by one
// goroutine at a time.
type Detector interface {
	Objects
	Vitals
}

// Objects is what a detector is told of the cluster.
type Objects interface {
	Begin(kind detect.Kind, namespace string)
	Observe(kind detect.Kind, object []byte) []detect.Fault
	End(kind detect.Kind, namespace string) []detect.Fault
	Delete(kind detect.Kind, object []byte) []detect.Fault
	Blind(kind detect.Kind, namespace string, blind bool)
}

// Vitals are the rest: what the API server says of itself, and what a detector
// does as time passes. Next is zero when nothing is due.
type Vitals interface {
	API(ready bool, why string) []detect.Fault
	Tick() []detect.Fault
	Next() time.Time
	Stats() detect.Stats
}

// Config says what to observe. API, Detector, Sink and Logger are required.
type Config struct {
	API      API
	Detector Detector
	// Kinds are those that are looked at; nil means what the detector wants.
	Kinds []detect.Watched
	// Sink stores a fault durably and returns when that is done. An error is tried
	// again until it works, unless its code is Invalid or Refused; meanwhile
	// nothing more is read.
	Sink func(context.Context, detect.Fault) error
	// Gate, when not nil, is shared by many observers and paces their snapshots.
	Gate    *retry.Gate
	Logger  *slog.Logger
	Timings Timings
}

// Timings are an observer's durations; a zero value selects the default.
type Timings struct {
	// Watch is how long one watch is asked to last (10 min); each lasts half of it
	// at least, so that they do not end together.
	Watch time.Duration
	// BackoffMin and BackoffMax bound the wait between attempts (1 s, 60 s).
	BackoffMin, BackoffMax time.Duration
	// Denied is how often a kind is tried that is missing or forbidden (10 min).
	Denied time.Duration
	// Stable is how long a watch must have stood for the wait to start small again
	// (1 min); one that ends by itself before Brief (1 s) has failed.
	Stable, Brief time.Duration
	// Tick is how often the detector is told the time when nothing is due (1 min),
	// Probe how often the API server is asked whether it is ready (30 s).
	Tick, Probe time.Duration
}

func (t Timings) withDefaults() Timings {
	t.Watch, t.Denied = cmp.Or(t.Watch, 10*time.Minute), cmp.Or(t.Denied, 10*time.Minute)
	t.BackoffMin, t.BackoffMax = cmp.Or(t.BackoffMin, time.Second), cmp.Or(t.BackoffMax, time.Minute)
	t.Stable, t.Brief = cmp.Or(t.Stable, time.Minute), cmp.Or(t.Brief, time.Second)
	t.Tick, t.Probe = cmp.Or(t.Tick, time.Minute), cmp.Or(t.Probe, 30*time.Second)
	return t
}

// Observer follows one cluster.
type Observer struct {
	cfg    Config
	feed   *feed
	status *board
}

// New returns an observer that has not begun.
func New(cfg Config) *Observer {
	cfg.Timings = cfg.Timings.withDefaults()
	if cfg.Kinds == nil {
		cfg.Kinds = detect.Kinds()
	}
	o := &Observer{cfg: cfg, status: newBoard(cfg.Kinds, cfg.Logger)}
	o.feed = newFeed(cfg, o.status)
	return o
}

// Run observes until ctx ends and then returns; call it once. The kinds are
// listed one after the other, in their order, and watched at once.
func (o *Observer) Run(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	all.Go(func() { o.feed.keepTime(ctx, o.cfg.Timings.Tick) })
	all.Go(func() { o.probeAPI(ctx) })
	for _, w := range o.cfg.Kinds {
		tried := make(chan struct{})
		l := newLoop(o, w, sync.OnceFunc(func() { close(tried) }))
		all.Go(func() { l.runLoop(ctx) })
		select {
		case <-tried:
		case <-ctx.Done():
			return
		}
	}
}

// probeAPI asks the API server how it is. An answer that does not come says nothing
// about the cluster: the way to it may be what is broken.
func (o *Observer) probeAPI(ctx context.Context) {
	for retry.Sleep(ctx, retry.Spread(o.cfg.Timings.Probe)) {
		ready, why, err := o.cfg.API.Ready(ctx)
		if err != nil {
			continue
		}
		if o.feed.callDetector(ctx, func(d Detector) []detect.Fault { return d.API(ready, why) }) != nil {
			return
		}
	}
}

// Synced is closed when there was a snapshot of every kind that the cluster has
// and shows.
func (o *Observer) Synced() <-chan struct{} { return o.status.synced }

// Status returns how it goes.
func (o *Observer) Status() Status { return o.status.readStatus() }
