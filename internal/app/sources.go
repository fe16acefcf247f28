package app

import (
	"context"
	"log/slog"
	"time"

	"nightcrier.dev/nightcrier/internal/config"
	"nightcrier.dev/nightcrier/internal/diagnose"
	"nightcrier.dev/nightcrier/internal/guard/data"
	"nightcrier.dev/nightcrier/internal/mask"
	"nightcrier.dev/nightcrier/internal/record/journal"
)

// sourcesOf is what a cluster's configuration lets be asked for metrics and logs, nil
// for nothing.
func sourcesOf(c config.Cluster) *data.Access {
	a := &data.Access{Prometheus: endpointOf(c.Sources.Prometheus), Loki: endpointOf(c.Sources.Loki), Namespaces: c.Namespaces}
	if a.Prometheus == nil && a.Loki == nil {
		return nil
	}
	return a
}

func endpointOf(e config.Endpoint) *data.Endpoint {
	if e.URL == "" {
		return nil
	}
	return &data.Endpoint{
		URL: e.URL, Token: e.Token.Reveal(), Username: e.Username, Password: e.Password.Reveal(), Tenant: e.Tenant, NamespaceLabel: e.NamespaceLabel,
	}
}

// sourcesFor are those of a live cluster: a snapshot stands still, and metrics go on.
func (c *clusters) sourcesFor(name string) *data.Access {
	if c.override != nil || c.snapshots[name] != nil {
		return nil
	}
	return sourcesOf(c.config[name])
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

// checkSources asks each source of a cluster whether it answers.
func checkSources(ctx context.Context, cl config.Cluster) []Check {
	access := sourcesOf(cl)
	if access == nil {
		return nil
	}
	masker := freshMask(access.Secrets()...)
	g, err := data.New(data.Config{
		Access: *access, Mask: masker.Bytes, MaskLog: masker.Log, Logger: slog.New(slog.DiscardHandler),
		Audit: func(context.Context, journal.Request) error { return nil },
	})
	if err != nil {
		return []Check{Check{Code: CheckSources, Name: cl.Name}.asFailed(err, "see clusters[].sources")}
	}
	var checks []Check
	for _, system := range []string{data.Prometheus, data.Loki} {
		if !g.Has(system) {
			continue
		}
		c := Check{Code: CheckSources, Name: cl.Name + ", " + system}
		if said, err := g.Check(ctx, system); err != nil {
			checks = append(checks, c.asFailed(err, "check clusters[].sources."+system+": its address from here, its credential, and its tenant"))
		} else {
			checks = append(checks, c.asOK(said))
		}
	}
	return checks
}
