// Package kubetool is the read-only tool set for looking into a cluster: list,
// get, describe, logs, events, top, and what changed. Agents, models and MCP
// clients use the same tools.
//
// Every tool reads through a Reader, which is where policy stands; here no
// call changes anything either. What a cluster answers is outside input: it is
// stripped of what nobody may see (the data of Secrets), masked, recorded as
// evidence, freed of control characters, fenced where it is free text, and cut
// to a size that a model can take, with a word on how to get the rest. A read
// that fails is an error, never an empty answer.
package kubetool

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/text"
)

// Reader answers a GET of an API path, with its query, as the media type asked
// for, reading at most maxBytes; kube.Client is one. Errors carry codes.
type Reader interface {
	Read(ctx context.Context, path string, query url.Values, accept string, maxBytes int64) ([]byte, error)
}

// Citer is a Reader that keeps what it answers itself, also its refusals, under an
// id, "" when an answer is not kept. Its ids stand at the end of a result, and
// nothing is recorded twice.
type Citer interface {
	Reader
	Cite(ctx context.Context, path string, query url.Values, accept string, maxBytes int64) (body []byte, id string, err error)
}

// Recorder keeps what was read and gives it an id; evidence.Recorder is one.
type Recorder interface {
	Record(kind, source string, body []byte) (id string, err error)
}

// Config says what the tools read. Reader is required.
type Config struct {
	Reader Reader
	// Releases reads the Secrets in which Helm keeps its releases, of which only
	// metadata is taken; nil leaves Helm out.
	Releases Reader
	// Evidence, when set, keeps every answer; its ids stand at the end of a result. A
	// Reader that is a Citer needs none.
	Evidence Recorder
	// Mask replaces secret values; nil leaves the text as it is.
	Mask func([]byte) []byte
	// Cluster is the name in the texts.
	Cluster string
	// MaxText bounds a result, in bytes; 0 is 32 KiB.
	MaxText int
	Now     func() time.Time
}

// defaultText is the bound of a result: some 8,000 tokens.
const defaultText = 32 << 10

// Set is the tools of one cluster. It is safe for concurrent use.
type Set struct {
	cfg Config

	mu      sync.Mutex
	catalog *catalog
}

// New returns the tools for a cluster. It reads nothing yet.
func New(cfg Config) *Set {
	if cfg.Mask == nil {
		cfg.Mask = func(b []byte) []byte { return b }
	}
	if cfg.MaxText <= 0 {
		cfg.MaxText = defaultText
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Set{cfg: cfg}
}

// Tool is one tool. Its name is what models call it by.
type Tool struct {
	Name, Title, About string
	Params             Params
	// Output is the JSON Schema of what the tool tells programs, nil where it tells
	// nothing but text.
	Output map[string]any
	run    func(context.Context, *reading, Args) error
	set    *Set
}

// Result is what a tool says.
type Result struct {
	// Text is for a model to read, with the evidence's ids at its end.
	Text string
	// Evidence are the ids of what was recorded, in the order of reading.
	Evidence []string
	// Structured is the same for programs, as the tool's Output says; nil without one.
	Structured any
}

// Run checks the arguments and runs the tool. Invalid errors say what would be
// right; all others are those of the reads.
func (t Tool) Run(ctx context.Context, raw json.RawMessage) (Result, error) {
	args, err := t.Params.Read(raw)
	if err != nil {
		return Result{}, nightcrier.Errorf(nightcrier.Invalid, "%s: %w", t.Name, err)
	}
	return t.Do(ctx, args)
}

// Do is Run for arguments that were read already.
func (t Tool) Do(ctx context.Context, args Args) (Result, error) {
	r := &reading{set: t.set}
	if err := t.run(ctx, r, args); err != nil {
		return Result{Evidence: r.evidence}, fmt.Errorf("%s: %w", t.Name, err)
	}
	res := r.finishResult()
	if r.data != nil {
		b := r.data.basis()
		if b.Evidence = r.evidence; b.Truncated {
			b.Rest = cmp.Or(r.rest, askForLess)
		}
		var err error
		if res.Structured, err = Plain(r.data); err != nil {
			return res, err
		}
	}
	return res, nil
}

// Tools returns the tools, in the order in which they are shown.
func (s *Set) Tools() []Tool {
	tools := []Tool{listTool, getTool, describeTool, logsTool, eventsTool, topTool, changesTool}
	for i := range tools {
		tools[i].set = s
	}
	return tools
}

// Tool returns the tool of that name.
func (s *Set) Tool(name string) (Tool, bool) {
	for _, t := range s.Tools() {
		if t.Name == name {
			return t, true
		}
	}
	return Tool{}, false
}

// reading is one call of a tool: what it has read and what it says.
type reading struct {
	set      *Set
	text     strings.Builder
	evidence []string
	rest     string // how to get what may be cut
	data     structured
}

func (r *reading) writeTextf(format string, args ...any) { fmt.Fprintf(&r.text, format, args...) }

func (r *reading) currentTime() time.Time { return r.set.cfg.Now() }

// finishResult bounds the text, and ends it with what it rests on.
func (r *reading) finishResult() Result {
	said := text.MarkHidden(r.text.String())
	if limit := r.set.cfg.MaxText; len(said) > limit {
		said = r.cutText(said, limit)
	}
	if len(r.evidence) > 0 {
		said = strings.TrimRight(said, "\n") + "\n[evidence " + strings.Join(r.evidence, " ") + "]\n"
	}
	return Result{Text: said, Evidence: r.evidence}
}

// askForLess is how to get what was cut where the tool knows no better way.
const askForLess = "ask for less"

// cutText ends the text at a line, closes a fence that it cuts through, and says
// how much is missing.
func (r *reading) cutText(said string, limit int) string {
	kept := text.KeepBytes(said, limit)
	if end := strings.LastIndexByte(kept, '\n'); end > limit/2 {
		kept = kept[:end+1]
	}
	open := ""
	for l := range strings.Lines(kept) {
		l = strings.TrimSpace(l)
		switch {
		case l == "" || strings.Trim(l, "`") != "" || len(l) < 3:
		case open == "":
			open = l
		case l == open:
			open = ""
		}
	}
	if open != "" {
		kept = strings.TrimRight(kept, "\n") + "\n" + open
	}
	return fmt.Sprintf("%s\n(cut: %d of %d bytes are shown; %s)\n", strings.TrimRight(kept, "\n"), len(kept), len(said), cmp.Or(r.rest, askForLess))
}
