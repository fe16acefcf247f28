package pods

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scene"
	"nightcrier.dev/nightcrier/internal/text"
)

var cronRules = scene.Area{Name: "cron", Rules: []scene.Rule{cronSuspended}, SceneRules: []scene.SceneRule{cronRuns}, Causes: cronCauses}

var cronCauses = []scene.Cause{
	{ID: "cronjob-missed", Category: "Pod", Meaning: "a CronJob starts no Job when its schedule asks for one", Rank: scene.RankShown - 5, Symptom: true},
	{ID: "cronjob-overlap-forbidden", Category: "Pod", Meaning: "a CronJob starts no Job because an earlier one still runs", Rank: scene.RankFollows + 4},
	{ID: "cronjob-schedule-invalid", Category: "Pod", Meaning: "the schedule of a CronJob never comes, or cannot be read", Rank: scene.RankStated},
	{ID: "cronjob-suspended", Category: "Pod", Meaning: "a CronJob is suspended and starts no Jobs", Rank: scene.RankShown},
}

// cronSuspended finds that the CronJob that somebody asks about is suspended. Of
// many that were looked at, one that rests is no fault.
func cronSuspended(f *scene.Facts) []scene.Finding {
	c := scene.FindObject(f.Scene.CronJobs, f.Owner.Namespace, f.Owner.Name)
	if f.Owner.Kind != "CronJob" || c == nil || !f.IsAskedAbout(f.Mend()) || c.Object.Spec.Suspend == nil || !*c.Object.Spec.Suspend {
		return nil
	}
	last := "has never run"
	if at := c.Object.Status.LastScheduleTime; at != nil {
		last = "last ran at " + at.UTC().Format(time.RFC3339)
	}
	return []scene.Finding{cronFinding(c, "cronjob-suspended", nightcrier.High, scene.Finding{
		Summary:  fmt.Sprintf("%s starts no Jobs: it is suspended (spec.suspend is true); it %s.", cronObject(c), last),
		Observed: []scene.Observation{{Text: cronObject(c).String() + " has spec.suspend true", Quote: "suspend=true", Ref: c.Ref}},
		WrongIf:  "it is meant to rest",
		Test:     cronTest(c).DecidesBetween("spec.suspend is true", "spec.suspend is false"),
		Actions: []scene.Step{
			{Action: "Find out who suspended " + cronObject(c).String() + ", and resume it if nothing speaks against it", Do: scene.DoResume, Outcome: "its next run comes by its schedule", Risk: "runs that were missed may start at once"},
		},
	})}
}

// cronRuns finds CronJobs that should have started a Job and have not.
func cronRuns(s *scene.Scene) []scene.Finding {
	var out []scene.Finding
	for i := range s.CronJobs {
		c := &s.CronJobs[i]
		if c.Object.Spec.Suspend != nil && *c.Object.Spec.Suspend || c.Object.DeletionTimestamp != nil {
			continue
		}
		if n, found := cronRun(s, c); found {
			out = append(out, n)
		}
	}
	return out
}

