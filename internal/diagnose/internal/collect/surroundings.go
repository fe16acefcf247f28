package collect

import (
	"context"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scene"
)

// Bounds of what is read of a namespace.
const (
	maxOfKind = 500 // objects of one kind, as many as an API server sends at once
	maxNamed  = 20  // Pods that Warning Events name, beyond the list
)

// KindsAround are the kinds of a namespace that rules look at.
func KindsAround() []string {
	return []string{
		"Pod", "Event", "Deployment", "StatefulSet", "DaemonSet", "Job", "CronJob",
		"Service", "EndpointSlice", "Ingress", "NetworkPolicy",
		"ConfigMap", "Secret", "ServiceAccount", "PersistentVolumeClaim",
		"ResourceQuota", "LimitRange", "HorizontalPodAutoscaler", "PodDisruptionBudget",
	}
}

// readNamespace reads the target and, at the same time, what is in its namespace.
func (c *Collector) readNamespace(ctx context.Context, f *scene.Facts) error {
	var looks []look
	if f.Target.Kind != "" {
		looks = append(looks, c.lookAtObject(f.Target))
	}
	if ns := f.Target.Namespace; ns != "" {
		looks = append(looks, c.lookAtLists(ns, KindsAround()...)...)
	}
	if err := c.readTogether(ctx, looks...); err != nil {
		return err
	}
	if err := c.readBeyond(ctx, f.Target.Namespace); err != nil {
		return err
	}
	c.Scene.SortEvents()
	return nil
}

// lookAtLists returns the looks that read all objects of these kinds in ns.
func (c *Collector) lookAtLists(ns string, kinds ...string) (looks []look) {
	for _, kind := range kinds {
		q := query{kind: kind, ns: ns, limit: maxOfKind}
		l := c.lookAtList(q)
		if kind == "Secret" { // a credential that is as small as it should be cannot
			l.fail = func(err error) error {
				if nightcrier.CodeOf(err) == nightcrier.Refused {
					return nil
				}
				return c.noteFailure(q.shortName(c.home), err)
			}
		}
		looks = append(looks, l)
	}
	return looks
}

// tellingNormals are the reasons of Normal Events that say why something does not go on:
// what an autoscaler does not do, whom a claim waits for, what a kubelet ends.
var tellingNormals = []string{"NotTriggerScaleUp", "ExternalProvisioning", "WaitForFirstConsumer", "Killing", "JobAlreadyActive"}

// readBeyond reads what matters most of lists that go on beyond what was read of them, which
// is what comes first by name: of Events the Warnings and the Normal ones that tell why, of
// Pods those that do not run and those that Warnings name.
func (c *Collector) readBeyond(ctx context.Context, ns string) error {
	var looks []look
	if c.Scene.Listed("Event", ns) && !c.Scene.Complete("Event", ns) {
		looks = append(looks, c.lookAtList(query{kind: "Event", ns: ns, fields: "type!=Normal", limit: maxOfKind}))
		for _, reason := range tellingNormals {
			looks = append(looks, c.lookAtList(query{kind: "Event", ns: ns, fields: "type=Normal,reason=" + reason, limit: maxEvents}))
		}
	}
	morePods := c.Scene.Listed("Pod", ns) && !c.Scene.Complete("Pod", ns)
	if morePods {
		looks = append(looks,
			c.lookAtList(query{kind: "Pod", ns: ns, fields: "status.phase!=Running,status.phase!=Succeeded", limit: maxOfKind}),
			c.lookAtList(query{kind: "Event", ns: ns, fields: "type=Warning,involvedObject.kind=Pod", limit: maxOfKind}),
		)
	}
	if err := c.readTogether(ctx, looks...); err != nil {
		return err
	}
	c.Scene.SortEvents()
	if !morePods {
		return nil
	}
	return c.readPodsWarnedOf(ctx, ns)
}

// readPodsWarnedOf reads the Pods that Warnings name and that no list has told.
func (c *Collector) readPodsWarnedOf(ctx context.Context, ns string) error {
	var looks []look
	asked := map[string]bool{}
	for _, e := range c.Scene.Events {
		o := e.Object.InvolvedObject
		res := nightcrier.Resource{Kind: "Pod", Namespace: o.Namespace, Name: o.Name}
		_, known := c.had[keyOf(res)]
		if known || asked[o.Name] || o.Kind != "Pod" || o.Namespace != ns || e.Object.Type != corev1.EventTypeWarning ||
			!c.Scene.IsFresh(e) || res.Check() != nil || len(looks) >= maxNamed {
			continue
		}
		asked[o.Name] = true
		l := c.lookAtObject(res)
		l.fail = func(err error) error { // it may well be gone
			if nightcrier.CodeOf(err) == nightcrier.NotFound {
				return nil
			}
			return c.noteFailure(l.source, err)
		}
		looks = append(looks, l)
	}
	return c.readTogether(ctx, looks...)
}

