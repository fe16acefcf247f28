package worker

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"
	"unicode/utf8"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent"
	"nightcrier.dev/nightcrier/internal/guard/model"
	"nightcrier.dev/nightcrier/internal/record/journal"
	"nightcrier.dev/nightcrier/internal/record/replay"
	texts "nightcrier.dev/nightcrier/internal/text"
)

// exchangesFile is where the calls of the model are kept, below the workspace and out
// of the agent's reach: one JSON object a line, one when a call is sent and one when
// its answer has ended. A later attempt goes on behind an earlier one's.
const exchangesFile = "logs/model.jsonl"

// maxExchanges bounds the file, in bytes. Beyond it calls are kept without their bodies,
// for another maxExchangeHeads bytes, and then not at all.
const (
	maxExchanges     = 64 << 20
	maxExchangeHeads = 4 << 20
)

// exchanges writes down the calls of one attempt. It is safe for concurrent use.
type exchanges struct {
	worker *worker
	mask   func([]byte) []byte

	mu       sync.Mutex
	file     *os.File
	size     int64
	calls    int // that have ended
	repeated int // of calls, those whose request had been sent before
	dropped  int // of calls, those that are not kept whole
}

// exchangeLine is one line of the file.
type exchangeLine struct {
	Step    string    `json:"step"`
	Attempt int       `json:"attempt"`
	N       int64     `json:"n"`
	Event   string    `json:"event"`
	Time    time.Time `json:"time"`
	Method  string    `json:"method"`
	Path    string    `json:"path"`
	Model   string    `json:"model,omitempty"`
	// Sent is how often this very request was sent in this attempt until now.
	Sent        int           `json:"sent"`
	Status      int           `json:"status,omitempty"`
	FirstByteMS float64       `json:"firstByteMs,omitempty"`
	DurationMS  float64       `json:"durationMs,omitempty"`
	Usage       *tokenCount   `json:"usage,omitempty"`
	Request     exchangeBody  `json:"request"`
	Response    *exchangeBody `json:"response,omitempty"`
}

// What became of a call.
const (
	eventSent     = "sent"
	eventAnswered = "answered"
	eventCut      = "cut"    // the answer did not come to its end
	eventFailed   = "failed" // there was no answer
)

// tokenCount is what a call took: CacheRead and CacheWrite are parts of Input. Unknown
// says that the answer broke off before it said all of it.
type tokenCount struct {
	Input      int64   `json:"inputTokens"`
	CacheRead  int64   `json:"cacheReadTokens,omitempty"`
	CacheWrite int64   `json:"cacheWriteTokens,omitempty"`
	Output     int64   `json:"outputTokens"`
	CostUSD    float64 `json:"costUSD,omitempty"`
	Unknown    bool    `json:"unknown,omitempty"`
}

// exchangeBody is a body: its size and hash as it went over the wire, and its text
// masked. Dropped says that the text, or its end, is not kept.
type exchangeBody struct {
	Bytes       int64  `json:"bytes"`
	SHA256      string `json:"sha256"`
	ContentType string `json:"contentType,omitempty"`
	Text        string `json:"text,omitempty"`
	Base64      []byte `json:"base64,omitempty"` // in place of Text where that is no UTF-8
	Dropped     bool   `json:"dropped,omitempty"`
}

// openExchanges opens the file behind what earlier attempts have written.
func (w *worker) openExchanges() (*exchanges, error) {
	ws, err := w.openWorkspace()
	if err != nil {
		return nil, err
	}
	defer ws.Close()
	if err := ws.Mkdir(filepath.Dir(exchangesFile), 0o700); err != nil && !os.IsExist(err) {
		return nil, nightcrier.Errorf(nightcrier.Exhausted, "workspace: %w", err)
	}
	f, err := ws.OpenFile(exchangesFile, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, nightcrier.Errorf(nightcrier.Exhausted, "%s: %w", exchangesFile, err)
	}
	x := &exchanges{worker: w, file: f, mask: w.mask.Bytes}
	if x.size, err = endLine(f); err != nil {
		f.Close()
		return nil, nightcrier.Errorf(nightcrier.Exhausted, "%s: %w", exchangesFile, err)
	}
	return x, nil
}

