package workloads

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scene"
	"nightcrier.dev/nightcrier/internal/text"
)

var budgetRules = scene.Area{Name: "budget", SceneRules: []scene.SceneRule{budgetBlocksDrain}, Causes: budgetCauses}

var budgetCauses = []scene.Cause{
	{ID: "pdb-blocks-drain", Category: "Cluster", Meaning: "a disruption budget lets no Pod be evicted while a node is drained", Rank: scene.RankStated},
}

// drainWait is how long a node may be cordoned before what is left on it counts as
// held there.
const drainWait = 5 * time.Minute

// notEvicted is what is said when a budget does not let a Pod be evicted: by the
// API server, and by autoscalers of nodes.
var notEvicted = scene.NewPattern(`(?i)violate the pod's disruption budget|more than one pod ?disruption ?budget|pdb .{0,300}prevents pod evictions|(?:not enough|blocked by|prevented by|violates?) (?:a |the )?(?:pdb|pod ?disruption ?budget)`)

// budgetBlocksDrain finds budgets that allow no disruption while somebody waits for
// one. Without that, a budget that allows none is only strict.
func budgetBlocksDrain(s *scene.Scene) []scene.Finding {
	d := findDrains(s)
	if len(d.events)+len(d.nodes) == 0 {
		return nil
	}
	var out []scene.Finding
	for i := range s.Budgets {
		b := &s.Budgets[i]
		guarded := d.held[b.Object.Namespace+"/"+b.Object.Name]
		if seen, node, high, blocked := drainWaits(s, d, b, guarded); blocked {
			out = append(out, budgetFinding(s, b, guarded, seen, node, high))
		}
	}
	return out
}

// drains is what shows that nodes are drained, and what budgets hold meanwhile.
type drains struct {
	// events say that a Pod could not be evicted.
	events []scene.Read[corev1.Event]
	// nodes have been cordoned for a while.
	nodes map[string]*scene.Read[corev1.Node]
	// held are the Pods of each budget that allows no disruption, by its namespace
	// and name; pods are all of them.
	held map[string][]*scene.Read[corev1.Pod]
	pods map[*corev1.Pod]bool
}

