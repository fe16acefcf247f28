package preflight

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/text"
)

// Timings of the gate. Rights change when people deploy, so an investigation
// does not rely on an answer of long ago, and the list that people look at need
// not be newer than half an hour.
const (
	fresh        = 5 * time.Minute
	every        = 30 * time.Minute
	checkTimeout = 30 * time.Second
	// stale is how old an answer may be that is relied on while the cluster gives
	// no other.
	stale = 2 * every
	// clustersAtOnce is how many clusters are asked at the same time.
	clustersAtOnce = 8
)

// Config is what a Gate works with.
type Config struct {
	// Clusters are those that are asked in the background.
	Clusters []string
	// Ask returns how a cluster is asked, nil where it has no credential.
	Ask func(cluster string) (Asker, error)
	// Namespaces are those of a cluster that are looked at, none for all; it may be
	// nil.
	Namespaces func(cluster string) []string
	// Allowed reports whether a cluster's credential may be able to write.
	Allowed func(cluster string) bool
	// Enforce refuses agents a credential that can write; without it the gate
	// only warns.
	Enforce bool
	Logger  *slog.Logger
	Now     func() time.Time
}

// Gate remembers what credentials may do, and decides which of them agents look
// into a cluster with. It is safe for concurrent use; clusters do not wait for
// one another.
type Gate struct {
	cfg  Config
	stop context.CancelFunc
	done chan struct{}

	mu    sync.Mutex
	known map[string]*standing
}

// standing is what is known of one cluster's credential.
type standing struct {
	asking  sync.Mutex        // one question at a time
	results map[string]Result // by namespace
	err     error             // of the newest attempt
	at      time.Time
	age     int    // how often it was forgotten
	told    string // what was last logged; guarded by asking
}

// NewGate returns a gate that has asked nothing yet.
func NewGate(cfg Config) *Gate {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Namespaces == nil {
		cfg.Namespaces = func(string) []string { return nil }
	}
	return &Gate{cfg: cfg, known: map[string]*standing{}}
}

// usual are the namespaces that are looked at without an incident: what holds in
// all namespaces shows in any, and a right in kube-system weighs most.
var usual = []string{"default", "kube-system"}

// askedNamespaces are the namespaces that are asked about without an incident: the usual
// ones also where only others are looked at, because the credential is one.
func (g *Gate) askedNamespaces(cluster string) []string {
	return append(slices.Clone(g.cfg.Namespaces(cluster)), usual...)
}

// Start asks all clusters in the background, now and from time to time, until
// Stop. It does not wait for an answer.
func (g *Gate) Start() {
	ctx, cancel := context.WithCancel(context.Background())
	g.stop, g.done = cancel, make(chan struct{})
	go func() {
		defer close(g.done)
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			g.Refresh(ctx)
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	}()
}

