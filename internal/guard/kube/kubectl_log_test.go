package kube_test

import (
	"context"
	"io"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nightcrier.dev/nightcrier/internal/test/kubetest"
)

// logFlags are kubectl's ways to read a part of a log.
var logFlags = []string{
	"", "--tail=0", "--tail=1", "--tail=3", "--tail=100", "--timestamps", "--timestamps --tail=2", "--since=1m", "--since=3m15s", "--since=3m15s --tail=1",
	"--since=100h", "--since-time=2020-01-01T00:00:00Z", "--since-time=2100-01-01T00:00:00Z", "--limit-bytes=1", "--limit-bytes=30", "--limit-bytes=40 --timestamps",
	"--limit-bytes=9 --tail=3", "--limit-bytes=9 --since=3m15s", "--prefix", "--prefix --timestamps --tail=2", "--all-containers --prefix", "-c app --tail=2",
	"--previous", "--previous --tail=1 --timestamps", "--previous --since=2m15s",
	"-f", "-f --tail=2", "-f --tail=0", "-f --since=3m15s --timestamps", "-f --limit-bytes=30", "-f --previous --tail=1",
}

// loggingPod is a Pod in a namespace of its own.
func loggingPod(t *testing.T, s *kubetest.Server) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "talker", Namespace: s.Namespace(t)},
		Spec:       corev1.PodSpec{NodeName: kubetest.NodeName, Containers: []corev1.Container{{Name: "app", Image: "registry.invalid/app:1"}}},
	}
	s.Create(t, pod)
	s.CrashLoop(t, pod, 1, 1)
	return pod
}

// logs runs kubectl logs.
func logs(t *testing.T, kubectl, kubeconfig string, pod *corev1.Pod, flags string) (out string, failed bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, kubectl, append([]string{"logs", pod.Name, "-n", pod.Namespace}, strings.Fields(flags)...)...)
	cmd.Env = []string{"HOME=" + t.TempDir(), "KUBECONFIG=" + kubeconfig}
	said, err := cmd.Output()
	return string(said), err != nil
}

// TestKubectlLogs: what kubectl prints of a log without secrets is what it prints without the
// guard, whatever its flags; and of one with secrets none is in it. Every log is read with
// every third of the flags, as each call is a process; TestNoWindowShowsASecret reads all.
func TestKubectlLogs(t *testing.T) {
	s := kubetest.Start(t)
	kubectl := kubetest.Kubectl(t)
	g := inFront(t, s)
	plain := loggingPod(t, s)
	text := "first\nsecond line\n\n  indented: value\nGET /items?id=7 200\nlast words\n"
	s.SetLogs(plain, false, text)
	s.SetLogs(plain, true, "it was\nanother\nlife\n")
	for _, flags := range logFlags {
		direct, refused := logs(t, kubectl, s.Kubeconfig, plain, flags)
		got, failed := logs(t, kubectl, g.kubeconfig, plain, flags)
		if got != direct || failed != refused {
			t.Errorf("kubectl logs %s: %q (failed: %t), and without the guard %q (%t)", flags, got, failed, direct, refused)
		}
	}
	for i, name := range slices.Sorted(maps.Keys(spread)) {
		c, pod := spread[name], loggingPod(t, s)
		s.SetLogs(pod, false, c.log)
		s.SetLogs(pod, true, c.log)
		for at := i % 3; at < len(logFlags); at += 3 {
			flags := logFlags[at]
			got, _ := logs(t, kubectl, g.kubeconfig, pod, flags)
			for _, word := range c.words {
				if strings.Contains(got, word) {
					t.Errorf("%s, kubectl logs %s: %s", name, flags, got)
				}
			}
		}
	}
}

// TestKubectlFollows: kubectl prints each line that is written, when it is written.
func TestKubectlFollows(t *testing.T) {
	s := kubetest.Start(t)
	g := inFront(t, s)
	pod := loggingPod(t, s)
	log := kubetest.NewLog("old\n- name: DB_PASSWORD\n")
	s.SetLog(pod, false, log)
	cmd := exec.CommandContext(t.Context(), kubetest.Kubectl(t), "logs", "-f", "--tail=0", pod.Name, "-n", pod.Namespace)
	cmd.Env = []string{"HOME=" + t.TempDir(), "KUBECONFIG=" + g.kubeconfig}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	await(t, "the log is followed", log.Followed)
	var all strings.Builder
	written := "  value: orange-horse\nnext\nkind: Secret\nstringData:\n  more: orange-cow\nnew\n"
	for line := range strings.Lines(written) {
		_, _ = io.WriteString(log, line)
		if line == "next\n" {
			buf := make([]byte, 1)
			for !strings.Contains(all.String(), "next\n") {
				if n, err := out.Read(buf); err != nil {
					t.Fatalf("%v after %q", err, all.String())
				} else {
					all.Write(buf[:n])
				}
			}
		}
	}
	log.End()
	rest, _ := io.ReadAll(out)
	_ = cmd.Wait()
	got := all.String() + string(rest)
	if strings.Contains(got, "orange") || !strings.HasSuffix(got, "new\n") || !strings.Contains(got, "next\n") || strings.Contains(got, "old") {
		t.Errorf("%s", got)
	}
}
