package rules

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nightcrier.dev/nightcrier/internal/diagnose/internal/scenetest"
)

// sickNode is a node with one condition, and a Pod of Deployment cart on it.
func sickNode(kind, status, message string) string {
	return `
{apiVersion: v1, kind: Node, metadata: {name: n1}, status: {conditions: [{type: ` + kind + `, status: "` + status + `", reason: R, message: '` + message + `', lastTransitionTime: "2026-03-01T11:00:00Z"}]}}
---
{apiVersion: v1, kind: Pod, metadata: {namespace: shop, name: cart-1, ownerReferences: [{apiVersion: apps/v1, kind: StatefulSet, name: cart, controller: true}]}, spec: {nodeName: n1}, status: {phase: Running}}`
}

func TestNodeTrouble(t *testing.T) {
	for name, c := range map[string]struct{ kind, status, message, want string }{
		"stopped reporting":     {"Ready", "Unknown", "Kubelet stopped posting node status.", "node-unreachable"},
		"PLEG":                  {"Ready", "False", "PLEG is not healthy: pleg was last seen active 5m3s ago; threshold is 3m0s", "node-runtime-down"},
		"runtime":               {"Ready", "False", "[container runtime is down, PLEG is not healthy]", "node-runtime-down"},
		"runtime status":        {"Ready", "False", "container runtime status check may not have completed yet", "node-runtime-down"},
		"network plugin":        {"Ready", "False", "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:Network plugin returns error: cni plugin not initialized", "node-not-ready"},
		"shutting down":         {"Ready", "False", "node is shutting down", "node-not-ready"},
		"certificate":           {"Ready", "Unknown", "x509: certificate has expired or is not yet valid", "kubelet-certificate-expired"},
		"no route":              {"NetworkUnavailable", "True", "Node created without a route", "node-network-unavailable"},
		"route":                 {"NetworkUnavailable", "False", "RouteController created a route", ""},
		"disk":                  {"DiskPressure", "True", "kubelet has disk pressure", "node-disk-pressure"},
		"process ids":           {"PIDPressure", "True", "kubelet has insufficient PID available", "node-pid-pressure"},
		"memory":                {"MemoryPressure", "True", "kubelet has insufficient memory available", "node-memory-pressure"},
		"well":                  {"Ready", "True", "kubelet is posting ready status", ""},
		"what detectors report": {"FrequentKubeletRestart", "True", "x", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := scenetest.New(t, sickNode(c.kind, c.status, c.message))
			if c.want == "" {
				checkScene(t, s)
				return
			}
			checkScene(t, s, c.want+" Node n1")
			if on := ApplySceneRules(s)[0].Affected; len(on) != 1 || on[0].Name != "cart" {
				t.Errorf("affected %v", on)
			}
		})
	}
}

func TestNodesOfNobody(t *testing.T) {
	s := scenetest.New(t, sickNode("Ready", "Unknown", "Kubelet stopped posting node status."))
	s.Pods[0].Object.Status.Phase = corev1.PodSucceeded
	checkScene(t, s)
	s = scenetest.New(t, sickNode("Ready", "Unknown", "Kubelet stopped posting node status."))
	s.Nodes[0].Object.DeletionTimestamp = &metav1.Time{Time: scenetest.Now}
	checkScene(t, s)
}

const cordoned = `
{apiVersion: v1, kind: Node, metadata: {name: n1, labels: {disk: ssd}}, spec: {unschedulable: true}, status: {allocatable: {cpu: "8"}}}
---
{apiVersion: v1, kind: Node, metadata: {name: n2, labels: {disk: hdd}}, status: {allocatable: {cpu: "8"}}}
---
{apiVersion: v1, kind: Pod, metadata: {namespace: shop, name: cart, creationTimestamp: "2026-03-01T11:00:00Z"}, spec: {nodeSelector: {disk: ssd}}, status: {phase: Pending, conditions: [{type: PodScheduled, status: "False", message: "0/2 nodes are available: 1 node(s) were unschedulable, 1 node(s) didn't match Pod's node affinity/selector."}]}}`

func TestCordonedNodeThatAPodWaitsFor(t *testing.T) {
	s := scenetest.New(t, cordoned)
	checkScene(t, s, "node-drained Node n1") // nothing runs there
	if got := ApplyRules(inScene(s, "Pod", "cart")); got[0].Cause != "unschedulable-cordoned" || got[0].DependsOn[0].Name != "n1" {
		t.Errorf("the Pod's own finding: %+v", got)
	}
	stays := `
---
{apiVersion: v1, kind: Pod, metadata: {namespace: shop, name: db}, spec: {nodeName: n1}, status: {phase: Running, conditions: [{type: Ready, status: "True"}]}}`
	checkScene(t, scenetest.New(t, cordoned+stays), "node-cordoned Node n1")

	silent := strings.NewReplacer(`conditions: [{type: PodScheduled, status: "False", message: "0/2 nodes are available: 1 node(s) were unschedulable, 1 node(s) didn't match Pod's node affinity/selector."}]`, "conditions: []").Replace(cordoned)
	checkScene(t, scenetest.New(t, silent+stays), "node-cordoned Node n1")

	full := strings.Replace(cordoned, "1 node(s) didn't match Pod's node affinity/selector", "1 Insufficient cpu", 1)
	checkScene(t, scenetest.New(t, full)) // there is no room elsewhere: a cordon is how it is meant
	elsewhere := strings.Replace(cordoned, "nodeSelector: {disk: ssd}", "nodeSelector: {disk: nvme}", 1)
	checkScene(t, scenetest.New(t, elsewhere)) // it would not fit there either
	running := strings.Replace(cordoned, "nodeSelector: {disk: ssd}", "nodeName: n2", 1)
	checkScene(t, scenetest.New(t, running)) // nothing waits
}

