package diagnose

import (
	"cmp"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/cluster/kube/kinds"
)

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
		o := s.mendOf("Pod", &p.Object)
		v.pods[o] = append(v.pods[o], p)
	}
	for _, rs := range s.ReplicaSets {
		o := s.mendOf("ReplicaSet", &rs.Object)
		v.sets[o] = append(v.sets[o], rs)
	}
	for _, j := range s.Jobs {
		o := s.mendOf("Job", &j.Object)
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

// allWorkloads are the facts about every workload, and every Pod that none owns.
func (s *Scene) allWorkloads() []*Facts {
	v := newView(s)
	var all []*Facts
	done := map[nightcrier.Object]bool{}
	add := func(kind string, m metav1.Object) *Facts {
		o := nightcrier.Object{Kind: kind, Namespace: m.GetNamespace(), Name: m.GetName()}
		done[o] = true
		f := s.newFacts(o, kinds.MustNamed(kind).APIVersion())
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
		if j := &s.Jobs[i]; controllerOf(&j.Object).IsZero() {
			v.fillFacts(add("Job", &j.Object), nil)
		}
	}
	for i := range s.Pods { // what is left belongs to nobody, or to what was not read
		if o := s.mendOf("Pod", &s.Pods[i].Object); !done[o] {
			done[o] = true
			f := s.newFacts(o, controllerOf(&s.Pods[i].Object).APIVersion)
			v.fillFacts(f, nil)
			all = append(all, f)
		}
	}
	return all
}

// troubledNodes are the facts about each node that is not as it should be and has
// Pods of the Scene.
func (s *Scene) troubledNodes() []*Facts {
	var all []*Facts
	for _, n := range s.Nodes {
		o := nightcrier.Object{Kind: "Node", Name: n.Object.Name}
		f := s.newFacts(o, "v1")
		f.Nodes = []Read[corev1.Node]{n}
		f.Events = slices.Collect(s.eventsAbout("Node", "", o.Name))
		for _, p := range s.Pods {
			if p.Object.Spec.NodeName == n.Object.Name {
				f.countPods([]Read[corev1.Pod]{p})
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

// newFacts are the facts about an object of the Scene, before any of them is filled in.
func (s *Scene) newFacts(o nightcrier.Object, apiVersion string) *Facts {
	r := nightcrier.Resource{APIVersion: apiVersion, Kind: o.Kind, Namespace: o.Namespace, Name: o.Name}
	return &Facts{Now: s.Now, Target: r, Owner: r, Scene: s, ownerRead: true}
}

// fillFromScene gives the facts of a workload the parts that the Scene holds.
func (f *Facts) fillFromScene() { newView(f.Scene).fillFacts(f, nil) }

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
		pods = slices.DeleteFunc(slices.Clone(pods), func(p Read[corev1.Pod]) bool { return controllerOf(&p.Object).Name != f.Job.Object.Name })
	}
	f.countPods(pods)
	f.Pods = pickPods(f, pods, nil)
	v.addEvents(f)
	for _, p := range f.Pods {
		f.Logs = append(f.Logs, v.logs[nightcrier.Object{Kind: "Pod", Namespace: p.Object.Namespace, Name: p.Object.Name}]...)
		if n, ok := v.nodes[p.Object.Spec.NodeName]; ok && nodeSuspect(&p.Object) {
			f.Nodes = append(f.Nodes, n)
		} else if pendingOn(&p.Object) != "" && len(f.Nodes) == 0 {
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
		return lastSeen(&b.Object).Compare(lastSeen(&a.Object))
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

// pickPods picks the Pods whose state tells most about their owner: first, if it is
// given, then those that are not well, the newest first; when all are well one
// stands for all. What is left of Pods that were replaced long ago tells nothing.
func pickPods(f *Facts, pods []Read[corev1.Pod], first *Read[corev1.Pod]) []Read[corev1.Pod] {
	var picked []Read[corev1.Pod]
	if first != nil {
		picked = append(picked, *first)
	}
	pods = slices.Clone(pods)
	slices.SortStableFunc(pods, func(a, b Read[corev1.Pod]) int {
		return b.Object.CreationTimestamp.Compare(a.Object.CreationTimestamp.Time)
	})
	for i := range pods {
		p := &pods[i]
		own := first != nil && first.Object.Name == p.Object.Name
		if len(picked) < maxPods && !own && !podWell(p, f.Now) && !f.leftOver(&p.Object) {
			picked = append(picked, *p)
		}
	}
	if len(picked) == 0 {
		for i := range pods {
			if !f.leftOver(&pods[i].Object) {
				return pods[i : i+1]
			}
		}
	}
	return picked
}

// leftOver reports whether a Pod is what remains of one that failed and whose owner
// has all the Pods it wants without it.
func (f *Facts) leftOver(p *corev1.Pod) bool {
	switch {
	case p.Status.Phase != corev1.PodFailed || f.Mend().Kind == "Pod":
		return false
	case f.ofJob():
		return f.Job != nil && jobCondition(f.Job.Object, batchv1.JobComplete) != nil
	}
	return f.workloadWell()
}
