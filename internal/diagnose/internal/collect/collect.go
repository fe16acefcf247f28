package collect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scene"
)

// Bounds of what one diagnosis reads.
const (
	maxListed = 100 // Pods of one owner
	maxEvents = 100 // about one object
	maxNodes  = 100
)

// CollectFacts reads what concerns the incident.
func (c *Collector) CollectFacts(ctx context.Context) (*scene.Facts, error) {
	target, owner := c.in.Incident.Resource, c.in.Incident.Owner
	if target.IsZero() {
		target = c.in.Event.Resource
	}
	if owner.IsZero() {
		owner = c.in.Event.Owner
	}
	if owner.IsZero() {
		owner = target
	}
	target, owner = subjectOf(target, owner, c.in.Incident.Cluster)
	c.home = target.Namespace
	if target.Kind == scene.NamespaceKind {
		c.home = target.Name
	}
	f := &scene.Facts{Now: c.Scene.Now, Target: target, AskedAbout: true, Claimed: claimOf(c.in.Event), Owner: owner, Scene: c.Scene}
	ref, err := c.recordEvent()
	if err != nil {
		return nil, err
	}
	f.ClaimRef = ref
	if err := unwrapStop(c.fromCluster(ctx, f)); err != nil {
		return nil, err
	}
	if f, err = c.lookElsewhere(ctx, f); err != nil {
		return nil, unwrapStop(err)
	}
	target = f.Target
	if err := unwrapStop(c.readSources(ctx, f)); err != nil {
		return nil, err
	}
	c.addInvolved(target)
	c.addInvolved(f.Owner)
	if !isTargetKnown(f) {
		fillFromEvent(f, c.in.Event, ref)
	}
	return f, nil
}

// claimOf is the fault type that an event's sender means.
func claimOf(e nightcrier.Event) string {
	t, _ := nightcrier.FaultTypeCalled(e.FaultType)
	return t.ID
}

// unwrapStop is the error that a stop carries, and any other as it is.
func unwrapStop(err error) error {
	var s stop
	if errors.As(err, &s) {
		return s.error
	}
	return err
}

// subjectOf is what is looked at. An alert that names no object is about all of its
// namespace, and without one about the cluster.
func subjectOf(target, owner nightcrier.Resource, cluster string) (t, o nightcrier.Resource) {
	if target.Kind != nightcrier.AlertKind {
		return target, owner
	}
	t = nightcrier.Resource{Kind: scene.ClusterKind, Name: cmp.Or(cluster, "cluster")}
	if ns := target.Namespace; ns != "" {
		t = nightcrier.Resource{APIVersion: "v1", Kind: scene.NamespaceKind, Name: ns}
	}
	return t, t
}

// isTargetKnown reports whether the cluster told of the incident's object, or, when that
// is gone, of what it belonged to.
func isTargetKnown(f *scene.Facts) bool {
	switch f.Target.Kind {
	case "Pod":
		return len(f.Pods) > 0 || f.TargetGone && f.OwnerRead
	case scene.NamespaceKind, scene.ClusterKind:
		return f.OwnerRead || f.TargetGone
	case "Node":
		return len(f.Nodes) > 0
	}
	return f.OwnerRead
}

// recordEvent records the event as it came.
func (c *Collector) recordEvent() (scene.Ref, error) {
	body := []byte(c.in.Event.Raw)
	if len(body) == 0 {
		body = fmt.Appendf(nil, "%s %s: %s", c.in.Event.FaultType, c.in.Event.Resource, c.in.Event.Context)
	}
	return c.recordBody("event", "event "+c.in.Event.ID, body)
}

func (c *Collector) fromCluster(ctx context.Context, f *scene.Facts) error {
	if c.in.Reader == nil {
		c.NoteMissed(nightcrier.TheCluster, "no credential is configured for cluster "+c.in.Incident.Cluster+": everything here rests on the event alone")
		return nil
	}
	if err := f.Target.Check(); err != nil {
		c.NoteMissed("the object", err.Error())
		return nil
	}
	if f.IsWholeTarget() {
		return c.readWhole(ctx, f)
	}
	if err := c.readPermissions(ctx, f.Target.Namespace); err != nil {
		return err
	}
	if err := c.readNamespace(ctx, f); err != nil {
		return err
	}
	if err := c.readTarget(ctx, f); err != nil {
		return err
	}
	if err := c.readOwner(ctx, f); err != nil {
		return err
	}
	if err := c.readAround(ctx, f); err != nil {
		return err
	}
	return c.readHistory(ctx, f.Mend())
}