func cronRun(s *scene.Scene, c *scene.Read[batchv1.CronJob]) (scene.Finding, bool) {
	if n, found := badSchedule(s, c); found {
		return n, true
	}
	missed, since := missedRuns(s, &c.Object)
	if job := stillRunning(s, c); job != nil && missed >= overlaps && c.Object.Spec.ConcurrencyPolicy == batchv1.ForbidConcurrent {
		return overlapFinding(c, job, missed), true
	}
	if n, full := noRoomForJob(s, c, missed); full {
		return n, true
	}
	said, told := saidMissed(s, c)
	if len(c.Object.Status.Active) > 0 || missed < 2 && !told {
		return scene.Finding{}, false
	}
	n := scene.Finding{
		Summary: fmt.Sprintf("%s (schedule %q) has not started a Job since %s%s.", cronObject(c), text.CutMiddle(c.Object.Spec.Schedule, scene.MaxQuote), lastRun(&c.Object), missedWords(s, c, missed, since)),
		Observed: []scene.Observation{{
			Text:  fmt.Sprintf("%s was last scheduled %s", cronObject(c), lastRun(&c.Object)),
			Quote: "schedule=" + c.Object.Spec.Schedule, Ref: c.Ref,
		}},
		WrongIf: "the clocks differ, its time zone is another, or it was only just resumed",
		Test:    cronTest(c).DecidesBetween("status.lastScheduleTime stands still", "a run has come since"),
		Actions: []scene.Step{
			{Action: "Set startingDeadlineSeconds of " + cronObject(c).String() + " to more than its controller may be late, 200 for instance", Do: scene.DoEdit, Outcome: "late runs start instead of being counted as missed", Risk: "a run may start late"},
			{Action: "Check that kube-controller-manager runs and its clock is right", Outcome: "tells a setting from a controller that is away", Risk: "none: read only"},
		},
		DependsOn: s.ControlPlanePods("kube-controller-manager"),
	}
	confidence := nightcrier.Medium
	if told {
		n.Observed, confidence = append([]scene.Observation{said}, n.Observed...), nightcrier.High
	}
	return cronFinding(c, "cronjob-missed", confidence, n), true
}

// overlaps is how many runs in a row must fall out for a Job that runs on: one that
// takes a little longer than its schedule is none.
const overlaps = 3

// overlapFinding is the finding that runs fall out for a Job that does not end.
func overlapFinding(c *scene.Read[batchv1.CronJob], job *scene.Read[batchv1.Job], missed int) scene.Finding {
	since := job.Object.CreationTimestamp
	if job.Object.Status.StartTime != nil {
		since = *job.Object.Status.StartTime
	}
	return cronFinding(c, "cronjob-overlap-forbidden", nightcrier.High, scene.Finding{
		Summary: fmt.Sprintf("%s starts no Job because Job %s still runs since %s and concurrencyPolicy is Forbid: %s missed.",
			cronObject(c), job.Object.Name, since.UTC().Format(time.RFC3339), text.CountNoun(missed, "run")),
		Observed: []scene.Observation{
			{Text: "Job " + job.Object.Name + " is active", Quote: fmt.Sprintf("active=%d", job.Object.Status.Active), Ref: job.Ref},
			{Text: cronObject(c).String() + " forbids concurrent runs", Quote: "concurrencyPolicy=Forbid", Ref: c.Ref},
		},
		WrongIf: "the Job does useful work that takes this long",
		Test:    scene.GetTest(job.Object.Namespace, "job", job.Object.Name).DecidesBetween("status.active is more than 0", "it has ended"),
		Actions: []scene.Step{
			{Action: "Find out what Job " + job.Object.Name + " waits for, in its log", Do: scene.DoReadLog, On: nightcrier.Object{Kind: "Job", Namespace: job.Object.Namespace, Name: job.Object.Name}, Outcome: "tells a hanging Job from a slow one", Risk: "none: read only"},
			{Action: "Give the Job template of " + cronObject(c).String() + " an activeDeadlineSeconds", Do: scene.DoEdit, Outcome: "a Job that hangs is ended, and the next one starts", Risk: "a slow but useful Job is ended too"},
		},
	})
}

// stillRunning is the Job of a CronJob that has not ended.
func stillRunning(s *scene.Scene, c *scene.Read[batchv1.CronJob]) *scene.Read[batchv1.Job] {
	for i := range s.Jobs {
		j := &s.Jobs[i]
		up := scene.ControllerOf(&j.Object)
		if up.Kind == "CronJob" && up.Name == c.Object.Name && up.Namespace == c.Object.Namespace && j.Object.Status.Active > 0 {
			return j
		}
	}
	return nil
}

