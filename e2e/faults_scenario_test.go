package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/jsonpath"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/test/kubetest"
)

// scenario is one file of testdata/faults: a fault that a real cluster has, how
// it shows, what is to be made of it, and how it is healed. ${NS} in it is the
// namespace that it gets.
type scenario struct {
	About string           `json:"about"`
	Alone bool             `json:"alone"` // it disturbs the others
	Given []map[string]any `json:"given"`
	Break []step           `json:"break"`
	See   []sight          `json:"see"`
	Fault struct {
		Types []string         `json:"types"` // any of them
		Owner string           `json:"owner"`
		Class nightcrier.Class `json:"class"`
		// Severity is what it rises to; without it nothing is expected.
		Severity nightcrier.Severity `json:"severity"`
		Causes   []string            `json:"causes"` // any of them; none: nothing is expected
		// SeenBy are the sources that must have said so beside the watch.
		SeenBy []string `json:"seenBy"`
	} `json:"fault"`
	// Alert is what Alertmanager would send: labels, of which pod "*" is the name
	// of the only Pod.
	Alert map[string]string `json:"alert"`
	Heal  []step            `json:"heal"`

	name, ns string
}

// step is one thing that is done; one field is set, and With beside Patch.
type step struct {
	Create  map[string]any  `json:"create"`
	Patch   string          `json:"patch"` // Kind/name
	With    json.RawMessage `json:"with"`
	Delete  string          `json:"delete"`  // Kind/name
	Await   *sight          `json:"await"`   // until that is seen
	Refused string          `json:"refused"` // until a dry run of a simple Pod is refused
	Kubelet string          `json:"kubelet"` // stop or start
}

// sight holds when what a path finds in an object of the kind contains a text; of
// an Event, when it happened so many times.
type sight struct {
	Of    string `json:"of"`
	Path  string `json:"path"`
	Is    string `json:"is"`
	Times int64  `json:"times"`
}

// group is where the API has the kinds of the scenarios, and global which of them
// are in no namespace.
var (
	group = map[string]string{
		"Pod": "v1", "Event": "v1", "Node": "v1", "Namespace": "v1", "ConfigMap": "v1", "ResourceQuota": "v1", "PersistentVolume": "v1",
		"PersistentVolumeClaim": "v1", "Deployment": "apps/v1", "StatefulSet": "apps/v1", "DaemonSet": "apps/v1", "Job": "batch/v1",
		"CronJob": "batch/v1", "HorizontalPodAutoscaler": "autoscaling/v2", "APIService": "apiregistration.k8s.io/v1",
		"ValidatingAdmissionPolicyBinding": "admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration": "admissionregistration.k8s.io/v1",
	}
	global = []string{
		"Node", "Namespace", "PersistentVolume", "PriorityClass", "APIService", "ValidatingAdmissionPolicy",
		"ValidatingAdmissionPolicyBinding", "ValidatingWebhookConfiguration",
	}
)

// hospital is the cluster that the scenarios happen in.
type hospital struct {
	*kubetest.Cluster
	*site
	addr  string // of the product
	all   []*scenario
	found map[*scenario][]nightcrier.Incident // at the last read
}

// admit reads the files and gives each scenario a namespace.
func (h *hospital) admit() {
	h.Helper()
	files, err := filepath.Glob("testdata/faults/*.yaml")
	h.must(err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		h.must(err)
		sc := &scenario{name: strings.TrimSuffix(filepath.Base(file), ".yaml")}
		sc.ns = h.Namespace(h.TB)
		var doc any
		h.must(yaml.Unmarshal(bytes.ReplaceAll(text, []byte("${NS}"), []byte(sc.ns)), &doc))
		raw, err := json.Marshal(doc)
		h.must(err)
		dec := json.NewDecoder(bytes.NewReader(raw))
		dec.DisallowUnknownFields()
		if err := dec.Decode(sc); err != nil {
			h.Fatalf("%s: %v", file, err)
		}
		h.all = append(h.all, sc)
	}
}

func (h *hospital) resource(apiVersion, kind, ns string) dynamic.ResourceInterface {
	gvr, _ := meta.UnsafeGuessKindToResource(schema.FromAPIVersionAndKind(apiVersion, kind))
	if slices.Contains(global, kind) {
		return h.Client.Resource(gvr)
	}
	return h.Client.Resource(gvr).Namespace(ns)
}