func findDrains(s *scene.Scene) drains {
	d := drains{nodes: map[string]*scene.Read[corev1.Node]{}, held: map[string][]*scene.Read[corev1.Pod]{}, pods: map[*corev1.Pod]bool{}}
	for _, e := range s.Events {
		if s.IsFresh(e) && notEvicted.MatchString(text.KeepBytes(e.Object.Message, 8*scene.MaxQuote)) {
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
		for _, p := range podsGuardedBy(s, b) {
			key := b.Object.Namespace + "/" + b.Object.Name
			d.held[key] = append(d.held[key], p)
			d.pods[&p.Object] = true
		}
	}
	return d
}

// podsGuardedBy are the Pods that a budget guards.
func podsGuardedBy(s *scene.Scene, b *scene.Read[policyv1.PodDisruptionBudget]) []*scene.Read[corev1.Pod] {
	sel, err := metav1.LabelSelectorAsSelector(b.Object.Spec.Selector)
	if err != nil {
		return nil
	}
	var out []*scene.Read[corev1.Pod]
	for p := range s.PodsMatching(b.Object.Namespace, sel) {
		if !scene.IsFinished(&p.Object) {
			out = append(out, p)
		}
	}
	return out
}

// drainWaits is what shows that an eviction waits for a budget, on which node:
// somebody says so, or only held Pods are left on a node that is cordoned.
func drainWaits(s *scene.Scene, d drains, b *scene.Read[policyv1.PodDisruptionBudget], guarded []*scene.Read[corev1.Pod]) (seen scene.Observation, node string, high, blocked bool) {
	for _, e := range d.events {
		o := e.Object.InvolvedObject
		for _, p := range guarded {
			about := o.Kind == "Pod" && o.Name == p.Object.Name && o.Namespace == p.Object.Namespace
			names := strings.Contains(e.Object.Message, b.Object.Namespace+"/"+b.Object.Name) || strings.Contains(e.Object.Message, p.Object.Namespace+"/"+p.Object.Name)
			if about || names {
				return scene.ObserveEvent(e), p.Object.Spec.NodeName, true, true
			}
		}
	}
	for _, p := range guarded {
		if n := d.nodes[p.Object.Spec.NodeName]; n != nil && onlyHeld(s, d, n.Object.Name) {
			return scene.Observation{Text: "Node " + n.Object.Name + " is cordoned, and only Pods that budgets guard are left on it", Quote: "unschedulable=true", Ref: n.Ref}, n.Object.Name, false, true
		}
	}
	return scene.Observation{}, "", false, false
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
func onlyHeld(s *scene.Scene, d drains, node string) bool {
	if !s.Complete("Pod", "") {
		return false
	}
	for i := range s.Pods {
		p := &s.Pods[i].Object
		up := scene.ControllerOf(p).Kind
		if p.Spec.NodeName == node && !scene.IsFinished(p) && up != "DaemonSet" && up != "Node" && !d.pods[p] {
			return false
		}
	}
	return true
}

func budgetFinding(s *scene.Scene, b *scene.Read[policyv1.PodDisruptionBudget], guarded []*scene.Read[corev1.Pod], seen scene.Observation, node string, high bool) scene.Finding {
	st := b.Object.Status
	o := nightcrier.Object{Kind: "PodDisruptionBudget", Namespace: b.Object.Namespace, Name: b.Object.Name}
	n := scene.Finding{
		Cause: "pdb-blocks-drain", Object: o, Confidence: nightcrier.Medium,
		Summary: fmt.Sprintf("%s lets no Pod be evicted (%d of %d ready, %d wanted): what drains node %s waits for ever.", o, st.CurrentHealthy, st.ExpectedPods, st.DesiredHealthy, text.CutMiddle(node, scene.MaxQuote)),
		Observed: []scene.Observation{seen, {
			Text:  fmt.Sprintf("%s has disruptionsAllowed 0, currentHealthy %d, desiredHealthy %d", o, st.CurrentHealthy, st.DesiredHealthy),
			Quote: fmt.Sprintf("desiredHealthy=%d", st.DesiredHealthy), Ref: b.Ref,
		}},
		WrongIf: "nobody drains the node any more",
		Test:    scene.GetTest(o.Namespace, "pdb", o.Name).DecidesBetween("status.disruptionsAllowed is 0", "it is more than 0"),
		Actions: []scene.Step{
			{Action: "Let " + o.String() + " allow one disruption, or give its workload one replica more for the time", Do: scene.DoEdit, Outcome: "the drain goes on", Risk: "one Pod less while another starts"},
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
		n.DependsOn = s.WorkloadsAbove(guarded)
	}
	return n
}

var evictionRules = scene.Area{Name: "eviction", Rules: []scene.Rule{podEvicted, podEvictedAgain, podPreempted, podRejected}, Causes: evictionCauses}

var evictionCauses = []scene.Cause{
	{ID: "pod-evicted", Category: "Node", Meaning: "a Pod was evicted by its node, which was short of a resource, or because it used more than it may", Rank: scene.RankStated, Symptom: true},
	{ID: "pod-preempted", Category: "Pod", Meaning: "a Pod had to give way to one of higher priority", Rank: scene.RankStated + 1},
}

// evictedLately is how long an eviction explains what its workload lacks.
const evictedLately = 2 * time.Hour

// ownLimit is what a kubelet says of a Pod that outgrew its own limit, which it
// will do again.
var ownLimit = scene.NewPattern(`exceeds the (?:total )?limit|exceeded its local ephemeral storage limit`)

// podEvicted finds Pods that their node gave up: for want of a resource, or
// because they used more of one than they may. What is left of a Pod whose
// workload is well again is no fault.
func podEvicted(f *scene.Facts) []scene.Finding {
	var out []scene.Finding
	for i := range f.Pods {
		p := &f.Pods[i]
		said, at, ok := saidOfEviction(f, p)
		if !ok || evictionOver(f, p, said.Quote, at) {
			continue
		}
		out = append(out, evictionFinding(f, p, said))
	}
	return out
}

// againAndAgain is how many evictions in evictedLately are no accident.
const againAndAgain = 3

// podEvictedAgain finds workloads whose Pods are evicted one after the other: the
// present one is well, until it has grown as its predecessors did.
func podEvictedAgain(f *scene.Facts) []scene.Finding {
	if f.Hearsay || !f.WorkloadWell() {
		return nil
	}
	var last *scene.Read[corev1.Pod]
	times := 0
	for p := range f.Scene.PodsBelow(f.Mend()) {
		if p.Object.Status.Reason != "Evicted" || f.Now.Sub(evictedAt(&p.Object)) > evictedLately {
			continue
		}
		if times++; last == nil || evictedAt(&p.Object).After(evictedAt(&last.Object)) {
			last = p
		}
	}
	if times < againAndAgain || f.Now.Sub(evictedAt(&last.Object)) > scene.SettleTime {
		return nil
	}
	said, _, _ := saidOfEviction(f, last)
	n := evictionFinding(f, last, said)
	n.Summary = fmt.Sprintf("%d Pods of %s were evicted one after the other; the last time: %s", times, f.Mend(), text.CutMiddle(said.Quote, scene.MaxQuote))
	return []scene.Finding{n}
}

func evictionFinding(f *scene.Facts, p *scene.Read[corev1.Pod], said scene.Observation) scene.Finding {
	n := scene.Finding{
		Cause: "pod-evicted", Object: f.Mend(), Confidence: nightcrier.High,
		Summary:  fmt.Sprintf("A Pod of %s was evicted.", f.Mend()),
		Observed: []scene.Observation{said},
		WrongIf:  "a person evicted it, as when a node is drained",
		Test: scene.GetTest(p.Object.Namespace, "pod", p.Object.Name).
			DecidesBetween("Evicted", "anything else"),
		Actions: []scene.Step{
			{Action: "Set requests and limits of " + f.Mend().String() + " to what it uses", Do: scene.DoEdit, Outcome: "others are evicted first, or it is placed where there is room", Risk: "may become unschedulable"},
			{Action: "Find what used up the resource on node " + p.Object.Spec.NodeName, Outcome: "names what to limit", Risk: "none: read only"},
		},
	}
	if why := text.CutMiddle(said.Quote, scene.MaxQuote); why != "" {
		n.Summary = fmt.Sprintf("A Pod of %s was evicted: %s", f.Mend(), why)
	}
	if p.Object.Spec.NodeName != "" && !ownLimit.MatchString(said.Quote) {
		n.DependsOn = []nightcrier.Object{{Kind: "Node", Name: p.Object.Spec.NodeName}}
	}
	return n
}

// evictionOver reports whether an eviction is history: its Job is done, its
// workload is well and it will not come again by itself, or it was long ago.
func evictionOver(f *scene.Facts, p *scene.Read[corev1.Pod], said string, at time.Time) bool {
	switch {
	case f.Hearsay || scene.ControllerOf(&p.Object).IsZero() && f.Owner.Kind == "Pod":
		return false
	case f.Job != nil && f.Job.Object.Status.Succeeded > 0:
		return true
	case f.WorkloadWell():
		return !ownLimit.MatchString(said) || f.Now.Sub(at) > scene.SettleTime
	}
	return f.Now.Sub(at) > evictedLately
}

// saidOfEviction is what says that the Pod was evicted, and when: its status, or,
// when its containers ended well, an Event alone.
func saidOfEviction(f *scene.Facts, p *scene.Read[corev1.Pod]) (scene.Observation, time.Time, bool) {
	if p.Object.Status.Reason == "Evicted" {
		return scene.Observation{Text: "Pod " + p.Object.Name + " was evicted", Quote: p.Object.Status.Message, Ref: p.Ref}, evictedAt(&p.Object), true
	}
	for e := range f.EventsOf("Pod", p.Object.Name) {
		if e.Object.Reason == "Evicted" && f.IsFresh(e) {
			return scene.ObserveEvent(e), scene.EventLastSeen(&e.Object), true
		}
	}
	return scene.Observation{}, time.Time{}, false
}

// evictedAt is when a Pod was evicted, as near as it tells.
func evictedAt(p *corev1.Pod) time.Time {
	at := p.CreationTimestamp.Time
	later := func(t metav1.Time) {
		if t.After(at) {
			at = t.Time
		}
	}
	if p.Status.StartTime != nil {
		later(*p.Status.StartTime)
	}
	if c := scene.FindDisruption(p); c != nil {
		later(c.LastTransitionTime)
	}
	for _, st := range p.Status.ContainerStatuses {
		if t := st.State.Terminated; t != nil {
			later(t.FinishedAt)
		}
	}
	return at
}

// podPreempted finds workloads that lack a Pod which had to give way to one of
// higher priority.
func podPreempted(f *scene.Facts) []scene.Finding {
	if f.Hearsay {
		return nil
	}
	gone, ok := newestPreemption(f)
	if !ok || madeUp(f) {
		return nil
	}
	n := scene.Finding{
		Cause: "pod-preempted", Object: f.Mend(), Confidence: nightcrier.High, Observed: []scene.Observation{gone.said},
		WrongIf: "the Pods that are there now wait for something else",
		Test:    scene.ListTest(f.Mend().Namespace, "events").DecidesBetween("an event Preempted names a Pod of "+f.Mend().Name, "there is none"),
		Actions: []scene.Step{
			{Action: "Add room for both, or lower what either requests", Outcome: "both run", Risk: "cost, or less for one of them"},
			{Action: "Check that the priorities of both are as intended", Outcome: "the more important one runs", Risk: "none while reading"},
		},
	}
	by, next := "a Pod of higher priority", "what replaces it is not ready yet"
	if gone.by != (nightcrier.Object{}) {
		by = gone.by.String() + ", which has a higher priority"
	}
	if slices.ContainsFunc(f.Pods, func(p scene.Read[corev1.Pod]) bool { return p.Object.Spec.NodeName == "" && !f.IsPast(&p) }) {
		next = "what replaces it has no node"
	}
	n.Summary = fmt.Sprintf("Pod %s of %s had to give way to %s; %s (%s).", gone.pod, f.Mend(), by, next, text.CutMiddle(gone.said.Quote, scene.MaxQuote))
	return []scene.Finding{n}
}

// preemption is that a Pod had to give way to another, which is not always known.
type preemption struct {
	pod  string
	by   nightcrier.Object
	said scene.Observation
}

// newestPreemption is the newest preemption of one of the workload's Pods: an Event tells of
// it when the Pod is gone, and its status as long as it is there, for the scheduler
// writes the Event last.
func newestPreemption(f *scene.Facts) (preemption, bool) {
	for _, e := range f.Scene.Events {
		o := e.Object.InvolvedObject
		if e.Object.Reason == "Preempted" && o.Kind == "Pod" && o.Namespace == f.Mend().Namespace && f.Scene.IsFresh(e) && madePod(f, o.Name) {
			by, _ := preemptorOf(f.Scene, &e.Object)
			return preemption{pod: o.Name, by: by, said: scene.ObserveEvent(e)}, true
		}
	}
	for _, p := range f.Pods {
		if c := scene.FindDisruption(&p.Object); c != nil && c.Reason == corev1.PodReasonPreemptionByScheduler {
			said := scene.Observation{Text: "Pod " + p.Object.Name + " has to give way", Quote: c.Message, Ref: p.Ref}
			return preemption{pod: p.Object.Name, said: said}, true
		}
	}
	return preemption{}, false
}

// madeUp reports whether as many Pods as are wanted are ready and to stay. The Pods
// themselves are counted where all were read: their controller counts them later, so
// that just after a Pod was lost it still says that there are enough.
func madeUp(f *scene.Facts) bool {
	r, known := f.CountReplicas()
	if !known || !f.Scene.Complete("Pod", f.Mend().Namespace) {
		return f.WorkloadWell() || allReady(f)
	}
	var ready int32
	for p := range f.Scene.PodsBelow(f.Mend()) {
		if p.Object.DeletionTimestamp == nil && scene.IsPodReady(&p.Object) {
			ready++
		}
	}
	return ready >= r.Want
}

// allReady reports whether every Pod that was read, and is to stay, is ready.
func allReady(f *scene.Facts) bool {
	some := false
	for i := range f.Pods {
		p := &f.Pods[i].Object
		if p.DeletionTimestamp != nil {
			continue
		}
		if !scene.IsPodReady(p) {
			return false
		}
		some = true
	}
	return some
}

// podSuffix is what controllers add to their own name to name a Pod.
var podSuffix = scene.NewPattern(`^(-[a-z0-9]{1,10})?-([a-z0-9]{5}|\d{1,5})$`)

// madePod reports whether a Pod of that name is, or was, one of this workload's.
func madePod(f *scene.Facts, name string) bool {
	rest, ok := strings.CutPrefix(name, f.Mend().Name)
	return ok && (rest == "" && f.Mend().Kind == "Pod" || podSuffix.MatchString(rest))
}

// preemptedBy is how schedulers name whom a Pod had to give way to: by namespace
// and name, or by its uid.
var preemptedBy = scene.NewPattern(`^Preempted by (?:a )?(?:pod )?([a-z0-9./-]{1,320})`)

// preemptorOf is the Pod that an Event says another had to give way to.
func preemptorOf(s *scene.Scene, e *corev1.Event) (nightcrier.Object, bool) {
	if r := e.Related; r != nil && r.Kind == "Pod" && r.Name != "" {
		return nightcrier.Object{Kind: "Pod", Namespace: r.Namespace, Name: r.Name}, true
	}
	m := preemptedBy.FindStringSubmatch(e.Message)
	if m == nil {
		return nightcrier.Object{}, false
	}
	if ns, name, ok := strings.Cut(m[1], "/"); ok && scene.IsPlainName(ns) && scene.IsPlainName(name) {
		return nightcrier.Object{Kind: "Pod", Namespace: ns, Name: name}, true
	}
	for _, p := range s.Pods {
		if string(p.Object.UID) == m[1] {
			return nightcrier.Object{Kind: "Pod", Namespace: p.Object.Namespace, Name: p.Object.Name}, true
		}
	}
	return nightcrier.Object{}, false
}

// rejections are the reasons for which a kubelet does not take a Pod that was given
// to it, and what a scheduler would have called the same.
var rejections = map[string]string{
	"OutOfcpu":                            "unschedulable-cpu",
	"OutOfmemory":                         "unschedulable-memory",
	"OutOfpods":                           "unschedulable-pod-limit",
	"NodeAffinity":                        "unschedulable-selector",
	"PodOSSelectorNodeLabelDoesNotMatch":  "unschedulable-selector",
	"NodePorts":                           "unschedulable-port",
	"TaintToleration":                     "unschedulable-taint",
	"TopologyAffinityError":               "unschedulable-other",
	"UnexpectedAdmissionError":            "unschedulable-other",
	"PodOSNotSupported":                   "unschedulable-other",
	"InitContainerRestartPolicyForbidden": "unschedulable-other",
	"SysctlForbidden":                     "container-not-started",
	"AppArmor":                            "container-not-started",
}

// rejectionCause is the cause in the reason of a Pod that its kubelet did not take, "" for
// one that it did.
func rejectionCause(p *corev1.Pod) string {
	cause, ok := rejections[p.Status.Reason]
	switch {
	case p.Status.Phase != corev1.PodFailed:
		return ""
	case ok:
		return cause
	case strings.HasPrefix(p.Status.Reason, "OutOf"):
		return "unschedulable-resource"
	}
	return ""
}

// podRejected finds workloads whose Pods are given to a node whose kubelet does not
// take them: its controller makes the next one, and so on. What is left of such Pods
// when the workload is well is no fault.
func podRejected(f *scene.Facts) []scene.Finding {
	if f.Hearsay || f.WorkloadWell() || allReady(f) {
		return nil
	}
	for i := range f.Pods {
		p := &f.Pods[i]
		cause := rejectionCause(&p.Object)
		if cause == "" || f.IsPast(p) || f.Now.Sub(p.Object.CreationTimestamp.Time) > evictedLately {
			continue
		}
		node := text.CutMiddle(p.Object.Spec.NodeName, scene.MaxQuote)
		return []scene.Finding{{
			Cause: cause, Object: f.Mend(), Confidence: nightcrier.High,
			Summary:  fmt.Sprintf("The kubelet of node %s does not take the Pods of %s: %s", node, f.Mend(), text.CutMiddle(p.Object.Status.Message, scene.MaxQuote)),
			Observed: []scene.Observation{{Text: fmt.Sprintf("Pod %s was rejected by its node, reason %s", p.Object.Name, text.CutMiddle(p.Object.Status.Reason, scene.MaxQuote)), Quote: p.Object.Status.Message, Ref: p.Ref}},
			WrongIf:  "the node has changed since, and takes the next Pod",
			Test:     scene.GetTest(p.Object.Namespace, "pod", p.Object.Name).DecidesBetween("it has failed for the same reason", "it runs"),
			Actions: []scene.Step{
				{Action: "Let the scheduler choose the node of " + f.Mend().String() + ": remove spec.nodeName, if it is set", Do: scene.DoEdit, Outcome: "its Pods go where there is room", Risk: "they may have been meant for that node"},
				{Action: "Make room on node " + node + ", or let " + f.Mend().String() + " ask for less", Outcome: "the kubelet takes the next Pod", Risk: "other Pods have to move"},
			},
		}}
	}
	return nil
}
