package eval

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// node makes a healthy node, or what a document {node: name, patch: {…}} makes
// of it; {node: name, notReady: message} is one whose kubelet has fallen silent
// or complains.
func (s *stage) node(doc map[string]any) error {
	filled, err := moments(doc, s.fill)
	if err != nil {
		return err
	}
	var n struct {
		Node    string         `json:"node"`
		Age     string         `json:"age,omitempty"`
		Silent  string         `json:"silent,omitempty"` // how long the kubelet has said nothing
		Patch   map[string]any `json:"patch,omitempty"`
		Absent  bool           `json:"absent,omitempty"`
		Events  []string       `json:"events,omitempty"`
		Version string         `json:"version,omitempty"`
	}
	if err := into(filled.(map[string]any), &n); err != nil {
		return err
	}
	if n.Version == "" {
		n.Version = "v1.34.2"
	}
	age := 90 * 24 * time.Hour
	if n.Age != "" {
		if age, err = span(n.Age); err != nil {
			return err
		}
	}
	node := healthyNode(n.Node, n.Version, age)
	if n.Silent != "" {
		silent, err := span(n.Silent)
		if err != nil {
			return err
		}
		fallSilent(node, silent)
	}
	if n.Patch != nil {
		if err := patched(node, n.Patch); err != nil {
			return err
		}
	}
	for _, line := range n.Events {
		if err := s.event(about{kind: "Node", name: n.Node, host: n.Node}, line); err != nil {
			return err
		}
	}
	for _, have := range s.nodes {
		if have == n.Node {
			return s.typed(node)
		}
	}
	s.nodes = append(s.nodes, n.Node)
	return s.typed(node)
}

func healthyNode(name, version string, age time.Duration) *corev1.Node {
	condition := func(kind corev1.NodeConditionType, status corev1.ConditionStatus, reason, message string) corev1.NodeCondition {
		return corev1.NodeCondition{Type: kind, Status: status, Reason: reason, Message: message,
			LastHeartbeatTime: at(40 * time.Second), LastTransitionTime: at(age)}
	}
	have := corev1.ResourceList{"cpu": quantity("4"), "memory": quantity("8Gi"), "pods": quantity("110"), "ephemeral-storage": quantity("80Gi")}
	free := corev1.ResourceList{"cpu": quantity("3920m"), "memory": quantity("7600Mi"), "pods": quantity("110"), "ephemeral-storage": quantity("72Gi")}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: at(age), Labels: map[string]string{
			"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
			"topology.kubernetes.io/zone": "eu-1" + string(rune('a'+len(name)%2)), "node.kubernetes.io/instance-type": "m5.xlarge",
		}},
		Spec: corev1.NodeSpec{PodCIDR: "10.244.1.0/24", ProviderID: "example://" + name},
		Status: corev1.NodeStatus{
			Capacity: have, Allocatable: free,
			Conditions: []corev1.NodeCondition{
				condition(corev1.NodeMemoryPressure, corev1.ConditionFalse, "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
				condition(corev1.NodeDiskPressure, corev1.ConditionFalse, "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
				condition(corev1.NodePIDPressure, corev1.ConditionFalse, "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
				condition(corev1.NodeReady, corev1.ConditionTrue, "KubeletReady", "kubelet is posting ready status"),
			},
			Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.168.10.11"}, {Type: corev1.NodeHostName, Address: name}},
			NodeInfo: corev1.NodeSystemInfo{KubeletVersion: version, ContainerRuntimeVersion: "containerd://2.1.4", OperatingSystem: "linux",
				Architecture: "amd64", KernelVersion: "6.8.0-71-generic", OSImage: "Ubuntu 24.04.2 LTS"},
		},
	}
}

// fallSilent is what the node controller makes of a node that says nothing.
func fallSilent(n *corev1.Node, silent time.Duration) {
	noticed := at(silent - min(silent/2, 40*time.Second))
	for i := range n.Status.Conditions {
		c := &n.Status.Conditions[i]
		c.Status, c.Reason, c.Message = corev1.ConditionUnknown, "NodeStatusUnknown", "Kubelet stopped posting node status."
		c.LastHeartbeatTime, c.LastTransitionTime = at(silent), noticed
	}
	for _, effect := range []corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute} {
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: corev1.TaintNodeUnreachable, Effect: effect, TimeAdded: &noticed})
	}
}

// endpointSlices makes what the endpoints controller makes of all Services.
func (s *stage) endpointSlices() error {
	var pods []corev1.Pod
	var services []corev1.Service
	for _, u := range s.objects {
		switch u.GetKind() {
		case "Pod":
			var p corev1.Pod
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &p); err != nil {
				return fmt.Errorf("pod %s: %w", u.GetName(), err)
			}
			pods = append(pods, p)
		case "Service":
			var svc corev1.Service
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &svc); err != nil {
				return fmt.Errorf("service %s: %w", u.GetName(), err)
			}
			services = append(services, svc)
		}
	}
	for _, svc := range services {
		if len(svc.Spec.Selector) == 0 || svc.Spec.Type == corev1.ServiceTypeExternalName {
			continue
		}
		if err := s.typed(sliceOf(svc, pods)); err != nil {
			return err
		}
	}
	return nil
}

func sliceOf(svc corev1.Service, pods []corev1.Pod) *discoveryv1.EndpointSlice {
	yes := true
	out := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Name: svc.Name + "-" + suffix(5, svc.Namespace, svc.Name), Namespace: svc.Namespace,
			CreationTimestamp: svc.CreationTimestamp, Labels: map[string]string{discoveryv1.LabelServiceName: svc.Name,
				discoveryv1.LabelManagedBy: "endpointslice-controller.k8s.io"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Service", Name: svc.Name,
				UID: uidOf("Service", svc.Namespace, svc.Name), Controller: &yes, BlockOwnerDeletion: &yes}}},
		AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{},
	}
	sel := labels.SelectorFromSet(svc.Spec.Selector)
	for _, p := range pods {
		if p.Namespace != svc.Namespace || !sel.Matches(labels.Set(p.Labels)) || p.Status.PodIP == "" ||
			p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
			continue
		}
		ready := svc.Spec.PublishNotReadyAddresses
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
				ready = true
			}
		}
		no := false
		node := p.Spec.NodeName
		out.Endpoints = append(out.Endpoints, discoveryv1.Endpoint{Addresses: []string{p.Status.PodIP},
			Conditions: discoveryv1.EndpointConditions{Ready: &ready, Serving: &ready, Terminating: &no}, NodeName: &node,
			TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: p.Namespace, Name: p.Name, UID: uidOf("Pod", p.Namespace, p.Name)}})
		if out.Ports == nil {
			out.Ports = slicePorts(svc, p)
		}
	}
	return out
}

// slicePorts finds the container ports that a Service sends to.
func slicePorts(svc corev1.Service, p corev1.Pod) []discoveryv1.EndpointPort {
	ports := []discoveryv1.EndpointPort{}
	for _, port := range svc.Spec.Ports {
		number := port.TargetPort.IntVal
		if port.TargetPort.Type == intstr.String {
			for _, c := range p.Spec.Containers {
				for _, cp := range c.Ports {
					if cp.Name == port.TargetPort.StrVal {
						number = cp.ContainerPort
					}
				}
			}
		} else if number == 0 {
			number = port.Port
		}
		if number == 0 {
			continue // no container has a port of that name
		}
		name, protocol := port.Name, port.Protocol
		if protocol == "" {
			protocol = corev1.ProtocolTCP
		}
		ports = append(ports, discoveryv1.EndpointPort{Name: &name, Port: &number, Protocol: &protocol})
	}
	return ports
}
