package preflight

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	authz "k8s.io/api/authorization/v1"

	"nightcrier.dev/nightcrier"
)

// world is clusters behind a gate.
type world struct {
	clusters map[string]Asker
	allowed  string
	lenient  bool
	now      time.Time
	log      bytes.Buffer
}

func (w *world) gate() *Gate {
	cfg := Config{
		Ask:     func(name string) (Asker, error) { return w.clusters[name], nil },
		Allowed: func(name string) bool { return name == w.allowed },
		Enforce: !w.lenient, Now: func() time.Time { return w.now }, Logger: slog.New(slog.NewTextHandler(&w.log, nil)),
	}
	for name := range w.clusters {
		cfg.Clusters = append(cfg.Clusters, name)
	}
	return NewGate(cfg)
}

func silent() *cluster {
	down := nightcrier.Errorf(nightcrier.Unreachable, "cluster at 127.0.0.1:1 cannot be reached")
	return &cluster{rulesErr: down, may: func(authz.ResourceAttributes) (authz.SubjectAccessReviewStatus, error) {
		return authz.SubjectAccessReviewStatus{}, down
	}}
}

func TestWhoGetsAccess(t *testing.T) {
	writer := func() *cluster { return &cluster{rules: []authz.ResourceRule{grant("patch", "apps", "deployments")}} }
	tests := map[string]struct {
		ask      Asker
		allowed  bool
		lenient  bool // a one-shot command
		ok       bool
		reason   string // part of it; "" means none at all
		readOnly string
	}{
		"a reader":                     {&cluster{rules: []authz.ResourceRule{reader}}, false, false, true, "", "yes"},
		"a writer":                     {writer(), false, false, false, "nightcrier rbac kubeconfig", "no"},
		"a writer allowed by name":     {writer(), true, false, true, "start, change and delete workloads; allowed by", "no"},
		"a writer, one shot":           {writer(), false, true, true, "not read-only", "no"},
		"not all rules, no write seen": {&cluster{incomplete: "webhook"}, false, false, true, "could not list every rule", "unknown"},
		"no answers":                   {silent(), false, false, false, "cannot be reached", "unknown"},
		"no answers, allowed":          {silent(), true, false, false, "cannot be reached", "unknown"},
		"no answers, one shot":         {silent(), false, true, true, "cannot be reached", "unknown"},
		"no credential":                {nil, false, false, false, "no credential is configured", "none"},
		"no credential, one shot":      {nil, true, true, false, "no credential is configured", "none"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := &world{clusters: map[string]Asker{"prod": tt.ask}, lenient: tt.lenient, now: time.Unix(1e9, 0)}
			if tt.allowed {
				w.allowed = "prod"
			}
			g := w.gate()
			if a := g.Access("prod"); a.Agents && a.Detail == "" || a.ReadOnly != "unknown" {
				t.Errorf("before anybody asked: %+v", a)
			}
			ok, reason := g.AgentAccess(t.Context(), "prod", "shop")
			if ok != tt.ok || !strings.Contains(reason, tt.reason) || tt.reason == "" && reason != "" {
				t.Errorf("%v %q", ok, reason)
			}
			a := g.Access("prod")
			if a.ReadOnly != tt.readOnly || a.Agents != tt.ok || a.Detail != reason {
				t.Errorf("%+v", a)
			}
			if reason != "" && tt.ask != nil && !strings.Contains(w.log.String(), "cluster=prod") {
				t.Errorf("nobody was told: %s", &w.log)
			}
		})
	}
}

// TestAWriteElsewhereCounts: the credential is one, whatever the namespace.
func TestAWriteElsewhereCounts(t *testing.T) {
	w := &world{now: time.Unix(1e9, 0), clusters: map[string]Asker{"prod": byNamespace{"kube-system": {rules: []authz.ResourceRule{grant("delete", "", "pods")}}, "default": {}, "shop": {}}}}
	g := w.gate()
	if ok, _ := g.AgentAccess(t.Context(), "prod", "shop"); !ok {
		t.Error("a reader in what is known so far was refused")
	}
	g.Refresh(t.Context())
	if ok, reason := g.AgentAccess(t.Context(), "prod", "shop"); ok || !strings.Contains(reason, "kube-system") {
		t.Errorf("%v %q", ok, reason)
	}
	p, err := g.Permissions(t.Context(), "prod", "shop")
	if err != nil || p["canWrite"] != "no" || p["agentAccess"] != false || p["agentAccessReason"] == nil {
		t.Errorf("%v %v", err, p)
	}
}

