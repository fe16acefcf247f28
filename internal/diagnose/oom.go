package diagnose

import (
	"cmp"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/text"
)

var memoryRules = area{of: []Rule{outOfMemory, tooLittleToStart}}

var memoryCauses = []Cause{
	{ID: "oom-killed", Category: "Pod", Meaning: "a container was killed for want of memory: its limit, or its node, has no more", Rank: rankStated + 5},
}

// outOfMemory finds containers that the kernel killed for their memory.
func outOfMemory(f *Facts) []Finding {
	var out []Finding
	for c := range f.failingContainers() {
		if end := c.lastEnd(); end != nil && killedForMemory(f, c, end) {
			out = append(out, memoryKill(f, c, end))
		}
	}
	return out
}

// memorySayings are what programs of several processes say when one of theirs is
// killed from outside and they go on. A kubelet kills all of a container at once.
var memorySayings = []saying{{
	cause: "oom-killed", because: "a process in it is killed again and again, most likely by the kernel for want of memory",
	wrongIf: "somebody, or a timeout of the program, kills its processes", refine: withinWhichLimit,
	actions: []Step{
		{Action: "Raise the memory limit above the peak of all processes together, or run fewer of them", Do: doEdit, Outcome: "no process is killed any more", Risk: "a leak only takes longer to reach the limit"},
		{Action: "Read the node's kernel log for the kill", Outcome: "tells which process grew, and whether the limit or the node was the bound", Risk: "none: read only"},
	},
	wordings: newWordings(
		`(?i)worker exited prematurely: signal 9`, `(?i)exited with '?signal 9 \(SIGKILL\)`, `(?i)sent SIGKILL! Perhaps out of memory`, `(?i)died, killed by signal 9`,
		`(?i)terminated by signal 9: Killed`, `(?i)exited on signal 9\b`, `(?i)exit signal Killed \(9\)`,
	),
}}

// withinWhichLimit adds the limit that the processes share.
func withinWhichLimit(f *Facts, c container, t told, n *Finding) {
	n.Confidence = nightcrier.Medium // the kernel itself has not said so
	heapAndLimit(f, c, t, n)
}

func memoryKill(f *Facts, c container, end *corev1.ContainerStateTerminated) Finding {
	limit, has := c.spec.Resources.Limits[corev1.ResourceMemory]
	how := fmt.Sprintf("(%s, %s)", cmp.Or(end.Reason, "SIGKILL"), text.CountNoun(int(c.status.RestartCount), "restart"))
	observed := []Observation{c.sawEnd(end)}
	summary := fmt.Sprintf("%s is killed by the kernel for want of memory %s although it has no limit of its own.", c.describeIn(f), how)
	if has {
		summary = fmt.Sprintf("%s is killed for exceeding its memory limit of %s %s.", c.describeIn(f), limit.String(), how)
		observed = append(observed, c.sawMemory())
	}
	if said, ok := f.kernelSaid(c); ok {
		observed = append(observed, said)
	}
	if used, ok := f.sawUse(c); ok {
		observed = append(observed, used)
	}
	n := Finding{
		Cause: "oom-killed", Object: f.Mend(), Summary: summary, Confidence: nightcrier.High, Observed: observed,
		WrongIf: "the process was killed by another signal and the reason is left from an earlier end",
		Test: testByGet(c.pod.Object.Namespace, "pod", c.pod.Object.Name).
			decidesBetween("lastState.terminated.reason is OOMKilled", "it is another reason"),
		Actions: memoryActions(f, has),
	}
	if !has && c.pod.Object.Spec.NodeName != "" {
		n.DependsOn = []nightcrier.Object{{Kind: "Node", Name: c.pod.Object.Spec.NodeName}}
	}
	return n
}

// limitTooLow is what runtimes say when the kernel kills even the process that
// starts the container's own, or its sandbox.
var limitTooLow = newPattern(`OOM-killed \(memory limit too low\?\)`)

// tooLittleToStart finds Pods whose memory limit does not suffice to start them.
func tooLittleToStart(f *Facts) []Finding {
	for i := range f.Pods {
		p := &f.Pods[i]
		if f.isPast(p) || podReady(&p.Object) {
			continue
		}
		if said, found := f.startKilled(p); found {
			return []Finding{limitRaise(f, p, said)}
		}
	}
	return nil
}

