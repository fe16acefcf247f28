package compose

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scene"
	"nightcrier.dev/nightcrier/internal/text"
)

// Bounds of the report.
const (
	maxFacts      = 12
	maxHypotheses = 3
	maxActions    = 3
)

// Case is what a report is about.
type Case struct {
	Incident *nightcrier.Incident
	// Event is the one that opened the incident.
	Event nightcrier.Event
	// Mask hides secrets.
	Mask func(string) string
}

// assembler makes a report of facts and findings. Every text that goes into it
// passes clean.
type assembler struct {
	in       Case
	f        *scene.Facts
	findings []scene.Finding
	graph    scene.Graph
	// hit are the objects that the trouble touches: see trouble.
	hit []nightcrier.Object
	r   nightcrier.Report
}

// AssembleReport makes the report of what was found and of what could not be read.
func AssembleReport(in Case, f *scene.Facts, found Composition, missed []nightcrier.NotChecked, permissions map[string]any) nightcrier.Report {
	a := &assembler{in: in, f: f, findings: found.Findings, graph: found.graph}
	a.r = nightcrier.Report{
		Schema: nightcrier.ReportSchema, IncidentID: in.Incident.ID, Cluster: in.Incident.Cluster,
		CreatedAt: f.Now.UTC(), Source: "builtin", Executor: "builtin", Valid: true,
		NotChecked: missed, Permissions: permissions,
		Problems: []string{}, SandboxLayers: []string{}, Changes: []nightcrier.Change{}, Actions: []nightcrier.Action{},
	}
	if a.r.NotChecked == nil {
		a.r.NotChecked = []nightcrier.NotChecked{}
	}
	a.r.Target = a.cleanObject(f.Mend())
	a.decideVerdict()
	a.listHypotheses()
	a.addContext()
	a.addInferences()
	a.addActions()
	a.addChanges()
	a.addScope(found)
	a.addConsequences(found)
	a.hit = a.trouble(found)
	a.rateSeverity()
	a.r.CheckedShare = checkedShare(a.r.Facts)
	return a.r
}

// cleanText makes text from outside fit for the report.
func (a *assembler) cleanText(s string, n int) string {
	return text.CutMiddle(text.MaskClean(s, a.in.Mask, text.FoldLine), n)
}

// cleanObject returns an object whose name is as unclean as any other text.
func (a *assembler) cleanObject(o nightcrier.Object) nightcrier.Object {
	return nightcrier.Object{
		Kind: a.cleanText(o.Kind, scene.MaxQuote), Namespace: a.cleanText(o.Namespace, scene.MaxQuote), Name: a.cleanText(o.Name, scene.MaxQuote),
	}
}

// decideVerdict decides what the findings come to and names the root cause.
func (a *assembler) decideVerdict() {
	switch {
	case a.f.Hearsay && goneForGood(a.f), len(a.findings) == 0 && a.isTargetWell():
		a.findings = nil // what the event said of something that is gone
		a.r.Verdict = nightcrier.VerdictRecovered
		if !a.hasTraces() {
			a.r.Verdict = nightcrier.VerdictHealthy
		}
	case len(a.findings) == 0, a.findings[0].Confidence == nightcrier.Low, a.f.Doubt != "": // no more than a guess
		a.r.Verdict = nightcrier.VerdictUndetermined
	default:
		top := a.findings[0]
		a.r.Verdict = nightcrier.VerdictFault
		a.r.RootCause = &nightcrier.RootCause{
			Cause: top.Cause, Object: a.cleanObject(top.Object), Summary: a.cleanText(top.Summary, scene.MaxText), Confidence: a.confidenceOf(top),
		}
	}
}

// confidenceOf is a finding's own, one step lower when nobody but the event's
// sender says so.
func (a *assembler) confidenceOf(n scene.Finding) nightcrier.Confidence {
	switch {
	case !a.f.Hearsay:
		return n.Confidence
	case n.Confidence == nightcrier.High:
		return nightcrier.Medium
	}
	return nightcrier.Low
}

