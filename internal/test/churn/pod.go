package churn

import (
	"fmt"
	"time"
)

// pod is one Pod with one container.
type pod struct {
	ns, name, uid, node, hash string
	ownerKind, owner          string
	created, scheduled, began time.Time
	turned                    time.Time // since when it is as ready as it is
	deleting                  time.Time
	phase, waiting            string
	scheduling                string // why no node takes it
	running, ready            bool
	restarts                  int
	ended, last               *ending
	disruption                string
	image                     string
}

type ending struct {
	code   int
	reason string
	at     time.Time
}

func (p *pod) kind() string { return "Pod" }
func (p *pod) key() string  { return p.ns + "/" + p.name }

// start creates a Pod and leads it to the point where it is ready.
func (c *Cluster) start(p *pod, ready func()) {
	p.uid, p.created, p.turned = c.uid(), c.now, c.now
	p.phase, p.running, p.ready, p.deleting = "Pending", false, false, time.Time{}
	p.ended, p.last, p.restarts, p.node, p.disruption, p.began = nil, nil, 0, "", "", time.Time{}
	p.image = "registry.example/team/app:" + p.hash
	c.put(p)
	if c.chance(40) { // until the autoscaler has brought a node
		p.scheduling = "0/40 nodes are available: 40 Insufficient cpu."
		c.after(time.Second, func() {
			c.put(p)
			c.tell(p, "FailedScheduling", "Warning", p.scheduling, 1)
		})
		c.after(c.between(30*time.Second, 4*time.Minute), func() { c.schedule(p, ready) })
		return
	}
	c.after(c.between(50*time.Millisecond, time.Second), func() { c.schedule(p, ready) })
}

func (c *Cluster) schedule(p *pod, ready func()) {
	if p.gone(c) {
		return
	}
	p.scheduling, p.scheduled, p.waiting, p.node = "", c.now, "ContainerCreating", c.freeNode()
	c.put(p)
	c.tell(p, "Scheduled", "Normal", "Successfully assigned "+p.key()+" to "+p.node, 1)
	switch {
	case c.chance(60): // the registry blinks
		c.after(c.between(2*time.Second, 8*time.Second), func() { c.blink(p, ready) })
	case c.chance(60):
		c.tell(p, "FailedMount", "Warning", `MountVolume.SetUp failed for volume "config" : failed to sync configmap cache: timed out waiting for the condition`, 1)
		c.after(c.between(2*time.Second, 4*time.Second), func() { c.run(p, ready) })
	case c.chance(100) && c.now.Sub(p.created) < 5*time.Second: // a large image
		c.after(c.between(2*time.Minute, 4*time.Minute), func() { c.run(p, ready) })
	default:
		c.after(c.between(time.Second, 20*time.Second), func() { c.run(p, ready) })
	}
}

func (c *Cluster) blink(p *pod, ready func()) {
	if p.gone(c) {
		return
	}
	p.waiting = "ErrImagePull"
	c.put(p)
	c.tell(p, "Failed", "Warning", "Failed to pull image: connection reset by peer", 1)
	c.after(c.between(time.Second, 5*time.Second), func() {
		if p.gone(c) {
			return
		}
		p.waiting = "ImagePullBackOff"
		c.put(p)
		c.tell(p, "BackOff", "Warning", `Back-off pulling image "`+p.image+`"`, 1)
	})
	c.after(c.between(14*time.Second, 20*time.Second), func() { c.run(p, ready) })
}

func (c *Cluster) run(p *pod, ready func()) {
	if p.gone(c) {
		return
	}
	p.waiting, p.phase, p.running, p.began = "", "Running", true, c.now
	c.put(p)
	c.tell(p, "Started", "Normal", "Started container app", 1)
	switch {
	case p.ownerKind == "Job":
		ready()
	case c.chance(50): // it needs something that comes up a little later
		c.after(c.between(2*time.Second, 40*time.Second), func() { c.restart(p, 1, "Error") })
		c.after(c.between(50*time.Second, 90*time.Second), func() { c.becomeReady(p, ready) })
	case c.chance(20): // slow to become ready, and its probe says so
		c.tell(p, "Unhealthy", "Warning", "Readiness probe failed: connection refused", 7)
		c.after(c.between(time.Minute, 4*time.Minute), func() { c.becomeReady(p, ready) })
	default:
		c.after(c.between(2*time.Second, 30*time.Second), func() { c.becomeReady(p, ready) })
	}
}

