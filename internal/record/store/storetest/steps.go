package storetest

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/record/store"
)

// saveStep saves a step, or ends the test.
func (b *bench) saveStep(t *testing.T, s nightcrier.Step) {
	t.Helper()
	if err := b.SaveSteps(t.Context(), s); err != nil {
		t.Fatalf("step %s#%d: %v", s.ID, s.Attempt, err)
	}
}

func (b *bench) wantSteps(t *testing.T, run string, want ...nightcrier.Step) {
	t.Helper()
	got, err := b.Steps(t.Context(), run)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("steps (%v):\n%s", err, diff)
	}
}

func stepLife(t *testing.T, b *bench) {
	ctx := t.Context()
	run := b.enqueueRun(t, newCall("")).Run.ID
	a := nightcrier.Step{RunID: run, ID: "collect", Attempt: 1, Phase: "first", Uses: "action:collect", State: nightcrier.StateCreated}
	wantCode(t, b.SaveSteps(ctx, a), nightcrier.Conflict) // nothing of a queued run is begun
	b.admitRun(t)
	woken, stop := b.WatchJournal(run)
	defer stop()
	b.saveStep(t, a)
	wantWoken(t, woken)
	z := nightcrier.Step{RunID: run, ID: "answer", Attempt: 1, State: nightcrier.StateCreated, Skipped: "if: false"}
	b.saveStep(t, z)
	a.State, a.StartedAt = nightcrier.StateRunning, b.clock.Now()
	b.saveStep(t, a)
	before := a
	before.State = nightcrier.StateStarting
	b.saveStep(t, before)
	b.wantSteps(t, run, a, z)
	a.State, a.EndedAt, a.FailureClass, a.FailureReason = nightcrier.StateFailed, b.clock.Now(), nightcrier.FailCrash, "killed \x00"
	a.Usage = nightcrier.Usage{CostUSD: 0.5, InputTokens: 7}
	b.saveStep(t, a)
	second := nightcrier.Step{RunID: run, ID: "collect", Attempt: 2, State: nightcrier.StateSuccess, Output: json.RawMessage(`{"a":["\u003c\u0026","\u0000"]}`),
		Artifacts: []nightcrier.Artifact{{Path: "output/artifacts/x", Bytes: 1, SHA256: "d"}}}
	b.saveStep(t, second)
	for range 2 {
		b.saveStep(t, before) // late, or from before a crash
		b.saveStep(t, a)
		b.wantSteps(t, run, a, second, z)
	}
	a.State = nightcrier.StateSuccess
	wantCode(t, b.SaveSteps(ctx, a), nightcrier.Conflict)
	b.saveStep(t, nightcrier.Step{RunID: run, ID: "tell", Attempt: 1, State: nightcrier.StateCreated})
	b.endRun(t, run)
	told := nightcrier.Step{RunID: run, ID: "tell", Attempt: 1, State: nightcrier.StateSuccess}
	if err := b.SaveSteps(ctx, nightcrier.Step{RunID: run, ID: "tell", Attempt: 1, State: nightcrier.StateRunning}, told); err != nil {
		t.Error(err)
	}
	b.saveStep(t, nightcrier.Step{RunID: run, ID: "late", Attempt: 1, State: nightcrier.StateRunning})
	if list, err := b.Steps(ctx, run); err != nil || len(list) != 4 || list[3].State != nightcrier.StateSuccess {
		t.Errorf("after the end there are %d attempts, %v", len(list), err)
	}
	wantCode(t, b.SaveSteps(ctx, nightcrier.Step{RunID: nightcrier.NewID(), ID: "a", Attempt: 1, State: nightcrier.StateRunning}), nightcrier.NotFound)
}

func stepRefuses(t *testing.T, b *bench) {
	run := b.enqueueRun(t, newCall("")).Run.ID
	b.admitRun(t)
	for word, spoil := range map[string]func(*nightcrier.Step){
		"needs a run":  func(s *nightcrier.Step) { s.RunID = "" },
		"attempt from": func(s *nightcrier.Step) { s.Attempt = 0 },
		"phase":        func(s *nightcrier.Step) { s.Phase = strings.Repeat("p", 1000) },
		"262144":       func(s *nightcrier.Step) { s.Output = make([]byte, 10<<20) },
		"no JSON":      func(s *nightcrier.Step) { s.Output = json.RawMessage("x") },
		"../x":         func(s *nightcrier.Step) { s.Artifacts = []nightcrier.Artifact{{Path: "../x", SHA256: "d"}} },
		"digest":       func(s *nightcrier.Step) { s.Artifacts = []nightcrier.Artifact{{Path: "x"}} },
		"300 artifacts": func(s *nightcrier.Step) {
			s.Artifacts = make([]nightcrier.Artifact, 300)
		},
	} {
		s := nightcrier.Step{RunID: run, ID: "a", Attempt: 1, State: nightcrier.StateSuccess}
		spoil(&s)
		err := b.SaveSteps(t.Context(), s)
		wantCode(t, err, nightcrier.Invalid)
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%v does not say %q", err, word)
		}
	}
	b.wantSteps(t, run, []nightcrier.Step{}...)
}

