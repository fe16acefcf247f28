package detect

import (
	"strings"
	"time"

	"github.com/robfig/cron/v3"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/text"
)

// job is what is read of a Job.
type job struct {
	Meta   meta `json:"metadata"`
	Status struct {
		Failed     int64      `json:"failed"`
		Completed  stamp      `json:"completionTime"`
		Conditions conditions `json:"conditions"`
	} `json:"status"`
}

// readJob: a Job that retries is no fault, one that has given up is. A later
// success of the same CronJob makes up for it.
func readJob(d *Detector, raw []byte) (view, bool) {
	var j job
	if !decodeObject(raw, &j) {
		return view{}, false
	}
	res := j.Meta.asResource(Job)
	v := view{res: res, owner: d.controllerOf(&j.Meta, res)}
	done := j.Status.Conditions.findCondition("Complete")
	v.leaving = !j.Meta.Deleted.IsZero() || done.hasStatus("True")
	v.healthy = done.hasStatus("True")
	if v.healthy && v.owner.Kind == string(CronJob) {
		d.makeUp(v.owner, laterOf(j.Status.Completed.Time, done.Since.Time))
	}
	c := j.Status.Conditions.findCondition("Failed")
	if v.leaving || !c.hasStatus("True") || c.Since.Unix() < d.success[d.keyOf(v.owner)] {
		return v, true
	}
	if _, sick := d.patients[d.keyOf(res)]; !sick && d.now.Sub(c.Since.Time) > staleJob {
		return v, true // history
	}
	f := finding{cause: jobFailed, since: c.Since.Time}
	if c.Reason != "BackoffLimitExceeded" && c.Reason != "MaxFailedIndexesExceeded" {
		f.cause = jobOverdue
	}
	f.context = formatSentence("%s", withQuote("The Job has failed after "+text.CountNoun(int(min(max(j.Status.Failed, 0), 1<<20)), "failed Pod")+", reason: "+cutWord(c.Reason), c.Message))
	v.findings = append(v.findings, f)
	return v, true
}

// makeUp ends the failures of a CronJob's Jobs that a later one made good.
func (d *Detector) makeUp(owner nightcrier.Resource, at time.Time) {
	key := d.keyOf(owner)
	if _, known := d.success[key]; known || len(d.success) < maxPatients {
		d.success[key] = max(d.success[key], at.Unix())
	}
	if len(d.byOwner[key]) == 0 {
		return
	}
	for key, p := range d.patients {
		if p.res.Kind != string(Job) || p.owner.String() != owner.String() {
			continue
		}
		d.reviewPatient(key, p, func(s *symptom) {
			if s.since.Before(at) {
				s.until = d.now
			}
		})
	}
}

// cronJob is what is read of a CronJob.
type cronJob struct {
	Meta meta `json:"metadata"`
	Spec struct {
		Schedule  string `json:"schedule"`
		TimeZone  string `json:"timeZone"`
		Suspended bool   `json:"suspend"`
	} `json:"spec"`
	Status struct {
		Last    stamp      `json:"lastScheduleTime"`
		Success stamp      `json:"lastSuccessfulTime"`
		Active  []struct{} `json:"active"`
	} `json:"status"`
}

// readCronJob expects the next run. The CronJob does not change when it is
// missed, so the expectation waits for its time, and each run puts it off.
func readCronJob(d *Detector, raw []byte) (view, bool) {
	var c cronJob
	if !decodeObject(raw, &c) {
		return view{}, false
	}
	res := c.Meta.asResource(CronJob)
	v := view{res: res, owner: res, leaving: !c.Meta.Deleted.IsZero()}
	if !c.Status.Success.IsZero() {
		d.makeUp(res, c.Status.Success.Time)
	}
	if v.leaving || c.Spec.Suspended || len(c.Status.Active) > 0 {
		return v, true
	}
	if key := d.keyOf(res); d.patients[key] == nil && !d.censusOf(CronJob, res.Namespace).listing {
		c.Status.Last.Time = laterOf(c.Status.Last.Time, d.now) // it is new, or was suspended or busy until now
	}
	next, period, ok := c.nextRun()
	if !ok {
		return v, true
	}
	f := finding{cause: scheduleMissed, since: next, slack: min(period, time.Hour)}
	f.context = formatSentence("The CronJob should have run at %s by its schedule %s and has not", next.UTC().Format(time.RFC3339), cutWord(c.Spec.Schedule))
	if !c.Status.Last.IsZero() {
		f.context = formatSentence("%s; it ran last at %s", f.context, c.Status.Last.UTC().Format(time.RFC3339))
	}
	v.findings = append(v.findings, f)
	return v, true
}

// nextRun is when the CronJob should run after it ran last, and how long it is from
// there to the run after. A run that takes too long makes the next one wait.
func (c *cronJob) nextRun() (next time.Time, period time.Duration, ok bool) {
	last := laterOf(c.Status.Last.Time, c.Status.Success.Time)
	if last.IsZero() {
		last = c.Meta.Created.Time
	}
	if last.IsZero() || len(c.Spec.Schedule) > 128 || strings.Contains(c.Spec.Schedule, "TZ") {
		return next, 0, false
	}
	zone := time.UTC
	if c.Spec.TimeZone != "" {
		var err error
		if zone, err = time.LoadLocation(c.Spec.TimeZone); err != nil {
			return next, 0, false
		}
	}
	schedule, err := cron.ParseStandard(c.Spec.Schedule)
	if err != nil {
		return next, 0, false
	}
	next = schedule.Next(last.In(zone))
	return next, schedule.Next(next).Sub(next), !next.IsZero()
}