// readSymptoms reads those parts of the cluster that something in the namespace
// points at: most faults need none of them.
func (c *Collector) readSymptoms(ctx context.Context, f *scene.Facts) error {
	s := c.Scene
	var looks []look
	wide := func(kinds ...string) { looks = append(looks, c.lookAtLists("", kinds...)...) }
	if slices.ContainsFunc(s.Claims, func(p scene.Read[corev1.PersistentVolumeClaim]) bool {
		return p.Object.Status.Phase != corev1.ClaimBound
	}) {
		wide("StorageClass", "PersistentVolume")
	}
	if len(s.Ingresses) > 0 {
		wide("IngressClass")
	}
	said := func(reason, word string) bool {
		return slices.ContainsFunc(s.Events, func(e scene.Read[corev1.Event]) bool {
			return strings.HasPrefix(e.Object.Reason, reason) && strings.Contains(e.Object.Message, word) && s.IsFresh(e)
		})
	}
	if said("FailedAttachVolume", "") {
		wide("VolumeAttachment")
	}
	if said("Failed", "webhook") || said("ReplicaSet", "webhook") || c.refusedByWebhook() {
		wide("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration")
	}
	looks = append(looks, c.lookAtAPIs()...)
	if err := c.readTogether(ctx, looks...); err != nil {
		return err
	}
	if c.deviceMatters() { // who offers it runs in any namespace
		if err := c.readTogether(ctx, c.lookAtLists("", "DaemonSet")...); err != nil {
			return err
		}
		if ns := c.pluginNamespaces(); len(ns) > 0 {
			var pods []look
			for _, n := range ns {
				pods = append(pods, c.lookAtLists(n, "Pod")...)
			}
			if err := c.readTogether(ctx, pods...); err != nil {
				return err
			}
		}
	}
	if c.nodesMatter(f) {
		if err := c.readAllNodes(ctx); err != nil {
			return err
		}
	}
	if err := c.readBehind(ctx); err != nil {
		return err
	}
	if err := c.readElsewhere(ctx); err != nil {
		return err
	}
	return c.readOperators(ctx, f)
}

// lookAtAPIs are the looks that read what serves the metrics that autoscalers miss, and all
// parts of the API where somebody says that one does not answer.
func (c *Collector) lookAtAPIs() (looks []look) {
	if c.Scene.MissesAPI() {
		return []look{c.lookQuietly(query{kind: "APIService", limit: maxOfKind})}
	}
	asked := map[string]bool{}
	for i := range c.Scene.Autoscalers {
		if api := c.Scene.BlindScalersAPI(&c.Scene.Autoscalers[i].Object); api != "" && !asked[api] {
			asked[api] = true
			looks = append(looks, c.lookAtObject(nightcrier.Resource{APIVersion: "apiregistration.k8s.io/v1", Kind: "APIService", Name: api}))
		}
	}
	return looks
}

// refusedByWebhook reports whether a Deployment says that a webhook refuses its Pods.
func (c *Collector) refusedByWebhook() bool {
	for _, d := range c.Scene.Deployments {
		for _, cond := range d.Object.Status.Conditions {
			if cond.Type == "ReplicaFailure" && cond.Status == corev1.ConditionTrue && strings.Contains(cond.Message, "webhook") {
				return true
			}
		}
	}
	return false
}

// deviceMatters reports whether a Pod waits for a node and asks for a device.
func (c *Collector) deviceMatters() bool {
	return slices.ContainsFunc(c.Scene.Pods, func(p scene.Read[corev1.Pod]) bool {
		if scene.SchedulerMessage(&p.Object) == "" {
			return false
		}
		for name := range scene.PodRequests(&p.Object) {
			if strings.Contains(string(name), "/") {
				return true
			}
		}
		return false
	})
}

// pluginNamespaces are those of DaemonSets that are called like device plugins and whose Pods
// were not read.
func (c *Collector) pluginNamespaces() (list []string) {
	for _, d := range c.Scene.DaemonSets {
		ns := d.Object.Namespace
		if strings.Contains(d.Object.Name, "device-plugin") && !c.Scene.Complete("Pod", ns) && !slices.Contains(list, ns) && len(list) < maxBehind {
			list = append(list, ns)
		}
	}
	return list
}

