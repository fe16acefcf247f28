package diagnose

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"nightcrier.dev/nightcrier"
)

var nodeRules = area{of: []Rule{nodeNotReady, nodePressure, podEvicted}}

var nodeCauses = []Cause{
	{"node-disk-pressure", "Node", "a node is short of disk space", rankGround - 1},
	{"node-memory-pressure", "Node", "a node is short of memory", rankGround - 1},
	{"node-not-ready", "Node", "a node's kubelet says that it is not ready", rankGround},
	{"node-pid-pressure", "Node", "a node is short of process ids", rankGround - 1},
	{"node-unreachable", "Node", "a node's kubelet does not report any more", rankGround},
	{"pod-evicted", "Node", "a Pod was evicted by its node, which was short of a resource, or because it used more than it may", rankStated},
}

// nodeNotReady finds nodes that are not ready or do not report. Nodes that a
// Pod merely does not fit on are ready and are left alone.
func nodeNotReady(f *Facts) []Finding {
	var out []Finding
	for _, n := range f.Nodes {
		for _, c := range n.Object.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue && f.nodeMatters(n) {
				out = append(out, badNode(n, c))
			}
		}
	}
	return out
}

// nodeMatters reports whether the incident is about this node or a Pod on it.
func (f *Facts) nodeMatters(n Read[corev1.Node]) bool {
	if f.Target.Kind == "Node" {
		return true
	}
	for _, p := range f.Pods {
		if p.Object.Spec.NodeName == n.Object.Name {
			return true
		}
	}
	return false
}

func badNode(n Read[corev1.Node], c corev1.NodeCondition) Finding {
	cause, says := "node-not-ready", "is not ready"
	if c.Status == corev1.ConditionUnknown {
		cause, says = "node-unreachable", "does not report any more"
	}
	return Finding{
		Cause: cause, Object: nightcrier.Object{Kind: "Node", Name: n.Object.Name}, Confidence: nightcrier.High,
		Summary:  fmt.Sprintf("Node %s %s%s.", n.Object.Name, says, why(c)),
		Observed: []Observation{sawNode(n, c)},
		WrongIf:  "the node has come back since",
		Test: get("", "node", n.Object.Name).
			decides("Ready is not True", "Ready is True"),
		Actions: nodeActions(n.Object.Name),
	}
}

// why is what a node's condition gives as its reason.
func why(c corev1.NodeCondition) string {
	said := strings.TrimSuffix(oneLine(c.Message, maxQuote), ".")
	switch {
	case c.Reason == "" && said == "":
		return ""
	case said == "":
		return " (" + c.Reason + ")"
	case c.Reason == "":
		return ": " + said
	}
	return " (" + c.Reason + "): " + said
}

func sawNode(n Read[corev1.Node], c corev1.NodeCondition) Observation {
	return Observation{
		Text:  fmt.Sprintf("Node %s has %s=%s, reason %s", n.Object.Name, c.Type, c.Status, c.Reason),
		Quote: c.Message, Ref: n.Ref,
	}
}

func nodeActions(name string) []nightcrier.Action {
	return []nightcrier.Action{
		{Action: "Look at the kubelet and the container runtime of node " + name, Outcome: "names what stopped", Risk: "none while reading"},
		{Action: "Cordon node " + name + " and move its Pods if it does not come back", Outcome: "the workloads run elsewhere", Risk: "Pods with local data lose it; the rest of the cluster gets fuller"},
		{Action: "Restart or replace node " + name, Outcome: "the capacity is back", Risk: "ends every Pod on it"},
	}
}

// pressures are the node conditions that are a fault when they are true.
var pressures = map[corev1.NodeConditionType]string{
	corev1.NodeDiskPressure:   "node-disk-pressure",
	corev1.NodeMemoryPressure: "node-memory-pressure",
	corev1.NodePIDPressure:    "node-pid-pressure",
}

// nodePressure finds nodes that are short of something.
func nodePressure(f *Facts) []Finding {
	var out []Finding
	for _, n := range f.Nodes {
		for _, c := range n.Object.Status.Conditions {
			cause, ok := pressures[c.Type]
			if !ok || c.Status != corev1.ConditionTrue || !f.nodeMatters(n) {
				continue
			}
			out = append(out, Finding{
				Cause: cause, Object: nightcrier.Object{Kind: "Node", Name: n.Object.Name}, Confidence: nightcrier.High,
				Summary:  fmt.Sprintf("Node %s %s%s.", n.Object.Name, strings.TrimPrefix(causeOf(cause).Meaning, "a node "), why(c)),
				Observed: []Observation{sawNode(n, c)},
				WrongIf:  "the pressure has passed since",
				Test: get("", "node", n.Object.Name).
					decides(string(c.Type)+" is True", string(c.Type)+" is False"),
				Actions: []nightcrier.Action{
					{Action: "Find what uses it up on node " + n.Object.Name, Outcome: "names the Pod or the files", Risk: "none: read only"},
					{Action: "Move Pods away from node " + n.Object.Name, Outcome: "the pressure falls", Risk: "restarts those Pods"},
				},
			})
		}
	}
	return out
}

// podEvicted finds Pods that their node gave up: for want of a resource, or
// because they used more of one than they may.
func podEvicted(f *Facts) []Finding {
	var out []Finding
	for i := range f.Pods {
		p := &f.Pods[i]
		said, ok := f.saidOfEviction(p)
		if !ok {
			continue
		}
		summary := fmt.Sprintf("A Pod of %s was evicted.", f.Mend())
		if why := oneLine(said.Quote, maxQuote); why != "" {
			summary = fmt.Sprintf("A Pod of %s was evicted: %s", f.Mend(), why)
		}
		out = append(out, Finding{
			Cause: "pod-evicted", Object: f.Mend(), Confidence: nightcrier.High,
			Summary:  summary,
			Observed: []Observation{said},
			WrongIf:  "a person evicted it, as when a node is drained",
			Test: get(p.Object.Namespace, "pod", p.Object.Name).
				decides("Evicted", "anything else"),
			Actions: []nightcrier.Action{
				{Action: "Set requests and limits of " + f.Mend().String() + " to what it uses", Outcome: "others are evicted first, or it is placed where there is room", Risk: "may become unschedulable"},
				{Action: "Find what used up the resource on node " + p.Object.Spec.NodeName, Outcome: "names what to limit", Risk: "none: read only"},
			},
		})
	}
	return out
}

// saidOfEviction is what says that the Pod was evicted: its status, or, when its
// containers ended well, an Event alone.
func (f *Facts) saidOfEviction(p *Read[corev1.Pod]) (Observation, bool) {
	if p.Object.Status.Reason == "Evicted" {
		return Observation{Text: "Pod " + p.Object.Name + " was evicted", Quote: p.Object.Status.Message, Ref: p.Ref}, true
	}
	for e := range f.eventsOf("Pod", p.Object.Name) {
		if e.Object.Reason == "Evicted" && f.fresh(e) {
			return sawEvent(e), true
		}
	}
	return Observation{}, false
}
