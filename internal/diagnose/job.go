package diagnose

import (
	"fmt"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"nightcrier.dev/nightcrier"
)

var jobRules = area{of: []Rule{jobFailed, jobSuspended}}

// Why the tries of a Job failed stands with its containers, so that most causes
// here rank below theirs.
var jobCauses = []Cause{
	{ID: "job-backoff-limit", Category: "Pod", Meaning: "a Job failed as often as it may", Rank: rankFollows + 5},
	{ID: "job-deadline-exceeded", Category: "Pod", Meaning: "a Job ran longer than its deadline", Rank: rankFollows + 6},
	{ID: "job-failed", Category: "Pod", Meaning: "a Job failed for another stated reason", Rank: rankFollows + 5},
	{ID: "job-pod-failure-policy", Category: "Pod", Meaning: "a container ended in a way that the Job's policy takes as failure for good", Rank: rankStated},
	{ID: "job-suspended", Category: "Pod", Meaning: "a Job is suspended and makes no Pods", Rank: rankShown},
}

// jobReasons are what the reason of a Job's Failed condition means. A deadline and
// a policy explain themselves; why the tries failed stands with the last of them,
// if at all.
var jobReasons = map[string]struct {
	cause, says string
	confidence  nightcrier.Confidence
}{
	batchv1.JobReasonBackoffLimitExceeded:     {"job-backoff-limit", "failed as often as it may", nightcrier.Medium},
	batchv1.JobReasonMaxFailedIndexesExceeded: {"job-backoff-limit", "failed in as many indexes as it may", nightcrier.Medium},
	batchv1.JobReasonFailedIndexes:            {"job-backoff-limit", "failed in some of its indexes as often as it may", nightcrier.Medium},
	batchv1.JobReasonDeadlineExceeded:         {"job-deadline-exceeded", "ran longer than its deadline", nightcrier.High},
	batchv1.JobReasonPodFailurePolicy:         {"job-pod-failure-policy", "failed at once by its Pod failure policy", nightcrier.High},
}

// jobFailed finds Jobs that have failed for good.
func jobFailed(f *Facts) []Finding {
	if f.Job == nil {
		return nil
	}
	if c := jobCondition(f.Job.Object, batchv1.JobFailed); c != nil {
		return []Finding{failedJob(f, *c)}
	}
	return nil
}

// jobWorks reports whether the Job is at its first try, and that one runs.
func (f *Facts) jobWorks() bool {
	st := f.Job.Object.Status
	return st.Active > 0 && st.Failed == 0 && len(f.Pods) > 0 &&
		!slices.ContainsFunc(f.Pods, func(p Read[corev1.Pod]) bool { return !podWell(&p, f.Now) })
}

func failedJob(f *Facts, cond batchv1.JobCondition) Finding {
	why, ok := jobReasons[cond.Reason]
	if !ok {
		why.cause, why.says, why.confidence = "job-failed", strings.TrimSpace("failed for good "+cond.Reason), nightcrier.Medium
	}
	job := &f.Job.Object
	n := Finding{
		Cause: why.cause, Object: f.Mend(), Confidence: why.confidence,
		Observed: []Observation{{
			Text:  fmt.Sprintf("Job %s has failed, reason %s", job.Name, cond.Reason),
			Quote: cond.Message, Ref: f.Job.Ref,
		}},
		Summary: fmt.Sprintf("%s %s%s.", nightcrier.Object{Kind: "Job", Namespace: job.Namespace, Name: job.Name}, why.says, jobBounds(job, why.cause)),
		WrongIf: "the Job was replaced by a new one that succeeded",
		Test: testByGet(job.Namespace, "job", job.Name).
			decidesBetween("the condition Failed is True for the same reason", "there is no such condition"),
		Actions: jobActions(f, why.cause),
	}
	return n.withEnd(f)
}

