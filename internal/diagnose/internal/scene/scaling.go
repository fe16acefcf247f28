package scene

import (
	"strings"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
)

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
