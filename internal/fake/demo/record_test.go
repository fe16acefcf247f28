package demo_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/jsonpath"

	"nightcrier.dev/nightcrier/internal/cluster/kube"
	"nightcrier.dev/nightcrier/internal/cluster/snapshot"
	"nightcrier.dev/nightcrier/internal/test/kubetest"
)

var record = flag.Bool("record", false, "write scenarios/ anew from manifests/, on the real one-node cluster")

// manifest makes one scenario happen.
type manifest struct {
	About     string   `json:"about"`
	Calm      bool     `json:"calm"` // nothing is wrong when it is recorded
	Cluster   string   `json:"cluster"`
	Namespace string   `json:"namespace"`
	Wait      []sight  `json:"wait"`
	Then      []patch  `json:"then"`
	Again     []sight  `json:"again"`
	Settle    int      `json:"settle"` // seconds that pass before it is recorded
	Notify    []notice `json:"notify"`

	name    string
	objects []*unstructured.Unstructured
}

// sight is something that is to be seen in the namespace before it goes on.
type sight struct{ Of, Path, Is string }

type patch struct {
	Patch string         `json:"patch"`
	With  map[string]any `json:"with"`
}

// notice is what a cluster's MCP server pushes about it.
type notice struct{ Form, Type, Severity, Reason, Object, Context string }

func readManifest(t *testing.T, path string) *manifest {
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	m := &manifest{name: strings.TrimSuffix(filepath.Base(path), ".yaml")}
	for i, doc := range bytes.Split(raw, []byte("\n---\n")) {
		var fields map[string]any
		if err = yaml.Unmarshal(doc, &fields); err == nil {
			doc, err = json.Marshal(fields)
		}
		in := json.NewDecoder(bytes.NewReader(doc))
		in.DisallowUnknownFields()
		if i == 0 {
			err = errors.Join(err, in.Decode(m))
		} else {
			u := &unstructured.Unstructured{}
			err = errors.Join(err, in.Decode(&u.Object))
			m.objects = append(m.objects, u)
		}
		if err != nil {
			t.Fatalf("%s: document %d: %v", path, i, err)
		}
	}
	return m
}

// TestRecord makes all faults happen beside each other and records each namespace:
// go test ./internal/fake/demo -run Record -record -timeout 20m
func TestRecord(t *testing.T) {
	paths, err := filepath.Glob("manifests/*.yaml")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no manifests: %v", err)
	}
	var all []*manifest
	for _, path := range paths {
		all = append(all, readManifest(t, path))
	}
	if !*record {
		return
	}
	r := recorder{t, kubetest.OneNode(t)}
	for _, m := range all {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			r := recorder{t, r.Cluster}
			r.make(m)
			r.await(m, m.Wait)
			for _, p := range m.Then {
				r.patch(m, p)
			}
			r.await(m, m.Again)
			time.Sleep(time.Duration(m.Settle) * time.Second)
			r.save(m)
		})
	}
}

type recorder struct {
	*testing.T
	*kubetest.Cluster
}

func (r recorder) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

func (r recorder) of(gvk schema.GroupVersionKind, ns string) dynamic.ResourceInterface {
	gvr, _ := meta.UnsafeGuessKindToResource(gvk)
	return r.Client.Resource(gvr).Namespace(ns)
}

func (r recorder) make(m *manifest) {
	ns := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": m.Namespace}}}
	_, err := r.of(ns.GroupVersionKind(), "").Create(r.Context(), ns, metav1.CreateOptions{})
	r.must(err)
	accounts := r.of(schema.FromAPIVersionAndKind("v1", "ServiceAccount"), m.Namespace)
	r.until("a ServiceAccount", func() string {
		_, err := accounts.Get(r.Context(), "default", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return "none"
		}
		r.must(err)
		return ""
	})
	for _, u := range m.objects {
		_, err := r.of(u.GroupVersionKind(), m.Namespace).Create(r.Context(), u, metav1.CreateOptions{})
		r.must(err)
	}
}

func (r recorder) until(what string, try func() string) {
	r.Helper()
	deadline := time.Now().Add(6 * time.Minute)
	for {
		missing := try()
		if missing == "" {
			return
		}
		if time.Now().After(deadline) {
			r.Fatalf("%s: %s", what, missing)
		}
		time.Sleep(time.Second)
	}
}

