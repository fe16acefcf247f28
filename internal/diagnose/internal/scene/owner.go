package scene

import (
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nightcrier.dev/nightcrier"
)

// ControllerOf is what owns obj, zero when nothing does.
func ControllerOf(obj metav1.Object) nightcrier.Resource {
	ref := metav1.GetControllerOfNoCopy(obj)
	if ref == nil {
		return nightcrier.Resource{}
	}
	return nightcrier.Resource{
		APIVersion: ref.APIVersion, Kind: ref.Kind, Namespace: obj.GetNamespace(), Name: ref.Name, UID: string(ref.UID),
	}
}

// DeploymentName is the name of the Deployment of a ReplicaSet, by the hash that
// its Pods' labels tell.
func DeploymentName(replicaSet string, podLabels map[string]string) (string, bool) {
	hash := podLabels[appsv1.DefaultDeploymentUniqueLabelKey]
	name, ok := strings.CutSuffix(replicaSet, "-"+hash)
	return name, ok && hash != ""
}

// ObjectOf is the object that a resource names.
func ObjectOf(r nightcrier.Resource) nightcrier.Object {
	return nightcrier.Object{Kind: r.Kind, Namespace: r.Namespace, Name: r.Name}
}

// UniteObjects adds to a what it does not hold of b.
func UniteObjects(a, b []nightcrier.Object) []nightcrier.Object {
	for _, o := range b {
		if !slices.Contains(a, o) {
			a = append(a, o)
		}
	}
	return a
}

// WorkloadAbove is the workload above obj that a person would mend, obj's own name
// when nothing owns it.
func (s *Scene) WorkloadAbove(kind string, obj metav1.Object) nightcrier.Object {
	up := ControllerOf(obj)
	switch up.Kind {
	case "", "Node": // a static Pod names its node
		return nightcrier.Object{Kind: kind, Namespace: obj.GetNamespace(), Name: obj.GetName()}
	case "ReplicaSet":
		if o, known := s.above[up]; known {
			return o
		}
		if rs := FindObject(s.ReplicaSets, up.Namespace, up.Name); rs != nil {
			return s.keepAbove(up, s.WorkloadAbove(up.Kind, &rs.Object))
		}
		if name, ok := DeploymentName(up.Name, obj.GetLabels()); ok {
			return nightcrier.Object{Kind: "Deployment", Namespace: up.Namespace, Name: name}
		}
	case "Job":
		if o, known := s.above[up]; known {
			return o
		}
		if j := FindObject(s.Jobs, up.Namespace, up.Name); j != nil {
			return s.keepAbove(up, s.WorkloadAbove(up.Kind, &j.Object))
		}
	}
	return ObjectOf(up)
}

// keepAbove keeps what was found above a ReplicaSet or a Job: thousands of Pods ask
// for it, by many rules.
func (s *Scene) keepAbove(up nightcrier.Resource, o nightcrier.Object) nightcrier.Object {
	if s.above == nil {
		s.above = map[nightcrier.Resource]nightcrier.Object{}
	}
	s.above[up] = o
	return o
}

// WorkloadOf returns the metadata of a workload of the Scene and the selector of
// its Pods, nil when it was not read.
func (s *Scene) WorkloadOf(o nightcrier.Object) (*metav1.ObjectMeta, string) {
	switch o.Kind {
	case "Deployment":
		if d := FindObject(s.Deployments, o.Namespace, o.Name); d != nil {
			return &d.Object.ObjectMeta, metav1.FormatLabelSelector(d.Object.Spec.Selector)
		}
	case "StatefulSet":
		if d := FindObject(s.StatefulSets, o.Namespace, o.Name); d != nil {
			return &d.Object.ObjectMeta, metav1.FormatLabelSelector(d.Object.Spec.Selector)
		}
	case "DaemonSet":
		if d := FindObject(s.DaemonSets, o.Namespace, o.Name); d != nil {
			return &d.Object.ObjectMeta, metav1.FormatLabelSelector(d.Object.Spec.Selector)
		}
	}
	return nil, ""
}
