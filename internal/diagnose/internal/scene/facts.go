package scene

import (
	"cmp"
	"iter"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/cluster/kube/kinds"
)

// Facts is what was read about one incident: all that a rule sees.
type Facts struct {
	Now time.Time
	// Target is what the incident names, Owner what a person would mend.
	Target, Owner nightcrier.Resource
	// AskedAbout is set when somebody asks about Target itself, and so expects something
	// of it; it is not when Target is one of many that were looked at.
	AskedAbout bool
	// Claimed is the fault type that the event's sender names, "" where it names none that
	// is known.
	Claimed string
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

	// TargetGone is set when the target does not exist any more, HomeGone when its
	// namespace is not there.
	TargetGone, HomeGone bool
	// SeenHere is set when the cluster that is asked has itself shown the target before.
	SeenHere bool
	// Doubt says why a target that was not found may not be gone.
	Doubt   string
	GoneRef Ref
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

// AllPods yields every Pod of the owner that was read, the newest first: those that are
// well too.
func (f *Facts) AllPods() iter.Seq[*Read[corev1.Pod]] {
	all := slices.Clone(f.all)
	slices.SortStableFunc(all, func(a, b *Read[corev1.Pod]) int {
		return b.Object.CreationTimestamp.Compare(a.Object.CreationTimestamp.Time)
	})
	return slices.Values(all)
}

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

// view is the Scene, ordered by what a person would mend.
type view struct {
	s      *Scene
	pods   map[nightcrier.Object][]Read[corev1.Pod]
	sets   map[nightcrier.Object][]Read[appsv1.ReplicaSet]
	jobs   map[nightcrier.Object][]Read[batchv1.Job]
	events map[nightcrier.Object][]Read[corev1.Event]
	logs   map[nightcrier.Object][]LogExcerpt // by Pod
	nodes  map[string]Read[corev1.Node]
}

func newView(s *Scene) *view {
	v := &view{
		s: s, pods: map[nightcrier.Object][]Read[corev1.Pod]{}, sets: map[nightcrier.Object][]Read[appsv1.ReplicaSet]{},
		jobs: map[nightcrier.Object][]Read[batchv1.Job]{}, events: map[nightcrier.Object][]Read[corev1.Event]{},
		logs: map[nightcrier.Object][]LogExcerpt{}, nodes: map[string]Read[corev1.Node]{},
	}
	for _, p := range s.Pods {
		o := s.WorkloadAbove("Pod", &p.Object)
		v.pods[o] = append(v.pods[o], p)
	}
	for _, rs := range s.ReplicaSets {
		o := s.WorkloadAbove("ReplicaSet", &rs.Object)
		v.sets[o] = append(v.sets[o], rs)
	}
	for _, j := range s.Jobs {
		o := s.WorkloadAbove("Job", &j.Object)
		v.jobs[o] = append(v.jobs[o], j)
	}
	for _, e := range s.Events {
		i := e.Object.InvolvedObject
		o := nightcrier.Object{Kind: i.Kind, Namespace: i.Namespace, Name: i.Name}
		v.events[o] = append(v.events[o], e)
	}
	for _, l := range s.Logs {
		o := nightcrier.Object{Kind: "Pod", Namespace: l.Namespace, Name: l.Pod}
		v.logs[o] = append(v.logs[o], l)
	}
	for _, n := range s.Nodes {
		v.nodes[n.Object.Name] = n
	}
	return v
}

// AllWorkloads are the facts about every workload, and every Pod that none owns.
func (s *Scene) AllWorkloads() []*Facts {
	v := newView(s)
	var all []*Facts
	done := map[nightcrier.Object]bool{}
	add := func(kind string, m metav1.Object) *Facts {
		o := nightcrier.Object{Kind: kind, Namespace: m.GetNamespace(), Name: m.GetName()}
		done[o] = true
		f := s.NewFacts(o, kinds.MustNamed(kind).APIVersion())
		all = append(all, f)
		return f
	}
	for i := range s.Deployments {
		d := &s.Deployments[i]
		v.fillFacts(add("Deployment", &d.Object), func(f *Facts) { f.Deployment = d })
	}
	for i := range s.StatefulSets {
		v.fillFacts(add("StatefulSet", &s.StatefulSets[i].Object), nil)
	}
	for i := range s.DaemonSets {
		v.fillFacts(add("DaemonSet", &s.DaemonSets[i].Object), nil)
	}
	for i := range s.CronJobs {
		v.fillFacts(add("CronJob", &s.CronJobs[i].Object), nil)
	}
	for i := range s.Jobs {
		if j := &s.Jobs[i]; ControllerOf(&j.Object).IsZero() {
			v.fillFacts(add("Job", &j.Object), nil)
		}
	}
	for i := range s.Pods { // what is left belongs to nobody, or to what was not read
		if o := s.WorkloadAbove("Pod", &s.Pods[i].Object); !done[o] {
			done[o] = true
			f := s.NewFacts(o, ControllerOf(&s.Pods[i].Object).APIVersion)
			v.fillFacts(f, nil)
			all = append(all, f)
		}
	}
	return all
}

// TroubledNodes are the facts about each node that is not as it should be and has
// Pods of the Scene.
func (s *Scene) TroubledNodes() []*Facts {
	var all []*Facts
	for _, n := range s.Nodes {
		o := nightcrier.Object{Kind: "Node", Name: n.Object.Name}
		f := s.NewFacts(o, "v1")
		f.Nodes = []Read[corev1.Node]{n}
		f.Events = slices.Collect(s.EventsAbout("Node", "", o.Name))
		for _, p := range s.Pods {
			if p.Object.Spec.NodeName == n.Object.Name {
				f.CountPods([]Read[corev1.Pod]{p})
				if !slices.Contains(f.Namespaces, p.Object.Namespace) {
					f.Namespaces = append(f.Namespaces, p.Object.Namespace)
				}
			}
		}
		if f.Replicas.Total > 0 {
			all = append(all, f)
		}
	}
	return all
}

// NewFacts are the facts about an object of the Scene, before any of them is filled in.
func (s *Scene) NewFacts(o nightcrier.Object, apiVersion string) *Facts {
	r := nightcrier.Resource{APIVersion: apiVersion, Kind: o.Kind, Namespace: o.Namespace, Name: o.Name}
	return &Facts{Now: s.Now, Target: r, Owner: r, Scene: s, OwnerRead: true}
}

// FillFromScene gives the facts of a workload the parts that the Scene holds.
func (f *Facts) FillFromScene() { newView(f.Scene).fillFacts(f, nil) }

// fillFacts gives the facts of a workload its parts.
func (v *view) fillFacts(f *Facts, set func(*Facts)) {
	o := f.Mend()
	if set != nil {
		set(f)
	}
	f.ReplicaSet = newestOf(v.sets[o], func(rs *appsv1.ReplicaSet) metav1.Time { return rs.CreationTimestamp })
	f.Job = newestOf(v.jobs[o], func(j *batchv1.Job) metav1.Time { return j.CreationTimestamp })
	pods := v.pods[o]
	if o.Kind == "CronJob" && f.Job != nil { // earlier ones are history
		pods = slices.DeleteFunc(slices.Clone(pods), func(p Read[corev1.Pod]) bool { return ControllerOf(&p.Object).Name != f.Job.Object.Name })
	}
	f.CountPods(pods)
	f.Pods = PickPods(f, pods, nil)
	v.addEvents(f)
	for p := range f.AllPods() {
		f.Logs = append(f.Logs, v.logs[nightcrier.Object{Kind: "Pod", Namespace: p.Object.Namespace, Name: p.Object.Name}]...)
	}
	for _, p := range f.Pods {
		if n, ok := v.nodes[p.Object.Spec.NodeName]; ok && IsNodeSuspect(&p.Object) {
			f.Nodes = append(f.Nodes, n)
		} else if SchedulerMessage(&p.Object) != "" && len(f.Nodes) == 0 {
			f.Nodes = v.s.Nodes
		}
	}
}

func (v *view) addEvents(f *Facts) {
	about := []nightcrier.Object{f.Mend()}
	if f.ReplicaSet != nil {
		about = append(about, nightcrier.Object{Kind: "ReplicaSet", Namespace: f.Owner.Namespace, Name: f.ReplicaSet.Object.Name})
	}
	if f.Job != nil {
		about = append(about, nightcrier.Object{Kind: "Job", Namespace: f.Owner.Namespace, Name: f.Job.Object.Name})
	}
	for _, p := range f.Pods {
		about = append(about, nightcrier.Object{Kind: "Pod", Namespace: p.Object.Namespace, Name: p.Object.Name})
	}
	slices.SortFunc(about, func(a, b nightcrier.Object) int { return cmp.Compare(a.String(), b.String()) })
	for _, o := range slices.Compact(about) {
		f.Events = append(f.Events, v.events[o]...)
	}
	slices.SortStableFunc(f.Events, func(a, b Read[corev1.Event]) int {
		return EventLastSeen(&b.Object).Compare(EventLastSeen(&a.Object))
	})
}

func newestOf[T any](all []Read[T], born func(*T) metav1.Time) *Read[T] {
	var found *Read[T]
	for i := range all {
		if found == nil || born(&found.Object).Time.Before(born(&all[i].Object).Time) {
			found = &all[i]
		}
	}
	return found
}
