package collect

import (
	"context"

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
	if err := c.readRunningLogs(ctx, f); err != nil {
		return err
	}
	err := c.readSymptoms(ctx, f)
	f.Events = c.Scene.Events
	return err
}
