package diagnose

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"nightcrier.dev/nightcrier"
)

var scaleRules = area{of: []Rule{zeroAsked}, scene: []SceneRule{zeroBehindService}}

var scaleCauses = []Cause{
	{ID: "scaled-to-zero", Category: "Pod", Meaning: "a workload that is needed is scaled to zero", Rank: rankStated},
}

// restsAtZero are what marks workloads that are scaled to zero when nothing needs
// them, and up again by whoever made the mark.
var restsAtZero = []string{"scaledobject.keda.sh/name", "serving.knative.dev/service", "sablier.enable"}

// mayRestAtZero reports whether a workload is meant to rest at zero.
func (s *Scene) mayRestAtZero(m podMaker) bool {
	for _, label := range restsAtZero {
		if m.labels[label] != "" {
			return true
		}
	}
	for _, h := range s.Autoscalers { // KEDA's own
		t := h.Object.Spec.ScaleTargetRef
		if h.Object.Namespace == m.object.Namespace && t.Kind == m.object.Kind && t.Name == m.object.Name && strings.HasPrefix(h.Object.Name, "keda-hpa-") {
			return true
		}
	}
	return false
}

// zeroAsked finds that the very workload that somebody asks about has no Pods
// because it shall have none.
func zeroAsked(f *Facts) []Finding {
	o := f.Mend()
	if f.Hearsay || !f.isAskedAbout(o) || o.Kind != "Deployment" && o.Kind != "StatefulSet" {
		return nil
	}
	r, known := f.countReplicas()
	if !known || r.want != 0 {
		return nil
	}
	if m, read := f.Scene.makerOf(o); read && f.Scene.mayRestAtZero(m) {
		return nil
	}
	return []Finding{scaledToZero(o, r.ref, nil)}
}

// zeroBehindService finds workloads scaled to zero that a Service needs, because
// nothing else stands behind it.
func zeroBehindService(s *Scene) []Finding {
	var out []Finding
	for i := range s.Services {
		svc := &s.Services[i]
		if !hasSelector(&svc.Object) || len(s.podsSelectedBy(&svc.Object)) > 0 || !s.Complete("Pod", svc.Object.Namespace) {
			continue
		}
		var resting []podMaker
		others := false
		for m := range s.workloadsIn(svc.Object.Namespace) {
			switch {
			case !plainSelectorMatches(svc.Object.Spec.Selector, m.labels):
			case m.wants == 0 && !s.mayRestAtZero(m):
				resting = append(resting, m)
			default:
				others = true
			}
		}
		if others {
			continue
		}
		for _, m := range resting {
			out = append(out, scaledToZero(m.object, m.ref, svc))
		}
	}
	return out
}

func scaledToZero(o nightcrier.Object, ref Ref, svc *Read[corev1.Service]) Finding {
	n := Finding{
		Cause: "scaled-to-zero", Object: o, Confidence: nightcrier.High,
		Summary:  fmt.Sprintf("%s has no Pods because it is scaled to zero (spec.replicas is 0).", o),
		Observed: []Observation{{Text: o.String() + " wants 0 Pods", Quote: "replicas=0", Ref: ref}},
		WrongIf:  "it is meant to rest and nobody needs it now",
		Test:     testByGet(o.Namespace, strings.ToLower(o.Kind), o.Name).decidesBetween("spec.replicas is 0", "spec.replicas is more than 0"),
		Actions: []Step{
			{Action: "Scale " + o.String() + " up again", Do: doScale, Outcome: "its Pods are made", Risk: "whoever scaled it down had a reason: ask first"},
			{Action: "Find out who scaled it to zero: a person, an autoscaler, a release", Outcome: "it does not happen again", Risk: "none: read only"},
		},
	}
	if svc != nil {
		behind := serviceObject(&svc.Object)
		n.Affected = []nightcrier.Object{behind}
		n.Summary = fmt.Sprintf("%s is scaled to zero (spec.replicas is 0), and nothing else stands behind %s.", o, behind)
		n.Observed = append(n.Observed, Observation{Text: behind.String() + " selects the Pods of " + o.String(), Quote: svc.Object.Name, Ref: svc.Ref})
	}
	return n
}
