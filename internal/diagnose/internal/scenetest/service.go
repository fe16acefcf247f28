package scenetest

import "fmt"

// App8080 is the specification of a Pod that serves port 8080, called http.
const App8080 = "containers: [{name: app, ports: [{containerPort: 8080, name: http}]}]"

// DeploymentOf is a Deployment called name whose Pods have labels, with more of
// its Pod's spec.
func DeploymentOf(name, labels, spec string) string {
	return fmt.Sprintf(`{apiVersion: apps/v1, kind: Deployment, metadata: {namespace: shop, name: %[1]s, creationTimestamp: %[4]q}, spec: {replicas: 1, selector: {matchLabels: {%[2]s}}, template: {metadata: {labels: {%[2]s}}, spec: {%[3]s}}}}`, name, labels, spec, LongName)
}

// PodOf is a running Pod of Deployment name, ready or not.
func PodOf(name, labels, spec string, ready bool) string {
	return fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {namespace: shop, name: %[1]s-7d4b9c8f6d-x7k2p, creationTimestamp: %[5]q, labels: {%[2]s, pod-template-hash: 7d4b9c8f6d}, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: %[1]s-7d4b9c8f6d, controller: true, uid: u}]}, spec: {%[3]s}, status: {phase: Running, podIP: 10.0.0.9, conditions: [{type: Ready, status: %[6]q}], containerStatuses: [{name: app, ready: %[4]t, state: {running: {startedAt: %[5]q}}}]}}`,
		name, labels, spec, ready, LongName, map[bool]string{true: "True", false: "False"}[ready])
}

// PodNameOf is the name of the Pod that podOf makes.
func PodNameOf(name string) string { return name + "-7d4b9c8f6d-x7k2p" }

// WellPods is Deployment name with its ready Pod.
func WellPods(name, labels, spec string) string {
	return JoinDocs(DeploymentOf(name, labels, spec), PodOf(name, labels, spec, true))
}

// PolicyOf is a NetworkPolicy.
func PolicyOf(name, spec string) string {
	return fmt.Sprintf(`{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {namespace: shop, name: %s}, spec: {%s}}`, name, spec)
}