func (c *Cluster) becomeReady(p *pod, then func()) {
	if p.gone(c) || !p.running {
		return
	}
	c.turn(p, true)
	then()
}

func (c *Cluster) turn(p *pod, ready bool) {
	p.ready, p.turned = ready, c.now
	c.put(p)
}

// restart ends the container and starts it anew.
func (c *Cluster) restart(p *pod, code int, reason string) {
	if p.gone(c) || !p.running {
		return
	}
	p.running, p.ready, p.turned = false, false, c.now
	p.ended = &ending{code, reason, c.now}
	c.put(p)
	c.after(time.Second, func() {
		if p.gone(c) {
			return
		}
		p.last, p.ended, p.running, p.began = p.ended, nil, true, c.now
		p.restarts++
		c.put(p)
	})
}

// flap makes a Pod of w unready for a while, as probes do.
func (c *Cluster) flap(w *workload) {
	if len(w.pods) == 0 {
		return
	}
	p := w.pods[c.rand.IntN(len(w.pods))]
	if p.gone(c) || !p.ready {
		return
	}
	what := "Readiness"
	if c.chance(3) {
		what = "Liveness"
	}
	c.tell(p, "Unhealthy", "Warning", what+" probe failed: context deadline exceeded", 1+c.rand.IntN(2))
	if what == "Liveness" {
		return
	}
	c.turn(p, false)
	w.show(c)
	c.after(c.between(10*time.Second, 3*time.Minute), func() { c.becomeReady(p, func() { w.show(c) }) })
}

// stop deletes a Pod in peace.
func (c *Cluster) stop(p *pod, why string, gone func()) {
	if p.gone(c) || !p.deleting.IsZero() {
		return
	}
	p.deleting, p.disruption = c.now.Add(30*time.Second), why
	c.put(p)
	c.tell(p, "Killing", "Normal", "Stopping container app", 1)
	c.after(c.between(time.Second, 30*time.Second), func() {
		if p.running {
			code := []int{0, 137, 143}[c.rand.IntN(3)]
			p.running, p.ready, p.turned = false, false, c.now
			p.ended = &ending{code, map[bool]string{true: "Completed", false: "Error"}[code == 0], c.now}
			c.put(p)
		}
		c.after(c.between(100*time.Millisecond, time.Second), func() {
			if !p.gone(c) {
				c.remove(p)
			}
			gone()
		})
	})
}

func (p *pod) gone(c *Cluster) bool { return c.objects["Pod"][p.key()] != object(p) }

// tell makes an Event about a Pod.
func (c *Cluster) tell(p *pod, reason, typ, message string, count int) {
	if c.quiet {
		return
	}
	first := c.now.Add(-time.Duration(count-1) * 10 * time.Second)
	c.announce(&event{ns: p.ns, involvedKind: "Pod", involved: p.name, involvedUID: p.uid, reason: reason, typ: typ,
		message: message, count: count, first: first, last: c.now})
}

// announce shows an Event, and lets it expire.
func (c *Cluster) announce(e *event) {
	c.serial++
	e.name = fmt.Sprintf("%s.%016x", e.involved, c.serial)
	e.uid = c.uid()
	c.put(e)
	c.after(time.Hour, func() { c.remove(e) })
}

type event struct {
	ns, name, uid                       string
	involvedKind, involved, involvedUID string
	reason, typ, message                string
	count                               int
	first, last                         time.Time
}

func (e *event) kind() string { return "Event" }
func (e *event) key() string  { return e.ns + "/" + e.name }
