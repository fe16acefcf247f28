package collect

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scene"
)

// ownWatch is the source of events that this cluster itself told, by the credential that
// is asked now.
const ownWatch = "watch"

// everywhere are namespaces that every cluster has: that one is there does not tell which
// cluster it is in.
var everywhere = []string{"default", "kube-node-lease", "kube-public", "kube-system"}

// noteMissing notes that the cluster has no such target. It counts as gone only where the
// answer is of the cluster that the event is about: no other one, to which a credential may
// lead by mistake, has it either.
func (c *Collector) noteMissing(ctx context.Context, f *scene.Facts, ref scene.Ref) error {
	home := nightcrier.Resource{APIVersion: "v1", Kind: scene.NamespaceKind, Name: f.Target.Namespace}
	if _, asked := c.had[keyOf(home)]; home.Name != "" && !asked {
		if err := c.readTogether(ctx, c.lookAtObject(home)); err != nil {
			return err
		}
	}
	f.GoneRef = ref
	if f.HomeGone = c.had[keyOf(home)].missing && !c.hasReadIn(home.Name); f.HomeGone {
		f.GoneRef = c.had[keyOf(home)].ref
	}
	if why := c.doubtMissing(f); why != "" {
		f.Doubt, f.OwnerRead = "it was not found"+why+": the credential may be of another cluster than the event", false
		return nil
	}
	f.TargetGone, f.SeenHere = true, c.in.Event.Source == ownWatch
	if f.Target.Kind == "Pod" && !f.SeenHere { // a ReplicaSet that is left tells what made it
		return c.readTogether(ctx, c.lookAtLists(home.Name, "ReplicaSet")...)
	}
	return nil
}

// lookElsewhere looks at the one workload that has the name of a target which does not exist:
// the namespace of an alert is often that of the exporter which measured it. Of several nobody
// knows which is meant.
func (c *Collector) lookElsewhere(ctx context.Context, f *scene.Facts) (*scene.Facts, error) {
	if !f.TargetGone || f.SeenHere || c.in.Event.Dialect != alertDialect || !slices.Contains([]string{"Deployment", "StatefulSet", "DaemonSet"}, f.Target.Kind) {
		return f, nil
	}
	if err := c.readTogether(ctx, c.lookQuietly(query{kind: f.Target.Kind, fields: "metadata.name=" + f.Target.Name, limit: maxNamed})); err != nil {
		return f, err
	}
	var found []nightcrier.Object
	for m := range c.Scene.AllControllers() {
		if o := m.Object; o.Kind == f.Target.Kind && o.Name == f.Target.Name {
			found = scene.UniteObjects(found, []nightcrier.Object{o})
		}
	}
	if len(found) != 1 {
		return f, nil
	}
	res := f.Target
	res.Namespace, res.UID = found[0].Namespace, ""
	c.NoteMissed(f.Target.String(), "it does not exist; the only "+f.Target.Kind+" of that name, in namespace "+res.Namespace+", was looked at")
	c.home = res.Namespace
	moved := &scene.Facts{Now: f.Now, Target: res, AskedAbout: true, Claimed: f.Claimed, Owner: res, Scene: c.Scene, ClaimRef: f.ClaimRef}
	return moved, c.fromCluster(ctx, moved)
}

// alertDialect is that of events whose labels tell who measured as well as what was measured.
const alertDialect = "alertmanager"

// doubtMissing says why a target that is not found may never have been in this cluster, ""
// where all speaks for it.
func (c *Collector) doubtMissing(f *scene.Facts) string {
	ns := f.Target.Namespace
	switch {
	case c.in.Event.Source == ownWatch:
		return ""
	case ns == "":
		return ", and nothing else tells which cluster this is"
	case f.HomeGone:
		return ", and neither was its namespace"
	case !c.hasReadIn(ns):
		return ", and nothing of its namespace could be read"
	case slices.Contains(everywhere, ns) && !c.hasMakerOf(f.Target):
		return ", nor what it belonged to, and every cluster has a namespace " + ns
	}
	return ""
}

// hasReadIn reports whether the namespace was read, or anything in it.
func (c *Collector) hasReadIn(ns string) bool {
	for o, read := range c.had {
		if read.body != nil && (o.Namespace == ns || o.Kind == scene.NamespaceKind && o.Name == ns) {
			return true
		}
	}
	return false
}

// hasMakerOf reports whether a workload is there that may have made a Pod.
func (c *Collector) hasMakerOf(pod nightcrier.Resource) bool {
	for m := range c.Scene.AllControllers() {
		if m.Object.Namespace == pod.Namespace && strings.HasPrefix(pod.Name, m.Object.Name+"-") {
			return true
		}
	}
	return false
}

// siblingsOf are the Pods beside the target that belong to the same owner, which could not
// be read.
func (c *Collector) siblingsOf(f *scene.Facts) (pods []scene.Read[corev1.Pod]) {
	if f.Target.Kind != "Pod" || f.Owner == f.Target {
		return nil
	}
	for p := range c.Scene.PodsBelow(f.Mend()) {
		if p.Object.Name != f.Target.Name {
			pods = append(pods, *p)
		}
	}
	return pods
}
