package eval

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
)

// stage is what a case is to hold, before an API server has seen it.
type stage struct {
	manifest
	age     time.Duration
	objects []*unstructured.Unstructured
	logs    map[string]string // by path below logs/
	names   map[string]string // what placeholders such as {pod cart 0} stand for
	nodes   []string
}

// Keys that documents have beside an object's own.
const (
	keyAge     = "age"     // how old it is, such as 3d
	keyDeleted = "deleted" // how long ago its deletion was asked for
	keyOwner   = "owner"   // KIND/NAME of its controller
)

// build makes the stage of a manifest.
func (m manifest) build() (*stage, error) {
	s := &stage{manifest: m, logs: map[string]string{}, names: map[string]string{}}
	var err error
	if s.age, err = span(m.Age); err != nil {
		return nil, err
	}
	if err := s.background(); err != nil {
		return nil, err
	}
	for _, doc := range m.docs { // workloads first: other documents name their Pods
		if doc["workload"] != nil {
			if err := s.workload(doc); err != nil {
				return nil, fmt.Errorf("case %s: workload %v: %w", m.Case, doc["workload"], err)
			}
		}
	}
	for _, doc := range m.docs {
		if err := s.document(doc); err != nil {
			return nil, fmt.Errorf("case %s: %v: %w", m.Case, doc["kind"], err)
		}
	}
	return s, s.endpointSlices()
}

func (s *stage) document(doc map[string]any) error {
	switch known(doc, "workload", "node", "events", "logs") {
	case "workload":
		return nil
	case "events":
		return s.eventsOf(doc["events"])
	case "logs":
		return s.logsOf(doc["logs"])
	case "node":
		return s.node(doc)
	}
	filled, err := moments(doc, s.fill)
	if err != nil {
		return err
	}
	doc = filled.(map[string]any)
	if doc["kind"] == nil || doc["apiVersion"] == nil {
		return fmt.Errorf("a document must be an object with apiVersion and kind, or have the key workload, events, logs or node")
	}
	return s.add(&unstructured.Unstructured{Object: doc})
}

var placeholder = regexp.MustCompile(`\{(pod|rs|ip) [a-z0-9.-]+( \d+)?\}`)

// fill replaces placeholders: {pod cart 0}, {rs cart}, {ip cart 0}.
func (s *stage) fill(text string) (string, error) {
	var err error
	out := placeholder.ReplaceAllStringFunc(text, func(p string) string {
		name, ok := s.names[strings.Trim(p, "{}")]
		if !ok {
			err = fmt.Errorf("%s stands for nothing", p)
		}
		return name
	})
	return out, err
}

// add puts an object on the stage, with the metadata that everything has.
func (s *stage) add(u *unstructured.Unstructured) error {
	if u.GetNamespace() == "" && !clusterWide[u.GetKind()] {
		u.SetNamespace(s.Namespace)
	}
	age := s.age
	if given, ok := u.Object[keyAge].(string); ok {
		var err error
		if age, err = span(given); err != nil {
			return err
		}
		delete(u.Object, keyAge)
	}
	if born := u.GetCreationTimestamp(); born.IsZero() {
		u.SetCreationTimestamp(metav1.NewTime(captured.Add(-age)))
	}
	if owner, ok := u.Object[keyOwner].(string); ok {
		delete(u.Object, keyOwner)
		kind, name := fields(owner, "/")
		s.own(u, kind, name)
	}
	u.SetUID(uidOf(u.GetKind(), u.GetNamespace(), u.GetName()))
	same := func(o *unstructured.Unstructured) bool {
		return o.GetKind() == u.GetKind() && o.GetNamespace() == u.GetNamespace() && o.GetName() == u.GetName()
	}
	if i := slices.IndexFunc(s.objects, same); i >= 0 {
		s.objects[i] = u // what an author writes replaces the background
		return nil
	}
	s.objects = append(s.objects, u)
	return nil
}

// own makes kind/name the controller of u.
func (s *stage) own(u *unstructured.Unstructured, kind, name string) {
	yes := true
	u.SetOwnerReferences([]metav1.OwnerReference{{
		APIVersion: apiVersionOf(kind), Kind: kind, Name: name,
		UID: uidOf(kind, u.GetNamespace(), name), Controller: &yes, BlockOwnerDeletion: &yes,
	}})
}

// typed puts a typed object on the stage.
func (s *stage) typed(obj runtime.Object) error {
	kinds, _, err := scheme.Scheme.ObjectKinds(obj)
	if err != nil {
		return err
	}
	raw, err := json.Marshal(obj)
	if err != nil {
		return err
	}
	u := &unstructured.Unstructured{}
	doc, err := document(raw)
	if err != nil {
		return err
	}
	u.Object = doc
	u.SetGroupVersionKind(kinds[0])
	return s.add(u)
}

