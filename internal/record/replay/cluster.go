package replay

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"nightcrier.dev/nightcrier/internal/record/audit"
	"nightcrier.dev/nightcrier/internal/record/evidence"
	"nightcrier.dev/nightcrier/internal/record/journal"
	"nightcrier.dev/nightcrier/internal/text"
)

// Host is what a recorded cluster is called where an API server's address would
// stand.
const Host = "record"

// Cluster answers requests with what the guard answered to the same ones: the n-th
// time with the n-th answer, after the last with the last. What was not asked then
// is refused as not recorded, and is remembered. It is an http.RoundTripper.
type Cluster struct {
	// Also answers what was not asked like this, when it can; nil never.
	Also func(*http.Request) (*http.Response, bool)

	mu      sync.Mutex
	answers map[string][]recorded
	aside   map[string][]recorded // by what is kept of answers to us
	derived int
	missed  []string
}

// recorded is one answer: its status and the evidence that it was kept as.
type recorded struct {
	status int
	body   []byte
	media  string
}

// Cluster makes a cluster of the requests that were let through and of what was kept
// of their answers. What is kept of the answers to our own steps is shortened, and answers
// only what nothing else does.
func (r *Record) Cluster() *Cluster {
	c := &Cluster{answers: map[string][]recorded{}, aside: map[string][]recorded{}}
	type reading struct {
		recorded
		form string
	}
	read := map[string]reading{} // the same may have been answered many times
	r.eachAnswer(func(a audit.Record, body []byte, own bool) {
		as := fmt.Sprint(a.Evidence, " ", a.Status, " ", a.Verb == "watch", " ", a.Group, " ", a.Version)
		known, ok := read[as]
		if !ok {
			known.recorded, known.form = recordedOf(a, body)
			read[as] = known
		}
		answer, form := known.recorded, known.form
		to, key := c.answers, form+targetOf(a)
		if own {
			to = c.aside
		}
		to[key] = append(to[key], answer)
	})
	return c
}

// eachAnswer calls fn for each request that was answered, in order, with what was kept
// of the answer, nil for nothing.
func (r *Record) eachAnswer(fn func(a audit.Record, body []byte, own bool)) {
	own := momentsOf(r.ourRequests())
	kept := map[string]evidence.Item{}
	for _, it := range r.items {
		kept[it.ID] = it
	}
	for _, a := range r.audit {
		it, ok := kept[a.Evidence]
		if a.Decision != journal.Allow || a.Status < 200 || a.Status > 599 || a.Verb == "" || !ok && a.Bytes > 0 {
			continue
		}
		var body []byte
		if ok {
			body = r.itemBody(it)
		}
		fn(a, body, own[momentOf(a.Time, a.Verb, a.Resource, a.Query)])
	}
}

// momentOf tells requests apart by when they were decided.
func momentOf(at time.Time, verb, resource, query string) string {
	return fmt.Sprint(at.UnixMicro(), " ", verb, " ", resource, " ", query)
}

// targetOf is the request of a line of the audit, as it goes to a cluster.
func targetOf(a audit.Record) string {
	if a.Resource == "" {
		path, query, _ := strings.Cut(a.Query, "?")
		return canonicalTarget(path, query)
	}
	path := "/api"
	if a.Group != "" {
		path = "/apis/" + a.Group
	}
	path += "/" + a.Version
	if a.Namespace != "" {
		path += "/namespaces/" + a.Namespace
	}
	for _, s := range []string{a.Resource, a.Name, a.Subresource} {
		if s != "" {
			path += "/" + s
		}
	}
	return canonicalTarget(path, a.Query)
}

// canonicalTarget writes a path and query in one way.
func canonicalTarget(path, query string) string {
	values, err := url.ParseQuery(query)
	if err != nil {
		return path + "?" + query
	}
	return path + "?" + values.Encode()
}

// Forms of one answer: the same request may have been made for a table, which
// kubectl prints, and for objects.
const (
	asObjects = "objects "
	asTable   = "table "
)