// isTargetWell reports whether what the incident is about needs no mending now.
func (a *assembler) isTargetWell() bool {
	f := a.f
	switch {
	case f.Hearsay:
		return false
	case f.IsWholeTarget():
		return f.TargetGone || f.OwnerRead && workloadsRead(f) && len(f.Others) > 0 && !slices.ContainsFunc(f.Others, func(o *scene.Facts) bool { return !o.IsWell() })
	case f.Owner.Kind == "CronJob":
		return workloadsRead(f) && f.IsWell()
	case f.Owner.Kind == "Service", f.Owner.Kind == "Ingress":
		return a.behindIsWell()
	case f.Owner.Kind == "HorizontalPodAutoscaler":
		return f.ScalerIsWell() && a.behindIsWell()
	case f.Owner.Kind == "PersistentVolumeClaim":
		return claimIsWell(f)
	case f.Job != nil:
		return scene.FindJobCondition(f.Job.Object, batchv1.JobComplete) != nil || f.JobWorks()
	case f.Target.Kind == "Node":
		return len(f.Nodes) > 0 || f.TargetGone
	case len(f.Pods) == 0 && f.Owner == f.Target:
		return f.TargetGone
	}
	return f.IsWell() && f.IsOwnerKnown()
}

// behindIsWell reports whether the target was read, no rule found it wrong, and the
// workloads that it leads to are well, of which there is one at least.
func (a *assembler) behindIsWell() bool {
	behind := a.graph.ReachFrom(a.f.Mend(), scene.ByMake)
	found := false
	for _, o := range a.f.Others {
		if _, leads := behind[o.Mend()]; leads {
			if found = true; !o.IsWell() {
				return false
			}
		}
	}
	return found && a.f.OwnerRead && a.f.Scene.Complete("Pod", a.f.Owner.Namespace) && workloadsRead(a.f)
}

