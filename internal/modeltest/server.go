package modeltest

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"sync"
)

const (
	statusOverloaded = 529 // Anthropic's "try again later"
	maxRequestBytes  = 32 << 20
)

// Request is one call of the model API, as recorded.
type Request struct {
	Scenario  string
	Path      string
	Header    http.Header
	Body      []byte
	Model     string
	Turn      int      // assistant turns in the history
	Tools     []string // names on offer
	Stream    bool
	MaxTokens int
	Text      string // all text in it: system, messages, tool results

	history []byte // what tells one attempt at a turn from another conversation's
}

// reply is what a step says, in no vendor's words.
type reply struct {
	id    string // unique to scenario and turn
	text  string
	tools []ToolCall
	stop  string // override, or empty
	usage Usage
}

// event is one server-sent event.
type event struct {
	name string // may be empty
	data any
}

// dialect is one vendor's protocol: how it asks, answers and fails.
type dialect interface {
	parse(body []byte) (Request, error)
	plain(Request, reply) any
	events(Request, reply) []event
	failure(Failure) any
}

// Server is the scripted model API. It serves scenario x below /s/x, so a CLI's
// base URL chooses the scenario. It is safe for concurrent use.
type Server struct {
	mux  *http.ServeMux
	http *http.Server
	base string

	mu        sync.Mutex
	scenarios map[string]*Scenario
	requests  []Request
	attempts  map[[sha256.Size]byte]int // by scenario and history
	signals   map[string]*signal
}

// signal is a gate that a step waits at.
type signal struct {
	held     chan struct{} // closed when the first request waits
	released chan struct{} // closed when it opens
	holdOnce sync.Once
	openOnce sync.Once
}

// NewServer returns a server of the scenarios that come with this package, and
// listens on nothing yet.
func NewServer() (*Server, error) {
	s := &Server{
		mux:       http.NewServeMux(),
		scenarios: map[string]*Scenario{},
		attempts:  map[[sha256.Size]byte]int{},
		signals:   map[string]*signal{},
	}
	s.mux.HandleFunc("POST /s/{scenario}/v1/messages", s.serve(anthropic{}))
	s.mux.HandleFunc("POST /s/{scenario}/v1/messages/count_tokens", s.countTokens)
	s.mux.HandleFunc("HEAD /s/{scenario}/{rest...}", func(http.ResponseWriter, *http.Request) {}) // are you there?
	own, err := fs.Sub(embedded, "scenarios")
	if err != nil {
		return nil, err
	}
	return s, s.Load(own)
}

// Load adds every *.yaml at the top of fsys as a scenario named by its file.
func (s *Server) Load(fsys fs.FS) error {
	more, err := load(fsys)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.Copy(s.scenarios, more)
	return nil
}

// Add adds one scenario under a name, replacing what had it.
func (s *Server) Add(name string, sc Scenario) error {
	if err := sc.compile(); err != nil {
		return fmt.Errorf("scenario %s: %w", name, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scenarios[name] = &sc
	return nil
}

// Listen starts serving on a free port of 127.0.0.1.
func (s *Server) Listen() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s.base = "http://" + l.Addr().String()
	s.http = &http.Server{Handler: s}
	go s.http.Serve(l) //nolint:errcheck // it ends when Close says so
	return nil
}

// Close stops serving at once, dropping callers that are being held.
func (s *Server) Close() error {
	if s.http == nil {
		return nil
	}
	return s.http.Close()
}

// URL is the base URL that makes a client play the scenario.
func (s *Server) URL(scenario string) string { return s.base + "/s/" + scenario }

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// Requests returns the calls made so far in a scenario, in order.
func (s *Server) Requests(scenario string) []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Request
	for _, r := range s.requests {
		if r.Scenario == scenario {
			out = append(out, r)
		}
	}
	return out
}

// Held returns a channel that is closed once a request waits at the signal.
func (s *Server) Held(name string) <-chan struct{} { return s.signal(name).held }

// Release opens the signal for every request that waits at it or ever will.
func (s *Server) Release(name string) {
	g := s.signal(name)
	g.openOnce.Do(func() { close(g.released) })
}

func (s *Server) signal(name string) *signal {
	s.mu.Lock()
	defer s.mu.Unlock()
	g, ok := s.signals[name]
	if !ok {
		g = &signal{held: make(chan struct{}), released: make(chan struct{})}
		s.signals[name] = g
	}
	return g
}

func (g *signal) wait(ctx context.Context) error {
	g.holdOnce.Do(func() { close(g.held) })
	select {
	case <-g.released:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
