// Package watch is the fault source that needs no help: it reads a cluster's
// API and finds the faults itself.
//
// It tells each fault once, and its end, also over restarts: it begins with what
// is on record as being there.
package watch

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/ingest/detect"
	"nightcrier.dev/nightcrier/internal/ingest/observe"
	"nightcrier.dev/nightcrier/internal/retry"
)

// name is the source's, in events and statuses.
const name = "watch"

// Intake is where faults go.
type Intake interface {
	// Deliver stores a payload durably. An error is tried again until it works,
	// unless its code is Invalid or Refused.
	Deliver(ctx context.Context, d nightcrier.Delivery) error
	// Followed lists the incidents whose fault this source said is there, and has
	// not said is over.
	Followed(ctx context.Context, cluster string) ([]nightcrier.Incident, error)
}

// Config says what to watch. Cluster, API, Intake and Logger are required.
type Config struct {
	// Cluster is the configured name; every delivery carries it.
	Cluster string
	// Labels and Endpoint, the address of the cluster, are shown with the status.
	Labels   map[string]string
	Endpoint func() string
	API      observe.API
	// Namespaces bounds what is looked at to them and to what has none; empty means
	// all.
	Namespaces []string
	Intake     Intake
	// Detect is passed on to the detector; its clock is Now.
	Detect detect.Config
	// Gate, when not nil, is shared by many sources and paces their snapshots.
	Gate    *retry.Gate
	Logger  *slog.Logger
	Now     func() time.Time
	Timings observe.Timings
}

// Source watches one cluster.
type Source struct {
	cfg      Config
	log      *slog.Logger
	detector *detect.Detector
	observer *observe.Observer
	trying   attempt // deliver's, which is called by one goroutine at a time

	mu     sync.Mutex
	idle   nightcrier.SourceState // Stopped or Connecting; "" while it observes
	since  time.Time              // of idle
	cancel context.CancelFunc     // nil until Start
	done   chan struct{}
}

// New returns a source that is not started.
func New(cfg Config) *Source {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Detect.Now = cfg.Now
	s := &Source{
		cfg: cfg, log: cfg.Logger.With("cluster", cfg.Cluster, "source", name), detector: detect.New(cfg.Detect),
		idle: nightcrier.SourceStopped, since: cfg.Now(),
	}
	s.observer = observe.New(observe.Config{
		API: cfg.API, Detector: s.detector, Kinds: detect.Kinds(cfg.Namespaces...), Sink: s.deliverFault, Gate: cfg.Gate, Logger: s.log, Timings: cfg.Timings,
	})
	return s
}

// Start begins to watch in the background and returns at once: a cluster that
// is down is a state, not an error. A started source is not started again.
func (s *Source) Start(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cancel != nil {
		return nightcrier.Errorf(nightcrier.Conflict, "watch of cluster %s was started before", s.cfg.Cluster)
	}
	ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	s.done = make(chan struct{})
	s.idle, s.since = nightcrier.SourceConnecting, s.cfg.Now()
	go s.runObserver(ctx)
	return nil
}

// Stop ends all watches and returns when they have ended, or with ctx. What was
// found and is not stored by then is found again after the next start. It may
// be called twice, and on a source never started.
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
		return nil
	case <-ctx.Done():
		return nightcrier.Errorf(nightcrier.Interrupted, "watch of cluster %s is still ending: %w", s.cfg.Cluster, ctx.Err())
	}
}

func (s *Source) runObserver(ctx context.Context) {
	defer close(s.done)
	defer s.enterState(nightcrier.SourceStopped)
	if s.recallIncidents(ctx) {
		s.enterState("")
		s.observer.Run(ctx)
	}
}

func (s *Source) enterState(idle nightcrier.SourceState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.idle, s.since = idle, s.cfg.Now()
}

// recallIncidents tells the detector what is on record, and reports whether that worked
// before ctx ended.
func (s *Source) recallIncidents(ctx context.Context) bool {
	backoff := retry.Backoff{Min: time.Second, Max: 10 * time.Second}
	for failures := 1; ; failures++ {
		list, err := s.cfg.Intake.Followed(ctx, s.cfg.Cluster)
		if err == nil {
			s.expectIncidents(list)
			return true
		}
		wait := backoff.Wait(failures)
		s.log.Error("what was there before is not known; it is asked for again", "event", "watch_waits", "error", err, "retry_in", wait)
		if !retry.Sleep(ctx, wait) {
			return false
		}
	}
}

// expectIncidents has the detector not tell again what is on record, and tell the end of
// what has been healed since. Nothing has been looked at yet.
func (s *Source) expectIncidents(list []nightcrier.Incident) {
	for _, w := range detect.Kinds(s.cfg.Namespaces...) {
		s.detector.Begin(w.Kind, w.Namespace)
	}
	for _, inc := range list {
		if !inc.Resource.In(s.cfg.Namespaces) { // seen when more was looked at: its end would be a guess
			continue
		}
		s.detector.Expect(detect.Fault{
			Type: inc.FaultType, Severity: inc.Severity, Resource: inc.Resource, Owner: inc.Owner, Context: inc.Context, OccurredAt: inc.Timestamp,
		})
	}
}

// attempt is a fault that could not be stored, or of which that is not known, and
// the id of its event.
type attempt struct {
	fault detect.Fault
	id    string
}

// deliverFault hands one fault to intake. Tried again, it is the same event: the last
// attempt may have been stored although nobody heard of it.
func (s *Source) deliverFault(ctx context.Context, f detect.Fault) error {
	if s.trying.id == "" || s.trying.fault != f {
		s.trying = attempt{f, nightcrier.NewID()}
	}
	err := s.cfg.Intake.Deliver(ctx, nightcrier.Delivery{
		Source: name, Cluster: s.cfg.Cluster, ReceivedAt: s.cfg.Now(), EventID: s.trying.id, Raw: f.Payload(s.cfg.Cluster, ""),
	})
	if err == nil {
		s.trying = attempt{}
	}
	return err
}

// Status returns a snapshot.
func (s *Source) Status() nightcrier.SourceStatus {
	is := s.observer.Status()
	st := nightcrier.SourceStatus{
		Cluster: s.cfg.Cluster, Labels: s.cfg.Labels, Source: name, Mode: name,
		State: is.State, Since: is.Since, RetryAt: is.RetryAt, Problems: is.Problems,
		Events: is.Faults, LastEventAt: is.LastFaultAt, Reconnects: is.Relists,
		Objects: is.Detector.Objects, ActiveFaults: is.Detector.Active, LastError: is.LastError, LastErrorAt: is.LastErrorAt,
	}
	if s.cfg.Endpoint != nil {
		st.Endpoint = s.cfg.Endpoint()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.idle != "" {
		st.State, st.Since, st.RetryAt = s.idle, s.since, time.Time{}
	}
	return st
}
