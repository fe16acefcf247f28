package detect

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

// watched is in the order in which the kinds are best listed: what others refer
// to first, Events last.
var watched = []Watched{
	{Namespace, "v1", true, ""},
	{Node, "v1", true, ""},
	{CronJob, "batch/v1", true, ""},
	{Job, "batch/v1", false, ""},
	{Deployment, "apps/v1", false, ""},
	{StatefulSet, "apps/v1", false, ""},
	{DaemonSet, "apps/v1", false, ""},
	{Claim, "v1", true, ""},
	{Autoscaler, "autoscaling/v2", true, ""},
	{APIService, "apiregistration.k8s.io/v1", true, ""},
	{Pod, "v1", false, ""},
	{Event, "v1", true, ""},
}

// Kinds lists what a detector wants to see, in the order that lists are best
// made in. Of kinds that have namespaces only these are looked at, each by
// itself; without any, all are, at once.
func Kinds(namespaces ...string) []Watched {
	var list []Watched
	for _, w := range watched {
		if len(namespaces) == 0 || w.Kind == Namespace || w.Kind == Node || w.Kind == APIService {
			list = append(list, w)
			continue
		}
		for _, w.Namespace = range namespaces {
			list = append(list, w)
		}
	}
	return list
}
