package bench

import (
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/cluster/kube"
	"nightcrier.dev/nightcrier/internal/cluster/preflight"
	"nightcrier.dev/nightcrier/internal/diagnose"
	"nightcrier.dev/nightcrier/internal/record/evidence"
	"nightcrier.dev/nightcrier/internal/test/kubetest"
)

// byHand are the 26 calls of kubectl by which a person gathers what one diagnosis
// of a Deployment reads.
var byHand = []string{
	"auth can-i --list", "get deployment cart -o yaml", "get replicasets -o yaml", "get pods -o yaml", "get events -o yaml",
	"describe deployment cart", "describe pods", "get statefulsets -o yaml", "get daemonsets -o yaml", "get jobs -o yaml", "get cronjobs -o yaml",
	"get services -o yaml", "get endpointslices -o yaml", "get ingresses -o yaml", "get networkpolicies -o yaml", "get configmaps -o yaml",
	"get serviceaccounts -o yaml", "get persistentvolumeclaims -o yaml", "get resourcequotas -o yaml", "get limitranges -o yaml",
	"get horizontalpodautoscalers -o yaml", "get poddisruptionbudgets -o yaml", "get nodes -o yaml", "get storageclasses -o yaml",
	"logs POD --previous --tail=100", "logs POD --tail=100",
}

// BenchmarkDiagnose compares one diagnosis on a real API server with the calls of
// kubectl that gather the same, in one run.
func BenchmarkDiagnose(b *testing.B) {
	s := kubetest.Audited(b)
	ns := s.Namespace(b)
	_, rs := s.Deployment(b, ns, "cart")
	pod := s.Pod(b, ns, rs.Name+"-x7k2p", rs)
	s.CrashLoop(b, pod, 1, 5)
	s.SetLogs(pod, true, "starting\nFATAL: no database\n")
	for _, name := range []string{"a", "b", "c"} {
		s.Create(b, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Data: map[string]string{"k": "v"}})
	}
	config := s.ReadOnly(b)
	client, err := kube.Dial(config, "", time.Minute)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(client.Close)
	kubectl := kubetest.Kubectl(b)
	for name, gather := range map[string]func(*testing.B){
		"builtin":     func(b *testing.B) { diagnoseOnce(b, client, ns) },
		"26-kubectls": func(b *testing.B) { gatherByHand(b, kubectl, config, ns, pod.Name) },
	} {
		b.Run(name, func(b *testing.B) {
			before := len(s.Audit(b))
			for b.Loop() {
				gather(b)
			}
			b.ReportMetric(float64(len(s.Audit(b))-before)/float64(b.N), "requests/op")
		})
	}
}

func diagnoseOnce(b *testing.B, client *kube.Client, ns string) {
	target := nightcrier.Resource{APIVersion: "apps/v1", Kind: "Deployment", Namespace: ns, Name: "cart"}
	ev, err := evidence.Open(filepath.Join(b.TempDir(), "evidence"))
	if err != nil {
		b.Fatal(err)
	}
	defer ev.Close()
	d, err := diagnose.Run(b.Context(), diagnose.Input{
		Incident: &nightcrier.Incident{ID: nightcrier.NewID(), Cluster: "bench", Resource: target},
		Event:    nightcrier.Event{ID: "e", Resource: target}, Reader: permitted{client}, Evidence: ev,
	})
	if err != nil || d.Report.RootCause == nil {
		b.Fatalf("%v, cause %+v", err, d.Report.RootCause)
	}
}

// permitted asks what it may do as a first diagnosis does; a server remembers it.
type permitted struct{ *kube.Client }

func (p permitted) Permissions(ctx context.Context, ns string) (map[string]any, error) {
	known, err := preflight.Check(ctx, p.Client, "bench", ns, time.Time{})
	return known.Permissions(), err
}

func gatherByHand(b *testing.B, kubectl, config, ns, pod string) {
	for _, call := range byHand {
		args := append(strings.Fields(strings.ReplaceAll(call, "POD", pod)), "-n", ns, "--kubeconfig", config)
		// The exit status is not looked at: the scripted kubelet has no log of the
		// container that runs now, and a person would read on.
		_ = exec.CommandContext(b.Context(), kubectl, args...).Run()
	}
}
