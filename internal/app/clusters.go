package app

import (
	"context"
	"hash/fnv"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent/backend"
	"nightcrier.dev/nightcrier/internal/cluster/changes"
	"nightcrier.dev/nightcrier/internal/cluster/kube"
	"nightcrier.dev/nightcrier/internal/cluster/preflight"
	"nightcrier.dev/nightcrier/internal/config"
	"nightcrier.dev/nightcrier/internal/diagnose"
	guardkube "nightcrier.dev/nightcrier/internal/guard/kube"
	"nightcrier.dev/nightcrier/internal/mask"
	"nightcrier.dev/nightcrier/internal/record/journal"
)

// clusters gives access to the clusters that have a credential. A client is
// made at its first use.
type clusters struct {
	config  map[string]config.Cluster
	reached map[string]Reach
	reach   func(config.Cluster) Reach
	gate    *preflight.Gate
	mask    *mask.Masker
	log     *slog.Logger
	version string // of this program
	now     func() time.Time

	mu      sync.Mutex
	clients map[string]*kube.Client // by which each was last read
	masks   map[string]knowing
}

// knowing hides the credential of a cluster, as it had last been changed.
type knowing struct {
	*mask.Masker
	changed time.Time
}

// newClusters knows the configured clusters. With enforce, agents are refused a
// credential that can write.
func newClusters(list []config.Cluster, o Options, mask *mask.Masker, enforce bool) *clusters {
	c := &clusters{
		config: map[string]config.Cluster{}, reached: map[string]Reach{}, reach: o.Reach, mask: mask, log: o.Logger, version: o.Version, now: o.Now,
		clients: map[string]*kube.Client{}, masks: map[string]knowing{},
	}
	var names []string
	for _, cl := range list {
		c.config[cl.Name], c.reached[cl.Name] = cl, c.newReach(cl)
		names = append(names, cl.Name)
	}
	c.gate = preflight.NewGate(preflight.Config{
		Clusters: names, Ask: c.askerFor, Namespaces: c.namespacesOf, Allowed: func(name string) bool { return c.config[name].AllowWriteCredential },
		Enforce: enforce, Logger: o.Logger, Now: o.Now,
	})
	return c
}

// reachOf is how a cluster is reached, also one that is not configured.
func (c *clusters) reachOf(name string) Reach {
	if r := c.reached[name]; r != nil {
		return r
	}
	return c.newReach(config.Cluster{Name: name})
}

func (c *clusters) newReach(cl config.Cluster) Reach {
	if r := c.reach(cl); r != nil {
		return r
	}
	return ByKubeconfig(cl, c.log, c.now)
}

// connect returns the way to a cluster as it stands now. What was known of a credential
// that was replaced is forgotten.
func (c *clusters) connect(name string) (Connection, error) {
	conn, err := c.reachOf(name).Connect()
	if err != nil {
		return conn, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if was := c.clients[name]; was != nil && was != conn.Client {
		c.gate.Forget(name)
	}
	if c.reached[name] != nil {
		c.clients[name] = conn.Client
	}
	return conn, nil
}

// maskerFor hides what we hold, and with it the credential of the cluster; of all of
// them where the name is none of theirs.
func (c *clusters) maskerFor(name string) *mask.Masker {
	r, known := c.reached[name]
	if !known {
		return c.maskerOfAll()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	have, changed := c.masks[name], r.ChangedAt()
	if have.Masker != nil && (changed.IsZero() || changed.Equal(have.changed)) {
		return have.Masker
	}
	values, ok := r.Secrets()
	if !ok { // not there yet, or none that a file holds
		return c.mask
	}
	c.masks[name] = knowing{c.mask.With(values...), changed}
	return c.masks[name].Masker
}

func (c *clusters) maskerOfAll() *mask.Masker {
	var all []string
	for _, r := range c.reached {
		values, _ := r.Secrets()
		all = append(all, values...)
	}
	return c.mask.With(all...)
}

// Mask hides secrets in what was said of a cluster.
func (c *clusters) Mask(name, text string) string { return c.maskerFor(name).String(text) }

// MaskLog hides them in lines that may be a part of a log.
func (c *clusters) MaskLog(name, lines string) string {
	masked, _ := c.maskerFor(name).Log([]byte(lines))
	return string(masked)
}

// Context is the context that people reach a cluster by, as far as it is
// configured: that of a kubeconfig which was made for a server is none of theirs.
func (c *clusters) Context(name string) string { return c.config[name].Context }

// Names are those of the clusters that are configured, in order.
func (c *clusters) Names() []string { return slices.Sorted(maps.Keys(c.config)) }

// Labels are those of a cluster.
func (c *clusters) Labels(name string) map[string]string { return c.config[name].Labels }

// namespacesOf are those of a cluster that are looked at, none for all.
func (c *clusters) namespacesOf(name string) []string { return c.config[name].Namespaces }

// askerFor is how preflight asks a cluster.
func (c *clusters) askerFor(name string) (preflight.Asker, error) {
	conn, err := c.connect(name)
	return conn.Asker, err
}

// accessTo returns nil where no credential is configured. One that is not usable
// answers with why.
func (c *clusters) accessTo(name string) ClusterAccess {
	conn, err := c.connect(name)
	switch {
	case err != nil:
		return unusable{err}
	case conn.Direct != nil:
		return conn.Direct
	case conn.Client == nil:
		return nil
	}
	return live{conn.Client, c.gate, name, conn.Recorded}
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

// reader is what diagnosis reads a cluster by, nil without a credential. A live
// cluster is read through a guard like an agent's, which tells audit of each
// request, and shares what m learns.
func (c *clusters) reader(name string, m *mask.Masker, audit func(context.Context, journal.Request) error) diagnose.Reader {
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
		Logger: c.log.With("component", "guard", "cluster", name), Audit: audit,
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

// Access returns the credential that the guard of an agent may hold, nil when
// agents shall not look into the cluster, and why. It is the very one that the gate asked
// with: a kubeconfig may be written anew at any moment.
func (c *clusters) Access(ctx context.Context, name, namespace string) (*backend.Credential, string) {
	for range 3 {
		before, err := c.connect(name)
		if err == nil && before.Client == nil {
			return nil, ""
		}
		ok, reason := c.gate.AgentAccess(ctx, name, namespace) // which meets the same error
		after, err := c.connect(name)
		switch {
		case before.Client != after.Client:
		case !ok:
			return nil, reason
		case err != nil:
			return nil, err.Error()
		case after.Credential == nil:
			return nil, after.Why.Error()
		default:
			return after.Credential, reason
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
