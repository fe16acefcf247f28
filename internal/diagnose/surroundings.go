package diagnose

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"nightcrier.dev/nightcrier"
)

// Bounds of what is read of a namespace.
const (
	maxOfKind = 500 // objects of one kind, as many as an API server sends at once
	maxNamed  = 20  // Pods that Warning Events name, beyond the list
)

// kindsAround are the kinds of a namespace that rules look at.
func kindsAround() []string {
	return []string{
		"Pod", "Event", "Deployment", "StatefulSet", "DaemonSet", "Job", "CronJob",
		"Service", "EndpointSlice", "Ingress", "NetworkPolicy",
		"ConfigMap", "Secret", "ServiceAccount", "PersistentVolumeClaim",
		"ResourceQuota", "LimitRange", "HorizontalPodAutoscaler", "PodDisruptionBudget",
	}
}

// readNamespace reads the target and, at the same time, what is in its namespace.
func (c *collector) readNamespace(ctx context.Context, f *Facts) error {
	var looks []look
	if f.Target.Kind != "" {
		looks = append(looks, c.lookAtObject(f.Target))
	}
	if ns := f.Target.Namespace; ns != "" {
		looks = append(looks, c.lookAtLists(ns, kindsAround()...)...)
	}
	if err := c.readTogether(ctx, looks...); err != nil {
		return err
	}
	if err := c.readBeyond(ctx, f.Target.Namespace); err != nil {
		return err
	}
	c.scene.sortEvents()
	return nil
}

