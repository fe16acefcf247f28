package churn

import "time"

// node is one machine.
type node struct {
	name, uid      string
	created        time.Time
	cordoned, down bool
	leaving        bool
	turned         time.Time
}

func (n *node) kind() string { return "Node" }
func (n *node) key() string  { return "/" + n.name }

// freeNode is a node that takes Pods.
func (c *Cluster) freeNode() string {
	for range 2 * len(c.nodes) {
		if n := c.nodes[c.rand.IntN(len(c.nodes))]; !n.cordoned && !n.down && !n.leaving {
			return n.name
		}
	}
	return c.nodes[0].name
}

// maintain drains a node, boots it, and takes it back.
func (c *Cluster) maintain(n *node) {
	if n.cordoned || n.leaving {
		return
	}
	n.cordoned = true
	c.put(n)
	c.drain(n)
	c.after(c.between(3*time.Minute, 6*time.Minute), func() {
		c.flip(n, true)
		c.after(c.between(time.Minute, 5*time.Minute), func() {
			c.flip(n, false)
			c.after(time.Minute, func() { n.cordoned = false; c.put(n) })
		})
	})
}

// flip makes a node ready or not.
func (c *Cluster) flip(n *node, down bool) {
	n.down, n.turned = down, c.now
	c.put(n)
}

// drain moves the Pods of a node elsewhere, one after the other.
func (c *Cluster) drain(n *node) {
	wait := time.Duration(0)
	for _, kind := range []string{"Deployment", "StatefulSet"} {
		for _, name := range c.names(kind) {
			w := c.objects[kind][name].(*workload)
			for _, p := range w.pods {
				if p.node != n.name {
					continue
				}
				wait += 500 * time.Millisecond
				c.after(wait, func() { w.replace(c, p, "EvictionByEvictionAPI") })
				break // one of each workload, as its budget allows
			}
		}
	}
}

// restartKubelet makes a node blink.
func (c *Cluster) restartKubelet(n *node) {
	if n.down || n.leaving || n.cordoned {
		return
	}
	c.flip(n, true)
	c.after(c.between(5*time.Second, 40*time.Second), func() { c.flip(n, false) })
}

// renew takes a node away and brings another one, as autoscalers do.
func (c *Cluster) renew(i int) {
	n := c.nodes[i]
	if n.cordoned || n.leaving {
		return
	}
	n.leaving = true
	c.put(n)
	c.drain(n)
	c.after(c.between(3*time.Minute, 5*time.Minute), func() { c.flip(n, true) })
	c.after(10*time.Minute, func() {
		c.remove(n)
		fresh := &node{name: "node-" + c.word(hashChars, 6), uid: c.uid(), created: c.now, down: true, turned: c.now}
		c.nodes[i] = fresh
		c.put(fresh)
		c.after(c.between(20*time.Second, 3*time.Minute), func() { c.flip(fresh, false) })
	})
}

func (n *node) render(c *Cluster) []byte {
	spec := m{"podCIDR": "10.1.0.0/24"}
	if n.cordoned {
		spec["unschedulable"] = true
	}
	if n.leaving {
		spec["taints"] = []m{{"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule"}}
	}
	ready := m{"type": "Ready", "status": "True", "reason": "KubeletReady", "lastTransitionTime": at(n.turned), "lastHeartbeatTime": at(c.now)}
	if n.down {
		ready["status"], ready["reason"], ready["message"] = "Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status."
	}
	return c.encode("v1", "Node", m{"name": n.name, "uid": n.uid, "creationTimestamp": at(n.created)}, spec, m{"conditions": []m{
		{"type": "MemoryPressure", "status": "False"}, {"type": "DiskPressure", "status": "False"}, {"type": "PIDPressure", "status": "False"}, ready,
	}})
}
