package snapshot

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// scope is where a kind's objects are, which also decides when they are recorded.
type scope int

const (
	namespaced scope = iota // recorded in the namespaces that were asked for
	system                  // namespaced, recorded also in those the cluster works by
	cluster                 // cluster-wide
)

// kind is a kind of object as the API serves it.
type kind struct {
	group, version, name, plural string
	short                        string // abbreviations, separated by blanks
	scope                        scope
	// skip keeps a kind out of recordings: nothing that diagnoses asks for it.
	skip bool
	// optional kinds are served only when the snapshot has objects of them.
	optional bool
}

// known are the kinds that every cluster has, and those operators' ones that say
// what changed. Any other is served as its objects tell.
var known = []kind{
	{version: "v1", name: "Pod", plural: "pods", short: "po", scope: system},
	{version: "v1", name: "Service", plural: "services", short: "svc", scope: system},
	{version: "v1", name: "Event", plural: "events", short: "ev", scope: system},
	{version: "v1", name: "Node", plural: "nodes", short: "no", scope: cluster},
	{version: "v1", name: "Namespace", plural: "namespaces", short: "ns", scope: cluster},
	{version: "v1", name: "ConfigMap", plural: "configmaps", short: "cm"},
	{version: "v1", name: "Secret", plural: "secrets"},
	{version: "v1", name: "ServiceAccount", plural: "serviceaccounts", short: "sa"},
	{version: "v1", name: "ResourceQuota", plural: "resourcequotas", short: "quota"},
	{version: "v1", name: "LimitRange", plural: "limitranges", short: "limits"},
	{version: "v1", name: "PersistentVolumeClaim", plural: "persistentvolumeclaims", short: "pvc"},
	{version: "v1", name: "PersistentVolume", plural: "persistentvolumes", short: "pv", scope: cluster},
	{version: "v1", name: "ReplicationController", plural: "replicationcontrollers", short: "rc"},
	{version: "v1", name: "Endpoints", plural: "endpoints", short: "ep"},
	{version: "v1", name: "PodTemplate", plural: "podtemplates", skip: true},
	{group: "apps", version: "v1", name: "Deployment", plural: "deployments", short: "deploy", scope: system},
	{group: "apps", version: "v1", name: "ReplicaSet", plural: "replicasets", short: "rs", scope: system},
	{group: "apps", version: "v1", name: "StatefulSet", plural: "statefulsets", short: "sts", scope: system},
	{group: "apps", version: "v1", name: "DaemonSet", plural: "daemonsets", short: "ds", scope: system},
	{group: "apps", version: "v1", name: "ControllerRevision", plural: "controllerrevisions"},
	{group: "batch", version: "v1", name: "Job", plural: "jobs"},
	{group: "batch", version: "v1", name: "CronJob", plural: "cronjobs", short: "cj"},
	{group: "autoscaling", version: "v2", name: "HorizontalPodAutoscaler", plural: "horizontalpodautoscalers", short: "hpa"},
	{group: "policy", version: "v1", name: "PodDisruptionBudget", plural: "poddisruptionbudgets", short: "pdb"},
	{group: "networking.k8s.io", version: "v1", name: "Ingress", plural: "ingresses", short: "ing"},
	{group: "networking.k8s.io", version: "v1", name: "IngressClass", plural: "ingressclasses", scope: cluster},
	{group: "networking.k8s.io", version: "v1", name: "NetworkPolicy", plural: "networkpolicies", short: "netpol", scope: system},
	{group: "discovery.k8s.io", version: "v1", name: "EndpointSlice", plural: "endpointslices", scope: system},
	{group: "storage.k8s.io", version: "v1", name: "StorageClass", plural: "storageclasses", short: "sc", scope: cluster},
	{group: "storage.k8s.io", version: "v1", name: "VolumeAttachment", plural: "volumeattachments", scope: cluster},
	{group: "storage.k8s.io", version: "v1", name: "CSIDriver", plural: "csidrivers", scope: cluster},
	{group: "storage.k8s.io", version: "v1", name: "CSINode", plural: "csinodes", scope: cluster},
	{group: "scheduling.k8s.io", version: "v1", name: "PriorityClass", plural: "priorityclasses", short: "pc", scope: cluster},
	{group: "node.k8s.io", version: "v1", name: "RuntimeClass", plural: "runtimeclasses", scope: cluster},
	{group: "coordination.k8s.io", version: "v1", name: "Lease", plural: "leases", skip: true},
	{group: "admissionregistration.k8s.io", version: "v1", name: "ValidatingWebhookConfiguration", plural: "validatingwebhookconfigurations", scope: cluster},
	{group: "admissionregistration.k8s.io", version: "v1", name: "MutatingWebhookConfiguration", plural: "mutatingwebhookconfigurations", scope: cluster},
	{group: "apiregistration.k8s.io", version: "v1", name: "APIService", plural: "apiservices", scope: cluster},
	{group: "apiextensions.k8s.io", version: "v1", name: "CustomResourceDefinition", plural: "customresourcedefinitions", short: "crd crds", scope: cluster, skip: true},
	{group: "rbac.authorization.k8s.io", version: "v1", name: "Role", plural: "roles", skip: true},
	{group: "rbac.authorization.k8s.io", version: "v1", name: "RoleBinding", plural: "rolebindings", skip: true},
	{group: "rbac.authorization.k8s.io", version: "v1", name: "ClusterRole", plural: "clusterroles", scope: cluster, skip: true},
	{group: "rbac.authorization.k8s.io", version: "v1", name: "ClusterRoleBinding", plural: "clusterrolebindings", scope: cluster, skip: true},
	{group: "certificates.k8s.io", version: "v1", name: "CertificateSigningRequest", plural: "certificatesigningrequests", short: "csr", scope: cluster, skip: true},
	{group: "metrics.k8s.io", version: "v1beta1", name: "PodMetrics", plural: "pods", optional: true},
	{group: "metrics.k8s.io", version: "v1beta1", name: "NodeMetrics", plural: "nodes", scope: cluster, optional: true},
	{group: "argoproj.io", version: "v1alpha1", name: "Application", plural: "applications", short: "app", scope: system, optional: true},
	{group: "argoproj.io", version: "v1alpha1", name: "Rollout", plural: "rollouts", optional: true},
	{group: "kustomize.toolkit.fluxcd.io", version: "v1", name: "Kustomization", plural: "kustomizations", short: "ks", scope: system, optional: true},
	{group: "helm.toolkit.fluxcd.io", version: "v2", name: "HelmRelease", plural: "helmreleases", short: "hr", scope: system, optional: true},
	{group: "cert-manager.io", version: "v1", name: "Certificate", plural: "certificates", short: "cert", optional: true},
}