// Stop ends what Start began.
func (g *Gate) Stop(ctx context.Context) error {
	if g.stop == nil {
		return nil
	}
	g.stop()
	select {
	case <-g.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Refresh asks every cluster that has a credential, a few at a time. A cluster
// that does not answer is noted, and delays no other for longer than its timeout.
func (g *Gate) Refresh(ctx context.Context) {
	places := make(chan struct{}, clustersAtOnce)
	var wg sync.WaitGroup
	for _, cluster := range g.cfg.Clusters {
		wg.Go(func() {
			select {
			case places <- struct{}{}:
				defer func() { <-places }()
			case <-ctx.Done():
				return
			}
			for _, ns := range g.askedNamespaces(cluster) {
				if _, err := g.checkNamespace(ctx, cluster, ns, 0); err != nil {
					return
				}
			}
		})
	}
	wg.Wait()
}

// Result returns what the credential may do in namespace ns, asked at most five
// minutes ago, or at most an hour while the cluster does not answer. It is a Refused error when the cluster has no credential.
func (g *Gate) Result(ctx context.Context, cluster, ns string) (Result, error) {
	return g.checkNamespace(ctx, cluster, ns, fresh)
}

// Permissions is Result in the form of incident_cluster_permissions.json, with
// whether agents get access.
func (g *Gate) Permissions(ctx context.Context, cluster, ns string) (map[string]any, error) {
	r, err := g.Result(ctx, cluster, ns)
	if err != nil {
		return nil, err
	}
	p := r.Permissions()
	ok, reason := g.decideAccess(cluster)
	p["agentAccess"] = ok
	setNonEmpty(p, "agentAccessReason", reason)
	return p, nil
}

// checkNamespace asks unless an answer is at hand that is not older than age.
func (g *Gate) checkNamespace(ctx context.Context, cluster, ns string, age time.Duration) (Result, error) {
	if ns == "" {
		ns = g.askedNamespaces(cluster)[0]
	}
	s := g.standingOf(cluster)
	s.asking.Lock()
	defer s.asking.Unlock()
	ask, err := g.cfg.Ask(cluster) // first of all: it may find a new credential, and Forget
	now := g.cfg.Now()
	was, born := g.rememberedResult(s, ns)
	if err == nil && now.Sub(was.At) < age {
		return was, nil
	}
	var r Result
	if err == nil {
		r, err = runCheck(ctx, ask, cluster, ns, now)
	}
	if ctx.Err() != nil {
		return r, ctx.Err() // the caller left, which says nothing about the cluster
	}
	if nightcrier.CodeOf(err) == nightcrier.Unreachable && now.Sub(was.At) < stale {
		return was, nil // an API server in trouble is what incidents are about
	}
	g.rememberResult(s, ns, born, r, err)
	g.logChange(cluster, s)
	return r, err
}

func runCheck(ctx context.Context, ask Asker, cluster, ns string, now time.Time) (Result, error) {
	if ask == nil {
		return Result{}, nightcrier.Errorf(nightcrier.Refused, "cluster %s: %w: set clusters[].kubeconfig", cluster, errNone)
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	return Check(ctx, ask, cluster, ns, now)
}

func (g *Gate) standingOf(cluster string) *standing {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.known[cluster]
	if s == nil {
		s = &standing{results: map[string]Result{}}
		g.known[cluster] = s
	}
	return s
}

// Forget drops what is known of a cluster: its credential is another one now.
func (g *Gate) Forget(cluster string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if s := g.known[cluster]; s != nil {
		clear(s.results)
		s.at, s.err = time.Time{}, nil
		s.age++
	}
}

func (g *Gate) rememberedResult(s *standing, ns string) (r Result, born int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return s.results[ns], s.age
}

// rememberResult keeps an answer, unless what it is about was forgotten meanwhile, and
// drops those that nobody would rely on.
func (g *Gate) rememberResult(s *standing, ns string, born int, r Result, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if born != s.age {
		return
	}
	now := g.cfg.Now()
	s.err, s.at = err, now
	if err != nil {
		delete(s.results, ns)
		return
	}
	for old, was := range s.results {
		if now.Sub(was.At) >= stale {
			delete(s.results, old)
		}
	}
	s.results[ns] = r
}

// AgentAccess tells whether agents may look into the cluster for an incident in
// namespace ns, asking first when nothing is known. The reason says why not and
// what to do, or what a person should know although they may.
func (g *Gate) AgentAccess(ctx context.Context, cluster, ns string) (ok bool, reason string) {
	if _, err := g.Result(ctx, cluster, ns); err != nil && ctx.Err() != nil {
		return false, "interrupted before the cluster could be asked what the credential may do"
	}
	return g.decideAccess(cluster)
}

// decideAccess weighs everything that is known of a cluster's credential.
func (g *Gate) decideAccess(cluster string) (ok bool, reason string) {
	worst, err := g.worstResult(cluster)
	switch {
	case errors.Is(err, errNone):
		return false, err.Error()
	case err != nil:
		return !g.cfg.Enforce, "what its credential may do could not be asked: " + text.CutLine(err.Error(), maxWhy)
	case worst.CanWrite == No:
		return true, ""
	case worst.CanWrite == Unknown && worst.Probed:
		return true, worst.WorstCase()
	}
	reason = "its credential is not read-only (namespace " + worst.Namespace + "): " + worst.WorstCase()
	switch {
	case !g.cfg.Enforce:
		return true, reason
	case g.cfg.Allowed(cluster):
		return true, reason + "; allowed by allow_write_credential"
	}
	return false, reason + ". " + Remedy
}

// Remedy is what to do about a credential that can write.
const Remedy = "Make a read-only one with `nightcrier rbac manifest` and `nightcrier rbac kubeconfig`, or set allow_write_credential: true for this cluster"

// gravityOf orders results: the gravest weighs for the cluster.
func gravityOf(r Result) int {
	switch {
	case r.CanWrite == Yes:
		return 3
	case r.CanWrite == Unknown && !r.Probed:
		return 2
	case r.CanWrite == Unknown:
		return 1
	}
	return 0
}

// worstResult returns the gravest of a cluster's answers, or why the newest attempt
// brought none.
func (g *Gate) worstResult(cluster string) (Result, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.known[cluster]
	switch {
	case s == nil || s.at.IsZero():
		return Result{}, errNotAsked
	case s.err != nil:
		return Result{}, s.err
	}
	answers := slices.Collect(maps.Values(s.results))
	return slices.MaxFunc(answers, func(a, b Result) int { // of equals the first by name, so that it stays the same
		return cmp.Or(gravityOf(a)-gravityOf(b), strings.Compare(b.Namespace, a.Namespace))
	}), nil
}

// Access tells what is known of a cluster's credential, without asking.
func (g *Gate) Access(cluster string) nightcrier.Access {
	worst, err := g.worstResult(cluster)
	a := nightcrier.Access{ReadOnly: string(worst.ReadOnly()), CheckedAt: worst.At}
	a.Agents, a.Detail = g.decideAccess(cluster)
	switch {
	case errors.Is(err, errNone):
		a.ReadOnly = "none"
	case errors.Is(err, errNotAsked):
		a.Detail = err.Error()
	}
	return a
}

// logChange logs what a person should know about a credential, once until it changes.
func (g *Gate) logChange(cluster string, s *standing) {
	ok, reason := g.decideAccess(cluster)
	if reason == s.told {
		return
	}
	s.told = reason
	log := g.cfg.Logger.With("component", "preflight", "cluster", cluster)
	_, err := g.worstResult(cluster)
	switch {
	case errors.Is(err, errNone):
	case reason == "":
		log.Info("credential is read-only", "event", "credential_read_only")
	case ok:
		log.Warn("credential may be able to write", "event", "credential_not_read_only", "reason", reason)
	default:
		log.Warn("agents get no access to this cluster", "event", "agent_access_refused", "reason", reason)
	}
}

var (
	errNone     = errors.New("no credential is configured")
	errNotAsked = errors.New("not asked yet")
)