// startKilled is what says that a Pod's start ended for want of memory: the state
// of a container, or an Event while none runs.
func (f *Facts) startKilled(p *Read[corev1.Pod]) (Observation, bool) {
	for _, c := range podContainers(p) {
		if reason, message := c.waitingReason(); limitTooLow.MatchString(message) {
			return Observation{Text: fmt.Sprintf("%s waits: %s", c, text.CutLine(reason, maxQuote)), Quote: message, Ref: p.Ref}, true
		}
	}
	for e := range f.eventsOf("Pod", p.Object.Name) {
		if f.isFresh(e) && sandboxLess(&p.Object) && limitTooLow.MatchString(e.Object.Message) {
			return sawEvent(e), true
		}
	}
	return Observation{}, false
}

func limitRaise(f *Facts, p *Read[corev1.Pod], said Observation) Finding {
	var limits []string
	for _, c := range p.Object.Spec.Containers {
		if limit, has := c.Resources.Limits[corev1.ResourceMemory]; has {
			limits = append(limits, fmt.Sprintf("%s of container %s", limit.String(), text.CutLine(c.Name, maxQuote)))
		}
	}
	n := Finding{
		Cause: "oom-killed", Object: f.Mend(), Confidence: nightcrier.High, Observed: []Observation{said},
		Summary: fmt.Sprintf("%s cannot start: its memory limit is too low even for the runtime to start it (%s).", f.Mend(), text.CutLine(cmp.Or(strings.Join(limits, ", "), "no container states one"), maxQuote)),
		WrongIf: "the node itself is out of memory",
		Test: testByDescribe(nightcrier.Resource{Kind: "Pod", Namespace: p.Object.Namespace, Name: p.Object.Name}).
			decidesBetween("its events say that it was OOM-killed while it started", "it has started"),
		Actions: memoryActions(f, true),
	}
	if len(limits) == 0 {
		n.Confidence = nightcrier.Medium
	}
	return n
}

// killedForMemory reports whether the kernel killed the container for its
// memory. Runtimes do not always say so, but the signal is always the same.
func killedForMemory(f *Facts, c container, end *corev1.ContainerStateTerminated) bool {
	if end.Reason == "OOMKilled" || neverRan(end) && kernelKill.MatchString(end.Message) {
		return true
	}
	if end.ExitCode != 137 {
		return false
	}
	_, said := f.kernelSaid(c)
	return said
}

// kernelKill matches what kernels and what reports them say of such a kill.
var kernelKill = newPattern(`Memory cgroup out of memory|Out of memory: Kill(ed)? process|oom-kill:constraint|OOMKilling|ContainerOOM|init was OOM-killed`)

// kernelSaid is where somebody else tells that memory was the reason: the last
// message of the container, an Event about the Pod, or the last line of the log.
func (f *Facts) kernelSaid(c container) (Observation, bool) {
	if end := c.lastEnd(); end != nil && kernelKill.MatchString(end.Message) {
		return Observation{Text: c.String() + " left a message", Quote: end.Message, Ref: c.pod.Ref}, true
	}
	for e := range f.eventsOf("Pod", c.pod.Object.Name) {
		if f.isFresh(e) && kernelKill.MatchString(e.Object.Reason+" "+e.Object.Message) && len(c.pod.Object.Spec.Containers) <= 1 {
			return sawEvent(e), true
		}
	}
	if l, ok := f.logOf(c); ok && kernelKill.MatchString(errorLine(l.Text)) {
		return sawLog(c, l, text.CutLine(errorLine(l.Text), maxQuote)), true
	}
	return Observation{}, false
}

// sawMemory is what the container may use and asks for.
func (c container) sawMemory() Observation {
	limit, request := c.spec.Resources.Limits.Memory(), c.spec.Resources.Requests.Memory()
	text := fmt.Sprintf("%s has a memory limit of %s", c, limit)
	if !request.IsZero() {
		text += fmt.Sprintf(" and requests %s", request)
	}
	return Observation{Text: text, Quote: "memory=" + limit.String(), Ref: c.pod.Ref}
}

func memoryActions(f *Facts, limited bool) []Step {
	first := Step{
		Action: "Raise the memory limit of " + f.Mend().String() + " above the peak of its use",
		Do:     doEdit, Outcome: "the container stays up", Risk: "a leak only takes longer to reach the limit",
	}
	if !limited {
		first = Step{
			Action: "Give " + f.Mend().String() + " a memory request and limit, or move it to a node with more memory",
			Do:     doEdit, Outcome: "the node is not overcommitted any more", Risk: "the Pod may become unschedulable",
		}
	}
	return []Step{
		first,
		{Action: "Compare its memory use over time with the last rollout", Outcome: "tells a leak from a limit that is too small", Risk: "none: read only"},
		{Action: "Roll back if the use grew with the last rollout", Do: doUndo, Outcome: "the earlier use is back", Risk: "loses what the rollout brought"},
	}
}
