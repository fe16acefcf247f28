package webhook

import (
	"cmp"
	"net"
	"strings"

	"nightcrier.dev/nightcrier"
)

// kind is a kind of object that labels can name.
type kind struct {
	name, apiVersion string
	clusterWide      bool
	// role is the label that kube-prometheus has the object's name in, also are
	// others in use.
	role string
	also []string
}

// kinds are in the order in which labels are looked at: a workload before one of
// its Pods, and a claim before the Node that it is mounted on. The label job is not
// among them: it names what Prometheus scrapes.
var kinds = []kind{
	{name: "Deployment", apiVersion: "apps/v1", role: "deployment"},
	{name: "StatefulSet", apiVersion: "apps/v1", role: "statefulset"},
	{name: "DaemonSet", apiVersion: "apps/v1", role: "daemonset"},
	{name: "CronJob", apiVersion: "batch/v1", role: "cronjob"},
	{name: "Job", apiVersion: "batch/v1", role: "job_name"},
	{name: "HorizontalPodAutoscaler", apiVersion: "autoscaling/v2", role: "horizontalpodautoscaler", also: []string{"hpa"}},
	{name: "PodDisruptionBudget", apiVersion: "policy/v1", role: "poddisruptionbudget"},
	{name: "ResourceQuota", apiVersion: "v1", role: "resourcequota"},
	{name: "PersistentVolumeClaim", apiVersion: "v1", role: "persistentvolumeclaim"},
	{name: "PersistentVolume", apiVersion: "v1", clusterWide: true, role: "persistentvolume"},
	{name: "ReplicaSet", apiVersion: "apps/v1", role: "replicaset"},
	{name: "Ingress", apiVersion: "networking.k8s.io/v1", role: "ingress"},
	{name: "Pod", apiVersion: "v1", role: "pod", also: []string{"pod_name"}},
	{name: "Node", apiVersion: "v1", clusterWide: true, role: "node", also: []string{"nodename", "kubernetes_node"}},
	{name: "Service", apiVersion: "v1", role: "service"},
}

func kindOf(name string) (kind, bool) {
	for _, k := range kinds {
		if strings.EqualFold(k.name, name) {
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

// subject finds out what an alert is about: by its name where we know it, else by
// its labels, else it is about itself.
func (c Cluster) subject(g group, a alert) subject {
	v := view{labels: a.Labels, custom: c.AlertLabels}
	for _, e := range exporters {
		if strings.Contains(a.Labels["job"], e) {
			v.exporter = e
		}
	}
	name := a.Labels["alertname"]
	rule := ruleOf(name)
	s := subject{faultType: cmp.Or(rule.faultType, word(name), nightcrier.AlertKind)}
	if reason := a.Labels["reason"]; rule.byReason && !ordinary[reason] && word(reason) == reason {
		s.faultType = reason
	}
	for _, find := range []func() (nightcrier.Resource, bool){
		func() (nightcrier.Resource, bool) { return v.known(rule.kind) },
		v.workload, v.anything, v.creator, v.scrapedNode,
	} {
		if res, ok := find(); ok {
			s.resource = res
			if res.Kind != "Node" && !v.exported(v.role("container")) {
				s.container = v.role("container")
			}
			return s
		}
	}
	s.resource = v.alertItself(name, g.key)
	return s
}

// known looks for the object that an alert of this name is always about.
func (v view) known(name string) (nightcrier.Resource, bool) {
	k, ok := kindOf(name)
	if !ok {
		return nightcrier.Resource{}, false
	}
	return v.object(k, v.nameOf(k))
}

// anything looks for any object that the labels name.
func (v view) anything() (nightcrier.Resource, bool) {
	for _, k := range kinds {
		name := v.nameOf(k)
		switch {
		case (k.name == "Pod" || k.name == "Service") && v.exported(name):
			continue
		case k.name == "Service" && v.labels["endpoint"] != "" && v.custom[k.role] == "":
			continue // what was scraped, not what is broken
		}
		if res, ok := v.object(k, name); ok {
			return res, true
		}
	}
	return nightcrier.Resource{}, false
}

// workload reads the pair of labels that recording rules leave of a Pod's owner.
func (v view) workload() (nightcrier.Resource, bool) {
	k, ok := kindOf(v.labels["workload_type"])
	if !ok {
		return nightcrier.Resource{}, false
	}
	return v.object(k, v.labels["workload"])
}

// creator reads the labels that say who made a Pod.
func (v view) creator() (nightcrier.Resource, bool) {
	for _, prefix := range []string{"created_by_", "owner_"} {
		if k, ok := kindOf(v.labels[prefix+"kind"]); ok {
			return v.object(k, v.labels[prefix+"name"])
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
	return v.object(k, host)
}

func (v view) object(k kind, name string) (nightcrier.Resource, bool) {
	res := nightcrier.Resource{APIVersion: k.apiVersion, Kind: k.name, Name: name}
	if !k.clusterWide {
		res.Namespace = v.role("namespace")
	}
	return res, name != "" && (k.clusterWide || res.Namespace != "")
}

func (v view) nameOf(k kind) string {
	if name := v.role(k.role); name != "" {
		return name
	}
	for _, label := range k.also {
		if name := v.labels[label]; name != "" {
			return name
		}
	}
	return ""
}

// role is the value of the label that has a role: the configured one; else that
// which Prometheus set aside because its own stands in the way; else the usual one.
func (v view) role(role string) string {
	if custom := v.custom[role]; custom != "" {
		return v.labels[custom]
	}
	return cmp.Or(v.labels["exported_"+role], v.labels[role])
}

// exported reports whether a name is the exporter's own.
func (v view) exported(name string) bool {
	return v.exporter != "" && strings.Contains(name, v.exporter)
}

// alertItself is what stands for an alert without an object: one for its name and
// the labels that Alertmanager groups by.
func (v view) alertItself(name, groupKey string) nightcrier.Resource {
	res := nightcrier.Resource{Kind: nightcrier.AlertKind, Namespace: v.role("namespace"), Name: cmp.Or(word(name), "unnamed")}
	if groupKey != "" || res.Name != name {
		res.Name += "-" + labelsHash(map[string]string{"alertname": name, "group": groupKey})[:8]
	}
	return res
}
