package intake

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"nightcrier.dev/nightcrier"
)

const (
	// ownerTimeout is how long an event waits for the cluster to say its owner.
	ownerTimeout = 2 * time.Second
	// ownerTTL is how long an answer holds; ownerPause is how long a cluster that
	// did not answer is not asked again, so that a storm is not held up.
	ownerTTL   = 10 * time.Minute
	ownerPause = 30 * time.Second
	// ownersKept bounds the answers that are remembered.
	ownersKept = 4096
)

// owners finds the workload behind a resource: from the cluster where it
// answers in time, else from the name.
type owners struct {
	resolver OwnerResolver
	log      *slog.Logger
	now      func() time.Time

	mu     sync.Mutex
	known  map[ownerKey]ownerAnswer
	paused map[string]time.Time // cluster → until
}

type ownerKey struct {
	cluster  string
	resource nightcrier.Resource
}

type ownerAnswer struct {
	owner nightcrier.Resource
	until time.Time
}

func newOwners(r OwnerResolver, log *slog.Logger, now func() time.Time) *owners {
	return &owners{resolver: r, log: log, now: now, known: map[ownerKey]ownerAnswer{}, paused: map[string]time.Time{}}
}

func (o *owners) resolveOwner(ctx context.Context, cluster string, res nightcrier.Resource) nightcrier.Resource {
	if o.resolver == nil {
		return OwnerByName(res)
	}
	key := ownerKey{cluster, res}
	if owner, ok := o.recallOwner(key); ok {
		return owner
	}
	ctx, cancel := context.WithTimeout(ctx, ownerTimeout)
	defer cancel()
	owner, err := o.resolver.Owner(ctx, cluster, res)
	if owner.Kind == "" || owner.Name == "" {
		owner = res
	}
	if err != nil {
		o.pauseCluster(ctx, cluster, res, err)
		return OwnerByName(owner) // from where the walk ended
	}
	o.rememberOwner(key, owner)
	return owner
}

// recallOwner answers without asking: what is known, or that the cluster is not to be
// asked now.
func (o *owners) recallOwner(key ownerKey) (nightcrier.Resource, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := o.now()
	if a, ok := o.known[key]; ok && now.Before(a.until) {
		return a.owner, true
	}
	if now.Before(o.paused[key.cluster]) {
		return OwnerByName(key.resource), true
	}
	return nightcrier.Resource{}, false
}

func (o *owners) rememberOwner(key ownerKey, owner nightcrier.Resource) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.known) >= ownersKept {
		clear(o.known)
	}
	o.known[key] = ownerAnswer{owner: owner, until: o.now().Add(ownerTTL)}
	delete(o.paused, key.cluster)
}

// pauseCluster leaves a cluster alone for a while after it failed. That an object is
// gone, or that there is no credential, says nothing about the next one.
func (o *owners) pauseCluster(ctx context.Context, cluster string, res nightcrier.Resource, err error) {
	code := nightcrier.CodeOf(err)
	if err == nil || code == nightcrier.NotFound || code == nightcrier.Refused {
		return
	}
	o.log.LogAttrs(ctx, slog.LevelWarn, "the owner of a resource could not be asked for; its name must do",
		slog.String("cluster", cluster), slog.String("resource", res.String()), slog.Any("error", err))
	o.mu.Lock()
	defer o.mu.Unlock()
	o.paused[cluster] = o.now().Add(ownerPause)
}
