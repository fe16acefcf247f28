package rules

import (
	"fmt"
	"strings"
	"testing"

	"nightcrier.dev/nightcrier/internal/diagnose/internal/scenetest"
)

// failedPod is a Pod of Deployment cart that its node gave up or never took.
func failedPod(name, reason, message, at string) string {
	return fmt.Sprintf(`
---
{apiVersion: v1, kind: Pod, metadata: {namespace: shop, name: cart-5d4f8c7b9d-%s, creationTimestamp: %q, labels: {app: cart, pod-template-hash: 5d4f8c7b9d}, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: cart-5d4f8c7b9d, uid: u, controller: true}]}, spec: {nodeName: n1, containers: [{name: app}]}, status: {phase: Failed, reason: %s, message: %q, startTime: %q}}`, name, at, reason, message, at)
}

func TestRejectedByTheKubelet(t *testing.T) {
	const lacks, has = "observedGeneration: 1, replicas: 0", "observedGeneration: 1, replicas: 1, readyReplicas: 1"
	const cpu = "Pod was rejected: Node didn't have enough resource: cpu, requested: 3000, used: 2150, capacity: 3920"
	cart := func(status, reason, message, at string) string {
		return strings.TrimSpace(scenetest.CartDeployment("replicas: 1,", status)) + failedPod("aaaaa", reason, message, at)
	}
	const justNow, yesterday = "2026-03-01T11:59:00Z", "2026-02-28T12:00:00Z"
	checkAsked(t, []sceneCase{
		{"no processors", cart(lacks, "OutOfcpu", cpu, justNow), "Deployment", "cart", "unschedulable-cpu", "requested: 3000"},
		{"no memory, in older words", cart(lacks, "OutOfmemory", "Node didn't have enough resource: memory, requested: 9, used: 5, capacity: 8", justNow), "Deployment", "cart", "unschedulable-memory", "node n1"},
		{"too many Pods", cart(lacks, "OutOfpods", "Node didn't have enough resource: pods, requested: 1, used: 110, capacity: 110", justNow), "Deployment", "cart", "unschedulable-pod-limit", ""},
		{"a resource of its own", cart(lacks, "OutOfnvidia.com/gpu", "Node didn't have enough resource: nvidia.com/gpu, requested: 1, used: 1, capacity: 1", justNow), "Deployment", "cart", "unschedulable-resource", "gpu"},
		{"labels", cart(lacks, "NodeAffinity", "Pod was rejected: Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector", justNow), "Deployment", "cart", "unschedulable-selector", ""},
		{"ports", cart(lacks, "NodePorts", "Pod was rejected: Predicate NodePorts failed", justNow), "Deployment", "cart", "unschedulable-port", ""},
		{"a device", cart(lacks, "UnexpectedAdmissionError", "Pod was rejected: Allocate failed due to no healthy devices present; cannot allocate unhealthy devices nvidia.com/gpu, which is unexpected", justNow), "Deployment", "cart", "unschedulable-other", "no healthy devices"},
		{"another one was taken", cart(has, "OutOfcpu", cpu, justNow), "Deployment", "cart", "", ""},
		{"long ago", cart(lacks, "OutOfcpu", cpu, yesterday), "Deployment", "cart", "", ""},
		{"the node was going down", cart(lacks, "NodeShutdown", "Pod was rejected: Pod was rejected as the node is shutting down.", justNow), "Deployment", "cart", "", ""},
	})
}

func TestEvictedAgainAndAgain(t *testing.T) {
	const memory = "The node was low on resource: memory. Container app was using 6Gi, request is 256Mi."
	well := strings.TrimSpace(scenetest.CartDeployment("replicas: 1,", "observedGeneration: 1, replicas: 1, readyReplicas: 1"))
	at := func(times ...string) string {
		out := well
		for i, at := range times {
			out += failedPod(fmt.Sprintf("aaaa%d", i+2), "Evicted", memory, "2026-03-01T"+at+"Z")
		}
		return out
	}
	checkAsked(t, []sceneCase{
		{"three in an hour", at("11:57:00", "11:30:00", "11:00:00"), "Deployment", "cart", "pod-evicted", "3 Pods"},
		{"once is an accident", at("11:57:00"), "Deployment", "cart", "", ""},
		{"three in a day", at("11:57:00", "06:00:00", "00:10:00"), "Deployment", "cart", "", ""},
		{"three in an hour, and the next has held", at("11:30:00", "11:00:00", "10:30:00"), "Deployment", "cart", "", ""},
		{"of another workload", strings.Replace(at("11:57:00", "11:30:00", "11:00:00"), "name: cart,", "name: kart,", 1), "Deployment", "kart", "", ""},
	})
}
