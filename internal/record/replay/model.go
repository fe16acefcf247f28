package replay

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/mask"
	"nightcrier.dev/nightcrier/internal/text"
)

// Bounds of what is read of the calls of a model: of all, and of one request.
const (
	maxCalls   = 2000
	maxRequest = 32 << 20
)

// Model is a model's API that says what the model said then. It is an http.Handler.
//
// A call gets the recorded answer that fits best: of the calls that no answer was
// given to yet, the first to the same path with as many turns before it and, like
// it, with or without tools; else the first to the same path.
type Model struct {
	from, to string // the workspace's path then and now
	today    string

	mu     sync.Mutex
	calls  []call
	differ *Difference // the first call whose request is another
	missed []string
}

// call is one call of the model as it is recorded.
type call struct {
	n       int
	path    string
	request []byte
	shape   shape
	date    string
	status  int
	media   string
	answer  []byte
	cut     bool
	used    bool
}

// shape is what tells the calls of one run apart: how many turns there were before,
// and whether tools were offered.
type shape struct {
	turns int
	tools bool
}

// Model reads the calls of the model. An agent in the workspace now will find the
// paths that the model names in it in place of those of then; today is its date.
func (r *Record) Model(from, now, today string) (*Model, error) {
	raw, err := r.File(modelFile)
	if err != nil {
		return nil, nightcrier.Errorf(nightcrier.Invalid, "%w", err)
	}
	m := &Model{from: from, to: now, today: today}
	for in := bufio.NewReader(bytes.NewReader(raw)); ; {
		line, err := in.ReadBytes('\n')
		if len(line) == 0 || err != nil || len(m.calls) == maxCalls { // a line without its end was cut
			return m, nil
		}
		c, ended, err := callOf(line)
		if err != nil {
			r.addDoubtf("%s: call %d is damaged: %v", modelFile, len(m.calls)+1, err)
			continue
		}
		if ended {
			c.n = len(m.calls) + 1
			m.calls = append(m.calls, c)
		}
	}
}

// body is one that was sent, masked. Its digest is that of what went over the wire.
type body struct {
	SHA256      string `json:"sha256"`
	ContentType string `json:"contentType"`
	Text        string `json:"text"`
	Base64      []byte `json:"base64"`
	Dropped     bool   `json:"dropped"`
}

// isChanged reports whether a body is not what its digest says. Of one that was masked, or
// not kept whole, that cannot be told.
func (b *body) isChanged() bool {
	said := b.Text
	if len(b.Base64) > 0 {
		said = string(b.Base64)
	}
	return b.SHA256 != "" && !b.Dropped && !mask.Tagged(said) && text.DigestOf([]byte(said)) != b.SHA256
}

// checkCalls holds the calls of the model against their digests.
func (r *Record) checkCalls() error {
	raw, err := r.File(modelFile)
	if err != nil {
		return err
	}
	n := 0
	for line := range bytes.Lines(raw) {
		var l struct {
			Request  body
			Response *body
		}
		if n++; json.Unmarshal(line, &l) != nil || l.Response == nil {
			continue // it was cut, which Model tells, or has no bodies yet
		}
		if l.Request.isChanged() || l.Response.isChanged() {
			r.addDoubtf("%s: line %d was changed after it was recorded", modelFile, n)
		}
	}
	return nil
}

func callOf(line []byte) (c call, ended bool, err error) {
	var l struct {
		Event, Path, Time string
		Status            int
		Request           body
		Response          *body
	}
	if err := json.Unmarshal(line, &l); err != nil {
		return c, false, err
	}
	if l.Event != "answered" && l.Event != "cut" || l.Response == nil || l.Status < 200 || l.Status > 599 {
		return c, false, nil
	}
	if l.Response.Dropped {
		return c, false, fmt.Errorf("its answer was not kept whole")
	}
	c = call{path: l.Path, request: []byte(l.Request.Text), date: l.Time[:min(len(l.Time), len("2006-01-02"))], status: l.Status, media: l.Response.ContentType, answer: []byte(l.Response.Text), cut: l.Event == "cut"}
	if len(l.Response.Base64) > 0 {
		c.answer = l.Response.Base64
	}
	c.shape = shapeOf(c.request)
	return c, true, nil
}

// shapeOf looks at a request in any of the protocols.
func shapeOf(request []byte) shape {
	var r struct {
		Messages, Contents, Input, Tools []json.RawMessage
	}
	_ = json.Unmarshal(request, &r) // what is no list has no turns
	return shape{len(r.Messages) + len(r.Contents) + len(r.Input), len(r.Tools) > 0}
}

