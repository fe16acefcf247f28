package diagnose

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"nightcrier.dev/nightcrier"
)

var schedulingRules = area{of: []Rule{unschedulable}}

var schedulingCauses = []Cause{
	{"unschedulable-affinity", "Pod", "affinity or spread rules leave no node", rankStated},
	{"unschedulable-cordoned", "Node", "the nodes that would fit are cordoned", rankStated},
	{"unschedulable-cpu", "Pod", "no node has the CPU that the Pod requests", rankStated},
	{"unschedulable-memory", "Pod", "no node has the memory that the Pod requests", rankStated},
	{"unschedulable-no-nodes", "Node", "the cluster has no nodes to schedule to", rankStated},
	{"unschedulable-other", "Pod", "the scheduler finds no node for another reason", rankStated - 2},
	{"unschedulable-pod-limit", "Node", "the nodes run as many Pods as they may", rankStated},
	{"unschedulable-port", "Pod", "the host port that the Pod asks for is taken on every node", rankStated},
	{"unschedulable-resource", "Pod", "no node has another resource that the Pod requests", rankStated},
	{"unschedulable-selector", "Pod", "no node matches the Pod's node selector or affinity", rankStated},
	{"unschedulable-taint", "Pod", "every node has a taint that the Pod does not tolerate", rankStated},
	{"unschedulable-volume", "Storage", "a volume that the Pod claims is not there or is bound elsewhere", rankStated},
}

// schedWords tell the cause from one part of the scheduler's sentence; the
// first that matches counts.
var schedWords = []struct {
	cause string
	words *regexp.Regexp
}{
	{"unschedulable-no-nodes", regexp.MustCompile(`no nodes available|^0/0 nodes`)},
	{"unschedulable-cpu", regexp.MustCompile(`Insufficient cpu\b`)},
	{"unschedulable-memory", regexp.MustCompile(`Insufficient memory\b`)},
	{"unschedulable-resource", regexp.MustCompile(`Insufficient [\w./-]+`)},
	{"unschedulable-taint", regexp.MustCompile(`taint`)},
	{"unschedulable-volume", regexp.MustCompile(`(?i)persistentvolumeclaim|persistent volume|volume node affinity|unbound immediate`)},
	{"unschedulable-affinity", regexp.MustCompile(`(?i)pod (anti-)?affinity|topology spread|anti-affinity`)},
	{"unschedulable-selector", regexp.MustCompile(`node affinity|node selector|node\(s\) didn't match`)},
	{"unschedulable-pod-limit", regexp.MustCompile(`Too many pods`)},
	{"unschedulable-port", regexp.MustCompile(`free ports`)},
	{"unschedulable-cordoned", regexp.MustCompile(`were unschedulable`)},
}

// reasonPart is one of the reasons in the scheduler's sentence.
var reasonPart = regexp.MustCompile(`^(\d{1,6}) (.+)$`)

// unschedulable finds Pods that the scheduler has no node for.
func unschedulable(f *Facts) []Finding {
	var out []Finding
	for i := range f.Pods {
		p := &f.Pods[i]
		said, ok := f.saidByScheduler(p)
		if !ok {
			continue
		}
		causes := schedCauses(said.Quote)
		for _, cause := range slices.Sorted(maps.Keys(causes)) {
			out = append(out, noNode(f, p, cause, causes[cause], said))
		}
	}
	return out
}

// noNode is the finding that nodes many nodes are ruled out for a cause.
func noNode(f *Facts, p *Read[corev1.Pod], cause string, nodes int, said Observation) Finding {
	n := Finding{
		Cause: cause, Object: f.Mend(), Confidence: nightcrier.High, Weight: nodes, Observed: []Observation{said},
		Summary: fmt.Sprintf("A Pod of %s has no node: %s.", f.Mend(), causeOf(cause).Meaning),
		WrongIf: "the cluster grew in the meantime, or other Pods gave way",
		Test: get(p.Object.Namespace, "pod", p.Object.Name).
			decides("PodScheduled is False for the same reason", "it is True, or False for another reason"),
		Actions: schedActions(f, cause),
	}
	if first, _, _ := strings.Cut(oneLine(said.Quote, maxQuote), ". "); first != "" {
		n.Summary = strings.TrimSuffix(n.Summary, ".") + " (" + strings.TrimSuffix(first, ".") + ")."
	}
	if asked, ok := f.sawRequest(p, cause); ok {
		n.Observed = append(n.Observed, asked)
	}
	if cause == "unschedulable-other" {
		n.Confidence = nightcrier.Medium
	}
	return n
}

