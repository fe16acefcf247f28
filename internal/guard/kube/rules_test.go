package kube_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"nightcrier.dev/nightcrier/internal/cluster/kube"
	"nightcrier.dev/nightcrier/internal/cluster/preflight"
	guardkube "nightcrier.dev/nightcrier/internal/guard/kube"
	"nightcrier.dev/nightcrier/internal/test/kubetest"
)

// Whoever judges a credential by what it may do finds that a guard's only reads, also
// where the guard's own is the administrator's.
func TestAGuardIsKnownToBeReadOnly(t *testing.T) {
	s := kubetest.Start(t)
	ns := s.Namespace(t)
	for name, c := range map[string]struct {
		namespaces []string
		lists      preflight.Answer // pods of ns
	}{
		"all namespaces": {nil, preflight.Yes},
		"this one":       {[]string{ns}, preflight.Yes},
		"another one":    {[]string{"elsewhere"}, preflight.No},
	} {
		t.Run(name, func(t *testing.T) {
			g := serve(t, administrator(t, s), func(cfg *guardkube.Config) { cfg.Namespaces = c.namespaces })
			client, err := kube.Dial(g.kubeconfig, "", time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			r, err := preflight.Check(t.Context(), client, "prod", ns, time.Now())
			if err != nil || r.CanWrite != preflight.No || len(r.Risks) > 0 || len(r.Unknown) > 0 {
				t.Errorf("can write %s by %v, risks %v, unknown %v, %v", r.CanWrite, r.Writes, r.Risks, r.Unknown, err)
			}
			if r.Can["list pods"] != c.lists || r.Can["get pods/log"] != c.lists || r.Can["list nodes"] != preflight.Yes {
				t.Errorf("can %v", r.Can)
			}
			rules, err := client.Rules(t.Context(), ns)
			if err != nil {
				t.Fatal(err)
			}
			for _, rule := range rules.ResourceRules {
				for _, res := range rule.Resources {
					_, sub, _ := strings.Cut(res, "/")
					if strings.Contains(res, "*") || res == "secrets" || !slices.Contains([]string{"", "log", "status", "scale"}, sub) {
						t.Errorf("a rule names %v of %v", rule.Verbs, res)
					}
				}
			}
		})
	}
}
