package app

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/record/store"
)

// What the older platform kept is taken over once, as far as the retention covers it; what is no
// execution is left out, and no file keeps a server from starting.
func TestThePastIsTakenOverOnce(t *testing.T) {
	dir := t.TempDir()
	now := time.Date(2026, 5, 1, 10, 0, 0, 0, time.UTC)
	a := callee(t, dir, func() time.Time { return now })
	defer func() {
		if err := a.store.Close(); err != nil {
			t.Error(err)
		}
	}()
	a.cfg.HistoryDir, a.cfg.Retention = dir, 72*time.Hour
	entries := `{"entries": [
		{"execution_id": "EXEC-1", "skill": "dev/reviewer", "timestamp": "2026-05-01T09:00:00+00:00", "outcome": "pending_review", "cost_usd": 0.5, "latency_ms": 1500.5,
		 "model_used": "a-model", "input_summary": {"pr": 1}, "output_summary": {"verdict": "approve"}, "triggered_by": "ann", "user_feedback": null},
		{"execution_id": "EXEC-2", "skill": "dev/tester", "timestamp": "2026-05-01T08:00:00.123456", "outcome": "error"},
		{"execution_id": "EXEC-3", "skill": "dev/tester", "timestamp": "2026-01-01T08:00:00Z", "outcome": "accepted"},
		{"execution_id": "EXEC-4", "skill": "dev/tester", "timestamp": "yesterday"},
		{"execution_id": "EXEC-5", "skill": "` + "dev/tester" + `", "timestamp": "2026-05-01T08:00:00Z", "latency_ms": 1e300},
		{"execution_id": "EXEC-6", "skill": "dev/tester", "timestamp": "2026-05-01T08:00:00Z", "cost_usd": -1000},
		{"execution_id": "EXEC-7", "skill": "dev/tester", "timestamp": "2026-05-01T08:00:00Z", "cost_usd": 1e300},
		{"execution_id": "EXEC-8", "skill": "dev/tester", "timestamp": "9999-05-01T08:00:00Z"}, 7, {}]}`
	for name, c := range map[string]struct {
		text string
		want int
	}{"what there is": {entries, 2}, "the same again": {entries, 2}, "no JSON": {"{", 2}, "another kind": {`[1]`, 2}} {
		if err := os.WriteFile(filepath.Join(dir, pastFile), []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		err := a.importPast(t.Context())
		list, _, listed := a.store.ListRuns(t.Context(), store.RunFilter{})
		if err := errors.Join(err, listed); err != nil || strings.HasPrefix(c.text, `{"`) && len(list) != c.want {
			t.Errorf("%s: %v, %v", name, list, err)
		}
	}
	first, err := a.store.Run(t.Context(), nightcrier.DerivedID("execution of the older platform", "EXEC-1"))
	if err != nil || first.Pipeline != "dev/reviewer" || first.Outcome != nightcrier.StateSuccess || first.CostUSD != 0.5 || first.TriggeredBy != "ann" || first.EndedAt.Sub(first.QueuedAt) != 1500500*time.Microsecond {
		t.Errorf("%+v, %v", first, err)
	}
	steps, err := a.store.Steps(t.Context(), first.ID)
	var output map[string]string
	if err != nil || len(steps) != 1 || json.Unmarshal(steps[0].Output, &output) != nil || output["verdict"] != "approve" {
		t.Errorf("%+v, %v", steps, err)
	}
	if input, err := a.store.RunInput(t.Context(), first.ID); err != nil || !strings.Contains(string(input), `"pr"`) {
		t.Errorf("%s, %v", input, err)
	}
	second, err := a.store.Run(t.Context(), nightcrier.DerivedID("execution of the older platform", "EXEC-2"))
	if err != nil || second.Outcome != nightcrier.StateFailed || !strings.Contains(second.FailureReason, "error") {
		t.Errorf("%+v, %v", second, err)
	}
	if err := os.Remove(filepath.Join(dir, pastFile)); err != nil {
		t.Fatal(err)
	}
	if err := a.importPast(t.Context()); err != nil {
		t.Errorf("without the file: %v", err)
	}
}