// workloadKinds are what makes Pods.
var workloadKinds = []string{"Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "CronJob"}

// workloadsRead reports whether no workload can be missing among those that were read where
// the target is. Of very many Pods the first are enough: their workloads count them.
func workloadsRead(f *scene.Facts) bool {
	ns := f.Target.Namespace
	if f.Target.Kind == scene.NamespaceKind {
		ns = f.Target.Name
	}
	return f.Scene.Listed("Pod", ns) && !slices.ContainsFunc(workloadKinds, func(kind string) bool { return !f.Scene.Complete(kind, ns) })
}

// goneForGood reports whether the target is gone, and its fault with it. A Pod is replaced
// under another name: no workload that may have made it may be in trouble.
func goneForGood(f *scene.Facts) bool {
	if !f.TargetGone || f.Target.Kind != "Pod" || f.HomeGone {
		return f.TargetGone
	}
	return workloadsRead(f) && !slices.ContainsFunc(f.Scene.AllWorkloads(), func(o *scene.Facts) bool {
		return o.Owner.Namespace == f.Target.Namespace && strings.HasPrefix(f.Target.Name, o.Owner.Name+"-") && !o.IsWell()
	})
}

// claimIsWell reports whether the claim has its volume, or gets one when the first
// Pod that uses it is placed.
func claimIsWell(f *scene.Facts) bool {
	claim := scene.FindObject(f.Scene.Claims, f.Owner.Namespace, f.Owner.Name)
	switch {
	case claim == nil:
		return false
	case claim.Object.Status.Phase == corev1.ClaimBound:
		return true
	}
	return claim.Object.Status.Phase == corev1.ClaimPending && slices.ContainsFunc(f.Events, func(e scene.Read[corev1.Event]) bool {
		return e.Object.Reason == "WaitForFirstConsumer" && f.IsFresh(e)
	})
}

// hasTraces reports whether anything tells of an earlier fault.
func (a *assembler) hasTraces() bool {
	claimed := a.in.Event.FaultType
	if claimed != "" && claimed != nightcrier.Asked && (claimed != nightcrier.FaultProbe || !a.f.ReadySinceStart()) || a.f.TargetGone {
		return true
	}
	for _, f := range append([]*scene.Facts{a.f}, a.f.Others...) {
		for c := range f.AllContainers() {
			if c.Status.RestartCount > 0 && (f == a.f || a.f.IsWholeTarget()) {
				return true
			}
		}
	}
	return false
}

// listHypotheses lists the best findings with their facts, and where there are none
// what to look at next.
func (a *assembler) listHypotheses() {
	a.r.Hypotheses = []nightcrier.Hypothesis{}
	for i, n := range a.findings[:min(maxHypotheses, len(a.findings))] {
		h := nightcrier.Hypothesis{
			ID: fmt.Sprintf("H%d", i+1), Cause: n.Cause, Object: a.cleanObject(n.Object), Statement: a.cleanText(n.Summary, scene.MaxText),
			Confidence: a.confidenceOf(n), For: []string{}, Against: []string{}, Falsification: n.Test,
		}
		if i > 0 && n.Object != a.findings[0].Object {
			h.Statement = a.cleanText("Independent of H1: "+n.Summary, scene.MaxText)
		}
		for _, o := range n.Observed {
			if id := a.addFact(o, a.checkOfRules()); id != "" {
				h.For = append(h.For, id)
			}
		}
		a.r.Hypotheses = append(a.r.Hypotheses, h)
	}
	if len(a.findings) == 0 {
		a.r.Hypotheses = append(a.r.Hypotheses, a.nothingFound())
	}
}

// nothingFound is the hypothesis of a report whose rules found no cause.
func (a *assembler) nothingFound() nightcrier.Hypothesis {
	h := nightcrier.Hypothesis{
		ID: "H1", Object: a.cleanObject(a.f.Mend()), Confidence: nightcrier.Low, For: []string{}, Against: []string{},
		Statement: "The cause is none that the rules know, or the cluster does not tell it.",
		Falsification: scene.DescribeTest(a.f.Target).
			DecidesBetween("its state and events name no cause", "they name one"),
	}
	if starts := a.onlyComesUp(); starts != "" {
		h.Statement = a.cleanText("Nothing is known to be wrong; "+starts+" is coming up, and was not judged.", scene.MaxText)
		h.Falsification = scene.DescribeTest(a.f.Target).DecidesBetween("it is ready and stays so", "something keeps it from getting ready")
	}
	gone := whatIsGone(a.f)
	switch {
	case a.f.Doubt != "":
		h.Statement = a.cleanText(a.f.Target.String()+" is gone, or was never in the cluster that was asked.", scene.MaxText)
	case isBare(a.f):
		h.Statement = a.cleanText("There is no workload in "+a.f.Target.String()+": nothing was found wrong, and nothing well.", scene.MaxText)
	case a.r.Verdict == nightcrier.VerdictUndetermined:
	case gone != "":
		h.Confidence = nightcrier.Medium
		h.Statement = a.cleanText(gone+" is gone, and with it what was wrong there.", scene.MaxText)
	default:
		h.Confidence = nightcrier.Medium
		h.Statement = a.cleanText(fmt.Sprintf("%s is well now; whatever was wrong has passed.%s", a.f.Mend(), a.describeNoise()), scene.MaxText)
		h.Falsification = scene.DescribeTest(a.f.Target).DecidesBetween("it is ready and does not restart", "it is not ready, or has restarted since")
	}
	return h
}

// onlyComesUp names what keeps the diagnosis from calling all well, where that is
// nothing but that it has only begun; "" where it is something else.
func (a *assembler) onlyComesUp() string {
	if a.r.Verdict != nightcrier.VerdictUndetermined || a.f.Hearsay || len(a.findings) > 0 {
		return ""
	}
	everything := a.f.Others
	if !a.f.IsWholeTarget() {
		everything = []*scene.Facts{a.f}
	}
	var starts []nightcrier.Object
	for _, f := range everything {
		switch f.JudgeStanding() {
		case scene.StandsComingUp:
			starts = append(starts, f.Mend())
		case scene.StandsWell:
		default:
			return ""
		}
	}
	return scene.NameSome(starts)
}

// describeNoise says of warnings about what is well that they are no more than that.
func (a *assembler) describeNoise() string {
	told := map[string]bool{}
	for _, e := range a.f.Events {
		if e.Object.Type == corev1.EventTypeWarning && a.f.IsFresh(e) {
			told[e.Object.Reason] = true
		}
	}
	if len(told) == 0 {
		return ""
	}
	return fmt.Sprintf(" Recent warnings (%s) name nothing that is wrong now.", strings.Join(slices.Sorted(maps.Keys(told)), ", "))
}

// checkOfRules says how far an observation of a rule is checked: its predicate was
// tested on what the cluster said, or only on what the sender claims.
func (a *assembler) checkOfRules() nightcrier.Check {
	if a.f.Hearsay {
		return nightcrier.Seen
	}
	return nightcrier.Verified
}

// addFact adds an observation, once, and returns its id, "" when the report is full.
func (a *assembler) addFact(o scene.Observation, check nightcrier.Check) string {
	n := nightcrier.Fact{
		Text: a.cleanText(o.Text, scene.MaxText), Quote: a.cleanText(o.Quote, scene.MaxQuote), Source: a.cleanText(o.Ref.Source, scene.MaxQuote),
		Evidence: []string{o.Ref.Evidence}, Check: check,
	}
	for _, old := range a.r.Facts {
		if old.Text == n.Text && old.Evidence[0] == n.Evidence[0] {
			return old.ID
		}
	}
	if len(a.r.Facts) >= maxFacts {
		return ""
	}
	n.ID = fmt.Sprintf("FACT-%d", len(a.r.Facts)+1)
	a.r.Facts = append(a.r.Facts, n)
	return n.ID
}

// addConsequences tells what follows from the root cause.
func (a *assembler) addConsequences(found Composition) {
	if a.r.RootCause == nil {
		return
	}
	for _, c := range found.Consequences {
		a.r.Consequences = append(a.r.Consequences, nightcrier.Consequence{
			Cause: c.Cause, Object: a.cleanObject(c.Object), Statement: a.cleanText(c.Statement, scene.MaxText), Because: a.cleanObject(c.Because),
		})
	}
}

// addInferences says how the root cause follows from the facts.
func (a *assembler) addInferences() {
	a.r.Inferences = []nightcrier.Inference{}
	if len(a.findings) == 0 {
		return
	}
	top, h := a.findings[0], a.r.Hypotheses[0]
	a.r.Inferences = append(a.r.Inferences, nightcrier.Inference{
		ID: "INF-1", Text: cmp.Or(scene.MakeSentence(top.Entry.Meaning), h.Statement), BasedOn: h.For, Confidence: h.Confidence, WrongIf: a.cleanText(top.WrongIf, scene.MaxText),
	})
}

func (a *assembler) addActions() {
	switch {
	case a.r.Verdict == nightcrier.VerdictHealthy:
		a.r.Actions = append(a.r.Actions, nightcrier.Action{
			Priority: 1, Action: "Nothing needs mending here; if users still see something fail, look at what stands before or behind it",
			Outcome: "no time is spent on what works", Risk: "none: read only",
		})
		return
	case a.r.Verdict == nightcrier.VerdictRecovered:
		a.r.Actions = append(a.r.Actions, nightcrier.Action{
			Priority: 1, Action: "Nothing needs mending now; find out why it happened if it comes back",
			Outcome: "no time is spent on a fault that has passed", Risk: "a fault that comes and goes is found later",
		})
		return
	case a.f.Doubt != "":
		a.r.Actions = append(a.r.Actions, a.seekCluster())
		return
	case a.onlyComesUp() != "":
		a.r.Actions = append(a.r.Actions, nightcrier.Action{
			Priority: 1, Action: "Look again in some minutes: " + a.cleanText(a.onlyComesUp(), scene.MaxText) + " has only begun to start",
			Outcome: "tells a start from one that hangs", Risk: "none: read only",
		})
		return
	case len(a.findings) == 0:
		a.r.Actions = append(a.r.Actions, nightcrier.Action{
			Priority: 1, Action: "Look at " + a.cleanText(a.f.Mend().String(), scene.MaxQuote) + " by hand: its state, events and logs",
			Command: scene.DoLook.Command(a.f.Mend()), Outcome: "names the cause", Risk: "none: read only",
		})
		return
	}
	a.steps(a.findings[0])
}

// steps are what to do about a finding, each with the command for it: the first always,
// if only to look at what is to be mended.
func (a *assembler) steps(n scene.Finding) {
	about, meta := a.workloadToMend()
	for _, step := range n.Actions[:min(maxActions, len(n.Actions))] {
		if step.Do == scene.DoUndo && meta != nil && neverChanged(meta) && len(n.Actions) > 1 {
			continue
		}
		act := nightcrier.Action{Priority: len(a.r.Actions) + 1, Action: a.cleanText(step.Action, scene.MaxText), Outcome: step.Outcome, Risk: step.Risk}
		if first := len(a.r.Actions) == 0; first || step.Do != scene.DoLook || step.Command != "" {
			act.Command = command(step, n, about)
		}
		a.r.Actions = append(a.r.Actions, act)
	}
}

// command is the one for a step about a finding; about is the workload that it is about.
func command(s scene.Step, n scene.Finding, about nightcrier.Object) string {
	on := cmp.Or(s.On, n.Object)
	switch readsLog := strings.HasPrefix(n.Test.Command, "kubectl logs "); {
	case s.Command != "":
		return s.Command
	case s.Do == scene.DoUndo:
		on = about
	case readsLog && s.On == (nightcrier.Object{}) && (s.Do == scene.DoReadLog || s.Do == scene.DoLook): // what was found stands in that log
		return n.Test.Command
	}
	return s.Do.Command(on)
}

// workloadToMend is the workload that is to be mended, or that the incident is about, and
// what is known of it.
func (a *assembler) workloadToMend() (nightcrier.Object, *metav1.ObjectMeta) {
	if a.r.RootCause != nil {
		if meta, _ := a.f.Scene.WorkloadOf(a.findings[0].Object); meta != nil {
			return a.findings[0].Object, meta
		}
	}
	about := a.f.Mend()
	meta, _ := a.f.Scene.WorkloadOf(about)
	return about, meta
}

// neverChanged reports whether a workload is still in its first revision: there is
// nothing to roll back to.
func neverChanged(m *metav1.ObjectMeta) bool {
	return m.Generation == 1 || m.Annotations[revisionNote] == "1"
}

// addChanges adds what changed around the workload before it broke.
func (a *assembler) addChanges() {
	about, _ := a.workloadToMend()
	a.r.Changes = append(a.r.Changes, changesOf(a.f.Scene, about, a.firstSign(about), a.cleanText)...)
}

// firstSign is since when something is known to be wrong: since a Pod of the
// incident or of the workload to be mended is not ready, else since it was reported.
func (a *assembler) firstSign(about nightcrier.Object) time.Time {
	first := a.in.Incident.Timestamp
	if first.IsZero() {
		first = a.f.Now
	}
	look := func(p *corev1.Pod) {
		for _, c := range p.Status.Conditions {
			at := c.LastTransitionTime.Time
			if c.Type == corev1.PodReady && c.Status != corev1.ConditionTrue && !at.IsZero() && at.Before(first) {
				first = at
			}
		}
	}
	for _, p := range a.f.Pods {
		look(&p.Object)
	}
	for i := range a.f.Scene.Pods {
		if p := &a.f.Scene.Pods[i].Object; !scene.IsFinished(p) && p.Namespace == about.Namespace && a.f.Scene.WorkloadAbove("Pod", p) == about {
			look(p)
		}
	}
	return first
}

// rateSeverity says how bad it is and whom it touches.
func (a *assembler) rateSeverity() {
	a.r.Category = categoryOfKind(a.f.Target.Kind)
	if a.r.RootCause != nil {
		a.r.Category = a.findings[0].Entry.Category
	}
	a.r.Impact = a.rateImpact()
	a.r.Severity = ratePriority(a.in.Incident.Severity, a.r.Impact, a.isOutage())
	a.r.BlastRadius = map[string]any{
		"pods": a.f.Replicas.Total, "notReadyPods": a.f.Replicas.NotReady(), "impact": a.r.Impact,
	}
	if len(a.f.Namespaces) > 0 {
		a.r.BlastRadius["namespaces"] = a.f.Namespaces
	}
	for key, from := range map[string]string{"credential": "worstCase", "credentialRisks": "risks"} {
		if known, ok := a.r.Permissions[from]; ok {
			a.r.BlastRadius[key] = known
		}
	}
}

// categoryOfKind is the category of an incident whose cause is not known.
func categoryOfKind(kind string) string {
	switch kind {
	case "Node", "Service":
		return kind
	case "PersistentVolume", "PersistentVolumeClaim", "StorageClass":
		return "Storage"
	}
	return "Pod"
}

const (
	singlePod      = "Single Pod"
	oneNamespace   = "Namespace"
	manyNamespaces = "Multi-Namespace"
)

// trouble lists what the fault touches. That belongs to the fault: it is the same
// whether an engineer asked about one of its objects, about their namespace, or about
// the cluster. Where no cause was found there is only what was asked about.
func (a *assembler) trouble(found Composition) []nightcrier.Object {
	switch {
	case a.r.RootCause != nil && !a.f.Hearsay:
		return found.Affected
	case a.f.IsWholeTarget():
		return a.r.Scope.Affected
	}
	return []nightcrier.Object{a.f.Mend()}
}

func (a *assembler) rateImpact() string {
	switch {
	case a.r.RootCause != nil && a.findings[0].Entry.LiesBeneathAll(), a.f.Target.Kind == "Node":
		return manyNamespaces // what of them was read depends on who asked
	case len(namespacesOf(a.hit)) > 1:
		return manyNamespaces
	case a.notReady() > 1, len(a.hit) > 1 && len(a.r.Consequences) > 0:
		return oneNamespace
	}
	return singlePod
}

// notReady counts the Pods of what is hit that are not ready.
func (a *assembler) notReady() (n int) {
	if a.f.Hearsay {
		return a.f.Replicas.NotReady()
	}
	for _, o := range a.hit {
		n += podsBelow(a.f.Scene, o).NotReady()
	}
	return n
}

// podsBelow counts the Pods of a workload that were read. Those that have ended do not
// count: a Job that tried three times is one thing that fails.
func podsBelow(s *scene.Scene, o nightcrier.Object) (r scene.Replicas) {
	for i := range s.Pods {
		p := &s.Pods[i].Object
		if p.Namespace == o.Namespace && !scene.IsFinished(p) && s.WorkloadAbove("Pod", p) == o {
			r.Add(p)
		}
	}
	return r
}

func namespacesOf(list []nightcrier.Object) []string {
	var all []string
	for _, o := range list {
		if o.Namespace != "" && !slices.Contains(all, o.Namespace) {
			all = append(all, o.Namespace)
		}
	}
	return all
}

// isOutage reports whether nothing is left of a workload that should keep running.
func (a *assembler) isOutage() bool {
	return a.r.Verdict == nightcrier.VerdictFault && slices.ContainsFunc(a.hit, func(o nightcrier.Object) bool {
		r, known := a.f.Scene.ReplicasOf(o)
		pods := podsBelow(a.f.Scene, o)
		return known && r.Want > 0 && pods.Ready == 0 && (pods.Total > 0 || r.Ready == 0)
	})
}

// ratePriority maps a severity to P1 to P4; touching more than one Pod raises it, and
// whoever reported a workload that is gone as a warning is not taken at their word.
func ratePriority(s nightcrier.Severity, impact string, outage bool) string {
	p := 4
	switch s {
	case nightcrier.Critical:
		p = 2
	case nightcrier.ErrorSeverity:
		p = 3
	}
	if impact != singlePod && s > nightcrier.Info {
		p--
	}
	if outage && s > nightcrier.Info {
		p = min(p, 2)
	}
	return fmt.Sprintf("P%d", p)
}

func checkedShare(facts []nightcrier.Fact) float64 {
	if len(facts) == 0 {
		return 0
	}
	n := 0
	for _, f := range facts {
		if f.Check != nightcrier.Unseen {
			n++
		}
	}
	return float64(n) / float64(len(facts))
}