// lookAtLists returns the looks that read all objects of these kinds in ns.
func (c *collector) lookAtLists(ns string, kinds ...string) (looks []look) {
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

// readBeyond reads, where a namespace has more Pods than one list tells, those that
// do not run, and those that Warning Events name.
func (c *collector) readBeyond(ctx context.Context, ns string) error {
	if c.scene.Complete("Pod", ns) || !slices.ContainsFunc(c.scene.Pods, func(p Read[corev1.Pod]) bool { return p.Object.Namespace == ns }) {
		return nil
	}
	err := c.readTogether(ctx,
		c.lookAtList(query{kind: "Pod", ns: ns, fields: "status.phase!=Running,status.phase!=Succeeded", limit: maxOfKind}),
		c.lookAtList(query{kind: "Event", ns: ns, fields: "type=Warning,involvedObject.kind=Pod", limit: maxOfKind}),
	)
	if err != nil {
		return err
	}
	c.scene.sortEvents()
	var looks []look
	asked := map[string]bool{}
	for _, e := range c.scene.Events {
		o := e.Object.InvolvedObject
		res := nightcrier.Resource{Kind: "Pod", Namespace: o.Namespace, Name: o.Name}
		_, known := c.had[keyOf(res)]
		if known || asked[o.Name] || o.Kind != "Pod" || o.Namespace != ns || e.Object.Type != corev1.EventTypeWarning ||
			!c.scene.isFresh(e) || res.Check() != nil || len(looks) >= maxNamed {
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
func (c *collector) readSymptoms(ctx context.Context) error {
	s := c.scene
	var looks []look
	wide := func(kinds ...string) { looks = append(looks, c.lookAtLists("", kinds...)...) }
	if slices.ContainsFunc(s.Claims, func(p Read[corev1.PersistentVolumeClaim]) bool { return p.Object.Status.Phase != corev1.ClaimBound }) {
		wide("StorageClass", "PersistentVolume")
	}
	if len(s.Ingresses) > 0 {
		wide("IngressClass")
	}
	said := func(reason, word string) bool {
		return slices.ContainsFunc(s.Events, func(e Read[corev1.Event]) bool {
			return strings.HasPrefix(e.Object.Reason, reason) && strings.Contains(e.Object.Message, word) && s.isFresh(e)
		})
	}
	if said("FailedAttachVolume", "") {
		wide("VolumeAttachment")
	}
	if said("Failed", "webhook") || said("ReplicaSet", "webhook") || c.refusedByWebhook() {
		wide("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration")
	}
	looks = append(looks, c.metricsAPIs()...)
	if err := c.readTogether(ctx, looks...); err != nil {
		return err
	}
	if c.nodesMatter() {
		if err := c.readAllNodes(ctx); err != nil {
			return err
		}
	}
	if err := c.readBehind(ctx); err != nil {
		return err
	}
	return c.readElsewhere(ctx)
}

// metricsAPIs are the looks that read what serves the metrics that autoscalers miss.
func (c *collector) metricsAPIs() (looks []look) {
	asked := map[string]bool{}
	for _, h := range c.scene.Autoscalers {
		cond, off := c.scene.inactiveCondition(&h.Object)
		if !off || !blindReason.MatchString(cond.Reason) {
			continue
		}
		if api := metricsAPI(cond.Message); !asked[api] {
			asked[api] = true
			looks = append(looks, c.lookAtObject(nightcrier.Resource{APIVersion: "apiregistration.k8s.io/v1", Kind: "APIService", Name: api}))
		}
	}
	return looks
}

// refusedByWebhook reports whether a Deployment says that a webhook refuses its Pods.
func (c *collector) refusedByWebhook() bool {
	for _, d := range c.scene.Deployments {
		for _, cond := range d.Object.Status.Conditions {
			if cond.Type == "ReplicaFailure" && cond.Status == corev1.ConditionTrue && strings.Contains(cond.Message, "webhook") {
				return true
			}
		}
	}
	return false
}

// nodesMatter reports whether a Pod waits for a node or has been given up by its own.
func (c *collector) nodesMatter() bool {
	return slices.ContainsFunc(c.scene.Pods, func(p Read[corev1.Pod]) bool {
		return nodeSuspect(&p.Object) || pendingOn(&p.Object) != ""
	})
}

// noName are the words of a process that cannot resolve a name.
var noName = []string{"no such host", "server misbehaving", "emporary failure in name resolution", "EAI_AGAIN", "ENOTFOUND", "lookup ", "Name or service not known", "could not be resolved", "UnknownHostException"}

// readBehind reads what stands behind a webhook that refuses, and the system's own
// namespace where it may be why.
func (c *collector) readBehind(ctx context.Context) error {
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
	if c.systemMatters() && !c.scene.Complete("Pod", systemNamespace) {
		looks = append(looks, c.lookAtLists(systemNamespace, "Pod", "Deployment", "DaemonSet", "Service", "EndpointSlice", "ConfigMap", "Event")...)
	}
	if err := c.readTogether(ctx, looks...); err != nil {
		return err
	}
	c.scene.sortEvents()
	return c.readLogsIn(ctx, served)
}

// readLogsIn reads the logs of what fails in other namespaces.
func (c *collector) readLogsIn(ctx context.Context, namespaces []string) error {
	if len(namespaces) == 0 {
		return nil
	}
	there := slices.DeleteFunc(c.scene.allWorkloads(), func(f *Facts) bool { return !slices.Contains(namespaces, f.Owner.Namespace) })
	return c.readLogs(ctx, failingPods(there), maxOtherLogs)
}

// servingNamespaces are those of the Services behind parts of the API that are not
// available.
func (c *collector) servingNamespaces() (list []string) {
	for i := range c.scene.Others {
		u := &c.scene.Others[i].Object
		ns := stringAt(u, "spec", "service", "namespace")
		if u.GetKind() != "APIService" || ns == "" || c.scene.Complete("Pod", ns) || slices.Contains(list, ns) || len(list) >= maxBehind {
			continue
		}
		if _, _, bad := c.scene.whyUnavailable(u); bad && (nightcrier.Resource{Kind: namespaceKind, Name: ns}).Check() == nil {
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
func (c *collector) readElsewhere(ctx context.Context) error {
	connected := c.connectedNamespaces()
	if len(connected) == 0 {
		return nil
	}
	var looks []look
	for _, ns := range append(connected, c.home) { // policies select by the labels of both
		looks = append(looks, c.quietFetch(nightcrier.Resource{APIVersion: "v1", Kind: namespaceKind, Name: ns}))
	}
	if err := c.readTogether(ctx, looks...); err != nil {
		return err
	}
	connected = slices.DeleteFunc(connected, func(ns string) bool { return findObject(c.scene.Namespaces, "", ns) == nil })
	looks = nil
	for _, ns := range connected {
		looks = append(looks, c.lookAtLists(ns, elsewhere...)...)
	}
	if err := c.readTogether(ctx, looks...); err != nil {
		return err
	}
	for _, ns := range connected {
		c.scene.doubtNamespace(ns, elsewhere...)
	}
	c.scene.sortEvents()
	return c.readLogsIn(ctx, connected)
}

// doubtNamespace takes back that all of these kinds in a namespace were read when nothing was found there: a dump
// of some namespaces often lists the names of all.
func (s *Scene) doubtNamespace(ns string, kinds ...string) {
	if slices.Contains(s.podNamespaces(), ns) || slices.ContainsFunc(s.Services, func(svc Read[corev1.Service]) bool { return svc.Object.Namespace == ns }) {
		return
	}
	for _, kind := range kinds {
		delete(s.complete, scope{kind, ns})
	}
}

// connectedNamespaces are those, not read yet, that the settings of what fails name
// as part of a Service's name.
func (c *collector) connectedNamespaces() (list []string) {
	for _, f := range c.scene.allWorkloads() {
		maker, known := c.scene.makerOf(f.Mend())
		if f.judgeStanding() != standsDown || !known {
			continue
		}
		for _, a := range c.scene.addressesOf(maker) {
			parts := strings.Split(strings.TrimSuffix(a.host, "."), ".")
			if len(parts) < 3 || parts[2] != "svc" || slices.Contains(list, parts[1]) || c.scene.Complete("Pod", parts[1]) || len(list) >= maxBehind {
				continue
			}
			if (nightcrier.Resource{Kind: namespaceKind, Name: parts[1]}).Check() == nil {
				list = append(list, parts[1])
			}
		}
	}
	return list
}

// quietFetch reads an object that may well not be there, or be forbidden.
func (c *collector) quietFetch(res nightcrier.Resource) look {
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
func (c *collector) systemMatters() bool {
	s := c.scene
	switch {
	case slices.ContainsFunc(s.Logs, func(l LogExcerpt) bool {
		return slices.ContainsFunc(noName, func(words string) bool { return strings.Contains(l.Text, words) })
	}):
		return true
	case slices.ContainsFunc(s.Events, func(e Read[corev1.Event]) bool {
		return e.Object.Reason == "FailedCreatePodSandBox" && s.isFresh(e)
	}):
		return true
	}
	return len(s.unscheduledWorkloads())+len(s.unobservedWorkloads()) > 0
}

// maxBehind is how many namespaces of webhooks are looked into.
const maxBehind = 3

// webhookNamespaces are the namespaces of webhooks that Events or conditions name.
func (c *collector) webhookNamespaces() (list []string) {
	add := func(name string, svc *string) {
		if svc == nil || c.scene.Complete("Pod", *svc) || slices.Contains(list, *svc) || len(list) >= maxBehind || !c.isWebhookNamed(name) {
			return
		}
		if (nightcrier.Resource{Kind: "Namespace", Name: *svc}).Check() == nil {
			list = append(list, *svc)
		}
	}
	for _, w := range c.scene.ValidatingWebhooks {
		for _, h := range w.Object.Webhooks {
			if h.ClientConfig.Service != nil {
				add(h.Name, &h.ClientConfig.Service.Namespace)
			}
		}
	}
	for _, w := range c.scene.MutatingWebhooks {
		for _, h := range w.Object.Webhooks {
			if h.ClientConfig.Service != nil {
				add(h.Name, &h.ClientConfig.Service.Namespace)
			}
		}
	}
	return list
}

// isWebhookNamed reports whether an Event or a Deployment's condition speaks of the webhook.
func (c *collector) isWebhookNamed(webhook string) bool {
	quoted := `"` + webhook + `"`
	for _, e := range c.scene.Events {
		if strings.Contains(e.Object.Message, quoted) {
			return true
		}
	}
	for _, d := range c.scene.Deployments {
		for _, cond := range d.Object.Status.Conditions {
			if strings.Contains(cond.Message, quoted) {
				return true
			}
		}
	}
	return false
}
