package preflight

import (
	"context"
	"slices"
	"strings"
	"sync"

	authz "k8s.io/api/authorization/v1"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/text"
)

// question is one permission; wide ones concern objects outside namespaces.
type question struct {
	verb, group, resource string
	wide                  bool
}

// String is "patch deployments.apps".
func (q question) String() string {
	if q.group == "" || q.group == "*" {
		return q.verb + " " + q.resource
	}
	return q.verb + " " + q.resource + "." + q.group
}

// atOnce is how many single questions are under way to one cluster.
const atOnce = 16

// inquiry collects what one cluster answers.
type inquiry struct {
	ask   Asker
	ns    string
	rules []authz.ResourceRule
	other []authz.NonResourceRule
	// complete is set when the rules are all there are.
	complete bool
	why      []string

	mu   sync.Mutex
	lost error // of the first question without an answer
}

// listRules asks for all rules. It fails only when single questions are not answered
// either.
func (q *inquiry) listRules(ctx context.Context) error {
	status, err := q.ask.Rules(ctx, q.ns)
	if err == nil {
		q.rules, q.other, q.complete = status.ResourceRules, status.NonResourceRules, !status.Incomplete
		if status.Incomplete {
			q.why = append(q.why, "the cluster cannot list every rule: "+text.CutLine(status.EvaluationError, maxWhy))
		}
		return nil
	}
	if ctx.Err() != nil {
		return err
	}
	if _, second := q.ask.May(ctx, authz.ResourceAttributes{Verb: "list", Resource: "pods", Namespace: q.ns}); second != nil {
		return err
	}
	q.why = append(q.why, "the cluster lists no rules: "+text.CutLine(err.Error(), maxWhy))
	return nil
}

// answerQuestions answers each question from the rules, and asks the cluster what those
// cannot tell.
func (q *inquiry) answerQuestions(ctx context.Context, asked []question) []Answer {
	out := make([]Answer, len(asked))
	places := make(chan struct{}, atOnce)
	var wg sync.WaitGroup
	for i, one := range asked {
		switch {
		case q.isGranted(one):
			out[i] = Yes
		case q.complete:
			out[i] = No
		default:
			wg.Go(func() {
				places <- struct{}{}
				defer func() { <-places }()
				out[i] = q.askQuestion(ctx, one)
			})
		}
	}
	wg.Wait()
	return out
}

// askQuestion asks one question, in the namespace: what is allowed in all is allowed there.
func (q *inquiry) askQuestion(ctx context.Context, one question) Answer {
	if err := q.lostError(); err != nil && nightcrier.CodeOf(err) == nightcrier.Unreachable {
		return Unknown // it would only be waited for again
	}
	resource, sub, _ := strings.Cut(one.resource, "/")
	what := authz.ResourceAttributes{Namespace: q.ns, Verb: one.verb, Group: one.group, Resource: resource, Subresource: sub}
	if one.wide {
		what.Namespace = ""
	}
	status, err := q.ask.May(ctx, what)
	switch {
	case err != nil:
		q.mu.Lock()
		defer q.mu.Unlock()
		if q.lost == nil {
			q.lost = err
		}
		return Unknown
	case status.Allowed:
		return Yes
	case status.EvaluationError != "" && !status.Denied:
		return Unknown
	}
	return No
}

func (q *inquiry) lostError() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.lost
}

// describeGaps says why answers are missing, and whether every question was answered.
func (q *inquiry) describeGaps() ([]string, bool) {
	if q.lost == nil {
		return q.why, true
	}
	return append(q.why, "questions without an answer: "+text.CutLine(q.lost.Error(), maxWhy)), false
}

// isGranted reports whether a rule allows it for every object. A rule that names
// objects does not.
func (q *inquiry) isGranted(one question) bool {
	return slices.ContainsFunc(q.rules, func(r authz.ResourceRule) bool {
		return len(r.ResourceNames) == 0 && hasOrStar(r.Verbs, one.verb) && hasOrStar(r.APIGroups, one.group) && coversResource(r.Resources, one.resource)
	})
}

func hasOrStar(list []string, want string) bool {
	return slices.Contains(list, want) || slices.Contains(list, "*")
}

// coversResource knows that "*" means subresources as well, and "*/scale" those of that
// name.
func coversResource(list []string, resource string) bool {
	if hasOrStar(list, resource) {
		return true
	}
	_, sub, ok := strings.Cut(resource, "/")
	return ok && slices.Contains(list, "*/"+sub)
}

const maxWhy = 300
