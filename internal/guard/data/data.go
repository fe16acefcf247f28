// Package data is the only way from an agent to what a cluster's Prometheus and Loki
// know. It asks them questions and nothing else.
//
// Nobody hands it a request: a query, a time range and a label's name are taken as
// values, bounded, and put into a request of our own to one of four fixed paths. So
// there is no path to trick it with, and no header but ours. The credential goes to
// the configured address alone: redirects are not followed. The decision is put on
// record before the question is asked; what comes back is bounded, freed of secrets
// and recorded as evidence before anybody sees it.
package data

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/record/journal"
	"nightcrier.dev/nightcrier/internal/record/replay/tape"
)

// The systems that can be asked, as they are called in records and texts.
const (
	Prometheus = "prometheus"
	Loki       = "loki"
)

// Endpoint is where a system answers, and what it is asked with.
type Endpoint struct {
	URL string `json:"url"`
	// Token goes before Username and Password; all may be empty.
	Token    string `json:"token,omitempty"`
	Username string `json:"username,omitempty"`
	Password string `json:"password,omitempty"`
	// Tenant is the value of X-Scope-OrgID, "" for no such header.
	Tenant string `json:"tenant,omitempty"`
	// NamespaceLabel is the label that holds a Pod's namespace.
	NamespaceLabel string `json:"namespaceLabel,omitempty"`
}

// Access is what of one cluster may be asked. It holds secrets.
type Access struct {
	Prometheus *Endpoint `json:"prometheus,omitempty"`
	Loki       *Endpoint `json:"loki,omitempty"`
	// Namespaces, when there are any, are the only ones that are told of.
	Namespaces []string `json:"namespaces,omitempty"`
}

// Secrets are the values in it that must appear nowhere.
func (a *Access) Secrets() []string {
	var all []string
	for _, e := range []*Endpoint{a.Prometheus, a.Loki} {
		if e != nil {
			all = append(all, e.Token, e.Password)
		}
	}
	return all
}

// Recorder keeps what was answered and gives it an id such as E12.
type Recorder interface {
	Record(kind, source string, body []byte) (id string, err error)
}

// The kinds of evidence. What is Computed holds text of whoever asked, so nobody may
// cite it for what the cluster said.
const (
	KindMetrics  = "metrics"
	KindLines    = "lines"
	KindComputed = "computed"
)

// Config is what a Guard works with.
type Config struct {
	Access
	// Mask replaces the secrets in a text; JSON must stay JSON.
	Mask func([]byte) []byte
	// MaskLog masks a stretch of a log, each line in its place.
	MaskLog func(lines []byte) (masked []byte, settled int)
	// Evidence keeps answers; nil keeps none.
	Evidence Recorder
	// Audit puts a decision or an outcome on record. Its error stops the question.
	Audit  func(context.Context, journal.Request) error
	Logger *slog.Logger
	Now    func() time.Time // time.Now when nil
	// Take is how the systems and the clock are asked; nil is tape.Live.
	Take tape.Take
}

// Guard asks on behalf of others. It is safe for concurrent use.
type Guard struct {
	cfg     Config
	systems map[string]*system
	ids     atomic.Int64
	calls   chan struct{}
	client  *http.Client
}

// system is one that can be asked.
type system struct {
	name string
	Endpoint
	base *url.URL
	api  string // the path of its API
}

const (
	// maxCalls is how many questions are under way at once.
	maxCalls = 4
	// firstID numbers the questions apart from the requests of a cluster's guard, which
	// stand in the same record.
	firstID = int64(1) << 41
	// defaultNamespaceLabel is what the usual collectors call it.
	defaultNamespaceLabel = "namespace"
)

// New makes a Guard. A part that is missing or cannot be used is an Invalid error.
func New(c Config) (*Guard, error) {
	if c.Mask == nil || c.MaskLog == nil || c.Audit == nil || c.Logger == nil {
		return nil, nightcrier.Errorf(nightcrier.Invalid, "data guard: it does not work without Mask, MaskLog, Audit and Logger")
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Take == nil {
		c.Take = tape.Live
	}
	g := &Guard{cfg: c, systems: map[string]*system{}, calls: make(chan struct{}, maxCalls), client: newClient()}
	for name, e := range map[string]*Endpoint{Prometheus: c.Prometheus, Loki: c.Loki} {
		if e == nil {
			continue
		}
		s, err := newSystem(name, *e)
		if err != nil {
			return nil, err
		}
		g.systems[name] = s
	}
	g.ids.Store(firstID)
	return g, nil
}

func newSystem(name string, e Endpoint) (*system, error) {
	base, err := url.Parse(e.URL)
	if err != nil || base.Host == "" || base.User != nil || base.Scheme != "http" && base.Scheme != "https" {
		return nil, nightcrier.Errorf(nightcrier.Invalid, "data guard: the URL of %s is none that can be asked: write http://host:port or https://host", name)
	}
	e.NamespaceLabel = cmp.Or(e.NamespaceLabel, defaultNamespaceLabel)
	s := &system{name: name, Endpoint: e, base: base, api: "/api/v1/"}
	if name == Loki {
		s.api = "/loki/api/v1/"
	}
	s.base.Path, s.base.RawPath, s.base.RawQuery = strings.TrimRight(base.Path, "/"), "", ""
	return s, nil
}

// Has reports whether a system can be asked.
func (g *Guard) Has(name string) bool { return g.systems[name] != nil }

func (g *Guard) systemByName(name string) (*system, error) {
	if s := g.systems[name]; s != nil {
		return s, nil
	}
	return nil, nightcrier.Errorf(nightcrier.NotFound, "no %s is configured for this cluster (clusters[].sources.%s.url)", name, name)
}
