// Package githubtest is a fake GitHub that checks what the real one checks: who asks, that a comment
// stands on a line of the diff, how long a text is, how many annotations come at once. It pages,
// limits, and fails on demand. Its reading of a diff is its own, so that it can contradict ours.
package githubtest

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// AppID is the App that the server knows, Login as whom it and the token write.
const (
	AppID = 4711
	Slug  = "nightcrier"
	Login = Slug + "[bot]"
)

// Server is one GitHub.
type Server struct {
	// URL is that of the API, Token one that may do everything but write checks.
	URL, Token string
	// Key is the private key of the App, as it would stand in a file.
	Key []byte

	key  *rsa.PrivateKey
	http *httptest.Server

	mu       sync.Mutex
	nextID   int64
	repos    map[string]*repository
	issued   map[string]string // installation token → its only repository
	faults   []*Fault
	requests []Request
	limit    *Limit
}

// Request is one that arrived, also where it was refused.
type Request struct {
	Method, Path, Query string
	Body                []byte
	Status              int
}

// Fault is what the server does in the place of what it should.
type Fault struct {
	// Method and Part say of which requests: all of the method, "" for any, whose path has the part.
	Method, Part string
	// Times is how often; 0 is once.
	Times int
	// Status, Header and Body are the answer; no status closes the connection without one.
	Status int
	Header http.Header
	Body   string
	// Done says that the request is done nevertheless.
	Done bool
	// Hold, if not nil, is received from before there is an answer, and Reached is closed when it
	// comes to that.
	Hold    <-chan struct{}
	Reached chan<- struct{}
}

// Limit is what is left of the requests, and when there are more.
type Limit struct {
	Remaining int
	Reset     time.Time
}

// Start returns a server that ends with the test.
func Start(t testing.TB) *Server {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{Token: "token-" + rand.Text(), key: key, repos: map[string]*repository{}, issued: map[string]string{},
		Key: pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})}
	s.http = httptest.NewServer(s.record(s.routes()))
	s.URL = s.http.URL
	t.Cleanup(s.http.Close)
	return s
}

// Fail has requests end otherwise; faults are taken in the order in which they were added.
func (s *Server) Fail(f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f.Times = max(f.Times, 1)
	s.faults = append(s.faults, &f)
}

// LimitSecondary refuses the next requests for too many at once.
func (s *Server) LimitSecondary(times, retryAfter int) {
	h := http.Header{}
	if retryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(retryAfter))
	}
	s.Fail(Fault{Times: times, Status: http.StatusForbidden, Header: h, Body: `{"message":"You have exceeded a secondary rate limit. Please wait a few minutes before you try again."}`})
}

// SetLimit says how many requests are left, nil for enough.
func (s *Server) SetLimit(l *Limit) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limit = l
}

// ExpireTokens ends the tokens of the App that were given out.
func (s *Server) ExpireTokens() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.issued)
}

// Requests are those that arrived, of a method whose path has the part.
func (s *Server) Requests(method, part string) []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	var some []Request
	for _, r := range s.requests {
		if (method == "" || r.Method == method) && strings.Contains(r.Path, part) {
			some = append(some, r)
		}
	}
	return some
}

// record keeps each request, and lets it fail where a fault says so.
func (s *Server) record(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(io.LimitReader(r.Body, 16<<20))
		if err != nil {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		f := s.takeFault(r)
		answer := httptest.NewRecorder()
		switch {
		case f != nil && !f.Done:
			f.write(answer)
		case s.isLimited(answer):
		default:
			next.ServeHTTP(answer, r)
		}
		s.mu.Lock()
		s.requests = append(s.requests, Request{Method: r.Method, Path: r.URL.Path, Query: r.URL.RawQuery, Body: body, Status: answer.Code})
		s.mu.Unlock()
		if f != nil {
			f.await(r)
			if f.Done && f.Status != 0 {
				answer = httptest.NewRecorder()
				f.write(answer)
			}
			if f.Status == 0 && f.Hold == nil {
				panic(http.ErrAbortHandler)
			}
		}
		sendAnswer(w, r, answer)
	})
}

func (f *Fault) write(w http.ResponseWriter) {
	for name, values := range f.Header {
		w.Header()[name] = values
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(max(f.Status, 200))
	_, _ = io.WriteString(w, f.Body) // a client that is gone has no use for it
}

func (f *Fault) await(r *http.Request) {
	if f.Reached != nil {
		close(f.Reached)
		f.Reached = nil
	}
	if f.Hold != nil {
		select {
		case <-f.Hold:
		case <-r.Context().Done():
		}
	}
}

func (s *Server) takeFault(r *http.Request) *Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, f := range s.faults {
		if (f.Method == "" || f.Method == r.Method) && strings.Contains(r.URL.Path, f.Part) {
			if f.Times--; f.Times == 0 {
				s.faults = slices.Delete(s.faults, i, i+1)
			}
			return f
		}
	}
	return nil
}

func (s *Server) isLimited(w http.ResponseWriter) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.limit == nil {
		return false
	}
	w.Header().Set("X-RateLimit-Reset", strconv.FormatInt(s.limit.Reset.Unix(), 10))
	w.Header().Set("X-RateLimit-Remaining", strconv.Itoa(s.limit.Remaining))
	if s.limit.Remaining == 0 {
		refuse(w, http.StatusForbidden, "API rate limit exceeded")
		return true
	}
	s.limit.Remaining--
	return false
}

// sendAnswer sends what was answered, or that it has not changed.
func sendAnswer(w http.ResponseWriter, r *http.Request, answer *httptest.ResponseRecorder) {
	for name, values := range answer.Header() {
		w.Header()[name] = values
	}
	if r.Method == http.MethodGet && answer.Code == http.StatusOK {
		sum := sha256.Sum256(answer.Body.Bytes())
		tag := `"` + hex.EncodeToString(sum[:8]) + `"`
		w.Header().Set("ETag", tag)
		if r.Header.Get("If-None-Match") == tag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
	}
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes()) // a client that is gone has no use for it
}

func (s *Server) id() int64 {
	s.nextID++
	return 1<<33 + s.nextID // larger than 32 bits, as GitHub's are by now
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(v); err != nil {
		panic(err) // what the tests gave cannot be shown
	}
}

func refuse(w http.ResponseWriter, status int, message string, errs ...string) {
	answer(w, status, map[string]any{"message": message, "errors": errs, "documentation_url": "https://docs.github.com/rest", "status": strconv.Itoa(status)})
}

// page answers with a part of a list and where there is more.
func page[T any](w http.ResponseWriter, r *http.Request, list []T, wrap func([]T) any) {
	size, number := queryNumber(r, "per_page", 30), queryNumber(r, "page", 1)
	size = min(size, 100)
	from, to := min((number-1)*size, len(list)), min(number*size, len(list))
	if to < len(list) {
		next := *r.URL
		q := next.Query()
		q.Set("page", strconv.Itoa(number+1))
		next.RawQuery = q.Encode()
		w.Header().Set("Link", fmt.Sprintf(`<http://%s%s>; rel="next"`, r.Host, next.String()))
	}
	part := append([]T{}, list[from:to]...)
	if wrap != nil {
		answer(w, http.StatusOK, wrap(part))
		return
	}
	answer(w, http.StatusOK, part)
}

func queryNumber(r *http.Request, name string, otherwise int) int {
	if n, err := strconv.Atoi(r.URL.Query().Get(name)); err == nil && n > 0 {
		return n
	}
	return otherwise
}
