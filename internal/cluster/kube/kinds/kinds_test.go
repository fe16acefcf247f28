package kinds

import "testing"

func TestMeant(t *testing.T) {
	for word, want := range map[string]string{
		"deployment": "Deployment", "Deployments": "Deployment", "deploy": "Deployment", "PO": "Pod", "nodes": "Node",
		"sts": "StatefulSet", "Widget": "Widget", "": "",
		"deployment.apps": "Deployment", "Deployments.v1.apps": "Deployment", "deploy.apps": "Deployment", "deployment.extensions": "deployment.extensions", "pod.apps": "pod.apps",
	} {
		if k, _ := Meant(word); k.Name != want {
			t.Errorf("%q is %q, want %q", word, k.Name, want)
		}
	}
	if k, ok := Named("Deployment"); !ok || k.Resource() != "deployments.apps" {
		t.Errorf("a Deployment is %v, %t", k, ok)
	}
	if _, ok := Named("Widget"); ok {
		t.Error("a Widget is builtin")
	}
	if k, _ := Meant("node"); !k.ClusterWide {
		t.Error("a Node is not cluster-wide")
	}
}

func TestNearest(t *testing.T) {
	for word, want := range map[string]string{
		"deplyment": "deployment", "Deploymnet": "deployment", "deploymets": "deployment", "pdo": "pod", "statefullset": "statefulset", "nods": "node", "Widget": "", "": "",
	} {
		if got := Nearest(word); got != want {
			t.Errorf("%q may mean %q, want %q", word, got, want)
		}
	}
}

// TestTable looks for what would make one kind hide another.
func TestTable(t *testing.T) {
	seen := map[string]string{}
	once := func(what, name string) {
		if old, ok := seen[what]; ok {
			t.Errorf("%s is of %s and of %s", what, old, name)
		}
		seen[what] = name
	}
	for k := range All() {
		once("kind "+k.Name, k.Name)
		once("resource "+k.Resource(), k.Name)
		for _, short := range k.Shorts() {
			once("short name "+short, k.Name)
		}
		if k.Version == "" || k.Plural == "" || MustNamed(k.Name) != k {
			t.Errorf("row %+v", k)
		}
		if meant, known := Meant(k.Resource()); known != (k.Use == Read) || known && meant != k {
			t.Errorf("%s means %+v, %t", k.Resource(), meant, known)
		}
	}
}

func TestPath(t *testing.T) {
	odd := Kind{Group: "x/y", Version: "v1?", Plural: "../secrets"}
	for _, c := range []struct {
		kind     Kind
		ns, want string
	}{
		{MustNamed("Pod"), "", "/api/v1/pods"},
		{MustNamed("Pod"), "shop", "/api/v1/namespaces/shop/pods"},
		{MustNamed("Node"), "shop", "/api/v1/nodes"},
		{MustNamed("Deployment"), "a/b", "/apis/apps/v1/namespaces/a%2Fb/deployments"},
		{odd, "", "/apis/x%2Fy/v1%3F/..%2Fsecrets"},
	} {
		if got := c.kind.Path(c.ns); got != c.want {
			t.Errorf("%s in %q is at %s, want %s", c.kind.Name, c.ns, got, c.want)
		}
	}
}
