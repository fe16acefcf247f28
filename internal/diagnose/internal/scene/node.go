package scene

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"nightcrier.dev/nightcrier"
)

// FindNodeCondition is a condition of a Node, nil when it has none of that kind.
func FindNodeCondition(n *corev1.Node, kind corev1.NodeConditionType) *corev1.NodeCondition {
	for i := range n.Status.Conditions {
		if n.Status.Conditions[i].Type == kind {
			return &n.Status.Conditions[i]
		}
	}
	return nil
}

// IsNodeReady reports whether a Node says that it is ready.
func IsNodeReady(n *corev1.Node) bool {
	c := FindNodeCondition(n, corev1.NodeReady)
	return c != nil && c.Status == corev1.ConditionTrue
}

// FindDisruption is the condition that says that a Pod is ended from outside.
func FindDisruption(p *corev1.Pod) *corev1.PodCondition {
	for i := range p.Status.Conditions {
		if c := &p.Status.Conditions[i]; c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue {
			return c
		}
	}
	return nil
}

// controlPlaneParts are the components that run the cluster, as their static Pods
// are labelled.
var controlPlaneParts = []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"}

// ControlPlanePart is the component of the control plane that a Pod is, "" for none.
func ControlPlanePart(p *corev1.Pod) string {
	part := p.Labels["component"]
	if p.Namespace == "kube-system" && slices.Contains(controlPlaneParts, part) {
		return part
	}
	return ""
}

// ControlPlanePods lists the Pods of one component of the control plane.
func (s *Scene) ControlPlanePods(part string) []nightcrier.Object {
	var out []nightcrier.Object
	for i := range s.Pods {
		if p := &s.Pods[i].Object; ControlPlanePart(p) == part {
			out = append(out, nightcrier.Object{Kind: "Pod", Namespace: p.Namespace, Name: p.Name})
		}
	}
	return out
}

// SortResourceNames are the resources of a list, by name.
func SortResourceNames(list corev1.ResourceList) []corev1.ResourceName {
	var names []corev1.ResourceName
	for name := range list {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// PodRequests is what the scheduler counts for a Pod: its containers together, or
// an init container alone if that asks for more.
func PodRequests(p *corev1.Pod) corev1.ResourceList {
	total := corev1.ResourceList{}
	add := func(list corev1.ResourceList) {
		for name, q := range list {
			sum := total[name]
			sum.Add(q)
			total[name] = sum
		}
	}
	for _, c := range p.Spec.Containers {
		add(ContainerRequests(c))
	}
	for _, c := range p.Spec.InitContainers {
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			add(ContainerRequests(c)) // a sidecar stays
			continue
		}
		for name, q := range ContainerRequests(c) {
			if have := total[name]; q.Cmp(have) > 0 {
				total[name] = q
			}
		}
	}
	add(p.Spec.Overhead)
	return total
}

// ContainerRequests is what one container requests; a limit alone is a request as well.
func ContainerRequests(c corev1.Container) corev1.ResourceList {
	out := corev1.ResourceList{}
	for name, q := range c.Resources.Limits {
		out[name] = q
	}
	for name, q := range c.Resources.Requests {
		out[name] = q
	}
	return out
}

// LargestAllocatable is the most of a resource that one of the nodes can give.
func LargestAllocatable(nodes []Read[corev1.Node], name corev1.ResourceName) resource.Quantity {
	var most resource.Quantity
	for _, n := range nodes {
		if have := n.Object.Status.Allocatable[name]; have.Cmp(most) > 0 {
			most = have
		}
	}
	return most
}

// UntoleratedTaint is the first taint that keeps the Pod off the node.
func UntoleratedTaint(p *corev1.Pod, n *corev1.Node) *corev1.Taint {
	for i, t := range n.Spec.Taints {
		// The node's own field tells of a cordon.
		if t.Effect != corev1.TaintEffectPreferNoSchedule && t.Key != corev1.TaintNodeUnschedulable && !ToleratesTaint(p, t) {
			return &n.Spec.Taints[i]
		}
	}
	return nil
}

// ToleratesTaint reports whether a Pod may run on a node in spite of a taint.
func ToleratesTaint(p *corev1.Pod, taint corev1.Taint) bool {
	for _, t := range p.Spec.Tolerations {
		switch {
		case t.Effect != "" && t.Effect != taint.Effect, t.Key != "" && t.Key != taint.Key:
			continue
		case t.Operator == corev1.TolerationOpExists:
			return true
		case t.Operator != "" && t.Operator != corev1.TolerationOpEqual:
			return true // an operator that is newer than this: never claim that it does not match
		case t.Key != "" && t.Value == taint.Value:
			return true
		}
	}
	return false
}

// SelectsNode reports whether the node matches the Pod's node selector and its
// required node affinity.
func SelectsNode(p *corev1.Pod, n *corev1.Node) bool {
	if p.Spec.NodeSelector != nil && !labels.SelectorFromSet(p.Spec.NodeSelector).Matches(labels.Set(n.Labels)) {
		return false
	}
	if a := p.Spec.Affinity; a != nil && a.NodeAffinity != nil {
		return inTerms(a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution, n)
	}
	return true
}

// inTerms reports whether one of the terms of a node selector matches; nil
// matches every node.
func inTerms(sel *corev1.NodeSelector, n *corev1.Node) bool {
	if sel == nil {
		return true
	}
	return slices.ContainsFunc(sel.NodeSelectorTerms, func(t corev1.NodeSelectorTerm) bool {
		if len(t.MatchExpressions)+len(t.MatchFields) == 0 {
			return false
		}
		return allMatch(t.MatchExpressions, n.Labels) && allMatch(t.MatchFields, map[string]string{metav1.ObjectNameField: n.Name})
	})
}

var nodeOperators = map[corev1.NodeSelectorOperator]selection.Operator{
	corev1.NodeSelectorOpIn:           selection.In,
	corev1.NodeSelectorOpNotIn:        selection.NotIn,
	corev1.NodeSelectorOpExists:       selection.Exists,
	corev1.NodeSelectorOpDoesNotExist: selection.DoesNotExist,
	corev1.NodeSelectorOpGt:           selection.GreaterThan,
	corev1.NodeSelectorOpLt:           selection.LessThan,
}

func allMatch(exprs []corev1.NodeSelectorRequirement, have map[string]string) bool {
	for _, e := range exprs {
		r, err := labels.NewRequirement(e.Key, nodeOperators[e.Operator], e.Values)
		if err != nil || !r.Matches(labels.Set(have)) {
			return false
		}
	}
	return true
}

// ControlPlaneTaint keeps ordinary Pods off the control plane, as it should.
var ControlPlaneTaint = NewPattern(`node-role\.kubernetes\.io/(control-plane|master)`)
