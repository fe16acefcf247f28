package diagnose

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"nightcrier.dev/nightcrier"
)

var rolloutRules = area{of: []Rule{rolloutStalled, rolloutPaused}}

var rolloutCauses = []Cause{
	{ID: "rollout-paused", Category: "Pod", Meaning: "a rollout is paused, so that a change of the workload is not rolled out", Rank: rankFollows + 1},
	{ID: "rollout-stalled", Category: "Pod", Meaning: "a rollout does not progress and its Pods do not say why", Rank: rankFollows},
}

// rolloutStalled finds Deployments whose rollout does not progress. Why usually
// stands with its Pods, so this ranks below every other cause.
func rolloutStalled(f *Facts) []Finding {
	if f.Deployment == nil {
		return nil
	}
	d := &f.Deployment.Object
	if rolledOut(d) && !f.Hearsay {
		return nil
	}
	for _, c := range d.Status.Conditions {
		if c.Type != appsv1.DeploymentProgressing || c.Status != corev1.ConditionFalse {
			continue
		}
		return []Finding{{
			Cause: "rollout-stalled", Object: f.Mend(), Confidence: nightcrier.Medium,
			Summary:  fmt.Sprintf("The rollout of %s does not progress (%s).", f.Mend(), c.Reason),
			Observed: []Observation{{Text: fmt.Sprintf("Deployment %s has %s=%s, reason %s", d.Name, c.Type, c.Status, c.Reason), Quote: c.Message, Ref: f.Deployment.Ref}},
			WrongIf:  "its Pods only need longer than progressDeadlineSeconds allows",
			Test: testByGet(d.Namespace, "deployment", d.Name).
				decidesBetween("the condition still stands", "Progressing is True"),
			Actions: []Step{
				{Action: "Look at the newest Pods of " + f.Mend().String() + " and why they are not ready", Outcome: "names the cause", Risk: "none: read only"},
				{Action: "Roll back", Do: doUndo, Outcome: "the version that ran before is back", Risk: "loses what the rollout brought"},
			},
		}}
	}
	return nil
}

// rolledOut reports whether all of a Deployment's Pods are of its newest version
// and available.
func rolledOut(d *appsv1.Deployment) bool {
	want := orOne(d.Spec.Replicas)
	return want > 0 && d.Status.UpdatedReplicas >= want && d.Status.AvailableReplicas >= want && d.Status.Replicas == d.Status.UpdatedReplicas
}

// rolloutPaused finds Deployments that were changed while they are paused: what was
// changed waits.
func rolloutPaused(f *Facts) []Finding {
	if f.Deployment == nil || f.Hearsay {
		return nil
	}
	d := &f.Deployment.Object
	want := orOne(d.Spec.Replicas)
	if !d.Spec.Paused || want == 0 || d.Status.UpdatedReplicas >= want || !hasWaited(d, f.Now, takeUp) {
		return nil
	}
	return []Finding{{
		Cause: "rollout-paused", Object: f.Mend(), Confidence: nightcrier.High,
		Summary: fmt.Sprintf("The rollout of %s is paused: %d of %d Pods are of the newest version, and no more will be until it is resumed.", f.Mend(), d.Status.UpdatedReplicas, want),
		Observed: []Observation{{
			Text:  fmt.Sprintf("Deployment %s has spec.paused true, updatedReplicas %d of %d", d.Name, d.Status.UpdatedReplicas, want),
			Quote: "paused=true", Ref: f.Deployment.Ref,
		}},
		WrongIf: "it is paused on purpose, to watch the new version first",
		Test:    testByGet(d.Namespace, "deployment", d.Name).decidesBetween("spec.paused is true and updatedReplicas is less than replicas", "it is not paused, or all Pods are updated"),
		Actions: []Step{
			{Action: "Resume the rollout of " + f.Mend().String() + " if nothing speaks against it", Do: doResume, Outcome: "the change is rolled out", Risk: "whatever it was paused for happens now"},
			{Action: "Look at what changed since the version that runs", Outcome: "shows what a resume would bring", Risk: "none: read only"},
		},
	}}
}
