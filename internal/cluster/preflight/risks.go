package preflight

import (
	"context"
	"slices"
	"strings"

	authz "k8s.io/api/authorization/v1"

	"nightcrier.dev/nightcrier/internal/text"
)

// hazard is a consequence, and the permissions each of which is enough for it.
type hazard struct {
	id, what string
	// reads marks what discloses and changes nothing.
	reads bool
	asks  []question
}

// Groups of the questions below.
const (
	rbacGroup  = "rbac.authorization.k8s.io"
	certGroup  = "certificates.k8s.io"
	admitGroup = "admissionregistration.k8s.io"
)

var changes = []string{"create", "update", "patch", "delete", "deletecollection"}

// allHazards are weighed gravest first.
func allHazards() []hazard {
	return []hazard{
		{"everything", "change everything in the cluster", false, []question{{"*", "*", "*", true}}},
		{"impersonate", "act as any other user", false, questionsFor([]string{"impersonate"}, "", true, "users", "groups", "serviceaccounts")},
		{"rbac", "grant itself and others more", false, append(questionsFor([]string{"bind", "escalate"}, rbacGroup, true, "clusterroles"),
			questionsFor([]string{"create", "update", "patch"}, rbacGroup, false, "roles", "rolebindings", "clusterroles", "clusterrolebindings")...)},
		{"certificates", "get certificates for any identity signed", false, append(append(questionsFor([]string{"create"}, certGroup, true, "certificatesigningrequests"),
			questionsFor([]string{"update", "patch"}, certGroup, true, "certificatesigningrequests/approval")...),
			questionsFor([]string{"approve", "sign"}, certGroup, true, "signers")...)},
		{"tokens", "make tokens of ServiceAccounts", false, questionsFor([]string{"create"}, "", false, "serviceaccounts/token")},
		{"nodes", "run commands on nodes or take them out of service", false, append(questionsFor([]string{"get", "create"}, "", true, "nodes/proxy"),
			questionsFor(changes, "", true, "nodes")...)},
		{"exec", "run commands in containers and reach their ports", false, append(questionsFor([]string{"get", "create"}, "", false, connecting[:3]...),
			questionsFor([]string{"update", "patch"}, "", false, "pods/ephemeralcontainers")...)},
		{"proxy", "send requests to Pods and Services", false, questionsFor([]string{"get", "create"}, "", false, "pods/proxy", "services/proxy")},
		{"admission", "change what the API server admits and serves", false, append(append(
			questionsFor(changes, admitGroup, true, "mutatingwebhookconfigurations", "validatingwebhookconfigurations", "validatingadmissionpolicies"),
			questionsFor(changes, "apiregistration.k8s.io", true, "apiservices")...), questionsFor(changes, "apiextensions.k8s.io", true, "customresourcedefinitions")...)},
		{"workloads", "start, change and delete workloads", false, append(append(append(questionsFor(changes, "", false, "pods", "replicationcontrollers"),
			questionsFor(changes, "apps", false, "deployments", "statefulsets", "daemonsets", "replicasets")...),
			questionsFor([]string{"update", "patch"}, "apps", false, "deployments/scale", "statefulsets/scale")...),
			append(questionsFor(changes, "batch", false, "jobs", "cronjobs"), questionsFor([]string{"create"}, "", false, "pods/eviction")...)...)},
		{"storage", "delete or change volumes", false, append(questionsFor(changes, "", false, "persistentvolumeclaims"), questionsFor(changes, "", true, "persistentvolumes")...)},
		{"objects", "change configuration, services and namespaces", false, append(append(append(
			questionsFor(changes, "", false, "configmaps", "services", "serviceaccounts", "endpoints", "events"), questionsFor(changes, "", true, "namespaces")...),
			questionsFor(changes, "networking.k8s.io", false, "ingresses", "networkpolicies")...), questionsFor(changes, "", false, "secrets")...)},
		{"secrets", "read Secrets, and so hold what they give access to", true, questionsFor(readVerbs, "", false, "secrets")},
	}
}

