package compose

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/cluster/kube/kinds"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scene"
)

// doubt is a reason why what looks well is not proved to be.
type doubt struct {
	// says is the hypothesis that it comes to, lacks what is not known by it, and why.
	says, lacks, why string
	seen             []scene.Observation
	test             nightcrier.Falsification
	// step is what tells, with its command, if there is one.
	step, command string
	// beside is set when it says nothing of a target that does not look well.
	beside bool
}

// doubtAllClear lists what keeps a report without findings from saying that all is well,
// the gravest first.
func (a *assembler) doubtAllClear() (all []doubt) {
	if a.f.Hearsay && !a.f.TargetGone {
		return nil // nothing was looked at, which is said elsewhere
	}
	all = append(all, a.doubtGone()...)
	all = append(all, a.doubtOwnWords()...)
	all = append(all, a.doubtNodes()...)
	all = append(all, a.doubtWarnings()...)
	all = append(all, a.doubtUnderWay()...)
	return append(all, a.doubtCoverage()...)
}

// doubtGone: that something does not exist shows that its fault is over only where it was
// seen to exist; a name that leads nowhere may be a wrong name.
func (a *assembler) doubtGone() []doubt {
	f := a.f
	if !f.TargetGone || f.SeenHere || f.Target.Kind == "Pod" && f.IsMakerShown() {
		return nil
	}
	d := doubt{
		says:  f.Target.String() + " does not exist in the cluster that was asked, and nothing shows that it ever did: its fault may be over, or be of another object.",
		lacks: "what the event is about", why: "no object has the name that it gives; its labels may name who reports, or another namespace",
		test: scene.ListTest(f.Target.Namespace, strings.ToLower(f.Target.Kind)).DecidesBetween("nothing of that name, or of a name like it, is there", "it is there"),
		step: "Find the object that is meant: look for " + f.Target.Name + " in all namespaces, and at the labels of the alert",
	}
	if f.Target.Kind == "Pod" && f.Owner != f.Target {
		d.says = fmt.Sprintf("%s does not exist any more. By its name %s made it, and that is well; nothing shows that it did.", f.Target, f.Mend())
		d.lacks, d.why = "what made "+f.Target.String(), "neither a ReplicaSet nor another Pod tells to what it belonged"
		d.step = "Find out what made " + f.Target.String() + ", and whether that is well"
	}
	if k, known := kinds.Named(f.Target.Kind); known && scene.IsPlainName(f.Target.Name) && !k.ClusterWide {
		d.command = "kubectl get " + strings.ToLower(k.Name) + " -A --field-selector=metadata.name=" + f.Target.Name
	}
	return []doubt{d}
}

// doubtOwnWords: what says of itself that it is not as it should be is not well, whatever
// its Pods are.
func (a *assembler) doubtOwnWords() (all []doubt) {
	f := a.f
	target := scene.ObjectOf(f.Target)
	for _, o := range f.Scene.SelfComplaints() {
		if o.Object != target && !(f.IsWholeTarget() && isWithinTarget(f, o.Object)) {
			continue
		}
		all = append(all, doubt{
			says:  fmt.Sprintf("%s says of itself that it is not well (%s); no rule knows why.", o.Object, o.Seen.Quote),
			lacks: "why " + o.Object.String() + " is not well", why: "it is of a kind that the rules know nothing of",
			seen: []scene.Observation{o.Seen},
			test: scene.DescribeTest(o.Object).DecidesBetween("its conditions say that it is not well", "they say that it is"),
			step: "Read the status of " + o.Object.String() + ", and the log of the operator that keeps it", command: scene.DoLook.Command(o.Object),
		})
	}
	return all
}

