package kubetest_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"

	"nightcrier.dev/nightcrier/internal/test/kubetest"
)

var pods = schema.GroupVersionResource{Version: "v1", Resource: "pods"}

func connect(t *testing.T, kubeconfig string) dynamic.Interface {
	t.Helper()
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	c, err := dynamic.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestPodStatusOwnersAndEvents(t *testing.T) {
	s := kubetest.Start(t)
	ns := s.Namespace(t)
	dep, rs := s.Deployment(t, ns, "checkout")
	pod := s.Pod(t, ns, "checkout-7d4b9c8f6d-x2x2x", rs)
	s.CrashLoop(t, pod, 1, 4)
	s.Warn(t, pod, "BackOff", "Back-off restarting failed container")

	got, err := s.Client.Resource(pods).Namespace(ns).Get(t.Context(), pod.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if owner := got.GetOwnerReferences(); len(owner) != 1 || owner[0].UID != rs.UID || owner[0].Kind != "ReplicaSet" {
		t.Errorf("owner = %+v, want the ReplicaSet", owner)
	}
	if rs.OwnerReferences[0].UID != dep.UID {
		t.Errorf("ReplicaSet's owner = %+v, want the Deployment", rs.OwnerReferences)
	}
	if cs := pod.Status.ContainerStatuses[0]; cs.RestartCount != 4 || cs.State.Waiting.Reason != "CrashLoopBackOff" {
		t.Errorf("status the server kept = %+v", cs)
	}
	s.OOMKill(t, pod, 5)
	if last := pod.Status.ContainerStatuses[0].LastTerminationState.Terminated; last.Reason != "OOMKilled" || last.ExitCode != 137 {
		t.Errorf("last state = %+v", last)
	}
	s.Running(t, pod)
	if !pod.Status.ContainerStatuses[0].Ready {
		t.Errorf("status of a healthy Pod = %+v", pod.Status)
	}
	stuck := s.Unschedulable(t, ns, "stuck", rs, "0/1 nodes are available: insufficient memory")
	if stuck.Spec.NodeName != "" || stuck.Status.Conditions[0].Reason != "Unschedulable" {
		t.Errorf("unschedulable Pod = %+v", stuck.Status)
	}
	s.Delete(t, pod)
	if _, err := s.Client.Resource(pods).Namespace(ns).Get(t.Context(), pod.Name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("get of the deleted Pod: %v", err)
	}
}

func TestAccessIsEnforced(t *testing.T) {
	s := kubetest.Start(t)
	ns := s.Namespace(t)
	pod := s.Pod(t, ns, "p1", nil)
	read, limited := connect(t, s.ReadOnly(t)), connect(t, s.CannotList(t))
	ctx := t.Context()

	secrets := schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	patch := []byte(`{"metadata":{"labels":{"x":"y"}}}`)
	cases := map[string]struct {
		do      func() error
		allowed bool
	}{
		"reader gets": {func() error {
			_, err := read.Resource(pods).Namespace(ns).Get(ctx, pod.Name, metav1.GetOptions{})
			return err
		}, true},
		"reader lists":        {func() error { _, err := read.Resource(pods).List(ctx, metav1.ListOptions{}); return err }, true},
		"reader reads secret": {func() error { _, err := read.Resource(secrets).List(ctx, metav1.ListOptions{}); return err }, false},
		"reader patches": {func() error {
			_, err := read.Resource(pods).Namespace(ns).Patch(ctx, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{})
			return err
		}, false},
		"reader deletes": {func() error { return read.Resource(pods).Namespace(ns).Delete(ctx, pod.Name, metav1.DeleteOptions{}) }, false},
		"limited gets": {func() error {
			_, err := limited.Resource(pods).Namespace(ns).Get(ctx, pod.Name, metav1.GetOptions{})
			return err
		}, true},
		"limited lists": {func() error {
			_, err := limited.Resource(pods).Namespace(ns).List(ctx, metav1.ListOptions{})
			return err
		}, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			err := c.do()
			if c.allowed && err != nil {
				t.Errorf("refused: %v", err)
			}
			if !c.allowed && !apierrors.IsForbidden(err) {
				t.Errorf("err = %v, want forbidden", err)
			}
		})
	}
}

func TestKubectlSpeaksToTheServer(t *testing.T) {
	s := kubetest.Start(t)
	ns := s.Namespace(t)
	s.Pod(t, ns, "p1", nil)
	cmd := exec.Command(kubetest.Kubectl(t), "get", "pods", "-n", ns, "-o", "name")
	cmd.Env = []string{"KUBECONFIG=" + s.ReadOnly(t), "HOME=" + t.TempDir()}
	out, err := cmd.CombinedOutput()
	if err != nil || strings.TrimSpace(string(out)) != "pod/p1" {
		t.Errorf("kubectl get pods: %v: %s", err, out)
	}
}

func TestIsolatedServerCanBeStopped(t *testing.T) {
	s := kubetest.Isolated(t)
	all := schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	list, err := s.Client.Resource(all).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 0 {
		t.Fatalf("a server of its own has %d Pods, %v", len(list.Items), err)
	}
	s.Stop()
	if _, err := s.Client.Resource(all).List(t.Context(), metav1.ListOptions{}); err == nil {
		t.Error("the stopped server still answers")
	}
	if _, err := os.Stat(s.Kubeconfig); !os.IsNotExist(err) {
		t.Errorf("the stopped server's files are still there: %v", err)
	}
}

func TestWatchDeliversNewPods(t *testing.T) {
	s := kubetest.Start(t)
	ns := s.Namespace(t)
	w, err := s.Client.Resource(pods).Namespace(ns).Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	s.ImagePullBackOff(t, s.Pod(t, ns, "p1", nil))
	first := (<-w.ResultChan()).Object.(metav1.Object)
	if first.GetName() != "p1" {
		t.Errorf("watch told of %s", first.GetName())
	}
}

func TestLogsComeThroughTheServer(t *testing.T) {
	s := kubetest.Start(t)
	ns := s.Namespace(t)
	pod := s.Pod(t, ns, "p1", nil)
	s.SetLogs(pod, false, "one\ntwo\nthree\n")
	s.SetLogs(s.Pod(t, ns, "p2", nil), true, "panic: no such host\n")
	reader, other := s.ReadOnly(t), s.CannotList(t)
	cases := map[string]struct {
		kubeconfig string
		args       []string
		want       string
		fails      bool
	}{
		"current":     {reader, []string{"p1"}, "one\ntwo\nthree", false},
		"tail":        {reader, []string{"p1", "--tail=2"}, "two\nthree", false},
		"limit":       {reader, []string{"p1", "--limit-bytes=5"}, "one\nt", false},
		"previous":    {reader, []string{"p2", "--previous"}, "panic: no such host", false},
		"no previous": {reader, []string{"p1", "--previous"}, `previous terminated container "app" in pod "p1" not found`, true},
		"forbidden":   {other, []string{"p1"}, "cannot get resource \"pods/log\"", true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command(kubetest.Kubectl(t), append([]string{"logs", "-n", ns}, c.args...)...)
			cmd.Env = []string{"KUBECONFIG=" + c.kubeconfig, "HOME=" + t.TempDir()}
			out, err := cmd.CombinedOutput()
			if got := strings.TrimSpace(string(out)); (err != nil) != c.fails || !strings.Contains(got, c.want) || (!c.fails && got != c.want) {
				t.Errorf("kubectl logs: %v: %q, want %q", err, got, c.want)
			}
		})
	}
	if node := s.Node(t); node.Status.Conditions[0].Status != "True" {
		t.Errorf("node = %+v", node.Status.Conditions)
	}
}
