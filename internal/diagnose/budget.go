package diagnose

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/text"
)

var budgetRules = area{scene: []SceneRule{budgetBlocksDrain}}

var budgetCauses = []Cause{
	{ID: "pdb-blocks-drain", Category: "Cluster", Meaning: "a disruption budget lets no Pod be evicted while a node is drained", Rank: rankStated},
}

// drainWait is how long a node may be cordoned before what is left on it counts as
// held there.
const drainWait = 5 * time.Minute

// notEvicted is what is said when a budget does not let a Pod be evicted: by the
// API server, and by autoscalers of nodes.
var notEvicted = newPattern(`(?i)violate the pod's disruption budget|more than one pod ?disruption ?budget|pdb .{0,300}prevents pod evictions|(?:not enough|blocked by|prevented by|violates?) (?:a |the )?(?:pdb|pod ?disruption ?budget)`)

// budgetBlocksDrain finds budgets that allow no disruption while somebody waits for
// one. Without that, a budget that allows none is only strict.
func budgetBlocksDrain(s *Scene) []Finding {
	d := s.findDrains()
	if len(d.events)+len(d.nodes) == 0 {
		return nil
	}
	var out []Finding
	for i := range s.Budgets {
		b := &s.Budgets[i]
		guarded := d.held[b.Object.Namespace+"/"+b.Object.Name]
		if seen, node, high, blocked := s.drainWaits(d, b, guarded); blocked {
			out = append(out, s.budgetFinding(b, guarded, seen, node, high))
		}
	}
	return out
}

// drains is what shows that nodes are drained, and what budgets hold meanwhile.
type drains struct {
	// events say that a Pod could not be evicted.
	events []Read[corev1.Event]
	// nodes have been cordoned for a while.
	nodes map[string]*Read[corev1.Node]
	// held are the Pods of each budget that allows no disruption, by its namespace
	// and name; pods are all of them.
	held map[string][]*Read[corev1.Pod]
	pods map[*corev1.Pod]bool
}

func (s *Scene) findDrains() drains {
	d := drains{nodes: map[string]*Read[corev1.Node]{}, held: map[string][]*Read[corev1.Pod]{}, pods: map[*corev1.Pod]bool{}}
	for _, e := range s.Events {
		if s.isFresh(e) && notEvicted.MatchString(text.KeepBytes(e.Object.Message, 8*maxQuote)) {
			d.events = append(d.events, e)
		}
	}
	for i := range s.Nodes {
		if n := &s.Nodes[i]; n.Object.Spec.Unschedulable && cordonedFor(&n.Object, s.Now) > drainWait {
			d.nodes[n.Object.Name] = n
		}
	}
	if len(d.events)+len(d.nodes) == 0 {
		return d
	}
	for i := range s.Budgets {
		b := &s.Budgets[i]
		if b.Object.Status.DisruptionsAllowed > 0 || b.Object.Status.ExpectedPods == 0 {
			continue
		}
		for _, p := range s.podsGuardedBy(b) {
			key := b.Object.Namespace + "/" + b.Object.Name
			d.held[key] = append(d.held[key], p)
			d.pods[&p.Object] = true
		}
	}
	return d
}

// podsGuardedBy are the Pods that a budget guards.
func (s *Scene) podsGuardedBy(b *Read[policyv1.PodDisruptionBudget]) []*Read[corev1.Pod] {
	sel, err := metav1.LabelSelectorAsSelector(b.Object.Spec.Selector)
	if err != nil {
		return nil
	}
	var out []*Read[corev1.Pod]
	for p := range s.podsOf(b.Object.Namespace, sel) {
		if !isFinished(&p.Object) {
			out = append(out, p)
		}
	}
	return out
}

// drainWaits is what shows that an eviction waits for a budget, on which node:
// somebody says so, or only held Pods are left on a node that is cordoned.
func (s *Scene) drainWaits(d drains, b *Read[policyv1.PodDisruptionBudget], guarded []*Read[corev1.Pod]) (seen Observation, node string, high, blocked bool) {
	for _, e := range d.events {
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
		if n := d.nodes[p.Object.Spec.NodeName]; n != nil && s.onlyHeld(d, n.Object.Name) {
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

// onlyHeld reports whether every Pod that a drain would move off a node is held by a
// budget.
func (s *Scene) onlyHeld(d drains, node string) bool {
	if !s.Complete("Pod", "") {
		return false
	}
	for i := range s.Pods {
		p := &s.Pods[i].Object
		up := controllerOf(p).Kind
		if p.Spec.NodeName == node && !isFinished(p) && up != "DaemonSet" && up != "Node" && !d.pods[p] {
			return false
		}
	}
	return true
}

func (s *Scene) budgetFinding(b *Read[policyv1.PodDisruptionBudget], guarded []*Read[corev1.Pod], seen Observation, node string, high bool) Finding {
	st := b.Object.Status
	o := nightcrier.Object{Kind: "PodDisruptionBudget", Namespace: b.Object.Namespace, Name: b.Object.Name}
	n := Finding{
		Cause: "pdb-blocks-drain", Object: o, Confidence: nightcrier.Medium,
		Summary: fmt.Sprintf("%s lets no Pod be evicted (%d of %d ready, %d wanted): what drains node %s waits for ever.", o, st.CurrentHealthy, st.ExpectedPods, st.DesiredHealthy, text.CutLine(node, maxQuote)),
		Observed: []Observation{seen, {
			Text:  fmt.Sprintf("%s has disruptionsAllowed 0, currentHealthy %d, desiredHealthy %d", o, st.CurrentHealthy, st.DesiredHealthy),
			Quote: fmt.Sprintf("desiredHealthy=%d", st.DesiredHealthy), Ref: b.Ref,
		}},
		WrongIf: "nobody drains the node any more",
		Test:    testByGet(o.Namespace, "pdb", o.Name).decidesBetween("status.disruptionsAllowed is 0", "it is more than 0"),
		Actions: []Step{
			{Action: "Let " + o.String() + " allow one disruption, or give its workload one replica more for the time", Do: doEdit, Outcome: "the drain goes on", Risk: "one Pod less while another starts"},
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
		n.DependsOn = s.workloadsBehind(guarded)
	}
	return n
}
