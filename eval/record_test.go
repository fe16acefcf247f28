package eval

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilwait "k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/retry"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/test/kubetest"
)

var record = flag.Bool("record", false, "write eval/cases anew from eval/manifests, on a real API server")

// TestRecord records cases: go test ./eval -run Record/oom -record records those
// whose name begins with oom, without a name all. Without -record it checks that
// every manifest can be built.
func TestRecord(t *testing.T) {
	all := manifests(t)
	seen := map[string]bool{}
	var api *kubetest.Server
	if *record {
		api = kubetest.Isolated(t)
		node := api.Node(t)
		api.Delete(t, node)
	}
	for _, m := range all {
		if seen[m.Case] {
			t.Errorf("%s: case %s exists twice", m.file, m.Case)
		}
		seen[m.Case] = true
		t.Run(m.Case, func(t *testing.T) {
			if m.From == "node" {
				return
			}
			s, err := m.build()
			if err != nil {
				t.Fatalf("%s: %v", m.file, err)
			}
			if !*record {
				return
			}
			r := &recorder{stage: s, client: api.Client}
			if err := r.record(t.Context()); err != nil {
				t.Errorf("%s: %v", m.file, err)
			}
		})
	}
}

// recorder puts one stage on an API server and writes what the server says then.
type recorder struct {
	*stage
	client dynamic.Interface
	made   []*unstructured.Unstructured
}

func (r *recorder) record(ctx context.Context) (err error) {
	defer func() { err = errors.Join(err, r.clean(context.WithoutCancel(ctx))) }()
	slices.SortStableFunc(r.objects, func(a, b *unstructured.Unstructured) int { return cmp.Compare(order(a), order(b)) })
	for _, u := range r.objects {
		if err := r.create(ctx, u); err != nil {
			return fmt.Errorf("%s %s: %w", u.GetKind(), u.GetName(), err)
		}
	}
	for _, u := range r.objects {
		if err := r.delete(ctx, u); err != nil {
			return err
		}
	}
	var items []map[string]any
	for i, u := range r.objects {
		if slices.Contains(r.Omit, u.GetKind()) || slices.Contains(r.NotCaptured, resourceOf(u)) {
			continue
		}
		got, err := r.of(u).Get(ctx, u.GetName(), metav1.GetOptions{})
		if err != nil {
			return err
		}
		items = append(items, settled(got, u, i))
	}
	return r.write(items)
}

// order is when an object is made: what refuses or changes others comes last.
func order(u *unstructured.Unstructured) int {
	switch u.GetKind() {
	case "Namespace":
		return 0
	case "Node", "StorageClass", "PriorityClass", "PersistentVolume", "RuntimeClass", "CustomResourceDefinition":
		return 1
	case "ResourceQuota", "LimitRange":
		return 3
	case "Event":
		return 4
	case "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding":
		return 5
	}
	return 2
}

func (r *recorder) of(u *unstructured.Unstructured) dynamic.ResourceInterface {
	gvr, _ := meta.UnsafeGuessKindToResource(u.GroupVersionKind())
	if ns := u.GetNamespace(); ns != "" {
		return r.client.Resource(gvr).Namespace(ns)
	}
	return r.client.Resource(gvr)
}

func (r *recorder) create(ctx context.Context, u *unstructured.Unstructured) error {
	give := u.DeepCopy()
	delete(give.Object, keyDeleted)
	give.SetManagedFields(nil) // the server writes its own
	status, hasStatus := give.Object["status"]
	delete(give.Object, "status")
	got, err := r.of(u).Create(ctx, give, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) && (u.GetKind() == "Namespace" || u.GetKind() == "PriorityClass") {
		return nil // those that the server makes
	}
	if err != nil {
		return err
	}
	r.made = append(r.made, u)
	if u.GetKind() == "Node" { // the server marks a new node as not ready
		taints, has, _ := unstructured.NestedSlice(give.Object, "spec", "taints")
		unstructured.RemoveNestedField(got.Object, "spec", "taints")
		if has {
			_ = unstructured.SetNestedSlice(got.Object, taints, "spec", "taints")
		}
		if got, err = r.of(u).Update(ctx, got, metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	if m, ok := status.(map[string]any); !hasStatus || ok && len(m) == 0 || u.GetKind() == "Namespace" {
		return nil
	}
	return r.status(ctx, u, got)
}

// status writes an object's status, also where a controller of the server's own
// has just written one.
func (r *recorder) status(ctx context.Context, u, got *unstructured.Unstructured) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() (err error) {
		if got == nil {
			if got, err = r.of(u).Get(ctx, u.GetName(), metav1.GetOptions{}); err != nil {
				return err
			}
		}
		got.Object["status"] = u.Object["status"]
		_, err = r.of(u).UpdateStatus(ctx, got, metav1.UpdateOptions{})
		got = nil
		return err
	})
}

