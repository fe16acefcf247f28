package workloads

import (
	"fmt"
	"slices"
	"strings"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scene"
	"nightcrier.dev/nightcrier/internal/text"
)

var autoscalerRules = scene.Area{Name: "autoscaler", SceneRules: []scene.SceneRule{autoscalerTrouble}, Causes: autoscalerCauses}

var autoscalerCauses = []scene.Cause{
	{ID: "hpa-at-limit", Category: "Pod", Meaning: "an autoscaler has made as many Pods as it may and the load is still above its target", Rank: scene.RankFollows + 4},
	{ID: "hpa-metrics-unavailable", Category: "Cluster", Meaning: "an autoscaler gets no metrics to scale by", Rank: scene.RankShown - 2, Symptom: true},
	{ID: "hpa-target-missing", Category: "Pod", Meaning: "what an autoscaler should scale does not exist", Rank: scene.RankStated},
	{ID: "hpa-target-without-requests", Category: "Pod", Meaning: "an autoscaler scales by a share of a request that its target does not make", Rank: scene.RankStated},
}

// autoscalerTrouble finds autoscalers that cannot do their work.
func autoscalerTrouble(s *scene.Scene) []scene.Finding {
	var out []scene.Finding
	for i := range s.Autoscalers {
		h := &s.Autoscalers[i]
		if h.Object.DeletionTimestamp != nil || !scene.HasWaited(&h.Object, s.Now, scene.BlindFor) && !scene.LacksMetricsAPI(&h.Object) {
			continue
		}
		for _, rule := range []func(*scene.Scene, *scene.Read[autoscalingv2.HorizontalPodAutoscaler]) (scene.Finding, bool){
			scaleTargetMissing, withoutRequests, withoutMetrics, atLimit,
		} {
			if n, found := rule(s, h); found {
				out = append(out, n)
				break
			}
		}
	}
	return out
}

func scaleTarget(h *autoscalingv2.HorizontalPodAutoscaler) nightcrier.Object {
	return nightcrier.Object{Kind: h.Spec.ScaleTargetRef.Kind, Namespace: h.Namespace, Name: h.Spec.ScaleTargetRef.Name}
}

func scalerObject(h *scene.Read[autoscalingv2.HorizontalPodAutoscaler]) nightcrier.Object {
	return nightcrier.Object{Kind: "HorizontalPodAutoscaler", Namespace: h.Object.Namespace, Name: h.Object.Name}
}

func sawScaler(h *scene.Read[autoscalingv2.HorizontalPodAutoscaler], c autoscalingv2.HorizontalPodAutoscalerCondition) scene.Observation {
	return scene.Observation{
		Text:  fmt.Sprintf("%s has %s=%s, reason %s", scalerObject(h), c.Type, c.Status, text.CutMiddle(c.Reason, scene.MaxQuote)),
		Quote: c.Message, Ref: h.Ref,
	}
}

func scalerTest(h *scene.Read[autoscalingv2.HorizontalPodAutoscaler]) scene.Test {
	return scene.GetTest(h.Object.Namespace, "hpa", h.Object.Name)
}

// scaleTargetMissing finds that what an autoscaler names is not there.
func scaleTargetMissing(s *scene.Scene, h *scene.Read[autoscalingv2.HorizontalPodAutoscaler]) (scene.Finding, bool) {
	target := scaleTarget(&h.Object)
	c, known := scene.ScalerCondition(&h.Object, autoscalingv2.AbleToScale)
	said := known && c.Status == corev1.ConditionFalse && c.Reason == "FailedGetScale" && notThere.MatchString(c.Message)
	_, exists := s.ReplicasOf(target)
	absent := !exists && slices.Contains([]string{"Deployment", "StatefulSet"}, target.Kind) && s.Complete(target.Kind, target.Namespace)
	if exists || !said && !absent {
		return scene.Finding{}, false
	}
	n := scene.Finding{
		Cause: "hpa-target-missing", Object: scalerObject(h), Confidence: nightcrier.High,
		Summary:  fmt.Sprintf("%s scales nothing: its target %s does not exist.", scalerObject(h), target),
		Observed: []scene.Observation{{Text: fmt.Sprintf("%s targets %s, which does not exist", scalerObject(h), target), Quote: target.Name, Ref: h.Ref}},
		WrongIf:  "the target was made since",
		Test:     scalerTest(h).DecidesBetween("its condition AbleToScale is False with FailedGetScale", "it is True"),
		Actions: []scene.Step{
			{Action: "Correct scaleTargetRef of " + scalerObject(h).String() + ", or make " + target.String(), Do: scene.DoEdit, Outcome: "the autoscaler scales it", Risk: "the number of Pods may change at once"},
			{Action: "Delete " + scalerObject(h).String() + " if its target is gone for good", Outcome: "no more warnings", Risk: "none while nothing is scaled"},
		},
	}
	if said {
		n.Observed = append([]scene.Observation{sawScaler(h, c)}, n.Observed...)
	}
	return n, true
}

// notThere is what says that an object or its kind does not exist.
var notThere = scene.NewPattern(`not found|no matches for kind|could not find the requested resource`)

