// Package model is the only way from a sandbox to a model: a forwarder that
// takes the run's token from the agent and puts the real key in its place.
//
// It speaks one provider's API, forwards the calls of it that an investigation
// needs and nothing else, streams answers through as they come, and counts what
// they cost in tokens. One file an API.
package model

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/netutil"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/price"
)

// maxBody bounds a request: the API itself takes 32 MB. maxCalls and maxConns
// bound what one agent can make us hold at a time; maxFree is how many calls it may
// make that are not paid for, which no budget ends: they use up what a key may be used
// for in a minute, and others have the same; readTime is how long a request may take to
// arrive.
const (
	maxBody  = 32 << 20
	maxCalls = 16
	maxConns = 64
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
	// Key is the real API key. It never leaves towards the agent.
	Key string
	// Keyless says that the upstream is asked without a key, where Key is empty.
	Keyless bool
	// Answers is how many answers of the model an agent may have; 0 is no limit. When
	// it asks for one more, that call is refused and Exhausted is called, each time.
	Answers   int
	Exhausted func()
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
	// Budget allows each call that is paid for; nil allows all. Spent is told of every
	// call that it did not allow, before the agent is; nil needs not know.
	Budget Budget
	Spent  func(error)
	// Mask replaces what is secret in the texts of a request; nil leaves all as it is.
	// The same text must always become the same.
	Mask func(string) string
	// Transport is http.DefaultTransport's clone when nil.
	Transport http.RoundTripper
	Logger    *slog.Logger
	// Record is told of every call that is forwarded; nil keeps no record. It is
	// called from several goroutines, and keeps no answer from going on.
	Record func(Exchange)
	// Failed is told of every answer that is an error, and of every call that none came
	// to, before the agent is; nil needs not know. It is called from several goroutines.
	Failed func(Failure)
	// Kept is told of every call that stays here, and why; nil needs not know. It is
	// called from several goroutines.
	Kept func(call, why string)
}

// Guard is a running forwarder.
type Guard struct {
	protocol protocol

	url   string
	port  int
	token string
	key   string
	srv   *http.Server
	proxy *httputil.ReverseProxy
	meter meter
	log   *slog.Logger
	slots chan struct{}
	done  chan struct{}

	answers   int64
	free      atomic.Int64 // calls that are not paid for
	begun     atomic.Int64 // answers that the agent was given, or is being given
	exhausted func()
	failed    func(Failure)
	kept      func(call, why string)

	provider   nightcrier.Provider
	models     []string
	maxTokens  int64
	prices     price.Table
	needsPrice bool
	unpriced   string
	budget     Budget
	spent      func(error)
	mask       func(string) string
	bounds     *bounds

	dropped    dropped
	inspecting sync.Mutex
	ledger     ledger
	record     func(Exchange)
	closing    sync.Once
}

// Start serves on l, which it takes over, until Close.
func Start(l net.Listener, c Config) (*Guard, error) {
	api, upstream, err := c.api()
	if err != nil {
		return nil, err
	}
	if c.Key == "" && !c.Keyless {
		return nil, nightcrier.Errorf(nightcrier.Invalid, "model guard: no API key")
	}
	addr, ok := l.Addr().(*net.TCPAddr)
	if !ok {
		return nil, nightcrier.Errorf(nightcrier.Internal, "model guard: %s is no TCP address", l.Addr())
	}
	g := &Guard{
		protocol: api, url: "http://" + addr.String(), port: addr.Port, token: newToken(), key: c.Key, log: c.Logger,
		answers: int64(c.Answers), exhausted: c.Exhausted, record: c.Record, failed: c.Failed,
		slots: make(chan struct{}, maxCalls), done: make(chan struct{}),
		provider: c.provider(), models: c.Models, maxTokens: cmp.Or(c.MaxTokens, DefaultMaxTokens),
		prices: c.Prices, needsPrice: c.NeedsPrice, unpriced: cmp.Or(c.Unpriced, "or set the budget.*_usd limits to 0"), budget: c.Budget, spent: c.Spent, mask: c.Mask, bounds: newBounds(),
	}
	if g.spent == nil {
		g.spent = func(error) {}
	}
	if g.kept = c.Kept; g.kept == nil {
		g.kept = func(call, why string) {}
	}
	if g.record == nil {
		g.record = func(Exchange) {}
	}
	g.proxy = &httputil.ReverseProxy{
		Rewrite:        func(r *httputil.ProxyRequest) { g.rewrite(r, upstream) },
		Transport:      transport(c.Transport),
		FlushInterval:  -1, // streams: each chunk as it comes
		ModifyResponse: g.observe,
		ErrorHandler:   g.unreachable,
		ErrorLog:       slog.NewLogLogger(c.Logger.Handler(), slog.LevelWarn),
	}
	g.srv = &http.Server{
		Handler: g, ErrorLog: g.proxy.ErrorLog, MaxHeaderBytes: 64 << 10,
		ReadHeaderTimeout: 10 * time.Second, IdleTimeout: readTime,
	}
	go func() {
		defer close(g.done)
		if err := g.srv.Serve(netutil.LimitListener(l, maxConns)); !errors.Is(err, http.ErrServerClosed) {
			g.log.Error("model guard ended", "error", err)
		}
	}()
	return g, nil
}

func (c Config) provider() nightcrier.Provider {
	if c.Provider == "" {
		return nightcrier.Anthropic
	}
	return c.Provider
}

// newToken is shaped like a key, because some clients check the shape.
func newToken() string {
	b := make([]byte, 24)
	_, _ = rand.Read(b) // never fails
	return "sk-ant-run-" + hex.EncodeToString(b)
}

// URL is the base URL for the agent.
func (g *Guard) URL() string { return g.url }

// Port is the TCP port that the agent connects to.
func (g *Guard) Port() int { return g.port }

// Token is what the agent has instead of the key; it is worth nothing after Close.
func (g *Guard) Token() string { return g.token }

// Usage is what has been counted so far. The cost is of models that have a price.
func (g *Guard) Usage() nightcrier.Usage { return g.meter.total() }

// Close ends the forwarder, cuts what is under way, and returns when all of it is on
// record.
func (g *Guard) Close() error {
	var err error
	g.closing.Do(func() {
		err = g.srv.Close()
		<-g.done
		for range maxCalls {
			g.slots <- struct{}{} // for good
		}
	})
	return err
}

var _ io.Closer = (*Guard)(nil)