// delete asks for the deletion of what is to be found while it goes away.
func (r *recorder) delete(ctx context.Context, u *unstructured.Unstructured) error {
	if u.Object[keyDeleted] == nil {
		return nil
	}
	if err := r.of(u).Delete(ctx, u.GetName(), metav1.DeleteOptions{}); err != nil || u.GetKind() != "Namespace" {
		return err
	}
	return r.status(ctx, u, nil) // only now may it be Terminating
}

// settled takes out of the server's answer what differs from recording to
// recording, and puts back the times that were meant.
func settled(got, meant *unstructured.Unstructured, i int) map[string]any {
	got.SetManagedFields(meant.GetManagedFields())
	got.SetUID(uidOf(got.GetKind(), got.GetNamespace(), got.GetName()))
	got.SetResourceVersion(fmt.Sprint(48120 + i*7))
	got.SetCreationTimestamp(meant.GetCreationTimestamp())
	if ago, ok := meant.Object[keyDeleted].(string); ok {
		d, _ := span(ago)
		when := at(d)
		got.SetDeletionTimestamp(&when)
	}
	switch got.GetKind() {
	case "Job":
		relabel(got)
	case "APIService": // the server has an opinion of its own
		got.Object["status"] = meant.Object["status"]
	}
	for _, field := range []string{"clusterIP", "clusterIPs"} {
		if v, _, _ := unstructured.NestedFieldNoCopy(got.Object, "spec", field); v != nil {
			settleAddress(got, meant)
		}
	}
	return got.Object
}

// relabel gives a Job the UID by which its Pods name it.
func relabel(job *unstructured.Unstructured) {
	uid := string(job.GetUID())
	for _, path := range [][]string{{"spec", "selector", "matchLabels"}, {"spec", "template", "metadata", "labels"}, {"metadata", "labels"}} {
		labels, ok, _ := unstructured.NestedStringMap(job.Object, path...)
		if !ok {
			continue
		}
		for _, key := range []string{"batch.kubernetes.io/controller-uid", "controller-uid"} {
			if labels[key] != "" {
				labels[key] = uid
			}
		}
		_ = unstructured.SetNestedStringMap(job.Object, labels, path...)
	}
}

// settleAddress replaces the address that the server chose.
func settleAddress(got, meant *unstructured.Unstructured) {
	given, _, _ := unstructured.NestedString(meant.Object, "spec", "clusterIP")
	if given != "" {
		return
	}
	ip := fmt.Sprintf("10.96.%d.%d", 1+number(200, got.GetNamespace(), got.GetName()), 2+number(250, got.GetName()))
	spec := got.Object["spec"].(map[string]any)
	spec["clusterIP"], spec["clusterIPs"] = ip, []any{ip}
	ports, _ := spec["ports"].([]any)
	for i := range ports {
		if p := ports[i].(map[string]any); p["nodePort"] != nil {
			p["nodePort"] = int64(30100 + i)
		}
	}
}

// write replaces the case's directory.
func (r *recorder) write(items []map[string]any) error {
	dir := filepath.Join("cases", r.Case)
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	var spaces []string
	byScope := map[string]*bytes.Buffer{}
	for _, item := range items {
		u := unstructured.Unstructured{Object: item}
		scope := cmp.Or(u.GetNamespace(), "cluster")
		if byScope[scope] == nil {
			byScope[scope] = &bytes.Buffer{}
			if u.GetNamespace() != "" {
				spaces = append(spaces, scope)
			}
		}
		raw, err := json.Marshal(item)
		if err != nil {
			return err
		}
		if byScope[scope].Len() > 0 {
			byScope[scope].WriteString(",\n")
		}
		byScope[scope].Write(raw)
	}
	for _, scope := range slices.Sorted(maps.Keys(byScope)) {
		list := fmt.Sprintf("{\"apiVersion\":\"v1\",\"kind\":\"List\",\"items\":[\n%s\n]}\n", byScope[scope])
		if err := writeFile(filepath.Join(dir, "objects", scope+".json"), []byte(list)); err != nil {
			return err
		}
	}
	if !slices.Contains(r.Omit, "Log") {
		for path, text := range r.logs {
			if err := writeFile(filepath.Join(dir, "logs", filepath.FromSlash(path)), []byte(text)); err != nil {
				return err
			}
		}
	}
	slices.Sort(spaces)
	about, err := json.MarshalIndent(map[string]any{"cluster": "prod-1", "capturedAt": captured, "namespaces": spaces, "notCaptured": notCaptured(r.NotCaptured)}, "", "  ")
	if err != nil {
		return err
	}
	if err := writeFile(filepath.Join(dir, "snapshot.json"), append(about, '\n')); err != nil {
		return err
	}
	return r.writeCase(dir)
}

