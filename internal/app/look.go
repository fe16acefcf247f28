package app

import (
	"context"
	"time"

	"nightcrier.dev/nightcrier/internal/diagnose"
	"nightcrier.dev/nightcrier/internal/guard/data"
	"nightcrier.dev/nightcrier/internal/guard/kept"
	"nightcrier.dev/nightcrier/internal/mask"
	"nightcrier.dev/nightcrier/internal/record/journal"
	"nightcrier.dev/nightcrier/internal/triage"
)

// Look opens a cluster for a step of a run, and keeps what the step asks and is answered in
// the run's workspace.
func (c *clusters) Look(l triage.Look) (triage.View, error) {
	step, err := kept.BeginStep(l.Workspace, l.RunID, l.Step, c.version, l.Mask)
	if err != nil {
		return triage.View{}, err
	}
	audit := step.Audit(l.Audit)
	conn, _ := c.connect(l.Cluster) // what is wrong with it, the reader says
	view, err := step.Keep(kept.Cluster{
		Reader: c.reader(l.Cluster, l.Mask, audit), Sources: c.newSources(l.Cluster, l.Mask, audit), Now: c.reachOf(l.Cluster).Now(), Still: conn.Recorded,
	})
	return triage.View{Cluster: view, Close: step.Close}, err
}

// sourcesFor are those that are configured for a cluster.
func (c *clusters) sourcesFor(name string) *data.Access {
	cl := c.config[name]
	return cl.DataAccess()
}

// newSources are what diagnosis asks for metrics and logs, through a guard that tells
// audit of each question, and shares what m learns. Nil where there are none.
func (c *clusters) newSources(name string, m *mask.Masker, audit func(context.Context, journal.Request) error) *diagnose.Sources {
	access := c.sourcesFor(name)
	if access == nil {
		return nil
	}
	log := c.log.With("component", "sources", "cluster", name)
	masker := c.maskerFor(name).Sharing(m)
	g, err := data.New(data.Config{Access: *access, Mask: masker.Bytes, MaskLog: masker.Log, Audit: audit, Logger: log})
	if err != nil { // the configuration was checked
		log.Error("metrics and logs cannot be asked for", "event", "sources_unusable", "error", err)
		return nil
	}
	s := &diagnose.Sources{}
	if p := access.Prometheus; p != nil {
		s.MetricsLabel = p.NamespaceLabel
		s.Metrics = func(ctx context.Context, query string, from, to time.Time, step time.Duration) ([]byte, error) {
			return g.Range(ctx, data.Query{Text: query, Start: from, End: to, Step: step})
		}
	}
	if l := access.Loki; l != nil {
		s.LinesLabel = l.NamespaceLabel
		s.Lines = func(ctx context.Context, query string, from, to time.Time, limit int) ([]byte, error) {
			return g.Log(ctx, data.Query{Text: query, Start: from, End: to, Limit: limit})
		}
	}
	return s
}
