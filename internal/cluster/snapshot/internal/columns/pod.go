package columns

import (
	"cmp"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// podCells shows a Pod as kubectl does.
func podCells(p *corev1.Pod, now time.Time) []any {
	ready, restarts := 0, int32(0)
	var last metav1.Time
	for _, c := range p.Status.ContainerStatuses {
		if c.Ready {
			ready++
		}
		restarts += c.RestartCount
		if end := c.LastTerminationState.Terminated; end != nil && last.Before(&end.FinishedAt) {
			last = end.FinishedAt
		}
	}
	often := fmt.Sprint(restarts)
	if restarts > 0 && !last.IsZero() {
		often += " (" + FormatAge(last, now) + " ago)"
	}
	gates := "<none>"
	if n := len(p.Spec.ReadinessGates); n > 0 {
		gates = fmt.Sprintf("0/%d", n)
	}
	return []any{p.Name, fmt.Sprintf("%d/%d", ready, len(p.Spec.Containers)), podStatus(p), often, FormatAge(p.CreationTimestamp, now),
		cmp.Or(p.Status.PodIP, "<none>"), cmp.Or(p.Spec.NodeName, "<none>"), cmp.Or(p.Status.NominatedNodeName, "<none>"), gates}
}

// podStatus is the word that kubectl has for the state of a Pod.
func podStatus(p *corev1.Pod) string {
	status := cmp.Or(p.Status.Reason, string(p.Status.Phase))
	if word := initStatus(p); word != "" {
		status = word
	} else {
		status = cmp.Or(runStatus(p), status)
	}
	switch {
	case p.DeletionTimestamp != nil && p.Status.Reason == "NodeLost":
		return "Unknown"
	case p.DeletionTimestamp != nil && p.Status.Phase != corev1.PodFailed && p.Status.Phase != corev1.PodSucceeded:
		return "Terminating"
	}
	return status
}

// initStatus tells of the first init container that is not done, "" when all are.
func initStatus(p *corev1.Pod) string {
	sidecars := map[string]bool{}
	for _, c := range p.Spec.InitContainers {
		sidecars[c.Name] = valueOrZero(c.RestartPolicy) == corev1.ContainerRestartPolicyAlways
	}
	for i, c := range p.Status.InitContainerStatuses {
		end, wait := c.State.Terminated, c.State.Waiting
		switch {
		case end != nil && end.ExitCode == 0, sidecars[c.Name] && valueOrZero(c.Started):
			continue
		case end != nil:
			return "Init:" + endedReason(end)
		case wait != nil && wait.Reason != "" && wait.Reason != "PodInitializing":
			return "Init:" + wait.Reason
		}
		return fmt.Sprintf("Init:%d/%d", i, len(p.Spec.InitContainers))
	}
	return ""
}

// runStatus tells of the containers, "" when there is nothing to tell.
func runStatus(p *corev1.Pod) (status string) {
	running := false
	for i := len(p.Status.ContainerStatuses) - 1; i >= 0; i-- {
		switch c := p.Status.ContainerStatuses[i]; {
		case c.State.Waiting != nil && c.State.Waiting.Reason != "":
			status = c.State.Waiting.Reason
		case c.State.Terminated != nil:
			status = endedReason(c.State.Terminated)
		case c.Ready && c.State.Running != nil:
			running = true
		}
	}
	if status == "Completed" && running {
		return "Running"
	}
	return status
}

func endedReason(t *corev1.ContainerStateTerminated) string {
	switch {
	case t.Reason != "":
		return t.Reason
	case t.Signal != 0:
		return fmt.Sprintf("Signal:%d", t.Signal)
	}
	return fmt.Sprintf("ExitCode:%d", t.ExitCode)
}
