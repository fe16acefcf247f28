package diagnose

import (
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nightcrier.dev/nightcrier"
)

// replicas counts the Pods of a workload as its controller does: wished for,
// made, ready.
type replicas struct {
	want, made, ready int32
	ref               Ref
	// counted is set when its controller has ever looked at it, current when it has
	// since the last change.
	counted, current bool
	// since is when the workload was made; refused is set when its controller says that
	// it may not make Pods.
	since   time.Time
	refused bool
}

// isWell reports whether the workload has all the Pods that it wants, ready.
func (r replicas) isWell() bool { return r.made >= r.want && r.ready >= r.want }

// withStatus adds what a controller's status says of the object that it is about.
func (r replicas) withStatus(m *metav1.ObjectMeta, generation int64, ref Ref) replicas {
	r.counted, r.current, r.since, r.ref = generation > 0, generation >= m.Generation, m.CreationTimestamp.Time, ref
	return r
}

// replicasOf counts the Pods of the workload o, false when it was not read.
func (s *Scene) replicasOf(o nightcrier.Object) (replicas, bool) {
	switch o.Kind {
	case "Deployment":
		if d := findObject(s.Deployments, o.Namespace, o.Name); d != nil {
			return deploymentReplicas(d), true
		}
	case "StatefulSet":
		if d := findObject(s.StatefulSets, o.Namespace, o.Name); d != nil {
			st := d.Object.Status
			return replicas{want: orOne(d.Object.Spec.Replicas), made: st.Replicas, ready: st.ReadyReplicas}.withStatus(&d.Object.ObjectMeta, st.ObservedGeneration, d.Ref), true
		}
	case "ReplicaSet":
		if d := findObject(s.ReplicaSets, o.Namespace, o.Name); d != nil {
			st := d.Object.Status
			return replicas{want: orOne(d.Object.Spec.Replicas), made: st.Replicas, ready: st.ReadyReplicas}.withStatus(&d.Object.ObjectMeta, st.ObservedGeneration, d.Ref), true
		}
	case "DaemonSet":
		if d := findObject(s.DaemonSets, o.Namespace, o.Name); d != nil {
			st := d.Object.Status
			return replicas{want: st.DesiredNumberScheduled, made: st.CurrentNumberScheduled, ready: st.NumberReady}.withStatus(&d.Object.ObjectMeta, st.ObservedGeneration, d.Ref), true
		}
	}
	return replicas{}, false
}

func deploymentReplicas(d *Read[appsv1.Deployment]) replicas {
	st := d.Object.Status
	r := replicas{want: orOne(d.Object.Spec.Replicas), made: st.Replicas, ready: st.ReadyReplicas}.withStatus(&d.Object.ObjectMeta, st.ObservedGeneration, d.Ref)
	r.refused = slices.ContainsFunc(st.Conditions, func(c appsv1.DeploymentCondition) bool {
		return c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue
	})
	return r
}

func orOne(n *int32) int32 {
	if n == nil {
		return 1
	}
	return *n
}

// countReplicas counts the Pods of what the Facts are about.
func (f *Facts) countReplicas() (replicas, bool) {
	if f.Deployment != nil && !f.Hearsay {
		return deploymentReplicas(f.Deployment), true
	}
	return f.Scene.replicasOf(f.Mend())
}

// workloadWell reports whether all is well with the workload by now, so that what
// befell one of its earlier Pods is over.
func (f *Facts) workloadWell() bool {
	r, known := f.countReplicas()
	return known && r.want > 0 && r.isWell()
}

// makerOf is the workload o with the template of its Pods.
func (s *Scene) makerOf(o nightcrier.Object) (podMaker, bool) {
	for m := range s.allControllers() {
		if m.object == o {
			return m, true
		}
	}
	return podMaker{}, false
}

// isAskedAbout reports whether the diagnosis is about o itself: somebody expects
// something of it.
func (f *Facts) isAskedAbout(o nightcrier.Object) bool { return f.named && objectOf(f.Target) == o }

// workloadsOn lists the workloads above the Pods on a node, each once.
func (s *Scene) workloadsOn(node string) []nightcrier.Object {
	var out []nightcrier.Object
	seen := map[nightcrier.Object]bool{}
	for i := range s.Pods {
		p := &s.Pods[i].Object
		if p.Spec.NodeName != node || isFinished(p) {
			continue
		}
		if o := s.mendOf("Pod", p); !seen[o] {
			seen[o] = true
			out = append(out, o)
		}
	}
	return out
}

// hasLasted reports whether something has been so for a while; a time that is not
// told was long ago.
func hasLasted(since metav1.Time, now time.Time, while time.Duration) bool {
	return now.Sub(since.Time) > while
}
