package pods

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"nightcrier.dev/nightcrier/internal/diagnose/internal/scene"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scenetest"
)

// A process that listens on the loopback address answers nobody outside of its Pod.
func TestOnLoopback(t *testing.T) {
	for log, want := range map[string]bool{
		" * Running on http://127.0.0.1:5000":                             true,
		"server listening on localhost:5000":                              true,
		" * Running on http://0.0.0.0:5000\n * Running on 127.0.0.1:5000": false,
		"metrics at 127.0.0.1:9090; listening on [::]:5000":               false,
		"connecting to 127.0.0.1:5432":                                    false,
	} {
		f := scenetest.WithLog(scenetest.FactsOf(scenetest.Pod()), log)
		c := scene.PodContainers(&f.Pods[0])[0]
		p := probe{kind: "Readiness", c: c, spec: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(5000)}}}}
		if _, got := onLoopback(f, p); got != want {
			t.Errorf("%q: %v", log, got)
		}
	}
}