// withoutRequests finds targets that do not request what they are scaled by a share
// of.
func withoutRequests(s *scene.Scene, h *scene.Read[autoscalingv2.HorizontalPodAutoscaler]) (scene.Finding, bool) {
	c, off := s.InactiveCondition(&h.Object)
	active, known := scene.ScalerCondition(&h.Object, autoscalingv2.ScalingActive)
	said := off && strings.Contains(c.Message, "missing request for")
	resource, container, short := requestMissing(s, &h.Object)
	if !said && (!short || known && active.Status == corev1.ConditionTrue || known && active.Reason == "ScalingDisabled") {
		return scene.Finding{}, false
	}
	target := scaleTarget(&h.Object)
	what := "the resource that it is scaled by"
	if short {
		what = resource + " in container " + text.CutMiddle(container, scene.MaxQuote)
	} else if m := missingRequest.FindStringSubmatch(c.Message); m != nil {
		what = m[1]
	}
	n := scene.Finding{
		Cause: "hpa-target-without-requests", Object: target, Confidence: nightcrier.High, Affected: []nightcrier.Object{scalerObject(h)},
		Summary:  fmt.Sprintf("%s cannot be scaled by %s: it makes no request of %s, of which the autoscaler needs the share in use.", target, scalerObject(h), what),
		Observed: []scene.Observation{{Text: fmt.Sprintf("%s scales %s by a share of its requests", scalerObject(h), target), Quote: target.Name, Ref: h.Ref}},
		WrongIf:  "a request was added since and its Pods are not made again yet",
		Test:     scene.GetTest(target.Namespace, strings.ToLower(target.Kind), target.Name).DecidesBetween("a container has no request of it", "every container has one"),
		Actions: []scene.Step{
			{Action: "Give every container of " + target.String() + " a request of what it is scaled by", Do: scene.DoEdit, Outcome: "the autoscaler can work", Risk: "rolls the workload out again; its Pods may need more room"},
			{Action: "Scale by an average value in place of a share", Outcome: "no requests are needed", Risk: "the value must be kept right by hand"},
		},
	}
	if said {
		n.Observed = append([]scene.Observation{sawScaler(h, c)}, n.Observed...)
	}
	return n, true
}

var missingRequest = scene.NewPattern(`missing request for (\S{1,100}(?: in container \S{1,63})?)`)

// requestMissing is the first container of an autoscaler's target that makes no
// request of a resource of which the autoscaler needs the share in use. The Pods
// say it better than the template, as a limit range may have added requests.
func requestMissing(s *scene.Scene, h *autoscalingv2.HorizontalPodAutoscaler) (resource, container string, missing bool) {
	m, known := s.PodMakerOf(scaleTarget(h))
	if !known {
		return "", "", false
	}
	if resource, container, missing = firstWithoutRequest(h, m.Spec); !missing {
		return "", "", false
	}
	for p := range s.PodsBelow(m.Object) {
		if !scene.IsFinished(&p.Object) && scene.MatchesPlainSelector(m.Labels, p.Object.Labels) {
			return firstWithoutRequest(h, &p.Object.Spec)
		}
	}
	return resource, container, missing
}

// firstWithoutRequest is the first container that makes no request of what an autoscaler needs
// the share of.
func firstWithoutRequest(h *autoscalingv2.HorizontalPodAutoscaler, spec *corev1.PodSpec) (resource, container string, missing bool) {
	for _, metric := range h.Spec.Metrics {
		if metric.Resource == nil || metric.Resource.Target.Type != autoscalingv2.UtilizationMetricType {
			continue
		}
		for _, c := range spec.Containers {
			if _, ok := scene.ContainerRequests(c)[metric.Resource.Name]; !ok {
				return string(metric.Resource.Name), c.Name, true
			}
		}
	}
	return "", "", false
}

// withoutMetrics finds autoscalers that get nothing to scale by.
func withoutMetrics(s *scene.Scene, h *scene.Read[autoscalingv2.HorizontalPodAutoscaler]) (scene.Finding, bool) {
	c, off := s.InactiveCondition(&h.Object)
	if !off || !scene.BlindScalerReason.MatchString(c.Reason) {
		return scene.Finding{}, false
	}
	n := scene.Finding{
		Cause: "hpa-metrics-unavailable", Object: scalerObject(h), Confidence: nightcrier.High,
		Summary:  fmt.Sprintf("%s cannot scale %s: it gets no metrics (%s).", scalerObject(h), scaleTarget(&h.Object), text.CutMiddle(c.Message, scene.MaxQuote)),
		Observed: []scene.Observation{sawScaler(h, c)},
		WrongIf:  "metrics have come back since",
		Test:     scalerTest(h).DecidesBetween("its condition ScalingActive is False", "it is True"),
		Actions: []scene.Step{
			{Action: "Check that the server of the metrics API runs and its APIService is available", Outcome: "tells a missing server from missing data", Risk: "none: read only"},
			{Action: "Set the number of replicas by hand until then", Outcome: "the load is carried", Risk: "nothing scales it back"},
		},
		DependsOn: metricsServers(s, c.Message),
	}
	if unreadyPods.MatchString(c.Message) {
		n.Confidence = nightcrier.Medium
		n.DependsOn = append(n.DependsOn, scaleTarget(&h.Object))
	}
	return n, true
}