// TestNamespacesOfACluster: those that are looked at are asked about, besides the
// usual ones, and what has none counts as in the first.
func TestNamespacesOfACluster(t *testing.T) {
	all := byNamespace{"kube-system": {}, "default": {}, "shop": {}, "bank": {rules: []authz.ResourceRule{grant("delete", "", "pods")}}}
	w := &world{now: time.Unix(1e9, 0), clusters: map[string]Asker{"prod": all}}
	g := w.gate()
	g.cfg.Namespaces = func(string) []string { return []string{"shop", "bank"} }
	if r, err := g.Result(t.Context(), "prod", ""); err != nil || r.Namespace != "shop" {
		t.Errorf("%v %+v", err, r)
	}
	g.Refresh(t.Context())
	for ns, c := range all {
		if c.listed.Load() == 0 {
			t.Errorf("%s is not asked about", ns)
		}
	}
	if ok, reason := g.AgentAccess(t.Context(), "prod", "shop"); ok || !strings.Contains(reason, "namespace bank") {
		t.Errorf("%v %q", ok, reason)
	}
}

// byNamespace answers differently in each namespace.
type byNamespace map[string]*cluster

func (b byNamespace) Rules(ctx context.Context, ns string) (authz.SubjectRulesReviewStatus, error) {
	return b[ns].Rules(ctx, ns)
}

func (b byNamespace) May(ctx context.Context, what authz.ResourceAttributes) (authz.SubjectAccessReviewStatus, error) {
	return b[what.Namespace].May(ctx, what)
}

func TestAnswersAge(t *testing.T) {
	c := &cluster{rules: []authz.ResourceRule{reader}}
	w := &world{clusters: map[string]Asker{"prod": c}, now: time.Unix(1e9, 0)}
	g := w.gate()
	ask := func(want int32) {
		t.Helper()
		if _, err := g.Result(t.Context(), "prod", "shop"); err != nil || c.listed.Load() != want {
			t.Errorf("%v: asked %d times, want %d", err, c.listed.Load(), want)
		}
	}
	ask(1)
	w.now = w.now.Add(fresh - time.Second)
	ask(1)
	w.now = w.now.Add(time.Second)
	c.rules = append(c.rules, grant("*", "*", "*"))
	ask(2)
	if ok, reason := g.AgentAccess(t.Context(), "prod", "shop"); ok || !strings.Contains(reason, "everything") {
		t.Errorf("%v %q", ok, reason)
	}
	c.rules = c.rules[:1] // taken back
	w.now = w.now.Add(fresh)
	if ok, reason := g.AgentAccess(t.Context(), "prod", "shop"); !ok || reason != "" {
		t.Errorf("%v %q", ok, reason)
	}
	if n := strings.Count(w.log.String(), "\n"); n != 2 {
		t.Errorf("%d lines in the log, want one for each change from silence on:\n%s", n, &w.log)
	}
	w.now = w.now.Add(2*every + time.Second)
	if _, err := g.Result(t.Context(), "prod", "other"); err != nil || len(g.known["prod"].results) != 1 {
		t.Errorf("%v: %d answers are kept", err, len(g.known["prod"].results))
	}
}

// TestAnAPIServerInTrouble: an answer of before the trouble is relied on for an
// hour, and only where it was given.
func TestAnAPIServerInTrouble(t *testing.T) {
	w := &world{clusters: map[string]Asker{"prod": &cluster{rules: []authz.ResourceRule{reader}}}, now: time.Unix(1e9, 0)}
	g := w.gate()
	if ok, reason := g.AgentAccess(t.Context(), "prod", "shop"); !ok {
		t.Fatal(reason)
	}
	w.clusters["prod"] = silent()
	w.now = w.now.Add(stale - time.Second)
	if ok, reason := g.AgentAccess(t.Context(), "prod", "shop"); !ok || reason != "" {
		t.Errorf("%v %q", ok, reason)
	}
	if ok, reason := g.AgentAccess(t.Context(), "prod", "other"); ok || !strings.Contains(reason, "cannot be reached") {
		t.Errorf("where nothing was ever answered: %v %q", ok, reason)
	}
	w.now = w.now.Add(time.Second)
	if ok, reason := g.AgentAccess(t.Context(), "prod", "shop"); ok || !strings.Contains(reason, "cannot be reached") {
		t.Errorf("after an hour: %v %q", ok, reason)
	}
	w.clusters["prod"] = &cluster{rules: []authz.ResourceRule{reader}}
	if ok, reason := g.AgentAccess(t.Context(), "prod", "shop"); !ok || reason != "" {
		t.Errorf("afterwards: %v %q", ok, reason)
	}
}

