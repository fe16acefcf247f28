// Package preflight finds out what a cluster's credential may do, and decides
// whether agents may look into the cluster with it.
//
// The cluster is asked, nothing is tried: its rules are listed, and what the list
// cannot tell is asked one by one. What remains without an answer is "unknown"
// and never taken for "no". RBAC is the second wall: the guard in front of it
// lets only reads through, whatever the credential could do.
package preflight

import (
	"cmp"
	"context"
	"time"

	authz "k8s.io/api/authorization/v1"

	"nightcrier.dev/nightcrier/internal/cluster/kube"
)

// Answer is what is known of a permission.
type Answer string

// The answers.
const (
	Yes     Answer = "yes"
	No      Answer = "no"
	Unknown Answer = "unknown"
)

// Asker asks a cluster what the credential may do; kube.Client is one.
type Asker interface {
	Rules(ctx context.Context, ns string) (authz.SubjectRulesReviewStatus, error)
	May(ctx context.Context, what authz.ResourceAttributes) (authz.SubjectAccessReviewStatus, error)
}

// Result is what is known of a credential in one namespace and cluster-wide.
type Result struct {
	Cluster, Namespace string
	At                 time.Time
	// Can answers every read that investigations make, by "list pods".
	Can map[string]Answer
	// CanWrite is Yes when anything at all can be changed, or code run: one rule is
	// enough. It is No only when the cluster listed every rule.
	CanWrite Answer
	// Writes are the ways, as "verbs resources"; at most maxListed.
	Writes []string
	// Risks are the consequences, gravest first; those that are No are left out.
	Risks []Risk
	// Unknown says why there are answers missing.
	Unknown []string
	// Probed is set when every question was answered, so that an Unknown CanWrite
	// means: no way to change anything was found, and there may be one.
	Probed bool
	rules  []authz.ResourceRule
}

// Risk is one thing that the holder of a credential could do.
type Risk struct {
	ID     string
	Answer Answer
	// What completes the sentence "it can …".
	What string
}

// maxListed bounds each list of a Result that a cluster's rules determine.
const maxListed = 100

// Check asks what the credential may do in namespace ns ("" means default) and
// in all of them. The error is that of the first question when none at all was
// answered; a Result with Unknown answers is no error.
func Check(ctx context.Context, ask Asker, cluster, ns string, now time.Time) (Result, error) {
	ns = cmp.Or(ns, "default")
	q := &inquiry{ask: ask, ns: ns}
	if err := q.listRules(ctx); err != nil {
		return Result{}, err
	}
	r := Result{Cluster: cluster, Namespace: ns, At: now, Can: q.answerReads(ctx), rules: q.rules}
	r.Risks, r.Writes = q.weighRisks(ctx)
	r.Writes = boundList(append(q.listWrites(), r.Writes...))
	r.Unknown, r.Probed = q.describeGaps()
	r.CanWrite = No
	switch {
	case len(r.Writes) > 0:
		r.CanWrite = Yes
	case !q.complete:
		r.CanWrite = Unknown
	}
	return r, ctx.Err()
}

// readVerbs are asked of everything that is read.
var readVerbs = []string{"get", "list", "watch"}

// answerReads answers everything that investigations read.
func (q *inquiry) answerReads(ctx context.Context) map[string]Answer {
	var asked []question
	for _, res := range kube.Reads() {
		for _, verb := range verbsOf(res.Name) {
			asked = append(asked, question{verb, res.Group, res.Name, res.ClusterWide})
		}
	}
	can := make(map[string]Answer, len(asked))
	for i, a := range q.answerQuestions(ctx, asked) {
		can[asked[i].String()] = a
	}
	return can
}

// verbsOf are the verbs that a resource understands: a log has no list.
func verbsOf(resource string) []string {
	if resource == "pods/log" {
		return readVerbs[:1]
	}
	return readVerbs
}