// ServeHTTP implements http.Handler.
func (m *Model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	request, err := io.ReadAll(io.LimitReader(r.Body, maxRequest+1))
	if err != nil || len(request) > maxRequest {
		http.Error(w, "the request cannot be read", http.StatusBadRequest)
		return
	}
	c, ok := m.nextCall(r.URL.Path, request)
	if !ok {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest) // which nobody tries again
		_, _ = io.WriteString(w, `{"type":"error","error":{"type":"invalid_request_error","status":"INVALID_ARGUMENT","message":"not recorded: the model was not asked any more"}}`)
		return
	}
	w.Header().Set("Content-Type", c.media)
	w.WriteHeader(c.status)
	_, _ = w.Write(movePath(c.answer, m.from, m.to)) // the caller may be gone
	if c.cut {
		panic(http.ErrAbortHandler) // as it broke off then
	}
}

// nextCall chooses the answer to a request, and notes whether it is the request of then.
func (m *Model) nextCall(path string, request []byte) (call, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	want := shapeOf(request)
	same := func(c call) bool {
		return !c.used && (strings.HasSuffix(path, c.path) || strings.HasSuffix(c.path, path))
	}
	i := slices.IndexFunc(m.calls, func(c call) bool { return same(c) && c.shape == want })
	if i < 0 {
		i = slices.IndexFunc(m.calls, same)
	}
	if i < 0 {
		m.missed = append(m.missed, fmt.Sprintf("the model: POST %s, with %d turns before it", text.CutBytes(path, maxNamed), want.turns))
		return call{}, false
	}
	m.calls[i].used = true
	c := m.calls[i]
	if m.differ == nil {
		m.differ = m.compareRequests(c, request)
	}
	return c, true
}

// compareRequests tells the first difference of two requests, but for what is another each
// time.
func (m *Model) compareRequests(c call, request []byte) *Difference {
	then := normalText(withoutIdentity(c.request), m.from, c.date)
	now := normalText(withoutIdentity(request), m.to, m.today)
	list := Documents(fmt.Sprintf("call %d of the model,", c.n), []byte(then), []byte(now))
	if len(list) == 0 {
		return nil
	}
	return &list[0]
}

// What is another in each run: ids, ports and processes of this machine, and how long something took
// or when it was called, where a CLI writes that into its requests.
var (
	anyID   = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	anyPort = regexp.MustCompile(`(127\.0\.0\.1|localhost):[0-9]{2,5}`)
	anyPID  = regexp.MustCompile(`(PGID: |Background PIDs: )[0-9, ]+`)
	anyTime = regexp.MustCompile(`(Wall time: )[0-9.]+|(_)1[0-9]{12}(_)`)
)

// withoutIdentity leaves out the fields of a request that tell who asks, and not what.
func withoutIdentity(request []byte) string {
	var fields map[string]json.RawMessage
	if json.Unmarshal(request, &fields) != nil {
		return string(request)
	}
	for _, name := range []string{"metadata", "client_metadata", "prompt_cache_key"} {
		delete(fields, name)
	}
	raw, err := encodeJSON(fields)
	if err != nil {
		return string(request)
	}
	return string(raw)
}

func normalText(text, workspace, date string) string {
	if workspace != "" {
		text = strings.ReplaceAll(text, workspace, "‹workspace›")
	}
	if date != "" {
		text = strings.ReplaceAll(text, date, "‹today›")
	}
	text = anyPID.ReplaceAllString(anyTime.ReplaceAllString(text, "$1$2‹time›$3"), "$1‹pid›")
	return anyPort.ReplaceAllString(anyID.ReplaceAllString(text, "‹id›"), "$1:‹port›")
}

// Differs is the first call whose request is not what it was, nil when all are.
func (m *Model) Differs() *Difference {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.differ
}

// Speaks reports whether anything of it is recorded.
func (m *Model) Speaks() bool { return len(m.calls) > 0 }

// Missed are the calls that no answer is recorded for, Left how many answers nobody
// asked for.
func (m *Model) Missed() (missed []string, left []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.calls {
		if !c.used {
			left = append(left, fmt.Sprintf("the model: call %d, POST %s", c.n, text.CutBytes(c.path, maxNamed)))
		}
	}
	return slices.Clone(m.missed), left
}
