package diagnose

import (
	"iter"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"nightcrier.dev/nightcrier"
)

// replicated is a workload that keeps a number of Pods: what it wants, what it
// has, and what its Pods look like.
type replicated struct {
	object   nightcrier.Object
	meta     metav1.ObjectMeta
	template corev1.PodTemplateSpec
	// want, made and ready count Pods: wished for, existing, ready.
	want, made, ready int32
	ref               Ref
}

// replicated yields the Deployments, StatefulSets and DaemonSets of all
// namespaces that were read.
func (s *Scene) replicated() iter.Seq[replicated] {
	return func(yield func(replicated) bool) {
		for _, r := range s.Deployments {
			o := &r.Object
			w := replicated{meta: o.ObjectMeta, template: o.Spec.Template, want: orOne(o.Spec.Replicas), made: o.Status.Replicas, ready: o.Status.ReadyReplicas, ref: r.Ref}
			if !yield(w.called("Deployment")) {
				return
			}
		}
		for _, r := range s.StatefulSets {
			o := &r.Object
			w := replicated{meta: o.ObjectMeta, template: o.Spec.Template, want: orOne(o.Spec.Replicas), made: o.Status.Replicas, ready: o.Status.ReadyReplicas, ref: r.Ref}
			if !yield(w.called("StatefulSet")) {
				return
			}
		}
		for _, r := range s.DaemonSets {
			o := &r.Object
			w := replicated{meta: o.ObjectMeta, template: o.Spec.Template, want: o.Status.DesiredNumberScheduled, made: o.Status.CurrentNumberScheduled, ready: o.Status.NumberReady, ref: r.Ref}
			if !yield(w.called("DaemonSet")) {
				return
			}
		}
	}
}

func (w replicated) called(kind string) replicated {
	w.object = nightcrier.Object{Kind: kind, Namespace: w.meta.Namespace, Name: w.meta.Name}
	return w
}

func orOne(n *int32) int32 {
	if n == nil {
		return 1
	}
	return *n
}

// workloadAt finds the workload that o names.
func (s *Scene) workloadAt(o nightcrier.Object) (replicated, bool) {
	for w := range s.replicated() {
		if w.object == o {
			return w, true
		}
	}
	return replicated{}, false
}

// workloadsOf lists the workloads in ns whose Pods sel selects.
func (s *Scene) workloadsOf(ns string, sel labels.Selector) []replicated {
	var out []replicated
	for w := range s.replicated() {
		if w.meta.Namespace == ns && sel.Matches(labels.Set(w.template.Labels)) {
			out = append(out, w)
		}
	}
	return out
}

// well reports whether the workload has all the Pods that it wants, ready.
func (w replicated) well() bool { return w.made >= w.want && w.ready >= w.want }

// workload is what the Facts are about, as a workload that keeps Pods.
func (f *Facts) workload() (replicated, bool) {
	if d := f.Deployment; d != nil && !f.Hearsay {
		s := Scene{Deployments: []Read[appsv1.Deployment]{*d}}
		return s.workloadAt(objectOf(f.Owner))
	}
	return f.Scene.workloadAt(objectOf(f.Owner))
}

// asked reports whether the diagnosis is about o itself: somebody expects
// something of it.
func (f *Facts) asked(o nightcrier.Object) bool { return objectOf(f.Target) == o }

// workloadsOn lists the workloads above the Pods on a node, each once.
func (s *Scene) workloadsOn(node string) []nightcrier.Object {
	var out []nightcrier.Object
	seen := map[nightcrier.Object]bool{}
	for i := range s.Pods {
		p := &s.Pods[i].Object
		if p.Spec.NodeName != node || ended(p) {
			continue
		}
		if o := s.mendOf("Pod", p); !seen[o] {
			seen[o] = true
			out = append(out, o)
		}
	}
	return out
}

// ended reports whether a Pod has ended for good, well or not.
func ended(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

// lasting reports whether something has been so for a while; a time that is not
// told was long ago.
func lasting(since metav1.Time, now time.Time, while time.Duration) bool {
	return now.Sub(since.Time) > while
}