// badSchedule finds a schedule that cannot be read or that never comes, like the
// 31st of February.
func badSchedule(s *scene.Scene, c *scene.Read[batchv1.CronJob]) (scene.Finding, bool) {
	said := scene.Observation{Text: cronObject(c).String() + " has this schedule", Quote: "schedule=" + c.Object.Spec.Schedule, Ref: c.Ref}
	because := ""
	reasons := []string{"UnparseableSchedule", "UnParseableCronJobSchedule", "InvalidSchedule", "UnknownTimeZone"}
	for e := range s.EventsAbout("CronJob", c.Object.Namespace, c.Object.Name) {
		if slices.Contains(reasons, e.Object.Reason) && s.IsFresh(e) {
			said, because = scene.ObserveEvent(e), text.CutMiddle(e.Object.Message, scene.MaxQuote)
			break
		}
	}
	schedule, err := parseSchedule(c.Object.Spec.Schedule)
	switch {
	case because != "":
	case err != nil:
		because = text.CutMiddle(err.Error(), scene.MaxQuote)
	case schedule != nil && schedule.Next(s.Now).IsZero():
		because = "no day in the next five years fits it"
	default:
		return scene.Finding{}, false
	}
	return cronFinding(c, "cronjob-schedule-invalid", nightcrier.High, scene.Finding{
		Summary:  fmt.Sprintf("%s never runs by its schedule %q: %s.", cronObject(c), text.CutMiddle(c.Object.Spec.Schedule, scene.MaxQuote), because),
		Observed: []scene.Observation{said},
		WrongIf:  "the schedule was corrected since",
		Test:     cronTest(c).DecidesBetween("spec.schedule and spec.timeZone are the same still", "they have changed"),
		Actions: []scene.Step{
			{Action: "Correct the schedule or the time zone of " + cronObject(c).String(), Do: scene.DoEdit, Outcome: "its next run comes", Risk: "a wrong one runs too often"},
		},
	}), true
}

// parseSchedule reads a schedule as the CronJob controller does. A zone inside it
// is left alone: nil without an error.
func parseSchedule(spec string) (cron.Schedule, error) {
	if strings.Contains(spec, "TZ") {
		return nil, nil
	}
	return cron.ParseStandard(spec)
}

// Bounds of looking for missed runs.
const (
	countedRuns = 100
	// lateStart is how late a run may start on a busy cluster.
	lateStart = 5 * time.Minute
	// unknownZone is how far the zone of a controller may be from ours.
	unknownZone = 26 * time.Hour
)

// missedRuns counts the runs that should have come since the last one, and says
// when the first of them should have.
func missedRuns(s *scene.Scene, c *batchv1.CronJob) (missed int, first time.Time) {
	schedule, err := parseSchedule(c.Spec.Schedule)
	last := c.CreationTimestamp.Time
	if at := c.Status.LastScheduleTime; at != nil {
		last = at.Time
	}
	if err != nil || schedule == nil || last.IsZero() {
		return 0, first
	}
	zone, late := time.UTC, lateStart
	if c.Spec.TimeZone != nil {
		if zone, err = time.LoadLocation(*c.Spec.TimeZone); err != nil {
			return 0, first
		}
	} else if atSomeHours(c.Spec.Schedule) {
		late = unknownZone
	}
	until := s.Now.Add(-late)
	for next := schedule.Next(last.In(zone)); !next.IsZero() && next.Before(until) && missed < countedRuns; next = schedule.Next(next) {
		if missed++; missed == 1 {
			first = next
		}
	}
	return missed, first
}

// atSomeHours reports whether a schedule depends on the hour, and so on the zone.
func atSomeHours(spec string) bool {
	fields := strings.Fields(spec)
	return len(fields) < 5 && spec != "@hourly" && !strings.HasPrefix(spec, "@every") || len(fields) == 5 && fields[1] != "*"
}

