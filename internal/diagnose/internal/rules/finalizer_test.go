package rules

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scene"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scenetest"
)

func TestStuckInDeletion(t *testing.T) {
	space := func(at, conditions string) string {
		return fmt.Sprintf(`{apiVersion: v1, kind: Namespace, metadata: {name: old, deletionTimestamp: %q}, spec: {finalizers: [kubernetes]}, status: {phase: Terminating, conditions: [%s]}}`, at, conditions)
	}
	const content = `{type: NamespaceContentRemaining, status: "True", message: "Some resources are remaining: widgets.example.com has 1 resource instances"}`
	const stale = `{type: NamespaceDeletionDiscoveryFailure, status: "True", message: "Discovery failed for some groups, 1 failing: unable to retrieve the complete list of server APIs: metrics.k8s.io/v1beta1: stale GroupVersion discovery: metrics.k8s.io/v1beta1"}`
	meta := func(name, finalizers, at string) string {
		return fmt.Sprintf(`metadata: {namespace: shop, name: %s, finalizers: [%s], deletionTimestamp: %q}`, name, finalizers, at)
	}
	claim := func(at string) string {
		return "{apiVersion: v1, kind: PersistentVolumeClaim, " + meta("data", "kubernetes.io/pvc-protection", at) + ", status: {phase: Bound}}"
	}
	widget := func(finalizers, at string) string {
		return "{apiVersion: example.com/v1, kind: Widget, " + meta("w", finalizers, at) + "}"
	}
	dying := func(finalizers, at string) string {
		return "{apiVersion: v1, kind: Pod, " + meta("cart-0", finalizers, at) + ", spec: {nodeName: n1}, status: {phase: Running}}"
	}
	node := func(name, ready string) string {
		return fmt.Sprintf(`{apiVersion: v1, kind: Node, metadata: {name: %s}, status: {conditions: [{type: Ready, status: %q}]}}`, name, ready)
	}
	checkScenes(t, []scenecase{
		{"a namespace with something left", space(scenetest.LongName, content), nil, []string{"finalizer-deadlock Namespace old"}},
		{"a claim", claim(scenetest.LongName), nil, []string{"finalizer-deadlock PersistentVolumeClaim data"}},
		{"an object that an operator keeps", widget("example.com/cleanup", scenetest.LongName), nil, []string{"finalizer-deadlock Widget w"}},
		{"a Pod with a finalizer", dying("example.com/hold", scenetest.LongName), nil, []string{"finalizer-deadlock Pod cart-0"}},
		{"a Pod that does not end", dying("", scenetest.LongName), nil, []string{"pod-stuck-terminating Pod cart-0"}},

		{"a namespace that was just deleted", space(scenetest.Short, content), nil, nil},
		{"a claim that was just deleted", claim(scenetest.Short), nil, nil},
		{"an object without finalizers", widget("", scenetest.LongName), nil, nil},
		{"a finalizer, and no deletion", "{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {namespace: shop, name: data, finalizers: [kubernetes.io/pvc-protection]}, status: {phase: Bound}}", nil, nil},
		{"a Pod that is ending", dying("", scenetest.Short), nil, nil},
	})

	top := func(manifests string) scene.Finding {
		for _, n := range ApplySceneRules(scenecase{manifests: manifests}.scene(t)) {
			if strings.HasSuffix(n.Cause, "deadlock") || strings.HasSuffix(n.Cause, "terminating") {
				return n
			}
		}
		t.Fatal("nothing is stuck")
		return scene.Finding{}
	}
	if n := top(space(scenetest.LongName, content+", "+stale)); !strings.Contains(n.Summary, "stale GroupVersion") || !slices.Contains(n.DependsOn, nightcrier.Object{Kind: "APIService", Name: "v1beta1.metrics.k8s.io"}) {
		t.Errorf("%q depends on %v", n.Summary, n.DependsOn)
	}
	if n := top(space(scenetest.LongName, content)); !strings.Contains(n.Summary, "1h0m: finalizer kubernetes waits: Some resources are remaining: widgets.example.com") {
		t.Errorf("%q", n.Summary)
	}
	user := scenetest.PodOf("db", "app: db", "volumes: [{name: v, persistentVolumeClaim: {claimName: data}}]", true)
	if n := top(scenetest.JoinDocs(claim(scenetest.LongName), user)); !strings.Contains(n.Summary, scenetest.PodNameOf("db")) {
		t.Errorf("who uses the claim is not told: %q", n.Summary)
	}
	if n := top(dying("example.com/hold", scenetest.LongName)); len(n.Affected) != 1 {
		t.Errorf("whose Pod it is is not told: %+v", n.Affected)
	}
	lost := []nightcrier.Object{{Kind: "Node", Name: "n1"}}
	for _, nodes := range []string{node("n1", "Unknown"), node("n2", "True")} {
		if n := top(scenetest.JoinDocs(dying("", scenetest.LongName), nodes)); n.Confidence != nightcrier.High || !slices.Equal(n.DependsOn, lost) {
			t.Errorf("%s depends on %v", n.Summary, n.DependsOn)
		}
	}
	if n := top(scenetest.JoinDocs(dying("", scenetest.LongName), node("n1", "True"))); len(n.DependsOn) != 0 {
		t.Errorf("its node is well, and it depends on %v", n.DependsOn)
	}
}
