package churn

import (
	"fmt"
	"time"
)

const day = 24 * time.Hour

// build makes the cluster as it is when the day begins, and what will happen.
func (c *Cluster) build() {
	for range max(3, c.cfg.Pods/100) {
		c.nodes = append(c.nodes, &node{name: "node-" + c.word(hashChars, 6), uid: c.uid(), created: c.ago(day, 90*day), turned: c.ago(day, 2*day)})
	}
	for _, n := range c.nodes {
		c.put(n)
	}
	left := c.cfg.Pods
	for i := range 2 {
		left -= c.daemons(i)
	}
	for i := 0; left > 0; i++ {
		left -= c.workload(i)
	}
	for i := range max(2, c.cfg.Pods/150) {
		c.cron(i)
	}
	c.history()
	c.events()
}

// events plans what will happen to the cluster as a whole.
func (c *Cluster) events() {
	c.every(2*time.Hour, func() { c.maintain(c.nodes[c.rand.IntN(len(c.nodes))]) })
	c.every(3*time.Hour, func() { c.renew(c.rand.IntN(len(c.nodes))) })
	c.every(40*time.Minute, func() { c.restartKubelet(c.nodes[c.rand.IntN(len(c.nodes))]) })
	for _, n := range c.nodes[:min(20, len(c.nodes))] {
		c.every(5*time.Minute, func() {
			if c.objects["Node"][n.key()] == object(n) {
				c.put(n) // a heartbeat
			}
		})
	}
}

func (c *Cluster) namespace(i int) string { return fmt.Sprintf("team-%02d", i%40) }

// workload makes a Deployment or, each fifth, a StatefulSet.
func (c *Cluster) workload(i int) int {
	w := &workload{what: "Deployment", ns: c.namespace(i), name: fmt.Sprintf("api-%d", i), uid: c.uid(), hash: c.word(hashChars, 9) + "7",
		wanted: 1 + c.rand.IntN(20), generation: 3, updated: c.ago(day, 5*day)}
	if i%5 == 4 {
		w.what, w.name, w.wanted = "StatefulSet", fmt.Sprintf("db-%d", i), 1+c.rand.IntN(5)
	}
	for n := range w.wanted {
		name := w.newName(c)
		if w.what == "StatefulSet" {
			name = fmt.Sprintf("%s-%d", w.name, n)
		}
		c.settled(w, name)
	}
	c.put(w)
	c.every(10*time.Hour, func() { w.rollout(c) })
	c.every(16*time.Hour, func() { w.scale(c) })
	c.every(3*time.Hour, func() { c.flap(w) })
	return w.wanted
}

func (c *Cluster) daemons(i int) int {
	w := &workload{what: "DaemonSet", ns: "kube-system", name: fmt.Sprintf("agent-%d", i), uid: c.uid(), hash: "1", wanted: len(c.nodes), generation: 1}
	for range c.nodes {
		c.settled(w, w.newName(c))
	}
	c.put(w)
	c.every(14*time.Hour, func() { w.rollout(c) })
	return w.wanted
}

// settled adds a Pod that has been running for days, some with a past.
func (c *Cluster) settled(w *workload, name string) {
	p := w.pod(c, name)
	p.uid, p.phase, p.running, p.ready = c.uid(), "Running", true, true
	p.created = c.ago(6*day, 20*day)
	p.scheduled, p.began, p.turned, p.node, p.image = p.created, p.created, p.created, c.freeNode(), "registry.example/team/app:"+w.hash
	if c.chance(10) {
		p.restarts = 1 + c.rand.IntN(200)
		p.last = &ending{137, "OOMKilled", c.ago(5*day, 6*day)}
		p.began, p.turned = p.last.at, p.last.at
	}
	w.pods = append(w.pods, p)
	c.put(p)
}

// cron makes a CronJob; each seventh is suspended.
func (c *Cluster) cron(i int) {
	j := &cronJob{ns: c.namespace(i), name: fmt.Sprintf("report-%d", i), uid: c.uid(), schedule: "*/10 * * * *", period: 10 * time.Minute, suspended: i%7 == 6}
	switch i % 3 {
	case 1:
		j.schedule, j.period = "0 * * * *", time.Hour
	case 2:
		j.schedule, j.period = "0 */6 * * *", 6*time.Hour
	}
	j.last = c.now.Truncate(j.period)
	if j.suspended {
		j.last = c.ago(30*day, 60*day)
	}
	j.success = j.last
	c.put(j)
	j.await(c)
}

// history leaves things about that were wrong once.
func (c *Cluster) history() {
	for i := range max(2, c.cfg.Pods/200) {
		j := &job{ns: c.namespace(i), name: fmt.Sprintf("migrate-%d", i), uid: c.uid(), created: c.ago(3*day, 4*day), failed: 7, gaveUp: true}
		j.done = j.created.Add(time.Hour)
		c.put(j)
		p := &pod{ns: j.ns, name: j.name + "-" + c.word(suffixChars, 5), uid: c.uid(), hash: "batch", ownerKind: "Job", owner: j.name,
			created: j.created, scheduled: j.created, phase: "Failed", node: c.freeNode(), ended: &ending{1, "Error", j.done}}
		c.put(p)
		c.put(&claim{ns: j.ns, name: fmt.Sprintf("scratch-%d", i), uid: c.uid(), created: j.created})
		e := &event{ns: p.ns, name: p.name + ".0", uid: c.uid(), involvedKind: "Pod", involved: p.name, involvedUID: p.uid, reason: "BackOff",
			typ: "Warning", message: "Back-off restarting failed container app", count: 400, first: c.ago(50*time.Minute, 55*time.Minute), last: c.ago(20*time.Minute, 40*time.Minute)}
		c.put(e)
	}
}

// claim is a PersistentVolumeClaim that waits for its first Pod.
type claim struct {
	ns, name, uid string
	created       time.Time
}

func (k *claim) kind() string { return "PersistentVolumeClaim" }
func (k *claim) key() string  { return k.ns + "/" + k.name }

func (k *claim) render(c *Cluster) []byte {
	return c.encode("v1", "PersistentVolumeClaim", m{"name": k.name, "namespace": k.ns, "uid": k.uid, "creationTimestamp": at(k.created)},
		m{"storageClassName": "local", "accessModes": []string{"ReadWriteOnce"}}, m{"phase": "Pending"})
}
