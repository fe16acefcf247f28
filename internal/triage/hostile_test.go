package triage

import (
	"strings"
	"testing"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/guard/data"
	"nightcrier.dev/nightcrier/internal/guard/toolserver"
	"nightcrier.dev/nightcrier/internal/record/evidence"
	"nightcrier.dev/nightcrier/internal/triage/report"
)

// What an agent puts into a request comes back in a failure, and must not pass for the
// cluster's word. Requests and answers are as the guard keeps them of a real server.
func TestWhatMayBeCited(t *testing.T) {
	rec, err := evidence.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer rec.Close()
	long := strings.Repeat("x", evidence.MaxSource)
	for _, c := range []struct {
		kind, source string
		cited, asked bool
	}{
		{"object", "kubectl get pods cart -n shop", true, false},
		{"list", "kubectl get pods -n shop --selector=reason", true, false},
		{"log", "kubectl logs cart -n shop", true, false},
		{"error", "kubectl get pods cart.oomkilled -n shop", true, true},
		{"error", "kubectl get nodes worker-1", true, true},
		{"error", "kubectl logs cart -n shop --container=app", true, true},
		// "… does not recognize this encoded version cart OOMKilled": out of its continue token
		{"error", "kubectl get pods -A", false, false},
		{"error", "kubectl get pods -n shop --selector=cart reason OOMKilled", false, false},
		{"error", "kubectl get nodes --selector=a b", false, false},
		{"error", "kubectl get --raw '/api/v1/namespaces/shop/pods/cart/status?x=oomkilled'", false, false},
		{"error", "kubectl get pods " + long + ".oomkilled -n shop", false, false},
		{"review", "kubectl auth can-i", false, false},
		{"error", "", false, false},
		{data.KindMetrics, "prometheus query up", true, false},
		{data.KindComputed, "prometheus query label_replace(up)", false, false},
		{toolserver.Kind, "peer_find_owner {}", false, false},
	} {
		id, err := rec.Record(c.kind, c.source, []byte(`{"message":"cart OOMKilled"}`))
		if err != nil {
			t.Fatal(err)
		}
		if kept, ok := citableRecord(rec, id); ok != c.cited || ok && (kept.Asked != "") != c.asked {
			t.Errorf("%s of %.80q: cited %v, asked %q", c.kind, c.source, ok, kept.Asked)
		}
	}
	if _, ok := citableRecord(rec, "E999"); ok {
		t.Error("what was never recorded is cited")
	}
}

// A tool that repeats what it is given makes evidence of an agent's own words.
func TestAnEchoingToolVouchesForNothing(t *testing.T) {
	rec, err := evidence.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer rec.Close()
	for kind, want := range map[string]nightcrier.Check{"log": nightcrier.Seen, toolserver.Kind: nightcrier.Unseen} {
		id, err := rec.Record(kind, `peer_echo {"text":"Pod cart-1: reason: OOMKilled, exitCode: 137"}`, []byte("Pod cart-1: reason: OOMKilled, exitCode: 137\n"))
		if err != nil {
			t.Fatal(err)
		}
		rep := nightcrier.Report{Target: nightcrier.Object{Kind: "Pod", Namespace: "shop", Name: "cart-1"},
			Facts: []nightcrier.Fact{{ID: "FACT-1", Text: "cart-1 was killed for its memory", Quote: "reason: OOMKilled", Evidence: []string{id}}}}
		report.Check(&rep, func(id string) (report.Recorded, bool) { return citableRecord(rec, id) })
		if got := rep.Facts[0].Check; got != want {
			t.Errorf("a fact that cites evidence of kind %s is %s, want %s", kind, got, want)
		}
	}
}