func (c *Collector) readPermissions(ctx context.Context, ns string) error {
	const what = "what the credential may do"
	var known map[string]any
	return c.readTogether(ctx, look{
		source: what,
		ask: func(ctx context.Context) (_ []byte, err error) {
			known, err = c.in.Reader.Permissions(ctx, cmp.Or(ns, metav1.NamespaceDefault))
			return nil, err
		},
		take: func([]byte) error {
			c.Permissions = known
			return nil
		},
	})
}

// readTarget reads the object that the incident names.
func (c *Collector) readTarget(ctx context.Context, f *scene.Facts) error {
	var err error
	switch f.Target.Kind {
	case "Pod":
		if err = readOne(ctx, c, f, &f.Pods); len(f.Pods) == 0 {
			return err
		}
		f.Owner = f.Target
		if up := scene.ControllerOf(&f.Pods[0].Object); !up.IsZero() && up.Kind != "Node" { // a static Pod names its node
			f.Owner = up
		}
	case "Node":
		if err = readOne(ctx, c, f, &f.Nodes); len(f.Nodes) > 0 {
			f.Owner = f.Target
		}
	default:
		f.Owner = f.Target // read as an owner
	}
	return err
}

// readOne reads the target into into, or notes that it is gone.
func readOne[T any](ctx context.Context, c *Collector, f *scene.Facts, into *[]scene.Read[T]) error {
	var obj T
	ref, missing, err := c.getObject(ctx, f.Target, &obj)
	switch {
	case err != nil || ref == (scene.Ref{}):
		return err
	case missing:
		return c.noteMissing(ctx, f, ref)
	}
	*into = []scene.Read[T]{{Object: obj, Ref: ref}}
	return nil
}

// readOwner walks from what is known of the owner up to the object that a
// person would mend, reading each on the way.
func (c *Collector) readOwner(ctx context.Context, f *scene.Facts) error {
	for range 4 {
		up, err := c.readWorkload(ctx, f)
		if err != nil || up.IsZero() {
			return err
		}
		f.Owner = up
	}
	return nil
}

// readWorkload reads the owner, if it is a workload, and returns its own owner.
func (c *Collector) readWorkload(ctx context.Context, f *scene.Facts) (nightcrier.Resource, error) {
	switch f.Owner.Kind {
	case "ReplicaSet":
		up, err := readOwnerInto(ctx, c, f, &f.ReplicaSet)
		if f.ReplicaSet == nil {
			up = deploymentByHash(f)
		}
		return up, err
	case "Deployment":
		return readOwnerInto(ctx, c, f, &f.Deployment)
	case "Job":
		return readOwnerInto(ctx, c, f, &f.Job)
	case "StatefulSet":
		var set *scene.Read[appsv1.StatefulSet]
		_, err := readOwnerInto(ctx, c, f, &set)
		if set != nil {
			f.Selector = set.Object.Spec.Selector
		}
		return nightcrier.Resource{}, err
	case "DaemonSet":
		var set *scene.Read[appsv1.DaemonSet]
		_, err := readOwnerInto(ctx, c, f, &set)
		if set != nil {
			f.Selector = set.Object.Spec.Selector
		}
		return nightcrier.Resource{}, err
	case "CronJob":
		var cron *scene.Read[batchv1.CronJob]
		_, err := readOwnerInto(ctx, c, f, &cron)
		return nightcrier.Resource{}, err
	case "Pod", "Node": // read as the target
		return nightcrier.Resource{}, nil
	}
	up, err := readOwnerInto(ctx, c, f, &f.Other)
	if f.Owner != f.Target || up.Kind == "Node" {
		up = nightcrier.Resource{} // above an operator's object nobody looks
	}
	return up, err
}

// deploymentByHash names the Deployment of a ReplicaSet that cannot be read by
// the hash that the Pod's label tells.
func deploymentByHash(f *scene.Facts) nightcrier.Resource {
	if len(f.Pods) == 0 {
		return nightcrier.Resource{}
	}
	name, ok := scene.DeploymentName(f.Owner.Name, f.Pods[0].Object.Labels)
	if !ok {
		return nightcrier.Resource{}
	}
	return nightcrier.Resource{APIVersion: "apps/v1", Kind: "Deployment", Namespace: f.Owner.Namespace, Name: name}
}

