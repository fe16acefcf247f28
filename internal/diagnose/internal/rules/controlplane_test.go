package rules

import (
	"strings"
	"testing"

	"nightcrier.dev/nightcrier/internal/diagnose/internal/scenetest"
)

const scheduler = `
{apiVersion: v1, kind: Pod, metadata: {namespace: kube-system, name: kube-scheduler-cp1, labels: {component: kube-scheduler, tier: control-plane}, creationTimestamp: "2026-03-01T10:00:00Z"}, spec: {nodeName: cp1, containers: [{name: kube-scheduler}]}, status: {phase: Running, conditions: [{type: Ready, status: "False"}], containerStatuses: [{name: kube-scheduler, restartCount: 9, state: {waiting: {reason: CrashLoopBackOff}}, lastState: {terminated: {exitCode: 1}}}]}}
`

func TestControlPlane(t *testing.T) {
	waits := "---" + `
{apiVersion: v1, kind: Pod, metadata: {namespace: shop, name: cart}, spec: {containers: [{name: app}]}, status: {phase: Pending}}`
	s := scenetest.New(t, scheduler+waits)
	checkScene(t, s, "control-plane-unhealthy Pod kube-scheduler-cp1")
	n := ApplySceneRules(s)[0]
	if len(n.Affected) != 1 || n.Affected[0].Name != "cart" || !strings.Contains(n.Summary, "exit code 1") {
		t.Errorf("%+v", n)
	}
	well := strings.NewReplacer(`"False"`, `"True"`).Replace(scheduler)
	checkScene(t, scenetest.New(t, well))
	other := strings.NewReplacer("kube-system", "shop").Replace(scheduler)
	checkScene(t, scenetest.New(t, other)) // a Pod that only calls itself so
}

func TestLeases(t *testing.T) {
	const lease = `{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {namespace: kube-system, name: kube-controller-manager}, spec: {holderIdentity: cp1, renewTime: "2026-03-01T11:00:00.000000Z"}}`
	checkScene(t, scenetest.New(t, lease), "control-plane-unhealthy Lease kube-controller-manager")
	checkScene(t, scenetest.New(t, strings.Replace(lease, "11:00:00", "11:59:55", 1)))
	checkScene(t, scenetest.New(t, strings.Replace(lease, "kube-controller-manager", "my-operator", 1)))
}

func TestClusterNetwork(t *testing.T) {
	const proxy = `
{apiVersion: apps/v1, kind: DaemonSet, metadata: {namespace: kube-system, name: kube-proxy, creationTimestamp: "2026-03-01T10:00:00Z"}, status: {desiredNumberScheduled: 2, currentNumberScheduled: 2, numberReady: 1}}
---
{apiVersion: v1, kind: Pod, metadata: {namespace: kube-system, name: kube-proxy-x, creationTimestamp: "2026-03-01T10:00:00Z", ownerReferences: [{apiVersion: apps/v1, kind: DaemonSet, name: kube-proxy, controller: true}]}, spec: {nodeName: n1}, status: {phase: Running}}
---
{apiVersion: v1, kind: Node, metadata: {name: n1}, status: {conditions: [{type: Ready, status: "True"}]}}`
	checkScene(t, scenetest.New(t, proxy), "cluster-network-unhealthy DaemonSet kube-proxy")
	if n := ApplySceneRules(scenetest.New(t, proxy))[0]; n.Affected[0].Name != "n1" || !strings.Contains(n.Summary, "1 of 2 nodes, not on n1") {
		t.Errorf("%+v", n)
	}
	checkScene(t, scenetest.New(t, strings.Replace(proxy, "numberReady: 1", "numberReady: 2", 1)))
	checkScene(t, scenetest.New(t, strings.ReplaceAll(proxy, "kube-proxy", "log-shipper")))
	// A node that is gone takes its Pod with it.
	for _, f := range ApplySceneRules(scenetest.New(t, strings.Replace(proxy, `status: "True"`, `status: Unknown`, 1))) {
		if f.Cause == "cluster-network-unhealthy" {
			t.Errorf("%+v", f)
		}
	}
}

func TestAPIService(t *testing.T) {
	const away = `
{apiVersion: apiregistration.k8s.io/v1, kind: APIService, metadata: {name: v1beta1.metrics.k8s.io}, spec: {service: {namespace: kube-system, name: metrics-server}}, status: {conditions: [{type: Available, status: "False", reason: MissingEndpoints, message: endpoints for service/metrics-server in "kube-system" have no addresses, lastTransitionTime: "2026-03-01T11:00:00Z"}]}}
---
{apiVersion: v1, kind: Service, metadata: {namespace: kube-system, name: metrics-server}, spec: {type: ExternalName, externalName: x.example.com}}`
	s := scenetest.New(t, away)
	checkScene(t, s, "api-service-unavailable APIService v1beta1.metrics.k8s.io")
	if n := ApplySceneRules(s)[0]; n.DependsOn[0].Name != "metrics-server" {
		t.Errorf("%+v", n)
	}
	checkScene(t, scenetest.New(t, strings.Replace(away, `"False"`, `"True"`, 1)))
	checkScene(t, scenetest.New(t, strings.Replace(away, "11:00:00", "11:59:50", 1)))
}
