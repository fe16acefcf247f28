package diagnose

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scenetest"
)

// The namespace of an alert may be that of what measured it: where only one workload of the
// cluster has the name, that one is looked at, and it is said. Of two nobody knows which is
// meant, and who watches objects knows where they are.
func TestAWorkloadThatTheAlertPutsElsewhere(t *testing.T) {
	in := func(ns string) *appsv1.Deployment {
		d := wellDeployed(scenetest.Pod(scenetest.Ready(time.Hour))).objects["Deployment/shop/cart"].(*appsv1.Deployment).DeepCopy()
		d.Namespace = ns
		return d
	}
	for name, c := range map[string]struct {
		dialect string
		there   []metav1.Object
		found   bool
	}{
		"one of that name":         {"alertmanager", []metav1.Object{in("shop")}, true},
		"two of that name":         {"alertmanager", []metav1.Object{in("shop"), in("stage")}, false},
		"none of that name":        {"alertmanager", nil, false},
		"not from an alert at all": {"cloudevents", []metav1.Object{in("shop")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			all := append([]metav1.Object{namespace("monitoring"), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "monitoring", Name: "rules"}}}, c.there...)
			in, m := input(newCluster(all...), nightcrier.Resource{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "monitoring", Name: "cart"})
			in.Event.Dialect = c.dialect
			d := run(t, in)
			sound(t, d, m)
			said := strings.Contains(d.Incomplete, "the only Deployment of that name, in namespace shop, was looked at")
			if found := d.Report.Target.Namespace == "shop"; found != c.found || said != c.found {
				t.Errorf("looked at %s, said %v: %s", d.Report.Target, said, d.Incomplete)
			}
			if d.Report.Verdict == nightcrier.VerdictHealthy || d.Report.Verdict == nightcrier.VerdictRecovered {
				t.Errorf("an all-clear: %s", d.Report.Verdict)
			}
		})
	}
}
