package kubetest

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CrashLoop gives pod the status of a container that exits with code at every
// start and waits for its next one, having restarted so many times.
func (s *Server) CrashLoop(tb testing.TB, pod *corev1.Pod, code int32, restarts int32) {
	tb.Helper()
	s.restarting(tb, pod, restarts, corev1.ContainerStateTerminated{ExitCode: code, Reason: "Error"})
}

// OOMKill gives pod the status of a container that the kernel killed for its
// memory and that waits for its next start.
func (s *Server) OOMKill(tb testing.TB, pod *corev1.Pod, restarts int32) {
	tb.Helper()
	s.restarting(tb, pod, restarts, corev1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled"})
}

func (s *Server) restarting(tb testing.TB, pod *corev1.Pod, restarts int32, last corev1.ContainerStateTerminated) {
	tb.Helper()
	last.FinishedAt = metav1.NewTime(time.Now().Add(-10 * time.Second))
	last.StartedAt = metav1.NewTime(last.FinishedAt.Add(-time.Second))
	s.containerStatus(tb, pod, corev1.PodRunning, corev1.ContainerStatus{
		RestartCount:         restarts,
		LastTerminationState: corev1.ContainerState{Terminated: &last},
		State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{
			Reason:  "CrashLoopBackOff",
			Message: "back-off 40s restarting failed container=app pod=" + pod.Name + "_" + pod.Namespace,
		}},
	})
}

// ImagePullBackOff gives pod the status of a container whose image cannot be had.
func (s *Server) ImagePullBackOff(tb testing.TB, pod *corev1.Pod) {
	tb.Helper()
	s.containerStatus(tb, pod, corev1.PodPending, corev1.ContainerStatus{
		State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{
			Reason:  "ImagePullBackOff",
			Message: `Back-off pulling image "` + pod.Spec.Containers[0].Image + `"`,
		}},
	})
}

// Unschedulable makes a Pod that no node takes, for the reason in message. Its
// owner may be nil.
func (s *Server) Unschedulable(tb testing.TB, ns, name string, owner Object, message string) *corev1.Pod {
	tb.Helper()
	pod := s.podOn(tb, "", ns, name, owner)
	pod.Status.Phase = corev1.PodPending
	pod.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
		Message: message, LastTransitionTime: metav1.Now(),
	}}
	s.UpdateStatus(tb, pod)
	return pod
}

// Running gives pod the status of a healthy one.
func (s *Server) Running(tb testing.TB, pod *corev1.Pod) {
	tb.Helper()
	s.containerStatus(tb, pod, corev1.PodRunning, corev1.ContainerStatus{
		Ready: true,
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}},
	})
}

// containerStatus writes the status of the Pod's first container, and the
// conditions that follow from it.
func (s *Server) containerStatus(tb testing.TB, pod *corev1.Pod, phase corev1.PodPhase, cs corev1.ContainerStatus) {
	tb.Helper()
	cs.Name, cs.Image = pod.Spec.Containers[0].Name, pod.Spec.Containers[0].Image
	ready := corev1.ConditionFalse
	if cs.Ready {
		ready = corev1.ConditionTrue
	}
	pod.Status.Phase = phase
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{cs}
	pod.Status.Conditions = []corev1.PodCondition{
		{Type: corev1.PodReady, Status: ready, LastTransitionTime: metav1.Now()},
		{Type: corev1.ContainersReady, Status: ready, LastTransitionTime: metav1.Now()},
	}
	s.UpdateStatus(tb, pod)
}

// Warn creates a Warning Event about obj, as a component of the cluster would.
func (a *API) Warn(tb testing.TB, obj Object, reason, message string) *corev1.Event {
	tb.Helper()
	kind := kindOf(obj)
	now := metav1.Now()
	ns := obj.GetNamespace()
	if ns == "" {
		ns = metav1.NamespaceDefault
	}
	e := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{GenerateName: obj.GetName() + ".", Namespace: ns},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: kind.GroupVersion().String(), Kind: kind.Kind,
			Namespace: obj.GetNamespace(), Name: obj.GetName(), UID: obj.GetUID(),
		},
		Type: corev1.EventTypeWarning, Reason: reason, Message: message,
		Source:         corev1.EventSource{Component: "kubelet"},
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
	}
	a.Create(tb, e)
	return e
}