// saidMissed is what the controller says of runs that it did not start, unless one
// has come since.
func saidMissed(s *scene.Scene, c *scene.Read[batchv1.CronJob]) (scene.Observation, bool) {
	for e := range s.EventsAbout("CronJob", c.Object.Namespace, c.Object.Name) {
		missed := slices.Contains([]string{"FailedNeedsStart", "TooManyMissedTimes", "MissSchedule"}, e.Object.Reason)
		last := c.Object.Status.LastScheduleTime
		if missed && e.Object.Type != corev1.EventTypeNormal && s.IsFresh(e) && (last == nil || last.Time.Before(scene.EventLastSeen(&e.Object))) {
			return scene.ObserveEvent(e), true
		}
	}
	return scene.Observation{}, false
}

func missedWords(s *scene.Scene, c *scene.Read[batchv1.CronJob], missed int, first time.Time) string {
	words := ""
	switch {
	case missed >= countedRuns:
		words = fmt.Sprintf(": more than %d runs missed", countedRuns)
	case missed > 0:
		words = fmt.Sprintf(": %s missed, the first at %s", text.CountNoun(missed, "run"), first.UTC().Format(time.RFC3339))
	}
	if d := c.Object.Spec.StartingDeadlineSeconds; d != nil && *d < 10 {
		words += fmt.Sprintf("; startingDeadlineSeconds is %d, less than the controller's own interval of 10 s", *d)
	}
	return words
}

func lastRun(c *batchv1.CronJob) string {
	if at := c.Status.LastScheduleTime; at != nil {
		return at.UTC().Format(time.RFC3339)
	}
	return "it was made"
}

func cronObject(c *scene.Read[batchv1.CronJob]) nightcrier.Object {
	return nightcrier.Object{Kind: "CronJob", Namespace: c.Object.Namespace, Name: c.Object.Name}
}

func cronTest(c *scene.Read[batchv1.CronJob]) scene.Test {
	return scene.GetTest(c.Object.Namespace, "cronjob", c.Object.Name)
}

func cronFinding(c *scene.Read[batchv1.CronJob], cause string, confidence nightcrier.Confidence, n scene.Finding) scene.Finding {
	n.Cause, n.Object, n.Confidence = cause, cronObject(c), confidence
	return n
}

var jobRules = scene.Area{Name: "job", Rules: []scene.Rule{jobFailed, jobSuspended}, Causes: jobCauses}

