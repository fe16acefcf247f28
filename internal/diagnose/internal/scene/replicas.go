package scene

import (
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nightcrier.dev/nightcrier"
)

// ReplicaCount counts the Pods of a workload as its controller does: wished for,
// made, ready.
type ReplicaCount struct {
	Want, Made, Ready int32
	Ref               Ref
	// counted is set when its controller has ever looked at it, current when it has
	// since the last change.
	counted, current bool
	// since is when the workload was made; refused is set when its controller says that
	// it may not make Pods.
	since   time.Time
	refused bool
}

// isWell reports whether the workload has all the Pods that it wants, ready.
func (r ReplicaCount) isWell() bool { return r.Made >= r.Want && r.Ready >= r.Want }

// withStatus adds what a controller's status says of the object that it is about.
func (r ReplicaCount) withStatus(m *metav1.ObjectMeta, generation int64, ref Ref) ReplicaCount {
	r.counted, r.current, r.since, r.Ref = generation > 0, generation >= m.Generation, m.CreationTimestamp.Time, ref
	return r
}

// ReplicasOf counts the Pods of the workload o, false when it was not read.
func (s *Scene) ReplicasOf(o nightcrier.Object) (ReplicaCount, bool) {
	switch o.Kind {
	case "Deployment":
		if d := FindObject(s.Deployments, o.Namespace, o.Name); d != nil {
			return deploymentReplicas(d), true
		}
	case "StatefulSet":
		if d := FindObject(s.StatefulSets, o.Namespace, o.Name); d != nil {
			st := d.Object.Status
			return ReplicaCount{Want: ReplicasOrOne(d.Object.Spec.Replicas), Made: st.Replicas, Ready: st.ReadyReplicas}.withStatus(&d.Object.ObjectMeta, st.ObservedGeneration, d.Ref), true
		}
	case "ReplicaSet":
		if d := FindObject(s.ReplicaSets, o.Namespace, o.Name); d != nil {
			st := d.Object.Status
			return ReplicaCount{Want: ReplicasOrOne(d.Object.Spec.Replicas), Made: st.Replicas, Ready: st.ReadyReplicas}.withStatus(&d.Object.ObjectMeta, st.ObservedGeneration, d.Ref), true
		}
	case "DaemonSet":
		if d := FindObject(s.DaemonSets, o.Namespace, o.Name); d != nil {
			st := d.Object.Status
			return ReplicaCount{Want: st.DesiredNumberScheduled, Made: st.CurrentNumberScheduled, Ready: st.NumberReady}.withStatus(&d.Object.ObjectMeta, st.ObservedGeneration, d.Ref), true
		}
	}
	return ReplicaCount{}, false
}

func deploymentReplicas(d *Read[appsv1.Deployment]) ReplicaCount {
	st := d.Object.Status
	r := ReplicaCount{Want: ReplicasOrOne(d.Object.Spec.Replicas), Made: st.Replicas, Ready: st.ReadyReplicas}.withStatus(&d.Object.ObjectMeta, st.ObservedGeneration, d.Ref)
	r.refused = slices.ContainsFunc(st.Conditions, func(c appsv1.DeploymentCondition) bool {
		return c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue
	})
	return r
}

// ReplicasOrOne is how many replicas are wished for: one where nothing is said.
func ReplicasOrOne(n *int32) int32 {
	if n == nil {
		return 1
	}
	return *n
}

// CountReplicas counts the Pods of what the Facts are about.
func (f *Facts) CountReplicas() (ReplicaCount, bool) {
	if f.Deployment != nil && !f.Hearsay {
		return deploymentReplicas(f.Deployment), true
	}
	return f.Scene.ReplicasOf(f.Mend())
}

// WorkloadWell reports whether all is well with the workload by now, so that what
// befell one of its earlier Pods is over.
func (f *Facts) WorkloadWell() bool {
	r, known := f.CountReplicas()
	return known && r.Want > 0 && r.isWell()
}

// PodMakerOf is the workload o with the template of its Pods.
func (s *Scene) PodMakerOf(o nightcrier.Object) (PodMaker, bool) {
	for m := range s.AllControllers() {
		if m.Object == o {
			return m, true
		}
	}
	return PodMaker{}, false
}

// IsAskedAbout reports whether the diagnosis is about o itself: somebody expects
// something of it.
func (f *Facts) IsAskedAbout(o nightcrier.Object) bool {
	return f.AskedAbout && ObjectOf(f.Target) == o
}

// WorkloadsOn lists the workloads above the Pods on a node, each once.
func (s *Scene) WorkloadsOn(node string) []nightcrier.Object {
	var out []nightcrier.Object
	seen := map[nightcrier.Object]bool{}
	for i := range s.Pods {
		p := &s.Pods[i].Object
		if p.Spec.NodeName != node || IsFinished(p) {
			continue
		}
		if o := s.WorkloadAbove("Pod", p); !seen[o] {
			seen[o] = true
			out = append(out, o)
		}
	}
	return out
}

// HasLasted reports whether something has been so for a while; a time that is not
// told was long ago.
func HasLasted(since metav1.Time, now time.Time, while time.Duration) bool {
	return now.Sub(since.Time) > while
}
