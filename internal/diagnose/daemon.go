package diagnose

import (
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/text"
)

var daemonRules = area{of: []Rule{daemonCoverage}}

var daemonCauses = []Cause{
	{ID: "daemonset-misscheduled", Category: "Pod", Meaning: "a DaemonSet runs on nodes where it should not", Rank: rankFollows},
	{ID: "daemonset-not-covering", Category: "Pod", Meaning: "a DaemonSet does not run on nodes where it is expected", Rank: rankFollows + 2},
}

// daemonCoverage finds that the DaemonSet that somebody asks about leaves nodes
// out, or runs where it should not. Of many that were looked at, one that is meant
// for other nodes is no fault.
func daemonCoverage(f *Facts) []Finding {
	set := findObject(f.Scene.DaemonSets, f.Owner.Namespace, f.Owner.Name)
	if f.Owner.Kind != "DaemonSet" || set == nil || !f.isAskedAbout(f.Mend()) || !hasWaited(&set.Object, f.Now, takeUp) {
		return nil
	}
	var out []Finding
	if set.Object.Status.NumberMisscheduled > 0 {
		out = append(out, misscheduledFinding(f, set))
	}
	if left := f.leftOut(set); len(left) > 0 {
		out = append(out, notCovering(f, set, left))
	} else if st := set.Object.Status; st.CurrentNumberScheduled < st.DesiredNumberScheduled {
		out = append(out, notCovering(f, set, nil))
	}
	return out
}

// out is a node that a DaemonSet leaves out, and why.
type out struct{ node, why string }

// leftOut lists the nodes that a DaemonSet leaves out though they are ready: for
// taints, or because its selector matches no node at all. The control plane is
// left out as a rule.
func (f *Facts) leftOut(set *Read[appsv1.DaemonSet]) []out {
	if !f.Scene.Complete("Node", "") {
		return nil
	}
	p := &corev1.Pod{Spec: set.Object.Spec.Template.Spec}
	var tainted, others []out
	chosen := 0
	for _, n := range f.Scene.Nodes {
		ready := nodeCondition(&n.Object, corev1.NodeReady)
		if ready == nil || ready.Status != corev1.ConditionTrue {
			continue
		}
		if !selectsNode(p, &n.Object) {
			others = append(others, out{n.Object.Name, "does not match its node selector"})
			continue
		}
		chosen++
		if t := untoleratedTaint(p, &n.Object); t != nil && !controlPlaneTaint.MatchString(t.Key) {
			tainted = append(tainted, out{n.Object.Name, "has the taint " + text.CutLine(t.ToString(), maxQuote)})
		}
	}
	if chosen == 0 {
		return others
	}
	return tainted
}

func notCovering(f *Facts, set *Read[appsv1.DaemonSet], left []out) Finding {
	st := set.Object.Status
	n := Finding{
		Cause: "daemonset-not-covering", Object: f.Mend(), Confidence: nightcrier.Medium,
		Summary: fmt.Sprintf("%s runs on %d nodes and should on %d, and its controller makes no more Pods.", f.Mend(), st.CurrentNumberScheduled, st.DesiredNumberScheduled),
		Observed: []Observation{{
			Text:  fmt.Sprintf("%s has currentNumberScheduled %d, desiredNumberScheduled %d", f.Mend(), st.CurrentNumberScheduled, st.DesiredNumberScheduled),
			Quote: fmt.Sprintf("desiredNumberScheduled=%d", st.DesiredNumberScheduled), Ref: set.Ref,
		}},
		WrongIf: "it is meant for other nodes only",
		Test:    testByGet(set.Object.Namespace, "daemonset", set.Object.Name).decidesBetween("desiredNumberScheduled is less than the nodes it is meant for", "it is as many"),
		Actions: []Step{
			{Action: "Give " + f.Mend().String() + " the tolerations and the node selector of the nodes it is meant for", Do: doEdit, Outcome: "it runs there too", Risk: "it uses resources on those nodes"},
			{Action: "Check labels and taints of the nodes against what was intended", Outcome: "tells a wrong DaemonSet from a wrong node", Risk: "none: read only"},
		},
	}
	if len(left) > 0 {
		n.Summary = fmt.Sprintf("%s runs on %d nodes and leaves out %s: node %s %s.", f.Mend(), st.DesiredNumberScheduled, text.CountNoun(len(left), "ready node"), left[0].node, left[0].why)
		if node := findObject(f.Scene.Nodes, "", left[0].node); node != nil {
			n.Observed = append(n.Observed, Observation{Text: "Node " + left[0].node + " " + left[0].why, Quote: left[0].node, Ref: node.Ref})
		}
	}
	return n
}

func misscheduledFinding(f *Facts, set *Read[appsv1.DaemonSet]) Finding {
	n := set.Object.Status.NumberMisscheduled
	return Finding{
		Cause: "daemonset-misscheduled", Object: f.Mend(), Confidence: nightcrier.Medium,
		Summary: fmt.Sprintf("%s runs on %s where its node selector or the taints no longer want it.", f.Mend(), text.CountNoun(int(n), "node")),
		Observed: []Observation{{
			Text: fmt.Sprintf("%s has numberMisscheduled %d at %s", f.Mend(), n, f.Now.UTC().Format(time.RFC3339)), Quote: fmt.Sprintf("numberMisscheduled=%d", n), Ref: set.Ref,
		}},
		WrongIf: "its Pods there are about to end",
		Test:    testByGet(set.Object.Namespace, "daemonset", set.Object.Name).decidesBetween("numberMisscheduled is more than 0", "it is 0"),
		Actions: []Step{
			{Action: "Check which labels or taints of the nodes have changed", Outcome: "tells a wrong node from a wrong DaemonSet", Risk: "none: read only"},
			{Action: "Delete the Pods of " + f.Mend().String() + " on those nodes if they shall not run there", Outcome: "they are not made again there", Risk: "whatever relies on them there loses it"},
		},
	}
}