// doubtNodes: a node is well when it is ready, has been for a while, and reports no problem.
func (a *assembler) doubtNodes() (all []doubt) {
	f := a.f
	nodes := f.Nodes
	switch f.Target.Kind {
	case scene.ClusterKind:
		nodes = f.Scene.Nodes
	case "Node":
	default:
		return nil
	}
	for _, n := range nodes {
		o := nightcrier.Object{Kind: "Node", Name: n.Object.Name}
		test := scene.DescribeTest(nightcrier.Object{Kind: "Node", Name: o.Name})
		for _, c := range n.Object.Status.Conditions {
			seen := scene.Observation{Text: fmt.Sprintf("%s has condition %s=%s", o, c.Type, c.Status), Quote: strings.TrimSpace(c.Reason + ": " + c.Message), Ref: n.Ref}
			d := doubt{seen: []scene.Observation{seen}, step: "Look at " + o.String() + " by hand: its conditions, and the log of its kubelet since then", command: scene.DoLook.Command(o)}
			switch ready := c.Type == corev1.NodeReady; {
			case ready == (c.Status != corev1.ConditionTrue):
				d.says = fmt.Sprintf("%s reports %s=%s (%s); what it does to its Pods is not known.", o, c.Type, c.Status, seen.Quote)
				d.lacks, d.why = "what "+string(c.Type)+" of "+o.String()+" comes from", "only the node itself shows it"
				d.test = test.DecidesBetween("the condition is still there", "it is gone")
			case ready && f.Target.Kind == "Node" && !scene.HasLasted(c.LastTransitionTime, f.Now, scene.SettleTime):
				until := c.LastTransitionTime.Add(scene.SettleTime)
				a.r.LookAgainAt = until.UTC()
				d.says = fmt.Sprintf("%s is ready again since %s; what comes and goes is believed when it has lasted until %s.", o, timeOfDay(c.LastTransitionTime.Time), timeOfDay(until))
				d.lacks, d.why = "whether "+o.String()+" stays ready", "it has been for "+spanText(f.Now.Sub(c.LastTransitionTime.Time))
				d.test = test.DecidesBetween("it is not ready, or was not in between", "it has been ready since")
				d.step = "Look again at " + timeOfDay(until) + " whether " + o.String() + " has stayed ready"
			default:
				continue
			}
			all = append(all, d)
		}
	}
	return all
}

// doubtWarnings: a fresh warning is no more than noise where what it is about was looked at
// and is well. Of kinds that no rule knows, nobody looked.
func (a *assembler) doubtWarnings() (all []doubt) {
	f := a.f
	told := map[nightcrier.Object]bool{}
	for _, e := range f.Events {
		i := e.Object.InvolvedObject
		o := nightcrier.Object{Kind: i.Kind, Namespace: i.Namespace, Name: i.Name}
		if k, known := kinds.Named(i.Kind); known && k.Use == kinds.Read || i.Kind == "" || e.Object.Type != corev1.EventTypeWarning || !f.IsFresh(e) || told[o] || f.Scene.SaysItIsWell(o, scene.EventLastSeen(&e.Object)) {
			continue
		}
		told[o] = true
		seen := scene.ObserveEvent(e)
		all = append(all, doubt{
			says:  fmt.Sprintf("%s is warned about (%s: %s), and its own state was not read.", o, e.Object.Reason, e.Object.Message),
			lacks: "the state of " + o.String(), why: "it is of a kind that was not read",
			seen: []scene.Observation{seen},
			test: scene.DescribeTest(o).DecidesBetween("its status says that it is not well", "it says that it is"),
			step: "Read the status of " + o.String() + ", which warns: " + e.Object.Message, command: scene.DoLook.Command(o),
		})
	}
	return all
}

