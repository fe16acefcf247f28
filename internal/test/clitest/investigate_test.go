package clitest_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"nightcrier.dev/nightcrier/internal/fake/fakemodel"
	"nightcrier.dev/nightcrier/internal/test/clitest"
	"nightcrier.dev/nightcrier/internal/test/kubetest"
)

// The real CLI, a real kubectl and a real API server: only the model is scripted.
func TestClaudeInvestigatesARealCluster(t *testing.T) {
	clitest.Claude(t)
	kube, m := kubetest.Start(t), fakemodel.New(t)
	ns := kube.Namespace(t)
	pod := kube.Pod(t, ns, "web-1", nil)
	kube.CrashLoop(t, pod, 2, 7)
	kube.SetLogs(pod, true, "starting\npanic: lookup db.internal: no such host\n")

	s := newSession(t, m, "investigate", "--allowedTools", "Bash(kubectl get:*)", "Bash(kubectl logs:*)")
	s.cmd.Env = append(s.cmd.Env, "KUBECONFIG="+kube.ReadOnly(t),
		"PATH="+filepath.Dir(kubetest.Kubectl(t))+string(os.PathListSeparator)+os.Getenv("PATH"))
	writeIncident(t, s.dir, ns, pod.Name)
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	exit, got := s.end(t)
	want := "Pod web-1 is in CrashLoopBackOff. Its last run ended with: lookup db.internal: no such host."
	if exit != 0 || strings.TrimSpace(got.Result) != want {
		t.Fatalf("exit %d, answer %q, want %q\n%s", exit, got.Result, want, s.out.Bytes())
	}
	pods := kube.Client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "pods"}).Namespace(ns)
	if _, err := pods.Get(t.Context(), pod.Name, metav1.GetOptions{}); err != nil {
		t.Errorf("the agent was to leave the Pod alone: %v", err)
	}
	last := m.Requests("investigate")
	if text := last[len(last)-1].Text; !strings.Contains(text, "requires approval") && !strings.Contains(text, "denied") {
		t.Errorf("the agent was not told that deleting is denied")
	}
}

func writeIncident(t *testing.T, dir, namespace, pod string) {
	t.Helper()
	incident, err := json.Marshal(map[string]any{
		"namespace": namespace, "resource": map[string]string{"kind": "Pod", "name": pod},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "context"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "context", "incident.json"), incident, 0o600); err != nil {
		t.Fatal(err)
	}
}
