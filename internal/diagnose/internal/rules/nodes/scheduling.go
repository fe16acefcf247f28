package nodes

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scene"
	"nightcrier.dev/nightcrier/internal/text"
)

var schedulingRules = scene.Area{Name: "scheduling", Rules: []scene.Rule{podUnschedulable, neverScheduled, podGated}, Causes: schedulingCauses}

var schedulingCauses = []scene.Cause{
	{ID: "scheduling-gated", Category: "Pod", Meaning: "the Pod waits for a scheduling gate that nobody lifts", Rank: scene.RankStated},
	{ID: "unschedulable-affinity", Category: "Pod", Meaning: "rules about which Pods may be together leave no node", Rank: scene.RankStated},
	{ID: "unschedulable-cordoned", Category: "Node", Meaning: "the nodes that would fit are cordoned", Rank: scene.RankStated},
	{ID: "unschedulable-cpu", Category: "Pod", Meaning: "no node has the CPU that the Pod requests", Rank: scene.RankStated},
	{ID: "unschedulable-memory", Category: "Pod", Meaning: "no node has the memory that the Pod requests", Rank: scene.RankStated},
	{ID: "unschedulable-no-nodes", Category: "Node", Meaning: "the cluster has no nodes to schedule to", Rank: scene.RankStated},
	{ID: "unschedulable-no-scheduler", Category: "Pod", Meaning: "no scheduler takes the Pod up", Rank: scene.RankStated},
	{ID: "unschedulable-other", Category: "Pod", Meaning: "the scheduler finds no node for another reason", Rank: scene.RankStated - 2, Symptom: true},
	{ID: "unschedulable-pod-limit", Category: "Node", Meaning: "the nodes run as many Pods as they may", Rank: scene.RankStated},
	{ID: "unschedulable-port", Category: "Pod", Meaning: "the host port that the Pod asks for is taken on every node", Rank: scene.RankStated},
	{ID: "unschedulable-resource", Category: "Pod", Meaning: "no node has another resource that the Pod requests", Rank: scene.RankStated},
	{ID: "unschedulable-selector", Category: "Pod", Meaning: "no node matches the Pod's node selector or affinity", Rank: scene.RankStated},
	{ID: "unschedulable-spread", Category: "Pod", Meaning: "the topology spread constraints leave no node", Rank: scene.RankStated},
	{ID: "unschedulable-taint", Category: "Pod", Meaning: "every node has a taint that the Pod does not tolerate", Rank: scene.RankStated},
	{ID: "unschedulable-volume", Category: "Storage", Meaning: "a volume that the Pod claims is not there or is bound elsewhere", Rank: scene.RankStated},
	{ID: "unschedulable-volume-zone", Category: "Storage", Meaning: "the Pod's volume can only be used where the Pod cannot run", Rank: scene.RankStated},
}

// schedWords tell the cause from one part of the scheduler's sentence; the
// first that matches counts.
var schedWords = []struct {
	cause string
	words *scene.Pattern
}{
	{"unschedulable-no-nodes", scene.NewPattern(`no nodes available|^0/0 nodes`)},
	{"unschedulable-cpu", scene.NewPattern(`Insufficient cpu\b`)},
	{"unschedulable-memory", scene.NewPattern(`Insufficient memory\b`)},
	{"unschedulable-resource", scene.NewPattern(`Insufficient [\w./-]+|cannot allocate all claims|resourceclaim`)},
	{"unschedulable-taint", scene.NewPattern(`taint`)},
	{"unschedulable-volume-zone", scene.NewPattern(`volume node affinity|no available volume zone`)},
	{"unschedulable-volume", scene.NewPattern(`(?i)persistentvolumeclaim|persistent ?volume|unbound immediate|max volume count|no available disk|enough free storage|binding volumes|non-existent pv`)},
	{"unschedulable-spread", scene.NewPattern(`topology spread`)},
	{"unschedulable-affinity", scene.NewPattern(`(?i)pods? (anti-)?affinity|anti-affinity`)},
	{"unschedulable-selector", scene.NewPattern(`node affinity|node selector|node\(s\) didn't match`)},
	{"unschedulable-pod-limit", scene.NewPattern(`Too many pods`)},
	{"unschedulable-port", scene.NewPattern(`free ports`)},
	{"unschedulable-cordoned", scene.NewPattern(`were unschedulable`)},
}

