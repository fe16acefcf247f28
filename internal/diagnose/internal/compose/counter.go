package compose

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scene"
)

// counter is what was looked for that would refute a finding, and was there.
type counter struct {
	seen scene.Observation
	// at most is how sure the finding may still be.
	atMost nightcrier.Confidence
	// ask is what separates it from another explanation.
	ask, command string
	// until is until when it is watched.
	until time.Time
}

// counterFinding looks for what would refute a finding. A cause is certain only where
// nothing of it is there.
func (a *assembler) counterFinding(n scene.Finding) (all []counter) {
	if a.f.Hearsay {
		return nil
	}
	for _, look := range []func(scene.Finding) (counter, bool){a.imageRunsElsewhere, a.webhookAnswers, a.policyNotEnforced, a.isReadyAgain, a.endedBefore, a.cordonedBefore, a.memoryWasFree, a.autoscalerActs} {
		if c, found := look(n); found {
			all = append(all, c)
		}
	}
	return all
}

// imageRunsElsewhere: an image that another Pod runs exists, and somebody may pull it.
func (a *assembler) imageRunsElsewhere(n scene.Finding) (counter, bool) {
	if n.Cause != "image-not-found" && n.Cause != "image-pull-unauthorized" {
		return counter{}, false
	}
	pulls := map[string]*scene.Read[corev1.Pod]{}
	s := a.f.Scene
	for p := range s.PodsBelow(n.Object) {
		for _, c := range scene.PodContainers(p) {
			if reason, _ := c.WaitingReason(); strings.Contains(reason, "Image") {
				pulls[c.Spec.Image] = p
			}
		}
	}
	for i := range s.Pods {
		p := &s.Pods[i]
		for _, c := range scene.PodContainers(p) {
			waits := pulls[c.Spec.Image]
			if running := c.Status.State.Running; waits == nil || running == nil || c.Spec.Image == "" || scene.HasLasted(running.StartedAt, a.f.Now, 24*time.Hour) {
				continue // what was pulled long ago may be gone since
			}
			return counter{
				seen:   scene.Observation{Text: fmt.Sprintf("%s runs the same image on node %s", c, p.Object.Spec.NodeName), Quote: "image=" + c.Spec.Image, Ref: p.Ref},
				atMost: nightcrier.Medium,
				ask: fmt.Sprintf("Find out what node %s lacks that node %s has: %s runs the same image, so that it exists and can be pulled there; look at the node's credential and its way to the registry",
					waits.Object.Spec.NodeName, p.Object.Spec.NodeName, c),
				command: scene.DoLook.Command(nightcrier.Object{Kind: "Node", Name: waits.Object.Spec.NodeName}),
			}, waits.Object.Spec.NodeName != p.Object.Spec.NodeName
		}
	}
	return counter{}, false
}

// webhookAnswers: a webhook whose Pods are ready is not simply down.
func (a *assembler) webhookAnswers(n scene.Finding) (counter, bool) {
	if n.Cause != "admission-webhook-unavailable" {
		return counter{}, false
	}
	s := a.f.Scene
	for w := range s.AllWebhooks() {
		ref := w.Service
		if w.Object.Name != n.Object.Name || ref == nil {
			continue
		}
		svc := scene.FindObject(s.Services, ref.Namespace, ref.Name)
		if svc == nil {
			continue
		}
		for _, p := range s.PodsBehind(&svc.Object) {
			if scene.IsPodWell(p, a.f.Now) {
				o := scene.PodState(*p)
				o.Text = "behind the webhook's Service " + ref.Name + " " + o.Text
				return counter{seen: o, atMost: nightcrier.Medium,
					ask:     fmt.Sprintf("See why the API server does not reach %s, whose Pod %s is ready: port, certificate (caBundle) and NetworkPolicies", scene.ServiceObject(&svc.Object), p.Object.Name),
					command: scene.DoLook.Command(scene.ServiceObject(&svc.Object))}, true
			}
		}
	}
	return counter{}, false
}

