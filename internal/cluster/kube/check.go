package kube

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strings"

	authz "k8s.io/api/authorization/v1"

	"nightcrier.dev/nightcrier"
)

// needed are the kinds without which no investigation is worth starting.
var needed = []string{"Pod", "Event"}

// Check tells whether the cluster answers, accepts the credential and lets it
// list Pods and Events in each of the namespaces, without any in all of them. The
// error names what is missing: its code is Unreachable when there is no use in
// asking for more, Refused when reads are forbidden.
func (c *Client) Check(ctx context.Context, namespaces ...string) error {
	if _, err := c.Version(ctx); err != nil {
		return err
	}
	if len(namespaces) == 0 {
		namespaces = []string{""}
	}
	var refused []string
	for _, ns := range namespaces {
		kinds, err := c.refusedKinds(ctx, ns)
		if err != nil {
			return err
		}
		if len(kinds) > 0 {
			refused = append(refused, strings.Join(kinds, " and ")+inNamespace(ns))
		}
	}
	if len(refused) == 0 {
		return nil
	}
	return nightcrier.Errorf(nightcrier.Refused, "the credential for %s may not list %s", c.base.Host, strings.Join(refused, ", "))
}

// refusedKinds returns which of the needed kinds may not be listed.
func (c *Client) refusedKinds(ctx context.Context, ns string) (kinds []string, err error) {
	for _, kind := range needed {
		_, err := c.List(ctx, kind, ns, "", "", 1)
		switch {
		case nightcrier.CodeOf(err) == nightcrier.Refused:
			kinds = append(kinds, kind+"s")
		case err != nil:
			return nil, err
		}
	}
	return kinds, nil
}

// Rules lists what the credential may do in namespace ns, as far as the cluster
// can list it: Incomplete is set where an authorizer cannot. The question is a
// POST that stores nothing.
func (c *Client) Rules(ctx context.Context, ns string) (authz.SubjectRulesReviewStatus, error) {
	r := authz.SelfSubjectRulesReview{Spec: authz.SelfSubjectRulesReviewSpec{Namespace: ns}}
	r.APIVersion, r.Kind = authz.SchemeGroupVersion.String(), "SelfSubjectRulesReview"
	err := c.postReview(ctx, "what the credential may do in namespace "+ns, "selfsubjectrulesreviews", &r)
	return r.Status, err
}

// May asks whether the credential is allowed one thing; an empty namespace means
// all of them. The question is a POST that stores nothing.
func (c *Client) May(ctx context.Context, what authz.ResourceAttributes) (authz.SubjectAccessReviewStatus, error) {
	r := authz.SelfSubjectAccessReview{Spec: authz.SelfSubjectAccessReviewSpec{ResourceAttributes: &what}}
	r.APIVersion, r.Kind = authz.SchemeGroupVersion.String(), "SelfSubjectAccessReview"
	err := c.postReview(ctx, "whether the credential may "+what.Verb+" "+what.Resource, "selfsubjectaccessreviews", &r)
	return r.Status, err
}

// postReview posts a question and reads the answer into the same object.
func (c *Client) postReview(ctx context.Context, what, resource string, r any) error {
	ask, err := json.Marshal(r)
	if err != nil {
		return err
	}
	body, err := c.fetchBody(ctx, request{
		what: "ask " + what, path: "/apis/authorization.k8s.io/v1/" + resource, method: http.MethodPost,
		body: bytes.NewReader(ask), accept: acceptJSON, limit: maxBody,
	})
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, r); err != nil {
		return nightcrier.Errorf(nightcrier.Unreachable, "ask %s: answer of %s is not JSON: %w", what, c.base.Host, err)
	}
	return nil
}