// connecting are subresources that reach into a container or past the API: even
// get, which a WebSocket begins with, is enough.
var connecting = []string{"pods/exec", "pods/attach", "pods/portforward", "pods/proxy", "services/proxy", "nodes/proxy"}

func questionsFor(verbs []string, group string, wide bool, resources ...string) []question {
	var out []question
	for _, res := range resources {
		for _, verb := range verbs {
			out = append(out, question{verb, group, res, wide})
		}
	}
	return out
}

// weighRisks weighs every hazard, and returns what was found to be allowed by single
// questions.
func (q *inquiry) weighRisks(ctx context.Context) (out []Risk, writes []string) {
	for _, h := range allHazards() {
		r := Risk{ID: h.id, Answer: No, What: h.what}
		for i, a := range q.answerQuestions(ctx, h.asks) {
			switch {
			case a == Yes:
				r.Answer = Yes
				if !h.reads && !q.isGranted(h.asks[i]) {
					writes = append(writes, h.asks[i].String())
				}
			case a == Unknown && r.Answer == No:
				r.Answer = Unknown
			}
		}
		if r.Answer != No {
			out = append(out, r)
		}
		if h.id == "everything" && r.Answer == Yes {
			break // the rest follows from it
		}
	}
	return out, writes
}

// harmless are verbs that change nothing: use names a policy that a Pod may have.
var harmless = append([]string{"use"}, readVerbs...)

// questions are the resources whose creation only asks something.
var questions = []string{"selfsubjectaccessreviews", "selfsubjectrulesreviews", "selfsubjectreviews",
	"subjectaccessreviews", "localsubjectaccessreviews", "tokenreviews"}

// listWrites lists what the rules allow to change, as "verbs resources".
func (q *inquiry) listWrites() []string {
	var out []string
	for _, r := range q.rules {
		out = append(out, writesOf(r)...)
	}
	for _, r := range q.other {
		verbs := slices.DeleteFunc(slices.Clone(r.Verbs), func(v string) bool { return slices.Contains([]string{"get", "head", "options"}, v) })
		if len(verbs) > 0 {
			out = append(out, strings.Join(verbs, ",")+" "+strings.Join(r.NonResourceURLs, ","))
		}
	}
	return out
}

func writesOf(r authz.ResourceRule) (out []string) {
	verbs := slices.DeleteFunc(slices.Clone(r.Verbs), func(v string) bool { return slices.Contains(harmless, v) })
	resources := slices.DeleteFunc(slices.Clone(r.Resources), func(r string) bool { return slices.Contains(questions, r) })
	if len(verbs) > 0 && len(resources) > 0 {
		out = append(out, describeRule(verbs, resources, r.APIGroups))
	}
	if !hasOrStar(r.APIGroups, "") || !hasOrStar(r.Verbs, "get") {
		return out
	}
	reached := slices.DeleteFunc(slices.Clone(connecting), func(sub string) bool { return !coversResource(r.Resources, sub) })
	if len(reached) > 0 && !hasOrStar(r.Verbs, "create") {
		out = append(out, describeRule([]string{"get"}, reached, []string{""}))
	}
	return out
}

func describeRule(verbs, resources, groups []string) string {
	s := strings.Join(verbs, ",") + " " + strings.Join(resources, ",")
	named := slices.DeleteFunc(slices.Clone(groups), func(g string) bool { return g == "" || g == "*" })
	if len(named) > 0 {
		s += " (" + strings.Join(named, ",") + ")"
	}
	return s
}

// boundList sorts nothing away but repetitions, and cuts a list that is too long.
func boundList(list []string) []string {
	seen := map[string]bool{}
	var out []string
	for _, s := range list {
		if s = text.CutLine(s, maxWhy); !seen[s] && len(out) < maxListed {
			seen[s] = true
			out = append(out, s)
		}
	}
	return out
}
