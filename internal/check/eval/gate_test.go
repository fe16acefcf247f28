package eval

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/cluster/snapshot"
)

func TestExcision(t *testing.T) {
	x := &excision{settings: map[string][]string{}}
	x.add("exitCode=137, reason=OOMKilled")
	x.add("MemoryPressure=True")
	x.add("dial tcp 10.0.0.1:5432: … connection refused at 12:00")
	before := `{"items": [
		{"kind": "Event", "reason": "BackOff", "message": "Back-off"},
		{"kind": "Event", "reason": "Unhealthy", "message": "dial tcp 10.0.0.77:5432: i/o timeout"},
		{"kind": "Pod", "status": {"phase": "Running", "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled", "signal": 9}}}},
		{"kind": "Node", "status": {"conditions": [{"type": "MemoryPressure", "status": "True"}, {"type": "Ready", "status": "True"}]}}]}`
	after := `{"items":[{"kind":"Event","message":"Back-off","reason":"BackOff"},{"kind":"Pod","status":{"lastState":{"terminated":{"signal":9}},"phase":"Running"}},{"kind":"Node","status":{"conditions":[{"status":"True","type":"Ready"}]}}]}`
	if got := string(x.edit("objects/a.json", []byte(before))); got != after || x.removed != 4 {
		t.Errorf("removed %d: %s", x.removed, got)
	}
	if got := string(x.edit("logs/a/b/c.log", []byte("fine\nERROR connection refused at 12:59\nfine"))); got != "fine\nfine" {
		t.Errorf("log %q", got)
	}
	if got := string(x.edit("snapshot.json", []byte(before))); got != before {
		t.Errorf("what is no object was changed: %s", got)
	}
}

// Gates tell a diagnosis that follows its evidence from one that does not.
func TestGatesTellGoodFromBad(t *testing.T) {
	dir := t.TempDir()
	pod := `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "cart", "namespace": "shop"}, "status": {"message": "reason=OOMKilled"}}`
	if err := os.MkdirAll(filepath.Join(dir, "objects"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"objects/pod.json": `{"apiVersion": "v1", "kind": "List", "items": [` + pod + `]}`,
		"snapshot.json":    `{"cluster": "c", "capturedAt": "2026-03-10T09:00:00Z", "namespaces": ["shop"]}`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	stubborn := func(context.Context, Case) (*nightcrier.Report, error) {
		r := fault("oom-killed", cart, nightcrier.High)
		r.Facts = []nightcrier.Fact{{ID: "F2", Quote: "reason=OOMKilled"}}
		r.Hypotheses = []nightcrier.Hypothesis{{Cause: "oom-killed", Object: cart, For: []string{"F2"}}}
		return r, nil
	}
	honest := func(ctx context.Context, c Case) (*nightcrier.Report, error) {
		raw, err := os.ReadFile(filepath.Join(c.Dir, "objects", "pod.json"))
		if err == nil && strings.Contains(string(raw), `"name"`) {
			r, _ := stubborn(ctx, c)
			r.Facts = []nightcrier.Fact{{ID: "F2", Quote: "name=cart"}}
			return r, nil
		}
		return verdict(nightcrier.VerdictHealthy), err
	}
	fickle := func(ctx context.Context, c Case) (*nightcrier.Report, error) {
		if _, err := os.Stat(filepath.Join(c.Dir, "objects", "noise-of-gate.json")); err == nil {
			return fault("crash-on-start", cart, nightcrier.High), nil
		}
		return verdict(nightcrier.VerdictHealthy), nil
	}
	c := Case{Name: "a", Dir: dir, Namespace: "shop", Target: "Pod/cart"}
	for _, try := range []struct {
		name string
		look Investigate
		gate string
		want GateTotals
	}{
		{"rests on nothing there", stubborn, CauseGate, GateTotals{Gate: CauseGate, Skipped: 1}},
		{"follows", honest, CauseGate, GateTotals{Gate: CauseGate, Passed: 1}},
		{"unmoved by noise", honest, NoiseGate, GateTotals{Gate: NoiseGate, Passed: 1}},
		{"moved by noise", fickle, NoiseGate, GateTotals{Gate: NoiseGate, Failed: 1}},
	} {
		t.Run(try.name, func(t *testing.T) {
			trials, err := TryGates(t.Context(), []Case{c}, try.look)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range SumGates(trials) {
				if s.Gate == try.gate && s != try.want {
					t.Errorf("%+v, want %+v", s, try.want)
				}
			}
		})
	}
}

// The noise is a namespace's own, of the time of the snapshot, and can be read.
func TestNoise(t *testing.T) {
	dir := t.TempDir()
	now := time.Date(2026, 3, 10, 9, 0, 0, 0, time.UTC)
	if err := writeNoise(dir, "bank", now); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(dir, "objects", "noise-of-gate.json"))
	if err != nil || !json.Valid(raw) || strings.Contains(string(raw), `"-`) || strings.Contains(string(raw), `"NS"`) {
		t.Errorf("%v in %s", err, raw)
	}
	snap, err := snapshot.Open(dir)
	if err != nil || snap.CountIn("bank") != 6 { // five, and their namespace
		t.Errorf("%v, %d objects", err, snap.CountIn("bank"))
	}
}

func TestCompare(t *testing.T) {
	right := Score{Case: "a", Verdict: nightcrier.VerdictFault, Cause: "oom-killed", Object: &cart, Confidence: nightcrier.High, Exact: true}
	open := Score{Case: "a", Verdict: nightcrier.VerdictUndetermined, Cause: "undetermined", Abstained: true}
	same := Score{Case: "b", Verdict: nightcrier.VerdictHealthy, Cause: "healthy", Exact: true, MS: 7}
	slower := same
	slower.MS = 900
	got := Compare(Result{Cases: []Score{right, same, {Case: "c"}}}, Result{Cases: []Score{open, slower, {Case: "d"}}})
	if len(got) != 3 || !got[0].Worse() || got[0].Better() || got[1].Case != "d" || got[2].Case != "c" || got[2].After != nil {
		t.Errorf("%+v", got)
	}
	if back := Compare(Result{Cases: []Score{open}}, Result{Cases: []Score{right}}); len(back) != 1 || !back[0].Better() {
		t.Errorf("%+v", back)
	}
}
