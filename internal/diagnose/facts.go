package diagnose

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
)

// Facts is what was read about one incident: all that a rule sees.
type Facts struct {
	Now time.Time
	// Target is what the incident names, Owner what a person would mend.
	Target, Owner nightcrier.Resource
	// named is set when somebody asks about Target itself, and so expects something
	// of it; it is not when Target is one of many that were looked at.
	named bool
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
	// others are the facts about the workloads around the target: all of them when
	// the target is a whole namespace.
	others []*Facts
	// selector finds the Pods of an owner that is none of the above.
	selector *metav1.LabelSelector

	// claimRef is where the event itself was recorded.
	claimRef Ref

	// TargetGone is set when the target does not exist any more, homeGone when its
	// namespace is not there. Doubt says why a target that was not found may not be gone.
	TargetGone, homeGone bool
	Doubt                string
	goneRef              Ref
	// ownerRead is set when the owner, or a part of the way to it, was read.
	ownerRead bool
}

// Ref says where something was read.
type Ref struct {
	Evidence string
	Source   string
}

// Read is an object and where it was read.
type Read[T any] struct {
	Object T
	Ref    Ref
}

// Replicas counts the Pods of one owner, or those on one node.
type Replicas struct{ Total, Ready int }

func (r *Replicas) add(p *corev1.Pod) {
	r.Total++
	if podReady(p) {
		r.Ready++
	}
}

// NotReady is how many Pods are affected.
func (r Replicas) NotReady() int { return r.Total - r.Ready }

// Mend is the object that a person would mend.
func (f *Facts) Mend() nightcrier.Object { return objectOf(f.Owner) }

func objectOf(r nightcrier.Resource) nightcrier.Object {
	return nightcrier.Object{Kind: r.Kind, Namespace: r.Namespace, Name: r.Name}
}

// jobFailedForGood reports whether the Pods belong to a Job that has given up.
func (f *Facts) jobFailedForGood() bool {
	return f.Job != nil && jobCondition(f.Job.Object, batchv1.JobFailed) != nil
}

func jobCondition(j batchv1.Job, kind batchv1.JobConditionType) *batchv1.JobCondition {
	for i, c := range j.Status.Conditions {
		if c.Type == kind && c.Status == corev1.ConditionTrue {
			return &j.Status.Conditions[i]
		}
	}
	return nil
}

// ofJob reports whether the Pods belong to a Job, which is expected to end.
func (f *Facts) ofJob() bool {
	return f.Job != nil || f.Owner.Kind == "Job" || f.Owner.Kind == "CronJob"
}

// container is one container of one Pod, its specification beside its status.
type container struct {
	pod    *Read[corev1.Pod]
	spec   corev1.Container
	status corev1.ContainerStatus
}

// allContainers yields every container, init containers first, of every Pod.
func (f *Facts) allContainers() iter.Seq[container] {
	return func(yield func(container) bool) {
		for i := range f.Pods {
			for _, c := range podContainers(&f.Pods[i]) {
				if !yield(c) {
					return
				}
			}
		}
	}
}

// failingContainers yields the containers that may need mending now: those that are not
// well, of Pods that are not past.
func (f *Facts) failingContainers() iter.Seq[container] {
	return func(yield func(container) bool) {
		for c := range f.allContainers() {
			if !f.isPast(c.pod) && !c.hasRecovered(f.Now) && !c.isDone() && !yield(c) {
				return
			}
		}
	}
}

// isPast reports whether what a Pod shows is history: it is being deleted, has
// completed, or has failed and others do its work.
func (f *Facts) isPast(p *Read[corev1.Pod]) bool {
	switch {
	case p.Object.DeletionTimestamp != nil, p.Object.Status.Phase == corev1.PodSucceeded:
		return true
	case f.Job != nil && jobCondition(f.Job.Object, batchv1.JobComplete) != nil:
		return true
	case p.Object.Status.Phase != corev1.PodFailed || f.jobFailedForGood():
		return false
	}
	return slices.ContainsFunc(f.Pods, func(o Read[corev1.Pod]) bool {
		return o.Object.CreationTimestamp.After(p.Object.CreationTimestamp.Time) && podWell(&o, f.Now)
	})
}

func podContainers(p *Read[corev1.Pod]) []container {
	specs := slices.Concat(p.Object.Spec.InitContainers, p.Object.Spec.Containers)
	var out []container
	for _, st := range slices.Concat(p.Object.Status.InitContainerStatuses, p.Object.Status.ContainerStatuses) {
		c := container{pod: p, status: st}
		if i := slices.IndexFunc(specs, func(s corev1.Container) bool { return s.Name == st.Name }); i >= 0 {
			c.spec = specs[i]
		}
		out = append(out, c)
	}
	return out
}

// String names the container and its Pod.
func (c container) String() string { return c.nameAfter("container") + " of Pod " + c.pod.Object.Name }

// describeIn names the container and what a person would mend, to begin a sentence.
func (c container) describeIn(f *Facts) string {
	return c.nameAfter("Container") + " of " + f.Mend().String()
}

