package app

import (
	"context"
	"crypto/rand"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/config"
	"nightcrier.dev/nightcrier/internal/ingest/webhook"
)

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
