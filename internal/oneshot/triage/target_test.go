package triage

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/cluster/kube/kinds"
	"nightcrier.dev/nightcrier/internal/cluster/snapshot"
)

func TestParseTarget(t *testing.T) {
	for said, tt := range map[string]struct {
		namespace string
		want      nightcrier.Resource
		says      string
	}{
		"deployment/cart":              {"shop", nightcrier.Resource{Kind: "Deployment", Namespace: "shop", Name: "cart"}, ""},
		"deployment cart":              {"", nightcrier.Resource{Kind: "Deployment", Name: "cart"}, ""},
		"deploy cart":                  {"", nightcrier.Resource{Kind: "Deployment", Name: "cart"}, ""},
		"Pods x":                       {"", nightcrier.Resource{Kind: "Pod", Name: "x"}, ""},
		"po/x":                         {"", nightcrier.Resource{Kind: "Pod", Name: "x"}, ""},
		"deployment.apps/cart":         {"", nightcrier.Resource{Kind: "Deployment", Name: "cart"}, ""},
		"shop/Deployment/cart":         {"", nightcrier.Resource{Kind: "Deployment", Namespace: "shop", Name: "cart"}, ""},
		"Deployment shop/cart":         {"shop", nightcrier.Resource{Kind: "Deployment", Namespace: "shop", Name: "cart"}, ""},
		"deployment/deployment":        {"", nightcrier.Resource{Kind: "Deployment", Name: "deployment"}, ""},
		"Deployment/shop/cart":         {"pay", nightcrier.Resource{}, "in namespace shop, and -n names pay"},
		"deplyment/cart":               {"", nightcrier.Resource{}, "did you mean deployment/cart?"},
		"deplyment cart":               {"", nightcrier.Resource{}, "did you mean deployment/cart?"},
		"statfulset/db":                {"", nightcrier.Resource{}, "did you mean statefulset/db?"},
		"certificate/web":              {"", nightcrier.Resource{Kind: "certificate", Name: "web"}, ""}, // the cluster knows whether there are any
		"pods":                         {"", nightcrier.Resource{}, "KIND/NAME, such as pods/NAME, or look at all of a namespace with -n NAMESPACE"},
		"cart":                         {"", nightcrier.Resource{}, `"cart" is not KIND/NAME`},
		"deployment/":                  {"", nightcrier.Resource{}, "which one?"},
		"/cart":                        {"", nightcrier.Resource{}, "not KIND/NAME"},
		"a/b/c":                        {"", nightcrier.Resource{}, "not KIND/NAME"},
		"deployment cart shop":         {"", nightcrier.Resource{}, "not KIND/NAME"},
		"deployment/../secrets":        {"", nightcrier.Resource{}, `".." cannot be the name of a namespace`},
		"deployment/cart\x1b]0;owned":  {"", nightcrier.Resource{}, "cannot be the name of a Deployment"},
		"deployment/" + "a/b/c/d/e/f/": {"", nightcrier.Resource{}, `"a/b/c/d/e/f/" cannot be the name of a Deployment`},
		"deploy/ca rt":                 {"", nightcrier.Resource{}, `"ca rt" cannot be the name of a Deployment`},
		"shop/Deployment/Cart":         {"", nightcrier.Resource{}, "; did you mean deployment/cart?"},
		"deploy/cart_1":                {"", nightcrier.Resource{}, "cannot be the name of a Deployment"},
		"deploy/cart ":                 {"Sh_op", nightcrier.Resource{}, `-n: "Sh_op" cannot be`},
	} {
		got, err := ParseTarget(strings.Split(said, " "), tt.namespace)
		switch {
		case tt.says == "" && (err != nil || got != tt.want):
			t.Errorf("%q is %+v, %v", said, got, err)
		case tt.says != "" && (nightcrier.CodeOf(err) != nightcrier.Invalid || !strings.Contains(err.Error(), tt.says)):
			t.Errorf("%q: %v", said, err)
		}
	}
}