func resourceOf(u *unstructured.Unstructured) string {
	gvr, _ := meta.UnsafeGuessKindToResource(u.GroupVersionKind())
	return gvr.Resource
}

// notCaptured is empty rather than absent where nothing is missing: then what a
// snapshot does not hold was not there.
func notCaptured(resources []string) []nightcrier.NotChecked {
	list := []nightcrier.NotChecked{}
	for _, r := range resources {
		list = append(list, nightcrier.NotChecked{What: r, Why: "the credential may not list " + r})
	}
	return list
}

// writeCase writes what is expected of a diagnosis.
func (r *recorder) writeCase(dir string) error {
	c := map[string]any{"about": r.About, "namespace": r.Namespace, "expect": r.Expect, "from": cmp.Or(r.From, "apiserver")}
	if r.Target != "" {
		c["target"] = r.Target
	}
	if len(r.Forbidden) > 0 {
		c["forbidden"] = r.Forbidden
	}
	if _, err := moments(c["expect"], r.fill); err != nil {
		return err
	}
	raw, err := yaml.Marshal(c)
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(dir, "case.yaml"), raw)
}

func writeFile(name string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return os.WriteFile(name, data, 0o644)
}

// clean removes everything from the server, what guards others first.
func (r *recorder) clean(ctx context.Context) error {
	now, background := int64(0), metav1.DeletePropagationBackground
	var errs []error
	for _, u := range slices.Backward(r.made) {
		got, err := r.of(u).Get(ctx, u.GetName(), metav1.GetOptions{})
		if err != nil {
			continue
		}
		if len(got.GetFinalizers()) > 0 {
			got.SetFinalizers(nil)
			_, _ = r.of(u).Update(ctx, got, metav1.UpdateOptions{})
		}
		err = r.of(u).Delete(ctx, u.GetName(), metav1.DeleteOptions{GracePeriodSeconds: &now, PropagationPolicy: &background})
		if u.GetKind() == "Namespace" {
			err = r.finalize(ctx, u)
		}
		if u.GetKind() == "CustomResourceDefinition" && err == nil { // the next case may need it again
			err = utilwait.PollUntilContextTimeout(ctx, 50*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
				_, err := r.of(u).Get(ctx, u.GetName(), metav1.GetOptions{})
				return apierrors.IsNotFound(err), nil
			})
		}
		if err != nil && !apierrors.IsNotFound(err) {
			errs = append(errs, fmt.Errorf("delete %s %s: %w", u.GetKind(), u.GetName(), err))
		}
	}
	return errors.Join(errs...)
}

// finalize lets a namespace go, as its controller would.
func (r *recorder) finalize(ctx context.Context, u *unstructured.Unstructured) error {
	got, err := r.of(u).Get(ctx, u.GetName(), metav1.GetOptions{})
	if err != nil {
		return err
	}
	unstructured.RemoveNestedField(got.Object, "spec", "finalizers")
	_, err = r.of(u).Update(ctx, got, metav1.UpdateOptions{}, "finalize")
	return err
}

// caseNames are the directories that are recorded.
func caseNames(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir("cases")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() && !strings.HasPrefix(e.Name(), ".") {
			names = append(names, e.Name())
		}
	}
	return names
}

// Every manifest has been recorded, and nothing else is in the corpus.
func TestRecordedAll(t *testing.T) {
	if *record {
		return
	}
	var written []string
	for _, m := range manifests(t) {
		written = append(written, m.Case)
	}
	slices.Sort(written)
	for _, name := range caseNames(t) {
		if !slices.Contains(written, name) {
			t.Errorf("cases/%s has no manifest", name)
		}
	}
	for _, name := range written {
		if !slices.Contains(caseNames(t), name) {
			t.Errorf("case %s is not recorded: go test ./eval -run Record/^%s$ -record", name, name)
		}
	}
}
