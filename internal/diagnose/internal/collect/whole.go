package collect

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"nightcrier.dev/nightcrier/internal/diagnose/internal/scene"
)

// readWhole reads a namespace, or all of them, with the nodes that it runs on, and
// the logs of what fails there.
func (c *Collector) readWhole(ctx context.Context, f *scene.Facts) error {
	ns := ""
	if f.Target.Kind == scene.NamespaceKind {
		ns = f.Target.Name
	}
	if err := c.readPermissions(ctx, ns); err != nil {
		return err
	}
	looks := c.lookAtLists(ns, KindsAround()...)
	looks = append(looks, c.lookAtLists(ns, "ReplicaSet")...)
	if ns != "" {
		looks = append(looks, c.lookAtObject(f.Target))
	} else {
		looks = append(looks, c.lookAtLists("", scene.NamespaceKind)...)
	}
	c.askedNodes = true
	looks = append(looks, c.lookAtList(query{kind: "Node", limit: maxNodes}))
	if err := c.readTogether(ctx, looks...); err != nil {
		return err
	}
	f.Owner, f.OwnerRead = f.Target, c.Reads > int(c.unanswered.Load()) && len(c.denied) < len(looks)
	if gone := c.had[keyOf(f.Target)]; gone.missing {
		return c.noteMissing(ctx, f, gone.ref)
	}
	if err := c.readBeyond(ctx, ns); err != nil {
		return err
	}
	c.Scene.SortEvents()
	if err := c.readLogs(ctx, failingPods(c.Scene.AllWorkloads()), maxWholeLogs); err != nil {
		return err
	}
	err := c.readSymptoms(ctx)
	f.Events = c.Scene.Events
	return err
}

// Bounds of logs beyond the target's own.
const (
	maxWholeLogs = 16
	maxOtherLogs = 4
)

// failingPods are the Pods of the workloads that are not well, those of which nothing is
// left first.
func failingPods(all []*scene.Facts) []scene.Read[corev1.Pod] {
	all = slices.DeleteFunc(slices.Clone(all), func(f *scene.Facts) bool { return f.JudgeStanding() != scene.StandsDown })
	slices.SortStableFunc(all, func(a, b *scene.Facts) int { return outOf(b) - outOf(a) })
	var pods []scene.Read[corev1.Pod]
	for _, f := range all {
		for _, p := range f.Pods[:min(1, len(f.Pods))] {
			if !scene.IsPodWell(&p, f.Now) {
				pods = append(pods, p)
			}
		}
	}
	return pods
}

func outOf(f *scene.Facts) int {
	if f.Replicas.Ready == 0 {
		return 1
	}
	return 0
}

// readOthersLogs reads the logs of failing workloads that the target needs, and of those
// that need it: they tell what else the fault touches.
func (c *Collector) readOthersLogs(ctx context.Context, f *scene.Facts) error {
	g := scene.DrawGraph(c.Scene)
	needs := g.ReachFrom(f.Mend(), scene.BySetting)
	var needed, needing []*scene.Facts
	for _, o := range c.Scene.AllWorkloads() {
		_, below := needs[o.Mend()]
		_, above := g.ReachFrom(o.Mend(), scene.BySetting)[f.Mend()]
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