// What makes the network of Pods: those that enforce no NetworkPolicy, and those that do.
var (
	lenientNetwork = scene.NewPattern(`flannel`)
	strictNetwork  = scene.NewPattern(`calico|cilium|canal|weave|kube-router|antrea|ovn|romana|aws-node|azure-npm|kindnet|nsx|policy`)
)

// policyNotEnforced: where no plug-in in sight enforces them, policies deny nothing.
func (a *assembler) policyNotEnforced(n scene.Finding) (counter, bool) {
	if n.Cause != "network-policy-denies" {
		return counter{}, false
	}
	var lenient *scene.Observation
	for _, d := range a.f.Scene.DaemonSets {
		switch name := d.Object.Name; {
		case strictNetwork.MatchString(name):
			return counter{}, false
		case lenientNetwork.MatchString(name):
			lenient = &scene.Observation{Text: "DaemonSet " + name + " makes the network of Pods, and enforces no NetworkPolicy", Quote: name, Ref: d.Ref}
		}
	}
	if lenient == nil {
		return counter{}, false
	}
	return counter{seen: *lenient, atMost: nightcrier.Low, ask: "See whether anything in the cluster enforces NetworkPolicies; if nothing does, the cause is another", command: "kubectl get daemonsets -A"}, true
}

// isReadyAgain: what has ended a few times and is ready again is watched. It is history as
// likely as it is a fault.
func (a *assembler) isReadyAgain(n scene.Finding) (counter, bool) {
	if n.Entry.Category != "Pod" {
		return counter{}, false
	}
	c := counter{atMost: nightcrier.Medium}
	s := a.f.Scene
	for p := range s.PodsBelow(n.Object) {
		if scene.IsFinished(&p.Object) || p.Object.DeletionTimestamp != nil {
			continue
		}
		if !scene.IsPodReady(&p.Object) {
			return counter{}, false
		}
		if n.Cause == "readiness-probe-failing" { // nothing has ended
			if until := scene.PodReadyAt(&p.Object).Add(scene.SettleTime); until.After(a.f.Now) && until.After(c.until) {
				c.until = until
				c.seen = scene.Observation{
					Text:  fmt.Sprintf("Pod %s is ready again since %s; it is watched until %s", p.Object.Name, timeOfDay(scene.PodReadyAt(&p.Object)), timeOfDay(until)),
					Quote: "type=Ready", Ref: p.Ref,
				}
			}
			continue
		}
		for _, ct := range scene.PodContainers(p) {
			end := ct.LastTermination()
			if end == nil || ct.HasRecovered(a.f.Now) && a.f.Now.Sub(end.FinishedAt.Time) > scene.SettleTime {
				continue
			}
			if ct.Status.RestartCount >= scene.OftenRestarts {
				return counter{}, false // it is ready between two ends
			}
			if until := end.FinishedAt.Add(scene.SettleTime); until.After(c.until) {
				c.until = until
				c.seen = scene.Observation{
					Text:  fmt.Sprintf("%s is ready again since %s, %s after it ended; it is watched until %s", ct, timeOfDay(scene.PodReadyAt(&p.Object)), spanText(scene.PodReadyAt(&p.Object).Sub(end.FinishedAt.Time)), timeOfDay(until)),
					Quote: fmt.Sprintf("restartCount=%d", ct.Status.RestartCount), Ref: p.Ref,
				}
			}
		}
	}
	if r, known := s.ReplicasOf(n.Object); c.until.IsZero() || known && r.Ready < r.Want {
		return counter{}, false
	}
	c.ask = "Look again at " + timeOfDay(c.until) + " whether " + n.Object.String() + " has stayed ready: it is ready again now"
	c.command = scene.DoLook.Command(n.Object)
	return c, true
}

// longBefore is how much older than a fault a cordon is that did not bring it about alone.
const longBefore = 24 * time.Hour

// unschedulableOf tells how many of all nodes the scheduler finds cordoned.
var unschedulableOf = scene.NewPattern(`^0/(\d{1,6}) nodes are available:.*?(\d{1,6}) node\(s\) were unschedulable`)

