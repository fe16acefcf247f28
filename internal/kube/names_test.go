package kube

import "testing"

func TestKindOf(t *testing.T) {
	for word, want := range map[string]string{
		"deployment": "Deployment", "Deployments": "Deployment", "deploy": "Deployment", "PO": "Pod", "nodes": "Node",
		"sts": "StatefulSet", "Widget": "Widget", "": "",
	} {
		if got, _ := KindOf(word); got != want {
			t.Errorf("%q is %q, want %q", word, got, want)
		}
	}
	if r, ok := ResourceOf("Deployment"); !ok || r.String() != "deployments.apps" {
		t.Errorf("a Deployment is %v, %t", r, ok)
	}
	if _, ok := ResourceOf("Widget"); ok {
		t.Error("a Widget is builtin")
	}
	if _, wide := KindOf("node"); !wide {
		t.Error("a Node is not cluster-wide")
	}
}
