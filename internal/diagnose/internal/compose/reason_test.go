package compose

import (
	"strings"
	"testing"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scene"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scenetest"
)

// A symptom is certain only with its reason: its own, or one that another finding about the
// same object carries, which is then told with it. A cause needs none.
func TestASymptomIsCertainOnlyWithItsReason(t *testing.T) {
	agent := nightcrier.Object{Kind: "DaemonSet", Namespace: "kube-system", Name: "agent"}
	symptom := scene.Finding{Cause: "cluster-network-unhealthy", Entry: scene.Cause{ID: "cluster-network-unhealthy", Meaning: "m", Rank: 88, Symptom: true}, Object: agent, Summary: "It is not ready.", Confidence: nightcrier.High}
	ends := scene.Finding{Cause: "crash-on-start", Entry: scene.Cause{ID: "crash-on-start", Meaning: "m", Rank: 50, Symptom: true}, Object: agent, Summary: "It ends.", Confidence: nightcrier.High}
	says := ends
	says.Summary, says.Why = "Its log says: no CIDR assigned.", "no CIDR assigned"
	cause := scene.Finding{Cause: "quota-exceeded", Entry: scene.Cause{ID: "quota-exceeded", Meaning: "m", Rank: 80}, Object: agent, Summary: "No room.", Confidence: nightcrier.High}
	for name, c := range map[string]struct {
		found []scene.Finding
		want  nightcrier.Confidence
		says  string
	}{
		"alone":                           {[]scene.Finding{symptom}, nightcrier.Medium, "not ready"},
		"beside another without a reason": {[]scene.Finding{symptom, ends}, nightcrier.Medium, "not ready"},
		"beside one that says why":        {[]scene.Finding{symptom, says}, nightcrier.High, "no CIDR assigned"},
		"its own reason":                  {[]scene.Finding{says}, nightcrier.High, "no CIDR assigned"},
		"a cause":                         {[]scene.Finding{cause}, nightcrier.High, "No room"},
	} {
		t.Run(name, func(t *testing.T) {
			f := &scene.Facts{Now: scenetest.Now, Scene: scenetest.New(t, `{apiVersion: v1, kind: Pod, metadata: {namespace: shop, name: cart}}`), Target: scenetest.CartPod, Owner: scenetest.CartPod}
			in := Case{Incident: &nightcrier.Incident{Severity: nightcrier.Warning, Timestamp: scenetest.Now}, Mask: func(s string) string { return s }}
			r := AssembleReport(in, f, Compose(f, c.found, nil), nil, nil)
			if r.RootCause == nil || r.RootCause.Confidence != c.want || !strings.Contains(r.RootCause.Summary, c.says) {
				t.Fatalf("%+v", r.RootCause)
			}
			unknown := len(r.NotChecked) > 0 && strings.HasPrefix(r.NotChecked[0].What, "why DaemonSet kube-system/agent")
			if unknown != (c.want == nightcrier.Medium) {
				t.Errorf("not checked: %v", r.NotChecked)
			}
		})
	}
}