// cordonedBefore: nodes that were closed long before the trouble began, and are the fewer of
// those that do not fit, are not what changed. Where they are the only ones that would fit,
// their age refutes nothing.
func (a *assembler) cordonedBefore(n scene.Finding) (counter, bool) {
	if n.Cause != "unschedulable-cordoned" || !a.othersFitLess(n.Object) {
		return counter{}, false
	}
	broke := a.firstSign(n.Object)
	for _, node := range a.f.Scene.Nodes {
		for _, t := range node.Object.Spec.Taints {
			if t.Key != corev1.TaintNodeUnschedulable || t.TimeAdded == nil || broke.Sub(t.TimeAdded.Time) < longBefore {
				continue
			}
			return counter{
				seen:   scene.Observation{Text: fmt.Sprintf("Node %s is cordoned since %s, long before the first sign of trouble", node.Object.Name, t.TimeAdded.UTC().Format(time.RFC3339)), Quote: t.Key, Ref: node.Ref},
				atMost: nightcrier.Medium,
				ask:    "Find out what has changed since: Node " + node.Object.Name + " was cordoned long before", command: scene.DoLook.Command(nightcrier.Object{Kind: "Node", Name: node.Object.Name}),
			}, true
		}
	}
	return counter{}, false
}

// othersFitLess reports whether the scheduler rules out as many nodes for other reasons as
// for a cordon.
func (a *assembler) othersFitLess(o nightcrier.Object) bool {
	for p := range a.f.Scene.PodsBelow(o) {
		m := unschedulableOf.FindStringSubmatch(scene.SchedulerMessage(&p.Object))
		if m == nil {
			continue
		}
		all, _ := strconv.Atoi(m[1]) // of a few digits, by the pattern
		closed, _ := strconv.Atoi(m[2])
		return 2*closed <= all
	}
	return false
}

// forWantOfRoom are the causes that more nodes would mend.
var forWantOfRoom = []string{"unschedulable-cpu", "unschedulable-memory", "unschedulable-pod-limit", "unschedulable-resource"}

// autoscalerActs: where something adds nodes, that there is no room is not why there is none.
func (a *assembler) autoscalerActs(n scene.Finding) (counter, bool) {
	if !slices.Contains(forWantOfRoom, n.Cause) {
		return counter{}, false
	}
	s := a.f.Scene
	for p := range s.PodsBelow(n.Object) {
		if scene.SchedulerMessage(&p.Object) == "" {
			continue
		}
		for e := range s.EventsAbout("Pod", p.Object.Namespace, p.Object.Name) {
			if scene.IsOfAutoscaler(&e.Object) && s.IsFresh(e) {
				return counter{
					seen: scene.ObserveEvent(e), atMost: nightcrier.Medium,
					ask:     fmt.Sprintf("Find out why no node is added for Pod %s: %s", p.Object.Name, e.Object.Message),
					command: scene.DoLook.Command(nightcrier.Object{Kind: "Pod", Namespace: p.Object.Namespace, Name: p.Object.Name}),
				}, true
			}
		}
	}
	return counter{}, false
}

// Bounds of what is measured of a container that was killed for its memory.
const (
	enoughPoints = 5
	nearLimit    = 0.5 // a peak between two measurements may reach the limit from there
)

