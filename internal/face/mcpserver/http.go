package mcpserver

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/net/netutil"

	"nightcrier.dev/nightcrier"
)

// Path is where the endpoint is.
const Path = "/mcp"

const (
	sessionHeader  = "Mcp-Session-Id"
	protocolHeader = "Mcp-Protocol-Version"
	// sessionless is the first protocol without sessions.
	sessionless = "2026-07-28"
	// keepAlive is how often something is written to a stream, so that a peer that
	// is gone is noticed and nothing on the way cuts it.
	keepAlive      = 30 * time.Second
	maxConnections = 1024
)

// endpoint is the HTTP face of a server.
type endpoint struct {
	s                   *Server
	sessions            http.Handler
	single              http.Handler // without sessions
	stateful, stateless *sdk.Server

	mu   sync.Mutex
	open map[string]*visit // by session
}

// visit is what a session has open.
type visit struct {
	requests int
	last     time.Time
}

// Check returns why l may not be served on: a listener that is not loopback needs
// a token, which is a Refused error.
func (s *Server) Check(l net.Listener) error {
	if s.cfg.Token == "" && !isLoopback(l.Addr().String()) {
		return nightcrier.Errorf(nightcrier.Refused, "mcp on %s would be open to everybody who reaches it: listen on 127.0.0.1, or set a token", l.Addr())
	}
	return nil
}

// Serve answers HTTP on l, which Check allows, until ctx ends.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	if err := s.Check(l); err != nil {
		return err
	}
	e := s.newEndpoint()
	web := &http.Server{Handler: e.newHandler(), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var sweeping sync.WaitGroup
	defer sweeping.Wait()
	sweeping.Go(func() { e.endIdleSessions(ctx) })
	stopped := context.AfterFunc(ctx, func() {
		for ss := range e.stateful.Sessions() {
			_ = ss.Close() // it ends with the connection anyway
		}
		_ = web.Close()
	})
	defer stopped()
	err := web.Serve(netutil.LimitListener(l, maxConnections))
	if errors.Is(err, http.ErrServerClosed) || ctx.Err() != nil {
		return nil
	}
	return nightcrier.Errorf(nightcrier.Internal, "mcp on %s: %w", l.Addr(), err)
}

func (s *Server) newEndpoint() *endpoint {
	stateful, single := s.newProtocolServer(true, false), s.newProtocolServer(false, false)
	return &endpoint{
		s: s, stateful: stateful, stateless: single, open: map[string]*visit{},
		sessions: sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return stateful },
			&sdk.StreamableHTTPOptions{EventStore: s.replay, MaxRequestBodyBytes: maxMessage}),
		single: sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return single },
			&sdk.StreamableHTTPOptions{Stateless: true, MaxRequestBodyBytes: maxMessage, PropagateRequestCancellation: true}),
	}
}

func (e *endpoint) newHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.Handle(Path, e)
	e.addOlder(mux)
	return mux
}

// admit says whether a request may be served, and answers one that may not.
func (e *endpoint) admit(w http.ResponseWriter, r *http.Request) bool {
	switch {
	case !e.isAuthorized(r):
		w.Header().Set("WWW-Authenticate", "Bearer")
		http.Error(w, "a bearer token is needed", http.StatusUnauthorized)
		return false
	case !ownOrigin(r):
		http.Error(w, "requests of web pages are refused", http.StatusForbidden)
		return false
	}
	return true
}

// ServeHTTP admits a request and hands it to the protocol.
func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !e.admit(w, r) {
		return
	}
	p := &patient{ResponseWriter: w, rc: http.NewResponseController(w), limit: e.s.cfg.Limits.Write}
	if r.ContentLength != 0 {
		r.Body = p.withReadDeadline(r.Body)
	}
	if isSessionless(r) {
		e.single.ServeHTTP(p, r)
		return
	}
	id := r.Header.Get(sessionHeader)
	if id == "" && r.Method == http.MethodPost && !e.hasRoom() {
		w.Header().Set("Retry-After", "30")
		http.Error(w, "the server has as many sessions as it takes; try again later", http.StatusServiceUnavailable)
		return
	}
	if id != "" {
		e.beginRequest(id)
		defer e.endRequest(id)
	}
	if r.Method == http.MethodGet && id != "" {
		p.wrote = func(index int) { e.s.replay.noteWritten(id, index) }
		defer p.keepAlive(r.Context(), e.s.cfg.Limits.KeepAlive)()
	}
	e.sessions.ServeHTTP(p, r)
}

// isAuthorized compares the token in constant time.
func (e *endpoint) isAuthorized(r *http.Request) bool {
	if e.s.cfg.Token == "" {
		return true
	}
	given, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	a, b := sha256.Sum256([]byte(given)), sha256.Sum256([]byte(e.s.cfg.Token))
	return ok && subtle.ConstantTimeCompare(a[:], b[:]) == 1
}

// ownOrigin refuses what a web page of somebody else's sends: a browser names
// the page's origin, and by rebinding DNS a page may reach a loopback address.
func ownOrigin(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin == "" {
		return true
	}
	u, err := url.Parse(origin)
	return err == nil && u.Host != "" && (isLoopback(u.Host) || strings.EqualFold(u.Host, r.Host))
}