// Why the tries of a Job failed stands with its containers, so that most causes
// here rank below theirs.
var jobCauses = []scene.Cause{
	{ID: "job-backoff-limit", Category: "Pod", Meaning: "a Job failed as often as it may", Rank: scene.RankFollows + 5, Symptom: true},
	{ID: "job-deadline-exceeded", Category: "Pod", Meaning: "a Job ran longer than its deadline", Rank: scene.RankFollows + 6},
	{ID: "job-failed", Category: "Pod", Meaning: "a Job failed for another stated reason", Rank: scene.RankFollows + 5, Symptom: true},
	{ID: "job-pod-failure-policy", Category: "Pod", Meaning: "a container ended in a way that the Job's policy takes as failure for good", Rank: scene.RankStated},
	{ID: "job-suspended", Category: "Pod", Meaning: "a Job is suspended and makes no Pods", Rank: scene.RankShown},
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
func jobFailed(f *scene.Facts) []scene.Finding {
	if f.Job == nil {
		return nil
	}
	if c := scene.FindJobCondition(f.Job.Object, batchv1.JobFailed); c != nil {
		return []scene.Finding{failedJob(f, *c)}
	}
	return nil
}

func failedJob(f *scene.Facts, cond batchv1.JobCondition) scene.Finding {
	why, ok := jobReasons[cond.Reason]
	if !ok {
		why.cause, why.says, why.confidence = "job-failed", strings.TrimSpace("failed for good "+cond.Reason), nightcrier.Medium
	}
	job := &f.Job.Object
	n := scene.Finding{
		Cause: why.cause, Object: f.Mend(), Confidence: why.confidence,
		Observed: []scene.Observation{{
			Text:  fmt.Sprintf("Job %s has failed, reason %s", job.Name, cond.Reason),
			Quote: cond.Message, Ref: f.Job.Ref,
		}},
		Summary: fmt.Sprintf("%s %s%s.", nightcrier.Object{Kind: "Job", Namespace: job.Namespace, Name: job.Name}, why.says, jobBounds(job, why.cause)),
		WrongIf: "the Job was replaced by a new one that succeeded",
		Test: scene.GetTest(job.Namespace, "job", job.Name).
			DecidesBetween("the condition Failed is True for the same reason", "there is no such condition"),
		Actions: jobActions(f, why.cause),
	}
	return withEnd(n, f)
}

// stoppedByJob reports whether a container only ended because its Job's time was
// up.
func stoppedByJob(f *scene.Facts, end *corev1.ContainerStateTerminated) bool {
	if f.Job == nil {
		return false
	}
	failed := scene.FindJobCondition(f.Job.Object, batchv1.JobFailed)
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
func jobSuspended(f *scene.Facts) []scene.Finding {
	if f.Job == nil || f.Hearsay {
		return nil
	}
	job := &f.Job.Object
	done := scene.FindJobCondition(*job, batchv1.JobFailed) != nil || scene.FindJobCondition(*job, batchv1.JobComplete) != nil
	_, queued := job.Labels[queueLabel]
	if job.Spec.Suspend == nil || !*job.Spec.Suspend || done || queued || !scene.HasWaited(job, f.Now, scene.TakeUpTime) {
		return nil
	}
	o := nightcrier.Object{Kind: "Job", Namespace: job.Namespace, Name: job.Name}
	return []scene.Finding{{
		Cause: "job-suspended", Object: f.Mend(), Confidence: nightcrier.High,
		Summary:  fmt.Sprintf("%s does not run: it is suspended (spec.suspend is true).", o),
		Observed: []scene.Observation{{Text: o.String() + " has spec.suspend true", Quote: "suspend=true", Ref: f.Job.Ref}},
		WrongIf:  "it is held back on purpose, until a person or a queue resumes it",
		Test:     scene.GetTest(job.Namespace, "job", job.Name).DecidesBetween("spec.suspend is true", "spec.suspend is false"),
		Actions: []scene.Step{
			{Action: "Find out who suspended " + o.String() + ", and resume it if nothing speaks against it", Do: scene.DoResume, Outcome: "its Pods are made", Risk: "its work may not be wanted now"},
		},
	}}
}

// withEnd adds how a container of the Job last ended, and what it said.
func withEnd(n scene.Finding, f *scene.Facts) scene.Finding {
	for c := range f.AllContainers() {
		if end := c.LastTermination(); end != nil && end.ExitCode != 0 {
			n.Observed = append(n.Observed, c.ObserveEnd(end))
			n.Confidence = nightcrier.High
			n.Summary += fmt.Sprintf(" Its last run ended with exit code %d%s.", end.ExitCode, exitMeaning(end.ExitCode))
			return withLog(n, f, c)
		}
	}
	return n
}

func jobActions(f *scene.Facts, cause string) []scene.Step {
	mend := f.Mend().String()
	first := scene.Step{
		Action: "Mend what the log of the last failed run names in " + mend + ", then run it again",
		Do:     scene.DoReadLog, Outcome: "the Job completes", Risk: "running it twice may do its work twice",
	}
	if cause == "job-deadline-exceeded" {
		first = scene.Step{
			Action:  "Find out why " + mend + " takes longer than activeDeadlineSeconds allows; raise it if the work has grown",
			Outcome: "the Job completes in time", Risk: "a Job that hangs holds its resources longer",
		}
	}
	return []scene.Step{
		first,
		{Action: "Check what waits for its result", Outcome: "shows who is affected", Risk: "none: read only"},
	}
}