// endLine ends a line that a crash cut, and returns the file's size.
func endLine(f *os.File) (int64, error) {
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return 0, err
	}
	last := make([]byte, 1)
	if _, err := f.ReadAt(last, info.Size()-1); err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	if last[0] == '\n' {
		return info.Size(), nil
	}
	_, err = f.Write([]byte("\n"))
	return info.Size() + 1, err
}

// recordExchange is told of every call by the guard. A record that cannot be written is
// counted; the call goes on, as it is paid for either way.
func (x *exchanges) recordExchange(e model.Exchange) {
	x.mu.Lock()
	defer x.mu.Unlock()
	l := x.newLine(e)
	if e.Done {
		x.calls++
		if e.Sent > 1 {
			x.repeated++
		}
		x.fillLine(&l, e)
	}
	whole := x.writeLine(l, maxExchanges)
	if !whole && e.Done {
		l.Request.drop()
		l.Response.drop()
		x.writeLine(l, maxExchanges+maxExchangeHeads)
	}
	if e.Done && (!whole || l.Response.Dropped) {
		if x.dropped++; x.dropped == 1 {
			x.worker.appendNote("warn", fmt.Sprintf("call %d of the model, and others that follow, cannot be kept whole in %s", e.N, exchangesFile))
		}
	}
}

// newLine returns what is said of a call when it is sent.
func (x *exchanges) newLine(e model.Exchange) exchangeLine {
	return exchangeLine{
		Step: x.worker.spec.Step, Attempt: x.worker.spec.Attempt, N: e.N, Event: eventSent, Time: e.Time.UTC(),
		Method: e.Method, Path: e.Path, Model: e.Model, Sent: e.Sent,
		Request: exchangeBody{Bytes: e.Request.Bytes, SHA256: e.Request.SHA256},
	}
}

