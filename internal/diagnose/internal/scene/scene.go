// Package scene holds what one diagnosis has read, and answers questions about it.
//
// A Scene is the objects, Events and logs, each with where it was read. Facts are the part
// of it that is about one workload or one node. What a rule, or whoever reads or reports,
// wants to know of them is a question here: which Pods are behind a Service, what stands
// above a Pod, which Events are about an object, how a workload stands, what needs what.
//
// Here is also what a rule answers with: a Finding, what it saw, the command that would
// refute it and the steps that mend it. Nothing here reads a cluster, and no cause is known.
package scene

import (
	"encoding/json"
	"iter"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/cluster/changes"
)

// Scene is everything that was read in one diagnosis: the namespace that the
// trouble is in, and the parts of the cluster that it depends on. Objects of
// several namespaces may be in it, so that a rule which looks for something by
// name compares the namespace too.
type Scene struct {
	Now time.Time
	// Until is when the rules must be done, by the machine's clock; zero is never.
	Until time.Time
	Late  bool

	Pods         []Read[corev1.Pod]
	Deployments  []Read[appsv1.Deployment]
	ReplicaSets  []Read[appsv1.ReplicaSet]
	StatefulSets []Read[appsv1.StatefulSet]
	DaemonSets   []Read[appsv1.DaemonSet]
	Jobs         []Read[batchv1.Job]
	CronJobs     []Read[batchv1.CronJob]

	Services        []Read[corev1.Service]
	EndpointSlices  []Read[discoveryv1.EndpointSlice]
	Ingresses       []Read[networkingv1.Ingress]
	IngressClasses  []Read[networkingv1.IngressClass]
	NetworkPolicies []Read[networkingv1.NetworkPolicy]

	ConfigMaps      []Read[corev1.ConfigMap]
	Secrets         []Read[corev1.Secret] // names and keys; values are never read
	ServiceAccounts []Read[corev1.ServiceAccount]

	Claims         []Read[corev1.PersistentVolumeClaim]
	Volumes        []Read[corev1.PersistentVolume]
	StorageClasses []Read[storagev1.StorageClass]
	Attachments    []Read[storagev1.VolumeAttachment]

	Quotas      []Read[corev1.ResourceQuota]
	LimitRanges []Read[corev1.LimitRange]
	Autoscalers []Read[autoscalingv2.HorizontalPodAutoscaler]
	Budgets     []Read[policyv1.PodDisruptionBudget]

	Nodes              []Read[corev1.Node]
	Namespaces         []Read[corev1.Namespace]
	ValidatingWebhooks []Read[admissionv1.ValidatingWebhookConfiguration]
	MutatingWebhooks   []Read[admissionv1.MutatingWebhookConfiguration]

	Releases []Read[changes.Release] // of Helm

	// Others are objects of any other kind: APIServices, operators' objects.
	Others []Read[unstructured.Unstructured]

	// Measured is what sources said of containers.
	Measured []Measured

	// Events are about any of these, newest first.
	Events []Read[corev1.Event]
	Logs   []LogExcerpt

	// concerned are the workloads that somebody asks about.
	concerned map[nightcrier.Object]bool
	// complete are the kinds of which all objects were read, by namespace.
	complete map[KindIn]bool
	listed   map[KindIn]bool // read, if not to the end
	// above is what stands above ReplicaSets and Jobs that Pods name as their owner.
	above map[nightcrier.Resource]nightcrier.Object
	// hosts are those that settings name, by the text of the setting.
	hosts map[string]hosts
	// links, clients and complaints are kept until an object is added: what objects need by
	// what they say, the addresses of all workloads, and the grave lines of each log.
	links      Graph
	clients    []Client
	complaints map[string][]string
}

// InTime reports whether there is time for another rule. What a hostile or a huge
// namespace costs is bounded by it.
func (s *Scene) InTime() bool {
	if !s.Until.IsZero() && !time.Now().Before(s.Until) {
		s.Late = true
	}
	return !s.Late
}

// Concern notes that somebody asks about a workload, or about what leads to it.
func (s *Scene) Concern(o nightcrier.Object) {
	if s.concerned == nil {
		s.concerned = map[nightcrier.Object]bool{}
	}
	s.concerned[o] = true
}

// IsConcern reports whether somebody asks about a workload.
func (s *Scene) IsConcern(o nightcrier.Object) bool { return s.concerned[o] }

// KindIn is a kind in a namespace, "" for all of them and for cluster-wide kinds.
type KindIn struct{ Kind, Namespace string }

// Complete reports whether all objects of kind in ns were read, so that the
// absence of one is a fact. ns is "" for cluster-wide kinds.
func (s *Scene) Complete(kind, ns string) bool {
	return s.complete[KindIn{kind, ns}] || s.complete[KindIn{kind, ""}]
}

// Listed reports whether objects of kind in ns were read, if not all of them.
func (s *Scene) Listed(kind, ns string) bool {
	return s.listed[KindIn{kind, ns}] || s.listed[KindIn{kind, ""}] || s.Complete(kind, ns)
}

