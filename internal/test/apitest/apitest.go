// Package apitest is a scripted Kubernetes API server: it lists and watches the
// JSON objects that a test gives it, speaks HTTP/2 as a real one does, and
// misbehaves on demand. It knows no schema and no permissions; a real
// kube-apiserver is in kubetest.
package apitest

import (
	"bytes"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"nightcrier.dev/nightcrier/internal/cluster/kube"
)

// Server holds the objects of one cluster.
type Server struct {
	http *httptest.Server

	mu       sync.Mutex
	version  int
	oldest   int // changes up to this version are forgotten
	tables   map[string]*table
	changed  chan struct{} // closed and replaced at every change
	cut      chan struct{} // closed and replaced by Drop
	behave   map[string]Behaviour
	requests map[string]*Requests
	unready  string
}

// table holds the objects of one resource, and what happened to them.
type table struct {
	objects map[string][]byte
	changes []change
}

type change struct {
	version   int
	namespace string
	kind      string
	object    []byte
}

// kept is how many changes of a resource a watch may be behind.
const kept = 1000

// Behaviour is what a resource does instead of what it should. The zero value
// behaves.
type Behaviour struct {
	// Status answers every request with it; RetryAfter is a header then.
	Status     int
	RetryAfter string
	// PageSize is the most objects of one page; 0 means as asked for.
	PageSize int
	// ExpirePages forgets where a paged list stood so many times.
	ExpirePages int
	// Garbage is written in the middle of a list, or at the start of a watch.
	Garbage string
	// EndWatches ends each watch at once.
	EndWatches bool
	// Hang never answers.
	Hang bool
}

// Requests counts what was asked of a resource.
type Requests struct {
	Lists, Pages, Watches int
	// Watching is how many watches stand.
	Watching int
	// Queries are those of the newest list and watch.
	ListQuery, WatchQuery string
}

// New starts a server that ends with the test.
func New(tb testing.TB) *Server {
	tb.Helper()
	s := &Server{
		tables: map[string]*table{}, changed: make(chan struct{}), cut: make(chan struct{}),
		behave: map[string]Behaviour{}, requests: map[string]*Requests{}, version: 100,
	}
	s.http = httptest.NewUnstartedServer(s)
	s.http.EnableHTTP2 = true
	s.http.StartTLS()
	tb.Cleanup(func() {
		s.Drop()
		s.http.CloseClientConnections()
		s.http.Close()
	})
	return s
}

// Client returns a client of the server, whose calls may take a few seconds.
func (s *Server) Client(tb testing.TB) *kube.Client {
	tb.Helper()
	cfg := &rest.Config{Host: s.http.URL, TLSClientConfig: rest.TLSClientConfig{CAData: s.ca()}}
	c, err := kube.New(cfg, 5*time.Second)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(c.Close)
	return c
}

func (s *Server) ca() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.http.Certificate().Raw})
}

