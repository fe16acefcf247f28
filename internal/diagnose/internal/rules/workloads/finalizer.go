package workloads

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

var finalizerRules = scene.Area{Name: "finalizer", SceneRules: []scene.SceneRule{namespaceStuck, finalizerStuck, podStuckTerminating}, Causes: finalizerCauses}

var finalizerCauses = []scene.Cause{
	{ID: "finalizer-deadlock", Category: "Cluster", Meaning: "an object is being deleted and a finalizer that nobody removes keeps it", Rank: scene.RankStated},
	{ID: "pod-stuck-terminating", Category: "Pod", Meaning: "a Pod is being deleted and is still there long after its grace period", Rank: scene.RankFollows + 10, Symptom: true},
}

// isDeletionStuck reports whether an object has been deleted for too long. A Pod's
// deletion time is the end of its grace period.
func isDeletionStuck(s *scene.Scene, m metav1.Object) bool {
	at := m.GetDeletionTimestamp()
	return at != nil && s.Now.Sub(at.Time) > scene.DeletionLate
}

// stuckFinding is what findings about deletions have in common.
func stuckFinding(s *scene.Scene, d deleted, cause, what, quote string) scene.Finding {
	o := d.asObject()
	since := s.Now.Sub(d.GetDeletionTimestamp().Time).Round(time.Minute)
	return scene.Finding{
		Cause: cause, Object: o, Confidence: nightcrier.High,
		Summary:  fmt.Sprintf("%s has been in deletion for %s: %s", o, strings.TrimSuffix(since.String(), "0s"), what),
		Observed: []scene.Observation{{Text: o.String() + " has a deletion timestamp and is still there", Quote: quote, Ref: d.ref}},
		WrongIf:  "what removes it is at work and only slow",
		Test:     scene.GetTest(o.Namespace, strings.ToLower(o.Kind), o.Name).DecidesBetween("it has a deletionTimestamp and the same finalizers", "it is gone"),
		Actions: []scene.Step{
			{Action: "Bring back the controller that removes the finalizer, and let it finish", Outcome: "what it guards is cleaned up, then the object goes", Risk: "none"},
			{Action: "If that controller is gone for good, remove the finalizer by hand", Outcome: "the object goes at once", Risk: "what the finalizer guards, such as a cloud resource, is left behind"},
		},
	}
}

// Conditions of a namespace that say why it is not gone, what stops the cleaning
// before what is only left.
var namespaceConditions = []corev1.NamespaceConditionType{
	corev1.NamespaceDeletionDiscoveryFailure, corev1.NamespaceDeletionGVParsingFailure, corev1.NamespaceDeletionContentFailure,
	corev1.NamespaceFinalizersRemaining, corev1.NamespaceContentRemaining,
}

// staleGroup names the API group that discovery failed for.
var staleGroup = scene.NewPattern(`([a-z0-9.-]{1,200})/(v\d[a-z0-9]{0,20}): `)

// namespaceStuck finds namespaces in deletion, and says what is left in them.
func namespaceStuck(s *scene.Scene) []scene.Finding {
	var out []scene.Finding
	for i := range s.Namespaces {
		ns := &s.Namespaces[i]
		if !isDeletionStuck(s, &ns.Object) || len(ns.Object.Spec.Finalizers)+len(ns.Object.Finalizers) == 0 {
			continue
		}
		why := namespaceWhy(&ns.Object)
		n := stuckFinding(s, deleted{"Namespace", &ns.Object, ns.Ref}, "finalizer-deadlock",
			"finalizer "+namespaceFinalizers(&ns.Object)+" waits for what is left in it.", "phase="+string(ns.Object.Status.Phase))
		if len(why) > 0 {
			n.Summary = strings.TrimSuffix(n.Summary, "waits for what is left in it.") + "waits: " + text.CutMiddle(why[0].Message, scene.MaxQuote)
		} else {
			n.Confidence = nightcrier.Medium
		}
		for _, c := range why {
			n.Observed = append(n.Observed, scene.Observation{Text: fmt.Sprintf("condition %s of %s", c.Type, n.Object), Quote: c.Message, Ref: ns.Ref})
			if m := staleGroup.FindStringSubmatch(c.Message); m != nil && c.Type == corev1.NamespaceDeletionDiscoveryFailure {
				n.DependsOn = append(n.DependsOn, nightcrier.Object{Kind: "APIService", Name: m[2] + "." + m[1]})
			}
		}
		out = append(out, n)
	}
	return out
}

