package rules

import (
	"strings"
	"testing"

	"nightcrier.dev/nightcrier/internal/diagnose/internal/scenetest"
)

func scaler(conditions, more string) string {
	return `
{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {namespace: shop, name: cart, creationTimestamp: "2026-03-01T10:00:00Z"}, spec: {minReplicas: 1, maxReplicas: 3, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: cart}, metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 50}}}]}, status: {currentReplicas: 3, desiredReplicas: 3, conditions: [` + conditions + `]` + more + `}}
---
`
}

func scaled(resources string) string {
	return `{apiVersion: apps/v1, kind: Deployment, metadata: {namespace: shop, name: cart}, spec: {template: {spec: {containers: [{name: app, resources: {` + resources + `}}]}}}, status: {replicas: 1, readyReplicas: 1}}`
}

func TestAutoscalers(t *testing.T) {
	const asks = "requests: {cpu: 100m}"
	condition := func(kind, status, reason, message string) string {
		return `{type: ` + kind + `, status: "` + status + `", reason: ` + reason + `, message: '` + message + `', lastTransitionTime: "2026-03-01T11:00:00Z"}`
	}
	off := func(reason, message string) string { return condition("ScalingActive", "False", reason, message) }
	on := condition("ScalingActive", "True", "ValidMetricFound", "the HPA was able to successfully calculate a replica count")
	limited := condition("ScalingLimited", "True", "TooManyReplicas", "the desired replica count is more than the maximum replica count")
	at := func(percent string) string {
		return `, currentMetrics: [{type: Resource, resource: {name: cpu, current: {averageUtilization: ` + percent + `}}}]`
	}
	const noAPI = "the HPA was unable to compute the replica count: failed to get cpu utilization: unable to get metrics for resource cpu: unable to fetch metrics from resource metrics API: the server could not find the requested resource (get pods.metrics.k8s.io)"
	const noneYet = "the HPA was unable to compute the replica count: failed to get cpu utilization: unable to get metrics for resource cpu: no metrics returned from resource metrics API"
	checkAsked(t, []sceneCase{
		{"no metrics API", scaler(off("FailedGetResourceMetric", noAPI), "") + scaled(asks), "HPA", "cart", "hpa-metrics-unavailable", "get pods.metrics.k8s.io"},
		{"no metrics API: nothing to wait for", strings.NewReplacer("11:00:00", "11:59:50", "10:00:00", "11:59:40").Replace(scaler(off("FailedGetResourceMetric", noAPI), "")) + scaled(asks), "HPA", "cart", "hpa-metrics-unavailable", "get pods.metrics.k8s.io"},
		{"no external metric", scaler(off("FailedGetExternalMetric", "no metrics returned from external metrics API"), "") + scaled(asks), "HPA", "cart", "hpa-metrics-unavailable", ""},
		{"no metrics, only just", strings.Replace(scaler(off("FailedGetResourceMetric", noneYet), ""), "11:00:00", "11:59:30", 1) + scaled(asks), "HPA", "cart", "", ""},
		{"a new autoscaler", strings.Replace(scaler(off("FailedGetResourceMetric", noneYet), ""), "10:00:00", "11:59:00", 1) + scaled(asks), "HPA", "cart", "", ""},
		{"no requests, says the controller", scaler(off("FailedGetResourceMetric", "failed to get cpu utilization: missing request for cpu in container app of Pod cart-x"), "") + scaled(asks), "Deployment", "cart", "hpa-target-without-requests", "cpu in container app"},
		{"no requests, nobody says so", scaler("", "") + scaled(""), "Deployment", "cart", "hpa-target-without-requests", "cpu in container app"},
		{"a limit is a request", scaler("", "") + scaled("limits: {cpu: 1}"), "Deployment", "cart", "", ""},
		{"no requests, yet it works", scaler(on, "") + scaled(""), "Deployment", "cart", "", ""},
		{"well", scaler(on, "") + scaled(asks), "HPA", "cart", "", ""},
		{"off because its target is at zero", scaler(off("ScalingDisabled", "scaling is disabled since the replica count of the target is zero"), "") + scaled(asks), "HPA", "cart", "", ""},
		{"target missing", scaler(condition("AbleToScale", "False", "FailedGetScale", `deployments/scale.apps "cart" not found`), "") + `{apiVersion: v1, kind: ConfigMap, metadata: {namespace: shop, name: x}}`, "HPA", "cart", "hpa-target-missing", "Deployment shop/cart does not exist"},
		{"target absent from all Deployments", scaler("", "") + strings.ReplaceAll(scaled(asks), "name: cart", "name: kart"), "HPA", "cart", "hpa-target-missing", ""},
		{"at its limit", scaler(on+", "+limited, at("90")) + scaled(asks), "HPA", "cart", "hpa-at-limit", "cpu 90% of the requests, target 50%"},
		{"at its limit, which is enough", scaler(on+", "+limited, at("52")) + scaled(asks), "HPA", "cart", "", ""},
		{"at its limit, which is its only number", strings.Replace(scaler(on+", "+limited, at("90")), "minReplicas: 1", "minReplicas: 3", 1) + scaled(asks), "HPA", "cart", "", ""},
	})
}