var (
	// reasonPart is one of the reasons in the scheduler's sentence.
	reasonPart = scene.NewPattern(`^(\d{1,6}) (.+)$`)
	// claimAbsent names a claim that does not exist.
	claimAbsent = scene.NewPattern(`persistentvolumeclaim "([^"]{1,253})" not found`)
	// insufficient names the resource that is short.
	insufficient = scene.NewPattern(`Insufficient ([\w./-]{1,100}[\w-])`)
)

// podUnschedulable finds Pods that the scheduler has no node for, and Pods of which
// it says nothing though certainly no node can take them.
func podUnschedulable(f *scene.Facts) []scene.Finding {
	var out []scene.Finding
	for i := range f.Pods {
		p := &f.Pods[i]
		if p.Object.Spec.NodeName != "" || p.Object.DeletionTimestamp != nil || len(p.Object.Spec.SchedulingGates) > 0 || f.IsNodeComing(p) {
			continue
		}
		said, ok := saidByScheduler(f, p)
		causes := schedCauses(said.Quote)
		if !ok {
			said, causes = fitsNowhere(f, p)
		}
		for _, cause := range slices.Sorted(maps.Keys(causes)) {
			out = append(out, noNode(f, p, cause, causes[cause], said))
		}
	}
	return out
}

// never is what a cause weighs that holds on every node however empty it is.
const never = 10_000

// noNode is the finding that nodes many nodes are ruled out for a cause.
func noNode(f *scene.Facts, p *scene.Read[corev1.Pod], cause string, nodes int, said scene.Observation) scene.Finding {
	n := scene.Finding{
		Cause: cause, Object: f.Mend(), Confidence: nightcrier.High, Weight: nodes, Observed: []scene.Observation{said},
		WrongIf: "the cluster grew in the meantime, or other Pods gave way",
		Test: scene.GetTest(p.Object.Namespace, "pod", p.Object.Name).
			DecidesBetween("PodScheduled is False for the same reason", "it is True, or False for another reason"),
		Actions:   schedActions(f, cause),
		DependsOn: schedulingNeeds(f, p, cause),
	}
	if m := claimAbsent.FindStringSubmatch(said.Quote); m != nil && cause == "unschedulable-volume" {
		n.Lack = &scene.Lack{Object: nightcrier.Object{Kind: "PersistentVolumeClaim", Namespace: p.Object.Namespace, Name: m[1]}}
		n.Actions = append([]scene.Step{n.Lack.RepairAction(f.Mend().String())}, n.Actions...)
	}
	var with []string
	if asked, ok := sawRequest(f, p, cause, said.Quote); ok {
		n.Observed = append(n.Observed, asked.Observation)
		with = append(with, asked.words)
		if asked.never {
			n.Weight += never
		}
	}
	if cause == "unschedulable-selector" && len(p.Object.Spec.NodeSelector) > 0 {
		o, matching := sawSelector(f, p)
		n.Observed = append(n.Observed, o)
		with = append(with, o.Text)
		switch {
		case matching == 0:
			n.Weight += never
		case matching > 0:
			n.Weight = 0 // it chooses as it is meant to; what rules out those nodes counts
		}
	}
	if first, _, _ := strings.Cut(text.CutMiddle(said.Quote, scene.MaxQuote), ". "); first != "" {
		with = append(with, strings.TrimSuffix(first, "."))
	}
	n.Summary = fmt.Sprintf("A Pod of %s has no node: %s", f.Mend(), scene.MeaningOf(schedulingCauses, cause))
	if len(with) > 0 {
		n.Summary += " (" + strings.Join(with, "; ") + ")"
	}
	n.Summary += "."
	if cause == "unschedulable-other" {
		n.Confidence = nightcrier.Medium
	}
	return n
}

