package collect

import (
	"context"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scene"
)

// Bounds of what is read of operators' objects.
const (
	maxFollowed   = 6   // objects that another refers to
	maxOfOperator = 100 // of one kind
)

// makersOfSecrets are the kinds of objects that Secrets are made of.
var makersOfSecrets = []string{"ExternalSecret", "SealedSecret", "Certificate"}

// makersOfNodes are the kinds that say why no node is made.
var makersOfNodes = []string{"NodePool", "NodeClaim"}

// madeOnTheWay are the kinds of objects that are made for one of a kind, and tell why it
// does not get further.
var madeOnTheWay = map[string][]string{
	"Certificate":        {"CertificateRequest", "Order", "Challenge"},
	"CertificateRequest": {"Order", "Challenge"},
	"NodePool":           {"NodeClaim"},
	"HelmRelease":        {"HelmChart"},
}

// seenInWhole are the kinds of operators' objects that are looked for in a whole namespace.
var seenInWhole = []string{
	"HelmRelease", "Kustomization", "Application", "Certificate", "CertificateRequest", "Order", "ExternalSecret", "SealedSecret", "ScaledObject", "Rollout",
}

// leadingTo are the kinds of objects that lead to what runs, or look at it, and name parts of
// what stands before it.
var leadingTo = []string{"HTTPRoute", "VirtualService", "DestinationRule", "ServiceMonitor", "PodMonitor"}

// ReadLeading reads what leads to the target, where nothing is wrong with what it is made of.
// more is false when there was nothing of that kind to read.
func (c *Collector) ReadLeading(ctx context.Context) (more bool, err error) {
	if c.in.Reader == nil || c.home == "" {
		return false, nil
	}
	before := len(c.Scene.Others)
	var looks []look
	for _, kind := range leadingTo {
		if !c.Scene.Listed(kind, c.home) {
			looks = append(looks, c.lookQuietly(query{kind: kind, ns: c.home, limit: maxOfOperator}))
		}
	}
	err = c.readTogether(ctx, looks...)
	return len(c.Scene.Others) > before, unwrapStop(err)
}

// readOperators reads the objects of operators that something points at: the target itself
// and what it refers to, what would make what is missing, what delivers the target.
func (c *Collector) readOperators(ctx context.Context, f *scene.Facts) error {
	var looks []look
	list := func(ns string, kinds ...string) {
		for _, kind := range kinds {
			if !c.Scene.Listed(kind, ns) {
				looks = append(looks, c.lookQuietly(query{kind: kind, ns: ns, limit: maxOfOperator}))
			}
		}
	}
	switch f.Target.Kind {
	case scene.NamespaceKind:
		list(f.Target.Name, seenInWhole...)
	case scene.ClusterKind:
		list("", seenInWhole...)
	default:
		list(f.Target.Namespace, madeOnTheWay[f.Target.Kind]...)
	}
	if len(c.Scene.MissingSecrets(c.home)) > 0 {
		list(c.home, makersOfSecrets...)
	}
	if c.waitsForNode() {
		list("", makersOfNodes...)
		looks = append(looks, c.quietFetch(nightcrier.Resource{APIVersion: "v1", Kind: "ConfigMap", Namespace: scene.SystemNamespace, Name: "cluster-autoscaler-status"}))
	}
	for i := range c.Scene.Autoscalers {
		if up := scene.ControllerOf(&c.Scene.Autoscalers[i].Object); up.Kind != "" && !up.IsZero() && up.Check() == nil {
			looks = append(looks, c.quietFetch(up))
		}
	}
	if meta, _ := c.Scene.WorkloadOf(f.Mend()); meta != nil {
		looks = append(looks, c.quietDeliverers(*meta)...)
	}
	if err := c.readTogether(ctx, looks...); err != nil {
		return err
	}
	for range 2 { // what they refer to, and what that refers to
		if err := c.followReferences(ctx); err != nil {
			return err
		}
	}
	return nil
}

// waitsForNode reports whether a Pod waits for a node that nobody has.
func (c *Collector) waitsForNode() bool {
	for i := range c.Scene.Pods {
		if scene.SchedulerMessage(&c.Scene.Pods[i].Object) != "" {
			return true
		}
	}
	return false
}

// quietDeliverers are the looks at what delivered a workload, which may be gone.
func (c *Collector) quietDeliverers(m metav1.ObjectMeta) (looks []look) {
	for _, res := range scene.DeliveredBy(m) {
		if _, had := c.had[keyOf(res)]; !had {
			looks = append(looks, c.quietFetch(res))
		}
	}
	return looks
}

// followReferences reads what objects in trouble refer to.
func (c *Collector) followReferences(ctx context.Context) error {
	var looks []look
	var kinds []string
	for i := range c.Scene.Others {
		u := &c.Scene.Others[i].Object
		if _, bad := scene.StatusTrouble(u); !bad {
			continue
		}
		for _, kind := range madeOnTheWay[u.GetKind()] {
			if !c.Scene.Listed(kind, u.GetNamespace()) && !slices.Contains(kinds, kind) {
				kinds = append(kinds, kind)
				looks = append(looks, c.lookQuietly(query{kind: kind, ns: u.GetNamespace(), limit: maxOfOperator}))
			}
		}
		for _, r := range scene.ReferencesOf(u) {
			res := nightcrier.Resource{Kind: r.Kind, Namespace: r.Namespace, Name: r.Name}
			_, had := c.had[keyOf(res)]
			_, hadWide := c.had[nightcrier.Object{Kind: r.Kind, Name: r.Name}]
			if had || hadWide || len(looks) >= maxFollowed || res.Check() != nil {
				continue
			}
			looks = append(looks, c.quietFetch(res))
		}
	}
	return c.readTogether(ctx, looks...)
}
