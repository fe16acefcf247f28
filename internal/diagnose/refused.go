package diagnose

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"nightcrier.dev/nightcrier"
)

var refusalRules = area{of: []Rule{refusedByNode}}

var refusalCauses = []Cause{
	{"node-refuses-pod", "Pod", "the kubelet of the node that a Pod was given to does not admit it", rankStated},
}

// notAdmitted are the reasons of Pods that a kubelet does not admit because of what
// they ask for. One that shuts down refuses too; that says nothing about the Pod.
var notAdmitted = lazily(`^(OutOf[A-Za-z][\w./-]{1,80}|NodeAffinity|NodePorts|TaintToleration|SysctlForbidden|AppArmor|TopologyAffinityError|UnexpectedAdmissionError|PodOSNotSupported|PodOSSelectorNodeLabelDoesNotMatch)$`)

// refusedByNode finds workloads whose newest Pod was not admitted by its node.
// Refused Pods stay behind, as after a node's restart, when others do their work.
func refusedByNode(f *Facts) []Finding {
	if f.Hearsay || f.workloadWell() || f.allReady() {
		return nil
	}
	for i := range f.Pods {
		p := &f.Pods[i]
		st := p.Object.Status
		if st.Phase != corev1.PodFailed || !notAdmitted.MatchString(st.Reason) || f.past(p) || f.followed(p) {
			continue
		}
		return []Finding{nodeRefuses(f, p)}
	}
	return nil
}

// followed reports whether a younger Pod came as far as to be tried.
func (f *Facts) followed(p *Read[corev1.Pod]) bool {
	return slices.ContainsFunc(f.Pods, func(o Read[corev1.Pod]) bool {
		return !finished(&o.Object) && !o.Object.CreationTimestamp.Before(&p.Object.CreationTimestamp)
	})
}

func nodeRefuses(f *Facts, p *Read[corev1.Pod]) Finding {
	st := p.Object.Status
	node := oneLine(p.Object.Spec.NodeName, maxQuote)
	n := Finding{
		Cause: "node-refuses-pod", Object: f.Mend(), Confidence: nightcrier.High,
		Summary:  fmt.Sprintf("Node %s does not admit a Pod of %s (%s): %s", node, f.Mend(), st.Reason, oneLine(st.Message, maxQuote)),
		Observed: []Observation{{Text: fmt.Sprintf("Pod %s failed before it started, reason %s", p.Object.Name, st.Reason), Quote: "reason=" + st.Reason, Ref: p.Ref}},
		WrongIf:  "what the node lacked is there by now: a Pod that was refused is not tried again",
		Test: get(p.Object.Namespace, "pod", p.Object.Name).
			decides("its phase is Failed with reason "+st.Reason, "it is another reason, or it runs"),
		Actions: []nightcrier.Action{
			{Action: "Change what the message names in " + f.Mend().String() + ", or allow it on the node", Outcome: "a new Pod is admitted", Risk: "what the node allows holds for all of its Pods"},
			{Action: "Leave the choice of the node to the scheduler if spec.nodeName is set by hand", Outcome: "the Pod waits until a node fits", Risk: "it may run elsewhere"},
		},
	}
	if st.Message != "" {
		n.Observed = append(n.Observed, Observation{Text: "the kubelet says why", Quote: st.Message, Ref: p.Ref})
	}
	return n
}
