package deploy

import (
	"context"
	"fmt"
	"slices"
	"strings"

	authz "k8s.io/api/authorization/v1"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/cluster/kube"
	"nightcrier.dev/nightcrier/internal/cluster/preflight"
)

// tooMuch are the consequences that no credential of this server may have.
var tooMuch = []string{"everything", "impersonate", "rbac", "certificates", "tokens", "nodes", "exec", "proxy", "admission", "storage", "secrets"}

// checkCredential refuses a credential that could do more than the tools offer: a hole in them
// would then be one in the cluster. What the cluster does not answer counts as more.
func checkCredential(ctx context.Context, cfg Config) error {
	var excess []string
	for _, ns := range cfg.Policy.Namespaces {
		found, err := preflight.Check(ctx, cfg.Client, cfg.Cluster, ns, cfg.Now())
		if err != nil {
			return fmt.Errorf("what the credential may do in %s cannot be found out: %w", ns, err)
		}
		for _, r := range found.Risks {
			if slices.Contains(tooMuch, r.ID) {
				excess = append(excess, describeExcess(r.Answer, "can "+r.What))
			}
		}
	}
	questions := []authz.ResourceAttributes{
		{Verb: "patch", Group: "apps", Resource: "deployments"}, {Verb: "create", Resource: "configmaps"}, {Verb: "patch", Resource: "namespaces"},
	}
	for _, ns := range cfg.Policy.Namespaces {
		questions = append(questions, authz.ResourceAttributes{Verb: "create", Resource: "secrets", Namespace: ns}, authz.ResourceAttributes{Verb: "create", Resource: "pods", Namespace: ns})
	}
	for _, q := range questions {
		if may := askCredential(ctx, cfg.Client, q); may != preflight.No {
			where := "in every namespace"
			if q.Namespace != "" {
				where = "in " + q.Namespace
			}
			excess = append(excess, describeExcess(may, fmt.Sprintf("may %s %s %s", q.Verb, q.Resource, where)))
		}
	}
	slices.Sort(excess)
	if excess = slices.Compact(excess); len(excess) == 0 {
		return nil
	}
	return nightcrier.Errorf(nightcrier.Refused, "this credential is not for a server that writes: it %s. Make one with the Role in docs/deploy.md, for %s alone, and name its kubeconfig with --kubeconfig",
		strings.Join(excess, "; it "), strings.Join(cfg.Policy.Namespaces, ", "))
}

func describeExcess(a preflight.Answer, what string) string {
	if a == preflight.Unknown {
		return "possibly " + what + ", which the cluster does not answer"
	}
	return what
}

func askCredential(ctx context.Context, c *kube.Client, q authz.ResourceAttributes) preflight.Answer {
	switch status, err := c.May(ctx, q); {
	case err != nil:
		return preflight.Unknown
	case status.Allowed:
		return preflight.Yes
	}
	return preflight.No
}