// threeSteps is a run of three steps of which the second failed twice; the third is there
// as given.
func (b *bench) threeSteps(t *testing.T, third nightcrier.Step) (run string, list []nightcrier.Step) {
	t.Helper()
	n := newCall("k")
	n.Input = json.RawMessage(`{}`)
	b.enqueueRun(t, n)
	run = b.admitRun(t).ID
	third.RunID, third.ID, third.Attempt = run, "check", 1
	now := b.clock.Now()
	list = []nightcrier.Step{
		{RunID: run, ID: "collect", Attempt: 1, State: nightcrier.StateFailed, StartedAt: now, EndedAt: now},
		{RunID: run, ID: "collect", Attempt: 2, State: nightcrier.StateSuccess, StartedAt: now, EndedAt: now, Output: json.RawMessage(`{"a":1}`), Usage: nightcrier.Usage{CostUSD: 1}},
		{RunID: run, ID: "ask", Attempt: 1, State: nightcrier.StateCreated, Skipped: "nobody is there"},
		{RunID: run, ID: "investigate", Attempt: 1, State: nightcrier.StateFailed, StartedAt: now, EndedAt: now},
		third,
	}
	for _, s := range list {
		b.saveStep(t, s)
	}
	return run, list
}

func retryFromStep(t *testing.T, b *bench) {
	ctx := t.Context()
	old, steps := b.threeSteps(t, nightcrier.Step{State: nightcrier.StateCreated})
	b.endRun(t, old)
	run, err := b.RetryRun(ctx, old, "investigate")
	if err != nil || run.RetryOf != old || run.FromStep != "investigate" || !cmp.Equal(b.readRun(t, run.ID), run) {
		t.Fatalf("%+v, %v", run, err)
	}
	collected, asked := steps[1], steps[2]
	collected.RunID, collected.FromRun, collected.Usage = run.ID, old, nightcrier.Usage{}
	asked.RunID, asked.FromRun = run.ID, old
	b.wantSteps(t, run.ID, collected, asked)
	b.admitRun(t)
	now := b.clock.Now()
	b.saveStep(t, nightcrier.Step{RunID: run.ID, ID: "investigate", Attempt: 1, State: nightcrier.StateFailed, StartedAt: now, EndedAt: now})
	b.endRun(t, run.ID)
	again, err := b.RetryRun(ctx, run.ID, "investigate") // a retry of a retry has it all
	if err != nil {
		t.Fatal(err)
	}
	collected.RunID, asked.RunID = again.ID, again.ID
	b.wantSteps(t, again.ID, collected, asked)
	b.admitRun(t)
	b.endRun(t, again.ID)
	whole, err := b.RetryRun(ctx, again.ID, "")
	if err != nil || whole.FromStep != "" {
		t.Errorf("%+v, %v", whole, err)
	}
	b.wantSteps(t, whole.ID, []nightcrier.Step{}...)
}

func retryFromStepRefused(t *testing.T, b *bench) {
	ctx := t.Context()
	run, _ := b.threeSteps(t, nightcrier.Step{State: nightcrier.StateCreated})
	_, err := b.RetryRun(ctx, run, "investigate")
	wantCode(t, err, nightcrier.Conflict) // it is open
	b.endRun(t, run)
	_, err = b.RetryRun(ctx, run, "notify")
	wantCode(t, err, nightcrier.Invalid)
	if err == nil || !strings.Contains(err.Error(), "collect, ask, investigate, check") {
		t.Errorf("%v does not say which steps there are", err)
	}
	_, err = b.RetryRun(ctx, run, "check")
	wantCode(t, err, nightcrier.Conflict)
	if err == nil || !strings.Contains(err.Error(), "retry from investigate") {
		t.Errorf("%v does not say what to do", err)
	}
	if n := b.readCounts(t); n.Queued != 0 {
		t.Errorf("%d are queued", n.Queued)
	}
	// A run that went on without what failed can be begun there again.
	on, _ := b.threeSteps(t, nightcrier.Step{State: nightcrier.StateFailed, StartedAt: b.clock.Now()})
	b.endRun(t, on)
	if _, err := b.RetryRun(ctx, on, "check"); err != nil {
		t.Error(err)
	}
	d := b.acceptEvent(t, b.newEvent("prod", "cart", nightcrier.Warning), Policy())
	b.clock.Advance(time.Second)
	b.drainQueue(t, generousLimits())
	if err := b.FinishRun(ctx, store.Finish{RunID: d.Run.ID, Status: nightcrier.Failed}); err != nil {
		t.Fatal(err)
	}
	_, err = b.RetryRun(ctx, d.Run.ID, "investigate")
	wantCode(t, err, nightcrier.Invalid)
	if inc := b.readIncident(t, d.Incident.ID); inc.Status != nightcrier.Failed {
		t.Errorf("a refused retry left the incident %s", inc.Status)
	}
}