func namespaceFinalizers(ns *corev1.Namespace) string {
	var all []string
	for _, f := range ns.Spec.Finalizers {
		all = append(all, string(f))
	}
	return text.CutMiddle(strings.Join(append(all, ns.Finalizers...), ", "), scene.MaxQuote)
}

func namespaceWhy(ns *corev1.Namespace) []corev1.NamespaceCondition {
	var out []corev1.NamespaceCondition
	for _, kind := range namespaceConditions {
		for _, c := range ns.Status.Conditions {
			if c.Type == kind && c.Status == corev1.ConditionTrue {
				out = append(out, c)
			}
		}
	}
	return out
}

// deleted is an object in deletion.
type deleted struct {
	kind string
	metav1.Object
	ref scene.Ref
}

func (d deleted) asObject() nightcrier.Object {
	return nightcrier.Object{Kind: d.kind, Namespace: d.GetNamespace(), Name: d.GetName()}
}

// gatherObjects yields the objects of one kind as those that may be stuck.
func gatherObjects[T any, P interface {
	*T
	metav1.Object
}](into *[]deleted, kind string, all []scene.Read[T]) {
	for i := range all {
		*into = append(*into, deleted{kind, P(&all[i].Object), all[i].Ref})
	}
}

// finalizerStuck finds objects of any other kind that a finalizer keeps.
func finalizerStuck(s *scene.Scene) []scene.Finding {
	var all []deleted
	gatherObjects(&all, "PersistentVolumeClaim", s.Claims)
	gatherObjects(&all, "PersistentVolume", s.Volumes)
	gatherObjects(&all, "Pod", s.Pods)
	gatherObjects(&all, "Deployment", s.Deployments)
	gatherObjects(&all, "StatefulSet", s.StatefulSets)
	gatherObjects(&all, "DaemonSet", s.DaemonSets)
	gatherObjects(&all, "Job", s.Jobs)
	gatherObjects(&all, "Service", s.Services)
	gatherObjects(&all, "Ingress", s.Ingresses)
	gatherObjects(&all, "ConfigMap", s.ConfigMaps)
	gatherObjects(&all, "Secret", s.Secrets)
	gatherObjects(&all, "VolumeAttachment", s.Attachments)
	for i := range s.Others {
		all = append(all, deleted{s.Others[i].Object.GetKind(), &s.Others[i].Object, s.Others[i].Ref})
	}
	var out []scene.Finding
	for _, d := range all {
		if isDeletionStuck(s, d) && len(d.GetFinalizers()) > 0 {
			out = append(out, keptBy(s, d))
		}
	}
	return out
}

// guards are the finalizers of Kubernetes itself, and what they wait for.
var guards = map[string]string{
	"kubernetes.io/pvc-protection":                "it goes when no Pod uses the claim any more",
	"kubernetes.io/pv-protection":                 "it goes when no claim is bound to the volume any more",
	"foregroundDeletion":                          "it goes when all that it owns is gone",
	"orphan":                                      "the garbage collector removes it",
	"batch.kubernetes.io/job-tracking":            "the Job controller removes it once it has counted the Pod",
	"service.kubernetes.io/load-balancer-cleanup": "the cloud's controller removes it once the load balancer is gone",
}

