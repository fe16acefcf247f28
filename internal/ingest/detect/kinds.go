package detect

import "nightcrier.dev/nightcrier/internal/cluster/kube/kinds"

// Kind is the kind of an object that the detector looks at.
type Kind string

// The kinds that are looked at.
const (
	Pod         Kind = "Pod"
	Node        Kind = "Node"
	Deployment  Kind = "Deployment"
	StatefulSet Kind = "StatefulSet"
	DaemonSet   Kind = "DaemonSet"
	Job         Kind = "Job"
	CronJob     Kind = "CronJob"
	Claim       Kind = "PersistentVolumeClaim"
	Autoscaler  Kind = "HorizontalPodAutoscaler"
	Event       Kind = "Event"
	APIService  Kind = "APIService"
	Namespace   Kind = "Namespace"
)

// Watched is a kind that a detector wants to see, and where the API has it.
type Watched struct {
	Kind       Kind
	APIVersion string
	// Optional: a cluster, or a credential, may well be without it.
	Optional bool
	// Namespace bounds it to one; empty means all, or that it has none.
	Namespace string
}

// apiVersion is where the API has the kind.
func (k Kind) apiVersion() string { return kinds.MustNamed(string(k)).APIVersion() }

// watched is in the order in which the kinds are best listed: what others refer
// to first, Events last.
var watched = []Watched{
	{Kind: Namespace, Optional: true},
	{Kind: Node, Optional: true},
	{Kind: CronJob, Optional: true},
	{Kind: Job},
	{Kind: Deployment},
	{Kind: StatefulSet},
	{Kind: DaemonSet},
	{Kind: Claim, Optional: true},
	{Kind: Autoscaler, Optional: true},
	{Kind: APIService, Optional: true},
	{Kind: Pod},
	{Kind: Event, Optional: true},
}

// Kinds lists what a detector wants to see, in the order that lists are best
// made in. Of kinds that have namespaces only these are looked at, each by
// itself; without any, all are, at once.
func Kinds(namespaces ...string) []Watched {
	var list []Watched
	for _, w := range watched {
		w.APIVersion = w.Kind.apiVersion()
		if len(namespaces) == 0 || kinds.MustNamed(string(w.Kind)).ClusterWide {
			list = append(list, w)
			continue
		}
		for _, w.Namespace = range namespaces {
			list = append(list, w)
		}
	}
	return list
}
