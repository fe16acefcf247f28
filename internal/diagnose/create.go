package diagnose

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"nightcrier.dev/nightcrier"
)

var creationRules = area{of: []Rule{podsRefused}}

var creationCauses = []Cause{
	{"pod-creation-refused", "Pod", "the API server refuses to make the workload's Pods", rankStated},
	{"quota-exceeded", "Cluster", "the namespace's quota leaves no room for the workload's Pods", rankStated},
}

// podsRefused finds workloads whose Pods the API server does not let be made.
func podsRefused(f *Facts) []Finding {
	said, ok := f.saidOfCreation()
	if !ok {
		return nil
	}
	cause := "pod-creation-refused"
	if strings.Contains(said.Quote, "exceeded quota") {
		cause = "quota-exceeded"
	}
	return []Finding{{
		Cause: cause, Object: f.Mend(), Confidence: nightcrier.High, Observed: []Observation{said},
		Summary: fmt.Sprintf("%s gets no more Pods: %s (%s).", f.Mend(), causeOf(cause).Meaning, oneLine(said.Quote, maxQuote)),
		WrongIf: "what refused has been changed since; the controller tries again by itself",
		Test: describe(f.Owner).
			decides("its conditions or newest events say the same", "the Pods it wants are there"),
		Actions: []nightcrier.Action{
			{Action: "Change what refuses the Pods, or what " + f.Mend().String() + " asks for", Outcome: "the controller makes the Pods by itself", Risk: "a larger quota takes room from others; a weaker policy lets other Pods through too"},
			{Action: "Look at what uses up namespace " + f.Mend().Namespace, Outcome: "names what could give way", Risk: "none: read only"},
		},
	}}
}

// saidOfCreation is why Pods cannot be made: a Deployment's condition, which
// tells of now, or a controller's newest Event.
func (f *Facts) saidOfCreation() (Observation, bool) {
	if f.Deployment != nil {
		for _, c := range f.Deployment.Object.Status.Conditions {
			if c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue {
				text := fmt.Sprintf("Deployment %s has %s=%s, reason %s", f.Deployment.Object.Name, c.Type, c.Status, c.Reason)
				return Observation{Text: text, Quote: c.Message, Ref: f.Deployment.Ref}, true
			}
		}
	}
	for _, e := range f.Events {
		current := f.Deployment == nil || f.Hearsay
		if e.Object.Reason == "FailedCreate" && current && f.fresh(e) {
			return sawEvent(e), true
		}
	}
	return Observation{}, false
}
