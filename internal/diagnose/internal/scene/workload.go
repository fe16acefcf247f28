package scene

import (
	"iter"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nightcrier.dev/nightcrier"
)

// ControllerOf is what owns obj, zero when nothing does.
func ControllerOf(obj metav1.Object) nightcrier.Resource {
	ref := metav1.GetControllerOfNoCopy(obj)
	if ref == nil {
		return nightcrier.Resource{}
	}
	return nightcrier.Resource{
		APIVersion: ref.APIVersion, Kind: ref.Kind, Namespace: obj.GetNamespace(), Name: ref.Name, UID: string(ref.UID),
	}
}

// DeploymentName is the name of the Deployment of a ReplicaSet, by the hash that
// its Pods' labels tell.
func DeploymentName(replicaSet string, podLabels map[string]string) (string, bool) {
	hash := podLabels[appsv1.DefaultDeploymentUniqueLabelKey]
	name, ok := strings.CutSuffix(replicaSet, "-"+hash)
	return name, ok && hash != ""
}

// ObjectOf is the object that a resource names.
func ObjectOf(r nightcrier.Resource) nightcrier.Object {
	return nightcrier.Object{Kind: r.Kind, Namespace: r.Namespace, Name: r.Name}
}

// UniteObjects adds to a what it does not hold of b.
func UniteObjects(a, b []nightcrier.Object) []nightcrier.Object {
	for _, o := range b {
		if !slices.Contains(a, o) {
			a = append(a, o)
		}
	}
	return a
}

// WorkloadAbove is the workload above obj that a person would mend, obj's own name
// when nothing owns it.
func (s *Scene) WorkloadAbove(kind string, obj metav1.Object) nightcrier.Object {
	up := ControllerOf(obj)
	switch up.Kind {
	case "", "Node": // a static Pod names its node
		return nightcrier.Object{Kind: kind, Namespace: obj.GetNamespace(), Name: obj.GetName()}
	case "ReplicaSet":
		if o, known := s.above[up]; known {
			return o
		}
		if rs := FindObject(s.ReplicaSets, up.Namespace, up.Name); rs != nil {
			return s.keepAbove(up, s.WorkloadAbove(up.Kind, &rs.Object))
		}
		if name, ok := DeploymentName(up.Name, obj.GetLabels()); ok {
			return nightcrier.Object{Kind: "Deployment", Namespace: up.Namespace, Name: name}
		}
	case "Job":
		if o, known := s.above[up]; known {
			return o
		}
		if j := FindObject(s.Jobs, up.Namespace, up.Name); j != nil {
			return s.keepAbove(up, s.WorkloadAbove(up.Kind, &j.Object))
		}
	}
	return ObjectOf(up)
}

// PodsBelow yields the Pods that a workload is above.
func (s *Scene) PodsBelow(o nightcrier.Object) iter.Seq[*Read[corev1.Pod]] {
	return func(yield func(*Read[corev1.Pod]) bool) {
		for i := range s.Pods {
			p := &s.Pods[i]
			if p.Object.Namespace == o.Namespace && s.WorkloadAbove("Pod", &p.Object) == o && !yield(p) {
				return
			}
		}
	}
}

// keepAbove keeps what was found above a ReplicaSet or a Job: thousands of Pods ask
// for it, by many rules.
func (s *Scene) keepAbove(up nightcrier.Resource, o nightcrier.Object) nightcrier.Object {
	if s.above == nil {
		s.above = map[nightcrier.Resource]nightcrier.Object{}
	}
	s.above[up] = o
	return o
}

// WorkloadOf returns the metadata of a workload of the Scene and the selector of
// its Pods, nil when it was not read.
func (s *Scene) WorkloadOf(o nightcrier.Object) (*metav1.ObjectMeta, string) {
	switch o.Kind {
	case "Deployment":
		if d := FindObject(s.Deployments, o.Namespace, o.Name); d != nil {
			return &d.Object.ObjectMeta, metav1.FormatLabelSelector(d.Object.Spec.Selector)
		}
	case "StatefulSet":
		if d := FindObject(s.StatefulSets, o.Namespace, o.Name); d != nil {
			return &d.Object.ObjectMeta, metav1.FormatLabelSelector(d.Object.Spec.Selector)
		}
	case "DaemonSet":
		if d := FindObject(s.DaemonSets, o.Namespace, o.Name); d != nil {
			return &d.Object.ObjectMeta, metav1.FormatLabelSelector(d.Object.Spec.Selector)
		}
	}
	return nil, ""
}

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
