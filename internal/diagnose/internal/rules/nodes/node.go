package nodes

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scene"
	"nightcrier.dev/nightcrier/internal/text"
)

var nodeRules = scene.Area{Name: "node", Rules: []scene.Rule{nodeTrouble}, SceneRules: []scene.SceneRule{nodesInTrouble, nodesHeldBack}, Causes: nodeCauses}

var nodeCauses = []scene.Cause{
	{ID: "kubelet-certificate-expired", Category: "Node", Meaning: "a node's kubelet is not let in because of its certificate", Rank: scene.RankGround + 1},
	{ID: "node-cordoned", Category: "Node", Meaning: "a node is cordoned while Pods wait for it", Rank: scene.RankStated + 1},
	{ID: "node-disk-pressure", Category: "Node", Meaning: "a node is short of disk space", Rank: scene.RankGround - 1, Symptom: true},
	{ID: "node-drained", Category: "Node", Meaning: "a node was drained and not given back while Pods wait for it", Rank: scene.RankStated + 1},
	{ID: "node-memory-pressure", Category: "Node", Meaning: "a node is short of memory", Rank: scene.RankGround - 1, Symptom: true},
	{ID: "node-network-unavailable", Category: "Node", Meaning: "a node has no route for its Pods", Rank: scene.RankGround - 1, Symptom: true},
	{ID: "node-not-ready", Category: "Node", Meaning: "a node's kubelet says that it is not ready", Rank: scene.RankGround, Symptom: true},
	{ID: "node-pid-pressure", Category: "Node", Meaning: "a node is short of process ids", Rank: scene.RankGround - 1, Symptom: true},
	{ID: "node-runtime-down", Category: "Node", Meaning: "a node's container runtime does not answer its kubelet", Rank: scene.RankGround},
	{ID: "node-unreachable", Category: "Node", Meaning: "a node's kubelet does not report any more", Rank: scene.RankGround, Symptom: true},
}

// nodeTrouble finds what is wrong with the node that the incident is about, or
// that its Pods are on. Nodes that a Pod merely does not fit on are left alone.
func nodeTrouble(f *scene.Facts) []scene.Finding {
	var out []scene.Finding
	for _, n := range f.Nodes {
		if nodeMatters(f, n) {
			out = append(out, troubleOf(f.Scene, n)...)
		}
	}
	return out
}

// nodesInTrouble finds what is wrong with the nodes that run Pods, or that Pods
// wait for.
func nodesInTrouble(s *scene.Scene) []scene.Finding {
	waiting := slices.ContainsFunc(s.Pods, func(p scene.Read[corev1.Pod]) bool { return scene.SchedulerMessage(&p.Object) != "" })
	var out []scene.Finding
	for _, n := range s.Nodes {
		trouble := troubleOf(s, n)
		if len(trouble) > 0 && (waiting || len(trouble[0].Affected) > 0) {
			out = append(out, trouble...)
		}
	}
	return out
}

// troubleOf is what is wrong with a node that is meant to stay.
func troubleOf(s *scene.Scene, n scene.Read[corev1.Node]) []scene.Finding {
	if n.Object.DeletionTimestamp != nil {
		return nil
	}
	var out []scene.Finding
	for _, c := range n.Object.Status.Conditions {
		switch _, short := pressures[c.Type]; {
		case c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue:
			out = append(out, badNode(s, n, c))
		case short && c.Status == corev1.ConditionTrue:
			out = append(out, pressureFinding(n, c))
		case c.Type == corev1.NodeNetworkUnavailable && c.Status == corev1.ConditionTrue && scene.HasLasted(c.LastTransitionTime, s.Now, scene.TakeUpTime):
			out = append(out, withoutNetwork(n, c))
		}
	}
	if len(out) == 0 {
		return nil
	}
	on := s.WorkloadsOn(n.Object.Name)
	for i := range out {
		out[i].Affected = on
	}
	return out
}

