package scene

import (
	"slices"
	"strings"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
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

// ScalerCondition is a condition of an autoscaler, if it has it.
func ScalerCondition(h *autoscalingv2.HorizontalPodAutoscaler, kind autoscalingv2.HorizontalPodAutoscalerConditionType) (autoscalingv2.HorizontalPodAutoscalerCondition, bool) {
	for _, c := range h.Status.Conditions {
		if c.Type == kind {
			return c, true
		}
	}
	return autoscalingv2.HorizontalPodAutoscalerCondition{}, false
}

// ScalerIsWell reports whether the autoscaler that the Facts are about says that it
// can do its work.
func (f *Facts) ScalerIsWell() bool {
	h := FindObject(f.Scene.Autoscalers, f.Owner.Namespace, f.Owner.Name)
	if h == nil {
		return false
	}
	able, told := ScalerCondition(&h.Object, autoscalingv2.AbleToScale)
	active, known := ScalerCondition(&h.Object, autoscalingv2.ScalingActive)
	return told && able.Status == corev1.ConditionTrue &&
		known && (active.Status == corev1.ConditionTrue || active.Reason == "ScalingDisabled")
}

// noMetricsAPI is what an autoscaler says where nothing serves the metrics API.
var noMetricsAPI = NewPattern(`could not find the requested resource \((?:get|list) [\w.]{1,60}metrics\.k8s\.io\)`)

// LacksMetricsAPI reports whether an autoscaler says that the API it gets its metrics
// from does not exist. Waiting does not bring it.
func LacksMetricsAPI(h *autoscalingv2.HorizontalPodAutoscaler) bool {
	c, known := ScalerCondition(h, autoscalingv2.ScalingActive)
	return known && c.Status == corev1.ConditionFalse && BlindScalerReason.MatchString(c.Reason) && noMetricsAPI.MatchString(c.Message)
}

// InactiveCondition is the condition that says that an autoscaler does not scale, and has
// not for a while.
func (s *Scene) InactiveCondition(h *autoscalingv2.HorizontalPodAutoscaler) (autoscalingv2.HorizontalPodAutoscalerCondition, bool) {
	c, known := ScalerCondition(h, autoscalingv2.ScalingActive)
	return c, known && c.Status == corev1.ConditionFalse && (LacksMetricsAPI(h) || HasLasted(c.LastTransitionTime, s.Now, TakeUpTime))
}

// BlindScalerReason are the reasons of an autoscaler that gets no metrics.
var BlindScalerReason = NewPattern(`^(FailedGet\w{1,30}Metric|FailedComputeMetricsReplicas|InvalidMetricSourceType)$`)

// MissesAPI matches what a client says that a part of the API does not answer it.
var MissesAPI = NewPattern(`the server is currently unable to handle the request|stale GroupVersion discovery|complete list of server APIs`)

// MissesAPI reports whether anything that was read says that a part of the API does not answer:
// a log, a fresh Event, the status of a namespace or of an object of an operator.
func (s *Scene) MissesAPI() bool {
	return slices.ContainsFunc(s.Logs, func(l LogExcerpt) bool { return MissesAPI.MatchString(l.Text) }) ||
		slices.ContainsFunc(s.Events, func(e Read[corev1.Event]) bool { return MissesAPI.MatchString(e.Object.Message) && s.IsFresh(e) }) ||
		slices.ContainsFunc(s.Namespaces, func(n Read[corev1.Namespace]) bool {
			return slices.ContainsFunc(n.Object.Status.Conditions, func(c corev1.NamespaceCondition) bool { return MissesAPI.MatchString(c.Message) })
		}) ||
		slices.ContainsFunc(s.SelfComplaints(), func(w OwnWord) bool { return MissesAPI.MatchString(w.Seen.Quote) })
}

// BlindScalersAPI is the APIService of which an autoscaler says that it gets no metrics, ""
// where it does not.
func (s *Scene) BlindScalersAPI(h *autoscalingv2.HorizontalPodAutoscaler) string {
	c, off := s.InactiveCondition(h)
	if !off || !BlindScalerReason.MatchString(c.Reason) {
		return ""
	}
	return MetricsAPIName(c.Message)
}

// MetricsAPIName names the APIService of the metrics that a message misses.
func MetricsAPIName(message string) string {
	switch {
	case strings.Contains(message, "external.metrics.k8s.io"), strings.Contains(message, "external metrics API"):
		return "v1beta1.external.metrics.k8s.io"
	case strings.Contains(message, "custom.metrics.k8s.io"), strings.Contains(message, "custom metrics API"):
		return "v1beta1.custom.metrics.k8s.io"
	}
	return "v1beta1.metrics.k8s.io"
}

// MaxReleases is how many revisions of one Helm release are told.
const MaxReleases = 3

// helmSecret begins the names of the Secrets that Helm keeps its releases in.
const helmSecret = "sh.helm.release.v1."

// HelmSecrets are the Secrets that Helm keeps releases in, the newest first.
func (s *Scene) HelmSecrets(ns string) (out []Read[corev1.Secret]) {
	for _, sec := range s.Secrets {
		if m := sec.Object.ObjectMeta; m.Namespace == ns && m.Labels["owner"] == "helm" && strings.HasPrefix(m.Name, helmSecret) {
			out = append(out, sec)
		}
	}
	slices.SortFunc(out, func(a, b Read[corev1.Secret]) int {
		return b.Object.CreationTimestamp.Compare(a.Object.CreationTimestamp.Time)
	})
	return out
}