// doubtUnderWay: what has only begun is neither well nor a fault. From when on it is one is
// known, and so when to look again.
func (a *assembler) doubtUnderWay() (all []doubt) {
	f := a.f
	everything := f.Others
	if !f.IsWholeTarget() {
		everything = []*scene.Facts{f}
	}
	list := f.Scene.UnderWay()
	for _, w := range everything {
		told := slices.ContainsFunc(list, func(p scene.Progress) bool { return p.Object == w.Mend() })
		if !told && w.JudgeStanding() == scene.StandsComingUp {
			list = append(list, w.ComesUp())
		}
	}
	below := a.graph.ReachFrom(f.Mend(), scene.ByMake)
	for _, p := range list {
		_, under := below[p.Object]
		if p.Object != f.Mend() && p.Object != scene.ObjectOf(f.Target) && !under && !(f.IsWholeTarget() && isWithinTarget(f, p.Object)) {
			continue
		}
		if until := p.Until.UTC(); a.r.LookAgainAt.IsZero() || until.Before(a.r.LookAgainAt) {
			a.r.LookAgainAt = until
		}
		all = append(all, doubt{
			says: fmt.Sprintf("%s is in progress: since %s (%s) it waits for %s (%s). From %s on that counts as a fault.",
				p.Object, timeOfDay(p.Since), spanText(f.Now.Sub(p.Since)), p.Waits, p.Seen.Quote, timeOfDay(p.Until)),
			lacks: "how " + p.Object.String() + " comes out", why: "it has been under way for " + spanText(f.Now.Sub(p.Since)) + " only",
			seen: []scene.Observation{p.Seen},
			test: scene.DescribeTest(p.Object).DecidesBetween("it still waits for it", "it has come to its end"),
			step: "Look again at " + timeOfDay(p.Until) + ": " + p.Object.String() + " waits for " + p.Waits, command: scene.DoLook.Command(p.Object),
		})
	}
	return all
}

// shownByState are the faults whose end the state of objects shows: of any other a cluster
// may look well as long as it lasts.
var shownByState = []string{
	nightcrier.Asked, nightcrier.FaultCrashLoop, nightcrier.FaultPodCrash, nightcrier.FaultOOMKilled, nightcrier.FaultImagePull, nightcrier.FaultStart,
	nightcrier.FaultProbe, nightcrier.FaultPodNotReady, nightcrier.FaultUnavailable, nightcrier.FaultDeployment, nightcrier.FaultCreate,
	nightcrier.FaultScaling, nightcrier.FaultScalingLimited, nightcrier.FaultNamespaceStuck, nightcrier.FaultUnschedulable, nightcrier.FaultEvicted,
	nightcrier.FaultPreempted, nightcrier.FaultMount, nightcrier.FaultProvisioning, nightcrier.FaultJob, nightcrier.FaultMissedSchedule, nightcrier.FaultNodeUnhealthy,
	nightcrier.FaultAPIService,
}

// speaksOfDegree matches what an alert says that measures how much of something is used up,
// which no condition shows before it is.
var speaksOfDegree = scene.NewPattern(`(?i)fill|almost|nearly|utili[sz]ation|%|percent|predict|inode`)

// isShownByState reports whether the state of objects shows that what the sender says is
// over.
func isShownByState(e nightcrier.Event) bool {
	id := e.FaultType
	if t, known := nightcrier.FaultTypeCalled(id); known {
		id = t.ID
	}
	switch id {
	case nightcrier.FaultNodePressure:
		return !speaksOfDegree.MatchString(e.Context)
	case nightcrier.FaultService, nightcrier.FaultWebhook: // who watches objects means their endpoints; an alert was measured
		return e.Dialect != "alertmanager"
	}
	return id == "" || slices.Contains(shownByState, id)
}

