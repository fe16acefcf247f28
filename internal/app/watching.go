package app

import (
	"context"
	"sync"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/cluster/kube"
	"nightcrier.dev/nightcrier/internal/config"
	"nightcrier.dev/nightcrier/internal/ingest/detect"
	"nightcrier.dev/nightcrier/internal/ingest/intake"
	"nightcrier.dev/nightcrier/internal/ingest/watch"
	"nightcrier.dev/nightcrier/internal/retry"
)

// snapshotGate is how many clusters are listed at once: each takes as much of a
// processor as there is.
const snapshotGate = 4

// newWatch makes the source that finds a cluster's faults itself. It reads with the
// client that investigations read with, so a cluster has one connection.
func (a *App) newWatch(c config.Cluster, gate *retry.Gate) source {
	api := &current{of: a.access, cluster: c.Name}
	return watch.New(watch.Config{
		Cluster: c.Name, Labels: c.Labels, Namespaces: c.Namespaces, API: api, Endpoint: api.hostOf, Gate: gate, Intake: watched{a.Investigator},
		Detect: detect.Config{Class: intake.ClassOf, OwnerByName: intake.OwnerByName, Mask: func(text string) string { return a.access.Mask(c.Name, text) }, Patience: a.opt.WatchPatience},
		Logger: a.log.With("component", "source"), Now: a.opt.Now, Timings: a.opt.WatchTimings,
	})
}

// watched is where a watch delivers to.
type watched struct{ *Investigator }

// Deliver implements watch.Intake.
func (w watched) Deliver(ctx context.Context, d nightcrier.Delivery) error {
	return w.deliverToIntake(ctx, d)
}

// Followed implements watch.Intake.
func (w watched) Followed(ctx context.Context, cluster string) ([]nightcrier.Incident, error) {
	return w.store.Followed(ctx, cluster)
}

// current reads a cluster with the credential that it has now: a kubeconfig may
// come late, and is replaced before its token ends.
type current struct {
	of      *clusters
	cluster string

	mu      sync.Mutex
	failed  error
	retryAt time.Time
}

// credentialPause is how long a kubeconfig that cannot be used is left alone.
const credentialPause = 10 * time.Second

func (c *current) currentClient() (*kube.Client, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Now().Before(c.retryAt) {
		return nil, c.failed
	}
	conn, err := c.of.connect(c.cluster)
	if err == nil && conn.Client != nil {
		return conn.Client, nil
	}
	if err == nil {
		err = nightcrier.Errorf(nightcrier.Invalid, "it has no kubeconfig")
	}
	c.failed = nightcrier.Errorf(nightcrier.Unreachable, "cluster %s cannot be watched: %w", c.cluster, err)
	c.retryAt = time.Now().Add(credentialPause)
	return nil, c.failed
}

func (c *current) hostOf() string {
	client, err := c.currentClient()
	if err != nil {
		return ""
	}
	return client.Host()
}

// ListEach implements observe.API.
func (c *current) ListEach(ctx context.Context, sel kube.Selection, each func([]byte) error) (string, error) {
	client, err := c.currentClient()
	if err != nil {
		return "", err
	}
	return client.ListEach(ctx, sel, each)
}

// Watch implements observe.API.
func (c *current) Watch(ctx context.Context, sel kube.Selection, version string, lasting time.Duration, each func(kube.Change) error) error {
	client, err := c.currentClient()
	if err != nil {
		return err
	}
	return client.Watch(ctx, sel, version, lasting, each)
}

// Ready implements observe.API.
func (c *current) Ready(ctx context.Context) (bool, string, error) {
	client, err := c.currentClient()
	if err != nil {
		return false, "", err
	}
	return client.Ready(ctx)
}
