package scene

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"nightcrier.dev/nightcrier"
)

// WorkloadsBehind lists the workloads whose Pods a Service selects.
func (s *Scene) WorkloadsBehind(ns, name string) []nightcrier.Object {
	svc := FindObject(s.Services, ns, name)
	if svc == nil || !HasSelector(&svc.Object) {
		return nil
	}
	var out []nightcrier.Object
	for w := range s.WorkloadsIn(ns) {
		if MatchesPlainSelector(svc.Object.Spec.Selector, w.Labels) {
			out = append(out, w.Object)
		}
	}
	return out
}

// MatchesPlainSelector reports whether labels have all that a plain selector asks for.
func MatchesPlainSelector(selector, have map[string]string) bool {
	for k, v := range selector {
		if have[k] != v {
			return false
		}
	}
	return len(selector) > 0
}

// ServiceObject names a Service.
func ServiceObject(svc *corev1.Service) nightcrier.Object {
	return nightcrier.Object{Kind: "Service", Namespace: svc.Namespace, Name: svc.Name}
}

// HasSelector reports whether a Service finds its endpoints by a selector.
func HasSelector(svc *corev1.Service) bool {
	return len(svc.Spec.Selector) > 0 && svc.Spec.Type != corev1.ServiceTypeExternalName && svc.DeletionTimestamp == nil
}

// PodsBehind returns the Pods of a Service that have not ended.
func (s *Scene) PodsBehind(svc *corev1.Service) []*Read[corev1.Pod] {
	var out []*Read[corev1.Pod]
	if !HasSelector(svc) {
		return nil
	}
	for p := range s.PodsMatching(svc.Namespace, labels.SelectorFromSet(svc.Spec.Selector)) {
		if !IsFinished(&p.Object) {
			out = append(out, p)
		}
	}
	return out
}

// WorkloadsAbove returns the workloads that Pods belong to, each once.
func (s *Scene) WorkloadsAbove(pods []*Read[corev1.Pod]) []nightcrier.Object {
	var out []nightcrier.Object
	for _, p := range pods {
		if o := s.WorkloadAbove("Pod", &p.Object); !slices.Contains(out, o) {
			out = append(out, o)
		}
	}
	return out
}
