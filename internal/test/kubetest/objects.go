package kubetest

import (
	"crypto/rand"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"
)

// Object is any typed Kubernetes object.
type Object interface {
	runtime.Object
	metav1.Object
}

// Namespace makes a namespace for this test and returns its name.
func (a *API) Namespace(tb testing.TB) string {
	tb.Helper()
	name := "t-" + strings.ToLower(rand.Text()[:10])
	a.Create(tb, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	return name
}

// Create creates obj and fills it in with the server's answer.
func (a *API) Create(tb testing.TB, obj Object) {
	tb.Helper()
	got, err := a.resource(tb, obj).Create(tb.Context(), toUnstructured(tb, obj), metav1.CreateOptions{})
	if err != nil {
		tb.Fatalf("kubetest: create %T %s: %v", obj, obj.GetName(), err)
	}
	fromUnstructured(tb, got, obj)
}

// UpdateStatus writes obj's status through the status subresource, as the
// component that owns it would, and fills obj in with the answer.
func (a *API) UpdateStatus(tb testing.TB, obj Object) {
	tb.Helper()
	got, err := a.resource(tb, obj).UpdateStatus(tb.Context(), toUnstructured(tb, obj), metav1.UpdateOptions{})
	if err != nil {
		tb.Fatalf("kubetest: update status of %T %s: %v", obj, obj.GetName(), err)
	}
	fromUnstructured(tb, got, obj)
}

// Delete deletes obj at once.
func (a *API) Delete(tb testing.TB, obj Object) {
	tb.Helper()
	now := int64(0)
	err := a.resource(tb, obj).Delete(tb.Context(), obj.GetName(), metav1.DeleteOptions{GracePeriodSeconds: &now})
	if err != nil {
		tb.Fatalf("kubetest: delete %T %s: %v", obj, obj.GetName(), err)
	}
}

// Deployment makes a Deployment of one container and the ReplicaSet that its
// controller would have made, so that Pods can have both above them.
func (s *Server) Deployment(tb testing.TB, ns, name string) (*appsv1.Deployment, *appsv1.ReplicaSet) {
	tb.Helper()
	labels := map[string]string{"app": name}
	selector := &metav1.LabelSelector{MatchLabels: labels}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: podSpec()}
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: ns, Labels: labels},
		Spec:       appsv1.DeploymentSpec{Selector: selector, Template: template},
	}
	s.Create(tb, d)
	const hash = "7d4b9c8f6d"
	labels = map[string]string{"app": name, appsv1.DefaultDeploymentUniqueLabelKey: hash}
	template.Labels = labels
	rs := &appsv1.ReplicaSet{
		ObjectMeta: ownedBy(d, metav1.ObjectMeta{Name: name + "-" + hash, Namespace: ns, Labels: labels}),
		Spec:       appsv1.ReplicaSetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template},
	}
	s.Create(tb, rs)
	return d, rs
}

// Pod makes a Pod of one container named app on the node NodeName. With an owner
// it carries the owner's labels and a controller reference; owner may be nil.
func (s *Server) Pod(tb testing.TB, ns, name string, owner Object) *corev1.Pod {
	tb.Helper()
	return s.podOn(tb, NodeName, ns, name, owner)
}

// podOn is Pod for a node, or for none.
func (s *Server) podOn(tb testing.TB, node, ns, name string, owner Object) *corev1.Pod {
	tb.Helper()
	om := metav1.ObjectMeta{Name: name, Namespace: ns}
	if owner != nil {
		om.Labels = owner.GetLabels()
		om = ownedBy(owner, om)
	}
	pod := &corev1.Pod{ObjectMeta: om, Spec: podSpec()}
	pod.Spec.NodeName = node
	s.Create(tb, pod)
	return pod
}

func podSpec() corev1.PodSpec {
	return corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "registry.invalid/app:1"}}}
}

func ownedBy(owner Object, om metav1.ObjectMeta) metav1.ObjectMeta {
	om.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, kindOf(owner))}
	return om
}

// resource is the client of obj's kind in obj's namespace.
func (a *API) resource(tb testing.TB, obj Object) dynamic.ResourceInterface {
	tb.Helper()
	gvr, _ := meta.UnsafeGuessKindToResource(kindOf(obj)) // right for all built-in kinds we make
	if ns := obj.GetNamespace(); ns != "" {
		return a.Client.Resource(gvr).Namespace(ns)
	}
	return a.Client.Resource(gvr)
}

// kindOf looks up the kind of a typed object, which does not carry it.
func kindOf(obj runtime.Object) schema.GroupVersionKind {
	kinds, _, err := scheme.Scheme.ObjectKinds(obj)
	if err != nil || len(kinds) == 0 {
		return obj.GetObjectKind().GroupVersionKind()
	}
	return kinds[0]
}

func toUnstructured(tb testing.TB, obj runtime.Object) *unstructured.Unstructured {
	tb.Helper()
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		tb.Fatalf("kubetest: convert %T: %v", obj, err)
	}
	u := &unstructured.Unstructured{Object: fields}
	u.SetGroupVersionKind(kindOf(obj))
	return u
}

func fromUnstructured(tb testing.TB, u *unstructured.Unstructured, obj runtime.Object) {
	tb.Helper()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, obj); err != nil {
		tb.Fatalf("kubetest: convert to %T: %v", obj, err)
	}
}
