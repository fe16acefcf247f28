package diagnose

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/text"
)

// rejections are the reasons for which a kubelet does not take a Pod that was given
// to it, and what a scheduler would have called the same.
var rejections = map[string]string{
	"OutOfcpu":                            "unschedulable-cpu",
	"OutOfmemory":                         "unschedulable-memory",
	"OutOfpods":                           "unschedulable-pod-limit",
	"NodeAffinity":                        "unschedulable-selector",
	"PodOSSelectorNodeLabelDoesNotMatch":  "unschedulable-selector",
	"NodePorts":                           "unschedulable-port",
	"TaintToleration":                     "unschedulable-taint",
	"TopologyAffinityError":               "unschedulable-other",
	"UnexpectedAdmissionError":            "unschedulable-other",
	"PodOSNotSupported":                   "unschedulable-other",
	"InitContainerRestartPolicyForbidden": "unschedulable-other",
	"SysctlForbidden":                     "container-not-started",
	"AppArmor":                            "container-not-started",
}

// rejectionCause is the cause in the reason of a Pod that its kubelet did not take, "" for
// one that it did.
func rejectionCause(p *corev1.Pod) string {
	cause, ok := rejections[p.Status.Reason]
	switch {
	case p.Status.Phase != corev1.PodFailed:
		return ""
	case ok:
		return cause
	case strings.HasPrefix(p.Status.Reason, "OutOf"):
		return "unschedulable-resource"
	}
	return ""
}

// podRejected finds workloads whose Pods are given to a node whose kubelet does not
// take them: its controller makes the next one, and so on. What is left of such Pods
// when the workload is well is no fault.
func podRejected(f *Facts) []Finding {
	if f.Hearsay || f.workloadWell() || f.allReady() {
		return nil
	}
	for i := range f.Pods {
		p := &f.Pods[i]
		cause := rejectionCause(&p.Object)
		if cause == "" || f.isPast(p) || f.Now.Sub(p.Object.CreationTimestamp.Time) > evictedLately {
			continue
		}
		node := text.CutLine(p.Object.Spec.NodeName, maxQuote)
		return []Finding{{
			Cause: cause, Object: f.Mend(), Confidence: nightcrier.High,
			Summary:  fmt.Sprintf("The kubelet of node %s does not take the Pods of %s: %s", node, f.Mend(), text.CutLine(p.Object.Status.Message, maxQuote)),
			Observed: []Observation{{Text: fmt.Sprintf("Pod %s was rejected by its node, reason %s", p.Object.Name, text.CutLine(p.Object.Status.Reason, maxQuote)), Quote: p.Object.Status.Message, Ref: p.Ref}},
			WrongIf:  "the node has changed since, and takes the next Pod",
			Test:     testByGet(p.Object.Namespace, "pod", p.Object.Name).decidesBetween("it has failed for the same reason", "it runs"),
			Actions: []Step{
				{Action: "Let the scheduler choose the node of " + f.Mend().String() + ": remove spec.nodeName, if it is set", Do: doEdit, Outcome: "its Pods go where there is room", Risk: "they may have been meant for that node"},
				{Action: "Make room on node " + node + ", or let " + f.Mend().String() + " ask for less", Outcome: "the kubelet takes the next Pod", Risk: "other Pods have to move"},
			},
		}}
	}
	return nil
}
