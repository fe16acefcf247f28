package app

import (
	"context"
	"hash/fnv"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent/backend"
	"nightcrier.dev/nightcrier/internal/cluster/changes"
	"nightcrier.dev/nightcrier/internal/cluster/kube"
	"nightcrier.dev/nightcrier/internal/cluster/preflight"
	"nightcrier.dev/nightcrier/internal/cluster/snapshot"
	"nightcrier.dev/nightcrier/internal/config"
	"nightcrier.dev/nightcrier/internal/diagnose"
	guardkube "nightcrier.dev/nightcrier/internal/guard/kube"
	"nightcrier.dev/nightcrier/internal/guard/recorded"
	"nightcrier.dev/nightcrier/internal/mask"
	"nightcrier.dev/nightcrier/internal/record/journal"
)

// clusters gives access to the clusters that have a credential. A client is
// made at its first use.
type clusters struct {
	override func(string) ClusterAccess
	config   map[string]config.Cluster
	// defaults says that a cluster without a kubeconfig has kubectl's own.
	defaults bool
	// snapshots stand in the place of live clusters.
	snapshots map[string]*snapshot.Snapshot
	gate      *preflight.Gate
	mask      *mask.Masker
	log       *slog.Logger

	mu      sync.Mutex
	clients map[string]dialled
	masks   map[string]knowing
}

// dialled is a client, and when its kubeconfig had last been changed. Cred is what
// the kubeconfig said then, nil when a guard could not use it.
type dialled struct {
	*kube.Client
	changed time.Time
	cred    *backend.Credential
	asks    *kube.Client // as a guard with cred would be known to the cluster
}

// knowing hides the credential of a cluster, as its kubeconfig had last been changed.
type knowing struct {
	*mask.Masker
	changed time.Time
}

// newClusters knows the configured clusters. With enforce, agents are refused a
// credential that can write.
func newClusters(list []config.Cluster, o Options, mask *mask.Masker, enforce bool) *clusters {
	c := &clusters{override: o.Access, defaults: o.Client != nil, snapshots: o.Snapshots, mask: mask, config: map[string]config.Cluster{}, clients: map[string]dialled{}, masks: map[string]knowing{}, log: o.Logger}
	var names []string
	for _, cl := range list {
		c.config[cl.Name] = cl
		names = append(names, cl.Name)
		if o.Client != nil {
			c.clients[cl.Name] = dialled{Client: o.Client}
		}
	}
	c.gate = preflight.NewGate(preflight.Config{
		Clusters: names, Ask: c.askerFor, Namespaces: c.namespacesOf, Allowed: func(name string) bool { return c.config[name].AllowWriteCredential },
		Enforce: enforce, Logger: o.Logger, Now: o.Now,
	})
	return c
}

// clientOf returns nil where no credential is configured. A kubeconfig that was
// written anew is read anew, and what was known of the old one forgotten.
func (c *clusters) clientOf(name string) (*kube.Client, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	have, cl := c.clients[name], c.config[name]
	if cl.Kubeconfig == "" || c.override != nil || c.defaults {
		return have.Client, nil
	}
	changed := changedAt(cl.Kubeconfig)
	if have.Client != nil && (changed.IsZero() || changed.Equal(have.changed)) {
		return have.Client, nil
	}
	client, err := kube.Dial(cl.Kubeconfig, cl.Context, 0)
	if err != nil {
		c.log.Error("cluster cannot be read", "component", "kube", "event", "kubeconfig_unusable", "cluster", name, "error", err)
		return nil, err
	}
	if have.Client != nil {
		have.Close()
		c.gate.Forget(name)
	}
	d := dialled{Client: client, changed: changed}
	if cred, err := forGuard(cl); err == nil {
		if up, err := guardkube.Dial(cred.Kubeconfig, "", cred.Env); err == nil {
			d.cred, d.asks = cred, kube.Through(up.Base, up.Transport, 0)
		}
	}
	c.clients[name] = d
	return client, nil
}

