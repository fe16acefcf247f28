// Package replay keeps what an investigation learned from outside of it, and lets
// the investigation be made again from that alone: no cluster, no model's API.
//
// Whoever reads for a run what is outside of it (a cluster, metrics and logs, the tools of
// others) puts each question on a tape in the run's workspace, by name, with the answer or
// the error. When the investigation is made again, the same questions get the same answers;
// a question that was not asked then is not answered, and is told of.
package replay

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/record/workspace"
	"nightcrier.dev/nightcrier/internal/text"
)

// Format names the form of a tape; one of another form is not played.
const Format = "nightcrier.record/2"

// The steps of ours that look into a cluster, each with a tape. Agent names that of an
// agent's n-th attempt.
const (
	Prepare = "prepare"
	Test    = "test"
)

// The names of what stands on a tape beside questions: the one time that a step takes for
// now, the sources that there were, and the requests that its questions came to.
const (
	Now      = "now"
	Reader   = "reader"
	Sources  = "sources"
	Requests = "requests"
)

// Agent is the step of an agent's n-th attempt, counted from 1: what the tools of others
// and the sources of metrics and logs answered to it.
func Agent(attempt int) string { return "agent-" + strconv.Itoa(attempt) }

// File is the path of a step's tape below the workspace.
func File(step string) string { return workspace.RecordDir + "/" + step + tapeSuffix }

const tapeSuffix = ".jsonl.gz"

// Bounds of one tape: bytes of what is kept before it is packed, the entries, and
// the bytes of a name.
const (
	maxTape    = 128 << 20
	maxEntries = 20_000
	maxName    = 1024
)

// head is the first line of a tape.
type head struct {
	Format  string `json:"format"`
	Step    string `json:"step"`
	RunID   string `json:"runId"`
	Version string `json:"version"` // of the program
}

// entry is one question and what came of it.
type entry struct {
	Ask string `json:"ask"`
	// One of the three: a document, a text, or bytes that are no text.
	Value json.RawMessage `json:"value,omitempty"`
	Text  *string         `json:"text,omitempty"`
	Bytes []byte          `json:"bytes,omitempty"`
	// Error is set where there was no answer.
	Error *failure `json:"error,omitempty"`
	// Dropped says that the answer was too large to be kept.
	Dropped bool `json:"dropped,omitempty"`
}

type failure struct {
	Code nightcrier.Code `json:"code"`
	Text string          `json:"text"`
}

// Recorder is the tape of one step that runs. It is safe for concurrent use.
type Recorder struct {
	to   io.WriteCloser
	mask func([]byte) []byte

	mu      sync.Mutex
	out     *gzip.Writer
	room    int // bytes that may still be kept
	entries int
}

// NewRecorder begins the tape of a step, which is written to a file that Close closes.
// What is kept is masked.
func NewRecorder(runID, step, version string, mask func([]byte) []byte, to io.WriteCloser) (*Recorder, error) {
	r := &Recorder{to: to, mask: mask, room: maxTape}
	out, err := gzip.NewWriterLevel(to, gzip.BestSpeed)
	if err != nil {
		return nil, err
	}
	r.out = out
	return r, r.writeLine(head{Format: Format, Step: step, RunID: runID, Version: version})
}

// Take is a tape.Take that records. That the caller was interrupted is no answer and is
// not kept.
func (r *Recorder) Take(name string, into any, ask func() error) error {
	err := ask()
	if errors.Is(err, context.Canceled) {
		return err
	}
	e, encodeErr := entryOf(name, into, err)
	if encodeErr != nil {
		return nightcrier.Errorf(nightcrier.Internal, "record %q: %w", name, encodeErr)
	}
	e.maskEntry(r.mask)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.entries == maxEntries {
		return err
	}
	if r.entries++; e.length() > r.room {
		e = entry{Ask: e.Ask, Dropped: true}
	}
	return errors.Join(err, r.writeLine(e))
}

// Close ends the tape.
func (r *Recorder) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return errors.Join(r.out.Close(), r.to.Close())
}

// Whole is a file that is written when all of it is known.
func Whole(save func([]byte) error) io.WriteCloser { return &whole{save: save} }

type whole struct {
	bytes.Buffer
	save func([]byte) error
}

// Close implements io.Closer.
func (w *whole) Close() error { return w.save(w.Bytes()) }

// writeLine writes one line. The caller holds mu, or is the only one.
func (r *Recorder) writeLine(v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nightcrier.Errorf(nightcrier.Internal, "record: %w", err)
	}
	r.room -= b.Len()
	_, err := r.out.Write(b.Bytes())
	return err
}

func entryOf(name string, from any, asked error) (entry, error) {
	e := entry{Ask: onTape(name)}
	if asked != nil {
		e.Error = &failure{nightcrier.CodeOf(asked), asked.Error()}
		return e, nil
	}
	body, isBody := from.(*[]byte)
	switch {
	case !isBody:
		raw, err := json.Marshal(from)
		e.Value = raw
		return e, err
	case utf8.Valid(*body):
		text := string(*body)
		e.Text = &text
	default:
		e.Bytes = *body
	}
	return e, nil
}

// onTape is a name as it stands on a tape: a long one is cut, and told from others by its
// digest.
func onTape(name string) string {
	if len(name) <= maxName {
		return name
	}
	return text.KeepBytes(name, maxName/2) + "… " + text.DigestOf([]byte(name))
}

func (e *entry) length() int {
	n := len(e.Value) + len(e.Bytes)
	if e.Text != nil {
		n += len(*e.Text)
	}
	if e.Error != nil {
		n += len(e.Error.Text)
	}
	return n
}

// maskEntry masks an entry before it is written. What came through a guard is masked already.
func (e *entry) maskEntry(mask func([]byte) []byte) {
	if e.Text != nil {
		text := string(mask([]byte(*e.Text)))
		e.Text = &text
	}
	if masked := mask(e.Value); json.Valid(masked) {
		e.Value = masked
	} else if e.Value != nil {
		e.Value, e.Dropped = nil, true
	}
	if e.Bytes != nil {
		e.Bytes = mask(e.Bytes)
	}
	if e.Error != nil {
		e.Error.Text = string(mask([]byte(e.Error.Text)))
	}
}

// Name is the name of a question: its words, each in quotes where it needs them.
func Name(words ...any) string {
	var b strings.Builder
	for i, w := range words {
		if i > 0 {
			b.WriteByte(' ')
		}
		fmt.Fprintf(&b, "%q", fmt.Sprint(w))
	}
	return b.String()
}
