package webhook

import (
	"cmp"
	"net"
	"strings"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/cluster/kube/kinds"
)

// kind is a kind of object that labels can name.
type kind struct {
	kinds.Kind
	// role is the label that kube-prometheus has the object's name in, also are
	// others in use.
	role string
	also []string
}

// named are in the order in which labels are looked at: a workload before one of
// its Pods, and a claim before the Node that it is mounted on. The label job is not
// among them: it names what Prometheus scrapes.
var named = []kind{
	{Kind: kinds.MustNamed("Deployment"), role: "deployment"},
	{Kind: kinds.MustNamed("StatefulSet"), role: "statefulset"},
	{Kind: kinds.MustNamed("DaemonSet"), role: "daemonset"},
	{Kind: kinds.MustNamed("CronJob"), role: "cronjob"},
	{Kind: kinds.MustNamed("Job"), role: "job_name"},
	{Kind: kinds.MustNamed("HorizontalPodAutoscaler"), role: "horizontalpodautoscaler", also: []string{"hpa"}},
	{Kind: kinds.MustNamed("PodDisruptionBudget"), role: "poddisruptionbudget"},
	{Kind: kinds.MustNamed("ResourceQuota"), role: "resourcequota"},
	{Kind: kinds.MustNamed("PersistentVolumeClaim"), role: "persistentvolumeclaim"},
	{Kind: kinds.MustNamed("PersistentVolume"), role: "persistentvolume"},
	{Kind: kinds.MustNamed("ReplicaSet"), role: "replicaset"},
	{Kind: kinds.MustNamed("Ingress"), role: "ingress"},
	{Kind: kinds.MustNamed("Pod"), role: "pod", also: []string{"pod_name"}},
	{Kind: kinds.MustNamed("Node"), role: "node", also: []string{"nodename", "kubernetes_node"}},
	{Kind: kinds.MustNamed("Service"), role: "service"},
}

func kindOf(name string) (kind, bool) {
	for _, k := range named {
		if strings.EqualFold(k.Name, name) {
			return k, true
		}
	}
	return kind{}, false
}

// subject is what an alert is about.
type subject struct {
	resource  nightcrier.Resource
	container string
	faultType string
}

// exporters are programs that report on others. The labels pod, container and
// service of their metrics are often their own.
var exporters = []string{"kube-state-metrics", "node-exporter", "node_exporter"}

// view is an alert's labels as one cluster has them.
type view struct {
	labels, custom map[string]string
	// exporter is the program that the alert's metric comes from, if it is one.
	exporter string
}

// subjectOf finds out what an alert is about: by its name where we know it, else by
// its labels, else it is about itself.
func (c Cluster) subjectOf(g group, a alert) subject {
	v := view{labels: a.Labels, custom: c.AlertLabels}
	for _, e := range exporters {
		if strings.Contains(a.Labels["job"], e) {
			v.exporter = e
		}
	}
	name := a.Labels["alertname"]
	rule := ruleOf(name)
	s := subject{faultType: cmp.Or(rule.faultType, makeWord(name), nightcrier.AlertKind)}
	if reason := a.Labels["reason"]; rule.byReason && !ordinary[reason] && makeWord(reason) == reason {
		s.faultType = reason
	}
	for _, find := range []func() (nightcrier.Resource, bool){
		func() (nightcrier.Resource, bool) { return v.knownObject(rule.kind) },
		v.workloadObject, v.anyObject, v.creatorObject, v.scrapedNode,
	} {
		if res, ok := find(); ok {
			s.resource = res
			if res.Kind != "Node" && !v.isOfExporter(v.roleValue("container")) {
				s.container = v.roleValue("container")
			}
			return s
		}
	}
	s.resource = v.alertItself(name, g.key)
	return s
}

// knownObject looks for the object that an alert of this name is always about.
func (v view) knownObject(name string) (nightcrier.Resource, bool) {
	k, ok := kindOf(name)
	if !ok {
		return nightcrier.Resource{}, false
	}
	return v.objectNamed(k, v.nameOf(k))
}

// anyObject looks for any object that the labels name.
func (v view) anyObject() (nightcrier.Resource, bool) {
	for _, k := range named {
		name := v.nameOf(k)
		switch {
		case (k.Name == "Pod" || k.Name == "Service") && v.isOfExporter(name):
			continue
		case k.Name == "Service" && v.labels["endpoint"] != "" && v.custom[k.role] == "":
			continue // what was scraped, not what is broken
		}
		if res, ok := v.objectNamed(k, name); ok {
			return res, true
		}
	}
	return nightcrier.Resource{}, false
}

// workloadObject reads the pair of labels that recording rules leave of a Pod's owner.
func (v view) workloadObject() (nightcrier.Resource, bool) {
	k, ok := kindOf(v.labels["workload_type"])
	if !ok {
		return nightcrier.Resource{}, false
	}
	return v.objectNamed(k, v.labels["workload"])
}

// creatorObject reads the labels that say who made a Pod.
func (v view) creatorObject() (nightcrier.Resource, bool) {
	for _, prefix := range []string{"created_by_", "owner_"} {
		if k, ok := kindOf(v.labels[prefix+"kind"]); ok {
			return v.objectNamed(k, v.labels[prefix+"name"])
		}
	}
	return nightcrier.Resource{}, false
}

// scrapedNode is the Node that an exporter of Nodes runs on, by its address when
// nothing else says its name.
func (v view) scrapedNode() (nightcrier.Resource, bool) {
	if !strings.HasPrefix(v.exporter, "node") {
		return nightcrier.Resource{}, false
	}
	host, _, err := net.SplitHostPort(v.labels["instance"])
	if err != nil {
		host = v.labels["instance"]
	}
	k, _ := kindOf("Node")
	return v.objectNamed(k, host)
}

func (v view) objectNamed(k kind, name string) (nightcrier.Resource, bool) {
	res := nightcrier.Resource{APIVersion: k.APIVersion(), Kind: k.Name, Name: name}
	if !k.ClusterWide {
		res.Namespace = v.roleValue("namespace")
	}
	return res, name != "" && (k.ClusterWide || res.Namespace != "")
}

func (v view) nameOf(k kind) string {
	if name := v.roleValue(k.role); name != "" {
		return name
	}
	for _, label := range k.also {
		if name := v.labels[label]; name != "" {
			return name
		}
	}
	return ""
}

// roleValue is the value of the label that has a role: the configured one; else that
// which Prometheus set aside because its own stands in the way; else the usual one.
func (v view) roleValue(role string) string {
	if custom := v.custom[role]; custom != "" {
		return v.labels[custom]
	}
	return cmp.Or(v.labels["exported_"+role], v.labels[role])
}

// isOfExporter reports whether a name is the exporter's own.
func (v view) isOfExporter(name string) bool {
	return v.exporter != "" && strings.Contains(name, v.exporter)
}

// alertItself is what stands for an alert without an object: one for its name and
// the labels that Alertmanager groups by.
func (v view) alertItself(name, groupKey string) nightcrier.Resource {
	res := nightcrier.Resource{Kind: nightcrier.AlertKind, Namespace: v.roleValue("namespace"), Name: cmp.Or(makeWord(name), "unnamed")}
	if groupKey != "" || res.Name != name {
		res.Name += "-" + labelsHash(map[string]string{"alertname": name, "group": groupKey})[:8]
	}
	return res
}
