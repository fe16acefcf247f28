package scene

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

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
	return end == nil || c.Status.RestartCount <= 1 && outsideEnd(end) || now.Sub(end.FinishedAt.Time) > c.recoveryTime(end)
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