func isLoopback(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = strings.Trim(hostport, "[]")
	}
	ip := net.ParseIP(host)
	return ip.IsLoopback() || strings.EqualFold(host, "localhost")
}

// isSessionless reports whether a request is of a protocol without sessions. One that
// asks what the server speaks is answered with the protocols that have them, so
// that a client that speaks both can subscribe.
func isSessionless(r *http.Request) bool {
	return r.Header.Get(protocolHeader) >= sessionless && r.Header.Get(sessionHeader) == "" && r.Header.Get("Mcp-Method") != "server/discover"
}

// hasRoom reports whether one more session may begin.
func (e *endpoint) hasRoom() bool {
	n := 0
	for range e.stateful.Sessions() {
		n++
	}
	return n < e.s.cfg.Limits.Sessions
}

func (e *endpoint) beginRequest(id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	v := e.open[id]
	if v == nil { // new, or none of ours: then the next sweep forgets it
		v = &visit{}
		e.open[id] = v
	}
	v.requests++
}

func (e *endpoint) endRequest(id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if v := e.open[id]; v != nil {
		v.requests, v.last = max(v.requests-1, 0), e.s.cfg.Now()
	}
}

// endIdleSessions ends the sessions of clients that went away without a word.
func (e *endpoint) endIdleSessions(ctx context.Context) {
	tick := time.NewTicker(max(e.s.cfg.Limits.Idle/20, 10*time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for _, ss := range e.idleSessions() {
			e.s.log.Info("an idle session ends", "event", "mcp_idle", "after", e.s.cfg.Limits.Idle)
			_ = ss.Close() // it is gone either way
		}
	}
}

// idleSessions returns the sessions that have had nothing open for too long, and forgets
// those that have ended.
func (e *endpoint) idleSessions() []*sdk.ServerSession {
	e.mu.Lock()
	defer e.mu.Unlock()
	now, alive := e.s.cfg.Now(), map[string]*visit{}
	var idle []*sdk.ServerSession
	for ss := range e.stateful.Sessions() {
		v := e.open[ss.ID()]
		if v == nil {
			v = &visit{last: now}
		}
		alive[ss.ID()] = v
		if v.requests == 0 && now.Sub(v.last) > e.s.cfg.Limits.Idle {
			idle = append(idle, ss)
		}
	}
	e.open = alive
	return idle
}

// patient is a response that is written to in bounded time: a client that does
// not read loses its connection instead of holding up its session. Writes of
// the protocol and of the keep-alive do not mix.
type patient struct {
	http.ResponseWriter
	rc    *http.ResponseController
	limit time.Duration
	wrote func(index int) // of a message of the notification stream

	mu      sync.Mutex
	started bool
}

// withReadDeadline bounds how long the client takes to send its message; how long the answer
// takes then is another matter.
func (p *patient) withReadDeadline(b io.ReadCloser) io.ReadCloser {
	_ = p.rc.SetReadDeadline(time.Now().Add(p.limit)) // what has no deadlines is a test's recorder
	return &hurriedBody{b, p.rc}
}

type hurriedBody struct {
	io.ReadCloser
	rc *http.ResponseController
}

// Read implements io.Reader. With the end of the body its deadline is over.
func (b *hurriedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		_ = b.rc.SetReadDeadline(time.Time{})
	}
	return n, err
}

// Unwrap lets a ResponseController find the connection.
func (p *patient) Unwrap() http.ResponseWriter { return p.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (p *patient) WriteHeader(status int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.started = status == http.StatusOK
	p.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (p *patient) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n, err := p.writeInTime(b)
	if err == nil && p.wrote != nil {
		if index, ok := indexOf(b); ok {
			p.wrote(index)
		}
	}
	return n, err
}

// FlushError is what a ResponseController flushes by.
func (p *patient) FlushError() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, err := p.writeInTime(nil)
	return err
}

// writeInTime writes and flushes. p.mu is held.
func (p *patient) writeInTime(b []byte) (n int, err error) {
	_ = p.rc.SetWriteDeadline(time.Now().Add(p.limit)) // what has no deadlines is a test's recorder
	if len(b) > 0 {
		n, err = p.ResponseWriter.Write(b)
	}
	if err == nil {
		err = p.rc.Flush()
	}
	_ = p.rc.SetWriteDeadline(time.Time{})
	return n, err
}

// indexOf reads the index out of an event of the notification stream.
func indexOf(event []byte) (int, bool) {
	_, rest, ok := bytes.Cut(event[:min(len(event), 128)], []byte("\nid: _"))
	if !ok {
		return 0, false
	}
	number, _, _ := bytes.Cut(rest, []byte("\n"))
	index, err := strconv.Atoi(string(number))
	return index, err == nil
}

// keepAlive writes a comment now and then until the returned function is called,
// so that a peer that is gone is noticed and nothing on the way cuts the stream.
func (p *patient) keepAlive(ctx context.Context, every time.Duration) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var done sync.WaitGroup
	done.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			p.mu.Lock()
			if p.started {
				_, _ = p.writeInTime([]byte(": keep-alive\n\n")) // a failure ends the request's context
			}
			p.mu.Unlock()
		}
	})
	return func() { cancel(); done.Wait() }
}
