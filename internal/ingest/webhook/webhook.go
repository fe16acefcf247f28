// Package webhook takes faults that others post: Alertmanager's notifications,
// and anything else by a mapping of expressions.
//
// Each payload becomes deliveries, one for each alert in it. An answer of success
// is given when all of them are stored; after any other the sender sends again,
// and what was stored already is only counted: an alert's event has an id that
// follows from the alert.
package webhook

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"nightcrier.dev/nightcrier"
)

const (
	// Source is the source's name in events and in the list of sources; there a
	// mapping's own name follows.
	Source = "webhook"
	// AnyCluster stands in the list for the clusters that payloads name.
	AnyCluster = "*"
)

// Cluster is a cluster whose Alertmanager may post.
type Cluster struct {
	Name   string
	Labels map[string]string
	// Token is what the sender shows; empty serves the cluster to this machine only.
	Token string
	// Listed tells of the cluster's Alertmanager also before it posts.
	Listed bool
	// AlertLabels say which of the alerts' labels names what, where that is not as
	// kube-prometheus has it; see Roles.
	AlertLabels map[string]string
	// MaskLog, if not nil, hides secrets in a text of several lines that may be a part of a
	// log: an annotation, before others stand around it.
	MaskLog func(text string) string
}

// Config is what Hooks work with.
type Config struct {
	Clusters []Cluster
	Mappings []Mapping
	// Deliver stores a delivery durably, or returns an error. Repeated says that it
	// was there before.
	Deliver func(context.Context, nightcrier.Delivery) (outcome nightcrier.Outcome, repeated bool, err error)
	Logger  *slog.Logger
	Now     func() time.Time
}

// Hooks are the addresses that others post to.
type Hooks struct {
	cfg   Config
	slots chan struct{}
	// alerts are the endpoints of Alertmanagers by cluster, named all others.
	alerts, named map[string]*endpoint
	order         []*endpoint
}

// endpoint is one address.
type endpoint struct {
	name    string
	cluster Cluster // its Name is empty where the payload says it
	token   string
	read    func(ctx context.Context, body []byte) batch

	mu     sync.Mutex
	status nightcrier.SourceStatus
}

// batch is what a payload holds.
type batch struct {
	deliveries []nightcrier.Delivery
	// problem is why the payload as a whole could not be read; it is then the one
	// delivery.
	problem error
	// lacking is what the sender says that it has left out, "" for nothing.
	lacking string
}

// New returns the hooks of a configuration. An expression that does not compile
// is an Invalid error.
func New(cfg Config) (*Hooks, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	h := &Hooks{cfg: cfg, slots: make(chan struct{}, maxAtOnce), alerts: map[string]*endpoint{}, named: map[string]*endpoint{}}
	known := map[string]bool{}
	for _, c := range cfg.Clusters {
		known[c.Name] = true
		e := &endpoint{name: "alertmanager/" + c.Name, cluster: c, token: c.Token, read: func(_ context.Context, body []byte) batch {
			return readAlerts(c, body)
		}}
		h.alerts[c.Name] = h.addEndpoint(e)
	}
	for _, m := range cfg.Mappings {
		p, err := m.compileProgram()
		if err != nil {
			return nil, err
		}
		e := &endpoint{name: m.Name, token: m.Token, read: func(ctx context.Context, body []byte) batch {
			return p.readPayload(ctx, body, known)
		}}
		h.named[m.Name] = h.addEndpoint(e)
	}
	return h, nil
}

func (h *Hooks) addEndpoint(e *endpoint) *endpoint {
	e.status = nightcrier.SourceStatus{Cluster: e.cluster.Name, Labels: e.cluster.Labels, Source: Source, Mode: alertDialect,
		State: nightcrier.SourceSubscribed, Since: h.cfg.Now()}
	if e.cluster.Name == "" {
		e.status.Cluster, e.status.Source, e.status.Mode = AnyCluster, Source+"/"+e.name, "mapping"
	}
	h.order = append(h.order, e)
	return e
}

// Statuses tells of the hooks that have a token or are to be listed, and of those that
// were posted to.
func (h *Hooks) Statuses() []nightcrier.SourceStatus {
	var list []nightcrier.SourceStatus
	for _, e := range h.order {
		e.mu.Lock()
		if e.token != "" || e.cluster.Listed || !e.status.LastEventAt.IsZero() || e.status.LastError != "" {
			list = append(list, e.status)
		}
		e.mu.Unlock()
	}
	return list
}

// noteReceived counts what came in, and remembers what was wrong with it.
func (e *endpoint) noteReceived(now time.Time, events int, problem string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if events > 0 {
		e.status.Events += int64(events)
		e.status.LastEventAt = now
	}
	if problem != "" {
		e.status.LastError, e.status.LastErrorAt = problem, now
	}
}
