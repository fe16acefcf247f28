package diagnose

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"nightcrier.dev/nightcrier"
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
		{"a namespace with something left", space(long, content), nil, []string{"finalizer-deadlock Namespace old"}},
		{"a claim", claim(long), nil, []string{"finalizer-deadlock PersistentVolumeClaim data"}},
		{"an object that an operator keeps", widget("example.com/cleanup", long), nil, []string{"finalizer-deadlock Widget w"}},
		{"a Pod with a finalizer", dying("example.com/hold", long), nil, []string{"finalizer-deadlock Pod cart-0"}},
		{"a Pod that does not end", dying("", long), nil, []string{"pod-stuck-terminating Pod cart-0"}},

		{"a namespace that was just deleted", space(short, content), nil, nil},
		{"a claim that was just deleted", claim(short), nil, nil},
		{"an object without finalizers", widget("", long), nil, nil},
		{"a finalizer, and no deletion", "{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {namespace: shop, name: data, finalizers: [kubernetes.io/pvc-protection]}, status: {phase: Bound}}", nil, nil},
		{"a Pod that is ending", dying("", short), nil, nil},
	})

	top := func(manifests string) Finding {
		for _, n := range applyScene(scenecase{manifests: manifests}.scene(t)) {
			if strings.HasSuffix(n.Cause, "deadlock") || strings.HasSuffix(n.Cause, "terminating") {
				return n
			}
		}
		t.Fatal("nothing is stuck")
		return Finding{}
	}
	if n := top(space(long, content+", "+stale)); !strings.Contains(n.Summary, "stale GroupVersion") || !slices.Contains(n.DependsOn, nightcrier.Object{Kind: "APIService", Name: "v1beta1.metrics.k8s.io"}) {
		t.Errorf("%q depends on %v", n.Summary, n.DependsOn)
	}
	if n := top(space(long, content)); !strings.Contains(n.Summary, "1h0m: finalizer kubernetes waits: Some resources are remaining: widgets.example.com") {
		t.Errorf("%q", n.Summary)
	}
	user := podOf("db", "app: db", "volumes: [{name: v, persistentVolumeClaim: {claimName: data}}]", true)
	if n := top(docs(claim(long), user)); !strings.Contains(n.Summary, podNameOf("db")) {
		t.Errorf("who uses the claim is not told: %q", n.Summary)
	}
	if n := top(dying("example.com/hold", long)); len(n.Affected) != 1 {
		t.Errorf("whose Pod it is is not told: %+v", n.Affected)
	}
	lost := []nightcrier.Object{{Kind: "Node", Name: "n1"}}
	for _, nodes := range []string{node("n1", "Unknown"), node("n2", "True")} {
		if n := top(docs(dying("", long), nodes)); n.Confidence != nightcrier.High || !slices.Equal(n.DependsOn, lost) {
			t.Errorf("%s depends on %v", n.Summary, n.DependsOn)
		}
	}
	if n := top(docs(dying("", long), node("n1", "True"))); len(n.DependsOn) != 0 {
		t.Errorf("its node is well, and it depends on %v", n.DependsOn)
	}
}
