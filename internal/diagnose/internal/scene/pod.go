package scene

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// maxPods is how many Pods of a workload have their events and logs looked at.
const maxPods = 2

// CountPods counts Pods; those that are over do not count.
func (f *Facts) CountPods(pods []Read[corev1.Pod]) {
	for i := range pods {
		p := &pods[i]
		f.all = append(f.all, p)
		if p.Object.Status.Phase == corev1.PodSucceeded || isReplaced(&p.Object) {
			continue
		}
		f.Replicas.Add(&p.Object)
	}
}

// isReplaced reports whether a Pod has failed for good and its owner makes another.
func isReplaced(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodFailed && slices.Contains([]string{"ReplicaSet", "StatefulSet", "DaemonSet"}, ControllerOf(p).Kind)
}

// IsNodeSuspect reports whether a Pod's state points at its node.
func IsNodeSuspect(p *corev1.Pod) bool {
	if p.Spec.NodeName == "" {
		return false
	}
	if p.Status.Phase == corev1.PodUnknown || slices.Contains([]string{"NodeLost", "Evicted", "NodeShutdown", "Terminated"}, p.Status.Reason) {
		return true
	}
	if p.Status.Phase == corev1.PodPending && p.Status.StartTime == nil { // its kubelet has not taken it up
		return true
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady && (c.Status == corev1.ConditionUnknown || c.Reason == "NodeNotReady") {
			return true
		}
	}
	return false
}

// SchedulerMessage is what the scheduler says about a Pod without a node, "" when the
// Pod has one.
func SchedulerMessage(p *corev1.Pod) string {
	if p.Spec.NodeName != "" {
		return ""
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return c.Message
		}
	}
	return ""
}

// PodState is how a Pod stands.
func PodState(p Read[corev1.Pod]) Observation {
	var restarts int32
	for _, c := range PodContainers(&p) {
		restarts += c.Status.RestartCount
	}
	ready := "not ready"
	if IsPodReady(&p.Object) {
		ready = "ready"
	}
	text := fmt.Sprintf("Pod %s is %s in phase %s, restart count %d", p.Object.Name, ready, p.Object.Status.Phase, restarts)
	if p.Object.Spec.NodeName != "" {
		text += ", on node " + p.Object.Spec.NodeName
	}
	return Observation{Text: text, Quote: "phase=" + string(p.Object.Status.Phase), Ref: p.Ref}
}

// IsPast reports whether what a Pod shows is history: it is being deleted, has
// completed, or has failed and others do its work.
func (f *Facts) IsPast(p *Read[corev1.Pod]) bool {
	switch {
	case p.Object.DeletionTimestamp != nil, p.Object.Status.Phase == corev1.PodSucceeded:
		return true
	case f.Job != nil && FindJobCondition(f.Job.Object, batchv1.JobComplete) != nil:
		return true
	case p.Object.Status.Phase != corev1.PodFailed || f.JobFailedForGood():
		return false
	}
	return slices.ContainsFunc(f.Pods, func(o Read[corev1.Pod]) bool {
		return o.Object.CreationTimestamp.After(p.Object.CreationTimestamp.Time) && IsPodWell(&o, f.Now)
	})
}

// IsPodReady reports whether a Pod says that it is ready.
func IsPodReady(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// IsPodWell reports whether a Pod needs no mending: ready and settled, or
// completed.
func IsPodWell(p *Read[corev1.Pod], now time.Time) bool {
	if p.Object.Status.Phase == corev1.PodSucceeded {
		return true
	}
	if !IsPodReady(&p.Object) {
		return false
	}
	for _, c := range PodContainers(p) {
		done := c.Status.State.Terminated != nil && c.Status.State.Terminated.ExitCode == 0
		if !done && !c.HasRecovered(now) {
			return false
		}
	}
	return true
}

// ReadySinceStart reports whether every Pod got ready within what the probes of its
// containers allow a start to take, and has been ever since.
func (f *Facts) ReadySinceStart() bool {
	for c := range f.AllContainers() {
		if c.IsDone() {
			continue
		}
		running := c.Status.State.Running
		if running == nil || running.StartedAt.IsZero() || !IsPodReady(&c.Pod.Object) || PodReadyAt(&c.Pod.Object).Sub(running.StartedAt.Time) > ProbeAllowance(c.Spec.ReadinessProbe) {
			return false
		}
	}
	return len(f.Pods) > 0
}

// PodReadyAt is when a Pod last got ready, or ceased to be.
func PodReadyAt(p *corev1.Pod) time.Time {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.LastTransitionTime.Time
		}
	}
	return time.Time{}
}

