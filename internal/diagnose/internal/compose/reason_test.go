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

// The reason is told with the symptom, before it: its innermost words, its facts and what to do.
// Neither a vague finding, nor another one of the same cause, nor a node has it told.
func TestWhoTellsTheReason(t *testing.T) {
	agent := nightcrier.Object{Kind: "DaemonSet", Namespace: "kube-system", Name: "agent"}
	node := nightcrier.Object{Kind: "Node", Name: "n1"}
	symptom := scene.Finding{
		Cause: "unhealthy", Entry: scene.Cause{ID: "unhealthy", Symptom: true}, Object: agent, Summary: "It is not ready.", Confidence: nightcrier.High,
		Observed: []scene.Observation{{Text: "not ready"}}, Actions: []scene.Step{{Action: "look"}}, DependsOn: []nightcrier.Object{node},
	}
	reason := scene.Finding{
		Cause: "crash", Entry: scene.Cause{ID: "crash", Symptom: true}, Object: agent, Summary: "Its log says: no CIDR.", Why: "no CIDR", Confidence: nightcrier.High,
		Observed: []scene.Observation{{Text: "log"}}, Actions: []scene.Step{{Action: "mend"}}, DependsOn: []nightcrier.Object{agent},
	}
	cause, other := reason, scene.Finding{Cause: "old", Object: agent, Entry: scene.Cause{ID: "old", Symptom: true}, Confidence: nightcrier.High}
	cause.Entry.Symptom, cause.Why = false, ""
	vague, same, own, ofNode := reason, reason, symptom, symptom
	vague.Confidence, same.Cause, own.Why, ofNode.Object = nightcrier.Low, symptom.Cause, "of its own", node
	for name, c := range map[string]struct {
		all  []scene.Finding
		why  string
		left int
	}{
		"the innermost words":  {[]scene.Finding{symptom, other, reason}, "no CIDR", 2},
		"a cause in one word":  {[]scene.Finding{symptom, cause}, cause.Summary, 1},
		"one that is vague":    {[]scene.Finding{symptom, vague}, "", 2},
		"one of the same":      {[]scene.Finding{symptom, same}, "", 2},
		"it has one":           {[]scene.Finding{own, reason}, "of its own", 2},
		"of a node":            {[]scene.Finding{ofNode, reason}, "", 2},
		"a cause needs no why": {[]scene.Finding{cause, reason}, "", 2},
	} {
		t.Run(name, func(t *testing.T) {
			got := tellReasons(c.all)
			if got[0].Why != c.why || len(got) != c.left {
				t.Fatalf("%q of %d findings", got[0].Why, len(got))
			}
			if c.left == len(c.all) {
				return
			}
			n, why := got[0], c.all[len(c.all)-1]
			if n.Summary != "It is not ready. "+why.Summary || len(n.Observed) != 2 || n.Observed[0].Text != "not ready" || len(n.DependsOn) != 2 || len(n.Actions) != 2 || n.Actions[0].Action != "mend" {
				t.Errorf("%+v", n)
			}
		})
	}
}