// nodesMatter reports whether a Pod waits for a node or has been given up by its own, or
// whether the DaemonSet that is asked about has none because no node is fit for it.
func (c *Collector) nodesMatter(f *scene.Facts) bool {
	return slices.ContainsFunc(c.Scene.Pods, func(p scene.Read[corev1.Pod]) bool {
		return scene.IsNodeSuspect(&p.Object) || scene.SchedulerMessage(&p.Object) != ""
	}) || slices.ContainsFunc(c.Scene.DaemonSets, func(d scene.Read[appsv1.DaemonSet]) bool {
		st := d.Object.Status
		return st.DesiredNumberScheduled+st.CurrentNumberScheduled+st.NumberMisscheduled == 0 && f.Owner.Kind == "DaemonSet" && f.Owner.Name == d.Object.Name
	})
}

// lostLease are the words of a process that the API server did not answer in time.
var lostLease = []string{"leader election lost", "leaderelection lost", "failed to renew lease", "etcdserver: ", "error retrieving resource lock"}

// noName are the words of a process that cannot resolve a name.
var noName = []string{"no such host", "server misbehaving", "emporary failure in name resolution", "EAI_AGAIN", "ENOTFOUND", "lookup ", "Name or service not known", "could not be resolved", "UnknownHostException"}

// readBehind reads what stands behind a webhook that refuses, and the system's own
// namespace where it may be why.
func (c *Collector) readBehind(ctx context.Context) error {
	var looks []look
	served := c.webhookNamespaces()
	for _, ns := range c.servingNamespaces() {
		if !slices.Contains(served, ns) {
			served = append(served, ns)
		}
	}
	for _, ns := range served {
		looks = append(looks, c.lookAtLists(ns, "Service", "EndpointSlice", "Pod", "Deployment", "Event")...)
	}
	if c.logsSay(noName) {
		looks = append(looks, c.lookQuietly(query{kind: "CiliumNetworkPolicy", ns: c.home, limit: maxOfKind}), c.lookQuietly(query{kind: "CiliumClusterwideNetworkPolicy", limit: maxOfKind}))
	}
	if c.systemMatters() && !c.Scene.Complete("Pod", scene.SystemNamespace) {
		looks = append(looks, c.lookAtLists(scene.SystemNamespace, "Pod", "Deployment", "DaemonSet", "Service", "EndpointSlice", "ConfigMap", "Event")...)
	}
	if err := c.readTogether(ctx, looks...); err != nil {
		return err
	}
	c.Scene.SortEvents()
	if err := c.readSystemLogs(ctx); err != nil {
		return err
	}
	return c.readLogsIn(ctx, served)
}

// readLogsIn reads the logs of what fails in other namespaces.
func (c *Collector) readLogsIn(ctx context.Context, namespaces []string) error {
	if len(namespaces) == 0 {
		return nil
	}
	there := slices.DeleteFunc(c.Scene.AllWorkloads(), func(f *scene.Facts) bool { return !slices.Contains(namespaces, f.Owner.Namespace) })
	return c.readLogs(ctx, failingPods(there), maxOtherLogs)
}

// servingNamespaces are those of the Services behind parts of the API that are not
// available, or that autoscalers get nothing from.
func (c *Collector) servingNamespaces() (list []string) {
	missed := map[string]bool{}
	for i := range c.Scene.Autoscalers {
		missed[c.Scene.BlindScalersAPI(&c.Scene.Autoscalers[i].Object)] = true
	}
	for i := range c.Scene.Others {
		u := &c.Scene.Others[i].Object
		ns := scene.StringAt(u, "spec", "service", "namespace")
		if u.GetKind() != "APIService" || ns == "" || c.Scene.Complete("Pod", ns) || slices.Contains(list, ns) || len(list) >= maxBehind {
			continue
		}
		if _, _, bad := c.Scene.WhyUnavailable(u); (bad || missed[u.GetName()]) && (nightcrier.Resource{Kind: scene.NamespaceKind, Name: ns}).Check() == nil {
			list = append(list, ns)
		}
	}
	return list
}

// elsewhere are the kinds that decide whether what fails is answered from another
// namespace.
var elsewhere = []string{"Service", "EndpointSlice", "Pod", "Deployment", "StatefulSet", "NetworkPolicy", "Event"}

// readElsewhere reads the namespaces that what fails is configured to connect to, if
// they are others than those that were read.
func (c *Collector) readElsewhere(ctx context.Context) error {
	connected := c.connectedNamespaces()
	if len(connected) == 0 {
		return nil
	}
	var looks []look
	for _, ns := range append(connected, c.home) { // policies select by the labels of both
		looks = append(looks, c.quietFetch(nightcrier.Resource{APIVersion: "v1", Kind: scene.NamespaceKind, Name: ns}))
	}
	if err := c.readTogether(ctx, looks...); err != nil {
		return err
	}
	connected = slices.DeleteFunc(connected, func(ns string) bool { return scene.FindObject(c.Scene.Namespaces, "", ns) == nil })
	looks = nil
	for _, ns := range connected {
		looks = append(looks, c.lookAtLists(ns, elsewhere...)...)
	}
	if err := c.readTogether(ctx, looks...); err != nil {
		return err
	}
	for _, ns := range connected {
		c.Scene.DoubtNamespace(ns, elsewhere...)
	}
	c.Scene.SortEvents()
	return c.readLogsIn(ctx, connected)
}

