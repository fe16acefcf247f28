// Package intake decides what becomes of each payload that a source received:
// a list of stages reads it, judges it, and finds out whose fault it is; the
// store then joins it to an incident or opens one. Whatever happens, the event
// is stored with a typed reason: nothing is dropped silently.
package intake

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/record/store"
)

// Store keeps events; *store.Store is the one.
type Store interface {
	Accept(context.Context, nightcrier.Event, store.AcceptPolicy) (store.Decision, error)
	Suppress(context.Context, nightcrier.Event) (repeated bool, err error)
}

// OwnerResolver asks a cluster for the workload that a person would mend.
type OwnerResolver interface {
	Owner(ctx context.Context, cluster string, res nightcrier.Resource) (nightcrier.Resource, error)
}

// Config is what an Intake works with.
type Config struct {
	Store Store
	// Owners may be nil: owners are then guessed from names.
	Owners OwnerResolver
	// Namespaces are those of a cluster that are looked at, none for all; it may be
	// nil.
	Namespaces func(cluster string) []string
	// Threshold is the lowest severity that opens an incident.
	Threshold nightcrier.Severity
	Policy    store.AcceptPolicy
	// Mask, if not nil, hides the secrets of a cluster in text; JSON stays JSON.
	Mask func(cluster, text string) string
	// MaskLog, if not nil, hides them in a text of several lines that may be a part of a log.
	MaskLog func(cluster, text string) string
	Logger  *slog.Logger
	// Metrics, if not nil, is told each decision that was stored.
	Metrics func(store.Decision)
	// Now is the clock, time.Now by default.
	Now func() time.Time
}

// Intake takes deliveries in. It may be used concurrently.
type Intake struct {
	cfg    Config
	stages []Stage
}

// Stage looks at an event and completes it. The reason says why the event ends
// here, "" that it goes on; ev.Detail may say more.
type Stage interface {
	Judge(ctx context.Context, d nightcrier.Delivery, ev *nightcrier.Event) nightcrier.Reason
}

// New returns an Intake with the stages that every delivery goes through.
func New(cfg Config) *Intake {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Namespaces == nil {
		cfg.Namespaces = func(string) []string { return nil }
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Intake{cfg: cfg, stages: []Stage{
		receipt{now: cfg.Now},
		parse{},
		legalNames{},
		scope{of: cfg.Namespaces},
		threshold{lowest: cfg.Threshold},
		&fingerprint{owners: newOwners(cfg.Owners, cfg.Logger, cfg.Now)},
	}}
}

// Deliver takes one payload in and returns what became of it. When it returns
// without an error the event is stored durably; with one, nothing of it is, and
// it may be delivered again.
func (in *Intake) Deliver(ctx context.Context, d nightcrier.Delivery) (store.Decision, error) {
	for _, id := range []string{d.EventID, d.IncidentID} {
		if id != "" && !nightcrier.ValidID(id) {
			return store.Decision{}, nightcrier.CheckID(id)
		}
	}
	var ev nightcrier.Event
	for _, stage := range in.stages {
		if ev.Reason = stage.Judge(ctx, d, &ev); ev.Reason != "" {
			break
		}
	}
	in.maskEvent(&ev)
	decision, err := in.recordEvent(ctx, ev)
	if err != nil {
		return store.Decision{}, fmt.Errorf("take in an event of cluster %q: %w", ev.Cluster, err)
	}
	in.notifyDecision(ctx, ev, decision)
	return decision, nil
}

func (in *Intake) recordEvent(ctx context.Context, ev nightcrier.Event) (store.Decision, error) {
	if ev.Reason == "" {
		return in.cfg.Store.Accept(ctx, ev, in.cfg.Policy)
	}
	d := store.Decision{EventID: ev.ID, Cluster: ev.Cluster, Outcome: nightcrier.Suppressed, Reason: ev.Reason, Detail: ev.Detail}
	repeated, err := in.cfg.Store.Suppress(ctx, ev)
	d.Repeated = repeated
	return d, err
}

func (in *Intake) notifyDecision(ctx context.Context, ev nightcrier.Event, d store.Decision) {
	level := slog.LevelInfo
	if d.Repeated {
		level = slog.LevelDebug // it was told when it came first
	}
	in.cfg.Logger.LogAttrs(ctx, level, "event taken in",
		slog.String("component", "intake"), slog.String("cluster", ev.Cluster), slog.String("event", "event_taken_in"), slog.String("event_id", ev.ID), slog.String("incident_id", d.Incident.ID),
		slog.String("outcome", string(d.Outcome)), slog.String("reason", string(d.Reason)), slog.String("detail", d.Detail),
		slog.String("fault_type", ev.FaultType), slog.String("severity", ev.Severity.String()), slog.String("resource", ev.Resource.String()))
	for _, run := range d.Dropped {
		in.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "a queued run was dropped",
			slog.String("component", "intake"), slog.String("event", "run_dropped"), slog.String("cluster", run.Key), slog.String("incident_id", run.IncidentID()), slog.String("reason", string(run.Reason)))
	}
	if in.cfg.Metrics != nil {
		in.cfg.Metrics(d)
	}
}
