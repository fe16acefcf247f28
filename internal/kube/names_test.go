package kube

import "testing"

func TestKindOf(t *testing.T) {
	for word, want := range map[string]string{
		"deployment": "Deployment", "Deployments": "Deployment", "deploy": "Deployment", "PO": "Pod", "nodes": "Node",
		"sts": "StatefulSet", "Widget": "Widget", "": "",
		"deployment.apps": "Deployment", "Deployments.v1.apps": "Deployment", "deploy.apps": "Deployment", "deployment.extensions": "deployment.extensions", "pod.apps": "pod.apps",
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

func TestNearestKind(t *testing.T) {
	for word, want := range map[string]string{
		"deplyment": "deployment", "Deploymnet": "deployment", "deploymets": "deployment", "pdo": "pod", "statefullset": "statefulset", "nods": "node", "Widget": "", "": "",
	} {
		if got := NearestKind(word); got != want {
			t.Errorf("%q may mean %q, want %q", word, got, want)
		}
	}
}
