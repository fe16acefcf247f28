package rules

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"nightcrier.dev/nightcrier/internal/diagnose/internal/scene"
)

// misfitCause is why a node cannot take a Pod whatever else runs on it, "" when
// nothing certain speaks against it. It asks what the scheduler asks, in its
// order, and leaves out what depends on the other Pods.
func misfitCause(p *corev1.Pod, n *corev1.Node) string {
	switch {
	case n.Spec.Unschedulable && !toleratesTaint(p, corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}):
		return "unschedulable-cordoned"
	case untoleratedTaint(p, n) != nil:
		return "unschedulable-taint"
	case !selectsNode(p, n):
		return "unschedulable-selector"
	}
	return tooLarge(p, n)
}

// tooLarge is the resource of which a Pod requests more than the whole node has.
func tooLarge(p *corev1.Pod, n *corev1.Node) string {
	if len(n.Status.Allocatable) == 0 {
		return "" // nothing is known of its size
	}
	asked := podRequests(p)
	for _, name := range sortedNames(asked) {
		want, have := asked[name], n.Status.Allocatable[name]
		if want.Cmp(have) > 0 {
			return resourceCause(name)
		}
	}
	return ""
}

func resourceCause(name corev1.ResourceName) string {
	switch name {
	case corev1.ResourceCPU, corev1.ResourceMemory:
		return "unschedulable-" + string(name)
	}
	return "unschedulable-resource"
}

func sortedNames(list corev1.ResourceList) []corev1.ResourceName {
	var names []corev1.ResourceName
	for name := range list {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// podRequests is what the scheduler counts for a Pod: its containers together, or
// an init container alone if that asks for more.
func podRequests(p *corev1.Pod) corev1.ResourceList {
	total := corev1.ResourceList{}
	add := func(list corev1.ResourceList) {
		for name, q := range list {
			sum := total[name]
			sum.Add(q)
			total[name] = sum
		}
	}
	for _, c := range p.Spec.Containers {
		add(containerRequests(c))
	}
	for _, c := range p.Spec.InitContainers {
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			add(containerRequests(c)) // a sidecar stays
			continue
		}
		for name, q := range containerRequests(c) {
			if have := total[name]; q.Cmp(have) > 0 {
				total[name] = q
			}
		}
	}
	add(p.Spec.Overhead)
	return total
}

// containerRequests is what one container requests; a limit alone is a request as well.
func containerRequests(c corev1.Container) corev1.ResourceList {
	out := corev1.ResourceList{}
	for name, q := range c.Resources.Limits {
		out[name] = q
	}
	for name, q := range c.Resources.Requests {
		out[name] = q
	}
	return out
}

// largestAllocatable is the most of a resource that one of the nodes can give.
func largestAllocatable(nodes []scene.Read[corev1.Node], name corev1.ResourceName) resource.Quantity {
	var most resource.Quantity
	for _, n := range nodes {
		if have := n.Object.Status.Allocatable[name]; have.Cmp(most) > 0 {
			most = have
		}
	}
	return most
}

// untoleratedTaint is the first taint that keeps the Pod off the node.
func untoleratedTaint(p *corev1.Pod, n *corev1.Node) *corev1.Taint {
	for i, t := range n.Spec.Taints {
		// The node's own field tells of a cordon.
		if t.Effect != corev1.TaintEffectPreferNoSchedule && t.Key != corev1.TaintNodeUnschedulable && !toleratesTaint(p, t) {
			return &n.Spec.Taints[i]
		}
	}
	return nil
}

func toleratesTaint(p *corev1.Pod, taint corev1.Taint) bool {
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

// selectsNode reports whether the node matches the Pod's node selector and its
// required node affinity.
func selectsNode(p *corev1.Pod, n *corev1.Node) bool {
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
