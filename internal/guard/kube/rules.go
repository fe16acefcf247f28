package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	discovery "k8s.io/api/apidiscovery/v2"
	authz "k8s.io/api/authorization/v1"
)

// rulesReview lists what policy lets pass, resource by resource: a rule for "*" would
// name exec, proxy and the data of Secrets too, and whoever judges a credential by its
// rules would take the guard's for one that can do all that. The cluster's own rules
// come on top, so some of it may be refused.
func (g *Guard) rulesReview(ctx context.Context, r *authz.SelfSubjectRulesReview) {
	r.Status = authz.SubjectRulesReviewStatus{
		ResourceRules: []authz.ResourceRule{},
		NonResourceRules: []authz.NonResourceRule{{Verbs: []string{verbGet}, NonResourceURLs: []string{
			"/api", "/apis", "/apis/*", "/openapi/v2", "/openapi/v3", "/openapi/v3/*", "/version", "/healthz", "/livez", "/readyz",
		}}},
		EvaluationError: "of Secrets the guard shows the metadata alone, so no rule names them; the cluster's own rules come on top",
	}
	for _, root := range []string{"/api", "/apis"} {
		groups, err := g.listGroups(ctx, root)
		if err != nil {
			r.Status.Incomplete = true
			r.Status.EvaluationError += "; " + err.Error()
			continue
		}
		for _, group := range groups {
			r.Status.ResourceRules = append(r.Status.ResourceRules, g.rulesForGroup(r.Spec.Namespace, group)...)
		}
	}
}

// listGroups asks the cluster which resources it has, as any caller would.
func (g *Guard) listGroups(ctx context.Context, root string) ([]discovery.APIGroupDiscovery, error) {
	a := g.answerRequest(ctx, inbound{method: http.MethodGet, target: root, accept: mediaGroups, body: http.NoBody})
	var list discovery.APIGroupDiscoveryList
	if err := json.Unmarshal(a.body, &list); err != nil || a.status != http.StatusOK || list.Kind != "APIGroupDiscoveryList" {
		return nil, fmt.Errorf("the cluster does not list the resources of %s at once", root)
	}
	return list.Items, nil
}

// rulesForGroup are those for one group's resources in a namespace; resources with the same
// verbs share one.
func (g *Guard) rulesForGroup(ns string, group discovery.APIGroupDiscovery) (rules []authz.ResourceRule) {
	add := func(verbs []string, resource string) {
		at := slices.IndexFunc(rules, func(r authz.ResourceRule) bool { return slices.Equal(r.Verbs, verbs) })
		switch {
		case len(verbs) == 0:
		case at < 0:
			rules = append(rules, authz.ResourceRule{Verbs: verbs, APIGroups: []string{group.Name}, Resources: []string{resource}})
		case !slices.Contains(rules[at].Resources, resource): // else another version has it too
			rules[at].Resources = append(rules[at].Resources, resource)
		}
	}
	for _, version := range group.Versions {
		for _, res := range version.Resources {
			if metadataOnly(res.Resource) {
				continue
			}
			p := parts{group: group.Name, resource: res.Resource}
			if res.Scope == discovery.ScopeNamespace {
				p.namespace = ns
			}
			add(g.passingVerbs(p, res.Verbs), res.Resource)
			for _, sub := range res.Subresources {
				p.subresource = strings.TrimPrefix(sub.Subresource, res.Resource+"/")
				add(g.passingVerbs(p, sub.Verbs), res.Resource+"/"+p.subresource)
			}
		}
	}
	return rules
}

// passingVerbs are the verbs, out of those that a resource has, that policy lets pass.
func (g *Guard) passingVerbs(p parts, verbs []string) (passing []string) {
	for _, p.verb = range readVerbs {
		p.name = ""
		if p.verb == verbGet {
			p.name = "any"
		}
		asks := p.subresource == "" || p.verb == verbGet
		if asks && slices.Contains(verbs, p.verb) && p.checkPolicy(g.cfg.Namespaces) == nil {
			passing = append(passing, p.verb)
		}
	}
	return passing
}
