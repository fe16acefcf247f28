// Package model is the only way from a sandbox to a model: a forwarder that
// takes the run's token from the agent and puts the real key in its place.
//
// It forwards two endpoints of the Anthropic Messages API and nothing else,
// streams answers through as they come, and counts what they cost in tokens.
package model

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/netutil"

	"nightcrier.dev/nightcrier"
)

// DefaultUpstream is where calls go when no base URL is configured.
const DefaultUpstream = "https://api.anthropic.com"

// maxBody bounds a request: the API itself takes 32 MB. maxCalls and maxConns
// bound what one agent can make us hold at a time; readTime is how long a
// request may take to arrive.
const (
	maxBody  = 32 << 20
	maxCalls = 16
	maxConns = 64
	readTime = 2 * time.Minute
)

// Config says where a Guard forwards to, and with which key.
type Config struct {
	// Upstream is the base URL; empty is DefaultUpstream. A path in it is kept.
	Upstream string
	// Key is the real API key. It never leaves towards the agent.
	Key string
	// Transport is http.DefaultTransport's clone when nil.
	Transport http.RoundTripper
	Logger    *slog.Logger
}

// Guard is a running forwarder.
type Guard struct {
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

	inspecting sync.Mutex
}

// Start serves on l, which it takes over, until Close.
func Start(l net.Listener, c Config) (*Guard, error) {
	upstream, err := parseUpstream(c.Upstream)
	if err != nil {
		return nil, err
	}
	if c.Key == "" {
		return nil, nightcrier.Errorf(nightcrier.Invalid, "model guard: no API key")
	}
	addr, ok := l.Addr().(*net.TCPAddr)
	if !ok {
		return nil, nightcrier.Errorf(nightcrier.Internal, "model guard: %s is no TCP address", l.Addr())
	}
	g := &Guard{url: "http://" + addr.String(), port: addr.Port, token: newToken(), key: c.Key, log: c.Logger, slots: make(chan struct{}, maxCalls), done: make(chan struct{})}
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

func parseUpstream(base string) (*url.URL, error) {
	if base == "" {
		base = DefaultUpstream
	}
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.User != nil {
		return nil, nightcrier.Errorf(nightcrier.Invalid, "model base URL %q is not an http(s) URL without credentials", base)
	}
	if u.Path == "" {
		u.Path = "/" // JoinPath keeps an empty one relative
	}
	return u, nil
}

func transport(rt http.RoundTripper) http.RoundTripper {
	if rt != nil {
		return rt
	}
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.ResponseHeaderTimeout = 10 * time.Minute // a long answer that is not streamed
	return t
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

// Usage is what has been counted so far; it knows no prices.
func (g *Guard) Usage() nightcrier.Usage { return g.meter.total() }

// Close ends the forwarder and cuts what is under way.
func (g *Guard) Close() error {
	err := g.srv.Close()
	<-g.done
	return err
}

// allowed are the endpoints that an investigation needs.
var allowed = map[string]bool{"/v1/messages": true, "/v1/messages/count_tokens": true}

// ServeHTTP checks a call and forwards it.
func (g *Guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case !g.authentic(r.Header):
		refuse(w, http.StatusUnauthorized, "authentication_error", "this token is not the run's")
	case r.Method == http.MethodHead && r.URL.Path == "/":
		w.WriteHeader(http.StatusOK) // some clients look whether anybody is there
	case r.Method != http.MethodPost || !allowed[r.URL.Path]:
		g.log.Warn("model guard refused a call", "method", r.Method, "path", r.URL.Path)
		refuse(w, http.StatusForbidden, "permission_error", "the guard forwards POST /v1/messages only")
	default:
		g.forward(w, r)
	}
}

// forward reads the whole request, because what is at its end may forbid it. As
// the agent can ask from many places at once, only so many are read at a time.
func (g *Guard) forward(w http.ResponseWriter, r *http.Request) {
	select {
	case g.slots <- struct{}{}:
		defer func() { <-g.slots }()
	default:
		refuse(w, http.StatusTooManyRequests, "rate_limit_error", fmt.Sprintf("%d calls are under way already", maxCalls))
		return
	}
	body, err := readBody(w, r)
	if err != nil {
		g.unreachable(w, r, err)
		return
	}
	if err := g.inspect(body); err != nil {
		g.log.Warn("model guard refused a call", "path", r.URL.Path, "reason", err.Error())
		refuse(w, http.StatusForbidden, "permission_error", err.Error())
		return
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	g.proxy.ServeHTTP(w, r)
}

// readBody reads a request within readTime; the answer may take longer.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	conn := http.NewResponseController(w)
	_ = conn.SetReadDeadline(time.Now().Add(readTime)) // a writer without deadlines is a test's
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	_ = conn.SetReadDeadline(time.Time{})
	return body, err
}

// inspect looks at one request at a time: what is decoded takes a multiple of its
// size.
func (g *Guard) inspect(body []byte) error {
	g.inspecting.Lock()
	defer g.inspecting.Unlock()
	return inspect(body)
}

func (g *Guard) authentic(h http.Header) bool {
	given := h.Get("X-Api-Key")
	if bearer, ok := strings.CutPrefix(h.Get("Authorization"), "Bearer "); ok && given == "" {
		given = bearer
	}
	return subtle.ConstantTimeCompare([]byte(given), []byte(g.token)) == 1
}

// forwarded are the request headers that the API reads; all others stay here.
var forwarded = []string{"Accept", "Anthropic-Beta", "Anthropic-Version", "Content-Type", "User-Agent"}

func (g *Guard) rewrite(r *httputil.ProxyRequest, upstream *url.URL) {
	path := r.In.URL.Path
	r.Out.URL = upstream.JoinPath(path)
	if r.In.URL.Query().Get("beta") == "true" {
		r.Out.URL.RawQuery = "beta=true"
	}
	r.Out.Host = ""
	r.Out.Header = http.Header{}
	for _, name := range forwarded {
		if v := r.In.Header.Values(name); len(v) > 0 {
			r.Out.Header[name] = v
		}
	}
	r.Out.Header.Set("X-Api-Key", g.key)
}

// observe counts the tokens of an answer while it streams through, and keeps
// the upstream from redirecting the agent anywhere.
func (g *Guard) observe(resp *http.Response) error {
	resp.Header.Del("Location")
	resp.Header.Del("Set-Cookie")
	if strings.HasSuffix(resp.Request.URL.Path, "/v1/messages") && resp.StatusCode == http.StatusOK {
		resp.Body = g.meter.watch(resp.Body, resp.Header.Get("Content-Type"))
	}
	return nil
}

func (g *Guard) unreachable(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, context.Canceled) {
		return // the agent hung up
	}
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		refuse(w, http.StatusRequestEntityTooLarge, "request_too_large", "the request is over the guard's limit")
		return
	}
	g.log.Warn("model is unreachable", "error", err)
	refuse(w, http.StatusBadGateway, "api_error", "the guard cannot reach the model")
}

// refuse answers in the API's own shape, so that clients show the text.
func refuse(w http.ResponseWriter, status int, kind, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Should-Retry", map[bool]string{true: "true", false: "false"}[status >= 500])
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{ // a client that hung up needs no answer
		"type": "error", "error": map[string]string{"type": kind, "message": "nightcrier: " + message},
	})
}

var _ io.Closer = (*Guard)(nil)