// doubtCoverage: the sender complains of something that is not among what was looked at,
// and has not taken it back.
func (a *assembler) doubtCoverage() []doubt {
	e := a.in.Event
	if isShownByState(e) || e.Cleared || a.in.Incident.Condition == nightcrier.ConditionCleared {
		return nil
	}
	said, _, _ := strings.Cut(strings.TrimSpace(e.Context), "\n")
	if said == "" {
		said = e.FaultType
	}
	d := doubt{
		says: fmt.Sprintf("Nothing was found wrong, but the sender still says so: “%s” What was looked at is well (%s), which does not show that this is over.",
			a.cleanText(said, scene.MaxQuote), a.describeLooked()),
		lacks: "whether " + e.FaultType + " is over", why: "the state of objects does not show it; what does is what the sender measured, traces, or the log of the requests concerned",
		test:   scene.DescribeTest(scene.ObjectOf(a.f.Target)).DecidesBetween("its state and events name no cause", "they name one"),
		step:   fmt.Sprintf("Look at what %s measures, of %s and of what it calls, since before it began: errors, duration and saturation", e.FaultType, a.f.Mend()),
		beside: true,
	}
	if meta, _ := a.f.Scene.WorkloadOf(a.f.Mend()); meta != nil {
		d.command = scene.DoReadLog.Command(a.f.Mend())
	}
	return []doubt{d}
}

func timeOfDay(t time.Time) string { return t.UTC().Format("15:04:05 UTC") }

func spanText(d time.Duration) string { return d.Round(time.Second).String() }

// describeLooked counts what was looked at.
func (a *assembler) describeLooked() string {
	all := a.f.Others
	if !a.f.IsWholeTarget() {
		all = []*scene.Facts{a.f}
		behind := a.graph.ReachFrom(a.f.Mend(), scene.ByMake)
		for _, o := range a.f.Others { // of a Service its Pods are looked at
			if _, leads := behind[o.Mend()]; leads {
				all = append(all, o)
			}
		}
	}
	workloads, pods, ready := 0, 0, 0
	for _, f := range all {
		if f.Replicas.Total > 0 {
			workloads++
			pods, ready = pods+f.Replicas.Total, ready+f.Replicas.Ready
		}
	}
	return fmt.Sprintf("%d of %d Pods of %d workloads are ready; %d logs were read", ready, pods, workloads, len(a.f.Scene.Logs))
}

// factsOf notes what a doubt rests on, and returns the ids.
func (a *assembler) factsOf(d doubt) (ids []string) {
	for _, o := range d.seen {
		if id := a.addFact(o, nightcrier.Seen); id != "" {
			ids = append(ids, id)
		}
	}
	return ids
}

// noteUnknowns says of a report that names no cause what would have to be known.
func (a *assembler) noteUnknowns() {
	for _, d := range a.doubts[:min(len(a.doubts), maxHypotheses)] {
		a.r.NotChecked = append(a.r.NotChecked, nightcrier.NotChecked{What: a.cleanText(d.lacks, scene.MaxText), Why: a.cleanText(d.why, scene.MaxText)})
	}
	if a.r.RootCause != nil && !a.f.Hearsay && !saysWhy(a.findings[0]) {
		n := a.findings[0]
		a.r.NotChecked = append(a.r.NotChecked, nightcrier.NotChecked{
			What: a.cleanText("why "+n.Object.String()+" is so", scene.MaxText), Why: a.cleanText("what was read shows that "+n.Entry.Meaning+", and not what brings it about", scene.MaxText),
		})
	}
	if a.r.Verdict == nightcrier.VerdictUndetermined && len(a.r.NotChecked) == 0 {
		a.r.NotChecked = append(a.r.NotChecked, nightcrier.NotChecked{
			What: a.cleanText("why "+a.f.Mend().String()+" is as it is", scene.MaxText), Why: "what was read carries no cause that the rules know; its own metrics, traces and full logs were not",
		})
	}
}

// stepsOfDoubts are what tells whether all is well.
func (a *assembler) stepsOfDoubts() {
	for i, d := range a.doubts[:min(len(a.doubts), maxActions)] {
		a.r.Actions = append(a.r.Actions, nightcrier.Action{
			Priority: i + 1, Action: a.cleanText(d.step, scene.MaxText), Command: d.command, Outcome: "tells a fault that is over from one that is not seen from here", Risk: "none: read only",
		})
	}
}