// stoppedByJob reports whether a container only ended because its Job's time was
// up.
func (f *Facts) stoppedByJob(end *corev1.ContainerStateTerminated) bool {
	if f.Job == nil {
		return false
	}
	failed := jobCondition(f.Job.Object, batchv1.JobFailed)
	if failed == nil || failed.Reason != batchv1.JobReasonDeadlineExceeded {
		return false
	}
	return end == nil || end.ExitCode == 137 || end.ExitCode == 143
}

// jobBounds are the values of a Job that a cause is about.
func jobBounds(job *batchv1.Job, cause string) string {
	switch {
	case cause == "job-deadline-exceeded" && job.Spec.ActiveDeadlineSeconds != nil:
		return fmt.Sprintf(" (activeDeadlineSeconds %d)", *job.Spec.ActiveDeadlineSeconds)
	case cause == "job-backoff-limit" && job.Spec.BackoffLimit != nil:
		return fmt.Sprintf(" (backoffLimit %d, %d failed)", *job.Spec.BackoffLimit, job.Status.Failed)
	}
	return ""
}

// queueLabel names the queue that starts a suspended Job in its turn.
const queueLabel = "kueue.x-k8s.io/queue-name"

// jobSuspended finds Jobs that wait for somebody to resume them.
func jobSuspended(f *Facts) []Finding {
	if f.Job == nil || f.Hearsay {
		return nil
	}
	job := &f.Job.Object
	done := jobCondition(*job, batchv1.JobFailed) != nil || jobCondition(*job, batchv1.JobComplete) != nil
	_, queued := job.Labels[queueLabel]
	if job.Spec.Suspend == nil || !*job.Spec.Suspend || done || queued || !hasWaited(job, f.Now, takeUp) {
		return nil
	}
	o := nightcrier.Object{Kind: "Job", Namespace: job.Namespace, Name: job.Name}
	return []Finding{{
		Cause: "job-suspended", Object: f.Mend(), Confidence: nightcrier.High,
		Summary:  fmt.Sprintf("%s does not run: it is suspended (spec.suspend is true).", o),
		Observed: []Observation{{Text: o.String() + " has spec.suspend true", Quote: "suspend=true", Ref: f.Job.Ref}},
		WrongIf:  "it is held back on purpose, until a person or a queue resumes it",
		Test:     testByGet(job.Namespace, "job", job.Name).decidesBetween("spec.suspend is true", "spec.suspend is false"),
		Actions: []Step{
			{Action: "Find out who suspended " + o.String() + ", and resume it if nothing speaks against it", Do: doResume, Outcome: "its Pods are made", Risk: "its work may not be wanted now"},
		},
	}}
}

// withEnd adds how a container of the Job last ended, and what it said.
func (n Finding) withEnd(f *Facts) Finding {
	for c := range f.allContainers() {
		if end := c.lastEnd(); end != nil && end.ExitCode != 0 {
			n.Observed = append(n.Observed, c.sawEnd(end))
			n.Confidence = nightcrier.High
			n.Summary += fmt.Sprintf(" Its last run ended with exit code %d%s.", end.ExitCode, exitMeaning(end.ExitCode))
			return n.withLog(f, c)
		}
	}
	return n
}

func jobActions(f *Facts, cause string) []Step {
	mend := f.Mend().String()
	first := Step{
		Action: "Mend what the log of the last failed run names in " + mend + ", then run it again",
		Do:     doReadLog, Outcome: "the Job completes", Risk: "running it twice may do its work twice",
	}
	if cause == "job-deadline-exceeded" {
		first = Step{
			Action:  "Find out why " + mend + " takes longer than activeDeadlineSeconds allows; raise it if the work has grown",
			Outcome: "the Job completes in time", Risk: "a Job that hangs holds its resources longer",
		}
	}
	return []Step{
		first,
		{Action: "Check what waits for its result", Outcome: "shows who is affected", Risk: "none: read only"},
	}
}
