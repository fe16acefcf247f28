package diagnose_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"nightcrier.dev/nightcrier"
)

// What surrounds a workload that is well is judged as a real API server gives it.
func TestSurroundingsOfARealServer(t *testing.T) {
	w := newWorld(t)
	pod := w.deployed(t, "cart")
	w.Running(t, pod)
	at := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: w.ns, Name: name} }
	service := func(name string, selector map[string]string, target intstr.IntOrString) {
		w.Create(t, &corev1.Service{ObjectMeta: at(name), Spec: corev1.ServiceSpec{
			Selector: selector, Ports: []corev1.ServicePort{{Port: 80, TargetPort: target}},
		}})
	}
	wrong := map[string]string{}
	for k, v := range pod.Labels {
		wrong[k] = v
	}
	wrong["tier"] = "none"
	service("cart", wrong, intstr.FromInt32(8080))
	service("named", pod.Labels, intstr.FromString("web"))
	service("good", pod.Labels, intstr.FromInt32(8080))
	backend := networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: "gone", Port: networkingv1.ServiceBackendPort{Number: 80}}}
	w.Create(t, &networkingv1.Ingress{ObjectMeta: at("web"), Spec: networkingv1.IngressSpec{DefaultBackend: &backend}})
	class := "none-such"
	w.Create(t, &corev1.PersistentVolumeClaim{ObjectMeta: at("data"), Spec: corev1.PersistentVolumeClaimSpec{
		StorageClassName: &class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
	}})
	for _, c := range []struct{ kind, name, cause string }{
		{"Service", "cart", "service-selector-mismatch"},
		{"Service", "named", "service-port-name-mismatch"},
		{"Ingress", "web", "ingress-backend-missing"},
		{"PersistentVolumeClaim", "data", "pvc-class-missing"},
	} {
		t.Run(c.cause, func(t *testing.T) {
			r := w.diagnose(t, c.kind, c.name).Report
			want := nightcrier.Object{Kind: c.kind, Namespace: w.ns, Name: c.name}
			if r.RootCause == nil || r.RootCause.Cause != c.cause || r.RootCause.Object != want {
				t.Errorf("verdict %s, root cause %+v", r.Verdict, r.RootCause)
			}
		})
	}
	if r := w.diagnose(t, "Service", "good").Report; r.RootCause != nil {
		t.Errorf("a Service that is well: %+v", r.RootCause)
	}
}