// saidByScheduler is the scheduler's sentence about a Pod without a node.
func saidByScheduler(f *scene.Facts, p *scene.Read[corev1.Pod]) (scene.Observation, bool) {
	if text := scene.SchedulerMessage(&p.Object); text != "" {
		return scene.Observation{Text: "Pod " + p.Object.Name + " is not scheduled", Quote: text, Ref: p.Ref}, true
	}
	for e := range f.EventsOf("Pod", p.Object.Name) {
		if e.Object.Reason == "FailedScheduling" {
			return scene.ObserveEvent(e), true
		}
	}
	return scene.Observation{}, false
}

// schedCauses returns the causes in a scheduler's sentence, each with the number
// of nodes that it rules out; those of the control plane do not count.
func schedCauses(sentence string) map[string]int {
	found := map[string]int{}
	if sentence == "" {
		return found
	}
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
		if scene.ControlPlaneTaint.MatchString(part) {
			n = 0
		}
		if part != "" {
			found[schedCause(part)] += n
		}
	}
	return passedChoice(withoutOther(found))
}

// afterChoice are the causes that a scheduler comes to only on nodes that match the
// Pod's selector and node affinity.
var afterChoice = []string{
	"unschedulable-cpu", "unschedulable-memory", "unschedulable-resource", "unschedulable-pod-limit",
	"unschedulable-port", "unschedulable-volume-zone", "unschedulable-spread", "unschedulable-affinity",
}