// memoryWasFree: what was measured well below the limit all the time may have been killed by
// something else, or in one leap.
func (a *assembler) memoryWasFree(n scene.Finding) (counter, bool) {
	if n.Cause != "oom-killed" {
		return counter{}, false
	}
	for p := range a.f.Scene.PodsBelow(n.Object) {
		for _, c := range scene.PodContainers(p) {
			m, points := a.f.MeasuredOf(c, func(m scene.Measured) []scene.Point { return m.Memory })
			limit := c.Spec.Resources.Limits.Memory()
			if len(points) < enoughPoints || limit.IsZero() || c.LastTermination() == nil {
				continue
			}
			most := slices.MaxFunc(points, func(x, y scene.Point) int { return cmp.Compare(x.Value, y.Value) })
			share := most.Value / limit.AsApproximateFloat64()
			if share >= nearLimit {
				return counter{}, false
			}
			return counter{
				seen:    scene.Observation{Text: fmt.Sprintf("the memory of %s was never measured above %.0f %% of its limit of %s", c, 100*share, limit), Quote: most.Text, Ref: m.Ref},
				atMost:  nightcrier.Medium,
				ask:     fmt.Sprintf("Read in the kernel log of node %s which process was killed, and how large it was: %s was never measured above %.0f %% of its limit", p.Object.Spec.NodeName, c, 100*share),
				command: scene.DoLook.Command(nightcrier.Object{Kind: "Node", Name: p.Object.Spec.NodeName}),
			}, true
		}
	}
	return counter{}, false
}

// endedLongBefore is how much older than a fault the last end of a container is that has
// little to do with it.
const endedLongBefore = 30 * time.Minute

// ofEnds are causes that say that containers end.
var ofEnds = []string{"container-crash", "crash-on-start", "liveness-probe-failing", "main-process-exits", "oom-killed", "startup-probe-failing"}

// endedBefore: containers that have run since long before the sender says that the fault
// began did not bring it about by ending.
func (a *assembler) endedBefore(n scene.Finding) (counter, bool) {
	began := a.in.Event.OccurredAt
	if !slices.Contains(ofEnds, n.Cause) || began.IsZero() || a.in.Event.FaultType == nightcrier.Asked {
		return counter{}, false
	}
	var c counter
	var last time.Time
	for p := range a.f.Scene.PodsBelow(n.Object) {
		if scene.IsFinished(&p.Object) {
			continue
		}
		if !scene.IsPodReady(&p.Object) {
			return counter{}, false
		}
		for _, ct := range scene.PodContainers(p) {
			if end := ct.LastTermination(); end != nil && end.FinishedAt.After(last) {
				last = end.FinishedAt.Time
				c.seen = scene.Observation{Text: fmt.Sprintf("%s ended last at %s, %s before the fault is said to have begun", ct, timeOfDay(last), spanText(began.Sub(last))), Quote: last.UTC().Format(time.RFC3339), Ref: p.Ref}
			}
		}
	}
	if last.IsZero() || began.Sub(last) < endedLongBefore {
		return counter{}, false
	}
	c.atMost = nightcrier.Medium
	c.ask = fmt.Sprintf("Find out what is wrong with %s at present: its containers have run since before the fault began", n.Object)
	c.command = scene.DoReadLog.Command(n.Object)
	return c, true
}

// weighFindings looks for what speaks against each finding that is told, and makes those
// less sure against which something does.
func (a *assembler) weighFindings() {
	a.findings = slices.Clone(a.findings)
	a.counters = make([][]counter, len(a.findings))
	for i := range a.findings[:min(len(a.findings), maxHypotheses)] {
		n := &a.findings[i]
		*n = capSymptom(*n)
		a.counters[i] = a.counterFinding(*n)
		for _, c := range a.counters[i] {
			if c.atMost.Probability() < n.Confidence.Probability() {
				n.Confidence = c.atMost
			}
			if i == 0 && !c.until.IsZero() {
				a.r.LookAgainAt = c.until.UTC()
				n.Summary = strings.TrimSuffix(n.Summary, ".") + ". " + strings.ToUpper(c.seen.Text[:1]) + c.seen.Text[1:] + "."
			}
		}
	}
}

// askFirst is the first step where something speaks against the cause: what decides.
func (a *assembler) askFirst() {
	if len(a.counters) == 0 || len(a.counters[0]) == 0 {
		return
	}
	c := a.counters[0][0]
	a.r.Actions = append(a.r.Actions, nightcrier.Action{
		Priority: 1, Action: a.cleanText(c.ask, scene.MaxText), Command: c.command, Outcome: "decides whether it is this cause", Risk: "none: read only",
	})
}