// named is the client of a Kind/name.
func (h *hospital) named(ns, what string) (dynamic.ResourceInterface, string) {
	kind, name, _ := strings.Cut(what, "/")
	return h.resource(group[kind], kind, ns), name
}

// create creates an object, and deletes it with the test where the namespace's
// deletion does not.
func (h *hospital) create(ns string, fields map[string]any) {
	h.Helper()
	raw, err := json.Marshal(fields)
	h.must(err)
	obj := &unstructured.Unstructured{}
	h.must(obj.UnmarshalJSON(raw))
	client := h.resource(obj.GetAPIVersion(), obj.GetKind(), ns)
	if _, err := client.Create(h.Context(), obj, metav1.CreateOptions{}); err != nil {
		h.Fatalf("create %s %s: %v", obj.GetKind(), obj.GetName(), err)
	}
	if slices.Contains(global, obj.GetKind()) {
		h.Cleanup(func() {
			err := client.Delete(context.Background(), obj.GetName(), metav1.DeleteOptions{})
			if err != nil && !apierrors.IsNotFound(err) {
				h.Errorf("delete %s %s: %v", obj.GetKind(), obj.GetName(), err)
			}
		})
	}
}

// take takes a step of a scenario, and says why it could not be taken yet.
func (h *hospital) take(sc *scenario, s step) string {
	h.Helper()
	switch {
	case s.Create != nil:
		h.create(sc.ns, s.Create)
	case s.Patch != "":
		client, name := h.named(sc.ns, s.Patch)
		_, err := client.Patch(h.Context(), name, types.StrategicMergePatchType, s.With, metav1.PatchOptions{})
		h.must(err)
	case s.Delete != "":
		client, name := h.named(sc.ns, s.Delete)
		background := metav1.DeletePropagationBackground
		h.must(client.Delete(h.Context(), name, metav1.DeleteOptions{PropagationPolicy: &background}))
	case s.Await != nil:
		return h.missing(sc.ns, *s.Await)
	case s.Refused != "":
		return h.accepted(sc)
	case s.Kubelet == "stop":
		h.StopKubelet(h.TB)
	case s.Kubelet == "start":
		h.StartKubelet(h.TB)
	default:
		h.Fatalf("%s: a step does nothing: %+v", sc.name, s)
	}
	return ""
}

// accepted says that a Pod would be accepted.
func (h *hospital) accepted(sc *scenario) string {
	pod := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "dry-run"},
		"spec": map[string]any{"containers": []any{map[string]any{
			"name": "app", "image": kubetest.Image, "resources": map[string]any{"limits": map[string]any{"memory": "64Mi"}},
		}}},
	}}
	if _, err := h.resource("v1", "Pod", sc.ns).Create(h.Context(), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
		return ""
	}
	return "a Pod is accepted"
}

// missing says what is not seen, "" when it is.
func (h *hospital) missing(ns string, s sight) string {
	h.Helper()
	list, err := h.resource(group[s.Of], s.Of, ns).List(h.Context(), metav1.ListOptions{})
	if err != nil {
		return err.Error()
	}
	path := jsonpath.New(s.Of).AllowMissingKeys(true)
	h.must(path.Parse(s.Path))
	var seen []string
	for _, obj := range list.Items {
		var found bytes.Buffer
		if err := path.Execute(&found, obj.Object); err != nil {
			return err.Error()
		}
		times, _, err := unstructured.NestedInt64(obj.Object, "count")
		h.must(err)
		if strings.Contains(found.String(), s.Is) && times >= s.Times {
			return ""
		}
		seen = append(seen, found.String())
	}
	return fmt.Sprintf("no %s in %s with %s %q but %q", s.Of, ns, s.Path, s.Is, seen)
}

// ill says which sight of the scenario is missing.
func (h *hospital) ill(sc *scenario) string {
	for _, s := range sc.See {
		if m := h.missing(sc.ns, s); m != "" {
			return m
		}
	}
	return ""
}

// well says that the scenario still shows; Events stay when they are history.
func (h *hospital) well(sc *scenario) string {
	for _, s := range sc.See {
		if s.Of != "Event" && h.missing(sc.ns, s) == "" {
			return fmt.Sprintf("a %s still has %s %q", s.Of, s.Path, s.Is)
		}
	}
	return ""
}