// SetListed notes that objects of kind in ns were read, if not all of them.
func (s *Scene) SetListed(kind, ns string) {
	if s.listed == nil {
		s.listed = map[KindIn]bool{}
	}
	s.listed[KindIn{kind, ns}] = true
}

// SetComplete notes that all objects of kind in ns were read.
func (s *Scene) SetComplete(kind, ns string) {
	if s.complete == nil {
		s.complete = map[KindIn]bool{}
	}
	s.complete[KindIn{kind, ns}] = true
}

// Add puts one object, as the API server's JSON, where its kind belongs.
func (s *Scene) Add(kind string, body []byte, ref Ref) error {
	s.links, s.clients = nil, nil
	var err error
	switch kind {
	case "Pod":
		err = decodeInto(&s.Pods, body, ref)
	case "Deployment":
		err = decodeInto(&s.Deployments, body, ref)
	case "ReplicaSet":
		err = decodeInto(&s.ReplicaSets, body, ref)
	case "StatefulSet":
		err = decodeInto(&s.StatefulSets, body, ref)
	case "DaemonSet":
		err = decodeInto(&s.DaemonSets, body, ref)
	case "Job":
		err = decodeInto(&s.Jobs, body, ref)
	case "CronJob":
		err = decodeInto(&s.CronJobs, body, ref)
	case "Service":
		err = decodeInto(&s.Services, body, ref)
	case "EndpointSlice":
		err = decodeInto(&s.EndpointSlices, body, ref)
	case "Ingress":
		err = decodeInto(&s.Ingresses, body, ref)
	case "IngressClass":
		err = decodeInto(&s.IngressClasses, body, ref)
	case "NetworkPolicy":
		err = decodeInto(&s.NetworkPolicies, body, ref)
	case "ConfigMap":
		err = decodeInto(&s.ConfigMaps, body, ref)
	case "Secret":
		err = decodeInto(&s.Secrets, body, ref)
	case "ServiceAccount":
		err = decodeInto(&s.ServiceAccounts, body, ref)
	case "PersistentVolumeClaim":
		err = decodeInto(&s.Claims, body, ref)
	case "PersistentVolume":
		err = decodeInto(&s.Volumes, body, ref)
	case "StorageClass":
		err = decodeInto(&s.StorageClasses, body, ref)
	case "VolumeAttachment":
		err = decodeInto(&s.Attachments, body, ref)
	case "ResourceQuota":
		err = decodeInto(&s.Quotas, body, ref)
	case "LimitRange":
		err = decodeInto(&s.LimitRanges, body, ref)
	case "HorizontalPodAutoscaler":
		err = decodeInto(&s.Autoscalers, body, ref)
	case "PodDisruptionBudget":
		err = decodeInto(&s.Budgets, body, ref)
	case "Node":
		err = decodeInto(&s.Nodes, body, ref)
	case "Namespace":
		err = decodeInto(&s.Namespaces, body, ref)
	case "ValidatingWebhookConfiguration":
		err = decodeInto(&s.ValidatingWebhooks, body, ref)
	case "MutatingWebhookConfiguration":
		err = decodeInto(&s.MutatingWebhooks, body, ref)
	case "Event":
		err = decodeInto(&s.Events, body, ref)
	default:
		err = s.addOther(kind, body, ref)
	}
	if err != nil {
		return nightcrier.Errorf(nightcrier.Invalid, "%s in %s: %v", kind, ref.Source, err)
	}
	return nil
}

// addOther adds an object of a kind that has no place of its own. In a list of an API
// server the list names the kind, and its items do not.
func (s *Scene) addOther(kind string, body []byte, ref Ref) error {
	u := Read[unstructured.Unstructured]{Ref: ref}
	if err := json.Unmarshal(body, &u.Object.Object); err != nil {
		return err
	}
	if u.Object.GetKind() == "" {
		u.Object.SetKind(kind)
	}
	s.Others = append(s.Others, u)
	return nil
}

func decodeInto[T any](into *[]Read[T], body []byte, ref Ref) error {
	var obj T
	if err := json.Unmarshal(body, &obj); err != nil {
		return err
	}
	*into = append(*into, Read[T]{obj, ref})
	return nil
}

// FindObject returns the object called name in ns.
func FindObject[T any, P interface {
	*T
	metav1.Object
}](all []Read[T], ns, name string) *Read[T] {
	for i := range all {
		if o := P(&all[i].Object); o.GetNamespace() == ns && o.GetName() == name {
			return &all[i]
		}
	}
	return nil
}

// PodsMatching yields the Pods in ns that sel selects. An empty selector selects all.
func (s *Scene) PodsMatching(ns string, sel labels.Selector) iter.Seq[*Read[corev1.Pod]] {
	return func(yield func(*Read[corev1.Pod]) bool) {
		for i := range s.Pods {
			p := &s.Pods[i]
			if p.Object.Namespace == ns && sel.Matches(labels.Set(p.Object.Labels)) && !yield(p) {
				return
			}
		}
	}
}