// Kubeconfig writes a file that names the server.
func (s *Server) Kubeconfig(tb testing.TB) string {
	tb.Helper()
	dir := tb.TempDir()
	ca, file := filepath.Join(dir, "ca.crt"), filepath.Join(dir, "kubeconfig")
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: c
clusters: [{name: c, cluster: {server: %q, certificate-authority: %q}}]
users: [{name: u, user: {token: t}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
`, s.http.URL, ca)
	for name, data := range map[string][]byte{ca: s.ca(), file: []byte(text)} {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			tb.Fatal(err)
		}
	}
	return file
}

// Put makes or changes an object of a resource, such as pods: JSON with
// metadata, whose resourceVersion the server sets and returns.
func (s *Server) Put(resource, namespace, name string, object []byte) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.put(resource, namespace, name, object)
}

// Touch changes nothing of an object of the resource but its version, and returns
// that; 0 where there is no object.
func (s *Server) Touch(resource string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, object := range s.table(resource).objects {
		namespace, name, _ := strings.Cut(key, "/")
		return s.put(resource, namespace, name, object)
	}
	return 0
}

func (s *Server) put(resource, namespace, name string, object []byte) int {
	t, key := s.table(resource), namespace+"/"+name
	kind := kube.Added
	if t.objects[key] != nil {
		kind = kube.Modified
	}
	s.version++
	t.objects[key] = stamped(object, s.version)
	s.happened(t, namespace, kind, t.objects[key])
	return s.version
}

// Remove deletes an object, and returns the version of that; 0 when it is not there.
func (s *Server) Remove(resource, namespace, name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, key := s.table(resource), namespace+"/"+name
	object := t.objects[key]
	if object == nil {
		return 0
	}
	delete(t.objects, key)
	s.version++
	s.happened(t, namespace, kube.Deleted, stamped(object, s.version))
	return s.version
}

// anyVersion is a resourceVersion that an object has, with one comma.
var anyVersion = regexp.MustCompile(`"resourceVersion":[^,}]*,|,"resourceVersion":[^,}]*`)

// stamped is object with a resourceVersion in place of its own.
func stamped(object []byte, version int) []byte {
	const meta = `"metadata":{`
	i := bytes.Index(object, []byte(meta)) + len(meta)
	if i < len(meta) {
		panic("apitest: an object without metadata")
	}
	head, rest := object[:i], object[i:]
	if at := anyVersion.FindIndex(rest); at != nil {
		rest = slices.Concat(rest[:at[0]], rest[at[1]:])
	}
	return fmt.Appendf(nil, `%s"resourceVersion":"%d",%s`, head, version, rest)
}

func (s *Server) table(resource string) *table {
	t := s.tables[resource]
	if t == nil {
		t = &table{objects: map[string][]byte{}}
		s.tables[resource] = t
	}
	return t
}

func (s *Server) happened(t *table, namespace, kind string, object []byte) {
	t.changes = append(t.changes, change{s.version, namespace, kind, object})
	if len(t.changes) > 2*kept {
		s.oldest = max(s.oldest, t.changes[kept-1].version)
		t.changes = slices.Clone(t.changes[kept:])
	}
	s.wake()
}

func (s *Server) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// Behave changes how a resource behaves from now on, everywhere or as "shop/pods"
// in a namespace; "" means all that have no behaviour of their own.
func (s *Server) Behave(resource string, b Behaviour) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.behave[resource] = b
}

// Unready makes the server say that it is not ready, until why is "".
func (s *Server) Unready(why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unready = why
}

// Expire forgets all changes so far: every watch from an earlier version is told
// that it is too old. Those that stand are ended.
func (s *Server) Expire() {
	s.mu.Lock()
	s.version++
	s.oldest = s.version
	for _, t := range s.tables {
		t.changes = nil
	}
	s.mu.Unlock()
	s.Drop()
}

// Drop breaks every watch.
func (s *Server) Drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.cut)
	s.cut = make(chan struct{})
}

// Asked tells what was asked of a resource.
func (s *Server) Asked(resource string) Requests {
	s.mu.Lock()
	defer s.mu.Unlock()
	return *s.asked(resource)
}

func (s *Server) asked(resource string) *Requests {
	r := s.requests[resource]
	if r == nil {
		r = &Requests{}
		s.requests[resource] = r
	}
	return r
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/readyz" {
		s.serveReady(w)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	namespace, resource, name := parts(r.URL.Path)
	if name != "" {
		s.serveObject(w, namespace, resource, name)
		return
	}
	q := r.URL.Query()
	s.mu.Lock()
	b, own := s.behave[namespace+"/"+resource]
	if !own {
		b, own = s.behave[resource]
	}
	if !own {
		b = s.behave[""]
	}
	count := s.asked(resource)
	switch {
	case q.Get("watch") == "true":
		count.Watches++
		count.WatchQuery = r.URL.RawQuery
	case q.Get("continue") == "":
		count.Lists++
		count.ListQuery = r.URL.RawQuery
		fallthrough
	default:
		count.Pages++
	}
	s.mu.Unlock()
	switch {
	case b.Hang:
		<-r.Context().Done()
	case b.Status != 0:
		refuse(w, b)
	case q.Get("watch") == "true":
		s.serveWatch(w, r, namespace, resource, b)
	default:
		s.serveList(w, r, namespace, resource, b)
	}
}

// parts are what a path names: /api/v1 or /apis/group/version, maybe a
// namespace, a resource, and maybe an object. Subresources are objects that are not
// there.
func parts(path string) (namespace, resource, name string) {
	words := strings.Split(strings.Trim(path, "/"), "/")
	words = words[min(len(words), 2):]
	if strings.HasPrefix(path, "/apis/") {
		words = words[min(len(words), 1):]
	}
	if len(words) > 2 && words[0] == "namespaces" {
		namespace, words = words[1], words[2:]
	}
	words = append(words, "", "")
	return namespace, words[0], strings.Trim(strings.Join(words[1:], "/"), "/")
}

func (s *Server) serveObject(w http.ResponseWriter, namespace, resource, name string) {
	s.mu.Lock()
	object := s.table(resource).objects[namespace+"/"+name]
	s.mu.Unlock()
	if object == nil {
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprintf(w, `{"kind":"Status","status":"Failure","reason":"NotFound","message":"%s %q not found","details":{"name":%q},"code":404}`, resource, name, name)
		return
	}
	_, _ = w.Write(object)
}

func (s *Server) serveReady(w http.ResponseWriter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unready == "" {
		fmt.Fprint(w, "ok")
		return
	}
	w.WriteHeader(http.StatusInternalServerError)
	fmt.Fprintf(w, "[+]ping ok\n[-]%s\n", s.unready)
}

func refuse(w http.ResponseWriter, b Behaviour) {
	if b.RetryAfter != "" {
		w.Header().Set("Retry-After", b.RetryAfter)
	}
	w.WriteHeader(b.Status)
	fmt.Fprintf(w, `{"kind":"Status","status":"Failure","message":"as the test wants it","code":%d}`, b.Status)
}

// names lists the keys of a table in order, of all namespaces or of one.
func (t *table) names(namespace string) []string {
	names := slices.Sorted(maps.Keys(t.objects))
	if namespace == "" {
		return names
	}
	return slices.DeleteFunc(names, func(n string) bool { return !strings.HasPrefix(n, namespace+"/") })
}
