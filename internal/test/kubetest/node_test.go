package kubetest_test

import (
	"bytes"
	"os"
	"os/exec"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"nightcrier.dev/nightcrier/internal/test/kubetest"
)

func TestAPodRunsOnTheNode(t *testing.T) {
	c := kubetest.OneNode(t)
	ns := c.Namespace(t)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "once"},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever,
			Containers: []corev1.Container{{
				Name: "app", Image: kubetest.Image, ImagePullPolicy: corev1.PullNever, Args: []string{"-say=hello|world", "-exit=3"},
			}},
		},
	}
	c.Create(t, pod)
	got := awaitPhase(t, c.Client.Resource(pods).Namespace(ns), pod.Name, "Failed")
	states, _, _ := unstructured.NestedSlice(got.Object, "status", "containerStatuses")
	code, _, err := unstructured.NestedInt64(states[0].(map[string]any), "state", "terminated", "exitCode")
	if code != 3 || err != nil {
		t.Errorf("exit code %d, %v: %v", code, err, states)
	}
	cmd := exec.Command(kubetest.Kubectl(t), "logs", "-n", ns, pod.Name)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.Kubeconfig)
	if out, err := cmd.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("hello\nworld\n")) {
		t.Errorf("log %q, %v", out, err)
	}
}

// awaitPhase polls until the Pod has the phase: what happens is a real kubelet's.
func awaitPhase(t *testing.T, pods dynamic.ResourceInterface, name, phase string) *unstructured.Unstructured {
	t.Helper()
	for deadline := time.Now().Add(3 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		got, err := pods.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		is, _, _ := unstructured.NestedString(got.Object, "status", "phase")
		if is == phase {
			return got
		}
		if time.Now().After(deadline) {
			t.Fatalf("phase %s, want %s: %v", is, phase, got.Object["status"])
		}
	}
}