// IsFinished reports whether a Pod has ended for good.
func IsFinished(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

// nodeComes is how long a new node may take to come up.
const nodeComes = 10 * time.Minute

// IsNodeComing reports whether a node is being added for a Pod that has not waited for
// longer than that takes.
func (f *Facts) IsNodeComing(p *Read[corev1.Pod]) bool {
	if HasWaited(&p.Object, f.Now, nodeComes) {
		return false
	}
	for e := range f.EventsOf("Pod", p.Object.Name) {
		if nodeOrdered.MatchString(e.Object.Reason) && f.IsFresh(e) {
			return true
		}
	}
	return f.Scene.nodeLaunched(p) != nil
}

// nodeOrdered matches the reasons by which what adds nodes says that it adds one for a Pod.
var nodeOrdered = NewPattern(`^(?:TriggeredScaleUp|Nominated)$`)

// nodeLaunched is the claim of a node that was made since the Pod waits, has its machine, and
// has not registered yet, nil where none is or it says that something failed.
func (s *Scene) nodeLaunched(p *Read[corev1.Pod]) *Read[unstructured.Unstructured] {
	for i := range s.Others {
		u := &s.Others[i]
		if s.IsNodeLaunching(&u.Object) && !u.Object.GetCreationTimestamp().Time.Before(p.Object.CreationTimestamp.Time) {
			return u
		}
	}
	return nil
}

// IsNodeLaunching reports whether an object is the claim of a node that has its machine and
// is not long in coming up.
func (s *Scene) IsNodeLaunching(u *unstructured.Unstructured) bool {
	if u.GetKind() != "NodeClaim" || s.Now.Sub(u.GetCreationTimestamp().Time) > nodeComes || u.GetDeletionTimestamp() != nil {
		return false
	}
	is := map[string]string{}
	for _, c := range conditionsOf(u) {
		is[fieldOf(c, "type")] = fieldOf(c, "status")
	}
	return is["Launched"] == "True" && is["Initialized"] != "True"
}

// PickPods picks the Pods whose state tells most about their owner: first, if it is
// given, then those that are not well, the newest first; when all are well one
// stands for all. What is left of Pods that were replaced long ago tells nothing.
func PickPods(f *Facts, pods []Read[corev1.Pod], first *Read[corev1.Pod]) []Read[corev1.Pod] {
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
		if len(picked) < maxPods && !own && !IsPodWell(p, f.Now) && !f.leftOver(&p.Object) {
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
	case f.IsOfJob():
		return f.Job != nil && FindJobCondition(f.Job.Object, batchv1.JobComplete) != nil
	}
	return f.WorkloadWell()
}

// ObserveEnd is how the container last ended.
func (c Container) ObserveEnd(end *corev1.ContainerStateTerminated) Observation {
	text := fmt.Sprintf("%s ended with exit code %d", c, end.ExitCode)
	quote := fmt.Sprintf("exitCode=%d", end.ExitCode)
	if end.Reason != "" {
		text += ", reason " + end.Reason
		quote += ", reason=" + end.Reason
	}
	if !end.FinishedAt.IsZero() {
		text += ", at " + end.FinishedAt.UTC().Format(time.RFC3339)
	}
	if c.Status.RestartCount > 0 {
		text += fmt.Sprintf(", restart count %d", c.Status.RestartCount)
	}
	if end.Message != "" {
		quote = end.Message
	}
	return Observation{Text: text, Quote: quote, Ref: c.Pod.Ref}
}

// Container is one container of one Pod, its specification beside its status.
type Container struct {
	Pod    *Read[corev1.Pod]
	Spec   corev1.Container
	Status corev1.ContainerStatus
}

// AllContainers yields every container, init containers first, of every Pod.
func (f *Facts) AllContainers() iter.Seq[Container] {
	return func(yield func(Container) bool) {
		for i := range f.Pods {
			for _, c := range PodContainers(&f.Pods[i]) {
				if !yield(c) {
					return
				}
			}
		}
	}
}

// FailingContainers yields the containers that may need mending now: those that are not
// well, of Pods that are not past.
func (f *Facts) FailingContainers() iter.Seq[Container] {
	return func(yield func(Container) bool) {
		for c := range f.AllContainers() {
			if !f.IsPast(c.Pod) && !c.HasRecovered(f.Now) && !c.IsDone() && !yield(c) {
				return
			}
		}
	}
}

// PodContainers are the containers of a Pod of which there is a status, init containers
// first.
func PodContainers(p *Read[corev1.Pod]) []Container {
	specs := slices.Concat(p.Object.Spec.InitContainers, p.Object.Spec.Containers)
	var out []Container
	for _, st := range slices.Concat(p.Object.Status.InitContainerStatuses, p.Object.Status.ContainerStatuses) {
		c := Container{Pod: p, Status: st}
		if i := slices.IndexFunc(specs, func(s corev1.Container) bool { return s.Name == st.Name }); i >= 0 {
			c.Spec = specs[i]
		}
		out = append(out, c)
	}
	return out
}

// String names the container and its Pod.
func (c Container) String() string { return c.NameAfter("container") + " of Pod " + c.Pod.Object.Name }

// DescribeIn names the container and what a person would mend, to begin a sentence.
func (c Container) DescribeIn(f *Facts) string {
	return c.NameAfter("Container") + " of " + f.Mend().String()
}

// NameAfter is the word with the container's name behind it.
func (c Container) NameAfter(word string) string {
	if c.Status.Name == "" {
		return word
	}
	return word + " " + c.Status.Name
}

// LastTermination is how the container last ended, nil when it never did.
func (c Container) LastTermination() *corev1.ContainerStateTerminated {
	if t := c.Status.State.Terminated; t != nil {
		return t
	}
	return c.Status.LastTerminationState.Terminated
}

// WaitingReason is the reason that the container waits for, "" when it does not.
func (c Container) WaitingReason() (reason, message string) {
	if w := c.Status.State.Waiting; w != nil {
		return w.Reason, w.Message
	}
	return "", ""
}

// IsDone reports whether the container has ended as it should.
func (c Container) IsDone() bool {
	end := c.Status.State.Terminated
	return end != nil && end.ExitCode == 0
}

// SettleTime is how long a container must have run since its last end to count as
// recovered: longer than the longest back-off between two starts, 5 minutes.
const SettleTime = 10 * time.Minute

// A container that has ended often is believed only after it has outlived its
// last run twice over, as a leak takes its time; but not for ever.
const (
	OftenRestarts = 3
	longestProof  = 6 * time.Hour
)

// recoveryTime is how long the container must have run to count as recovered.
func (c Container) recoveryTime(end *corev1.ContainerStateTerminated) time.Duration {
	if c.Status.RestartCount < OftenRestarts || end.StartedAt.IsZero() {
		return SettleTime
	}
	ran := end.FinishedAt.Sub(end.StartedAt.Time)
	return max(SettleTime, min(2*ran, longestProof))
}

// HasRecovered reports whether the container is well and, if it ever failed, has
// been for long enough.
func (c Container) HasRecovered(now time.Time) bool {
	running := c.Status.State.Running
	if !c.Status.Ready || running == nil {
		return false
	}
	end := c.LastTermination()
	if end == nil {
		return !c.RestartedLately(now)
	}
	return c.Status.RestartCount <= 1 && outsideEnd(end) || now.Sub(end.FinishedAt.Time) > c.recoveryTime(end)
}

// RestartedLately reports whether the container runs since a restart that it has not
// outlived for long, also where its status does not keep how it ended.
func (c Container) RestartedLately(now time.Time) bool {
	running := c.Status.State.Running
	return c.Status.RestartCount > 0 && running != nil && !running.StartedAt.IsZero() && now.Sub(running.StartedAt.Time) < SettleTime
}

// outsideEnd reports whether a container ended as those do that a node's restart
// or a deliberate stop ends.
func outsideEnd(end *corev1.ContainerStateTerminated) bool {
	return end.Reason == "Unknown" || end.Reason == "ContainerStatusUnknown" ||
		end.ExitCode == 255 || end.ExitCode == 143
}

// ProbeAllowance is how long a probe may fail from the start until it counts.
func ProbeAllowance(p *corev1.Probe) time.Duration {
	if p == nil {
		return 30 * time.Second
	}
	seconds := p.InitialDelaySeconds + cmp.Or(p.PeriodSeconds, 10)*cmp.Or(p.FailureThreshold, 3)
	return time.Duration(seconds) * time.Second
}

// ProbeSilence is for how long nothing is heard of a probe that fails on: two periods, the
// second of which may be cut off by the whole seconds that Events count in.
func ProbeSilence(p *corev1.Probe) time.Duration {
	if p == nil {
		return 30 * time.Second
	}
	return time.Duration(2*cmp.Or(p.PeriodSeconds, 10)+cmp.Or(p.TimeoutSeconds, 1)+1) * time.Second
}

// SettlingTime is how long Pods may take to become ready before it counts.
const SettlingTime = 3 * time.Minute

// IsLongUnready reports whether a Pod that is not ready has had the time to be.
func (s *Scene) IsLongUnready(p *Read[corev1.Pod]) bool {
	age := s.Now.Sub(p.Object.CreationTimestamp.Time)
	return !IsPodReady(&p.Object) && (age > SettlingTime || slices.ContainsFunc(PodContainers(p), func(c Container) bool { return c.Status.RestartCount > 0 }))
}
