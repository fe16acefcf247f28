// Package kinds is the table of the kinds of Kubernetes objects that we know: how the
// API calls them and where it has them. Any other kind is discovered, by who needs it.
package kinds

import (
	"iter"
	"net/url"
	"slices"
	"strings"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/text"
)

// Kind is a kind of object, and where the API has it.
type Kind struct {
	Group, Version, Name, Plural string
	// Short are the abbreviations that kubectl takes, separated by blanks.
	Short       string
	ClusterWide bool
	Use         Use
}

// Use says who has a kind, and what for.
type Use int

const (
	// Read kinds are in every cluster, and investigations read them: without discovery, and
	// the least credential may.
	Read Use = iota
	// Served kinds are in every cluster; people and snapshots read them.
	Served
	// Optional kinds are in some clusters.
	Optional
)

// table begins with the core group; where two kinds have a name or a plural in common, the
// one that is meant comes first.
var table = []Kind{
	{Version: "v1", Name: "Pod", Plural: "pods", Short: "po"},
	{Version: "v1", Name: "Service", Plural: "services", Short: "svc"},
	{Version: "v1", Name: "Event", Plural: "events", Short: "ev"},
	{Version: "v1", Name: "Node", Plural: "nodes", Short: "no", ClusterWide: true},
	{Version: "v1", Name: "Namespace", Plural: "namespaces", Short: "ns", ClusterWide: true},
	{Version: "v1", Name: "ConfigMap", Plural: "configmaps", Short: "cm"},
	{Version: "v1", Name: "Secret", Plural: "secrets"},
	{Version: "v1", Name: "ServiceAccount", Plural: "serviceaccounts", Short: "sa"},
	{Version: "v1", Name: "ResourceQuota", Plural: "resourcequotas", Short: "quota"},
	{Version: "v1", Name: "LimitRange", Plural: "limitranges", Short: "limits"},
	{Version: "v1", Name: "PersistentVolumeClaim", Plural: "persistentvolumeclaims", Short: "pvc"},
	{Version: "v1", Name: "PersistentVolume", Plural: "persistentvolumes", Short: "pv", ClusterWide: true},
	{Version: "v1", Name: "ReplicationController", Plural: "replicationcontrollers", Short: "rc"},
	{Version: "v1", Name: "Endpoints", Plural: "endpoints", Short: "ep"},
	{Version: "v1", Name: "PodTemplate", Plural: "podtemplates", Use: Served},
	{Version: "v1", Name: "ComponentStatus", Plural: "componentstatuses", Short: "cs", ClusterWide: true, Use: Optional},
	{Group: "apps", Version: "v1", Name: "Deployment", Plural: "deployments", Short: "deploy"},
	{Group: "apps", Version: "v1", Name: "ReplicaSet", Plural: "replicasets", Short: "rs"},
	{Group: "apps", Version: "v1", Name: "StatefulSet", Plural: "statefulsets", Short: "sts"},
	{Group: "apps", Version: "v1", Name: "DaemonSet", Plural: "daemonsets", Short: "ds"},
	{Group: "apps", Version: "v1", Name: "ControllerRevision", Plural: "controllerrevisions"},
	{Group: "batch", Version: "v1", Name: "Job", Plural: "jobs"},
	{Group: "batch", Version: "v1", Name: "CronJob", Plural: "cronjobs", Short: "cj"},
	{Group: "autoscaling", Version: "v2", Name: "HorizontalPodAutoscaler", Plural: "horizontalpodautoscalers", Short: "hpa"},
	{Group: "policy", Version: "v1", Name: "PodDisruptionBudget", Plural: "poddisruptionbudgets", Short: "pdb"},
	{Group: "networking.k8s.io", Version: "v1", Name: "Ingress", Plural: "ingresses", Short: "ing"},
	{Group: "networking.k8s.io", Version: "v1", Name: "IngressClass", Plural: "ingressclasses", ClusterWide: true},
	{Group: "networking.k8s.io", Version: "v1", Name: "NetworkPolicy", Plural: "networkpolicies", Short: "netpol"},
	{Group: "discovery.k8s.io", Version: "v1", Name: "EndpointSlice", Plural: "endpointslices"},
	{Group: "storage.k8s.io", Version: "v1", Name: "StorageClass", Plural: "storageclasses", Short: "sc", ClusterWide: true},
	{Group: "storage.k8s.io", Version: "v1", Name: "VolumeAttachment", Plural: "volumeattachments", ClusterWide: true},
	{Group: "storage.k8s.io", Version: "v1", Name: "CSIDriver", Plural: "csidrivers", ClusterWide: true, Use: Served},
	{Group: "storage.k8s.io", Version: "v1", Name: "CSINode", Plural: "csinodes", ClusterWide: true, Use: Served},
	{Group: "scheduling.k8s.io", Version: "v1", Name: "PriorityClass", Plural: "priorityclasses", Short: "pc", ClusterWide: true, Use: Served},
	{Group: "node.k8s.io", Version: "v1", Name: "RuntimeClass", Plural: "runtimeclasses", ClusterWide: true, Use: Served},
	{Group: "coordination.k8s.io", Version: "v1", Name: "Lease", Plural: "leases", Use: Served},
	{Group: "admissionregistration.k8s.io", Version: "v1", Name: "ValidatingWebhookConfiguration", Plural: "validatingwebhookconfigurations", ClusterWide: true},
	{Group: "admissionregistration.k8s.io", Version: "v1", Name: "MutatingWebhookConfiguration", Plural: "mutatingwebhookconfigurations", ClusterWide: true},
	{Group: "apiregistration.k8s.io", Version: "v1", Name: "APIService", Plural: "apiservices", ClusterWide: true},
	{Group: "apiextensions.k8s.io", Version: "v1", Name: "CustomResourceDefinition", Plural: "customresourcedefinitions", Short: "crd crds", ClusterWide: true, Use: Served},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Name: "Role", Plural: "roles", Use: Served},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Name: "RoleBinding", Plural: "rolebindings", Use: Served},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Name: "ClusterRole", Plural: "clusterroles", ClusterWide: true, Use: Served},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Name: "ClusterRoleBinding", Plural: "clusterrolebindings", ClusterWide: true, Use: Served},
	{Group: "certificates.k8s.io", Version: "v1", Name: "CertificateSigningRequest", Plural: "certificatesigningrequests", Short: "csr", ClusterWide: true, Use: Served},
	{Group: "metrics.k8s.io", Version: "v1beta1", Name: "PodMetrics", Plural: "pods", Use: Optional},
	{Group: "metrics.k8s.io", Version: "v1beta1", Name: "NodeMetrics", Plural: "nodes", ClusterWide: true, Use: Optional},
	{Group: "argoproj.io", Version: "v1alpha1", Name: "Application", Plural: "applications", Short: "app", Use: Optional},
	{Group: "argoproj.io", Version: "v1alpha1", Name: "Rollout", Plural: "rollouts", Use: Optional},
	{Group: "kustomize.toolkit.fluxcd.io", Version: "v1", Name: "Kustomization", Plural: "kustomizations", Short: "ks", Use: Optional},
	{Group: "helm.toolkit.fluxcd.io", Version: "v2", Name: "HelmRelease", Plural: "helmreleases", Short: "hr", Use: Optional},
	{Group: "cert-manager.io", Version: "v1", Name: "Certificate", Plural: "certificates", Short: "cert", Use: Optional},
}

