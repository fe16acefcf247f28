package diagnose

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/text"
)

var evictionRules = area{of: []Rule{podEvicted, podEvictedAgain, podPreempted, podRejected}}

var evictionCauses = []Cause{
	{ID: "pod-evicted", Category: "Node", Meaning: "a Pod was evicted by its node, which was short of a resource, or because it used more than it may", Rank: rankStated},
	{ID: "pod-preempted", Category: "Pod", Meaning: "a Pod had to give way to one of higher priority", Rank: rankStated + 1},
}

// evictedLately is how long an eviction explains what its workload lacks.
const evictedLately = 2 * time.Hour

// ownLimit is what a kubelet says of a Pod that outgrew its own limit, which it
// will do again.
var ownLimit = newPattern(`exceeds the (?:total )?limit|exceeded its local ephemeral storage limit`)

// podEvicted finds Pods that their node gave up: for want of a resource, or
// because they used more of one than they may. What is left of a Pod whose
// workload is well again is no fault.
func podEvicted(f *Facts) []Finding {
	var out []Finding
	for i := range f.Pods {
		p := &f.Pods[i]
		said, at, ok := f.saidOfEviction(p)
		if !ok || f.evictionOver(p, said.Quote, at) {
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
func podEvictedAgain(f *Facts) []Finding {
	if f.Hearsay || !f.workloadWell() {
		return nil
	}
	var last *Read[corev1.Pod]
	times := 0
	for i := range f.Scene.Pods {
		p := &f.Scene.Pods[i]
		if p.Object.Status.Reason != "Evicted" || f.Now.Sub(evictedAt(&p.Object)) > evictedLately || f.Scene.mendOf("Pod", &p.Object) != f.Mend() {
			continue
		}
		if times++; last == nil || evictedAt(&p.Object).After(evictedAt(&last.Object)) {
			last = p
		}
	}
	if times < againAndAgain || f.Now.Sub(evictedAt(&last.Object)) > settled {
		return nil
	}
	said, _, _ := f.saidOfEviction(last)
	n := evictionFinding(f, last, said)
	n.Summary = fmt.Sprintf("%d Pods of %s were evicted one after the other; the last time: %s", times, f.Mend(), text.CutLine(said.Quote, maxQuote))
	return []Finding{n}
}

func evictionFinding(f *Facts, p *Read[corev1.Pod], said Observation) Finding {
	n := Finding{
		Cause: "pod-evicted", Object: f.Mend(), Confidence: nightcrier.High,
		Summary:  fmt.Sprintf("A Pod of %s was evicted.", f.Mend()),
		Observed: []Observation{said},
		WrongIf:  "a person evicted it, as when a node is drained",
		Test: testByGet(p.Object.Namespace, "pod", p.Object.Name).
			decidesBetween("Evicted", "anything else"),
		Actions: []Step{
			{Action: "Set requests and limits of " + f.Mend().String() + " to what it uses", Do: doEdit, Outcome: "others are evicted first, or it is placed where there is room", Risk: "may become unschedulable"},
			{Action: "Find what used up the resource on node " + p.Object.Spec.NodeName, Outcome: "names what to limit", Risk: "none: read only"},
		},
	}
	if why := text.CutLine(said.Quote, maxQuote); why != "" {
		n.Summary = fmt.Sprintf("A Pod of %s was evicted: %s", f.Mend(), why)
	}
	if p.Object.Spec.NodeName != "" && !ownLimit.MatchString(said.Quote) {
		n.DependsOn = []nightcrier.Object{{Kind: "Node", Name: p.Object.Spec.NodeName}}
	}
	return n
}

// evictionOver reports whether an eviction is history: its Job is done, its
// workload is well and it will not come again by itself, or it was long ago.
func (f *Facts) evictionOver(p *Read[corev1.Pod], said string, at time.Time) bool {
	switch {
	case f.Hearsay || controllerOf(&p.Object).IsZero() && f.Owner.Kind == "Pod":
		return false
	case f.Job != nil && f.Job.Object.Status.Succeeded > 0:
		return true
	case f.workloadWell():
		return !ownLimit.MatchString(said) || f.Now.Sub(at) > settled
	}
	return f.Now.Sub(at) > evictedLately
}

// saidOfEviction is what says that the Pod was evicted, and when: its status, or,
// when its containers ended well, an Event alone.
func (f *Facts) saidOfEviction(p *Read[corev1.Pod]) (Observation, time.Time, bool) {
	if p.Object.Status.Reason == "Evicted" {
		return Observation{Text: "Pod " + p.Object.Name + " was evicted", Quote: p.Object.Status.Message, Ref: p.Ref}, evictedAt(&p.Object), true
	}
	for e := range f.eventsOf("Pod", p.Object.Name) {
		if e.Object.Reason == "Evicted" && f.isFresh(e) {
			return sawEvent(e), lastSeen(&e.Object), true
		}
	}
	return Observation{}, time.Time{}, false
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
	if c := disruptionCondition(p); c != nil {
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
func podPreempted(f *Facts) []Finding {
	if f.Hearsay {
		return nil
	}
	gone, ok := f.newestPreemption()
	if !ok || f.madeUp() {
		return nil
	}
	n := Finding{
		Cause: "pod-preempted", Object: f.Mend(), Confidence: nightcrier.High, Observed: []Observation{gone.said},
		WrongIf: "the Pods that are there now wait for something else",
		Test:    testByList(f.Mend().Namespace, "events").decidesBetween("an event Preempted names a Pod of "+f.Mend().Name, "there is none"),
		Actions: []Step{
			{Action: "Add room for both, or lower what either requests", Outcome: "both run", Risk: "cost, or less for one of them"},
			{Action: "Check that the priorities of both are as intended", Outcome: "the more important one runs", Risk: "none while reading"},
		},
	}
	by, next := "a Pod of higher priority", "what replaces it is not ready yet"
	if gone.by != (nightcrier.Object{}) {
		by = gone.by.String() + ", which has a higher priority"
	}
	if slices.ContainsFunc(f.Pods, func(p Read[corev1.Pod]) bool { return p.Object.Spec.NodeName == "" && !f.isPast(&p) }) {
		next = "what replaces it has no node"
	}
	n.Summary = fmt.Sprintf("Pod %s of %s had to give way to %s; %s (%s).", gone.pod, f.Mend(), by, next, text.CutLine(gone.said.Quote, maxQuote))
	return []Finding{n}
}

// preemption is that a Pod had to give way to another, which is not always known.
type preemption struct {
	pod  string
	by   nightcrier.Object
	said Observation
}

// newestPreemption is the newest preemption of one of the workload's Pods: an Event tells of
// it when the Pod is gone, and its status as long as it is there, for the scheduler
// writes the Event last.
func (f *Facts) newestPreemption() (preemption, bool) {
	for _, e := range f.Scene.Events {
		o := e.Object.InvolvedObject
		if e.Object.Reason == "Preempted" && o.Kind == "Pod" && o.Namespace == f.Mend().Namespace && f.Scene.isFresh(e) && f.madePod(o.Name) {
			by, _ := f.Scene.preemptorOf(&e.Object)
			return preemption{pod: o.Name, by: by, said: sawEvent(e)}, true
		}
	}
	for _, p := range f.Pods {
		if c := disruptionCondition(&p.Object); c != nil && c.Reason == corev1.PodReasonPreemptionByScheduler {
			said := Observation{Text: "Pod " + p.Object.Name + " has to give way", Quote: c.Message, Ref: p.Ref}
			return preemption{pod: p.Object.Name, said: said}, true
		}
	}
	return preemption{}, false
}

// madeUp reports whether as many Pods as are wanted are ready and to stay. The Pods
// themselves are counted where all were read: their controller counts them later, so
// that just after a Pod was lost it still says that there are enough.
func (f *Facts) madeUp() bool {
	r, known := f.countReplicas()
	if !known || !f.Scene.Complete("Pod", f.Mend().Namespace) {
		return f.workloadWell() || f.allReady()
	}
	var ready int32
	for i := range f.Scene.Pods {
		p := &f.Scene.Pods[i].Object
		if p.DeletionTimestamp == nil && podReady(p) && f.Scene.mendOf("Pod", p) == f.Mend() {
			ready++
		}
	}
	return ready >= r.want
}

// allReady reports whether every Pod that was read, and is to stay, is ready.
func (f *Facts) allReady() bool {
	some := false
	for i := range f.Pods {
		p := &f.Pods[i].Object
		if p.DeletionTimestamp != nil {
			continue
		}
		if !podReady(p) {
			return false
		}
		some = true
	}
	return some
}

// podSuffix is what controllers add to their own name to name a Pod.
var podSuffix = newPattern(`^(-[a-z0-9]{1,10})?-([a-z0-9]{5}|\d{1,5})$`)

// madePod reports whether a Pod of that name is, or was, one of this workload's.
func (f *Facts) madePod(name string) bool {
	rest, ok := strings.CutPrefix(name, f.Mend().Name)
	return ok && (rest == "" && f.Mend().Kind == "Pod" || podSuffix.MatchString(rest))
}

// preemptedBy is how schedulers name whom a Pod had to give way to: by namespace
// and name, or by its uid.
var preemptedBy = newPattern(`^Preempted by (?:a )?(?:pod )?([a-z0-9./-]{1,320})`)

// preemptorOf is the Pod that an Event says another had to give way to.
func (s *Scene) preemptorOf(e *corev1.Event) (nightcrier.Object, bool) {
	if r := e.Related; r != nil && r.Kind == "Pod" && r.Name != "" {
		return nightcrier.Object{Kind: "Pod", Namespace: r.Namespace, Name: r.Name}, true
	}
	m := preemptedBy.FindStringSubmatch(e.Message)
	if m == nil {
		return nightcrier.Object{}, false
	}
	if ns, name, ok := strings.Cut(m[1], "/"); ok && plainName(ns) && plainName(name) {
		return nightcrier.Object{Kind: "Pod", Namespace: ns, Name: name}, true
	}
	for _, p := range s.Pods {
		if string(p.Object.UID) == m[1] {
			return nightcrier.Object{Kind: "Pod", Namespace: p.Object.Namespace, Name: p.Object.Name}, true
		}
	}
	return nightcrier.Object{}, false
}