// small is a cluster of two namespaces, all of which was recorded.
const small = `{"kind": "List", "apiVersion": "v1", "items": [
	{"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "shop"}}, {"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "pay"}},
	{"kind": "Node", "apiVersion": "v1", "metadata": {"name": "worker-1"}},
	{"kind": "Deployment", "apiVersion": "apps/v1", "metadata": {"name": "catalog", "namespace": "shop"}},
	{"kind": "Deployment", "apiVersion": "apps/v1", "metadata": {"name": "cart", "namespace": "shop"}},
	{"kind": "StatefulSet", "apiVersion": "apps/v1", "metadata": {"name": "ledger", "namespace": "pay"}},
	{"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "cart-7d4b9c8f6d-x2x7q", "namespace": "shop"}}]}`

// TestWhatWasMeant: the names of what there is are offered for one that there is not.
func TestWhatWasMeant(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "all.json"), []byte(small), 0o600); err != nil {
		t.Fatal(err)
	}
	snap, err := snapshot.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	for said, says := range map[string]string{
		"shop/Deployment/crat":    "; did you mean deployment/cart?",
		"shop/Pod/cart":           "; did you mean pod/cart-7d4b9c8f6d-x2x7q?",
		"shop/Deployment/zzz":     "; there are deployment/cart, deployment/catalog",
		"shop/StatefulSet/db":     "; namespace shop has no StatefulSet",
		"pay/Deployment/catalog":  "; did you mean deployment/catalog -n shop?",
		"shpo/Deployment/catalog": "; did you mean deployment/catalog -n shop?",
		"shpo/Deployment/zzz":     "; there is no namespace shpo: did you mean -n shop?",
		"what/Deployment/zzz":     "; there is no namespace what",
		"node/wroker-1":           "; did you mean node/worker-1?",
		"namespace/shpo":          "; did you mean namespace/shop?",
	} {
		target, err := ParseTarget([]string{said}, "")
		if err != nil {
			t.Errorf("%s: %v", said, err)
			continue
		}
		_, err = Options{Snapshot: snap, Target: target}.askedPayload(t.Context(), "prod-1", snap.Client())
		if nightcrier.CodeOf(err) != nightcrier.NotFound || !strings.HasSuffix(err.Error(), says) {
			t.Errorf("%s: %v, not %q", said, err, says)
		}
	}
}

// A cluster is called as kubectl calls its context, whatever characters that has.
func TestTheNameOfACluster(t *testing.T) {
	config := filepath.Join(t.TempDir(), "config")
	const eks = "arn:aws:eks:eu-west-1:1:cluster/prod_eu"
	text := `{apiVersion: v1, kind: Config, current-context: "` + eks + `", contexts: [{name: "` + eks + `", context: {cluster: a}}, {name: dev, context: {cluster: a}}], clusters: [{name: a, cluster: {server: "https://127.0.0.1:1"}}]}`
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", config)
	for want, o := range map[string]Options{eks: {}, "dev": {Context: "dev"}, "mine": {Cluster: "mine", Context: "dev"}, InCluster: {Kubeconfig: filepath.Join(t.TempDir(), "none")}} {
		if got := o.chooseCluster(defaults(t)); got.Name != want {
			t.Errorf("%+v is called %q, want %q", o, got.Name, want)
		}
	}
	for cluster, want := range map[string]string{eks: "arn-aws-eks-eu-west-1-1-cluster-prod-eu", "gke_shop_europe-west1_prod": "gke-shop-europe-west1-prod", "admin@prod": "admin-prod", "ü": "cluster", "": "cluster", strings.Repeat("a", 400): strings.Repeat("a", 253)} {
		got := kinds.WholeCluster(cluster).Name
		if got != want || (nightcrier.Resource{Kind: kinds.Cluster, Name: got}).Check() != nil {
			t.Errorf("%s: %q, want %q", cluster, got, want)
		}
	}
}