// All yields the kinds that we know, always in the same order.
func All() iter.Seq[Kind] { return slices.Values(table) }

// byName is what Named looks in.
var byName = func() map[string]Kind {
	m := make(map[string]Kind, len(table))
	for _, k := range slices.Backward(table) { // the first of a name is meant
		m[k.Name] = k
	}
	return m
}()

// Named returns the kind of that name, such as "Deployment".
func Named(name string) (Kind, bool) {
	k, ok := byName[name]
	return k, ok
}

// MustNamed is Named for a name that stands in our source.
func MustNamed(name string) Kind {
	k, ok := byName[name]
	if !ok {
		panic("kinds: the table has no " + name)
	}
	return k
}

// Meant returns the kind of Use Read that a person means by word: a kind, its plural or
// its short name in any case, or one of them with its group as kubectl prints it, such as
// deployment.apps. Of a word that is none of them, the Kind has the word for its name.
func Meant(word string) (k Kind, known bool) {
	name, group, _ := strings.Cut(strings.ToLower(word), ".")
	for _, k := range table {
		if k.Use != Read || name != strings.ToLower(k.Name) && name != k.Plural && !slices.Contains(k.Shorts(), name) {
			continue
		}
		if group == "" || group == k.Group || group == k.Version+"."+k.Group {
			return k, true
		}
	}
	return Kind{Name: word}, false
}

// Nearest returns what a mistyped kind may mean, in the words of a command such as
// deployment; "" when it is like none.
func Nearest(word string) string {
	kinds := map[string]string{}
	var words []string
	for _, k := range table {
		if k.Use == Read {
			singular := strings.ToLower(k.Name)
			kinds[singular], kinds[k.Plural] = singular, singular
			words = append(words, singular, k.Plural)
		}
	}
	slices.Sort(words)
	return kinds[text.FindNearest(strings.ToLower(word), slices.Compact(words))]
}

// Shorts are the abbreviations, each for itself.
func (k Kind) Shorts() []string { return strings.Fields(k.Short) }

// APIVersion is "apps/v1", or "v1" in the core group.
func (k Kind) APIVersion() string {
	if k.Group == "" {
		return k.Version
	}
	return k.Group + "/" + k.Version
}

// Resource is "deployments.apps", as permissions name it; the core group has no suffix.
func (k Kind) Resource() string {
	if k.Group == "" {
		return k.Plural
	}
	return k.Plural + "." + k.Group
}

// Path is the path of the collection in namespace ns, "" for all namespaces. What stands
// in a Kind may come from a cluster, and is escaped.
func (k Kind) Path(ns string) string {
	p := "/apis/" + url.PathEscape(k.Group) + "/" + url.PathEscape(k.Version)
	if k.Group == "" {
		p = "/api/" + url.PathEscape(k.Version)
	}
	if ns != "" && !k.ClusterWide {
		p += "/namespaces/" + url.PathEscape(ns)
	}
	return p + "/" + url.PathEscape(k.Plural)
}

// Cluster is the kind of a target that is all of a cluster; it needs no name.
const Cluster = "Cluster"

// IsObject reports whether res is one object, not a namespace or a cluster with all
// that is in it.
func IsObject(res nightcrier.Resource) bool {
	return res.Kind != "Namespace" && res.Kind != Cluster
}

// Complete writes an object that was named as kubectl takes it in full.
func Complete(res nightcrier.Resource) (nightcrier.Resource, error) {
	kind, known := Meant(res.Kind)
	res.Kind = kind.Name
	if kind.ClusterWide || !IsObject(res) {
		res.Namespace = ""
	}
	if res.APIVersion == "" && known {
		res.APIVersion = kind.APIVersion()
	}
	return res, res.Check()
}
