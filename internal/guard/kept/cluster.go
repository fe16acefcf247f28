// Package kept stands where a run reads what is outside of it: its cluster, metrics
// and logs, the tools of others. Each question is kept with its answer in the incident's
// workspace, and nobody who asks knows of it. An investigation that is made again asks
// the same readers, which then have the answers of the record, and nothing else.
package kept

import (
	"context"
	"encoding/json"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/cluster/changes"
	"nightcrier.dev/nightcrier/internal/diagnose"
	"nightcrier.dev/nightcrier/internal/record/replay"
	"nightcrier.dev/nightcrier/internal/record/replay/tape"
)

// Cluster is what a step of a run looks at, and when.
type Cluster struct {
	// Reader is nil where the cluster cannot be read, Sources where nothing is there to
	// be asked for metrics and logs.
	Reader  diagnose.Reader
	Sources *diagnose.Sources
	Now     time.Time
	// Still says that nothing in it changes: a recording stands in its place.
	Still bool
}

// through is c, with each question put to take. Where take answers from a record there is
// no cluster: c is zero, and nothing of it is asked.
func (c Cluster) through(take tape.Take) (Cluster, error) {
	now, err := valueOf(take, replay.Now, func() (time.Time, error) { return c.Now, nil })
	if err != nil {
		return Cluster{}, err
	}
	reader, still, err := readerThrough(take, c)
	if err != nil {
		return Cluster{}, err
	}
	sources, err := sourcesThrough(take, c.Sources)
	return Cluster{reader, sources, now, still}, err
}

// valueOf takes a value.
func valueOf[T any](take tape.Take, name string, ask func() (T, error)) (T, error) {
	var v T
	err := take(name, &v, func() (err error) { v, err = ask(); return err })
	return v, err
}

// seeing is how a cluster can be read.
type seeing struct {
	Reads    bool `json:"reads"`
	Releases bool `json:"releases"`
	Still    bool `json:"still,omitempty"`
}

func readerThrough(take tape.Take, c Cluster) (_ diagnose.Reader, still bool, err error) {
	can, err := valueOf(take, replay.Reader, func() (seeing, error) {
		_, releases := c.Reader.(diagnose.ReleaseReader)
		return seeing{c.Reader != nil, releases, c.Still}, nil
	})
	switch {
	case err != nil || !can.Reads:
		return nil, false, err
	case can.Releases:
		return releaseReader{reader{take, c.Reader}}, can.Still, nil
	}
	return reader{take, c.Reader}, can.Still, nil
}

// reader reads a cluster; live is nil where take answers from a record.
type reader struct {
	take tape.Take
	live diagnose.Reader
}

// Get implements diagnose.Reader.
func (r reader) Get(ctx context.Context, res nightcrier.Resource) ([]byte, error) {
	return valueOf(r.take, replay.Name("get", res.APIVersion, res.Kind, res.Namespace, res.Name), func() ([]byte, error) { return r.live.Get(ctx, res) })
}

// List implements diagnose.Reader.
func (r reader) List(ctx context.Context, kind, ns, labels, fields string, limit int) ([]byte, error) {
	return valueOf(r.take, replay.Name("list", kind, ns, labels, fields, limit), func() ([]byte, error) {
		return r.live.List(ctx, kind, ns, labels, fields, limit)
	})
}

// Logs implements diagnose.Reader.
func (r reader) Logs(ctx context.Context, ns, pod, container string, previous bool, tail, maxBytes int64) ([]byte, error) {
	return valueOf(r.take, replay.Name("logs", ns, pod, container, previous, tail, maxBytes), func() ([]byte, error) {
		return r.live.Logs(ctx, ns, pod, container, previous, tail, maxBytes)
	})
}

// Permissions implements diagnose.Reader. The document is what it will be when it is read
// from a record, so that it is written out in one way.
func (r reader) Permissions(ctx context.Context, ns string) (doc map[string]any, err error) {
	raw, err := valueOf(r.take, replay.Name("permissions", ns), func() ([]byte, error) {
		doc, err := r.live.Permissions(ctx, ns)
		if err != nil {
			return nil, err
		}
		return json.Marshal(doc)
	})
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		return nil, nightcrier.Errorf(nightcrier.Invalid, "permissions: %w", err)
	}
	return doc, nil
}

// releaseReader is of a cluster whose Helm releases can be read.
type releaseReader struct{ reader }

// Release implements diagnose.ReleaseReader.
func (r releaseReader) Release(ctx context.Context, ns, secret string) (changes.Release, error) {
	return valueOf(r.take, replay.Name("release", ns, secret), func() (changes.Release, error) {
		return r.live.(diagnose.ReleaseReader).Release(ctx, ns, secret)
	})
}

// asking is what of a cluster's sources can be asked.
type asking struct {
	Metrics      bool   `json:"metrics,omitempty"`
	Lines        bool   `json:"lines,omitempty"`
	MetricsLabel string `json:"metricsLabel,omitempty"`
	LinesLabel   string `json:"linesLabel,omitempty"`
}

func sourcesThrough(take tape.Take, s *diagnose.Sources) (*diagnose.Sources, error) {
	var live diagnose.Sources
	if s != nil {
		live = *s
	}
	can, err := valueOf(take, replay.Sources, func() (asking, error) {
		return asking{live.Metrics != nil, live.Lines != nil, live.MetricsLabel, live.LinesLabel}, nil
	})
	if err != nil || !can.Metrics && !can.Lines {
		return nil, err
	}
	out := &diagnose.Sources{MetricsLabel: can.MetricsLabel, LinesLabel: can.LinesLabel}
	if can.Metrics {
		out.Metrics = func(ctx context.Context, query string, from, to time.Time, step time.Duration) ([]byte, error) {
			return valueOf(take, replay.Name("metrics", query, from.Unix(), to.Unix(), step), func() ([]byte, error) {
				return live.Metrics(ctx, query, from, to, step)
			})
		}
	}
	if can.Lines {
		out.Lines = func(ctx context.Context, query string, from, to time.Time, limit int) ([]byte, error) {
			return valueOf(take, replay.Name("lines", query, from.Unix(), to.Unix(), limit), func() ([]byte, error) {
				return live.Lines(ctx, query, from, to, limit)
			})
		}
	}
	return out, nil
}