func (c container) nameAfter(word string) string {
	if c.status.Name == "" {
		return word
	}
	return word + " " + c.status.Name
}

// lastEnd is how the container last ended, nil when it never did.
func (c container) lastEnd() *corev1.ContainerStateTerminated {
	if t := c.status.State.Terminated; t != nil {
		return t
	}
	return c.status.LastTerminationState.Terminated
}

// waitingReason is the reason that the container waits for, "" when it does not.
func (c container) waitingReason() (reason, message string) {
	if w := c.status.State.Waiting; w != nil {
		return w.Reason, w.Message
	}
	return "", ""
}

// isDone reports whether the container has ended as it should.
func (c container) isDone() bool {
	end := c.status.State.Terminated
	return end != nil && end.ExitCode == 0
}

// settled is how long a container must have run since its last end to count as
// recovered: longer than the longest back-off between two starts, 5 minutes.
const settled = 10 * time.Minute

// A container that has ended often is believed only after it has outlived its
// last run twice over, as a leak takes its time; but not for ever.
const (
	oftenRestarts = 3
	longestProof  = 6 * time.Hour
)

// recoveryTime is how long the container must have run to count as recovered.
func (c container) recoveryTime(end *corev1.ContainerStateTerminated) time.Duration {
	if c.status.RestartCount < oftenRestarts || end.StartedAt.IsZero() {
		return settled
	}
	ran := end.FinishedAt.Sub(end.StartedAt.Time)
	return max(settled, min(2*ran, longestProof))
}

// hasRecovered reports whether the container is well and, if it ever failed, has
// been for long enough.
func (c container) hasRecovered(now time.Time) bool {
	running := c.status.State.Running
	if !c.status.Ready || running == nil {
		return false
	}
	end := c.lastEnd()
	return end == nil || c.status.RestartCount <= 1 && outsideEnd(end) || now.Sub(end.FinishedAt.Time) > c.recoveryTime(end)
}

// outsideEnd reports whether a container ended as those do that a node's restart
// or a deliberate stop ends.
func outsideEnd(end *corev1.ContainerStateTerminated) bool {
	return end.Reason == "Unknown" || end.Reason == "ContainerStatusUnknown" ||
		end.ExitCode == 255 || end.ExitCode == 143
}

func podReady(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// podWell reports whether a Pod needs no mending: ready and settled, or
// completed.
func podWell(p *Read[corev1.Pod], now time.Time) bool {
	if p.Object.Status.Phase == corev1.PodSucceeded {
		return true
	}
	if !podReady(&p.Object) {
		return false
	}
	for _, c := range podContainers(p) {
		done := c.status.State.Terminated != nil && c.status.State.Terminated.ExitCode == 0
		if !done && !c.hasRecovered(now) {
			return false
		}
	}
	return true
}

// readySinceStart reports whether every Pod got ready within what the probes of its
// containers allow a start to take, and has been ever since.
func (f *Facts) readySinceStart() bool {
	for c := range f.allContainers() {
		if c.isDone() {
			continue
		}
		running := c.status.State.Running
		if running == nil || running.StartedAt.IsZero() || !podReady(&c.pod.Object) || readyAt(&c.pod.Object).Sub(running.StartedAt.Time) > probeAllowance(c.spec.ReadinessProbe) {
			return false
		}
	}
	return len(f.Pods) > 0
}

// readyAt is when a Pod last got ready, or ceased to be.
func readyAt(p *corev1.Pod) time.Time {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.LastTransitionTime.Time
		}
	}
	return time.Time{}
}

// eventsOf yields the events about one object, newest first.
func (f *Facts) eventsOf(kind, name string) iter.Seq[Read[corev1.Event]] {
	return func(yield func(Read[corev1.Event]) bool) {
		for _, e := range f.Events {
			if o := e.Object.InvolvedObject; o.Kind == kind && o.Name == name && !yield(e) {
				return
			}
		}
	}
}

// freshFor is how old an Event may be to speak of now. One that keeps happening
// is written again about every five minutes.
const freshFor = 15 * time.Minute

func (f *Facts) isFresh(e Read[corev1.Event]) bool {
	return f.Hearsay || f.Now.Sub(lastSeen(&e.Object)) < freshFor
}

// lastSeen is when the event last happened.
func lastSeen(e *corev1.Event) time.Time {
	at := []metav1.Time{e.LastTimestamp, {Time: e.EventTime.Time}, e.FirstTimestamp, e.CreationTimestamp}
	if e.Series != nil {
		at = append(at, metav1.Time{Time: e.Series.LastObservedTime.Time})
	}
	return slices.MaxFunc(at, func(a, b metav1.Time) int { return cmp.Compare(a.UnixNano(), b.UnixNano()) }).Time
}

// logOf returns the excerpt that says most about how the container ended: its
// previous instance's if there is one.
func (f *Facts) logOf(c container) (LogExcerpt, bool) {
	var found LogExcerpt
	ok := false
	for _, l := range f.Logs {
		if l.Pod == c.pod.Object.Name && l.Container == c.status.Name && lastLine(l.Text) != "" && (!ok || l.Previous) {
			found, ok = l, true
		}
	}
	return found, ok
}
