package falsify

import (
	"strings"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/cluster/kube"
	"nightcrier.dev/nightcrier/internal/test/kubetest"
)

// A real API server answers each form of a command.
func TestAgainstARealServer(t *testing.T) {
	s := kubetest.Start(t)
	c, err := kube.Dial(s.Kubeconfig, "", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	ns := s.Namespace(t)
	pod := s.Pod(t, ns, "cart", nil)
	for command, want := range map[string]string{
		"kubectl get pod " + pod.Name:                                     "cart",
		"kubectl get po/" + pod.Name + " -o yaml":                         "cart",
		"kubectl get pods -l app!=pay":                                    "cart",
		"kubectl get pod -A --field-selector metadata.namespace=" + ns:    "cart",
		"kubectl describe pod " + pod.Name:                                "cart",
		"kubectl get pod " + pod.Name + " -o jsonpath='{.metadata.name}'": "cart",
		"kubectl get events":                                              "EventList",
		"kubectl events --for pod/" + pod.Name:                            "EventList",
		"kubectl get configmap nowhere":                                   "not found",
		"kubectl get ns " + ns:                                            ns,
	} {
		in, rec := input(nil)
		in.Reader, in.Namespace = c, ns
		r := nightcrier.Report{Source: "agent", Hypotheses: []nightcrier.Hypothesis{{ID: "H1", Falsification: nightcrier.Falsification{Command: command}}}}
		got, reads, err := Run(t.Context(), in, &r)
		if err != nil || reads == 0 || got[0].Test.Evidence == "" || !strings.Contains(strings.Join(rec.bodies, ""), want) {
			t.Errorf("%s: %+v, %d reads, %v\n%s", command, got, reads, err, rec.bodies)
		}
	}
}
