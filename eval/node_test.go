package eval

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/jsonpath"

	"nightcrier.dev/nightcrier/internal/cluster/kube"
	"nightcrier.dev/nightcrier/internal/cluster/snapshot"
	"nightcrier.dev/nightcrier/internal/test/kubetest"
)

// TestNodeRecord records the cases that happen on a real node, beside each other:
// go test ./eval -run NodeRecord -record
func TestNodeRecord(t *testing.T) {
	if !*record {
		return
	}
	for _, m := range manifests(t) {
		if m.From != "node" {
			continue
		}
		t.Run(m.Case, func(t *testing.T) {
			c := kubetest.OneNode(t)
			t.Parallel()
			for _, doc := range m.docs {
				u := &unstructured.Unstructured{Object: doc}
				if !clusterWide[u.GetKind()] && u.GetKind() != "Namespace" {
					u.SetNamespace(m.Namespace)
				}
				create(t, c, u)
			}
			for _, w := range m.Wait {
				await(t, c, m.Namespace, w)
			}
			save(t, c, m)
		})
	}
}

// patience is how long something may take on a loaded machine.
const patience = 6 * time.Minute

// until tries again until there is no error.
func until(t *testing.T, what string, try func() error) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(500 * time.Millisecond) {
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %v", what, err)
		}
	}
}

// create makes an object. Right after its namespace there is no ServiceAccount yet.
func create(t *testing.T, c *kubetest.Cluster, u *unstructured.Unstructured) {
	t.Helper()
	gvr, _ := meta.UnsafeGuessKindToResource(u.GroupVersionKind())
	until(t, u.GetKind()+" "+u.GetName(), func() error {
		_, err := c.Client.Resource(gvr).Namespace(u.GetNamespace()).Create(t.Context(), u, metav1.CreateOptions{})
		return err
	})
}

// await waits until something is to be seen.
func await(t *testing.T, c *kubetest.Cluster, ns string, w wait) {
	t.Helper()
	path := jsonpath.New(w.Of).AllowMissingKeys(true)
	if err := path.Parse(w.Path); err != nil {
		t.Fatal(err)
	}
	gvr, _ := meta.UnsafeGuessKindToResource(schema.FromAPIVersionAndKind(apiVersionOf(w.Of), w.Of))
	until(t, w.Path, func() error {
		list, err := c.Client.Resource(gvr).Namespace(ns).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, item := range list.Items {
			var out bytes.Buffer
			if path.Execute(&out, item.Object) == nil && bytes.Contains(out.Bytes(), []byte(w.Is)) {
				return nil
			}
		}
		return os.ErrNotExist
	})
}

// save records the namespace as the product does, and writes what is expected.
func save(t *testing.T, c *kubetest.Cluster, m manifest) {
	t.Helper()
	client, err := kube.Dial(c.Kubeconfig, "", 0)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	snap, err := snapshot.Record(t.Context(), client, snapshot.RecordOptions{Cluster: "one-node", Namespaces: []string{m.Namespace}})
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join("cases", m.Case)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := snap.Save(dir, false); err != nil {
		t.Fatal(err)
	}
	r := recorder{stage: &stage{manifest: m}}
	if err := r.writeCase(dir); err != nil {
		t.Fatal(err)
	}
}
