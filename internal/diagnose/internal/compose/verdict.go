package compose

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scene"
)

// decideVerdict decides what the findings come to and names the root cause. That nothing
// needs mending is a claim as well: what speaks against it, or is not covered by what was
// looked at, makes it undetermined.
func (a *assembler) decideVerdict() {
	f := a.f
	gone := f.Hearsay && goneForGood(f)
	if gone { // what the event said of something that is gone
		a.findings = nil
	}
	if len(a.findings) == 0 {
		a.doubts = a.doubtAllClear()
	}
	switch {
	case len(a.findings) == 0 && len(a.doubts) == 0 && f.Doubt == "" && (gone || a.isTargetWell()):
		a.r.Verdict = nightcrier.VerdictRecovered
		if !a.hasTraces() {
			a.r.Verdict = nightcrier.VerdictHealthy
		}
	case len(a.findings) == 0, a.findings[0].Confidence == nightcrier.Low, f.Doubt != "": // no more than a guess
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
	case f.Owner.Kind == "CronJob" && f.LaterSuccess() == nil:
		return workloadsRead(f) && f.IsWell()
	case f.Owner.Kind == "Service", f.Owner.Kind == "Ingress":
		return a.behindIsWell()
	case f.Owner.Kind == "HorizontalPodAutoscaler":
		return f.ScalerIsWell() && a.behindIsWell()
	case f.Owner.Kind == "PersistentVolumeClaim":
		return claimIsWell(f)
	case f.Job != nil:
		return f.LaterSuccess() != nil || scene.FindJobCondition(f.Job.Object, batchv1.JobComplete) != nil || f.JobWorks()
	case f.Target.Kind == "Node":
		return f.TargetGone || len(f.Nodes) > 0 && scene.IsNodeReady(&f.Nodes[0].Object)
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
	return f.Scene.Listed("Pod", ns) && !slices.ContainsFunc(workloadKinds, func(kind string) bool {
		return !f.Scene.Complete(kind, ns) && (kind != "ReplicaSet" || f.IsWholeTarget()) // of a named object Pods tell theirs
	})
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

// nothingFound is the hypothesis of a report whose rules found no cause.
func (a *assembler) nothingFound() nightcrier.Hypothesis {
	h := nightcrier.Hypothesis{
		ID: "H1", Object: a.cleanObject(a.f.Mend()), Confidence: nightcrier.Low, For: []string{}, Against: []string{},
		Statement: "The cause is none that the rules know, or the cluster does not tell it.",
		Falsification: scene.DescribeTest(scene.ObjectOf(a.f.Target)).
			DecidesBetween("its state and events name no cause", "they name one"),
	}
	gone := whatIsGone(a.f)
	switch {
	case a.f.Doubt != "":
		h.Statement = a.cleanText(a.f.Target.String()+" is gone, or was never in the cluster that was asked.", scene.MaxText)
	case isBare(a.f):
		h.Statement = a.cleanText("There is no workload in "+a.f.Target.String()+": nothing was found wrong, and nothing well.", scene.MaxText)
	case len(a.doubts) > 0 && (!a.doubts[0].beside || a.isTargetWell()):
		h.Statement = a.cleanText(a.doubts[0].says, scene.MaxText)
		h.Falsification = a.doubts[0].test
		for _, d := range a.doubts {
			h.Against = append(h.Against, a.factsOf(d)...)
		}
	case a.r.Verdict == nightcrier.VerdictUndetermined:
	case gone != "":
		h.Confidence = nightcrier.Medium
		h.Statement = a.cleanText(gone+" is gone, and with it what was wrong there.", scene.MaxText)
	case a.f.LaterSuccess() != nil:
		later := a.f.LaterSuccess()
		h.Confidence = nightcrier.Medium
		h.Statement = a.cleanText(fmt.Sprintf("Job %s failed, and the newest run since, Job %s, succeeded: only the kept failed Job says otherwise.", a.f.Job.Object.Name, later.Object.Name), scene.MaxText)
		h.For = append(h.For, a.addFact(scene.ObserveSuccess(later), a.checkOfRules()))
		h.Falsification = scene.GetTest(later.Object.Namespace, "job", later.Object.Name).DecidesBetween("its condition Complete is True", "it is not, or a newer run has failed")
	default:
		h.Confidence = nightcrier.Medium
		h.Statement = a.cleanText(fmt.Sprintf("%s is well now; whatever was wrong has passed.%s", a.f.Mend(), a.describeNoise()), scene.MaxText)
		h.Falsification = scene.DescribeTest(scene.ObjectOf(a.f.Target)).DecidesBetween("it is ready and does not restart", "it is not ready, or has restarted since")
	}
	return h
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
