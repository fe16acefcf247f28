package rules

import (
	"strings"
	"testing"
)

// cartPod is a Pod of Deployment shop/cart with a specification and a status.
func cartPod(name, made, spec, status string) string {
	return `
{apiVersion: v1, kind: Pod, metadata: {namespace: shop, name: cart-6d5f4c3b2-` + name + `, creationTimestamp: "2026-03-01T` + made + `Z", labels: {app: cart, pod-template-hash: 6d5f4c3b2}, ownerReferences: [{kind: ReplicaSet, name: cart-6d5f4c3b2, controller: true}]}, spec: {` + spec + `}, status: {` + status + `}}
---
`
}

func cartReady(ready string) string {
	return `{apiVersion: apps/v1, kind: Deployment, metadata: {namespace: shop, name: cart, creationTimestamp: "2026-03-01T10:00:00Z"}, spec: {replicas: 1, selector: {matchLabels: {app: cart}}, template: {metadata: {labels: {app: cart}}, spec: {containers: [{name: app}]}}}, status: {replicas: 1, updatedReplicas: 1, readyReplicas: ` + ready + `}}`
}

func TestReadinessGates(t *testing.T) {
	const gate = "readinessGates: [{conditionType: target-health.elbv2.k8s.aws/cart}], containers: [{name: app}]"
	state := func(containers, gateStatus string) string {
		return `phase: Running, conditions: [{type: ContainersReady, status: "` + containers + `", lastTransitionTime: "2026-03-01T11:30:00Z"}, ` + gateStatus +
			`{type: Ready, status: "False", reason: ReadinessGatesNotReady, message: 'corresponding condition of pod readiness gate "target-health.elbv2.k8s.aws/cart" does not exist.'}], containerStatuses: [{name: app, ready: ` + map[string]string{"True": "true", "False": "false"}[containers] + `, started: true, state: {running: {startedAt: "2026-03-01T11:30:00Z"}}}]`
	}
	const no = `{type: target-health.elbv2.k8s.aws/cart, status: "False", reason: Target.FailedHealthChecks}, `
	checkAsked(t, []sceneCase{
		{"nobody sets it", cartPod("aaaaa", "11:30:00", gate, state("True", "")) + cartReady("0"), "Deployment", "cart", "readiness-gate-unmet", "target-health.elbv2.k8s.aws/cart"},
		{"set to False", cartPod("aaaaa", "11:30:00", gate, state("True", no)) + cartReady("0"), "Deployment", "cart", "readiness-gate-unmet", ""},
		{"only just ready", strings.Replace(cartPod("aaaaa", "11:30:00", gate, state("True", "")), `11:30:00Z"}, {type: Ready`, `11:59:00Z"}, {type: Ready`, 1) + cartReady("0"), "Deployment", "cart", "", ""},
		{"the containers are not ready either", strings.Replace(cartPod("aaaaa", "11:30:00", gate, state("False", "")), "started: true, ", "", 1) + cartReady("0"), "Deployment", "cart", "", ""},
		{"met", strings.Replace(strings.Replace(cartPod("aaaaa", "11:30:00", gate, state("True", no)), `"False"`, `"True"`, 2), `"False"`, `"True"`, 1) + cartReady("1"), "Deployment", "cart", "", ""},
	})
}

func TestRejectedForWhatNodesForbid(t *testing.T) {
	failed := func(reason, message string) string {
		return "phase: Failed, reason: " + reason + ", message: '" + message + "'"
	}
	const spec, running = "nodeName: n1, containers: [{name: app}]", `phase: Running, conditions: [{type: Ready, status: "True"}], containerStatuses: [{name: app, ready: true, state: {running: {}}}]`
	sysctl := failed("SysctlForbidden", `Pod was rejected: forbidden sysctl: "net.core.somaxconn" not allowlisted`)
	checkAsked(t, []sceneCase{
		{"sysctl", cartPod("aaaaa", "11:30:00", spec, sysctl) + cartReady("0"), "Deployment", "cart", "container-not-started", "net.core.somaxconn"},
		{"left behind, another runs", cartPod("aaaaa", "11:30:00", spec, sysctl) + cartPod("bbbbb", "11:31:00", spec, running) + cartReady("1"), "Deployment", "cart", "", ""},
		{"a node that shuts down", cartPod("aaaaa", "11:30:00", spec, failed("NodeShutdown", "Pod was rejected as the node is shutting down.")) + cartReady("0"), "Deployment", "cart", "", ""},
	})
}