// unreadyPods is what is said when there are only no Pods to measure.
var unreadyPods = scene.NewPattern(`pods might be unready|no metrics returned`)

// metricsServers are what serves the metrics that a message misses.
func metricsServers(s *scene.Scene, message string) []nightcrier.Object {
	api := scene.MetricsAPIName(message)
	out := []nightcrier.Object{{Kind: "APIService", Name: api}}
	if api == "v1beta1.metrics.k8s.io" {
		out = append(out, nightcrier.Object{Kind: "Deployment", Namespace: "kube-system", Name: "metrics-server"})
	}
	return out
}

// atLimit finds autoscalers that would make more Pods if they might.
func atLimit(_ *scene.Scene, h *scene.Read[autoscalingv2.HorizontalPodAutoscaler]) (scene.Finding, bool) {
	c, known := scene.ScalerCondition(&h.Object, autoscalingv2.ScalingLimited)
	spec, st := h.Object.Spec, h.Object.Status
	over, above := aboveTarget(&h.Object)
	fixed := scene.ReplicasOrOne(spec.MinReplicas) >= spec.MaxReplicas // a number that is set so is no limit
	if !known || c.Status != corev1.ConditionTrue || c.Reason != "TooManyReplicas" || st.CurrentReplicas < spec.MaxReplicas || fixed || !above {
		return scene.Finding{}, false
	}
	return scene.Finding{
		Cause: "hpa-at-limit", Object: scalerObject(h), Confidence: nightcrier.Medium,
		Summary:  fmt.Sprintf("%s has scaled %s to its limit of %d Pods, and the load is still above its target (%s).", scalerObject(h), scaleTarget(&h.Object), spec.MaxReplicas, over),
		Observed: []scene.Observation{sawScaler(h, c), {Text: "measured: " + over, Quote: fmt.Sprintf("currentReplicas=%d", st.CurrentReplicas), Ref: h.Ref}},
		WrongIf:  "the load passes, or more Pods would not carry it because something behind them is the limit",
		Test:     scalerTest(h).DecidesBetween("ScalingLimited is True with TooManyReplicas and a metric is above its target", "neither is so"),
		Actions: []scene.Step{
			{Action: "Raise maxReplicas of " + scalerObject(h).String() + " if the nodes and what lies behind can carry it", Do: scene.DoEdit, Outcome: "more Pods share the load", Risk: "moves the load to what they depend on; cost"},
			{Action: "Find out where the load comes from, and whether each request has become dearer", Outcome: "tells more work from a slower version", Risk: "none: read only"},
		},
	}, true
}

// tolerance is how far above its target a metric may be before an autoscaler acts,
// in percent.
const tolerance = 10

// aboveTarget is the first metric that is above what an autoscaler aims at.
func aboveTarget(h *autoscalingv2.HorizontalPodAutoscaler) (string, bool) {
	for _, want := range h.Spec.Metrics {
		for _, have := range h.Status.CurrentMetrics {
			if have.Type != want.Type {
				continue
			}
			switch {
			case want.Resource != nil && have.Resource != nil && want.Resource.Name == have.Resource.Name:
				if said, above := compareWithTarget(have.Resource.Current, want.Resource.Target); above {
					return string(want.Resource.Name) + " " + said, true
				}
			case want.Pods != nil && have.Pods != nil && want.Pods.Metric.Name == have.Pods.Metric.Name:
				if said, above := compareWithTarget(have.Pods.Current, want.Pods.Target); above {
					return text.CutMiddle(want.Pods.Metric.Name, scene.MaxQuote) + " " + said, true
				}
			case want.External != nil && have.External != nil && want.External.Metric.Name == have.External.Metric.Name:
				if said, above := compareWithTarget(have.External.Current, want.External.Target); above {
					return text.CutMiddle(want.External.Metric.Name, scene.MaxQuote) + " " + said, true
				}
			}
		}
	}
	return "", false
}

func compareWithTarget(have autoscalingv2.MetricValueStatus, want autoscalingv2.MetricTarget) (string, bool) {
	switch {
	case have.AverageUtilization != nil && want.AverageUtilization != nil:
		return fmt.Sprintf("%d%% of the requests, target %d%%", *have.AverageUtilization, *want.AverageUtilization),
			100*int64(*have.AverageUtilization) > (100+tolerance)*int64(*want.AverageUtilization)
	case have.AverageValue != nil && want.AverageValue != nil:
		return fmt.Sprintf("%s each, target %s", have.AverageValue, want.AverageValue),
			have.AverageValue.AsApproximateFloat64() > (100+tolerance)*want.AverageValue.AsApproximateFloat64()/100
	case have.Value != nil && want.Value != nil:
		return fmt.Sprintf("%s, target %s", have.Value, want.Value),
			have.Value.AsApproximateFloat64() > (100+tolerance)*want.Value.AsApproximateFloat64()/100
	}
	return "", false
}
