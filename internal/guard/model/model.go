// Package model is the only way from a sandbox to a model: a forwarder that
// takes the run's token from the agent and puts the real key in its place.
//
// It speaks one provider's API, forwards the calls of it that an investigation
// needs and nothing else, streams answers through as they come, and counts what
// they cost in tokens. What differs between the APIs is a dialect, one a file.
package model

import (
	"cmp"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"sync"
	"sync/atomic"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/guard/internal/endpoint"
	"nightcrier.dev/nightcrier/internal/guard/price"
)

// maxBody bounds a request: the API itself takes 32 MB. maxCalls bounds how many of an
// agent's calls are under way at once, and readTime how long a request may take to
// arrive. maxFree bounds the calls that are not paid for: no budget ends them, and they
// count against the rate limit of the key, which other runs use too.
const (
	maxBody  = 32 << 20
	maxCalls = 16
	maxFree  = 2000
	readTime = 2 * time.Minute
)

// Config says where a Guard forwards to, and with which key.
type Config struct {
	// Provider is whose API is spoken; empty is Anthropic.
	Provider nightcrier.Provider
	// Upstream is the base URL; empty is the vendor's own. A path in it is kept; it
	// may end in the API's version (https://api.openai.com/v1) or not.
	Upstream string
	// Key is the real API key. The agent never sees it.
	Key string
	// Keyless says that the upstream is asked without a key, where Key is empty.
	Keyless bool
	// Answers is how many answers of the model an agent may have; 0 is no limit. When
	// it asks for one more, that call is refused and Exhausted is told, each time.
	Answers int
	// Models are the names that may be asked for, as patterns in which * stands for any
	// text without a slash; empty means any.
	Models []string
	// MaxTokens bounds each answer, in tokens; 0 is DefaultMaxTokens.
	MaxTokens int64
	// Prices are what models cost. With NeedsPrice, one that is not among them is not
	// asked.
	Prices     price.Table
	NeedsPrice bool
	// Unpriced ends what is said of one without a price: where else a price can be set, or
	// what else can be done. Empty is the limits of the configuration.
	Unpriced string
	// Budget allows each call that is paid for; nil allows all.
	Budget Budget
	// Mask replaces what is secret in the texts of a request; nil leaves all as it is.
	// The same text must always become the same.
	Mask func(string) string
	// Transport is http.DefaultTransport's clone when nil.
	Transport http.RoundTripper
	Logger    *slog.Logger

	// What follows is called from several goroutines; nil is that nobody is told.

	// Record is told of every call that is forwarded, when it is sent and when its answer
	// has ended. No answer waits for it.
	Record func(Exchange)
	// Failed is told of every answer that is an error, and of every call that none came
	// to, before the agent is.
	Failed func(Failure)
	// Refused is told of every call that is not forwarded because of what it is, and why;
	// also of the one that the guard answers itself.
	Refused func(call, why string)
	// Exhausted is told of every call that is not forwarded because there were so many
	// Answers already, Spent of every one that Budget did not allow, before the agent is.
	Exhausted func()
	Spent     func(error)
}

// withDefaults fills in what is left out, so that nobody else has to look.
func (c Config) withDefaults() Config {
	c.Provider = cmp.Or(c.Provider, nightcrier.Anthropic)
	c.MaxTokens = cmp.Or(c.MaxTokens, DefaultMaxTokens)
	c.Unpriced = cmp.Or(c.Unpriced, "or set the budget.*_usd limits to 0")
	if c.Record == nil {
		c.Record = func(Exchange) {}
	}
	if c.Failed == nil {
		c.Failed = func(Failure) {}
	}
	if c.Refused == nil {
		c.Refused = func(call, why string) {}
	}
	if c.Exhausted == nil {
		c.Exhausted = func() {}
	}
	if c.Spent == nil {
		c.Spent = func(error) {}
	}
	return c
}

// Guard is a running forwarder.
type Guard struct {
	cfg      Config
	dialect  dialect
	facts    facts
	endpoint *endpoint.Endpoint // nil where it serves on no port
	token    string
	proxy    *httputil.ReverseProxy
	slots    chan struct{} // one for every call that is under way

	free  atomic.Int64 // calls that are not paid for
	turns atomic.Int64 // calls that an answer has begun to, or may yet

	meter      meter
	bounds     *bounds
	dropped    dropped
	ledger     ledger
	inspecting sync.Mutex
	closing    sync.Once
}

// Start serves on l, which it takes over, until Close.
func Start(l net.Listener, c Config) (*Guard, error) {
	g, err := New(c)
	if err != nil {
		return nil, err
	}
	if g.endpoint, err = endpoint.New("model guard", l); err != nil {
		return nil, err
	}
	g.endpoint.Serve(&http.Server{Handler: g, ErrorLog: g.proxy.ErrorLog, MaxHeaderBytes: 64 << 10}, g.cfg.Logger)
	return g, nil
}

// New makes a guard that serves on no port: whoever has it asks it as the http.Handler that it is.
func New(c Config) (*Guard, error) {
	c = c.withDefaults()
	api, upstream, err := c.resolveDialect()
	if err != nil {
		return nil, err
	}
	if c.Key == "" && !c.Keyless {
		return nil, nightcrier.Errorf(nightcrier.Invalid, "model guard: no API key")
	}
	g := &Guard{
		cfg: c, dialect: api, facts: api.factsAt(upstream.Hostname()), slots: make(chan struct{}, maxCalls), bounds: newBounds(),
		token: endpoint.NewToken("sk-ant-run-"), // like a key: some clients check the shape
	}
	g.proxy = &httputil.ReverseProxy{
		Rewrite:        func(r *httputil.ProxyRequest) { g.rewriteRequest(r, upstream) },
		Transport:      transportOrDefault(c.Transport),
		FlushInterval:  -1, // streams: each chunk as it comes
		ModifyResponse: g.observeAnswer,
		ErrorHandler:   g.handleCallError,
		ErrorLog:       slog.NewLogLogger(c.Logger.Handler(), slog.LevelWarn),
	}
	return g, nil
}

// URL is the base URL for the agent.
func (g *Guard) URL() string { return "http://" + g.endpoint.Addr().String() }

// Port is the TCP port that the agent connects to.
func (g *Guard) Port() int { return g.endpoint.Port() }

// Token is what the agent has instead of the key; it is worth nothing after Close.
func (g *Guard) Token() string { return g.token }

// Usage is what has been counted so far. The cost is of models that have a price.
func (g *Guard) Usage() nightcrier.Usage { return g.meter.totalUsage() }

// Close ends the forwarder, cuts what is under way, and returns when all of it is on
// record.
func (g *Guard) Close() error {
	var err error
	g.closing.Do(func() {
		if g.endpoint != nil {
			err = g.endpoint.Close()
		}
		for range maxCalls {
			g.slots <- struct{}{} // for good
		}
	})
	return err
}

var _ io.Closer = (*Guard)(nil)