// connectedNamespaces are those, not read yet, that the settings of what fails name
// as part of a Service's name.
func (c *Collector) connectedNamespaces() (list []string) {
	for _, f := range c.Scene.AllWorkloads() {
		maker, known := c.Scene.PodMakerOf(f.Mend())
		if f.JudgeStanding() != scene.StandsDown || !known {
			continue
		}
		for _, a := range c.Scene.AddressesOf(maker) {
			parts := strings.Split(strings.TrimSuffix(a.Host, "."), ".")
			if len(parts) < 3 || parts[2] != "svc" || slices.Contains(list, parts[1]) || c.Scene.Complete("Pod", parts[1]) || len(list) >= maxBehind {
				continue
			}
			if (nightcrier.Resource{Kind: scene.NamespaceKind, Name: parts[1]}).Check() == nil {
				list = append(list, parts[1])
			}
		}
	}
	return list
}

// quietFetch reads an object that may well not be there, or be forbidden.
func (c *Collector) quietFetch(res nightcrier.Resource) look {
	l := c.lookAtObject(res)
	l.fail = func(err error) error {
		if code := nightcrier.CodeOf(err); code == nightcrier.NotFound || code == nightcrier.Refused {
			return nil
		}
		return c.noteFailure(l.source, err)
	}
	return l
}

// systemMatters reports whether something points at the parts of the cluster that
// all namespaces share: its DNS, its network, its scheduler and its controllers.
func (c *Collector) systemMatters() bool {
	s := c.Scene
	switch {
	case c.logsSay(noName), c.logsSay(lostLease):
		return true
	case slices.ContainsFunc(s.Events, func(e scene.Read[corev1.Event]) bool {
		return e.Object.Reason == "FailedCreatePodSandBox" && s.IsFresh(e)
	}):
		return true
	}
	return len(s.UnscheduledWorkloads())+len(s.UnobservedWorkloads()) > 0
}

// logsSay reports whether a log has any of these words.
func (c *Collector) logsSay(words []string) bool {
	return slices.ContainsFunc(c.Scene.Logs, func(l scene.LogExcerpt) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(l.Text, w) })
	})
}

// readSystemLogs reads the logs of the parts that all namespaces share and that run: of DNS
// where names are not resolved, of etcd where leases are lost.
func (c *Collector) readSystemLogs(ctx context.Context) error {
	names, leases := c.logsSay(noName), c.logsSay(lostLease)
	var pods []scene.Read[corev1.Pod]
	for _, p := range c.Scene.Pods {
		l := p.Object.Labels
		dns := l["k8s-app"] == "kube-dns" || l["k8s-app"] == "coredns" || l["app.kubernetes.io/name"] == "coredns"
		etcd := l["component"] == "etcd" || strings.HasPrefix(p.Object.Name, "etcd-")
		if p.Object.Namespace == scene.SystemNamespace && (names && dns || leases && etcd) {
			pods = append(pods, p)
		}
	}
	return c.readTogether(ctx, c.logLooks(c.runningLogs(pods, maxOtherLogs))...)
}

// maxBehind is how many namespaces of webhooks are looked into.
const maxBehind = 3

// webhookNamespaces are the namespaces of webhooks that Events or conditions name.
func (c *Collector) webhookNamespaces() (list []string) {
	for w := range c.Scene.AllWebhooks() {
		if w.Service == nil {
			continue
		}
		ns := w.Service.Namespace
		if c.Scene.Complete("Pod", ns) || slices.Contains(list, ns) || len(list) >= maxBehind || !c.isWebhookNamed(w.Name) {
			continue
		}
		if (nightcrier.Resource{Kind: "Namespace", Name: ns}).Check() == nil {
			list = append(list, ns)
		}
	}
	return list
}

// isWebhookNamed reports whether an Event or a Deployment's condition speaks of the webhook.
func (c *Collector) isWebhookNamed(webhook string) bool {
	quoted := `"` + webhook + `"`
	for _, e := range c.Scene.Events {
		if strings.Contains(e.Object.Message, quoted) {
			return true
		}
	}
	for _, d := range c.Scene.Deployments {
		for _, cond := range d.Object.Status.Conditions {
			if strings.Contains(cond.Message, quoted) {
				return true
			}
		}
	}
	return false
}