func keptBy(s *scene.Scene, d deleted) scene.Finding {
	finalizers := d.GetFinalizers()
	what := "finalizer " + text.CutMiddle(strings.Join(finalizers, ", "), scene.MaxQuote) + " keeps it"
	if w := guards[finalizers[0]]; w != "" {
		what += "; " + w
	}
	n := stuckFinding(s, d, "finalizer-deadlock", what+".", finalizers[0])
	if d.kind == "Pod" {
		n.Affected = []nightcrier.Object{s.WorkloadAbove("Pod", d)}
	}
	if d.kind != "PersistentVolumeClaim" || !slices.Contains(finalizers, "kubernetes.io/pvc-protection") {
		return n
	}
	if pods := s.PodsUsingClaim(d.GetNamespace(), d.GetName()); len(pods) > 0 {
		var names []string
		for _, p := range pods {
			names = append(names, p.Object.Name)
			n.Observed = append(n.Observed, scene.Observation{Text: "Pod " + p.Object.Name + " uses the claim", Quote: p.Object.Name, Ref: p.Ref})
		}
		n.Summary = strings.TrimSuffix(n.Summary, ".") + ", and Pod " + text.CutMiddle(strings.Join(names, ", "), scene.MaxQuote) + " does."
		n.Affected = s.WorkloadsAbove(pods)
		n.Actions = []scene.Step{{Action: "Scale down what uses the claim, or keep the claim by leaving it in use and copying its data", Outcome: "the claim goes once no Pod uses it", Risk: "the data goes with it where its volume is reclaimed"}}
	}
	return n
}

// podStuckTerminating finds Pods that are still there long after they should
// have ended, mostly because their node is away and nobody can say that they
// have.
func podStuckTerminating(s *scene.Scene) []scene.Finding {
	var out []scene.Finding
	for i := range s.Pods {
		if p := &s.Pods[i]; isDeletionStuck(s, &p.Object) && len(p.Object.Finalizers) == 0 {
			out = append(out, notEnding(s, p))
		}
	}
	return out
}

func notEnding(s *scene.Scene, p *scene.Read[corev1.Pod]) scene.Finding {
	name := p.Object.Spec.NodeName
	n := stuckFinding(s, deleted{"Pod", &p.Object, p.Ref}, "pod-stuck-terminating", "its containers do not end, or its kubelet does not say so.", "phase="+string(p.Object.Status.Phase))
	n.Confidence = nightcrier.Medium
	n.Affected = []nightcrier.Object{s.WorkloadAbove("Pod", &p.Object)}
	n.Actions = []scene.Step{
		{Action: "Look at the kubelet and the runtime of node " + cmp.Or(text.CutMiddle(name, scene.MaxQuote), "none"), Outcome: "the Pod goes once they answer", Risk: "none: read only"},
		{Action: "If the node is gone for good, delete the Node, or the Pod by force", Outcome: "its name and volumes are free for a new one", Risk: "two copies run if the old one still lives"},
	}
	for e := range s.EventsAbout("Pod", p.Object.Namespace, p.Object.Name) {
		if e.Object.Reason == "FailedKillPod" && s.IsFresh(e) {
			n.Observed = append(n.Observed, scene.ObserveEvent(e))
			break
		}
	}
	node := scene.FindObject(s.Nodes, "", name)
	switch {
	case node == nil && name != "" && s.Complete("Node", ""):
		n.Summary = fmt.Sprintf("%s cannot end: its node %s does not exist any more.", n.Object, text.CutMiddle(name, scene.MaxQuote))
	case node != nil && !scene.IsNodeReady(&node.Object):
		n.Summary = fmt.Sprintf("%s cannot end: its node %s is not ready.", n.Object, node.Object.Name)
		n.Observed = append(n.Observed, scene.Observation{Text: "Node " + node.Object.Name + " is not ready", Quote: node.Object.Name, Ref: node.Ref})
	default:
		return n
	}
	n.Confidence, n.DependsOn = nightcrier.High, []nightcrier.Object{{Kind: "Node", Name: name}}
	return n
}
