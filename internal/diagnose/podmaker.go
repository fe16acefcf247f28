package diagnose

import (
	"iter"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nightcrier.dev/nightcrier"
)

// podMaker is anything that makes Pods, with the template that it makes them of.
type podMaker struct {
	object nightcrier.Object
	// labels and spec are those of the Pods that it makes.
	labels map[string]string
	spec   *corev1.PodSpec
	// wants is how many Pods it is asked for, 1 where that is not its to say.
	wants int32
	since time.Time
	ref   Ref
}

// workloadsIn yields what makes Pods in ns: the controllers that were read, and
// what stands above the Pods of those that were not. A ReplicaSet or a Job below
// another controller is not one of them.
func (s *Scene) workloadsIn(ns string) iter.Seq[podMaker] {
	return func(yield func(podMaker) bool) {
		seen := map[nightcrier.Object]bool{}
		for w := range s.allControllers() {
			if w.object.Namespace != ns || seen[w.object] {
				continue
			}
			seen[w.object] = true
			if !yield(w) {
				return
			}
		}
		for i := range s.Pods {
			p := &s.Pods[i]
			o := s.mendOf("Pod", &p.Object)
			if p.Object.Namespace != ns || isFinished(&p.Object) || seen[o] {
				continue
			}
			seen[o] = true
			if !yield(podMaker{o, p.Object.Labels, &p.Object.Spec, 1, p.Object.CreationTimestamp.Time, p.Ref}) {
				return
			}
		}
	}
}

// allControllers yields the controllers that were read.
func (s *Scene) allControllers() iter.Seq[podMaker] {
	return func(yield func(podMaker) bool) {
		give := func(kind string, m metav1.ObjectMeta, wants *int32, t corev1.PodTemplateSpec, ref Ref) bool {
			if metav1.GetControllerOf(&m) != nil {
				return true
			}
			w := podMaker{nightcrier.Object{Kind: kind, Namespace: m.Namespace, Name: m.Name}, t.Labels, &t.Spec, 1, m.CreationTimestamp.Time, ref}
			if wants != nil {
				w.wants = *wants
			}
			return yield(w)
		}
		for _, d := range s.Deployments {
			if !give("Deployment", d.Object.ObjectMeta, d.Object.Spec.Replicas, d.Object.Spec.Template, d.Ref) {
				return
			}
		}
		for _, d := range s.StatefulSets {
			if !give("StatefulSet", d.Object.ObjectMeta, d.Object.Spec.Replicas, d.Object.Spec.Template, d.Ref) {
				return
			}
		}
		for _, d := range s.DaemonSets {
			if !give("DaemonSet", d.Object.ObjectMeta, nil, d.Object.Spec.Template, d.Ref) {
				return
			}
		}
		for _, d := range s.ReplicaSets {
			if !give("ReplicaSet", d.Object.ObjectMeta, d.Object.Spec.Replicas, d.Object.Spec.Template, d.Ref) {
				return
			}
		}
		for _, d := range s.CronJobs {
			if !give("CronJob", d.Object.ObjectMeta, nil, d.Object.Spec.JobTemplate.Spec.Template, d.Ref) {
				return
			}
		}
		for _, d := range s.Jobs {
			if !give("Job", d.Object.ObjectMeta, nil, d.Object.Spec.Template, d.Ref) {
				return
			}
		}
	}
}

// isFinished reports whether a Pod has ended for good.
func isFinished(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}
