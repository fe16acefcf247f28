package diagnose

import (
	"fmt"
	"strings"

	batchv1 "k8s.io/api/batch/v1"

	"nightcrier.dev/nightcrier"
)

var jobRules = area{of: []Rule{jobFailed}}

var jobCauses = []Cause{
	{"job-backoff-limit", "Pod", "a Job failed as often as it may", rankShown + 1},
	{"job-deadline-exceeded", "Pod", "a Job ran longer than its deadline", rankShown + 1},
	{"job-failed", "Pod", "a Job failed for another stated reason", rankShown + 1},
}

// jobReasons are what the reason of a Job's Failed condition means. A deadline
// explains itself; why the tries failed stands with the last of them, if at all.
var jobReasons = map[string]struct {
	cause, says string
	confidence  nightcrier.Confidence
}{
	batchv1.JobReasonBackoffLimitExceeded: {"job-backoff-limit", "failed as often as it may", nightcrier.Medium},
	batchv1.JobReasonDeadlineExceeded:     {"job-deadline-exceeded", "ran longer than its deadline", nightcrier.High},
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
		Summary: fmt.Sprintf("%s %s.", nightcrier.Object{Kind: "Job", Namespace: job.Namespace, Name: job.Name}, why.says),
		WrongIf: "the Job was replaced by a new one that succeeded",
		Test: get(job.Namespace, "job", job.Name).
			decides("the condition Failed is True for the same reason", "there is no such condition"),
		Actions: jobActions(f, why.cause),
	}
	return n.withEnd(f)
}

// withEnd adds how a container of the Job last ended, and what it said.
func (n Finding) withEnd(f *Facts) Finding {
	for c := range f.containers() {
		if end := c.lastEnd(); end != nil && end.ExitCode != 0 {
			n.Observed = append(n.Observed, c.sawEnd(end))
			n.Confidence = nightcrier.High
			n.Summary += fmt.Sprintf(" Its last run ended with exit code %d%s.", end.ExitCode, exitMeaning(end.ExitCode))
			return n.withLog(f, c)
		}
	}
	return n
}

func jobActions(f *Facts, cause string) []nightcrier.Action {
	mend := f.Mend().String()
	first := nightcrier.Action{
		Action:  "Mend what the log of the last failed run names in " + mend + ", then run it again",
		Outcome: "the Job completes", Risk: "running it twice may do its work twice",
	}
	if cause == "job-deadline-exceeded" {
		first = nightcrier.Action{
			Action:  "Find out why " + mend + " takes longer than activeDeadlineSeconds allows; raise it if the work has grown",
			Outcome: "the Job completes in time", Risk: "a Job that hangs holds its resources longer",
		}
	}
	return []nightcrier.Action{
		first,
		{Action: "Check what waits for its result", Outcome: "shows who is affected", Risk: "none: read only"},
	}
}