// dialledClient returns the client as it stands now.
func (c *clusters) dialledClient(name string) (dialled, error) {
	if _, err := c.clientOf(name); err != nil {
		return dialled{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.clients[name], nil
}

// maskerFor hides what we hold, and with it the credential of the cluster; of all of
// them where the name is none of theirs.
func (c *clusters) maskerFor(name string) *mask.Masker {
	if _, known := c.config[name]; !known {
		return c.maskerOfAll()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	cl := c.config[name]
	if c.override != nil || cl.Kubeconfig == "" && !c.defaults {
		return c.mask
	}
	have, changed := c.masks[name], changedAt(cl.Kubeconfig)
	if have.Masker != nil && (changed.IsZero() || changed.Equal(have.changed)) {
		return have.Masker
	}
	cred, err := Credential(cl.Kubeconfig, cl.Context, os.Environ())
	if err != nil { // not there yet, or none that a file holds
		return c.mask
	}
	c.masks[name] = knowing{c.mask.With(cred.Secrets()...), changed}
	return c.masks[name].Masker
}

func (c *clusters) maskerOfAll() *mask.Masker {
	var values []string
	for _, cl := range c.config {
		if cred, err := Credential(cl.Kubeconfig, cl.Context, os.Environ()); err == nil && cl.Kubeconfig != "" {
			values = append(values, cred.Secrets()...)
		}
	}
	return c.mask.With(values...)
}

// Mask hides secrets in what was said of a cluster.
func (c *clusters) Mask(name, text string) string { return c.maskerFor(name).String(text) }

// MaskLog hides them in lines that may be a part of a log.
func (c *clusters) MaskLog(name, lines string) string {
	masked, _ := c.maskerFor(name).Log([]byte(lines))
	return string(masked)
}

// changedAt is zero for a file that is not there: what it said is still known.
func changedAt(path string) time.Time {
	info, err := os.Stat(path)
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

// kubectlContext is the context that people reach a cluster by, as far as it is
// configured: that of a kubeconfig which was made for a server is none of theirs.
func (c *clusters) kubectlContext(name string) string { return c.config[name].Context }

func (c *clusters) labelsOf(name string) map[string]string { return c.config[name].Labels }

// namespacesOf are those of a cluster that are looked at, none for all.
func (c *clusters) namespacesOf(name string) []string { return c.config[name].Namespaces }

// askerFor is how preflight asks a cluster: as whom a guard would be, since a
// credential plugin may tell another identity to another environment.
func (c *clusters) askerFor(name string) (preflight.Asker, error) {
	if s := c.snapshots[name]; s != nil {
		return s.Client(), nil
	}
	d, err := c.dialledClient(name)
	switch {
	case d.Client == nil:
		return nil, err
	case d.asks == nil:
		return d.Client, nil
	}
	return d.asks, nil
}

// accessTo returns nil where no credential is configured. One that is not usable
// answers with why.
func (c *clusters) accessTo(name string) ClusterAccess {
	if c.override != nil {
		return c.override(name)
	}
	client, err := c.clientOf(name)
	switch {
	case err != nil:
		return unusable{err}
	case client == nil:
		return nil
	}
	return live{client, c.gate, name, c.snapshots[name] != nil}
}

// live is a cluster that is read over its API.
type live struct {
	*kube.Client
	gate *preflight.Gate
	name string
	// recorded says that a snapshot stands in its place.
	recorded bool
}

// Permissions implements diagnose.Reader. A snapshot lets everything in it be read,
// which says nothing about a credential of the cluster: no risk of one is reported.
func (l live) Permissions(ctx context.Context, ns string) (map[string]any, error) {
	p, err := l.gate.Permissions(ctx, l.name, ns)
	if l.recorded {
		for _, key := range []string{"worstCase", "risks"} {
			delete(p, key)
		}
	}
	return p, err
}

// Reader is what diagnosis reads a cluster by, nil without a credential. A live
// cluster is read through a guard like an agent's, which tells audit of each
// request, and shares what m learns.
func (c *clusters) Reader(name string, m *mask.Masker, audit func(context.Context, journal.Request) error) diagnose.Reader {
	a := c.accessTo(name)
	if a == nil {
		return nil
	}
	l, ok := a.(live)
	if !ok {
		return a
	}
	base, transport := l.Upstream()
	masker := c.maskerFor(name).Sharing(m)
	g, err := guardkube.New(guardkube.Config{
		Upstream: guardkube.Upstream{Base: base, Transport: transport}, Mask: masker.Bytes, MaskLog: masker.Log, Namespaces: c.namespacesOf(name),
		Logger: c.log.With("component", "guard", "cluster", name),
		Audit:  func(ctx context.Context, r guardkube.AuditRecord) error { return audit(ctx, journal.Request(r)) },
	})
	if err != nil {
		return unusable{err}
	}
	return guarded{kube.Over(base.Host, g, 0), l, c.namespacesOf(name), audit}
}

// guarded reads through a guard; what the credential may do is asked beside it,
// because a guard answers that from its own policy.
type guarded struct {
	*kube.Client
	live live
	// namespaces are those that may be read, none for all.
	namespaces []string
	audit      func(context.Context, journal.Request) error
}

// Permissions implements diagnose.Reader.
func (g guarded) Permissions(ctx context.Context, ns string) (map[string]any, error) {
	return g.live.Permissions(ctx, ns)
}

// releaseRequests numbers the requests that are made beside the guard, apart from its
// own.
const releaseRequests = int64(1) << 40

// Release implements diagnose.ReleaseReader. No guard lets a Secret's data through, so
// it is read beside it, and nothing leaves but the chart's name and version, status
// and times.
func (g guarded) Release(ctx context.Context, ns, secret string) (changes.Release, error) {
	if err := (nightcrier.Resource{Kind: "Secret", Namespace: ns, Name: secret}).Check(); err != nil {
		return changes.Release{}, err
	}
	if !strings.HasPrefix(secret, "sh.helm.release.v1.") || len(g.namespaces) > 0 && !slices.Contains(g.namespaces, ns) {
		return changes.Release{}, nightcrier.Errorf(nightcrier.Refused, "Secret %s/%s is no Helm release that may be read", ns, secret)
	}
	hash := fnv.New32a()
	hash.Write([]byte(ns + "/" + secret))
	q := journal.Request{
		ID: releaseRequests + int64(hash.Sum32()), Time: time.Now().UTC(), Verb: "get", Version: "v1", Resource: "secrets", Namespace: ns, Name: secret,
		Decision: journal.Allow, Reason: "the metadata of a Helm release, for the diagnosis alone",
	}
	if err := g.audit(ctx, q); err != nil {
		return changes.Release{}, err
	}
	raw, err := g.live.Read(ctx, "/api/v1/namespaces/"+url.PathEscape(ns)+"/secrets/"+url.PathEscape(secret), nil, "application/json", 0)
	q.Done, q.Status, q.Bytes = true, http.StatusOK, int64(len(raw))
	if err != nil {
		q.Status = 0
	}
	if told := g.audit(ctx, q); told != nil {
		return changes.Release{}, told
	}
	if err != nil {
		return changes.Release{}, err
	}
	return changes.UnpackRelease(raw)
}

// AgentAccess returns the credential that the guard of an agent may hold, nil when
// agents shall not look into the cluster, and why.
func (c *clusters) AgentAccess(ctx context.Context, name, namespace string) (*backend.Credential, string) {
	cl := c.config[name]
	if c.override != nil || cl.Kubeconfig == "" && !c.defaults {
		return nil, ""
	}
	if cl.Kubeconfig != "" && !c.defaults {
		return c.agentCredential(ctx, name, namespace)
	}
	ok, reason := c.gate.AgentAccess(ctx, name, namespace)
	if !ok {
		return nil, reason
	}
	cred, err := forGuard(cl)
	if err != nil {
		return nil, err.Error()
	}
	return cred, reason
}

// forGuard is what a guard of the cluster holds, and is bound to.
func forGuard(cl config.Cluster) (*backend.Credential, error) {
	cred, err := Credential(cl.Kubeconfig, cl.Context, os.Environ())
	if err != nil {
		return nil, err
	}
	cred.Namespaces = cl.Namespaces
	return cred, nil
}

// agentCredential returns the very credential that the gate asked with: a kubeconfig may be
// written anew at any moment.
func (c *clusters) agentCredential(ctx context.Context, name, namespace string) (*backend.Credential, string) {
	for range 3 {
		before, _ := c.dialledClient(name) // the gate meets the same error
		ok, reason := c.gate.AgentAccess(ctx, name, namespace)
		after, err := c.dialledClient(name)
		switch {
		case before.Client != after.Client:
		case !ok:
			return nil, reason
		case err != nil:
			return nil, err.Error()
		case after.cred == nil:
			return nil, "its kubeconfig is none that a guard can use"
		default:
			return after.cred, reason
		}
	}
	return nil, "its kubeconfig is being changed"
}

// Owner implements intake.OwnerResolver. Without a credential the answer is a
// Refused error, and names are looked at instead.
func (c *clusters) Owner(ctx context.Context, cluster string, res nightcrier.Resource) (nightcrier.Resource, error) {
	a := c.accessTo(cluster)
	if a == nil {
		return nightcrier.Resource{}, nightcrier.Errorf(nightcrier.Refused, "cluster %s has no kubeconfig", cluster)
	}
	return a.Owner(ctx, res)
}

// unusable answers every read with why the credential cannot be used, so that
// reports say it.
type unusable struct{ err error }

func (u unusable) Get(context.Context, nightcrier.Resource) ([]byte, error) { return nil, u.err }
func (u unusable) List(context.Context, string, string, string, string, int) ([]byte, error) {
	return nil, u.err
}
func (u unusable) Logs(context.Context, string, string, string, bool, int64, int64) ([]byte, error) {
	return nil, u.err
}
func (u unusable) Permissions(context.Context, string) (map[string]any, error) { return nil, u.err }
func (u unusable) Owner(context.Context, nightcrier.Resource) (nightcrier.Resource, error) {
	return nightcrier.Resource{}, u.err
}

// openSnapshots serves the snapshots that stand in the place of live clusters, so
// that a cluster's credential is a kubeconfig here as everywhere.
func (a *App) openSnapshots() error {
	for i, c := range a.cfg.Clusters {
		s := a.opt.Snapshots[c.Name]
		if s == nil {
			continue
		}
		server, err := recorded.ServeSnapshot(s, a.log)
		if err != nil {
			return err
		}
		a.onStop("snapshot "+c.Name, func(context.Context) error { return server.Close() })
		a.cfg.Clusters[i].Kubeconfig = server.Kubeconfig
	}
	return nil
}

// clusterNow is what is now in a cluster: a snapshot stands still.
func (a *App) clusterNow(cluster string) time.Time {
	if s := a.opt.Snapshots[cluster]; s != nil {
		return s.CapturedAt
	}
	return a.opt.Now()
}
