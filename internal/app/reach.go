package app

import (
	"errors"
	"log/slog"
	"os"
	"sync"
	"time"

	"nightcrier.dev/nightcrier/internal/agent/backend"
	"nightcrier.dev/nightcrier/internal/cluster/kube"
	"nightcrier.dev/nightcrier/internal/cluster/preflight"
	"nightcrier.dev/nightcrier/internal/config"
	guardkube "nightcrier.dev/nightcrier/internal/guard/kube"
)

// Reach is how one cluster is reached. A server's own are reached by their kubeconfigs; who
// has a cluster in another way, such as a recorded one, hands over a Reach of it.
type Reach interface {
	// Connect returns what reads the cluster now: nothing where no credential is known for
	// it, an error where there is one that cannot be used.
	Connect() (Connection, error)
	// Secrets are those of the credential; they are not known where it cannot be read.
	Secrets() (values []string, known bool)
	// ChangedAt is when the credential was last changed, zero where it never is, or is gone:
	// what it said is still known.
	ChangedAt() time.Time
	// Now is what is now in the cluster.
	Now() time.Time
}

// Connection is a way to a cluster, and what is known of the credential that it has.
type Connection struct {
	// Client reads the cluster, through a guard where an investigation does; nil for nothing.
	Client *kube.Client
	// Direct reads it in the place of Client, without a guard.
	Direct ClusterAccess
	// Asker is asked what the credential may do.
	Asker preflight.Asker
	// Credential is what the guard of an agent may hold; nil for none, and Why.
	Credential *backend.Credential
	Why        error
	// Recorded says that the credential is for a record, and says nothing of the cluster's.
	Recorded bool
}

// byKubeconfig reaches a cluster by a file, which is read anew when it was written anew.
type byKubeconfig struct {
	cluster config.Cluster
	log     *slog.Logger
	now     func() time.Time

	mu      sync.Mutex
	have    Connection
	changed time.Time
}

// ByKubeconfig reaches a cluster as it is configured: by its kubeconfig, or not at all.
func ByKubeconfig(c config.Cluster, log *slog.Logger, now func() time.Time) Reach {
	return &byKubeconfig{cluster: c, log: log, now: now}
}

// Connect implements Reach.
func (k *byKubeconfig) Connect() (Connection, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.cluster.Kubeconfig == "" {
		return Connection{}, nil
	}
	changed := k.ChangedAt()
	if k.have.Client != nil && (changed.IsZero() || changed.Equal(k.changed)) {
		return k.have, nil
	}
	client, err := kube.Dial(k.cluster.Kubeconfig, k.cluster.Context, 0)
	if err != nil {
		k.log.Error("cluster cannot be read", "component", "kube", "event", "kubeconfig_unusable", "cluster", k.cluster.Name, "error", err)
		return Connection{}, err
	}
	if k.have.Client != nil {
		k.have.Client.Close()
	}
	k.have, k.changed = Connection{Client: client, Asker: client, Why: errUnusable}, changed
	if cred, err := CredentialOf(k.cluster); err == nil {
		if up, err := guardkube.Dial(cred.Kubeconfig, cred.Env); err == nil {
			// As whom a guard would be: a credential plugin may tell another identity to
			// another environment.
			k.have.Credential, k.have.Asker = cred, kube.Through(up.Base, up.Transport, 0)
		}
	}
	return k.have, nil
}

var errUnusable = errors.New("its kubeconfig is none that a guard can use")

// Secrets implements Reach.
func (k *byKubeconfig) Secrets() ([]string, bool) {
	if k.cluster.Kubeconfig == "" {
		return nil, false
	}
	cred, err := CredentialOf(k.cluster)
	if err != nil {
		return nil, false
	}
	return cred.Secrets(), true
}

// ChangedAt implements Reach.
func (k *byKubeconfig) ChangedAt() time.Time {
	info, err := os.Stat(k.cluster.Kubeconfig)
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

// Now implements Reach.
func (k *byKubeconfig) Now() time.Time { return k.now() }

// CredentialOf is what a guard of the cluster holds, and is bound to.
func CredentialOf(c config.Cluster) (*backend.Credential, error) {
	cred, err := ReadCredential(c.Kubeconfig, c.Context, os.Environ())
	if err != nil {
		return nil, err
	}
	cred.Namespaces = c.Namespaces
	return cred, nil
}
