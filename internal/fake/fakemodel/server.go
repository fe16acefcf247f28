package fakemodel

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

const (
	statusOverloaded = 529 // Anthropic's "try again later"
	maxRequestBytes  = 32 << 20
)

// Key is what a scripted model takes for a key. It is masked as any key is, so
// it is no word that a model or a CLI would say.
const Key = "no-key-but-a-stand-in-for-one"

// Request is one call of the model API, as recorded.
type Request struct {
	At       time.Time // when it came
	Scenario string
	Path     string
	Header   http.Header
	Body     []byte
	Model    string
	Turn     int               // assistant turns in the history
	Tools    []string          // names on offer
	Schemas  []json.RawMessage // of what each of Tools takes, as it came; nil for none
	Stream   bool
	Text     string // all text in it: system, messages, tool results

	history []byte     // what tells one attempt at a turn from another conversation's
	forms   []toolForm // of Tools, where the protocol has several
}

// TextSince is what its text has more than that of an earlier one.
func (r Request) TextSince(before Request) string {
	n := 0
	for n < len(before.Text) && n < len(r.Text) && before.Text[n] == r.Text[n] {
		n++
	}
	return strings.TrimSpace(r.Text[n:])
}

// toolForm is how a tool wants to be called.
type toolForm struct {
	namespace string
	text      bool // with a text instead of arguments
}

// turns counts the model's turns in a history. A client may split one turn into
// several messages, a call each, with the results between them: calls know by their
// id which turn they belong to.
type turns struct {
	n    int
	last string // whose calls the last message held
}

// countMessage counts a message of the model's, by the id of its first call, "" for none.
func (t *turns) countMessage(call string) {
	turn := call[:max(0, strings.LastIndexByte(call, '_'))]
	if turn == "" || turn != t.last {
		t.n++
	}
	t.last = turn
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
	// more marks a piece of text: a stream may say it any number of times.
	more bool
}

// markRepeatable marks e as a piece of text that a stream may say any number of times.
func markRepeatable(e event) event {
	e.more = true
	return e
}

// encodeData returns the event's data as it is sent.
func (e event) encodeData() ([]byte, error) {
	if _, ok := e.data.(done); ok {
		return []byte("[DONE]"), nil
	}
	return json.Marshal(e.data)
}

// dialect is one vendor's protocol: how it asks, answers and fails.
type dialect interface {
	parseRequest(body []byte) (Request, error)
	plainAnswer(Request, reply) any
	answerEvents(Request, reply) []event
	failureBody(Failure) any
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

// Serve returns a server that listens, and has a scenario more; the caller closes it.
func Serve(name string, more Scenario) (*Server, error) {
	s, err := Start()
	if err == nil {
		err = s.Add(name, more)
	}
	return s, err
}

// Start returns a server of the scenarios that come with this package, which listens.
func Start() (*Server, error) {
	s, err := newServer()
	if err == nil {
		err = s.listen()
	}
	return s, err
}

func newServer() (*Server, error) {
	s := &Server{
		mux:       http.NewServeMux(),
		scenarios: map[string]*Scenario{},
		attempts:  map[[sha256.Size]byte]int{},
		signals:   map[string]*signal{},
	}
	s.mux.HandleFunc("POST /s/{scenario}/v1/messages", s.serveDialect(anthropic{}))
	s.mux.HandleFunc("POST /s/{scenario}/v1/messages/count_tokens", s.countTokens)
	s.mux.HandleFunc("POST /s/{scenario}/v1/chat/completions", s.serveDialect(openAIChat{}))
	s.mux.HandleFunc("POST /s/{scenario}/v1/responses", s.serveDialect(responses{}))
	s.mux.HandleFunc("POST /s/{scenario}/v1beta/models/{call}", s.serveGemini)
	s.mux.HandleFunc("HEAD /s/{scenario}/{rest...}", func(http.ResponseWriter, *http.Request) {}) // are you there?
	own, err := fs.Sub(embedded, "scenarios")
	if err != nil {
		return nil, err
	}
	return s, s.Load(own)
}

// Load adds every *.yaml at the top of fsys as a scenario named by its file.
func (s *Server) Load(fsys fs.FS) error {
	more, err := loadScenarios(fsys)
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
	if err := sc.checkAndCompile(); err != nil {
		return fmt.Errorf("scenario %s: %w", name, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scenarios[name] = &sc
	return nil
}

// listen starts serving on a free port of 127.0.0.1.
func (s *Server) listen() error {
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
func (s *Server) Held(name string) <-chan struct{} { return s.signalNamed(name).held }

// Release opens the signal for every request that waits at it or ever will.
func (s *Server) Release(name string) {
	g := s.signalNamed(name)
	g.openOnce.Do(func() { close(g.released) })
}

func (s *Server) signalNamed(name string) *signal {
	s.mu.Lock()
	defer s.mu.Unlock()
	g, ok := s.signals[name]
	if !ok {
		g = &signal{held: make(chan struct{}), released: make(chan struct{})}
		s.signals[name] = g
	}
	return g
}

func (g *signal) awaitRelease(ctx context.Context) error {
	g.holdOnce.Do(func() { close(g.held) })
	select {
	case <-g.released:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
