package kube

import (
	"cmp"
	"slices"

	"nightcrier.dev/nightcrier/internal/cluster/kube/kinds"
)

// Resource is a kind of thing that the API serves, as permissions name it.
type Resource struct {
	Group string
	// Name is the plural, with its subresource: "pods/log".
	Name        string
	ClusterWide bool
}

// besides are what is read beyond the kinds of kinds.Read: logs, usage, and what
// kubectl describe looks up.
var besides = []Resource{
	{"", "pods/log", false},
	{"events.k8s.io", "events", false},
	{"coordination.k8s.io", "leases", false},
	{"metrics.k8s.io", "pods", false},
	{"metrics.k8s.io", "nodes", true},
	{"scheduling.k8s.io", "priorityclasses", true},
}

// Reads lists everything that investigations, detection and tools read, by group
// and name. It is the one list that the least credential is made from and that
// preflight asks about. Secrets are not on it: RBAC cannot grant their metadata
// alone, and nothing here needs their data.
func Reads() []Resource {
	list := slices.Clone(besides)
	for k := range kinds.All() {
		if k.Use == kinds.Read && k.Name != "Secret" {
			list = append(list, Resource{k.Group, k.Plural, k.ClusterWide})
		}
	}
	slices.SortFunc(list, func(a, b Resource) int { return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Name, b.Name)) })
	return list
}
