package diagnose

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"nightcrier.dev/nightcrier"
)

var rolloutRules = area{of: []Rule{rolloutStalled}}

var rolloutCauses = []Cause{
	{"rollout-stalled", "Pod", "a rollout does not progress and its Pods do not say why", rankFollows},
}

// rolloutStalled finds Deployments whose rollout does not progress. Why usually
// stands with its Pods, so this ranks below every other cause.
func rolloutStalled(f *Facts) []Finding {
	if f.Deployment == nil {
		return nil
	}
	d := &f.Deployment.Object
	for _, c := range d.Status.Conditions {
		if c.Type != appsv1.DeploymentProgressing || c.Status != corev1.ConditionFalse {
			continue
		}
		return []Finding{{
			Cause: "rollout-stalled", Object: f.Mend(), Confidence: nightcrier.Medium,
			Summary:  fmt.Sprintf("The rollout of %s does not progress (%s).", f.Mend(), c.Reason),
			Observed: []Observation{{Text: fmt.Sprintf("Deployment %s has %s=%s, reason %s", d.Name, c.Type, c.Status, c.Reason), Quote: c.Message, Ref: f.Deployment.Ref}},
			WrongIf:  "its Pods only need longer than progressDeadlineSeconds allows",
			Test: get(d.Namespace, "deployment", d.Name).
				decides("the condition still stands", "Progressing is True"),
			Actions: []nightcrier.Action{
				{Action: "Look at the newest Pods of " + f.Mend().String() + " and why they are not ready", Outcome: "names the cause", Risk: "none: read only"},
				{Action: "Roll back", Outcome: "the version that ran before is back", Risk: "loses what the rollout brought"},
			},
		}}
	}
	return nil
}
