package scene

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"nightcrier.dev/nightcrier"
)

// UnscheduledWorkloads have a Pod without a node of which no scheduler has said anything.
func (s *Scene) UnscheduledWorkloads() []nightcrier.Object {
	var out []nightcrier.Object
	for i := range s.Pods {
		p := &s.Pods[i].Object
		if p.Status.Phase != corev1.PodPending || p.Spec.NodeName != "" || SchedulerMessage(p) != "" {
			continue
		}
		if o := s.WorkloadAbove("Pod", p); !slices.Contains(out, o) {
			out = append(out, o)
		}
	}
	return out
}

// UnobservedWorkloads were changed a while ago, and no controller has seen it.
func (s *Scene) UnobservedWorkloads() []nightcrier.Object {
	var out []nightcrier.Object
	for i := range s.Deployments {
		d := &s.Deployments[i].Object
		if d.Generation > d.Status.ObservedGeneration && HasWaited(d, s.Now, TakeUpTime) {
			out = append(out, nightcrier.Object{Kind: "Deployment", Namespace: d.Namespace, Name: d.Name})
		}
	}
	for i := range s.StatefulSets {
		d := &s.StatefulSets[i].Object
		if d.Generation > d.Status.ObservedGeneration && HasWaited(d, s.Now, TakeUpTime) {
			out = append(out, nightcrier.Object{Kind: "StatefulSet", Namespace: d.Namespace, Name: d.Name})
		}
	}
	return out
}

// WhyUnavailable reads why an APIService is not available, when that lasts.
func (s *Scene) WhyUnavailable(u *unstructured.Unstructured) (reason, message string, bad bool) {
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, c := range conditions {
		m, _ := c.(map[string]any)
		if m["type"] != "Available" || m["status"] != "False" {
			continue
		}
		since, _ := m["lastTransitionTime"].(string)
		if at, err := time.Parse(time.RFC3339, since); err == nil && s.Now.Sub(at) < time.Minute {
			continue
		}
		reason, _ = m["reason"].(string)
		message, _ = m["message"].(string)
		return reason, message, true
	}
	return "", "", false
}

// StringAt is the text at a path of an object, "" when there is none.
func StringAt(u *unstructured.Unstructured, path ...string) string {
	text, _, _ := unstructured.NestedString(u.Object, path...)
	return text
}

// SystemNamespace is where the cluster's DNS runs.
const SystemNamespace = metav1.NamespaceSystem

// TakeUpTime is how long a Pod may wait for whoever schedules it.
const TakeUpTime = 2 * time.Minute

// HasWaited reports whether an object was made longer ago than a while; one that
// does not say when was made long ago.
func HasWaited(o interface{ GetCreationTimestamp() metav1.Time }, now time.Time, while time.Duration) bool {
	return now.Sub(o.GetCreationTimestamp().Time) > while
}

// DoubtNamespace takes back that all of these kinds in a namespace were read when nothing
// was found there: a dump of some namespaces often lists the names of all.
func (s *Scene) DoubtNamespace(ns string, kinds ...string) {
	if slices.Contains(s.PodNamespaces(), ns) || slices.ContainsFunc(s.Services, func(svc Read[corev1.Service]) bool { return svc.Object.Namespace == ns }) {
		return
	}
	for _, kind := range kinds {
		delete(s.complete, KindIn{kind, ns})
	}
}