// readOwnerInto reads the owner into into and returns the owner's controller.
func readOwnerInto[T any, P interface {
	*T
	metav1.Object
}](ctx context.Context, c *Collector, f *scene.Facts, into **scene.Read[T]) (nightcrier.Resource, error) {
	var obj T
	ref, missing, err := c.getObject(ctx, f.Owner, &obj)
	if err != nil || ref == (scene.Ref{}) {
		return nightcrier.Resource{}, err
	}
	if missing {
		if f.Owner == f.Target {
			err = c.noteMissing(ctx, f, ref)
		}
		return nightcrier.Resource{}, err
	}
	f.OwnerRead = true
	*into = &scene.Read[T]{Object: obj, Ref: ref}
	return scene.ControllerOf(P(&obj)), nil
}

// readAround reads the owner's Pods, the events about all of them, their logs,
// and the nodes where they matter.
func (c *Collector) readAround(ctx context.Context, f *scene.Facts) error {
	if err := c.readPods(ctx, f); err != nil {
		return err
	}
	if f.Owner.Kind == "CronJob" && len(f.Pods) == 0 {
		f.FillFromScene()
	}
	if err := c.readEvents(ctx, f); err != nil {
		return err
	}
	if err := c.readLogs(ctx, f.Pods, maxLogs); err != nil {
		return err
	}
	if err := c.readNodes(ctx, f); err != nil {
		return err
	}
	if err := c.readOthersLogs(ctx, f); err != nil {
		return err
	}
	if err := c.readRunningLogs(ctx, f); err != nil {
		return err
	}
	return c.readSymptoms(ctx, f)
}

// podSelector is how the owner finds its Pods, nil when it is not known.
func podSelector(f *scene.Facts) labels.Selector {
	sel := f.Selector
	switch {
	case f.Deployment != nil:
		sel = f.Deployment.Object.Spec.Selector
	case f.ReplicaSet != nil:
		sel = f.ReplicaSet.Object.Spec.Selector
	case f.Job != nil:
		sel = f.Job.Object.Spec.Selector
	}
	if sel == nil {
		return nil
	}
	s, err := metav1.LabelSelectorAsSelector(sel)
	if err != nil || s.Empty() {
		return nil
	}
	return s
}

// readPods lists the owner's Pods, counts them, and keeps the incident's own
// and the newest failing ones.
func (c *Collector) readPods(ctx context.Context, f *scene.Facts) error {
	if f.Target.Kind == "Node" {
		return c.readPodsOfNode(ctx, f)
	}
	sel := podSelector(f)
	if sel == nil {
		f.CountPods(append(slices.Clone(f.Pods), c.siblingsOf(f)...))
		return nil
	}
	if !c.Scene.Complete("Pod", f.Owner.Namespace) && !c.closed[scene.KindIn{Kind: "Pod", Namespace: f.Owner.Namespace}] {
		if err := c.readTogether(ctx, c.lookAtList(query{kind: "Pod", ns: f.Owner.Namespace, labels: sel.String(), limit: maxListed})); err != nil {
			return err
		}
	}
	var all []scene.Read[corev1.Pod]
	for p := range c.Scene.PodsMatching(f.Owner.Namespace, sel) {
		all = append(all, *p)
	}
	f.CountPods(all)
	var first *scene.Read[corev1.Pod]
	if len(f.Pods) > 0 {
		first = &f.Pods[0]
	}
	f.Pods = scene.PickPods(f, all, first)
	for _, p := range f.Pods {
		c.addInvolved(nightcrier.Resource{
			APIVersion: "v1", Kind: "Pod", Namespace: p.Object.Namespace, Name: p.Object.Name, UID: string(p.Object.UID),
		})
	}
	return nil
}

