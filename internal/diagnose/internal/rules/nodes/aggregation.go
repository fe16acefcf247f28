package nodes

import (
	"fmt"
	"slices"
	"strings"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scene"
	"nightcrier.dev/nightcrier/internal/text"
)

var aggregationRules = scene.Area{Name: "aggregation", SceneRules: []scene.SceneRule{apiServiceUnavailable, apiServedByAnother}, Causes: aggregationCauses}

var aggregationCauses = []scene.Cause{
	{ID: "api-served-by-another", Category: "Cluster", Meaning: "a part of the API is served by something else than those who ask for it were made for", Rank: scene.RankStated + 5},
	{ID: "api-service-unavailable", Category: "Cluster", Meaning: "a part of the API is served by a Service that does not answer", Rank: scene.RankGround - 3, Symptom: true},
}

// server is the Service that an APIService names, zero for the API server itself.
func server(u *unstructured.Unstructured) nightcrier.Object {
	o := nightcrier.Object{Kind: "Service", Namespace: scene.StringAt(u, "spec", "service", "namespace"), Name: scene.StringAt(u, "spec", "service", "name")}
	if o.Name == "" {
		return nightcrier.Object{}
	}
	return o
}

// apiServiceUnavailable finds parts of the API that nobody serves.
func apiServiceUnavailable(s *scene.Scene) []scene.Finding {
	var out []scene.Finding
	for _, a := range s.Others {
		u := &a.Object
		if u.GetKind() != "APIService" {
			continue
		}
		reason, message, bad := s.WhyUnavailable(u)
		if !bad {
			continue
		}
		o := nightcrier.Object{Kind: "APIService", Name: u.GetName()}
		n := scene.Finding{
			Cause: "api-service-unavailable", Object: o, Confidence: nightcrier.High,
			Summary:  fmt.Sprintf("%s is not available (%s): %s.", o, text.CutMiddle(reason, scene.MaxQuote), strings.TrimSuffix(text.CutLine(message, scene.MaxQuote), ".")),
			Observed: []scene.Observation{{Text: fmt.Sprintf("%s has Available=False, reason %s", o, text.CutMiddle(reason, scene.MaxQuote)), Quote: message, Ref: a.Ref}},
			WrongIf:  "its server has come back since",
			Test:     scene.GetTest("", "apiservice", u.GetName()).DecidesBetween("its condition Available is False", "it is True"),
			Actions: []scene.Step{
				serverStep(o, server(u), reason),
				{Action: "Delete " + o.String() + " if what served it is gone for good", Outcome: "discovery and the deletion of namespaces work again", Risk: "its kinds are no longer served"},
			},
			Affected: callersOf(s, scene.StringAt(u, "spec", "group")),
		}
		if by := server(u); by.Name != "" {
			n.DependsOn = append([]nightcrier.Object{by}, s.WorkloadsBehind(by.Namespace, by.Name)...)
		}
		out = append(out, n)
	}
	return out
}

// serverStep is what to do about a Service that does not serve its part of the API, by what
// the API server says of it.
func serverStep(o, by nightcrier.Object, reason string) scene.Step {
	step := scene.Step{Action: fmt.Sprintf("Find out why the API server does not reach %s, which serves %s: its Pods and their log, its port, NetworkPolicies there, the certificate (caBundle)", by, o), Outcome: "names what does not answer", Risk: "none: read only"}
	switch reason {
	case "ServiceNotFound":
		step = scene.Step{Action: fmt.Sprintf("Bring back %s, which %s names, with what serves it", by, o), Outcome: "its kinds are served again", Risk: "an older version may not know all of its objects"}
	case "MissingEndpoints", "EndpointsNotFound":
		step.Action = fmt.Sprintf("Look at the Pods that %s selects, which serve %s: none of them is ready, or none is selected", by, o)
	case "ServicePortError":
		step = scene.Step{Action: fmt.Sprintf("Correct spec.service.port of %s to a port of %s", o, by), Do: scene.DoEdit, Outcome: "its kinds are served again", Risk: "none while nothing is served"}
	}
	return step
}

// callersOf are the workloads whose logs say that a group of the API does not answer.
func callersOf(s *scene.Scene, group string) (out []nightcrier.Object) {
	for _, l := range s.Logs {
		p := scene.FindObject(s.Pods, l.Namespace, l.Pod)
		if p == nil || group == "" || !strings.Contains(l.Text, group) {
			continue
		}
		for line := range strings.Lines(l.Text) {
			if strings.Contains(line, group) && scene.MissesAPI.MatchString(line) {
				out = scene.UniteObjects(out, []nightcrier.Object{s.WorkloadAbove("Pod", &p.Object)})
				break
			}
		}
	}
	return out
}

// unknownMetric matches what a server of metrics answers that runs and does not know what it
// is asked for.
var unknownMetric = scene.NewPattern(`could not find the metric|no (?:custom|external) metric|no matching metrics found|metric not found`)

// metricMakers are how the metrics of those are named that serve their own to autoscalers.
var metricMakers = []struct {
	name  string
	of    func(autoscalingv2.MetricIdentifier) bool
	words *scene.Pattern
}{
	{"KEDA", func(m autoscalingv2.MetricIdentifier) bool {
		return m.Selector != nil && m.Selector.MatchLabels["scaledobject.keda.sh/name"] != ""
	}, scene.NewPattern(`(?i)keda`)},
	{"Datadog", func(m autoscalingv2.MetricIdentifier) bool { return strings.HasPrefix(m.Name, "datadogmetric@") }, scene.NewPattern(`(?i)datadog`)},
}

