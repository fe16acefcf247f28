package diagnose

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"nightcrier.dev/nightcrier"
)

// ownWatch is the source of events that this cluster itself told, by the credential that
// is asked now.
const ownWatch = "watch"

// everywhere are namespaces that every cluster has: that one is there does not tell which
// cluster it is in.
var everywhere = []string{"default", "kube-node-lease", "kube-public", "kube-system"}

// noteMissing notes that the cluster has no such target. It counts as gone only where the
// answer is of the cluster that the event is about: no other one, to which a credential may
// lead by mistake, has it either.
func (c *collector) noteMissing(ctx context.Context, f *Facts, ref Ref) error {
	home := nightcrier.Resource{APIVersion: "v1", Kind: namespaceKind, Name: f.Target.Namespace}
	if _, asked := c.had[keyOf(home)]; home.Name != "" && !asked {
		if err := c.readTogether(ctx, c.lookAtObject(home)); err != nil {
			return err
		}
	}
	f.goneRef = ref
	if f.homeGone = c.had[keyOf(home)].missing && !c.hasReadIn(home.Name); f.homeGone {
		f.goneRef = c.had[keyOf(home)].ref
	}
	if why := c.doubtMissing(f); why != "" {
		f.Doubt, f.ownerRead = "it was not found"+why+": the credential may be of another cluster than the event", false
		return nil
	}
	f.TargetGone = true
	return nil
}

// doubtMissing says why a target that is not found may never have been in this cluster, ""
// where all speaks for it.
func (c *collector) doubtMissing(f *Facts) string {
	ns := f.Target.Namespace
	switch {
	case c.in.Event.Source == ownWatch:
		return ""
	case ns == "":
		return ", and nothing else tells which cluster this is"
	case f.homeGone:
		return ", and neither was its namespace"
	case !c.hasReadIn(ns):
		return ", and nothing of its namespace could be read"
	case slices.Contains(everywhere, ns) && !c.hasMakerOf(f.Target):
		return ", nor what it belonged to, and every cluster has a namespace " + ns
	}
	return ""
}

// hasReadIn reports whether the namespace was read, or anything in it.
func (c *collector) hasReadIn(ns string) bool {
	for o, read := range c.had {
		if read.body != nil && (o.Namespace == ns || o.Kind == namespaceKind && o.Name == ns) {
			return true
		}
	}
	return false
}

// hasMakerOf reports whether a workload is there that may have made a Pod.
func (c *collector) hasMakerOf(pod nightcrier.Resource) bool {
	for m := range c.scene.allControllers() {
		if m.object.Namespace == pod.Namespace && strings.HasPrefix(pod.Name, m.object.Name+"-") {
			return true
		}
	}
	return false
}

// whatIsGone names what does not exist any more: the target's namespace where that is
// gone, the target where it is what a person would mend, and nothing else.
func (f *Facts) whatIsGone() string {
	switch {
	case !f.TargetGone:
		return ""
	case f.homeGone:
		return namespaceKind + " " + f.Target.Namespace
	case f.Hearsay, f.Owner == f.Target:
		return f.Target.String()
	}
	return ""
}

// isBare reports whether a whole target was read and no workload is in it.
func (f *Facts) isBare() bool {
	return f.isWholeTarget() && f.ownerRead && !f.TargetGone && f.workloadsRead() && len(f.others) == 0
}

// siblingsOf are the Pods beside the target that belong to the same owner, which could not
// be read.
func (c *collector) siblingsOf(f *Facts) (pods []Read[corev1.Pod]) {
	if f.Target.Kind != "Pod" || f.Owner == f.Target {
		return nil
	}
	for _, p := range c.scene.Pods {
		if p.Object.Name != f.Target.Name && p.Object.Namespace == f.Target.Namespace && c.scene.mendOf("Pod", &p.Object) == f.Mend() {
			pods = append(pods, p)
		}
	}
	return pods
}

// isOwnerKnown reports whether what the Pods belong to was read, or, where only its own
// operator knows how many it wants, all of its Pods: one Pod says nothing of the others.
func (f *Facts) isOwnerKnown() bool {
	switch f.Owner.Kind {
	case "Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job":
		_, known := f.countReplicas()
		return known
	}
	return f.Owner == f.Target || f.Scene.Listed("Pod", f.Owner.Namespace)
}

// addAbsence tells that the target was not found, and what that says.
func (a *assembler) addAbsence() {
	f := a.f
	target, missing := f.Target.String(), f.Target.String()
	if f.homeGone {
		missing = namespaceKind + " " + f.Target.Namespace
	}
	switch {
	case f.Doubt != "":
		a.r.NotChecked = append(a.r.NotChecked, nightcrier.NotChecked{What: a.cleanText(target, maxText), Why: f.Doubt})
		a.addFact(Observation{Text: "the cluster that was asked has no " + missing, Quote: "not found", Ref: f.goneRef}, nightcrier.Verified)
	case f.TargetGone:
		a.r.NotChecked = append(a.r.NotChecked, nightcrier.NotChecked{What: a.cleanText(target, maxText), Why: "it does not exist any more"})
		a.addFact(Observation{Text: missing + " does not exist any more", Quote: "not found", Ref: f.goneRef}, nightcrier.Verified)
	}
}

// seekCluster is what to do first where a target was not found and nothing proves that it
// is gone.
func (a *assembler) seekCluster() nightcrier.Action {
	look := nightcrier.Object{Kind: namespaceKind, Name: a.f.Target.Namespace}
	if look.Name == "" {
		look = objectOf(a.f.Target)
	}
	return nightcrier.Action{
		Priority: 1, Action: a.cleanText(fmt.Sprintf("See whether the credential of cluster %s leads to the cluster that the event is about: %s was not found there", a.in.Incident.Cluster, a.f.Target), maxText),
		Command: doLook.command(look), Outcome: "tells a fault that is gone from one that nobody looks at", Risk: "none: read only",
	}
}
