package preflight_test

import (
	"context"
	"slices"
	"testing"
	"time"

	authz "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"nightcrier.dev/nightcrier/internal/cluster/kube"
	"nightcrier.dev/nightcrier/internal/cluster/preflight"
	"nightcrier.dev/nightcrier/internal/test/kubetest"
)

func dial(t *testing.T, kubeconfig string) *kube.Client {
	t.Helper()
	c, err := kube.Dial(kubeconfig, "", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func rule(group, resource string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: verbs, APIGroups: []string{group}, Resources: []string{resource}}
}

// TestCredentialsOfARealServer asks a real API server what real credentials may
// do, once as it is and once as if it could not list its rules: single questions
// come to the same consequences.
func TestCredentialsOfARealServer(t *testing.T) {
	s := kubetest.Start(t)
	ns := s.Namespace(t)
	cases := map[string]struct {
		kubeconfig string
		list       preflight.Answer
		write      preflight.Answer
		risks      []string
	}{
		"reader":          {s.ReadOnly(t), preflight.Yes, preflight.No, nil},
		"getter":          {s.CannotList(t), preflight.No, preflight.No, nil},
		"patches":         {s.AccessFor(t, rule("apps", "deployments", "get", "patch")), preflight.No, preflight.Yes, []string{"workloads"}},
		"execs":           {s.AccessFor(t, rule("", "pods/exec", "create")), preflight.No, preflight.Yes, []string{"exec"}},
		"execs by get":    {s.AccessFor(t, rule("", "pods/exec", "get")), preflight.No, preflight.Yes, []string{"exec"}},
		"reads secrets":   {s.AccessFor(t, rule("", "secrets", "get")), preflight.No, preflight.No, []string{"secrets"}},
		"impersonates":    {s.AccessFor(t, rule("", "users", "impersonate")), preflight.No, preflight.Yes, []string{"impersonate"}},
		"escalates":       {s.AccessFor(t, rule("rbac.authorization.k8s.io", "clusterroles", "escalate")), preflight.No, preflight.Yes, []string{"rbac"}},
		"makes tokens":    {s.AccessFor(t, rule("", "serviceaccounts/token", "create")), preflight.No, preflight.Yes, []string{"tokens"}},
		"reads by star":   {s.AccessFor(t, rule("*", "*", "get", "list", "watch")), preflight.Yes, preflight.Yes, []string{"nodes", "exec", "proxy", "secrets"}},
		"administrator":   {s.Kubeconfig, preflight.Yes, preflight.Yes, []string{"everything"}},
		"approves a cert": {s.AccessFor(t, rule("certificates.k8s.io", "certificatesigningrequests/approval", "update")), preflight.No, preflight.Yes, []string{"certificates"}},
	}
	for name, c := range cases {
		for how, ask := range map[string]preflight.Asker{"listed": dial(t, c.kubeconfig), "asked": forgetful{dial(t, c.kubeconfig)}} {
			t.Run(name+", "+how, func(t *testing.T) {
				t.Parallel()
				r, err := preflight.Check(t.Context(), ask, "real", ns, time.Now())
				if err != nil {
					t.Fatal(err)
				}
				want := c.write
				if how == "asked" && want == preflight.No {
					want = preflight.Unknown
				}
				var risks []string
				for _, k := range r.Risks {
					risks = append(risks, k.ID)
				}
				if r.Can["list pods"] != c.list || r.CanWrite != want || !r.Probed || !slices.Equal(risks, c.risks) {
					t.Errorf("list pods %s, write %s, probed %v, risks %v, ways %q, unknown %q", r.Can["list pods"], r.CanWrite, r.Probed, risks, r.Writes, r.Unknown)
				}
			})
		}
	}
}

// forgetful is a cluster whose authorizers list nothing, as webhooks do.
type forgetful struct{ *kube.Client }

func (forgetful) Rules(context.Context, string) (authz.SubjectRulesReviewStatus, error) {
	return authz.SubjectRulesReviewStatus{Incomplete: true, EvaluationError: "webhook authorizer does not support user rule resolution"}, nil
}

// TestRightsOfOneNamespace: what a RoleBinding grants holds in its namespace.
func TestRightsOfOneNamespace(t *testing.T) {
	s := kubetest.Start(t)
	here, there := s.Namespace(t), s.Namespace(t)
	c := dial(t, s.AccessIn(t, here, rule("", "pods", "list", "delete")))
	for ns, want := range map[string]preflight.Answer{here: preflight.Yes, there: preflight.No} {
		r, err := preflight.Check(t.Context(), c, "real", ns, time.Now())
		if err != nil || r.CanWrite != want || r.Can["list pods"] != want {
			t.Errorf("%v: in %s write %s, list %s", err, ns, r.CanWrite, r.Can["list pods"])
		}
	}
}