// passedChoice lets the selector weigh nothing where some nodes match it: it chooses as
// it is meant to, as that of each Pod of a DaemonSet does, and what rules out those
// nodes counts.
func passedChoice(found map[string]int) map[string]int {
	if _, chooses := found["unschedulable-selector"]; chooses && slices.ContainsFunc(afterChoice, func(cause string) bool { return found[cause] > 0 }) {
		found["unschedulable-selector"] = 0
	}
	return found
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

// knownNodes are the nodes that were read: all of them when the Scene has them all.
func knownNodes(f *scene.Facts) []scene.Read[corev1.Node] {
	if f.Scene.Complete("Node", "") {
		return f.Scene.Nodes
	}
	return f.Nodes
}

// fitsNowhere judges a Pending Pod of which the scheduler says nothing, as in a
// dump without Events: causes that certainly rule out every node.
func fitsNowhere(f *scene.Facts, p *scene.Read[corev1.Pod]) (scene.Observation, map[string]int) {
	found := map[string]int{}
	if f.Hearsay || p.Object.Status.Phase != corev1.PodPending || !f.Scene.Complete("Node", "") || !scene.HasWaited(&p.Object, f.Now, scene.TakeUpTime) {
		return scene.Observation{}, found
	}
	said := scene.Observation{
		Text:  fmt.Sprintf("Pod %s is Pending without a node, and none of %s can take it", p.Object.Name, text.CountNoun(len(f.Scene.Nodes), "node")),
		Quote: "phase=Pending", Ref: p.Ref,
	}
	if len(f.Scene.Nodes) == 0 {
		return said, map[string]int{"unschedulable-no-nodes": 1}
	}
	for i := range f.Scene.Nodes {
		n := &f.Scene.Nodes[i].Object
		cause := misfitCause(&p.Object, n)
		if cause == "" {
			return scene.Observation{}, nil
		}
		count := 1
		if t := scene.UntoleratedTaint(&p.Object, n); cause == "unschedulable-taint" && scene.ControlPlaneTaint.MatchString(t.Key) {
			count = 0
		}
		found[cause] += count
	}
	return said, found
}

// schedulingNeeds are the objects whose trouble would be the real cause: the
// claims of a Pod without its volume, the nodes that are cordoned or tainted
// because they are not well.
func schedulingNeeds(f *scene.Facts, p *scene.Read[corev1.Pod], cause string) []nightcrier.Object {
	var out []nightcrier.Object
	switch cause {
	case "unschedulable-volume", "unschedulable-volume-zone":
		for _, v := range p.Object.Spec.Volumes {
			if c := v.PersistentVolumeClaim; c != nil {
				out = append(out, nightcrier.Object{Kind: "PersistentVolumeClaim", Namespace: p.Object.Namespace, Name: c.ClaimName})
			}
		}
	case "unschedulable-taint", "unschedulable-cordoned":
		for _, n := range knownNodes(f) {
			sick := scene.UntoleratedTaint(&p.Object, &n.Object)
			if n.Object.Spec.Unschedulable || sick != nil && strings.HasPrefix(sick.Key, "node.kubernetes.io/") {
				out = append(out, nightcrier.Object{Kind: "Node", Name: n.Object.Name})
			}
		}
	}
	return out
}

// request is what a Pod asks for, beside what the largest node has.
type request struct {
	scene.Observation
	words string
	// never is set when it is more than any node has.
	never bool
}

// sawRequest compares what the Pod asks for with the largest node, where the
// cause is a resource.
func sawRequest(f *scene.Facts, p *scene.Read[corev1.Pod], cause, said string) (request, bool) {
	name, ok := shortOf(p, cause, said)
	total := scene.PodRequests(&p.Object)[name]
	if !ok || total.IsZero() {
		return request{}, false
	}
	text := fmt.Sprintf("Pod %s requests %s of %s", p.Object.Name, total.String(), name)
	r := request{words: fmt.Sprintf("requests %s of %s", total.String(), name)}
	if most := scene.LargestAllocatable(knownNodes(f), name); !most.IsZero() {
		r.never = total.Cmp(most) > 0
		text += fmt.Sprintf("; the largest node can give %s", most.String())
		r.words += fmt.Sprintf(", the largest node has %s", most.String())
	}
	if r.never {
		text += ", so it can never fit"
	}
	r.Observation = scene.Observation{Text: text, Quote: fmt.Sprintf("%s=%s", name, total.String()), Ref: p.Ref}
	return r, true
}

// shortOf is the resource that a cause is about.
func shortOf(p *scene.Read[corev1.Pod], cause, said string) (corev1.ResourceName, bool) {
	switch cause {
	case "unschedulable-cpu":
		return corev1.ResourceCPU, true
	case "unschedulable-memory":
		return corev1.ResourceMemory, true
	case "unschedulable-resource":
		asked := scene.PodRequests(&p.Object)
		for _, m := range insufficient.FindAllStringSubmatch(said, -1) {
			if name := corev1.ResourceName(m[1]); resourceCause(name) == cause && !asked.Name(name, "").IsZero() {
				return name, true
			}
		}
		for _, name := range scene.SortResourceNames(asked) {
			if resourceCause(name) == cause {
				return name, true
			}
		}
	}
	return "", false
}

// sawSelector compares the Pod's node selector with the nodes; matching is -1 when
// they are not known.
func sawSelector(f *scene.Facts, p *scene.Read[corev1.Pod]) (o scene.Observation, matching int) {
	sel := p.Object.Spec.NodeSelector
	var pairs []string
	for _, key := range slices.Sorted(maps.Keys(sel)) {
		pairs = append(pairs, key+"="+sel[key])
	}
	nodes := knownNodes(f)
	for _, n := range nodes {
		if scene.SelectsNode(&corev1.Pod{Spec: corev1.PodSpec{NodeSelector: sel}}, &n.Object) {
			matching++
		}
	}
	said := "node selector " + text.CutMiddle(strings.Join(pairs, ","), scene.MaxQuote)
	if len(nodes) > 0 {
		said += fmt.Sprintf(" matches %d of %s", matching, text.CountNoun(len(nodes), "node"))
	} else {
		matching = -1
	}
	return scene.Observation{Text: said, Quote: pairs[0], Ref: p.Ref}, matching
}

// neverScheduled finds Pods that no scheduler has ever looked at.
func neverScheduled(f *scene.Facts) []scene.Finding {
	var out []scene.Finding
	for i := range f.Pods {
		p := &f.Pods[i]
		if f.Hearsay || !unseenByScheduler(f, p) {
			continue
		}
		name := cmp.Or(p.Object.Spec.SchedulerName, corev1.DefaultSchedulerName)
		n := scene.Finding{
			Cause: "unschedulable-no-scheduler", Object: f.Mend(), Confidence: nightcrier.High,
			Summary: fmt.Sprintf("A Pod of %s has waited since %s and no scheduler has taken it up: it asks for schedulerName %s.",
				f.Mend(), p.Object.CreationTimestamp.UTC().Format(time.RFC3339), text.CutMiddle(name, scene.MaxQuote)),
			Observed: []scene.Observation{{
				Text:  fmt.Sprintf("Pod %s is Pending with schedulerName %s and no condition PodScheduled", p.Object.Name, name),
				Quote: "schedulerName=" + name, Ref: p.Ref,
			}},
			WrongIf: "that scheduler runs and only holds the Pod back for now",
			Test: scene.GetTest(p.Object.Namespace, "pod", p.Object.Name).
				DecidesBetween("it still has neither a node nor a condition PodScheduled", "it has one of them"),
			Actions: []scene.Step{
				{Action: "Check that a scheduler called " + name + " runs", Outcome: "tells a wrong name from a scheduler that is down", Risk: "none: read only"},
				{Action: "Correct schedulerName of " + f.Mend().String(), Do: scene.DoEdit, Outcome: "the scheduler takes the Pods up", Risk: "another scheduler may place them elsewhere"},
			},
		}
		if name == corev1.DefaultSchedulerName {
			n.Confidence = nightcrier.Medium
			n.DependsOn = f.Scene.ControlPlanePods("kube-scheduler")
		}
		out = append(out, n)
	}
	return out
}

// unseenByScheduler reports whether no scheduler has said a word about a Pod that
// has waited for one for long.
func unseenByScheduler(f *scene.Facts, p *scene.Read[corev1.Pod]) bool {
	o := &p.Object
	while := scene.TakeUpTime
	if o.Spec.SchedulerName == "" || o.Spec.SchedulerName == corev1.DefaultSchedulerName {
		while = 5 * time.Minute
	}
	if o.Spec.NodeName != "" || o.DeletionTimestamp != nil || o.Status.Phase != corev1.PodPending || o.CreationTimestamp.IsZero() || !scene.HasWaited(o, f.Now, while) {
		return false
	}
	scheduled := slices.ContainsFunc(o.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodScheduled })
	if scheduled || len(o.Spec.SchedulingGates) > 0 || o.Status.NominatedNodeName != "" {
		return false
	}
	_, said := saidByScheduler(f, p)
	return !said
}

