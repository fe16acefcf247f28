package scene

import (
	"iter"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nightcrier.dev/nightcrier"
)

// PodMaker is anything that makes Pods, with the template that it makes them of.
type PodMaker struct {
	Object nightcrier.Object
	// Labels and spec are those of the Pods that it makes.
	Labels map[string]string
	Spec   *corev1.PodSpec
	// Wants is how many Pods it is asked for, 1 where that is not its to say.
	Wants int32
	Since time.Time
	Ref   Ref
}

// WorkloadsIn yields what makes Pods in ns: the controllers that were read, and
// what stands above the Pods of those that were not. A ReplicaSet or a Job below
// another controller is not one of them.
func (s *Scene) WorkloadsIn(ns string) iter.Seq[PodMaker] {
	return func(yield func(PodMaker) bool) {
		seen := map[nightcrier.Object]bool{}
		for w := range s.AllControllers() {
			if w.Object.Namespace != ns || seen[w.Object] {
				continue
			}
			seen[w.Object] = true
			if !yield(w) {
				return
			}
		}
		for i := range s.Pods {
			p := &s.Pods[i]
			o := s.WorkloadAbove("Pod", &p.Object)
			if p.Object.Namespace != ns || IsFinished(&p.Object) || seen[o] {
				continue
			}
			seen[o] = true
			if !yield(PodMaker{o, p.Object.Labels, &p.Object.Spec, 1, p.Object.CreationTimestamp.Time, p.Ref}) {
				return
			}
		}
	}
}

// AllControllers yields the controllers that were read.
func (s *Scene) AllControllers() iter.Seq[PodMaker] {
	return func(yield func(PodMaker) bool) {
		give := func(kind string, m metav1.ObjectMeta, wants *int32, t corev1.PodTemplateSpec, ref Ref) bool {
			if metav1.GetControllerOf(&m) != nil {
				return true
			}
			w := PodMaker{nightcrier.Object{Kind: kind, Namespace: m.Namespace, Name: m.Name}, t.Labels, &t.Spec, 1, m.CreationTimestamp.Time, ref}
			if wants != nil {
				w.Wants = *wants
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