// clusterWide are the kinds without a namespace that cases use.
var clusterWide = map[string]bool{
	"Namespace": true, "Node": true, "PersistentVolume": true, "StorageClass": true, "VolumeAttachment": true, "CSIDriver": true,
	"CSINode": true, "PriorityClass": true, "IngressClass": true, "APIService": true, "RuntimeClass": true,
	"ValidatingWebhookConfiguration": true, "MutatingWebhookConfiguration": true,
	"ValidatingAdmissionPolicy": true, "ValidatingAdmissionPolicyBinding": true, "ClusterRole": true, "ClusterRoleBinding": true,
	"CustomResourceDefinition": true,
}

func apiVersionOf(kind string) string {
	for _, gv := range []string{"v1", "apps/v1", "batch/v1", "networking.k8s.io/v1", "autoscaling/v2", "policy/v1", "storage.k8s.io/v1",
		"discovery.k8s.io/v1", "admissionregistration.k8s.io/v1", "scheduling.k8s.io/v1"} {
		for gvk := range scheme.Scheme.AllKnownTypes() {
			if gvk.Kind == kind && gvk.GroupVersion().String() == gv {
				return gv
			}
		}
	}
	return "apiregistration.k8s.io/v1"
}

// uidOf makes UIDs that are the same in every recording.
func uidOf(kind, ns, name string) types.UID {
	h := sha256.Sum256([]byte(kind + "/" + ns + "/" + name))
	h[6], h[8] = h[6]&0x0f|0x40, h[8]&0x3f|0x80
	return types.UID(fmt.Sprintf("%x-%x-%x-%x-%x", h[0:4], h[4:6], h[6:8], h[8:10], h[10:16]))
}

// suffix makes the letters at the end of generated names.
func suffix(n int, of ...any) string {
	const letters = "bcdfghjklmnpqrstvwxz2456789"
	h := sha256.Sum256([]byte(fmt.Sprint(of...)))
	out := make([]byte, n)
	for i := range out {
		out[i] = letters[int(h[i])%len(letters)]
	}
	return string(out)
}

// number makes a number below n, for addresses.
func number(n int, of ...any) int {
	h := sha256.Sum256([]byte(fmt.Sprint(of...)))
	return (int(h[0])<<8 | int(h[1])) % n
}

// at is the time so long before the recording.
func at(d time.Duration) metav1.Time { return metav1.NewTime(captured.Add(-d)) }

// background puts the nodes, the namespaces and healthy neighbours on the stage.
func (s *stage) background() error {
	count := 2
	if s.Nodes != nil {
		count = *s.Nodes
	}
	for i := range count {
		if err := s.node(map[string]any{"node": fmt.Sprintf("worker-%d", i+1)}); err != nil {
			return err
		}
	}
	spaces := []string{s.Namespace}
	if s.System && s.Namespace != metav1.NamespaceSystem {
		spaces = append(spaces, metav1.NamespaceSystem)
	}
	for _, ns := range spaces {
		err := s.typed(&corev1.Namespace{
			ObjectMeta: metav1.ObjectMeta{Name: ns, CreationTimestamp: at(90 * 24 * time.Hour)},
			Status:     corev1.NamespaceStatus{Phase: corev1.NamespaceActive},
		})
		if err != nil {
			return err
		}
		if err := s.typed(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default", Namespace: ns, CreationTimestamp: at(90 * 24 * time.Hour)}}); err != nil {
			return err
		}
	}
	if s.System {
		if err := s.dns(); err != nil {
			return err
		}
	}
	for _, name := range s.Neighbours {
		if err := s.workload(map[string]any{"workload": "Deployment/" + name, "pods": int64(1), "age": "21d"}); err != nil {
			return err
		}
	}
	return nil
}

// dns is the cluster's DNS, healthy.
func (s *stage) dns() error {
	return s.workload(map[string]any{
		"workload": "Deployment/coredns", "namespace": metav1.NamespaceSystem, "age": "90d", "pods": int64(2),
		"image": "registry.k8s.io/coredns/coredns:v1.12.0", "port": int64(53),
		"labels": map[string]any{"k8s-app": "kube-dns"}, "service": map[string]any{
			"metadata": map[string]any{"name": "kube-dns"},
			"spec": map[string]any{"clusterIP": "10.96.0.10", "ports": []any{
				map[string]any{"name": "dns", "port": int64(53), "protocol": "UDP", "targetPort": int64(53)},
				map[string]any{"name": "dns-tcp", "port": int64(53), "protocol": "TCP", "targetPort": int64(53)},
			}},
		},
	})
}

// logsOf takes {"pod/container": text, "pod/container.previous": text}.
func (s *stage) logsOf(v any) error {
	m, ok := v.(map[string]any)
	if !ok {
		return fmt.Errorf("logs must be a map from pod/container to text")
	}
	for _, key := range slices.Sorted(maps.Keys(m)) {
		to, err := s.fill(key)
		if err != nil {
			return err
		}
		text, _ := m[key].(string)
		if strings.Count(to, "/") == 1 {
			to = s.Namespace + "/" + to
		}
		s.log(to, text)
	}
	return nil
}

func (s *stage) log(path, text string) {
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	s.logs[path+".log"] = text
}