// expectsMaker is who must serve the metrics of an autoscaler, "" where that is not known.
func expectsMaker(h *autoscalingv2.HorizontalPodAutoscaler) (name string, words *scene.Pattern) {
	for _, metric := range h.Spec.Metrics {
		for _, m := range metricMakers {
			if metric.External != nil && m.of(metric.External.Metric) {
				return m.name, m.words
			}
		}
	}
	return "", nil
}

// tookOver is how long after an APIService was written an autoscaler that has gone blind of
// it may say so.
const tookOver = 10 * time.Minute

// apiServedByAnother finds autoscalers that get no metrics although their API is available,
// because another serves it than the one that knows their metrics: there can be only one. What
// tells is who is named as the server, or that the APIService was written when they went blind.
func apiServedByAnother(s *scene.Scene) []scene.Finding {
	var out []scene.Finding
	for i := range s.Autoscalers {
		h := &s.Autoscalers[i]
		c, off := s.InactiveCondition(&h.Object)
		if !off || !scene.BlindScalerReason.MatchString(c.Reason) || !unknownMetric.MatchString(c.Message) {
			continue
		}
		a := s.FindOther(scene.Reference{Kind: "APIService", Name: scene.MetricsAPIName(c.Message)})
		if a == nil || server(&a.Object).Name == "" {
			continue
		}
		if _, _, bad := s.WhyUnavailable(&a.Object); bad {
			continue
		}
		n, found := servedByAnother(s, a, h, c)
		k := slices.IndexFunc(out, func(o scene.Finding) bool { return o.Object == n.Object })
		switch {
		case !found:
		case k >= 0:
			out[k].Affected = scene.UniteObjects(out[k].Affected, n.Affected)
		default:
			out = append(out, n)
		}
	}
	return out
}

func servedByAnother(s *scene.Scene, a *scene.Read[unstructured.Unstructured], h *scene.Read[autoscalingv2.HorizontalPodAutoscaler], c autoscalingv2.HorizontalPodAutoscalerCondition) (scene.Finding, bool) {
	o, by := nightcrier.Object{Kind: "APIService", Name: a.Object.GetName()}, server(&a.Object)
	scaler := nightcrier.Object{Kind: "HorizontalPodAutoscaler", Namespace: h.Object.Namespace, Name: h.Object.Name}
	maker, words := expectsMaker(&h.Object)
	foreign := maker != "" && !words.MatchString(by.String()) && !slices.ContainsFunc(behindServer(s, by), words.MatchString)
	at, who := scene.LastEdit(&a.Object)
	gap := c.LastTransitionTime.Sub(at)
	changed := !at.IsZero() && at.Sub(a.Object.GetCreationTimestamp().Time) > time.Minute && gap > -time.Minute && gap < tookOver
	if maker != "" && !foreign || !foreign && !changed {
		return scene.Finding{}, false
	}
	n := scene.Finding{
		Cause: "api-served-by-another", Object: o, Confidence: nightcrier.Medium, Affected: []nightcrier.Object{scaler}, DependsOn: nil,
		Summary: fmt.Sprintf("%s is served by %s, which does not know the metrics of %s", o, by, scaler),
		Observed: []scene.Observation{
			{Text: fmt.Sprintf("%s is available, and names %s as its server", o, by), Quote: by.Name, Ref: a.Ref},
			{Text: fmt.Sprintf("%s has %s=%s, reason %s", scaler, c.Type, c.Status, text.CutMiddle(c.Reason, scene.MaxQuote)), Quote: c.Message, Ref: h.Ref},
		},
		WrongIf: "its server should know the metric and has lost it",
		Test:    scene.GetTest("", "apiservice", o.Name).DecidesBetween("spec.service is not what makes the metrics that are missed", "it is"),
		Actions: []scene.Step{
			{Action: fmt.Sprintf("Point spec.service of %s back at what makes the metrics of %s, and take this API away from what installed %s", o, scaler, by), Do: scene.DoEdit, Outcome: "its autoscalers get their metrics within a minute", Risk: "autoscalers that ask for metrics of " + by.Name + " get none"},
			{Action: "Let one adapter serve the metrics of both: an API has one server", Outcome: "both kinds of autoscalers work", Risk: "each metric must be configured anew"},
		},
	}
	if foreign {
		n.Confidence = nightcrier.High
		n.Summary = fmt.Sprintf("%s is served by %s and not by %s, whose metrics %s asks for", o, by, maker, scaler)
	}
	if changed {
		n.Summary += fmt.Sprintf("; it was last written at %s by %s, and the autoscaler gets no metrics since %s", at.UTC().Format(time.RFC3339), who, c.LastTransitionTime.UTC().Format(time.RFC3339))
		n.Observed = append(n.Observed, scene.Observation{Text: o.String() + " was last written by " + who, Quote: at.UTC().Format(time.RFC3339), Ref: a.Ref})
	}
	n.Summary += ": " + text.CutMiddle(c.Message, scene.MaxQuote) + "."
	return n, true
}

// behindServer are the images of the Pods behind a Service: a name may mislead.
func behindServer(s *scene.Scene, by nightcrier.Object) (images []string) {
	svc := scene.FindObject(s.Services, by.Namespace, by.Name)
	if svc == nil {
		return nil
	}
	for _, p := range s.PodsBehind(&svc.Object) {
		for _, c := range p.Object.Spec.Containers {
			images = append(images, c.Image)
		}
	}
	return images
}
