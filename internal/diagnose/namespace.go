package diagnose

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// The kinds of a target that is no single object: all of a namespace, and all that
// can be read of a cluster.
const (
	namespaceKind = "Namespace"
	clusterKind   = "Cluster"
)

// isWholeTarget reports whether the target is a whole namespace, or all of them.
func (f *Facts) isWholeTarget() bool {
	return f.Target.Kind == namespaceKind || f.Target.Kind == clusterKind
}

// readWhole reads a namespace, or all of them, with the nodes that it runs on, and
// the logs of what fails there.
func (c *collector) readWhole(ctx context.Context, f *Facts) error {
	ns := ""
	if f.Target.Kind == namespaceKind {
		ns = f.Target.Name
	}
	if err := c.readPermissions(ctx, ns); err != nil {
		return err
	}
	looks := c.lookAtLists(ns, kindsAround()...)
	looks = append(looks, c.lookAtLists(ns, "ReplicaSet")...)
	if ns != "" {
		looks = append(looks, c.lookAtObject(f.Target))
	} else {
		looks = append(looks, c.lookAtLists("", namespaceKind)...)
	}
	c.askedNodes = true
	looks = append(looks, c.lookAtList(query{kind: "Node", limit: maxNodes}))
	if err := c.readTogether(ctx, looks...); err != nil {
		return err
	}
	f.Owner, f.ownerRead = f.Target, c.reads > int(c.unanswered.Load()) && len(c.denied) < len(looks)
	if gone := c.had[keyOf(f.Target)]; gone.missing {
		return c.noteMissing(ctx, f, gone.ref)
	}
	if err := c.readBeyond(ctx, ns); err != nil {
		return err
	}
	c.scene.sortEvents()
	if err := c.readLogs(ctx, failingPods(c.scene.allWorkloads()), maxWholeLogs); err != nil {
		return err
	}
	err := c.readSymptoms(ctx)
	f.Events = c.scene.Events
	return err
}

// Bounds of logs beyond the target's own.
const (
	maxWholeLogs = 16
	maxOtherLogs = 4
)

// failingPods are the Pods of the workloads that are not well, those of which nothing is
// left first.
func failingPods(all []*Facts) []Read[corev1.Pod] {
	all = slices.DeleteFunc(slices.Clone(all), func(f *Facts) bool { return f.judgeStanding() != standsDown })
	slices.SortStableFunc(all, func(a, b *Facts) int { return outOf(b) - outOf(a) })
	var pods []Read[corev1.Pod]
	for _, f := range all {
		for _, p := range f.Pods[:min(1, len(f.Pods))] {
			if !podWell(&p, f.Now) {
				pods = append(pods, p)
			}
		}
	}
	return pods
}

func outOf(f *Facts) int {
	if f.Replicas.Ready == 0 {
		return 1
	}
	return 0
}

// readOthersLogs reads the logs of failing workloads that the target needs, and of those
// that need it: they tell what else the fault touches.
func (c *collector) readOthersLogs(ctx context.Context, f *Facts) error {
	g := graphOf(c.scene)
	needs := g.reachFrom(f.Mend(), bySetting)
	var needed, needing []*Facts
	for _, o := range c.scene.allWorkloads() {
		_, below := needs[o.Mend()]
		_, above := g.reachFrom(o.Mend(), bySetting)[f.Mend()]
		switch {
		case o.Mend() == f.Mend():
		case below:
			needed = append(needed, o)
		case above:
			needing = append(needing, o)
		}
	}
	if err := c.readLogs(ctx, failingPods(needed), maxOtherLogs); err != nil {
		return err
	}
	return c.readLogs(ctx, failingPods(needing), maxOtherLogs)
}

// judgeFacts runs every rule over all that was read: own is what they find of the target,
// all of everything else.
func judgeFacts(f *Facts) (own, all []Finding) {
	if !f.isWholeTarget() {
		own = applyRules(f)
	}
	if f.Hearsay {
		return own, nil
	}
	for _, o := range f.Scene.allWorkloads() {
		if o.Mend() == f.Mend() {
			continue
		}
		all = append(all, applyRules(o)...)
		if f.Target.Kind != namespaceKind || o.Target.Namespace == f.Target.Name {
			f.others = append(f.others, o)
		}
	}
	if f.isWholeTarget() {
		for _, n := range f.Scene.troubledNodes() {
			all = append(all, applyRules(n)...)
		}
		for _, o := range f.others {
			f.Replicas.Total += o.Replicas.Total
			f.Replicas.Ready += o.Replicas.Ready
		}
	}
	return own, append(all, applyScene(f.Scene)...)
}
