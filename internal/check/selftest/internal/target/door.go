package target

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"nightcrier.dev/nightcrier"
	guardkube "nightcrier.dev/nightcrier/internal/guard/kube"
)

// Visit is a request that came as far as the API server.
type Visit struct {
	At     time.Time
	Method string
	// Target is the path and query as they came.
	Target string
	// Plain says that it is a read and nothing else.
	Plain bool
	// Status is what was answered; 0 until then.
	Status int
}

// String is the request line.
func (v Visit) String() string { return v.Method + " " + v.Target }

// maxVisits bounds the record: an agent can ask for ever. What comes after is refused.
const maxVisits = 20_000

// Door stands in the place of an API server. Its judgement of what a plain read is
// shares nothing with the guard's.
type Door struct {
	script http.Handler
	api    *guardkube.Upstream // of the user's cluster, nil for the scripted one alone
	prefix string
	addr   string
	server *http.Server

	mu     sync.Mutex
	visits []Visit
}

// OpenDoor serves on a free port of loopback. Without TLS a client sends no
// credential: the way in is a path that nobody can guess.
func OpenDoor(script http.Handler, api *guardkube.Upstream) (*Door, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nightcrier.Errorf(nightcrier.Exhausted, "selftest: listen: %w", err)
	}
	d := &Door{script: script, api: api, prefix: "/" + randomHex(16), addr: l.Addr().String()}
	d.server = &http.Server{Handler: d, ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 256 << 10}
	go func() { _ = d.server.Serve(l) }() // it says that it was closed
	return d, nil
}

func randomHex(bytes int) string {
	raw := make([]byte, bytes)
	_, _ = rand.Read(raw) // never fails
	return hex.EncodeToString(raw)
}

// Close ends it.
func (d *Door) Close() { _ = d.server.Close() }

// URL is what a kubeconfig names as its server.
func (d *Door) URL() string { return "http://" + d.addr + d.prefix }

// Kubeconfig leads to the door. It holds no credential.
func (d *Door) Kubeconfig() ([]byte, error) {
	cfg := clientcmdapi.NewConfig()
	cfg.Clusters["selftest"] = &clientcmdapi.Cluster{Server: d.URL()}
	cfg.AuthInfos["selftest"] = &clientcmdapi.AuthInfo{}
	cfg.Contexts["selftest"] = &clientcmdapi.Context{Cluster: "selftest", AuthInfo: "selftest", Namespace: Namespace}
	cfg.CurrentContext = "selftest"
	return clientcmd.Write(*cfg)
}

// VisitsBetween returns what came from one moment to another.
func (d *Door) VisitsBetween(from, to time.Time) (list []Visit) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, v := range d.visits {
		if !v.At.Before(from) && v.At.Before(to) {
			list = append(list, v)
		}
	}
	return list
}

// recordVisit puts a request on record, before anything is done about it.
func (d *Door) recordVisit(v Visit) (at int, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.visits) >= maxVisits {
		return 0, false
	}
	d.visits = append(d.visits, v)
	return len(d.visits) - 1, true
}

// ServeHTTP implements http.Handler.
func (d *Door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	target, ours := strings.CutPrefix(r.RequestURI, d.prefix)
	path, _, _ := strings.Cut(target, "?")
	v := Visit{At: time.Now(), Method: r.Method, Target: target, Plain: isPlainRead(r, path) || isSelfQuestion(r.Method, path)}
	if ours && !strings.HasPrefix(target, "/") || !ours && v.Plain { // what stands before a / could become a part of the host
		http.NotFound(w, r) // nobody that was shown the way
		return
	}
	at, ok := d.recordVisit(v) // kubectl --raw drops the way: what it wanted counts
	answer := &noting{ResponseWriter: w}
	switch {
	case !ok || !v.Plain:
		writeRefusal(answer, http.StatusForbidden, "selftest: this is no plain read, and ends here")
	case r.Method != http.MethodGet || d.api == nil || isScripted(path):
		r.URL.Path, r.URL.RawPath = path, ""
		d.script.ServeHTTP(answer, r)
	default:
		d.forwardRead(answer, r.Context(), target, r.Header.Get("Accept"))
	}
	if ok {
		d.mu.Lock()
		d.visits[at].Status = answer.status
		d.mu.Unlock()
	}
}