func budget(status string) string {
	return `
{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {namespace: shop, name: cart}, spec: {minAvailable: 1, selector: {matchLabels: {app: cart}}}, status: {` + status + `}}
---
{apiVersion: v1, kind: Pod, metadata: {namespace: shop, name: cart-1, labels: {app: cart}}, spec: {nodeName: n1}, status: {phase: Running, conditions: [{type: Ready, status: "True"}]}}
---
`
}

func TestBudgets(t *testing.T) {
	const strict = "disruptionsAllowed: 0, currentHealthy: 1, desiredHealthy: 1, expectedPods: 1"
	node := func(unschedulable string) string {
		return `{apiVersion: v1, kind: Node, metadata: {name: n1}, spec: {unschedulable: ` + unschedulable + `, taints: [{key: node.kubernetes.io/unschedulable, effect: NoSchedule, timeAdded: "2026-03-01T11:00:00Z"}]}, status: {conditions: [{type: Ready, status: "True"}]}}`
	}
	other := "\n---\n" + `{apiVersion: v1, kind: Pod, metadata: {namespace: shop, name: web}, spec: {nodeName: n1}, status: {phase: Running, conditions: [{type: Ready, status: "True"}]}}`
	event := func(message, at string) string {
		return "\n---\n" + `{apiVersion: v1, kind: Event, metadata: {namespace: default, name: e}, reason: FailedDraining, message: '` + message + `', involvedObject: {kind: Node, name: n1}, lastTimestamp: "` + at + `"}`
	}
	const karpenter = `Cannot disrupt Node: pdb "shop/cart" prevents pod evictions`
	checkAsked(t, []sceneCase{
		{"only strict", budget(strict) + node("false"), "Node", "n1", "", ""},
		{"holds the last Pod of a drained node", budget(strict) + node("true"), "Node", "n1", "pdb-blocks-drain", "1 of 1 ready, 1 wanted"},
		{"cordoned, not drained", budget(strict) + node("true") + other, "Node", "n1", "", ""},
		{"cordoned just now", budget(strict) + strings.Replace(node("true"), "11:00:00", "11:59:00", 1), "Node", "n1", "", ""},
		{"somebody says so", budget(strict) + node("false") + event(karpenter, "2026-03-01T11:59:00Z"), "Node", "n1", "pdb-blocks-drain", "node n1"},
		{"the API server's words", budget(strict) + node("false") + event("failed to evict pod shop/cart-1: Cannot evict pod as it would violate the pod''s disruption budget.", "2026-03-01T11:59:00Z"), "Node", "n1", "pdb-blocks-drain", "node n1"},
		{"somebody said so once", budget(strict) + node("false") + event(karpenter, "2026-03-01T10:00:00Z"), "Node", "n1", "", ""},
		{"of another budget", budget(strict) + node("false") + event(strings.Replace(karpenter, "cart", "db", 1), "2026-03-01T11:59:00Z"), "Node", "n1", "", ""},
		{"gives way", budget("disruptionsAllowed: 1, currentHealthy: 2, desiredHealthy: 1, expectedPods: 2") + node("true"), "Node", "n1", "", ""},
	})
	unready := scenetest.New(t, strings.Replace(budget("disruptionsAllowed: 0, currentHealthy: 0, desiredHealthy: 1, expectedPods: 1"), `"True"`, `"False"`, 1)+node("true"))
	n := foundOf(ApplySceneRules(unready), "pdb-blocks-drain")
	if len(n) != 1 || len(n[0].DependsOn) != 1 || n[0].DependsOn[0].Name != "cart-1" {
		t.Errorf("the Pods that are not ready are the cause: %+v", n)
	}
}
