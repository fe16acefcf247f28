package snapshot

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"nightcrier.dev/nightcrier/internal/cluster/kube/kinds"
)

// inSystem are the kinds of which also the namespaces that the cluster works by are
// recorded; of the others only those that were asked for.
var inSystem = []string{"Pod", "Service", "Event", "Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "NetworkPolicy", "EndpointSlice", "Application", "Kustomization", "HelmRelease"}

// unrecorded are the kinds that recordings are without: nothing that diagnoses asks for them.
var unrecorded = []string{"PodTemplate", "ComponentStatus", "Lease", "CustomResourceDefinition", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding", "CertificateSigningRequest"}

// kind is a kind of object as the snapshot has it.
type kind struct {
	kinds.Kind
	system bool // as inSystem says
	skip   bool // as unrecorded says
}

// isOptional kinds are served only when the snapshot has objects of them.
func (k kind) isOptional() bool { return k.Use == kinds.Optional }

// knownKinds yields the kinds that every snapshot has a place for. Any other is served as its
// objects tell.
func knownKinds(yield func(kind) bool) {
	for k := range kinds.All() {
		if !yield(kind{k, slices.Contains(inSystem, k.Name), slices.Contains(unrecorded, k.Name)}) {
			return
		}
	}
}

// guessKind is how a kind that nobody told of is most probably served.
func guessKind(gv schema.GroupVersion, name string, clusterWide bool) kind {
	plural, _ := meta.UnsafeGuessKindToResource(gv.WithKind(name))
	return kind{Kind: kinds.Kind{Group: gv.Group, Version: gv.Version, Name: name, Plural: plural.Resource, ClusterWide: clusterWide, Use: kinds.Optional}}
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

func (c *collection) sortObjects() {
	slices.SortFunc(c.objects, func(a, b *object) int {
		return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name))
	})
}