// resource is "deployments.apps", as permissions name it.
func (k kind) resource() string {
	if k.group == "" {
		return k.plural
	}
	return k.plural + "." + k.group
}

func (k kind) apiVersion() string {
	return schema.GroupVersion{Group: k.group, Version: k.version}.String()
}

// path is the path of the collection in namespace ns, "" for all of them.
func (k kind) path(ns string) string {
	p := "/apis/" + k.apiVersion()
	if k.group == "" {
		p = "/api/" + k.version
	}
	if ns != "" {
		p += "/namespaces/" + ns
	}
	return p + "/" + k.plural
}

func (k kind) shorts() []string { return strings.Fields(k.short) }

// kindOf is the known kind of that group and name.
func kindOf(group, name string) (kind, bool) {
	for _, k := range known {
		if k.group == group && k.name == name {
			return k, true
		}
	}
	return kind{}, false
}

// guessKind is how a kind that nobody told of is most probably served.
func guessKind(gv schema.GroupVersion, name string, sc scope) kind {
	plural, _ := meta.UnsafeGuessKindToResource(gv.WithKind(name))
	return kind{group: gv.Group, version: gv.Version, name: name, plural: plural.Resource, scope: sc, optional: true}
}

// collection holds the objects of one kind.
type collection struct {
	kind
	objects []*object // by namespace and name
	byName  map[string]*object
	// seen is set when the snapshot had a list of the kind, though it be empty.
	seen bool
}

func objectKey(ns, name string) string { return ns + "/" + name }

func (c *collection) sort() {
	slices.SortFunc(c.objects, func(a, b *object) int {
		return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name))
	})
}
