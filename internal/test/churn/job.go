package churn

import (
	"fmt"
	"time"
)

// cronJob runs a Job in a rhythm.
type cronJob struct {
	ns, name, uid, schedule string
	period                  time.Duration
	suspended               bool
	last, success           time.Time
	active                  int
	history                 []*job
}

func (j *cronJob) kind() string { return "CronJob" }
func (j *cronJob) key() string  { return j.ns + "/" + j.name }

// job is one run.
type job struct {
	ns, name, uid string
	of            *cronJob
	created       time.Time
	failed        int
	pods          []*pod
	done          time.Time
	gaveUp        bool // long ago: history
}

func (j *job) kind() string { return "Job" }
func (j *job) key() string  { return j.ns + "/" + j.name }

// next is when the schedule comes round.
func (j *cronJob) next(now time.Time) time.Time { return now.Truncate(j.period).Add(j.period) }

func (j *cronJob) await(c *Cluster) {
	c.after(j.next(c.now).Sub(c.now), func() {
		if !j.suspended && j.active == 0 {
			j.run(c)
		}
		j.await(c)
	})
}

func (j *cronJob) run(c *Cluster) {
	one := &job{ns: j.ns, name: fmt.Sprintf("%s-%d", j.name, c.now.Unix()/60), uid: c.uid(), of: j, created: c.now}
	j.last, j.active = c.now, 1
	j.history = append(j.history, one)
	c.put(one)
	c.put(j)
	one.attempt(c)
	for len(j.history) > 3 {
		oldest := j.history[0]
		j.history = j.history[1:]
		for _, p := range oldest.pods {
			c.remove(p)
		}
		c.remove(oldest)
	}
}

// attempt runs one Pod of the Job; some fail, and the next one succeeds.
func (j *job) attempt(c *Cluster) {
	p := &pod{ns: j.ns, name: j.name + "-" + c.word(suffixChars, 5), hash: "batch", ownerKind: "Job", owner: j.name}
	j.pods = append(j.pods, p)
	c.start(p, func() {
		c.after(c.between(2*time.Second, min(4*time.Minute, j.of.period/3)), func() { j.end(c, p) })
	})
}

func (j *job) end(c *Cluster, p *pod) {
	p.running, p.ready, p.turned = false, false, c.now
	if j.failed < 2 && c.chance(10) {
		p.phase, p.ended = "Failed", &ending{1, "Error", c.now}
		j.failed++
		c.put(p)
		c.put(j)
		c.after(10*time.Second, func() { j.attempt(c) })
		return
	}
	p.phase, p.ended = "Succeeded", &ending{0, "Completed", c.now}
	j.done = c.now
	j.of.active, j.of.success = 0, c.now
	c.put(p)
	c.put(j)
	c.put(j.of)
}

func (j *cronJob) render(c *Cluster) []byte {
	status := m{"lastScheduleTime": at(j.last), "lastSuccessfulTime": at(j.success)}
	if j.active > 0 {
		status["active"] = []m{{"kind": "Job", "name": j.history[len(j.history)-1].name}}
	}
	return c.encode("batch/v1", "CronJob", m{"name": j.name, "namespace": j.ns, "uid": j.uid, "creationTimestamp": at(c.cfg.Start.Add(-720 * time.Hour))},
		m{"schedule": j.schedule, "suspend": j.suspended}, status)
}

func (j *job) render(c *Cluster) []byte {
	meta := m{"name": j.name, "namespace": j.ns, "uid": j.uid, "creationTimestamp": at(j.created)}
	if j.of != nil {
		meta["ownerReferences"] = []m{{"apiVersion": "batch/v1", "kind": "CronJob", "name": j.of.name, "uid": j.of.uid, "controller": true}}
	}
	status := m{"failed": j.failed, "startTime": at(j.created)}
	switch {
	case j.gaveUp:
		status["conditions"] = []m{{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "Job has reached the specified backoff limit", "lastTransitionTime": at(j.done)}}
	case !j.done.IsZero():
		status["completionTime"] = at(j.done)
		status["conditions"] = []m{{"type": "Complete", "status": "True", "lastTransitionTime": at(j.done)}}
	}
	return c.encode("batch/v1", "Job", meta, m{"backoffLimit": 6}, status)
}
