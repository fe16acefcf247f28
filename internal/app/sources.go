package app

import (
	"context"
	"crypto/rand"
	"errors"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/config"
	"nightcrier.dev/nightcrier/internal/ingest/mcp"
	"nightcrier.dev/nightcrier/internal/ingest/webhook"
	"nightcrier.dev/nightcrier/internal/retry"
)

// source is where faults come from, one per cluster and kind.
type source interface {
	Start(context.Context) error
	Stop(context.Context) error
	Status() nightcrier.SourceStatus
}

func (a *App) startSources(ctx context.Context) error {
	transport := mcp.NewTransport()
	shared := mcp.Config{Gate: retry.NewGate(sourceGate), Transport: transport}
	lists := retry.NewGate(snapshotGate)
	for _, c := range a.cfg.Clusters {
		if c.MCP.Endpoint != "" {
			a.sources = append(a.sources, mcp.New(a.sourceConfig(c, shared), a.deliverToIntake))
		}
		if c.Watch {
			a.sources = append(a.sources, a.newWatch(c, lists))
		}
	}
	a.onStop("sources", func(ctx context.Context) error {
		defer transport.CloseIdleConnections()
		return a.stopSources(ctx)
	})
	for _, s := range a.sources {
		if err := s.Start(ctx); err != nil {
			return err
		}
	}
	return nil
}

// deliverToIntake hands what a source received to intake.
func (a *Investigator) deliverToIntake(ctx context.Context, d nightcrier.Delivery) error {
	_, err := a.Deliver(ctx, d)
	return err
}

// sourceGate is how many sources connect at once.
const sourceGate = 16

// sourceConfig completes what all sources share with what is a cluster's own.
func (a *App) sourceConfig(c config.Cluster, cfg mcp.Config) mcp.Config {
	cfg.Cluster, cfg.Labels, cfg.Endpoint, cfg.Mode, cfg.APIKey = c.Name, c.Labels, c.MCP.Endpoint, c.MCP.Mode, c.MCP.APIKey.Reveal
	cfg.Logger, cfg.Now, cfg.Timings = a.log.With("component", "source"), a.opt.Now, a.opt.SourceTimings
	return cfg
}

// stopSources says goodbye to all servers at once: each may take seconds.
func (a *App) stopSources(ctx context.Context) error {
	errs := make(chan error, len(a.sources))
	for _, s := range a.sources {
		go func() { errs <- s.Stop(ctx) }()
	}
	var all error
	for range a.sources {
		all = errors.Join(all, <-errs)
	}
	return all
}

// openWebhooks makes the addresses that others post to.
func (a *App) openWebhooks(context.Context) error {
	cfg := webhook.Config{Logger: a.log.With("component", "source"), Now: a.opt.Now,
		Deliver: func(ctx context.Context, d nightcrier.Delivery) (nightcrier.Outcome, bool, error) {
			dec, err := a.Deliver(ctx, d)
			return dec.Outcome, dec.Repeated, err
		}}
	for _, c := range a.cfg.Clusters {
		cluster := AlertCluster(c)
		cluster.MaskLog = func(text string) string { return a.access.MaskLog(c.Name, text) }
		cfg.Clusters = append(cfg.Clusters, cluster)
	}
	for _, w := range a.cfg.Webhooks {
		cfg.Mappings = append(cfg.Mappings, webhook.Mapping{Name: w.Name, Token: senderToken(w.TokenEnv, w.Token),
			Items: w.Items, When: w.When, Cluster: w.Cluster, Kind: w.Kind, Namespace: w.Namespace, Object: w.Object,
			Type: w.Type, Severity: w.Severity, Text: w.Text, Key: w.Key, Cleared: w.Cleared})
	}
	hooks, err := webhook.New(cfg)
	a.hooks = hooks
	return err
}

// AlertCluster is how a cluster's alerts come. Where nothing else tells of the cluster
// they are listed in any case, so that no cluster is missing in the list.
func AlertCluster(c config.Cluster) webhook.Cluster {
	return webhook.Cluster{
		Name: c.Name, Labels: c.Labels, Token: senderToken(c.Alertmanager.TokenEnv, c.Alertmanager.Token), AlertLabels: c.Alertmanager.Labels,
		Listed: c.Alertmanager.Given || c.MCP.Endpoint == "" && !c.Watch,
	}
}

// senderToken is what a sender has to show. Where one was asked for and is not there,
// nobody knows it.
func senderToken(variable string, value config.Secret) string {
	if variable != "" && !value.IsSet() {
		return rand.Text()
	}
	return value.Reveal()
}

// WebhookAddr is where other machines post, for tests that listen on port 0.
func (a *App) WebhookAddr() string { return a.server.WebhookAddr() }
