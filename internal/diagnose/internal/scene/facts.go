package scene

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nightcrier.dev/nightcrier"
)

// Facts is what was read about one incident: all that a rule sees.
type Facts struct {
	Now time.Time
	// Target is what the incident names, Owner what a person would mend.
	Target, Owner nightcrier.Resource
	// AskedAbout is set when somebody asks about Target itself, and so expects something
	// of it; it is not when Target is one of many that were looked at.
	AskedAbout bool
	// Pods are those that concern the incident, failing and newest first.
	Pods []Read[corev1.Pod]
	// all are all of them that were read, those that are well too.
	all        []*Read[corev1.Pod]
	Deployment *Read[appsv1.Deployment]
	ReplicaSet *Read[appsv1.ReplicaSet]
	Job        *Read[batchv1.Job]
	Nodes      []Read[corev1.Node]
	// Other is a target or owner of any other kind.
	Other *Read[metav1.PartialObjectMetadata]
	// Events are about any of these objects, newest first.
	Events []Read[corev1.Event]
	Logs   []LogExcerpt
	// Replicas counts the owner's Pods, as far as they were listed.
	Replicas Replicas
	// Namespaces are those of the Pods on the node that is the target.
	Namespaces []string
	// Hearsay is set when all of this comes from the event alone: the cluster
	// was not asked or did not answer.
	Hearsay bool
	// Scene is what surrounds all this, never nil.
	Scene *Scene
	// Others are the facts about the workloads around the target: all of them when
	// the target is a whole namespace.
	Others []*Facts
	// Selector finds the Pods of an owner that is none of the above.
	Selector *metav1.LabelSelector

	// ClaimRef is where the event itself was recorded.
	ClaimRef Ref

	// TargetGone is set when the target does not exist any more, homeGone when its
	// namespace is not there. Doubt says why a target that was not found may not be gone.
	TargetGone, HomeGone bool
	Doubt                string
	GoneRef              Ref
	// OwnerRead is set when the owner, or a part of the way to it, was read.
	OwnerRead bool
}

// Replicas counts the Pods of one owner, or those on one node.
type Replicas struct{ Total, Ready int }

// Add counts a Pod.
func (r *Replicas) Add(p *corev1.Pod) {
	r.Total++
	if IsPodReady(p) {
		r.Ready++
	}
}

// NotReady is how many Pods are affected.
func (r Replicas) NotReady() int { return r.Total - r.Ready }

// Mend is the object that a person would mend.
func (f *Facts) Mend() nightcrier.Object { return ObjectOf(f.Owner) }

// FindLog returns the excerpt that says most about how the container ended: its
// previous instance's if there is one.
func (f *Facts) FindLog(c Container) (LogExcerpt, bool) {
	var found LogExcerpt
	ok := false
	for _, l := range f.Logs {
		if l.Pod == c.Pod.Object.Name && l.Container == c.Status.Name && LastLine(l.Text) != "" && (!ok || l.Previous) {
			found, ok = l, true
		}
	}
	return found, ok
}

// The kinds of a target that is no single object: all of a namespace, and all that
// can be read of a cluster.
const (
	NamespaceKind = "Namespace"
	ClusterKind   = "Cluster"
)

// IsWholeTarget reports whether the target is a whole namespace, or all of them.
func (f *Facts) IsWholeTarget() bool {
	return f.Target.Kind == NamespaceKind || f.Target.Kind == ClusterKind
}
