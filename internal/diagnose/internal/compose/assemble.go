package compose

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

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
	// doubts are why a report without findings is no all-clear.
	doubts []doubt
	// counters are what speaks against each of the first findings.
	counters [][]counter
	r        nightcrier.Report
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
	a.weighFindings()
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
	a.noteUnknowns()
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
		} else if i > 0 {
			h.Statement = a.cleanText(strings.TrimSuffix(n.Summary, ".")+". "+whyItLost(a.findings[0], n), scene.MaxText)
		}
		for _, o := range n.Observed {
			if id := a.addFact(o, a.checkOfRules()); id != "" {
				h.For = append(h.For, id)
			}
		}
		for _, c := range a.counters[i] {
			if id := a.addFact(c.seen, a.checkOfRules()); id != "" {
				h.Against = append(h.Against, id)
			}
		}
		a.r.Hypotheses = append(a.r.Hypotheses, h)
	}
	if len(a.findings) == 0 {
		a.r.Hypotheses = append(a.r.Hypotheses, a.nothingFound())
	}
}

// whyItLost says why a hypothesis about the same object stands behind the first.
func whyItLost(first, n scene.Finding) string {
	switch {
	case n.Confidence == nightcrier.Low && first.Confidence != nightcrier.Low:
		return "Behind H1: no more than a hint speaks for it."
	case saysWhy(first) && !saysWhy(n):
		return "Behind H1: that says why, and this only that something is wrong."
	case first.Entry.Rank >= scene.RankStated && n.Entry.Rank < scene.RankStated:
		return "Behind H1: the cluster itself states that, and this is concluded."
	}
	return "Behind H1: that explains more of what was seen."
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
	case a.r.Verdict == nightcrier.VerdictRecovered && a.f.LaterSuccess() != nil:
		o := nightcrier.Object{Kind: "Job", Namespace: a.f.Job.Object.Namespace, Name: a.f.Job.Object.Name}
		a.r.Actions = append(a.r.Actions, nightcrier.Action{
			Priority: 1, Action: a.cleanText("Delete the failed "+o.String()+" once nobody needs its logs: later runs have succeeded, and only it keeps the alert", scene.MaxText),
			Command: scene.DoLook.Command(o), Outcome: "the alert ends", Risk: "its logs go with it",
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
	case len(a.doubts) > 0:
		a.stepsOfDoubts()
		return
	case len(a.findings) == 0:
		a.r.Actions = append(a.r.Actions, nightcrier.Action{
			Priority: 1, Action: "Look at " + a.cleanText(a.f.Mend().String(), scene.MaxQuote) + " by hand: its state, events and logs",
			Command: scene.DoLook.Command(a.f.Mend()), Outcome: "names the cause", Risk: "none: read only",
		})
		return
	}
	a.askFirst()
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
	for p := range a.f.Scene.PodsBelow(about) {
		if !scene.IsFinished(&p.Object) {
			look(&p.Object)
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
	for p := range s.PodsBelow(o) {
		if !scene.IsFinished(&p.Object) {
			r.Add(&p.Object)
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