// podGated finds Pods that wait for a scheduling gate longer than it should take to
// lift one.
func podGated(f *scene.Facts) []scene.Finding {
	var out []scene.Finding
	for i := range f.Pods {
		p := &f.Pods[i]
		gates := p.Object.Spec.SchedulingGates
		if len(gates) == 0 || p.Object.Spec.NodeName != "" || p.Object.DeletionTimestamp != nil || !scene.HasWaited(&p.Object, f.Now, scene.TakeUpTime) {
			continue
		}
		var names []string
		for _, g := range gates {
			names = append(names, g.Name)
		}
		all := text.CutMiddle(strings.Join(names, ", "), scene.MaxQuote)
		out = append(out, scene.Finding{
			Cause: "scheduling-gated", Object: f.Mend(), Confidence: nightcrier.High,
			Summary: fmt.Sprintf("A Pod of %s is held back by its scheduling gate (%s): the scheduler will not look at it until the gate is lifted.", f.Mend(), all),
			Observed: []scene.Observation{{
				Text: fmt.Sprintf("Pod %s has the scheduling gate %s", p.Object.Name, all), Quote: names[0], Ref: p.Ref,
			}},
			WrongIf: "whoever set the gate lifts it in its own time, as a queue does",
			Test: scene.GetTest(p.Object.Namespace, "pod", p.Object.Name).
				DecidesBetween("spec.schedulingGates is not empty", "it is empty"),
			Actions: []scene.Step{
				{Action: "Find out which controller lifts the gate " + all + " and whether it runs", Outcome: "names what the Pod waits for", Risk: "none: read only"},
				{Action: "Take the gate out of the template of " + f.Mend().String(), Do: scene.DoEdit, Outcome: "new Pods are scheduled", Risk: "goes around whatever the gate is for"},
			},
		})
	}
	return out
}

// asked is what in a Pod's specification asks for what no node has.
var asked = map[string]string{
	"unschedulable-taint": "the tolerations", "unschedulable-selector": "the node selector or node affinity", "unschedulable-affinity": "the Pod affinity or anti-affinity",
	"unschedulable-spread": "the topology spread constraints", "unschedulable-port": "the host port",
}

