package churn

import (
	"fmt"
	"time"
)

// workload is a Deployment, a StatefulSet or a DaemonSet.
type workload struct {
	what               string
	ns, name, uid      string
	hash, old          string // of the template, and of the one before
	wanted, generation int
	pods               []*pod
	busy               bool // a rollout or a scaling is under way
	updated, lost      time.Time
}

func (w *workload) kind() string { return w.what }
func (w *workload) key() string  { return w.ns + "/" + w.name }

// pod makes a Pod of w that is not yet in the cluster.
func (w *workload) pod(c *Cluster, name string) *pod {
	return &pod{ns: w.ns, name: name, hash: w.hash, ownerKind: w.what, owner: w.name}
}

func (w *workload) newName(c *Cluster) string {
	if w.what == "Deployment" {
		return w.name + "-" + w.hash + "-" + c.word(suffixChars, 5)
	}
	return w.name + "-" + c.word(suffixChars, 5)
}

func (w *workload) ready() (n int) {
	for _, p := range w.pods {
		if p.ready && p.deleting.IsZero() {
			n++
		}
	}
	return n
}

func (w *workload) fresh() (n int) {
	for _, p := range w.pods {
		if p.hash == w.hash {
			n++
		}
	}
	return n
}

// show writes the status of w.
func (w *workload) show(c *Cluster) {
	if enough := w.ready() >= w.wanted-w.wanted/4; enough {
		w.lost = time.Time{}
	} else if w.lost.IsZero() {
		w.lost = c.now
	}
	if w.busy {
		w.updated = c.now
	}
	c.put(w)
}

// add starts a Pod of w.
func (w *workload) add(c *Cluster, name string, then func()) {
	p := w.pod(c, name)
	w.pods = append(w.pods, p)
	c.start(p, func() {
		w.show(c)
		then()
	})
	w.show(c)
}

// drop stops a Pod of w.
func (w *workload) drop(c *Cluster, p *pod, why string, then func()) {
	c.stop(p, why, func() {
		w.forget(p)
		w.show(c)
		then()
	})
	w.show(c)
}

func (w *workload) forget(p *pod) {
	for i, o := range w.pods {
		if o == p {
			w.pods = append(w.pods[:i:i], w.pods[i+1:]...)
			return
		}
	}
}

// replace drops a Pod that is in the way, as a drain does, and puts another one
// in its place.
func (w *workload) replace(c *Cluster, p *pod, why string) {
	if w.busy || !p.ready || !p.deleting.IsZero() {
		return
	}
	switch w.what {
	case "Deployment":
		w.add(c, w.newName(c), func() {})
		w.drop(c, p, why, func() {})
	case "StatefulSet":
		w.drop(c, p, why, func() { w.add(c, p.name, func() {}) })
	}
}

// rollout changes the template.
func (w *workload) rollout(c *Cluster) {
	if w.busy {
		return
	}
	w.old, w.hash, w.busy = w.hash, c.word(hashChars, 8)+"9", true
	w.generation++
	w.show(c)
	old := append([]*pod(nil), w.pods...)
	width := max(1, len(old)/4)
	if w.what != "Deployment" {
		width = 1
	}
	left := width
	for range width {
		w.step(c, &old, func() {
			if left--; left == 0 {
				w.busy = false
				c.after(time.Second, func() { w.show(c) })
			}
		})
	}
}

// step replaces one Pod after the other, then says that it is done.
func (w *workload) step(c *Cluster, old *[]*pod, done func()) {
	if len(*old) == 0 {
		done()
		return
	}
	p := (*old)[len(*old)-1]
	*old = (*old)[:len(*old)-1]
	next := func() { w.step(c, old, done) }
	if p.gone(c) || !p.deleting.IsZero() {
		next()
		return
	}
	if w.what == "Deployment" {
		w.add(c, w.newName(c), func() { w.drop(c, p, "", next) })
		return
	}
	name := p.name
	if w.what == "DaemonSet" {
		name = w.newName(c)
	}
	w.drop(c, p, "", func() { w.add(c, name, next) })
}

// scale changes the number of replicas.
func (w *workload) scale(c *Cluster) {
	if w.busy || w.what == "DaemonSet" {
		return
	}
	to := max(1, w.wanted+c.rand.IntN(7)-3)
	w.generation++
	for w.wanted < to {
		name := w.newName(c)
		if w.what == "StatefulSet" {
			name = fmt.Sprintf("%s-%d", w.name, w.wanted)
			if _, taken := c.objects["Pod"][w.ns+"/"+name]; taken {
				break
			}
		}
		w.wanted++
		w.add(c, name, func() {})
	}
	if w.wanted > to && len(w.pods) == w.wanted {
		w.wanted--
		w.drop(c, w.pods[len(w.pods)-1], "", func() {})
	}
	w.show(c)
}

func (w *workload) render(c *Cluster) []byte {
	meta := m{"name": w.name, "namespace": w.ns, "uid": w.uid, "generation": w.generation, "labels": m{"app": w.name}}
	spec := m{"replicas": w.wanted, "template": m{"spec": c.specOf(w.pod(c, ""))}}
	ready := w.ready()
	status := m{"observedGeneration": w.generation, "replicas": len(w.pods), "readyReplicas": ready,
		"updatedReplicas": min(w.fresh(), w.wanted), "availableReplicas": ready}
	switch w.what {
	case "DaemonSet":
		delete(spec, "replicas")
		status = m{"observedGeneration": w.generation, "desiredNumberScheduled": w.wanted, "numberReady": ready, "updatedNumberScheduled": w.fresh()}
	case "Deployment":
		status["conditions"] = w.conditions()
	}
	return c.encode("apps/v1", w.what, meta, spec, status)
}

func (w *workload) conditions() []m {
	reason := "NewReplicaSetAvailable"
	if w.busy {
		reason = "ReplicaSetUpdated"
	}
	available := m{"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable"}
	if !w.lost.IsZero() {
		available = m{"type": "Available", "status": "False", "reason": "MinimumReplicasUnavailable", "lastTransitionTime": at(w.lost)}
	}
	return []m{available, {"type": "Progressing", "status": "True", "reason": reason, "lastUpdateTime": at(w.updated), "lastTransitionTime": at(w.updated)}}
}