// fillLine adds what is known when the answer has ended.
func (x *exchanges) fillLine(l *exchangeLine, e model.Exchange) {
	switch {
	case e.Status == 0:
		l.Event = eventFailed
	case e.Cut:
		l.Event = eventCut
	default:
		l.Event = eventAnswered
	}
	l.Time = e.Time.Add(e.Whole).UTC()
	l.Status, l.FirstByteMS, l.DurationMS = e.Status, milliseconds(e.Answer), milliseconds(e.Whole)
	if t := e.Tokens; t.Total() > 0 || e.Unknown {
		l.Usage = &tokenCount{Input: t.Request(), CacheRead: t.CacheRead, CacheWrite: t.CacheWrite + t.CacheWriteHour, Output: t.Output, CostUSD: e.Cost.Dollars(), Unknown: e.Unknown}
	}
	l.Request = x.newBody(e.Request, x.mask)
	response := x.newBody(e.Response, x.maskStream)
	response.ContentType = e.ContentType
	l.Response = &response
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// maskStream masks an answer, also what it spreads over several events.
func (x *exchanges) maskStream(answer []byte) []byte {
	return x.mask(replay.Masked(answer, func(s string) string { return string(x.mask([]byte(s))) }))
}

func (x *exchanges) newBody(b model.Body, mask func([]byte) []byte) exchangeBody {
	l := exchangeBody{Bytes: b.Bytes, SHA256: b.SHA256, Dropped: int64(len(b.Text)) < b.Bytes}
	if text := mask(b.Text); utf8.Valid(text) {
		l.Text = string(text)
	} else {
		l.Base64 = text
	}
	return l
}

func (b *exchangeBody) drop() { b.Text, b.Base64, b.Dropped = "", nil, b.Bytes > 0 }

// writeLine appends a line, unless the file then were larger than limit. Half a line that
// a full disk left is ended by the next.
func (x *exchanges) writeLine(l exchangeLine, limit int64) bool {
	var line bytes.Buffer
	enc := json.NewEncoder(&line)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(l); err != nil || x.size+int64(line.Len()) > limit {
		return false
	}
	n, err := x.file.Write(line.Bytes())
	x.size += int64(n)
	if err != nil {
		x.worker.log.Warn("a call of the model is not kept", "error", err)
		x.worker.lacksRoom(exchangesFile, err)
		if n > 0 {
			m, _ := x.file.Write([]byte("\n")) // or the line stays broken until the next
			x.size += int64(m)
		}
	}
	return err == nil
}

// close says how many calls there were, and ends the record.
func (x *exchanges) close() {
	x.mu.Lock()
	defer x.mu.Unlock()
	text := fmt.Sprintf("%d calls of the model, %d of them of a request that was sent before; kept in %s", x.calls, x.repeated, exchangesFile)
	if x.dropped > 0 {
		text += fmt.Sprintf(", %d of them not whole", x.dropped)
	}
	x.worker.appendNote("info", text)
	if err := x.file.Close(); err != nil {
		x.worker.log.Warn("close the record of the model's calls", "error", err)
	}
}

// maxToldFailures is how many failed calls of the model are journaled one by one.
const maxToldFailures = 100

// answers follows how the model's API answers. When an agent fails because of it, this
// says so: the agents' own words differ, and name the guard's address for the API's.
type answers struct {
	mu     sync.Mutex
	failed *refusal // the last answer, nil where that was none or no error
	told   int
}

// refusal is an answer of the model's API that is an error.
type refusal struct {
	status  int
	message string // the API's own, masked; "" where it is not understood
}

func (r refusal) String() string {
	if r.status == http.StatusUnauthorized {
		return fmt.Sprintf("the model's API refused the key (HTTP %d)", r.status)
	}
	text := fmt.Sprintf("the model's API answered HTTP %d", r.status)
	if r.message != "" {
		return text + ": " + r.message
	}
	return text + " " + http.StatusText(r.status)
}

// noteAnswer takes note of every call: the guard tells it. Calls that only count say nothing of
// whether the agent can work.
func (a *attempt) noteAnswer(x model.Exchange) {
	if !x.Done || !x.Billed || x.Status == 0 {
		return
	}
	var r *refusal
	if x.Status >= http.StatusBadRequest {
		r = &refusal{x.Status, a.mask.String(apiMessage(x.Response.Text))}
	}
	a.answers.mu.Lock()
	a.answers.failed = r
	tell := r != nil && a.executor.RetriesUntold && a.answers.told < maxToldFailures
	if tell {
		a.answers.told++
	}
	a.answers.mu.Unlock()
	if tell {
		a.recordItems(journal.OfError(journal.Error{Text: r.String(), HTTPStatus: r.status, Attempt: x.Sent}))
	}
	if r != nil && (r.status == http.StatusUnauthorized || r.status == http.StatusPaymentRequired) {
		a.requestStop(abortCause(agent.StatusClass(r.status), r.String())) // it will be so the next time too
	}
}

// explainFailure says why an agent failed whose last call of the model's API was refused, and
// classes the failure by the status where that tells more than the agent does.
func (a *attempt) explainFailure(r *nightcrier.AgentResult) {
	a.answers.mu.Lock()
	failed := a.answers.failed
	a.answers.mu.Unlock()
	if failed == nil || r.State != nightcrier.StateFailed || !a.inItsWords() {
		return
	}
	switch r.FailureClass {
	case nightcrier.FailAgent, nightcrier.FailAuth, nightcrier.FailQuota:
	default:
		return // it failed for something else
	}
	if class := agent.StatusClass(failed.status); class != nightcrier.FailAgent {
		r.FailureClass = class
	}
	r.FailureReason = failed.String()
}

// maxAPIMessage bounds what is told of an API's message, in bytes.
const maxAPIMessage = 300

// apiMessage finds the message in an error of the model's API, or of a gateway before
// it: {"error": {"message": …}}, {"error": "…"}, {"message": …}, and lists of these.
func apiMessage(body []byte) string {
	var list []json.RawMessage
	if json.Unmarshal(body, &list) == nil && len(list) > 0 {
		body = list[0]
	}
	var e struct {
		Error                  json.RawMessage
		Message, Detail, Title string
	}
	if json.Unmarshal(body, &e) != nil {
		return ""
	}
	var inner struct{ Message string }
	said := ""
	if json.Unmarshal(e.Error, &inner) == nil {
		said = inner.Message
	} else if json.Unmarshal(e.Error, &said) != nil {
		said = ""
	}
	for _, s := range []string{said, e.Message, e.Detail, e.Title} {
		if s = texts.CutWords(texts.FoldLine(s), maxAPIMessage); s != "" {
			return s
		}
	}
	return ""
}