// isPlainRead reports whether a request reads objects and does nothing else. Written with
// the rules of the API in hand, not with those of the guard.
func isPlainRead(r *http.Request, path string) bool {
	if r.Method != http.MethodGet || r.ContentLength != 0 || len(r.TransferEncoding) > 0 || r.Header.Get("Upgrade") != "" {
		return false
	}
	for name := range r.Header {
		if strings.HasPrefix(name, "Impersonate-") || strings.HasPrefix(name, "X-Remote-") {
			return false
		}
	}
	words := strings.Split(strings.TrimPrefix(path, "/"), "/")
	for _, word := range words {
		if word == "" || word == "." || word == ".." || strings.ContainsAny(word, "%;\\") {
			return false
		}
	}
	switch words[0] {
	case "api":
		return plainObject(words[min(len(words), 2):])
	case "apis":
		return plainObject(words[min(len(words), 3):])
	case "version", "healthz", "livez", "readyz":
		return len(words) == 1
	}
	return words[0] == "openapi"
}

// plainObject judges what stands behind the API's version.
func plainObject(words []string) bool {
	if len(words) > 2 && words[0] == "namespaces" && words[2] != "status" && words[2] != "finalize" {
		words = words[2:]
	}
	if len(words) > 0 && (words[0] == "watch" || words[0] == "proxy" || words[0] == "redirect") {
		return false
	}
	if len(words) < 3 {
		return true
	}
	sub := words[2]
	return len(words) == 3 && (sub == "log" || sub == "status" || sub == "scale")
}

// isSelfQuestion reports whether a caller asks what it may do itself, which changes nothing.
func isSelfQuestion(method, path string) bool {
	return method == http.MethodPost &&
		(strings.HasPrefix(path, "/apis/authorization.k8s.io/v1/selfsubject") || strings.HasPrefix(path, "/apis/authentication.k8s.io/v1/selfsubject"))
}

// forwardRead asks the user's cluster, with a request of its own that holds nothing of the
// caller's but the target.
func (d *Door) forwardRead(w http.ResponseWriter, ctx context.Context, target, accept string) {
	base := d.api.Base
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base.Scheme+"://"+base.Host+strings.TrimRight(base.EscapedPath(), "/")+target, nil)
	if err != nil {
		writeRefusal(w, http.StatusBadRequest, "selftest: "+err.Error())
		return
	}
	req.Header.Set("Accept", accept)
	req.Header.Set("User-Agent", "nightcrier-selftest")
	resp, err := d.api.Transport.RoundTrip(req)
	if err != nil {
		writeRefusal(w, http.StatusBadGateway, "selftest: the cluster did not answer")
		return
	}
	defer resp.Body.Close()
	w.Header().Set("Content-Type", resp.Header.Get("Content-Type"))
	w.WriteHeader(resp.StatusCode)
	_, _ = io.Copy(flushing{w, http.NewResponseController(w)}, resp.Body) // a caller that hung up needs no more
}

// flushing hands each piece on as it comes: a watch has no end.
type flushing struct {
	io.Writer
	out *http.ResponseController
}

// Write implements io.Writer.
func (f flushing) Write(p []byte) (int, error) {
	n, err := f.Writer.Write(p)
	return n, errors.Join(err, f.out.Flush())
}

func writeRefusal(w http.ResponseWriter, code int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","reason":"Forbidden","message":%q,"code":%d}`, message, code)
}

// noting remembers the status of an answer.
type noting struct {
	http.ResponseWriter
	status int
}

// WriteHeader implements http.ResponseWriter.
func (w *noting) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap lets a http.ResponseController flush.
func (w *noting) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Write implements io.Writer.
func (w *noting) Write(p []byte) (int, error) {
	w.status = cmp.Or(w.status, http.StatusOK)
	return w.ResponseWriter.Write(p)
}
