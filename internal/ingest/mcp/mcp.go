// Package mcp is the fault source that subscribes to a Kubernetes MCP server.
//
// A Source keeps one session with one endpoint: it connects, asks for the log
// level without which a server drops everything, subscribes, and from then on
// polls whether the subscription still stands, because servers cancel it
// without a word. After any doubt it makes a fresh session. Faults are pushed
// over a stream that has no memory, so what cannot be proved to arrive is shown
// as stale, and every payload is handed to the sink before it is forgotten.
//
// Notifications are taken off the wire as bytes, so that an event is stored
// exactly as it came and nothing is larger in memory than the limit.
package mcp

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/retry"
)

// The subscription modes. Auto takes the best that the server offers.
const (
	ModeAuto           = "auto"
	ModeFaults         = "faults"
	ModeResourceFaults = "resource-faults"
	ModeEvents         = "events"
)

// Config says what to subscribe to. Cluster, Endpoint and Logger are required.
type Config struct {
	// Cluster is the configured name; every delivery carries it.
	Cluster string
	// Labels are shown with the status.
	Labels map[string]string
	// Endpoint is the URL of the server's streamable HTTP endpoint.
	Endpoint string
	// Mode is one of the modes above; empty is ModeAuto.
	Mode string
	// APIKey, when not nil, returns the bearer token; it is asked at every request.
	APIKey func() string
	// Transport may be shared by many sources; nil makes one for this source.
	Transport http.RoundTripper
	// Gate, when not nil, is shared by many sources and paces their connecting.
	Gate    *retry.Gate
	Logger  *slog.Logger
	Now     func() time.Time
	Timings Timings
}

// Timings are the source's durations; a zero value selects the default.
type Timings struct {
	// Call bounds each request to the server (30 s).
	Call time.Duration
	// Poll is how often the subscription is checked (30 s).
	Poll time.Duration
	// StreamGrace is how long the notification stream may be gone before the
	// session is given up (15 s).
	StreamGrace time.Duration
	// BackoffMin and BackoffMax bound the wait between attempts (1 s, 60 s).
	BackoffMin, BackoffMax time.Duration
	// Stable is how long a session must have stood for the wait to start small
	// again (1 min).
	Stable time.Duration
	// Close bounds the farewell to the server (5 s).
	Close time.Duration
}

func (t Timings) withDefaults() Timings {
	t.Call, t.Poll, t.StreamGrace = cmp.Or(t.Call, 30*time.Second), cmp.Or(t.Poll, 30*time.Second), cmp.Or(t.StreamGrace, 15*time.Second)
	t.BackoffMin, t.BackoffMax = cmp.Or(t.BackoffMin, time.Second), cmp.Or(t.BackoffMax, time.Minute)
	t.Stable, t.Close = cmp.Or(t.Stable, time.Minute), cmp.Or(t.Close, 5*time.Second)
	return t
}

// Sink stores a delivery durably and returns when that is done. It is called
// by one goroutine at a time for each source. An error is tried again until it
// works, unless its code is Invalid or Refused.
type Sink func(ctx context.Context, d nightcrier.Delivery) error

// Source is the subscription to one cluster's endpoint.
type Source struct {
	cfg    Config
	log    *slog.Logger
	queue  *queue
	redact *redactor

	mu      sync.Mutex
	status  nightcrier.SourceStatus
	changed chan struct{}      // closed and replaced at every change of status
	cancel  context.CancelFunc // nil until Start
	done    chan struct{}      // closed when the loop has ended
}

// New returns a source that is not started.
func New(cfg Config, sink Sink) *Source {
	cfg.Timings = cfg.Timings.withDefaults()
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Mode = cmp.Or(cfg.Mode, ModeAuto)
	s := &Source{
		cfg:     cfg,
		log:     cfg.Logger.With("cluster", cfg.Cluster, "source", "mcp"),
		redact:  newRedactor(cfg.Endpoint, cfg.APIKey),
		changed: make(chan struct{}),
	}
	s.queue = newQueue(s.wrapSink(sink))
	s.status = nightcrier.SourceStatus{
		Cluster:  cfg.Cluster,
		Labels:   cfg.Labels,
		Source:   "mcp",
		Endpoint: s.redact.endpoint,
		State:    nightcrier.SourceStopped,
		Since:    cfg.Now(),
	}
	return s
}

// Start begins to connect in the background and returns at once: an endpoint
// that is down is a state, not an error. A started source is not started again.
func (s *Source) Start(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cancel != nil {
		return nightcrier.Errorf(nightcrier.Conflict, "source of cluster %s was started before", s.cfg.Cluster)
	}
	ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	s.done = make(chan struct{})
	s.queue.startWorker(ctx)
	go s.runSessions(ctx)
	return nil
}

// Stop unsubscribes, ends the session and hands what has arrived to the sink,
// all within ctx. It may be called twice, and on a source never started.
func (s *Source) Stop(ctx context.Context) error {
	s.mu.Lock()
	cancel, done := s.cancel, s.done
	s.mu.Unlock()
	if cancel == nil {
		return nil
	}
	cancel()
	select {
	case <-done:
	case <-ctx.Done():
	}
	if left := s.queue.drainQueue(ctx); left > 0 {
		return nightcrier.Errorf(nightcrier.Interrupted, "source of cluster %s stopped with %d deliveries not stored: %w", s.cfg.Cluster, left, ctx.Err())
	}
	return nil
}

// wrapSink wraps the sink: logs and shows what fails.
func (s *Source) wrapSink(sink Sink) Sink {
	return func(ctx context.Context, d nightcrier.Delivery) error {
		err := sink(ctx, d)
		if err == nil {
			return nil
		}
		s.noteError(nightcrier.Errorf(nightcrier.CodeOf(err), "storing an event: %w", err))
		s.log.Error("storing an event failed; it is tried again unless it is lost", "event", "event_not_stored", "error", err, "bytes", len(d.Raw), "lost", isPermanent(err))
		return err
	}
}
