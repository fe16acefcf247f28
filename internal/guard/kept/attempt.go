package kept

import (
	"os"
	"path/filepath"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/guard/data"
	"nightcrier.dev/nightcrier/internal/record/replay"
	"nightcrier.dev/nightcrier/internal/record/replay/tape"
)

// Attempt keeps what others answer an agent in one attempt: the tools of others, metrics and
// logs. A nil Attempt keeps nothing.
type Attempt struct {
	rec  *replay.Recorder
	take tape.Take
	// Sources are what there is to be asked, nil for nothing.
	Sources *data.Access
	// Lacking is why the record of an earlier run answers nothing, nil when it answers.
	Lacking error
}

// AttemptOptions say whose attempt it is.
type AttemptOptions struct {
	RunID   string
	Attempt int
	Mask    func([]byte) []byte
	// Sources are those of the cluster, nil for none.
	Sources *data.Access
	// From is the workspace of an earlier run, whose record answers in the place of
	// everybody, "" for none.
	From string
}

// BeginAttempt begins the record of an attempt in a workspace, which it closes in any case.
func BeginAttempt(ws *os.Root, o AttemptOptions) (*Attempt, error) {
	file, err := newFile(ws, replay.File(replay.Agent(o.Attempt)))
	if err != nil {
		return nil, err
	}
	a := &Attempt{Sources: o.Sources}
	if a.rec, err = replay.NewRecorder(o.RunID, replay.Agent(o.Attempt), "", o.Mask, file); err != nil {
		return nil, err
	}
	a.take = a.rec.Take
	if o.From != "" {
		a.answerFrom(o.From, o.Attempt)
	}
	if a.Sources == nil {
		return a, nil
	}
	on := sourcesOf(*a.Sources)
	return a, a.take(replay.Sources, &on, func() error { return nil })
}

// answerFrom answers from the record in dir alone. A question that it lacks is refused; where
// it cannot be read, all are.
func (a *Attempt) answerFrom(dir string, attempt int) {
	then, err := replay.AgentTape(dir, attempt)
	if err != nil {
		then, a.Lacking = replay.Blank(), err
	}
	a.take, a.Sources = a.rec.Again(then), nil
	var had sources
	if then.Peek(replay.Sources, &had) == nil {
		a.Sources = had.access()
	}
}

// Take is how guards ask others; nil asks them, and keeps nothing.
func (a *Attempt) Take() tape.Take {
	if a == nil {
		return nil
	}
	return a.take
}

// Close ends the record.
func (a *Attempt) Close() error {
	if a == nil {
		return nil
	}
	return a.rec.Close()
}

// sources are those of an agent, nil for one that there is not: for each the label of the
// namespace, by which its queries are bounded.
type sources struct {
	Prometheus *string  `json:"prometheus,omitempty"`
	Loki       *string  `json:"loki,omitempty"`
	Namespaces []string `json:"namespaces,omitempty"`
}

func sourcesOf(a data.Access) sources {
	label := func(e *data.Endpoint) *string {
		if e == nil {
			return nil
		}
		return &e.NamespaceLabel
	}
	return sources{label(a.Prometheus), label(a.Loki), a.Namespaces}
}

// access is the same sources at an address that is never asked.
func (s sources) access() *data.Access {
	endpoint := func(label *string) *data.Endpoint {
		if label == nil {
			return nil
		}
		return &data.Endpoint{URL: "http://" + replay.Host, NamespaceLabel: *label}
	}
	return &data.Access{Prometheus: endpoint(s.Prometheus), Loki: endpoint(s.Loki), Namespaces: s.Namespaces}
}

// file is one that is being written. It gets its name when it is whole.
type file struct {
	*os.File
	ws         *os.Root
	part, name string
}

// newFile makes the file, out of the agent's reach.
func newFile(ws *os.Root, name string) (*file, error) {
	name = filepath.FromSlash(name)
	f := &file{ws: ws, part: name + ".part", name: name}
	err := ws.MkdirAll(filepath.Dir(name), 0o700)
	if err == nil {
		err = ws.RemoveAll(f.part)
	}
	if err == nil {
		f.File, err = ws.OpenFile(f.part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	}
	if err != nil {
		ws.Close()
		return nil, nightcrier.Errorf(nightcrier.Exhausted, "%s: %w", name, err)
	}
	return f, nil
}

// Close implements io.Closer.
func (f *file) Close() error {
	defer f.ws.Close()
	if err := f.File.Close(); err != nil {
		return err
	}
	return f.ws.Rename(f.part, f.name)
}