// recordedOf is an answer as it goes over the wire, and its form.
func recordedOf(a audit.Record, body []byte) (recorded, string) {
	out, form := recorded{status: a.Status, body: body, media: "application/json"}, asObjects
	var meta struct{ APIVersion, Kind string }
	switch {
	case json.Unmarshal(body, &meta) != nil:
		if a.Verb != "watch" && a.Status < 400 {
			out.media = "text/plain"
		}
	case meta.Kind == "Table":
		form, out.media = asTable, mediaAs(meta.Kind, meta.APIVersion)
	case meta.Kind == "APIGroupDiscoveryList", strings.HasPrefix(meta.Kind, "PartialObjectMetadata"):
		out.media = mediaAs(meta.Kind, meta.APIVersion) // a client asks for it by this name
	case meta.APIVersion == "" && strings.HasSuffix(meta.Kind, "List") && a.Version != "":
		out.body = withVersion(body, a) // as a diagnosis keeps a list
	}
	return out, form
}

// mediaAs is the media type of what an API server makes of its objects.
func mediaAs(kind, apiVersion string) string {
	group, version, _ := strings.Cut(apiVersion, "/")
	return mime.FormatMediaType("application/json", map[string]string{"as": kind, "g": group, "v": version})
}

func withVersion(list []byte, a audit.Record) []byte {
	version := a.Version
	if a.Group != "" {
		version = a.Group + "/" + version
	}
	return append([]byte(`{"apiVersion":`+strconv.Quote(version)+`,"metadata":{},`), bytes.TrimPrefix(bytes.TrimSpace(list), []byte("{"))...)
}

// RoundTrip implements http.RoundTripper.
func (c *Cluster) RoundTrip(req *http.Request) (*http.Response, error) {
	form := asObjects
	if strings.Contains(req.Header.Get("Accept"), "as=Table") {
		form = asTable
	}
	target := canonicalTarget(req.URL.Path, req.URL.RawQuery)
	if a, ok := c.nextAnswer(c.answers, form, target); ok {
		return a.newResponse(req), nil
	}
	if c.Also != nil {
		if resp, ok := c.Also(req); ok {
			c.mu.Lock()
			c.derived++
			c.mu.Unlock()
			return resp, nil
		}
	}
	if a, ok := c.nextAnswer(c.aside, form, target); ok {
		return a.newResponse(req), nil
	}
	c.mu.Lock()
	c.missed = append(c.missed, text.CutBytes("the cluster: "+req.Method+" "+target, maxNamed))
	c.mu.Unlock()
	status, _ := json.Marshal(map[string]any{ // of plain values
		"kind": "Status", "apiVersion": "v1", "metadata": map[string]any{}, "status": "Failure", "reason": "Forbidden", "code": http.StatusForbidden,
		"message": "not recorded: nobody asked for this when the incident was investigated, which says nothing about whether it was there",
	})
	return recorded{http.StatusForbidden, status, "application/json"}.newResponse(req), nil
}

// nextAnswer is the next answer to a request. An error was told to whoever asked for a
// table as it was to others, and so was a log.
func (c *Cluster) nextAnswer(from map[string][]recorded, form, target string) (recorded, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := from[form+target]
	if len(list) == 0 && form == asTable {
		form = asObjects
		if list = from[form+target]; len(list) > 0 && list[0].status < 400 && c.Also != nil && !strings.Contains(list[0].media, "text") {
			return recorded{}, false // a table is made of it
		}
	}
	if len(list) == 0 {
		return recorded{}, false
	}
	if len(list) > 1 {
		from[form+target] = list[1:]
	}
	return list[0], true
}

func (a recorded) newResponse(req *http.Request) *http.Response {
	return &http.Response{
		Status: fmt.Sprintf("%d %s", a.status, http.StatusText(a.status)), StatusCode: a.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {a.media}}, Body: io.NopCloser(bytes.NewReader(a.body)), ContentLength: int64(len(a.body)), Request: req,
	}
}

// Missed are the requests that were not recorded.
func (c *Cluster) Missed() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.missed)
}

// Derived is how many requests were answered by Also.
func (c *Cluster) Derived() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.derived
}
