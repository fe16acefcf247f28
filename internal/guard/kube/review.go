package kube

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"

	authn "k8s.io/api/authentication/v1"
	authz "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	texts "nightcrier.dev/nightcrier/internal/text"
)

// What may be asked about oneself. The guard answers from its own policy: its
// caller is nobody to the cluster.
const (
	accessReview  = "SelfSubjectAccessReview"
	rulesReview   = "SelfSubjectRulesReview"
	subjectReview = "SelfSubjectReview"
)

var reviewKinds = map[string]string{
	"/apis/authorization.k8s.io/v1/selfsubjectaccessreviews": accessReview,
	"/apis/authorization.k8s.io/v1/selfsubjectrulesreviews":  rulesReview,
	"/apis/authentication.k8s.io/v1/selfsubjectreviews":      subjectReview,
}

// reviewQueries are what clients write behind such a path.
var reviewQueries = []string{"fieldManager=kubectl-auth", "fieldManager=kubectl", "timeout=32s"}

const maxReview = 64 << 10 // bytes of a question

// fillReviewRecord fills in what is put on record of a question.
func (c *call) fillReviewRecord(kind string) {
	c.audit.Verb, c.audit.Version, c.audit.Resource = "create", "v1", strings.ToLower(kind)+"s"
	c.audit.Group = authz.GroupName
	if kind == subjectReview {
		c.audit.Group = authn.GroupName
	}
	c.audit.Reason = "answered by the guard itself"
}

// answerReview answers a question about the caller's permissions.
func (g *Guard) answerReview(ctx context.Context, kind string, in inbound) answer {
	body, err := io.ReadAll(io.LimitReader(in.body, maxReview+1))
	if err != nil || len(body) > maxReview {
		return refusalAnswer(newFailuref(http.StatusBadRequest, "body", "the question cannot be read"))
	}
	question, _, err := reviews().Decode(body, nil, nil)
	if err != nil {
		return refusalAnswer(newFailuref(http.StatusUnsupportedMediaType, "format", "the question is not a %s", kind))
	}
	switch r := question.(type) {
	case *authz.SelfSubjectAccessReview:
		g.accessReview(r)
	case *authz.SelfSubjectRulesReview:
		g.rulesReview(ctx, r)
	case *authn.SelfSubjectReview:
		r.Status.UserInfo = authn.UserInfo{Username: "nightcrier:guard", Groups: []string{"nightcrier:read-only"}}
	}
	if body, err = json.Marshal(question); err != nil || question.GetObjectKind().GroupVersionKind().Kind != kind {
		return refusalAnswer(newFailuref(http.StatusBadRequest, "format", "the question is not a %s", kind))
	}
	return answer{status: http.StatusCreated, contentType: mediaJSON, body: body}
}

// reviews reads questions in JSON and protobuf: kubectl asks them in either.
var reviews = sync.OnceValue(func() runtime.Decoder {
	scheme := runtime.NewScheme()
	utilruntime.Must(authz.AddToScheme(scheme))
	utilruntime.Must(authn.AddToScheme(scheme))
	return serializer.NewCodecFactory(scheme).UniversalDeserializer()
})

func (g *Guard) accessReview(r *authz.SelfSubjectAccessReview) {
	err := g.checkAccess(r.Spec)
	r.Status = authz.SubjectAccessReviewStatus{Allowed: err == nil, Denied: err != nil}
	if err != nil {
		r.Status.Reason = "nightcrier guard (" + err.Error() + ")"
	} else if a := r.Spec.ResourceAttributes; a != nil && metadataOnly(a.Resource) {
		r.Status.Reason = "nightcrier guard: names and metadata, never data"
	}
}

// readVerbs are all that a rule can grant through a guard.
var readVerbs = []string{verbGet, verbList, verbWatch}

// checkAccess says whether policy would let such requests pass. The cluster's own rules
// are asked when they are made.
func (g *Guard) checkAccess(spec authz.SelfSubjectAccessReviewSpec) error {
	if n := spec.NonResourceAttributes; n != nil {
		if n.Verb != verbGet {
			return newDenialf("method", "%s is no read", texts.CutBytes(n.Verb, maxEchoed))
		}
		_, err := parseTarget(n.Path)
		return err
	}
	a := spec.ResourceAttributes
	if a == nil {
		return newDenialf("question", "it names nothing")
	}
	if !slices.Contains(readVerbs, a.Verb) {
		return newDenialf("method", "%s changes something: the guard passes reads only", texts.CutBytes(a.Verb, maxEchoed))
	}
	if a.Resource == "*" || a.Subresource == "*" {
		return newDenialf("question", "everything includes what acts: ask for one resource")
	}
	if a.Subresource != "" && a.Verb != verbGet {
		return newDenialf("subresource", "a subresource can be got only")
	}
	p := parts{
		group: a.Group, resource: a.Resource, subresource: a.Subresource,
		namespace: a.Namespace, name: a.Name, verb: a.Verb,
	}
	return p.checkPolicy(g.cfg.Namespaces)
}