// TestOneAnswerForManyWhoAsk: an incident storm asks a cluster once.
func TestOneAnswerForManyWhoAsk(t *testing.T) {
	c := &cluster{rules: []authz.ResourceRule{reader}}
	g := (&world{clusters: map[string]Asker{"prod": c}, now: time.Unix(1e9, 0)}).gate()
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() { g.AgentAccess(t.Context(), "prod", "shop") })
	}
	wg.Wait()
	if c.listed.Load() != 1 {
		t.Errorf("asked %d times", c.listed.Load())
	}
}

// stuck never answers.
type stuck struct{ *cluster }

func (stuck) Rules(ctx context.Context, _ string) (authz.SubjectRulesReviewStatus, error) {
	<-ctx.Done()
	return authz.SubjectRulesReviewStatus{}, ctx.Err()
}

// TestOneClusterHoldsUpNoOther: asking begins at once, a cluster that never
// answers delays nobody, and the round is repeated.
func TestOneClusterHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		good := &cluster{rules: []authz.ResourceRule{reader}}
		w := &world{clusters: map[string]Asker{"good": good, "stuck": stuck{silent()}, "none": nil}}
		g := w.gate()
		g.cfg.Now = time.Now
		g.Start()
		synctest.Wait()
		if a := g.Access("good"); a.ReadOnly != "yes" || !a.Agents {
			t.Errorf("%+v", a)
		}
		time.Sleep(2 * every) // on the bubble's clock
		synctest.Wait()
		if a := g.Access("stuck"); a.ReadOnly != "unknown" || a.Agents {
			t.Errorf("%+v", a)
		}
		if n := good.listed.Load(); n < 4 {
			t.Errorf("asked %d times in an hour", n)
		}
		if err := g.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestLeavingSaysNothingAboutTheCluster: who stops waiting leaves no mark.
func TestLeavingSaysNothingAboutTheCluster(t *testing.T) {
	g := (&world{clusters: map[string]Asker{"prod": stuck{silent()}}, now: time.Unix(1e9, 0)}).gate()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if ok, reason := g.AgentAccess(ctx, "prod", "shop"); ok || !strings.Contains(reason, "interrupted") {
		t.Errorf("%v %q", ok, reason)
	}
	if a := g.Access("prod"); a.Detail != errNotAsked.Error() {
		t.Errorf("%+v", a)
	}
}

func TestStopWithoutStart(t *testing.T) {
	if err := (&world{}).gate().Stop(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestANewCredentialIsAskedAnew: what was known of the old one, and an answer
// about it that is still on its way, count for nothing.
func TestANewCredentialIsAskedAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{rules: []authz.ResourceRule{reader}}
		w := &world{clusters: map[string]Asker{"prod": c}, now: time.Unix(1e9, 0)}
		g := w.gate()
		if ok, _ := g.AgentAccess(t.Context(), "prod", "shop"); !ok {
			t.Fatal("a reader was refused")
		}
		slow := slowly{c, make(chan struct{})}
		w.clusters["prod"] = slow
		w.now = w.now.Add(fresh)
		go g.AgentAccess(t.Context(), "prod", "shop")
		synctest.Wait() // the old credential is being asked about
		g.Forget("prod")
		if a := g.Access("prod"); a.Detail != errNotAsked.Error() {
			t.Errorf("%+v", a)
		}
		w.clusters["prod"] = &cluster{rules: []authz.ResourceRule{grant("*", "*", "*")}}
		close(slow.release)
		if ok, reason := g.AgentAccess(t.Context(), "prod", "shop"); ok {
			t.Errorf("the new credential got access: %q", reason)
		}
	})
}

// slowly answers when it is let.
type slowly struct {
	*cluster
	release chan struct{}
}

func (s slowly) Rules(ctx context.Context, ns string) (authz.SubjectRulesReviewStatus, error) {
	<-s.release
	return s.cluster.Rules(ctx, ns)
}
