package diagnose

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/text"
)

var cronRules = area{of: []Rule{cronSuspended}, scene: []SceneRule{cronRuns}}

var cronCauses = []Cause{
	{ID: "cronjob-missed", Category: "Pod", Meaning: "a CronJob starts no Job when its schedule asks for one", Rank: rankShown - 5},
	{ID: "cronjob-overlap-forbidden", Category: "Pod", Meaning: "a CronJob starts no Job because an earlier one still runs", Rank: rankFollows + 4},
	{ID: "cronjob-schedule-invalid", Category: "Pod", Meaning: "the schedule of a CronJob never comes, or cannot be read", Rank: rankStated},
	{ID: "cronjob-suspended", Category: "Pod", Meaning: "a CronJob is suspended and starts no Jobs", Rank: rankShown},
}

// cronSuspended finds that the CronJob that somebody asks about is suspended. Of
// many that were looked at, one that rests is no fault.
func cronSuspended(f *Facts) []Finding {
	c := findObject(f.Scene.CronJobs, f.Owner.Namespace, f.Owner.Name)
	if f.Owner.Kind != "CronJob" || c == nil || !f.isAskedAbout(f.Mend()) || c.Object.Spec.Suspend == nil || !*c.Object.Spec.Suspend {
		return nil
	}
	last := "has never run"
	if at := c.Object.Status.LastScheduleTime; at != nil {
		last = "last ran at " + at.UTC().Format(time.RFC3339)
	}
	return []Finding{cronFinding(c, "cronjob-suspended", nightcrier.High, Finding{
		Summary:  fmt.Sprintf("%s starts no Jobs: it is suspended (spec.suspend is true); it %s.", cronObject(c), last),
		Observed: []Observation{{Text: cronObject(c).String() + " has spec.suspend true", Quote: "suspend=true", Ref: c.Ref}},
		WrongIf:  "it is meant to rest",
		Test:     cronTest(c).decidesBetween("spec.suspend is true", "spec.suspend is false"),
		Actions: []Step{
			{Action: "Find out who suspended " + cronObject(c).String() + ", and resume it if nothing speaks against it", Do: doResume, Outcome: "its next run comes by its schedule", Risk: "runs that were missed may start at once"},
		},
	})}
}

// cronRuns finds CronJobs that should have started a Job and have not.
func cronRuns(s *Scene) []Finding {
	var out []Finding
	for i := range s.CronJobs {
		c := &s.CronJobs[i]
		if c.Object.Spec.Suspend != nil && *c.Object.Spec.Suspend || c.Object.DeletionTimestamp != nil {
			continue
		}
		if n, found := s.cronRun(c); found {
			out = append(out, n)
		}
	}
	return out
}

func (s *Scene) cronRun(c *Read[batchv1.CronJob]) (Finding, bool) {
	if n, found := s.badSchedule(c); found {
		return n, true
	}
	missed, since := s.missedRuns(&c.Object)
	if job := s.stillRunning(c); job != nil && missed >= overlaps && c.Object.Spec.ConcurrencyPolicy == batchv1.ForbidConcurrent {
		return overlapFinding(c, job, missed), true
	}
	said, told := s.saidMissed(c)
	if len(c.Object.Status.Active) > 0 || missed < 2 && !told {
		return Finding{}, false
	}
	n := Finding{
		Summary: fmt.Sprintf("%s (schedule %q) has not started a Job since %s%s.", cronObject(c), text.CutLine(c.Object.Spec.Schedule, maxQuote), lastRun(&c.Object), s.missedWords(c, missed, since)),
		Observed: []Observation{{
			Text:  fmt.Sprintf("%s was last scheduled %s", cronObject(c), lastRun(&c.Object)),
			Quote: "schedule=" + c.Object.Spec.Schedule, Ref: c.Ref,
		}},
		WrongIf: "the clocks differ, its time zone is another, or it was only just resumed",
		Test:    cronTest(c).decidesBetween("status.lastScheduleTime stands still", "a run has come since"),
		Actions: []Step{
			{Action: "Set startingDeadlineSeconds of " + cronObject(c).String() + " to more than its controller may be late, 200 for instance", Do: doEdit, Outcome: "late runs start instead of being counted as missed", Risk: "a run may start late"},
			{Action: "Check that kube-controller-manager runs and its clock is right", Outcome: "tells a setting from a controller that is away", Risk: "none: read only"},
		},
		DependsOn: s.controlPlane("kube-controller-manager"),
	}
	confidence := nightcrier.Medium
	if told {
		n.Observed, confidence = append([]Observation{said}, n.Observed...), nightcrier.High
	}
	return cronFinding(c, "cronjob-missed", confidence, n), true
}

// overlaps is how many runs in a row must fall out for a Job that runs on: one that
// takes a little longer than its schedule is none.
const overlaps = 3

