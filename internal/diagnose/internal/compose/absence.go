package compose

import (
	"fmt"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scene"
)

// whatIsGone names what does not exist any more: the target's namespace where that is
// gone, the target where it is what a person would mend, and nothing else.
func whatIsGone(f *scene.Facts) string {
	switch {
	case !f.TargetGone:
		return ""
	case f.HomeGone:
		return scene.NamespaceKind + " " + f.Target.Namespace
	case f.Hearsay, f.Owner == f.Target:
		return f.Target.String()
	}
	return ""
}

// isBare reports whether a whole target was read and no workload is in it.
func isBare(f *scene.Facts) bool {
	return f.IsWholeTarget() && f.OwnerRead && !f.TargetGone && workloadsRead(f) && len(f.Others) == 0
}

// addAbsence tells that the target was not found, and what that says.
func (a *assembler) addAbsence() {
	f := a.f
	target, missing := f.Target.String(), f.Target.String()
	if f.HomeGone {
		missing = scene.NamespaceKind + " " + f.Target.Namespace
	}
	switch {
	case f.Doubt != "":
		a.r.NotChecked = append(a.r.NotChecked, nightcrier.NotChecked{What: a.cleanText(target, scene.MaxText), Why: f.Doubt})
		a.addFact(scene.Observation{Text: "the cluster that was asked has no " + missing, Quote: "not found", Ref: f.GoneRef}, nightcrier.Verified)
	case f.TargetGone && !f.SeenHere && f.Target.Kind != "Pod":
		a.r.NotChecked = append(a.r.NotChecked, nightcrier.NotChecked{What: a.cleanText(target, scene.MaxText), Why: "it does not exist"})
		a.addFact(scene.Observation{Text: "there is no " + missing, Quote: "not found", Ref: f.GoneRef}, nightcrier.Verified)
	case f.TargetGone:
		a.r.NotChecked = append(a.r.NotChecked, nightcrier.NotChecked{What: a.cleanText(target, scene.MaxText), Why: "it does not exist any more"})
		a.addFact(scene.Observation{Text: missing + " does not exist any more", Quote: "not found", Ref: f.GoneRef}, nightcrier.Verified)
	}
}

// seekCluster is what to do first where a target was not found and nothing proves that it
// is gone.
func (a *assembler) seekCluster() nightcrier.Action {
	look := nightcrier.Object{Kind: scene.NamespaceKind, Name: a.f.Target.Namespace}
	if look.Name == "" {
		look = scene.ObjectOf(a.f.Target)
	}
	return nightcrier.Action{
		Priority: 1, Action: a.cleanText(fmt.Sprintf("See whether the credential of cluster %s leads to the cluster that the event is about: %s was not found there", a.in.Incident.Cluster, a.f.Target), scene.MaxText),
		Command: scene.DoLook.Command(look), Outcome: "tells a fault that is gone from one that nobody looks at", Risk: "none: read only",
	}
}
