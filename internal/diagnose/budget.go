package diagnose

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nightcrier.dev/nightcrier"
)

var budgetRules = area{scene: []SceneRule{budgetBlocksDrain}}

var budgetCauses = []Cause{
	{"pdb-blocks-drain", "Cluster", "a disruption budget lets no Pod be evicted while a node is drained", rankStated},
}

// drainWait is how long a node may be cordoned before what is left on it counts as
// held there.
const drainWait = 5 * time.Minute

// notEvicted is what is said when a budget does not let a Pod be evicted: by the
// API server, and by autoscalers of nodes.
var notEvicted = regexp.MustCompile(`(?i)violate the pod's disruption budget|more than one pod ?disruption ?budget|pdb .{0,300}prevents pod evictions|(?:not enough|blocked by|prevented by|violates?) (?:a |the )?(?:pdb|pod ?disruption ?budget)`)

// budgetBlocksDrain finds budgets that allow no disruption while somebody waits for
// one. Without that, a budget that allows none is only strict.
func budgetBlocksDrain(s *Scene) []Finding {
	var out []Finding
	for i := range s.Budgets {
		b := &s.Budgets[i]
		st := b.Object.Status
		if st.DisruptionsAllowed > 0 || st.ExpectedPods == 0 {
			continue
		}
		guarded := s.guarded(b)
		if len(guarded) == 0 {
			continue
		}
		if seen, node, high, blocked := s.drainWaits(b, guarded); blocked {
			out = append(out, s.blocking(b, guarded, seen, node, high))
		}
	}
	return out
}

// guarded are the Pods that a budget guards.
func (s *Scene) guarded(b *Read[policyv1.PodDisruptionBudget]) []*Read[corev1.Pod] {
	sel, err := metav1.LabelSelectorAsSelector(b.Object.Spec.Selector)
	if err != nil {
		return nil
	}
	var out []*Read[corev1.Pod]
	for p := range s.podsOf(b.Object.Namespace, sel) {
		if !finished(&p.Object) {
			out = append(out, p)
		}
	}
	return out
}

// drainWaits is what shows that an eviction waits for a budget, on which node:
// somebody says so, or only guarded Pods are left on a node that is cordoned.
func (s *Scene) drainWaits(b *Read[policyv1.PodDisruptionBudget], guarded []*Read[corev1.Pod]) (seen Observation, node string, high, blocked bool) {
	for _, e := range s.Events {
		if !s.fresh(e) || !notEvicted.MatchString(clipBytes(e.Object.Message, 8*maxQuote)) {
			continue
		}
		o := e.Object.InvolvedObject
		for _, p := range guarded {
			about := o.Kind == "Pod" && o.Name == p.Object.Name && o.Namespace == p.Object.Namespace
			names := strings.Contains(e.Object.Message, b.Object.Namespace+"/"+b.Object.Name) || strings.Contains(e.Object.Message, p.Object.Namespace+"/"+p.Object.Name)
			if about || names {
				return sawEvent(e), p.Object.Spec.NodeName, true, true
			}
		}
	}
	for _, p := range guarded {
		n := find(s.Nodes, "", p.Object.Spec.NodeName)
		if n != nil && n.Object.Spec.Unschedulable && cordonedFor(&n.Object, s.Now) > drainWait && s.onlyGuarded(n.Object.Name) {
			return Observation{Text: "Node " + n.Object.Name + " is cordoned, and only Pods that budgets guard are left on it", Quote: "unschedulable=true", Ref: n.Ref}, n.Object.Name, false, true
		}
	}
	return Observation{}, "", false, false
}

// cordonedFor is how long a node has been cordoned; one that does not tell was
// cordoned long ago.
func cordonedFor(n *corev1.Node, now time.Time) time.Duration {
	for _, t := range n.Spec.Taints {
		if t.Key == corev1.TaintNodeUnschedulable && t.TimeAdded != nil {
			return now.Sub(t.TimeAdded.Time)
		}
	}
	return time.Duration(1<<63 - 1)
}

// onlyGuarded reports whether every Pod that a drain would move off a node is held
// by a budget that allows no disruption.
func (s *Scene) onlyGuarded(node string) bool {
	if !s.Complete("Pod", "") {
		return false
	}
	for i := range s.Pods {
		p := &s.Pods[i].Object
		up := controller(p).Kind
		if p.Spec.NodeName != node || finished(p) || up == "DaemonSet" || up == "Node" {
			continue
		}
		held := slices.ContainsFunc(s.Budgets, func(b Read[policyv1.PodDisruptionBudget]) bool {
			return b.Object.Status.DisruptionsAllowed == 0 && slices.ContainsFunc(s.guarded(&b), func(g *Read[corev1.Pod]) bool { return &g.Object == p })
		})
		if !held {
			return false
		}
	}
	return true
}

func (s *Scene) blocking(b *Read[policyv1.PodDisruptionBudget], guarded []*Read[corev1.Pod], seen Observation, node string, high bool) Finding {
	st := b.Object.Status
	o := nightcrier.Object{Kind: "PodDisruptionBudget", Namespace: b.Object.Namespace, Name: b.Object.Name}
	n := Finding{
		Cause: "pdb-blocks-drain", Object: o, Confidence: nightcrier.Medium,
		Summary: fmt.Sprintf("%s lets no Pod be evicted (%d of %d ready, %d wanted): what drains node %s waits for ever.", o, st.CurrentHealthy, st.ExpectedPods, st.DesiredHealthy, oneLine(node, maxQuote)),
		Observed: []Observation{seen, {
			Text:  fmt.Sprintf("%s has disruptionsAllowed 0, currentHealthy %d, desiredHealthy %d", o, st.CurrentHealthy, st.DesiredHealthy),
			Quote: fmt.Sprintf("desiredHealthy=%d", st.DesiredHealthy), Ref: b.Ref,
		}},
		WrongIf: "nobody drains the node any more",
		Test:    get(o.Namespace, "pdb", o.Name).decides("status.disruptionsAllowed is 0", "it is more than 0"),
		Actions: []nightcrier.Action{
			{Action: "Let " + o.String() + " allow one disruption, or give its workload one replica more for the time", Outcome: "the drain goes on", Risk: "one Pod less while another starts"},
			{Action: "Look at the Pods it guards that are not ready", Outcome: "once they are ready the budget gives way by itself", Risk: "none: read only"},
		},
	}
	if high {
		n.Confidence = nightcrier.High
	}
	if node != "" {
		n.Affected = []nightcrier.Object{{Kind: "Node", Name: node}}
	}
	if st.CurrentHealthy < st.DesiredHealthy {
		n.DependsOn = s.behind(guarded)
	}
	return n
}