func (r recorder) await(m *manifest, sights []sight) {
	r.Helper()
	groups := map[string]string{"Deployment": "apps/v1", "Job": "batch/v1"}
	for _, s := range sights {
		apiVersion := groups[s.Of]
		if apiVersion == "" {
			apiVersion = "v1"
		}
		client := r.of(schema.FromAPIVersionAndKind(apiVersion, s.Of), m.Namespace)
		path := jsonpath.New(s.Of).AllowMissingKeys(true)
		r.must(path.Parse(s.Path))
		r.until(s.Is, func() string {
			list, err := client.List(r.Context(), metav1.ListOptions{})
			r.must(err)
			var seen []string
			for _, obj := range list.Items {
				var found bytes.Buffer
				r.must(path.Execute(&found, obj.Object))
				if strings.Contains(found.String(), s.Is) {
					return ""
				}
				seen = append(seen, found.String())
			}
			return fmt.Sprintf("%s %s are %q", s.Of, s.Path, seen)
		})
	}
}

func (r recorder) patch(m *manifest, p patch) {
	kind, name, _ := strings.Cut(p.Patch, "/")
	raw, err := json.Marshal(p.With)
	r.must(err)
	_, err = r.of(schema.FromAPIVersionAndKind("apps/v1", kind), m.Namespace).Patch(r.Context(), name, types.StrategicMergePatchType, raw, metav1.PatchOptions{})
	r.must(err)
}

func (r recorder) save(m *manifest) {
	client, err := kube.Dial(r.Kubeconfig, "", 0)
	r.must(err)
	defer client.Close()
	s, err := snapshot.Record(r.Context(), client, snapshot.RecordOptions{Cluster: m.Cluster, Namespaces: []string{m.Namespace}})
	r.must(err)
	dir := filepath.Join("scenarios", m.name)
	r.must(os.RemoveAll(dir))
	r.must(s.Save(filepath.Join(dir, "snapshot"), false))
	for _, kind := range []string{"namespaces", "apiservices.apiregistration.k8s.io", "priorityclasses.scheduling.k8s.io"} { // other scenarios', and alike everywhere
		_ = os.Remove(filepath.Join(dir, "snapshot", "objects", "cluster-wide", kind+".json"))
	}
	var pushed []json.RawMessage
	for _, n := range m.Notify {
		pushed = append(pushed, r.notification(m, s, n))
	}
	told := map[string]any{"about": m.About, "cluster": m.Cluster, "notifications": pushed}
	if m.Calm {
		told["calm"] = true
	}
	raw, err := json.MarshalIndent(told, "", "  ")
	r.must(err)
	r.must(os.WriteFile(filepath.Join(dir, "scenario.json"), append(raw, '\n'), 0o644))
}

// notification is what a server pushes of a notice, in one of the dialects.
func (r recorder) notification(m *manifest, s *snapshot.Snapshot, n notice) json.RawMessage {
	at := s.CapturedAt.Add(-5 * time.Second).Format(time.RFC3339)
	ref := r.object(m, s, n.Object)
	data := map[string]any{"subscriptionId": "sub-demo", "cluster": m.Cluster}
	level, logger := "warning", "kubernetes/faults"
	switch n.Form {
	case "fault", "resource-fault":
		for k, v := range map[string]any{"faultType": n.Type, "severity": n.Severity, "resource": ref, "context": n.Context, "timestamp": at} {
			data[k] = v
		}
		if logger = "kubernetes/resource-faults"; n.Form == "fault" {
			data["faultId"], logger = ref["uid"].(string)[:8], "kubernetes/faults"
		}
	case "event", "event-with-logs":
		data["event"] = map[string]any{"namespace": m.Namespace, "timestamp": at, "type": n.Type, "reason": n.Reason, "message": n.Context, "involvedObject": ref, "count": 3}
		level, logger = "info", "kubernetes/events"
		if n.Form == "event-with-logs" {
			log, err := s.Client().Logs(r.Context(), m.Namespace, ref["name"].(string), "app", false, 20, 0)
			r.must(err)
			data["logs"] = []map[string]any{{"container": "app", "previous": false, "hasPanic": true, "sample": string(log)}}
			level, logger = "warning", "kubernetes/faults"
		}
	default:
		r.Fatalf("%s: form %q is none", m.name, n.Form)
	}
	raw, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "method": "notifications/message", "params": map[string]any{"data": data, "level": level, "logger": logger}})
	r.must(err)
	return raw
}

// object is the newest recorded object whose name begins like that of KIND/NAME.
func (r recorder) object(m *manifest, s *snapshot.Snapshot, of string) map[string]any {
	kind, prefix, _ := strings.Cut(of, "/")
	raw, err := s.Client().List(r.Context(), kind, m.Namespace, "", "", 0)
	r.must(err)
	var list struct{ Items []map[string]any }
	r.must(json.Unmarshal(raw, &list))
	for _, item := range list.Items {
		u := unstructured.Unstructured{Object: item}
		if strings.HasPrefix(u.GetName(), prefix) {
			return map[string]any{"apiVersion": u.GetAPIVersion(), "kind": kind, "name": u.GetName(), "namespace": m.Namespace, "uid": string(u.GetUID())}
		}
	}
	r.Fatalf("%s: there is no %s", m.name, of)
	return nil
}