// overlapFinding is the finding that runs fall out for a Job that does not end.
func overlapFinding(c *Read[batchv1.CronJob], job *Read[batchv1.Job], missed int) Finding {
	since := job.Object.CreationTimestamp
	if job.Object.Status.StartTime != nil {
		since = *job.Object.Status.StartTime
	}
	return cronFinding(c, "cronjob-overlap-forbidden", nightcrier.High, Finding{
		Summary: fmt.Sprintf("%s starts no Job because Job %s still runs since %s and concurrencyPolicy is Forbid: %s missed.",
			cronObject(c), job.Object.Name, since.UTC().Format(time.RFC3339), text.CountNoun(missed, "run")),
		Observed: []Observation{
			{Text: "Job " + job.Object.Name + " is active", Quote: fmt.Sprintf("active=%d", job.Object.Status.Active), Ref: job.Ref},
			{Text: cronObject(c).String() + " forbids concurrent runs", Quote: "concurrencyPolicy=Forbid", Ref: c.Ref},
		},
		WrongIf: "the Job does useful work that takes this long",
		Test:    testByGet(job.Object.Namespace, "job", job.Object.Name).decidesBetween("status.active is more than 0", "it has ended"),
		Actions: []Step{
			{Action: "Find out what Job " + job.Object.Name + " waits for, in its log", Do: doReadLog, On: nightcrier.Object{Kind: "Job", Namespace: job.Object.Namespace, Name: job.Object.Name}, Outcome: "tells a hanging Job from a slow one", Risk: "none: read only"},
			{Action: "Give the Job template of " + cronObject(c).String() + " an activeDeadlineSeconds", Do: doEdit, Outcome: "a Job that hangs is ended, and the next one starts", Risk: "a slow but useful Job is ended too"},
		},
	})
}

// stillRunning is the Job of a CronJob that has not ended.
func (s *Scene) stillRunning(c *Read[batchv1.CronJob]) *Read[batchv1.Job] {
	for i := range s.Jobs {
		j := &s.Jobs[i]
		up := controllerOf(&j.Object)
		if up.Kind == "CronJob" && up.Name == c.Object.Name && up.Namespace == c.Object.Namespace && j.Object.Status.Active > 0 {
			return j
		}
	}
	return nil
}

// badSchedule finds a schedule that cannot be read or that never comes, like the
// 31st of February.
func (s *Scene) badSchedule(c *Read[batchv1.CronJob]) (Finding, bool) {
	said := Observation{Text: cronObject(c).String() + " has this schedule", Quote: "schedule=" + c.Object.Spec.Schedule, Ref: c.Ref}
	because := ""
	reasons := []string{"UnparseableSchedule", "UnParseableCronJobSchedule", "InvalidSchedule", "UnknownTimeZone"}
	for e := range s.eventsAbout("CronJob", c.Object.Namespace, c.Object.Name) {
		if slices.Contains(reasons, e.Object.Reason) && s.isFresh(e) {
			said, because = sawEvent(e), text.CutLine(e.Object.Message, maxQuote)
			break
		}
	}
	schedule, err := parseSchedule(c.Object.Spec.Schedule)
	switch {
	case because != "":
	case err != nil:
		because = text.CutLine(err.Error(), maxQuote)
	case schedule != nil && schedule.Next(s.Now).IsZero():
		because = "no day in the next five years fits it"
	default:
		return Finding{}, false
	}
	return cronFinding(c, "cronjob-schedule-invalid", nightcrier.High, Finding{
		Summary:  fmt.Sprintf("%s never runs by its schedule %q: %s.", cronObject(c), text.CutLine(c.Object.Spec.Schedule, maxQuote), because),
		Observed: []Observation{said},
		WrongIf:  "the schedule was corrected since",
		Test:     cronTest(c).decidesBetween("spec.schedule and spec.timeZone are the same still", "they have changed"),
		Actions: []Step{
			{Action: "Correct the schedule or the time zone of " + cronObject(c).String(), Do: doEdit, Outcome: "its next run comes", Risk: "a wrong one runs too often"},
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
func (s *Scene) missedRuns(c *batchv1.CronJob) (missed int, first time.Time) {
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
func (s *Scene) saidMissed(c *Read[batchv1.CronJob]) (Observation, bool) {
	for e := range s.eventsAbout("CronJob", c.Object.Namespace, c.Object.Name) {
		missed := slices.Contains([]string{"FailedNeedsStart", "TooManyMissedTimes", "MissSchedule"}, e.Object.Reason)
		last := c.Object.Status.LastScheduleTime
		if missed && e.Object.Type != corev1.EventTypeNormal && s.isFresh(e) && (last == nil || last.Time.Before(lastSeen(&e.Object))) {
			return sawEvent(e), true
		}
	}
	return Observation{}, false
}

func (s *Scene) missedWords(c *Read[batchv1.CronJob], missed int, first time.Time) string {
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

func cronObject(c *Read[batchv1.CronJob]) nightcrier.Object {
	return nightcrier.Object{Kind: "CronJob", Namespace: c.Object.Namespace, Name: c.Object.Name}
}

func cronTest(c *Read[batchv1.CronJob]) test {
	return testByGet(c.Object.Namespace, "cronjob", c.Object.Name)
}

func cronFinding(c *Read[batchv1.CronJob], cause string, confidence nightcrier.Confidence, n Finding) Finding {
	n.Cause, n.Object, n.Confidence = cause, cronObject(c), confidence
	return n
}