// askedOf is what the Pods ask for at present, as far as it is short.
func askedOf(f *scene.Facts, cause string) string {
	if len(f.Pods) == 0 {
		return ""
	}
	spec := f.Pods[0].Object.Spec
	var parts []string
	switch cause {
	case "unschedulable-selector":
		for _, key := range slices.Sorted(maps.Keys(spec.NodeSelector)) {
			parts = append(parts, key+"="+spec.NodeSelector[key])
		}
	case "unschedulable-taint":
		for _, t := range spec.Tolerations {
			parts = append(parts, cmp.Or(t.Key, "all")+":"+cmp.Or(string(t.Effect), "all"))
		}
	case "unschedulable-spread":
		for _, s := range spec.TopologySpreadConstraints {
			parts = append(parts, s.TopologyKey)
		}
	case "unschedulable-port":
		for _, c := range spec.Containers {
			for _, p := range c.Ports {
				if p.HostPort != 0 {
					parts = append(parts, strconv.Itoa(int(p.HostPort)))
				}
			}
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return " (at present " + text.CutMiddle(strings.Join(parts, ", "), scene.MaxQuote) + ")"
}

func schedActions(f *scene.Facts, cause string) []scene.Step {
	mend := f.Mend().String()
	switch cause {
	case "unschedulable-cpu", "unschedulable-memory", "unschedulable-resource", "unschedulable-pod-limit":
		return []scene.Step{
			{Action: "Lower the requests of " + mend + " to what it needs", Do: scene.DoEdit, Outcome: "a node fits", Risk: "too little starves it under load"},
			{Action: "Add a node, or scale down what is not needed", Outcome: "room for the Pod", Risk: "cost, or less of something else"},
		}
	case "unschedulable-taint", "unschedulable-selector", "unschedulable-affinity", "unschedulable-spread", "unschedulable-port":
		return []scene.Step{
			{Action: "Correct " + asked[cause] + " of " + mend + askedOf(f, cause), Do: scene.DoEdit, Outcome: "a node fits", Risk: "the Pod may land where it should not"},
			{Action: "Check labels and taints of the nodes against what was intended", Outcome: "tells a wrong Pod from a wrong node", Risk: "none: read only"},
		}
	case "unschedulable-volume", "unschedulable-volume-zone":
		return []scene.Step{
			{Action: "Look at the claims that " + mend + " names: do they exist, are they bound, and where", Outcome: "names the volume that is missing", Risk: "none: read only"},
		}
	}
	return []scene.Step{
		{Action: "Look at the nodes: are there any, ready and not cordoned", Outcome: "names the node to bring back", Risk: "none: read only"},
	}
}

// misfitCause is why a node cannot take a Pod whatever else runs on it, "" when
// nothing certain speaks against it. It asks what the scheduler asks, in its
// order, and leaves out what depends on the other Pods.
func misfitCause(p *corev1.Pod, n *corev1.Node) string {
	switch {
	case n.Spec.Unschedulable && !scene.ToleratesTaint(p, corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}):
		return "unschedulable-cordoned"
	case scene.UntoleratedTaint(p, n) != nil:
		return "unschedulable-taint"
	case !scene.SelectsNode(p, n):
		return "unschedulable-selector"
	}
	return tooLarge(p, n)
}

// tooLarge is the resource of which a Pod requests more than the whole node has.
func tooLarge(p *corev1.Pod, n *corev1.Node) string {
	if len(n.Status.Allocatable) == 0 {
		return "" // nothing is known of its size
	}
	asked := scene.PodRequests(p)
	for _, name := range scene.SortResourceNames(asked) {
		want, have := asked[name], n.Status.Allocatable[name]
		if want.Cmp(have) > 0 {
			return resourceCause(name)
		}
	}
	return ""
}

func resourceCause(name corev1.ResourceName) string {
	switch name {
	case corev1.ResourceCPU, corev1.ResourceMemory:
		return "unschedulable-" + string(name)
	}
	return "unschedulable-resource"
}