// saidByScheduler is the scheduler's sentence about a Pod without a node.
func (f *Facts) saidByScheduler(p *Read[corev1.Pod]) (Observation, bool) {
	if p.Object.Spec.NodeName != "" {
		return Observation{}, false
	}
	if text := pendingOn(&p.Object); text != "" {
		return Observation{Text: "Pod " + p.Object.Name + " is not scheduled", Quote: text, Ref: p.Ref}, true
	}
	for e := range f.eventsOf("Pod", p.Object.Name) {
		if e.Object.Reason == "FailedScheduling" {
			return sawEvent(e), true
		}
	}
	return Observation{}, false
}

// schedCauses returns the causes in a scheduler's sentence, each with the number
// of nodes that it rules out.
func schedCauses(sentence string) map[string]int {
	found := map[string]int{}
	// What follows is about preemption and repeats the counts.
	sentence, _, _ = strings.Cut(sentence, "preemption:")
	head, reasons, ok := strings.Cut(sentence, "nodes are available:")
	if !ok {
		found[schedCause(sentence)] = 1
		return found
	}
	if strings.HasPrefix(head, "0/0 ") {
		found["unschedulable-no-nodes"] = 1
		return found
	}
	for _, part := range strings.Split(reasons, ", ") {
		n := 1
		part = strings.TrimRight(strings.TrimSpace(part), ".")
		if m := reasonPart.FindStringSubmatch(part); m != nil {
			n, _ = strconv.Atoi(m[1])
			part = m[2]
		}
		if part != "" {
			found[schedCause(part)] += n
		}
	}
	return withoutOther(found)
}

// withoutOther drops parts that were not understood when others were.
func withoutOther(found map[string]int) map[string]int {
	if len(found) > 1 {
		delete(found, "unschedulable-other")
	}
	return found
}

func schedCause(part string) string {
	for _, w := range schedWords {
		if w.words.MatchString(part) {
			return w.cause
		}
	}
	return "unschedulable-other"
}

// sawRequest compares what the Pod asks for with the largest node, where the
// cause is a resource.
func (f *Facts) sawRequest(p *Read[corev1.Pod], cause string) (Observation, bool) {
	name := corev1.ResourceCPU
	if cause == "unschedulable-memory" {
		name = corev1.ResourceMemory
	} else if cause != "unschedulable-cpu" {
		return Observation{}, false
	}
	var total, most resource.Quantity
	for _, c := range p.Object.Spec.Containers {
		total.Add(c.Resources.Requests[name])
	}
	if total.IsZero() {
		return Observation{}, false
	}
	for _, n := range f.Nodes {
		if have := n.Object.Status.Allocatable[name]; have.Cmp(most) > 0 {
			most = have
		}
	}
	text := fmt.Sprintf("Pod %s requests %s of %s", p.Object.Name, total.String(), name)
	if !most.IsZero() {
		text += fmt.Sprintf("; the largest node can give %s", most.String())
		if total.Cmp(most) > 0 {
			text += ", so it can never fit"
		}
	}
	return Observation{Text: text, Quote: fmt.Sprintf("%s=%s", name, total.String()), Ref: p.Ref}, true
}

func schedActions(f *Facts, cause string) []nightcrier.Action {
	mend := f.Mend().String()
	switch cause {
	case "unschedulable-cpu", "unschedulable-memory", "unschedulable-resource", "unschedulable-pod-limit":
		return []nightcrier.Action{
			{Action: "Lower the requests of " + mend + " to what it needs", Outcome: "a node fits", Risk: "too little starves it under load"},
			{Action: "Add a node, or scale down what is not needed", Outcome: "room for the Pod", Risk: "cost, or less of something else"},
		}
	case "unschedulable-taint", "unschedulable-selector", "unschedulable-affinity", "unschedulable-port":
		return []nightcrier.Action{
			{Action: "Correct the tolerations, selector, affinity or host port of " + mend, Outcome: "a node fits", Risk: "the Pod may land where it should not"},
			{Action: "Check labels and taints of the nodes against what was intended", Outcome: "tells a wrong Pod from a wrong node", Risk: "none: read only"},
		}
	case "unschedulable-volume":
		return []nightcrier.Action{
			{Action: "Look at the claims that " + mend + " names: do they exist, are they bound, and where", Outcome: "names the volume that is missing", Risk: "none: read only"},
		}
	}
	return []nightcrier.Action{
		{Action: "Look at the nodes: are there any, ready and not cordoned", Outcome: "names the node to bring back", Risk: "none: read only"},
	}
}
