package pods

import (
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scene"
)

// jobCounts are the names by which a quota counts Jobs.
var jobCounts = []corev1.ResourceName{"count/jobs.batch", "jobs.batch"}

// jobsFull is the quota of a namespace that lets no further Job in, and by which name it
// counts them.
func jobsFull(s *scene.Scene, ns string) (*scene.Read[corev1.ResourceQuota], corev1.ResourceName) {
	for i := range s.Quotas {
		q := &s.Quotas[i]
		for _, name := range jobCounts {
			hard, counted := q.Object.Status.Hard[name]
			if used := q.Object.Status.Used[name]; q.Object.Namespace == ns && counted && used.Cmp(hard) >= 0 {
				return q, name
			}
		}
	}
	return nil, ""
}

// noRoomForJob is why a CronJob starts no Job where a quota counts them and has no room left:
// most that are counted have ended, and are kept by whoever made them.
func noRoomForJob(s *scene.Scene, c *scene.Read[batchv1.CronJob], missed int) (scene.Finding, bool) {
	q, name := jobsFull(s, c.Object.Namespace)
	if q == nil || missed == 0 {
		return scene.Finding{}, false
	}
	hard, used := q.Object.Status.Hard[name], q.Object.Status.Used[name]
	o := nightcrier.Object{Kind: "ResourceQuota", Namespace: q.Object.Namespace, Name: q.Object.Name}
	n := scene.Finding{
		Affected: []nightcrier.Object{o}, Rank: scene.RankStated,
		Summary: fmt.Sprintf("%s can start no Job since %s: %s lets no further one in (%s: %s of %s used).", cronObject(c), lastRun(&c.Object), o, name, used.String(), hard.String()),
		Observed: []scene.Observation{
			{Text: fmt.Sprintf("%s has used %s of %s of %s", o, used.String(), hard.String(), name), Quote: string(name), Ref: q.Ref},
			{Text: fmt.Sprintf("%s was last scheduled %s", cronObject(c), lastRun(&c.Object)), Quote: "schedule=" + c.Object.Spec.Schedule, Ref: c.Ref},
		},
		WrongIf: "Jobs have been deleted since, and its next run has come",
		Test:    scene.GetTest(o.Namespace, "resourcequota", o.Name).DecidesBetween("used is as much as hard for "+string(name), "there is room for another Job"),
	}
	raise := scene.Step{Action: fmt.Sprintf("Raise %s of %s, or delete Jobs that have ended", name, o), On: o, Outcome: "the next run starts", Risk: "more Jobs are kept"}
	if keeper, kept := keepsMostJobs(s, c.Object.Namespace); keeper != nil && 2*int64(kept) > hard.Value() {
		k := cronObject(keeper)
		limit := int32(3)
		if l := keeper.Object.Spec.SuccessfulJobsHistoryLimit; l != nil {
			limit = *l
		}
		n.Summary += fmt.Sprintf(" %d of them have ended and are kept by %s, whose successfulJobsHistoryLimit is %d.", kept, k, limit)
		n.Observed = append(n.Observed, scene.Observation{Text: fmt.Sprintf("%s keeps %d Jobs that have ended", k, kept), Quote: fmt.Sprintf("successfulJobsHistoryLimit=%d", limit), Ref: keeper.Ref})
		n.Actions = append(n.Actions, scene.Step{Action: fmt.Sprintf("Delete the Jobs of %s that have ended and set its successfulJobsHistoryLimit, now %d, to 3; then start a run of %s by hand", k, limit, cronObject(c)), On: k, Do: scene.DoEdit, Outcome: "there is room for other Jobs", Risk: "the logs of the deleted runs go with them"})
	}
	n.Actions = append(n.Actions, raise)
	return cronFinding(c, "quota-exceeded", nightcrier.High, n), true
}

// keepsMostJobs is the CronJob of a namespace that most Jobs that have ended belong to, and
// how many they are.
func keepsMostJobs(s *scene.Scene, ns string) (most *scene.Read[batchv1.CronJob], kept int) {
	count := map[string]int{}
	for i := range s.Jobs {
		j := &s.Jobs[i].Object
		ended := scene.FindJobCondition(*j, batchv1.JobComplete) != nil || scene.FindJobCondition(*j, batchv1.JobFailed) != nil
		if up := scene.ControllerOf(j); j.Namespace == ns && up.Kind == "CronJob" && ended {
			count[up.Name]++
		}
	}
	for i := range s.CronJobs {
		if c := &s.CronJobs[i]; c.Object.Namespace == ns && count[c.Object.Name] > kept {
			most, kept = c, count[c.Object.Name]
		}
	}
	return most, kept
}
