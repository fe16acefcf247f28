package run

import (
	"context"
	"encoding/json"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent/backend"
	"nightcrier.dev/nightcrier/internal/cluster/changes"
	"nightcrier.dev/nightcrier/internal/diagnose"
	"nightcrier.dev/nightcrier/internal/record/replay"
	"nightcrier.dev/nightcrier/internal/record/replay/tape"
	"nightcrier.dev/nightcrier/internal/record/workspace"
)

// Tape keeps what a step learns from outside of the run, so that the run can be
// made again from that, or gives it when it is.
type Tape interface {
	// Take is a tape.Take.
	Take(name string, into any, ask func() error) error
	// Close ends the step: what was taken is kept from now on.
	Close() error
}

// recordValue is Take for a value.
func recordValue[T any](t Tape, name string, ask func() (T, error)) (T, error) {
	var v T
	err := t.Take(name, &v, func() (err error) { v, err = ask(); return err })
	return v, err
}

// recordKnownValue is recordValue for what cannot fail to be known.
func recordKnownValue[T any](t Tape, name string, ask func() T) (T, error) {
	return recordValue(t, name, func() (T, error) { return ask(), nil })
}

// untaped keeps nothing.
type untaped struct{}

func (untaped) Take(name string, into any, ask func() error) error { return tape.Live(name, into, ask) }
func (untaped) Close() error                                       { return nil }

// openTape opens the tape of a step of a run.
func (r *Runner) openTape(ws *workspace.Workspace, runID, step string) (Tape, error) {
	if r.cfg.Tape == nil {
		return untaped{}, nil
	}
	return r.cfg.Tape(ws, runID, step)
}

// Begun is what a run began with, the first entry of its tape.
type Begun struct {
	Incident nightcrier.Incident `json:"incident"`
	Event    nightcrier.Event    `json:"event"`
	Run      nightcrier.Run      `json:"run"`
	Order    Order               `json:"order"`
	// Evidence is how many items were kept by earlier runs of the incident.
	Evidence int `json:"evidence"`
	// Workspace is where the run's files were.
	Workspace string `json:"workspace"`
}

// The names of what stands on tapes beside reads.
const (
	TapeBegun    = "begun"
	TapePayload  = "payload" // of the event
	tapeReader   = "reader"
	TapeRequests = "requests"
	TapeSources  = "sources"
	TapeNow      = "now" // the first is of the diagnosis
	tapeTook     = "took"
	tapeContext  = "context"
	TapeAccess   = "access"
)

// Access says whether an agent may look into the cluster, and what is to be known of
// that.
type Access struct {
	Granted bool   `json:"granted"`
	Why     string `json:"why,omitempty"`
	// Namespaces are those that it may read; none means all.
	Namespaces []string `json:"namespaces,omitempty"`
}

// accessOf is what an agent gets.
func accessOf(cred *backend.Credential, why string) Access {
	if cred == nil {
		return Access{Why: why}
	}
	return Access{true, why, cred.Namespaces}
}

// noteBegun puts on tape what the run began with.
func (r *Runner) noteBegun(ctx context.Context, o Order, inc *nightcrier.Incident, ev nightcrier.Event, kept int, workspace string, tape Tape) error {
	payload := []byte(ev.Raw) // bytes stay as they came; a document would be formatted anew
	if err := tape.Take(TapePayload, &payload, func() error { return nil }); err != nil {
		return err
	}
	_, err := recordValue(tape, TapeBegun, func() (Begun, error) {
		run, err := r.cfg.Store.Run(ctx, o.RunID)
		ev.Raw = nil
		return Begun{*inc, ev, run, o, kept, workspace}, err
	})
	return err
}

// seeing is how a cluster can be read.
type seeing struct {
	Reads    bool `json:"reads"`
	Releases bool `json:"releases"`
}

// onTape is a reader whose answers are on tape; nil where the cluster cannot be read.
func onTape(t Tape, reader diagnose.Reader) (diagnose.Reader, error) {
	can, err := recordKnownValue(t, tapeReader, func() seeing {
		_, releases := reader.(diagnose.ReleaseReader)
		return seeing{reader != nil, releases}
	})
	switch {
	case err != nil || !can.Reads:
		return nil, err
	case can.Releases:
		return tapedReleases{taped{t, reader}}, nil
	}
	return taped{t, reader}, nil
}

// taped reads a cluster through a tape. In a replay there is no cluster, reader is nil,
// and the tape alone answers.
type taped struct {
	tape   Tape
	reader diagnose.Reader
}