// nodeMatters reports whether the incident is about this node or a Pod on it.
func nodeMatters(f *scene.Facts, n scene.Read[corev1.Node]) bool {
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

// What a kubelet says of itself when it is not ready.
var (
	runtimeDown = scene.NewPattern(`(?i)PLEG is not healthy|container runtime (?:is down|status check|not running)|(?:containerd|crio|docker|cri-dockerd)\.sock`)
	networkAway = scene.NewPattern(`(?i)NetworkPluginNotReady|network plugin (?:is not ready|returns error)|cni (?:plugin|config) (?:not initialized|uninitialized)`)
	certificate = scene.NewPattern(`(?i)x509:|certificate has expired|certificate signed by unknown|tls: (?:bad|expired) certificate`)
)

// badNode is the finding that a node is not ready, by what its kubelet says.
func badNode(s *scene.Scene, n scene.Read[corev1.Node], c corev1.NodeCondition) scene.Finding {
	cause, says := "node-not-ready", "is not ready"
	observed := []scene.Observation{sawNode(n, c)}
	cert, refused := certificateRefused(s, n, c)
	switch {
	case refused:
		cause, says = "kubelet-certificate-expired", "is out because of its kubelet's certificate"
		observed = append(observed, cert)
	case c.Status == corev1.ConditionUnknown:
		cause, says = "node-unreachable", "does not report any more"
	case runtimeDown.MatchString(c.Message):
		cause, says = "node-runtime-down", "is not ready because its container runtime does not answer"
	}
	f := scene.Finding{
		Cause: cause, Object: nightcrier.Object{Kind: "Node", Name: n.Object.Name}, Confidence: nightcrier.High,
		Summary:  fmt.Sprintf("Node %s %s%s.", n.Object.Name, says, conditionReason(c)),
		Observed: observed,
		WrongIf:  "the node has come back since",
		Test: scene.GetTest("", "node", n.Object.Name).
			DecidesBetween("Ready is not True", "Ready is True"),
		Actions: nodeActions(n.Object.Name),
	}
	if networkAway.MatchString(c.Message) {
		f.DependsOn = networkDaemons(s)
	}
	return f
}

// certificateRefused is what says that the kubelet's certificate is not taken: the
// node's condition, or an Event about the node.
func certificateRefused(s *scene.Scene, n scene.Read[corev1.Node], c corev1.NodeCondition) (scene.Observation, bool) {
	if certificate.MatchString(c.Message) {
		return sawNode(n, c), true
	}
	for e := range s.EventsAbout("Node", "", n.Object.Name) {
		if s.IsFresh(e) && certificate.MatchString(e.Object.Message) {
			return scene.ObserveEvent(e), true
		}
	}
	return scene.Observation{}, false
}

// networkDaemons are the DaemonSets that give nodes their network.
func networkDaemons(s *scene.Scene) []nightcrier.Object {
	var out []nightcrier.Object
	for _, d := range s.DaemonSets {
		if networkParts.MatchString(d.Object.Name) {
			out = append(out, nightcrier.Object{Kind: "DaemonSet", Namespace: d.Object.Namespace, Name: d.Object.Name})
		}
	}
	return out
}

// withoutNetwork is the finding that nobody has made the node's routes.
func withoutNetwork(n scene.Read[corev1.Node], c corev1.NodeCondition) scene.Finding {
	return scene.Finding{
		Cause: "node-network-unavailable", Object: nightcrier.Object{Kind: "Node", Name: n.Object.Name}, Confidence: nightcrier.High,
		Summary:  fmt.Sprintf("Node %s has no network for its Pods%s.", n.Object.Name, conditionReason(c)),
		Observed: []scene.Observation{sawNode(n, c)},
		WrongIf:  "the route was made since",
		Test:     scene.GetTest("", "node", n.Object.Name).DecidesBetween("NetworkUnavailable is True", "NetworkUnavailable is False"),
		Actions: []scene.Step{
			{Action: "Look at the network plugin's Pod on node " + n.Object.Name + " and at the cloud's routes", Outcome: "names what makes no route", Risk: "none: read only"},
			{Action: "Move Pods away from node " + n.Object.Name, Outcome: "they can be reached again", Risk: "restarts those Pods"},
		},
	}
}

// conditionReason is what a node's condition gives as its reason.
func conditionReason(c corev1.NodeCondition) string {
	said := strings.TrimSuffix(text.CutMiddle(c.Message, scene.MaxQuote), ".")
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

func sawNode(n scene.Read[corev1.Node], c corev1.NodeCondition) scene.Observation {
	return scene.Observation{
		Text:  fmt.Sprintf("Node %s has %s=%s, reason %s", n.Object.Name, c.Type, c.Status, c.Reason),
		Quote: c.Message, Ref: n.Ref,
	}
}

func nodeActions(name string) []scene.Step {
	return []scene.Step{
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

// pressureFinding is the finding that a node is short of something.
func pressureFinding(n scene.Read[corev1.Node], c corev1.NodeCondition) scene.Finding {
	cause := pressures[c.Type]
	return scene.Finding{
		Cause: cause, Object: nightcrier.Object{Kind: "Node", Name: n.Object.Name}, Confidence: nightcrier.High,
		Summary:  fmt.Sprintf("Node %s %s%s.", n.Object.Name, strings.TrimPrefix(scene.MeaningOf(nodeCauses, cause), "a node "), conditionReason(c)),
		Observed: []scene.Observation{sawNode(n, c)},
		WrongIf:  "the pressure has passed since",
		Test: scene.GetTest("", "node", n.Object.Name).
			DecidesBetween(string(c.Type)+" is True", string(c.Type)+" is False"),
		Actions: []scene.Step{
			{Action: "Find what uses it up on node " + n.Object.Name, Outcome: "names the Pod or the files", Risk: "none: read only"},
			{Action: "Move Pods away from node " + n.Object.Name, Outcome: "the pressure falls", Risk: "restarts those Pods"},
		},
	}
}

// nodesHeldBack finds cordoned nodes that a Pod waits for: it would fit there, and
// nothing but the cordon rules out enough nodes.
func nodesHeldBack(s *scene.Scene) []scene.Finding {
	var out []scene.Finding
	for _, n := range s.Nodes {
		if !n.Object.Spec.Unschedulable || n.Object.DeletionTimestamp != nil {
			continue
		}
		if waiting := waitingFor(s, &n.Object); len(waiting) > 0 {
			out = append(out, heldBack(s, n, waiting))
		}
	}
	return out
}

// waitingFor lists the Pods that would go to a cordoned node.
func waitingFor(s *scene.Scene, n *corev1.Node) []*scene.Read[corev1.Pod] {
	open := n.DeepCopy()
	open.Spec.Unschedulable = false
	var out []*scene.Read[corev1.Pod]
	for i := range s.Pods {
		p := &s.Pods[i]
		if p.Object.Spec.NodeName != "" || p.Object.DeletionTimestamp != nil || scene.IsFinished(&p.Object) || misfitCause(&p.Object, open) != "" {
			continue
		}
		if cordonRules(s, p) {
			out = append(out, p)
		}
	}
	return out
}

// cordonRules reports whether cordons are what leaves a Pod without a node: the
// scheduler says so, or certainly no other node can take it.
func cordonRules(s *scene.Scene, p *scene.Read[corev1.Pod]) bool {
	f := &scene.Facts{Now: s.Now, Scene: s, Events: s.Events}
	said, ok := saidByScheduler(f, p)
	if !ok {
		_, causes := fitsNowhere(f, p)
		return causes["unschedulable-cordoned"] > 0
	}
	causes := schedCauses(said.Quote)
	if causes["unschedulable-cordoned"] == 0 {
		return false
	}
	for cause, nodes := range causes {
		ruledOut := cause == "unschedulable-selector" || cause == "unschedulable-taint" // those nodes were never meant
		if cause != "unschedulable-cordoned" && !ruledOut && nodes > 0 {
			return false
		}
	}
	return true
}

func heldBack(s *scene.Scene, n scene.Read[corev1.Node], waiting []*scene.Read[corev1.Pod]) scene.Finding {
	f := scene.Finding{
		Cause: "node-cordoned", Object: nightcrier.Object{Kind: "Node", Name: n.Object.Name}, Confidence: nightcrier.High, Weight: len(waiting),
		Summary: fmt.Sprintf("Node %s is cordoned, and %s would fit there and nowhere else.", n.Object.Name, text.CountNoun(len(waiting), "Pod")),
		Observed: []scene.Observation{
			{Text: "Node " + n.Object.Name + " is unschedulable", Quote: "unschedulable=true", Ref: n.Ref},
			scene.PodState(*waiting[0]),
		},
		WrongIf: "the node is kept back because it is not fit for work; then there is too little room elsewhere",
		Test:    scene.GetTest("", "node", n.Object.Name).DecidesBetween("spec.unschedulable is true", "it is not set"),
		Actions: []scene.Step{
			{Action: "Uncordon node " + n.Object.Name + " if its maintenance is over", Do: scene.DoUncordon, Outcome: "the waiting Pods are scheduled", Risk: "Pods land on a node that may not be fit yet"},
			{Action: "Add another node", Outcome: "room without touching the cordoned one", Risk: "cost"},
		},
		Affected: s.WorkloadsAbove(waiting),
	}
	if isDrained(s, &n.Object) {
		f.Cause = "node-drained"
		f.Summary = fmt.Sprintf("Node %s was drained and is still cordoned, and %s would fit there and nowhere else.", n.Object.Name, text.CountNoun(len(waiting), "Pod"))
	}
	return f
}

// isDrained reports whether Pods were moved off a cordoned node: one is being
// evicted from it, or nothing but DaemonSets and static Pods is left.
func isDrained(s *scene.Scene, n *corev1.Node) bool {
	left := 0
	for i := range s.Pods {
		p := &s.Pods[i].Object
		if p.Spec.NodeName != n.Name {
			continue
		}
		if byEviction(p) {
			return true
		}
		if up := scene.ControllerOf(p).Kind; up != "DaemonSet" && up != "Node" && !scene.IsFinished(p) {
			left++
		}
	}
	return left == 0 && s.Complete("Pod", "")
}

// byEviction reports whether somebody has asked the API server to evict a Pod.
func byEviction(p *corev1.Pod) bool {
	c := scene.FindDisruption(p)
	return c != nil && c.Reason == "EvictionByEvictionAPI"
}

// ofNode are the causes whose reason may well be the node that it happens on.
var ofNode = []string{
	"container-not-started", "disk-full", "files-exhausted", "image-pull-failed", "image-pull-unauthorized", "image-registry-unreachable", "pod-sandbox-failed",
}

// BlameNode moves a finding to the node where the same Pods run well elsewhere: what is
// theirs alone would fail everywhere.
func BlameNode(f *scene.Facts, n scene.Finding) scene.Finding {
	if !slices.Contains(ofNode, n.Cause) || n.Object != f.Mend() || f.Hearsay {
		return n
	}
	failing, well := onlyNode(f)
	if well == nil {
		return n
	}
	node := failing.Spec.NodeName
	n.Affected = scene.UniteObjects(n.Affected, []nightcrier.Object{n.Object})
	n.Object, n.Lack = nightcrier.Object{Kind: "Node", Name: node}, nil
	n.Summary = fmt.Sprintf("Only on node %s: %s", node, n.Summary)
	n.Observed = append(n.Observed, scene.PodState(*well))
	if strings.HasPrefix(n.Cause, "image-") && well.Object.CreationTimestamp.Before(&failing.CreationTimestamp) && n.Confidence == nightcrier.High { // a registry may refuse all since
		n.Confidence = nightcrier.Medium
	}
	n.WrongIf = "the Pods on the other nodes started before it began"
	n.Actions = append([]scene.Step{{
		Action:  fmt.Sprintf("Compare node %s with %s, where the same Pod runs: what it pulls with, its limits, its runtime, its disk", node, well.Object.Spec.NodeName),
		Outcome: "names what the node lacks", Risk: "none: read only",
	}}, n.Actions...)
	return n
}

// onlyNode is a Pod of a workload all of whose failing Pods are on its node, and one of the
// same template that is well on another; well is nil where it is not so.
func onlyNode(f *scene.Facts) (failing *corev1.Pod, well *scene.Read[corev1.Pod]) {
	var ready []*scene.Read[corev1.Pod]
	for p := range f.AllPods() {
		switch {
		case f.IsPast(p) || p.Object.Spec.NodeName == "":
		case scene.IsPodWell(p, f.Now):
			ready = append(ready, p)
		case failing != nil && failing.Spec.NodeName != p.Object.Spec.NodeName:
			return nil, nil
		default:
			failing = &p.Object
		}
	}
	if failing == nil {
		return nil, nil
	}
	for _, p := range ready {
		if p.Object.Spec.NodeName == failing.Spec.NodeName {
			return nil, nil
		}
		if sameImages(&p.Object, failing) {
			well = p
		}
	}
	return failing, well
}

func sameImages(a, b *corev1.Pod) bool {
	return slices.EqualFunc(a.Spec.Containers, b.Spec.Containers, func(x, y corev1.Container) bool { return x.Image == y.Image })
}