// readPodsOfNode counts the Pods on the node and their namespaces: whom it hurts.
func (c *Collector) readPodsOfNode(ctx context.Context, f *scene.Facts) error {
	if len(f.Nodes) == 0 {
		return nil
	}
	if err := c.readTogether(ctx, c.lookAtList(query{kind: "Pod", fields: "spec.nodeName=" + f.Target.Name, limit: maxListed})); err != nil {
		return err
	}
	pods := slices.Clone(c.Scene.Pods)
	pods = slices.DeleteFunc(pods, func(p scene.Read[corev1.Pod]) bool { return p.Object.Spec.NodeName != f.Target.Name })
	f.CountPods(pods)
	for _, p := range pods {
		if !slices.Contains(f.Namespaces, p.Object.Namespace) {
			f.Namespaces = append(f.Namespaces, p.Object.Namespace)
		}
	}
	slices.Sort(f.Namespaces)
	if f.Nodes[0].Object.Spec.Unschedulable { // who drains it may be held up
		return c.readTogether(ctx,
			c.lookAtList(query{kind: "PodDisruptionBudget", limit: maxOfKind}),
			c.lookAtList(query{kind: "Event", fields: "type=Warning,involvedObject.kind=Pod", limit: maxOfKind}),
		)
	}
	return nil
}

// readEvents reads the events about the Pods, the owner and the target.
func (c *Collector) readEvents(ctx context.Context, f *scene.Facts) error {
	about := []nightcrier.Resource{f.Target}
	for _, p := range f.Pods {
		about = append(about, nightcrier.Resource{Kind: "Pod", Namespace: p.Object.Namespace, Name: p.Object.Name})
	}
	if f.ReplicaSet != nil && len(f.Pods) == 0 { // why it cannot make Pods stands there
		about = append(about, nightcrier.Resource{Kind: "ReplicaSet", Namespace: f.Owner.Namespace, Name: f.ReplicaSet.Object.Name})
	}
	about = append(about, f.Owner)
	var looks []look
	for _, r := range about {
		// Events about cluster-wide objects are kept in the default namespace.
		ns := cmp.Or(r.Namespace, metav1.NamespaceDefault)
		q := query{kind: "Event", ns: ns, limit: maxEvents, fields: "involvedObject.kind=" + r.Kind + ",involvedObject.name=" + r.Name}
		asked := slices.ContainsFunc(looks, func(l look) bool { return l.source == q.describeSource() })
		if !asked && !c.Scene.Complete("Event", ns) && !c.closed[scene.KindIn{Kind: "Event", Namespace: ns}] && r.Check() == nil {
			looks = append(looks, c.lookAtList(q))
		}
	}
	if err := c.readTogether(ctx, looks...); err != nil {
		return err
	}
	c.Scene.SortEvents()
	f.Events = nil
	for _, e := range c.Scene.Events {
		if o := e.Object.InvolvedObject; slices.ContainsFunc(about, func(r nightcrier.Resource) bool {
			return o.Kind == r.Kind && o.Name == r.Name && o.Namespace == r.Namespace
		}) {
			f.Events = append(f.Events, e)
		}
	}
	return nil
}

// readNodes reads the node of a Pod that its node has given up, or the nodes
// that a Pod could not be scheduled to.
func (c *Collector) readNodes(ctx context.Context, f *scene.Facts) error {
	for _, p := range f.Pods {
		switch {
		case scene.IsNodeSuspect(&p.Object):
			var node corev1.Node
			ref, missing, err := c.getObject(ctx, nightcrier.Resource{APIVersion: "v1", Kind: "Node", Name: p.Object.Spec.NodeName}, &node)
			if err != nil {
				return err
			}
			if ref != (scene.Ref{}) && !missing {
				f.Nodes = append(f.Nodes, scene.Read[corev1.Node]{Object: node, Ref: ref})
			}
			return nil
		case scene.SchedulerMessage(&p.Object) != "":
			if err := c.readAllNodes(ctx); err != nil {
				return err
			}
			f.Nodes = append(f.Nodes, c.Scene.Nodes...)
			return nil
		}
	}
	return nil
}

func (c *Collector) readAllNodes(ctx context.Context) error {
	if c.Scene.Complete("Node", "") || c.askedNodes {
		return nil
	}
	c.askedNodes = true
	return c.readTogether(ctx, c.lookAtList(query{kind: "Node", limit: maxNodes}))
}

// JoinMissed is what could not be read, and why, as one line.
func JoinMissed(missed []nightcrier.NotChecked) string {
	var parts []string
	for _, m := range missed {
		parts = append(parts, m.What+": "+m.Why)
	}
	return strings.Join(parts, "; ")
}