var errNotRecorded = nightcrier.Errorf(nightcrier.NotFound, "not recorded")

func (t taped) recordRead(name string, ask func() ([]byte, error)) ([]byte, error) {
	return recordValue(t.tape, name, func() ([]byte, error) {
		if t.reader == nil {
			return nil, errNotRecorded
		}
		return ask()
	})
}

// Get implements diagnose.Reader.
func (t taped) Get(ctx context.Context, res nightcrier.Resource) ([]byte, error) {
	return t.recordRead(replay.Name("get", res.APIVersion, res.Kind, res.Namespace, res.Name), func() ([]byte, error) { return t.reader.Get(ctx, res) })
}

// List implements diagnose.Reader.
func (t taped) List(ctx context.Context, kind, ns, labels, fields string, limit int) ([]byte, error) {
	return t.recordRead(replay.Name("list", kind, ns, labels, fields, limit), func() ([]byte, error) {
		return t.reader.List(ctx, kind, ns, labels, fields, limit)
	})
}

// Logs implements diagnose.Reader.
func (t taped) Logs(ctx context.Context, ns, pod, container string, previous bool, tail, maxBytes int64) ([]byte, error) {
	return t.recordRead(replay.Name("logs", ns, pod, container, previous, tail, maxBytes), func() ([]byte, error) {
		return t.reader.Logs(ctx, ns, pod, container, previous, tail, maxBytes)
	})
}

// Permissions implements diagnose.Reader.
func (t taped) Permissions(ctx context.Context, ns string) (map[string]any, error) {
	return recordValue(t.tape, replay.Name("permissions", ns), func() (map[string]any, error) {
		if t.reader == nil {
			return nil, errNotRecorded
		}
		return plainDocument(t.reader.Permissions(ctx, ns))
	})
}

// plainDocument makes a document what it will be when it is read from a tape, so that it is
// written out in one way.
func plainDocument(doc map[string]any, err error) (map[string]any, error) {
	if err != nil {
		return nil, err
	}
	raw, err := json.Marshal(doc)
	if err != nil {
		return nil, nightcrier.Errorf(nightcrier.Internal, "permissions: %w", err)
	}
	var read map[string]any
	err = json.Unmarshal(raw, &read)
	return read, err
}

// tapedReleases is of a cluster whose Helm releases can be read.
type tapedReleases struct{ taped }

// Release implements diagnose.ReleaseReader.
func (t tapedReleases) Release(ctx context.Context, ns, secret string) (changes.Release, error) {
	return recordValue(t.tape, replay.Name("release", ns, secret), func() (changes.Release, error) {
		r, ok := t.reader.(diagnose.ReleaseReader)
		if !ok {
			return changes.Release{}, errNotRecorded
		}
		return r.Release(ctx, ns, secret)
	})
}

// asking is what of a cluster's sources can be asked.
type asking struct {
	Metrics      bool   `json:"metrics,omitempty"`
	Lines        bool   `json:"lines,omitempty"`
	MetricsLabel string `json:"metricsLabel,omitempty"`
	LinesLabel   string `json:"linesLabel,omitempty"`
}

// sourcesOnTape are sources whose answers are on tape; nil where there are none.
func sourcesOnTape(t Tape, s *diagnose.Sources) (*diagnose.Sources, error) {
	live := diagnose.Sources{}
	if s != nil {
		live = *s
	}
	can, err := recordKnownValue(t, TapeSources, func() asking {
		return asking{live.Metrics != nil, live.Lines != nil, live.MetricsLabel, live.LinesLabel}
	})
	if err != nil || !can.Metrics && !can.Lines {
		return nil, err
	}
	on := &diagnose.Sources{MetricsLabel: can.MetricsLabel, LinesLabel: can.LinesLabel}
	if can.Metrics {
		on.Metrics = func(ctx context.Context, query string, from, to time.Time, step time.Duration) ([]byte, error) {
			return recordValue(t, replay.Name("metrics", query, from.Unix(), to.Unix(), step), func() ([]byte, error) {
				if live.Metrics == nil {
					return nil, errNotRecorded
				}
				return live.Metrics(ctx, query, from, to, step)
			})
		}
	}
	if can.Lines {
		on.Lines = func(ctx context.Context, query string, from, to time.Time, limit int) ([]byte, error) {
			return recordValue(t, replay.Name("lines", query, from.Unix(), to.Unix(), limit), func() ([]byte, error) {
				if live.Lines == nil {
					return nil, errNotRecorded
				}
				return live.Lines(ctx, query, from, to, limit)
			})
		}
	}
	return on, nil
}