func evictedPod(message string, ago time.Duration) *corev1.Pod {
	return scenetest.Pod(func(p *corev1.Pod) {
		p.Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Message: message}
		p.CreationTimestamp = metav1.NewTime(scenetest.Now.Add(-ago))
	})
}

const cartOf = `{apiVersion: apps/v1, kind: Deployment, metadata: {namespace: shop, name: cart}, spec: {replicas: 2}, status: {replicas: 2, readyReplicas: `

func TestEvictionIsHistoryOnceTheWorkloadIsWell(t *testing.T) {
	const memory, own = "The node was low on resource: memory.", `Usage of EmptyDir volume "data" exceeds the limit "1Mi".`
	for name, c := range map[string]struct {
		message string
		ago     time.Duration
		ready   string
		fires   bool
	}{
		"node short, Pods missing":             {memory, time.Minute, "1", true},
		"node short, all Pods back":            {memory, time.Minute, "2", false},
		"outgrown, all Pods back for now":      {own, time.Minute, "2", true},
		"outgrown, all Pods back for an hour":  {own, time.Hour, "2", false},
		"long ago, Pods missing for something": {memory, 72 * time.Hour, "1", false},
	} {
		f := scenetest.FactsOf(evictedPod(c.message, c.ago))
		f.Scene = scenetest.New(t, cartOf+c.ready+"}}")
		if got := foundOf(ApplyRules(f), "pod-evicted"); len(got) > 0 != c.fires {
			t.Errorf("%s: %+v", name, got)
		}
	}
	bare := ownedBy(scenetest.FactsOf(evictedPod(memory, 72*time.Hour)), "Pod", "cart")
	if got := foundOf(ApplyRules(bare), "pod-evicted"); len(got) != 1 || got[0].DependsOn[0].Name != "n1" {
		t.Errorf("a Pod that nobody makes again: %+v", got)
	}
}

func TestPreempted(t *testing.T) {
	event := func(message, more string) string {
		return `
---
{apiVersion: v1, kind: Event, metadata: {namespace: shop, name: e}, reason: Preempted, message: '` + message + `', involvedObject: {kind: Pod, namespace: shop, name: cart-6d4f-x7k2p}, lastTimestamp: "2026-03-01T11:58:00Z"` + more + `}`
	}
	cart := func(name, more string) string {
		return `
---
{apiVersion: v1, kind: Pod, metadata: {namespace: shop, name: cart-6d4f-` + name + `, labels: {pod-template-hash: 6d4f}, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: cart-6d4f, controller: true}]` + more
	}
	victim := cart("x7k2p", `, deletionTimestamp: "2026-03-01T12:00:01Z"}, spec: {nodeName: n1}, status: {phase: Running, conditions: [
  {type: Ready, status: "True"}, {type: DisruptionTarget, status: "True", reason: PreemptionByScheduler, message: 'default-scheduler: preempting to accommodate a higher priority pod'}]}}`)
	waits := cart("q9w8e", `}, status: {phase: Pending}}`)
	ready := cart("a1b2c", `}, spec: {nodeName: n2}, status: {phase: Running, conditions: [{type: Ready, status: "True"}]}}`)
	for name, c := range map[string]struct{ objects, says string }{
		"by a name":    {event("Preempted by shop/important on node n1", ""), "Pod shop/important"},
		"by a uid":     {event("Preempted by pod 0-1-2 on node n1", "") + "\n---\n" + `{apiVersion: v1, kind: Pod, metadata: {namespace: prod, name: big, uid: 0-1-2}, status: {phase: Running, conditions: [{type: Ready, status: "True"}]}}`, "Pod prod/big"},
		"by a related": {event("Preempted by a pod on node n1", ", related: {kind: Pod, namespace: prod, name: huge}"), "Pod prod/huge"},
		"by nobody":    {event("Preempted by a pod on node n1", ""), "higher priority"},
		"no Event yet": {victim, "higher priority; what replaces it is not ready yet"},
		"and waits":    {victim + waits, "higher priority; what replaces it has no node"},
		"not counted":  {victim + ready + waits, "higher priority; what replaces it has no node"},
	} {
		counted := "1}}"
		if name == "not counted" { // out yet, by the controller
			counted = "2}}"
		}
		f := inScene(scenetest.New(t, cartOf+counted+c.objects), "Deployment", "cart")
		got := foundOf(ApplyRules(f), "pod-preempted")
		if len(got) != 1 || !strings.Contains(got[0].Summary, c.says) {
			t.Errorf("%s: %+v", name, got)
			continue
		}
		scenetest.CheckFinding(t, got[0])
	}
	if got := foundOf(ApplyRules(inScene(scenetest.New(t, cartOf+"2}}"+event("Preempted by shop/important on node n1", "")), "Deployment", "cart")), "pod-preempted"); len(got) > 0 {
		t.Errorf("back again: %+v", got)
	}
	if got := foundOf(ApplyRules(inScene(scenetest.New(t, cartOf+"2}}"+victim+ready+strings.Replace(ready, "a1b2c", "d3e4f", 1)), "Deployment", "cart")), "pod-preempted"); len(got) > 0 {
		t.Errorf("replaced while it ends: %+v", got)
	}
	if got := foundOf(ApplyRules(inScene(scenetest.New(t, strings.Replace(cartOf, "cart", "car", 1)+"1}}"+event("Preempted by shop/important on node n1", "")), "Deployment", "car")), "pod-preempted"); len(got) > 0 {
		t.Errorf("another's Pod: %+v", got)
	}
}
