// Package kube is the only way from an agent to a Kubernetes cluster. It lets
// reads pass and nothing else, whatever the credential behind it may do.
//
// A request is taken to pieces, the pieces are judged, and a new request is
// built from them: nothing that the agent wrote gets to the cluster as it was
// written, and no header of it gets there at all. What comes back is bounded,
// freed of secrets, recorded as evidence, and only then given to the agent. The
// decision is put on record before the request is made; what cannot be put on
// record does not happen.
package kube

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/guard/internal/endpoint"
	"nightcrier.dev/nightcrier/internal/record/journal"
)

// Upstream is a cluster's API server.
type Upstream struct {
	Base *url.URL
	// Transport carries the credential.
	Transport http.RoundTripper
	// Notes are for people: what is unusual about the way to the server.
	Notes []string
	// Recorded says that it is what was kept of another guard's answers: it knows only the
	// requests that were made to that one, and its logs are masked.
	Recorded bool
}

// Recorder keeps what was answered and gives it an id such as E12.
type Recorder interface {
	Record(kind, source string, body []byte) (id string, err error)
}

// AuditRecord is one line about one request. There are two for a request that is
// allowed, with the same ID: the decision, and after it, Done, the outcome. A
// denial is one line, Done. Query holds the options as they go to the cluster; for what
// is no resource, the path stands before them.
type AuditRecord = journal.Request

// Decisions.
const (
	Allow = journal.Allow
	Deny  = journal.Deny
)

// Limits bound what one guard asks of a cluster and of this machine. A field
// that is zero has its default.
type Limits struct {
	Items       int           // objects of one page of a list: 500
	Body        int64         // bytes of one answer: 16 MiB
	LogBytes    int64         // bytes of one log: 4 MiB
	StreamBytes int64         // bytes of one watch or followed log: 4 MiB, all of which is evidence
	Kept        int64         // bytes of all streams that are open, where they become evidence: 64 MiB
	StreamTime  time.Duration // of one watch or followed log: 5 min
	CallTime    time.Duration // of any other request: 60 s
	Calls       int           // requests at once, without streams: 8
	Streams     int           // streams at once: 256, as many as a browser of clusters opens
	PerSecond   int           // requests, with bursts of ten seconds: 50
}

func (l Limits) withDefaults() Limits {
	l.Items, l.Calls, l.Streams, l.PerSecond = cmp.Or(l.Items, 500), cmp.Or(l.Calls, 8), cmp.Or(l.Streams, 256), cmp.Or(l.PerSecond, 50)
	l.Body, l.LogBytes, l.StreamBytes, l.Kept = cmp.Or(l.Body, 16<<20), cmp.Or(l.LogBytes, 4<<20), cmp.Or(l.StreamBytes, keepBytes), cmp.Or(l.Kept, 64<<20)
	l.StreamTime, l.CallTime = cmp.Or(l.StreamTime, 5*time.Minute), cmp.Or(l.CallTime, time.Minute)
	return l
}

// Config is what a Guard works with.
type Config struct {
	Upstream Upstream
	// Mask replaces the secrets in a text; JSON must stay JSON.
	Mask func([]byte) []byte
	// MaskLog masks a stretch of a log, each line in its place, and says how many of its
	// lines are settled whatever follows.
	MaskLog func(lines []byte) (masked []byte, settled int)
	// Evidence keeps answers; nil keeps none.
	Evidence Recorder
	// Unannounced keeps the ids of evidence out of answers: a person at a terminal cites
	// none.
	Unannounced bool
	// Audit puts a decision or an outcome on record. Its error stops the request,
	// whose context it is given.
	Audit func(context.Context, AuditRecord) error
	// Namespaces, when there are any, are the only ones that are read, beside
	// what belongs to no namespace.
	Namespaces []string
	Limits     Limits
	Logger     *slog.Logger
	Now        func() time.Time // time.Now when nil
}

// Guard decides on requests and answers them. It is safe for concurrent use.
type Guard struct {
	cfg    Config
	token  string
	closed atomic.Bool
	ids    atomic.Int64
	calls  chan struct{}
	opened chan struct{} // streams
	kept   atomic.Int64  // bytes of open streams that become evidence
	pace   *rate.Limiter
	large  sync.Mutex // one large answer is worked on at a time
}

// New makes a Guard. A part that is missing is an Invalid error.
func New(c Config) (*Guard, error) {
	switch {
	case c.Upstream.Base == nil || c.Upstream.Transport == nil:
		return nil, nightcrier.Errorf(nightcrier.Invalid, "kube guard: no cluster to read")
	case c.Mask == nil || c.MaskLog == nil || c.Audit == nil || c.Logger == nil:
		return nil, nightcrier.Errorf(nightcrier.Invalid, "kube guard: it does not work without Mask, MaskLog, Audit and Logger")
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	c.Limits = c.Limits.withDefaults()
	return &Guard{
		cfg: c, token: endpoint.NewToken("ncr-run-"),
		calls: make(chan struct{}, c.Limits.Calls), opened: make(chan struct{}, c.Limits.Streams),
		pace: rate.NewLimiter(rate.Limit(c.Limits.PerSecond), 10*c.Limits.PerSecond),
	}, nil
}

// Token is what an agent has instead of a credential. It is worth nothing once
// the guard's server is closed.
func (g *Guard) Token() string { return g.token }
