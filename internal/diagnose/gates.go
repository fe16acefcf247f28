package diagnose

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/text"
)

var gateRules = area{of: []Rule{readinessGates}}

var gateCauses = []Cause{
	{ID: "readiness-gate-unmet", Category: "Pod", Meaning: "a Pod's containers are ready, but a readiness gate that something outside sets keeps it from traffic", Rank: rankShown - 4},
}

// readinessGates finds Pods whose containers are ready and have been, and which
// still count as unready because nobody has set the condition of a readiness gate.
func readinessGates(f *Facts) []Finding {
	if f.Hearsay {
		return nil
	}
	for i := range f.Pods {
		p := &f.Pods[i]
		gate, unmet := unmetGate(&p.Object)
		containers := podCondition(&p.Object, corev1.ContainersReady)
		if !unmet || f.isPast(p) || podReady(&p.Object) || containers == nil || containers.Status != corev1.ConditionTrue || !hasLasted(containers.LastTransitionTime, f.Now, takeUp) {
			continue
		}
		return []Finding{gateUnmet(f, p, text.CutLine(gate, maxQuote))}
	}
	return nil
}

// unmetGate is the first readiness gate of a Pod whose condition is not True.
func unmetGate(p *corev1.Pod) (string, bool) {
	for _, g := range p.Spec.ReadinessGates {
		if c := podCondition(p, g.ConditionType); c == nil || c.Status != corev1.ConditionTrue {
			return string(g.ConditionType), true
		}
	}
	return "", false
}

func podCondition(p *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range p.Status.Conditions {
		if p.Status.Conditions[i].Type == kind {
			return &p.Status.Conditions[i]
		}
	}
	return nil
}

func gateUnmet(f *Facts, p *Read[corev1.Pod], gate string) Finding {
	n := Finding{
		Cause: "readiness-gate-unmet", Object: f.Mend(), Confidence: nightcrier.High,
		Summary: fmt.Sprintf("The containers of %s are ready, but its Pods get no traffic: nothing has set the condition of their readiness gate %s to True.", f.Mend(), gate),
		Observed: []Observation{
			{Text: fmt.Sprintf("Pod %s has the readiness gate %s, which is not met", p.Object.Name, gate), Quote: gate, Ref: p.Ref},
			{Text: "Pod " + p.Object.Name + " has all containers ready", Quote: "type=ContainersReady", Ref: p.Ref},
		},
		WrongIf: "whoever sets the condition is about to, as a load balancer that still registers the Pod",
		Test: testByGet(p.Object.Namespace, "pod", p.Object.Name).
			decidesBetween("condition "+gate+" is missing or not True while ContainersReady is True", "it is True"),
		Actions: []Step{
			{Action: "Find the controller that sets " + gate + " and see whether it runs and knows the Pods", Outcome: "names what the Pods wait for", Risk: "none: read only"},
			{Action: "Take the gate out of the template of " + f.Mend().String(), Do: doEdit, Outcome: "new Pods are ready when their containers are", Risk: "goes around what the gate is for"},
		},
	}
	if c := podCondition(&p.Object, corev1.PodReady); c != nil && c.Reason == "ReadinessGatesNotReady" {
		n.Observed = append(n.Observed, Observation{Text: "Pod " + p.Object.Name + " is not ready", Quote: c.Message, Ref: p.Ref})
	}
	return n
}
