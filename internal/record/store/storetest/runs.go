package storetest

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/record/store"
)

func runLife(t *testing.T, b *bench) {
	ctx := t.Context()
	d := b.acceptEvent(t, b.newEvent("prod", "cart", nightcrier.Warning), Policy())
	_, err := b.BeginRun(ctx, d.Run.ID)
	wantCode(t, err, nightcrier.Conflict) // it is not admitted
	wantCode(t, b.FinishRun(ctx, store.Finish{RunID: d.Run.ID, Status: nightcrier.Failed}), nightcrier.Conflict)
	run := b.admitRun(t)
	wantCode(t, b.FinishRun(ctx, store.Finish{RunID: run.ID, Status: nightcrier.Resolved}), nightcrier.Conflict) // pending → resolved
	b.clock.Advance(time.Minute)
	begun, err := b.BeginRun(ctx, run.ID)
	if err != nil || begun.Status != nightcrier.Investigating || begun.Attempts != 1 || !begun.StartedAt.Equal(b.clock.Now()) {
		t.Fatalf("begun %+v, %v", begun, err)
	}
	b.clock.Advance(time.Minute)
	again, err := b.BeginRun(ctx, run.ID)
	if diff := cmp.Diff(begun, again); err != nil || diff != "" {
		t.Errorf("begun twice (%v):\n%s", err, diff)
	}
	noted, err := b.NoteProgress(ctx, run.ID, store.Progress{State: nightcrier.StateRunning, Workspace: "/w"})
	if err != nil || noted.State != nightcrier.StateRunning || noted.Workspace != "/w" {
		t.Errorf("progress %+v, %v", noted, err)
	}
	wantCode(t, b.FinishRun(ctx, store.Finish{RunID: run.ID, Status: nightcrier.Investigating}), nightcrier.Invalid)
	b.finishOnce(t, run)
	if _, err := b.NoteProgress(ctx, run.ID, store.Progress{State: nightcrier.StateRunning}); err != nil {
		t.Errorf("late progress: %v", err)
	}
	if inc, err := b.Incident(ctx, d.Incident.ID); err != nil || inc.State != nightcrier.StateSuccess {
		t.Errorf("after late progress: %+v, %v", inc, err)
	}
	_, err = b.BeginRun(ctx, run.ID)
	wantCode(t, err, nightcrier.Conflict)
}

// A run that began in another store goes on in this one, as it was.
func runAdopted(t *testing.T, b *bench) {
	ctx := t.Context()
	ev := b.newEvent("prod", "cart", nightcrier.Warning)
	at := b.clock.Now()
	run := nightcrier.Run{ID: nightcrier.NewID(), Pipeline: "p", Key: "prod", Executor: "builtin", QueuedAt: at, AdmittedAt: at}
	inc := nightcrier.Incident{
		ID: nightcrier.NewID(), EventID: ev.ID, Status: nightcrier.Investigating, Cluster: "prod", Resource: ev.Resource,
		Fingerprint: ev.Fingerprint, CreatedAt: at, StartedAt: at, LastEventAt: at, Attempts: 2, RunID: run.ID,
	}
	wantCode(t, b.Adopt(ctx, inc, ev, run), nightcrier.Invalid) // the run is not of the incident
	run.Subject = nightcrier.Subject{Kind: nightcrier.SubjectIncident, ID: inc.ID}
	if err := b.Adopt(ctx, inc, ev, run); err != nil {
		t.Fatal(err)
	}
	wantCode(t, b.Adopt(ctx, inc, ev, run), nightcrier.Conflict)
	leased, err := b.LeasedRuns(ctx)
	if err != nil || len(leased) != 1 || leased[0].ID != run.ID {
		t.Errorf("leased %+v, %v", leased, err)
	}
	b.clock.Advance(time.Minute)
	begun, err := b.BeginRun(ctx, run.ID)
	if diff := cmp.Diff(inc, begun); err != nil || diff != "" {
		t.Errorf("it did not go on as it was (%v):\n%s", err, diff)
	}
	if got, err := b.Event(ctx, ev.ID); err != nil || got.IncidentID != inc.ID || string(got.Raw) != string(ev.Raw) {
		t.Errorf("event %+v, %v", got, err)
	}
	b.finishOnce(t, run)
}

// finishOnce finishes a run and proves that a second time changes nothing.
func (b *bench) finishOnce(t *testing.T, run nightcrier.Run) {
	t.Helper()
	ctx := t.Context()
	code := 0
	f := store.Finish{
		RunID: run.ID, Status: nightcrier.Resolved,
		Result:    nightcrier.AgentResult{State: nightcrier.StateSuccess, ExitCode: &code, Usage: nightcrier.Usage{CostUSD: 0.5}},
		RootCause: "out of memory \x00", Skills: []nightcrier.SkillRef{{Name: "s", Digest: "d"}},
		Artifacts: []nightcrier.Artifact{{Path: "output/a", Bytes: 1, SHA256: "x"}}, ContextIncomplete: "logs",
		Report: []byte(`{"schema":"nightcrier.report/v1"}`),
	}
	if err := b.FinishRun(ctx, f); err != nil {
		t.Fatalf("finish: %v", err)
	}
	inc, err := b.Incident(ctx, run.IncidentID())
	if err != nil || inc.Status != nightcrier.Resolved || inc.ExitCode == nil || *inc.ExitCode != 0 || inc.RootCause != f.RootCause ||
		len(inc.Artifacts) != 1 || len(inc.Skills) != 1 || inc.ContextIncomplete != "logs" || !inc.CompletedAt.Equal(b.clock.Now()) {
		t.Errorf("finished incident %+v, %v", inc, err)
	}
	if ended := b.readRun(t, run.ID); ended.Outcome != nightcrier.StateSuccess || ended.FailureReason != "" || ended.CostUSD != 0.5 {
		t.Errorf("finished run %+v", ended)
	}
	b.clock.Advance(time.Minute)
	f.Status, f.Report = nightcrier.AgentFailed, nil
	if err := b.FinishRun(ctx, f); err != nil {
		t.Errorf("finish again: %v", err)
	}
	same, err := b.Incident(ctx, run.IncidentID())
	if diff := cmp.Diff(inc, same); err != nil || diff != "" {
		t.Errorf("finished twice (%v):\n%s", err, diff)
	}
	if report, err := b.Report(ctx, run.IncidentID()); err != nil || string(report) != `{"schema":"nightcrier.report/v1"}` {
		t.Errorf("report %q, %v", report, err)
	}
	if leased, err := b.LeasedRuns(ctx); err != nil || len(leased) != 0 {
		t.Errorf("leases after the end: %+v, %v", leased, err)
	}
}

func runFails(t *testing.T, b *bench) {
	ctx := t.Context()
	d := b.acceptEvent(t, b.newEvent("prod", "cart", nightcrier.Warning), Policy())
	run := b.admitRun(t)
	code := 137
	f := store.Finish{RunID: run.ID, Status: nightcrier.Failed, Result: nightcrier.AgentResult{
		State: nightcrier.StateFailed, FailureClass: nightcrier.FailCrash, FailureReason: "killed", ExitCode: &code, Signal: "SIGKILL",
	}}
	if err := b.FinishRun(ctx, f); err != nil { // it failed before it began
		t.Fatal(err)
	}
	inc, err := b.Incident(ctx, d.Incident.ID)
	if err != nil || inc.FailureClass != nightcrier.FailCrash || inc.FailureReason != "killed" || inc.Signal != "SIGKILL" || *inc.ExitCode != 137 {
		t.Errorf("failed incident %+v, %v", inc, err)
	}
	if ended := b.readRun(t, run.ID); ended.Outcome != nightcrier.StateFailed || ended.FailureClass != nightcrier.FailCrash || ended.FailureReason != "killed" {
		t.Errorf("failed run %+v", ended)
	}
	_, err = b.Report(ctx, inc.ID)
	wantCode(t, err, nightcrier.NotFound)
}

func cancelQueued(t *testing.T, b *bench) {
	ctx := t.Context()
	d := b.acceptEvent(t, b.newEvent("prod", "cart", nightcrier.Warning), Policy())
	run, err := b.RequestCancel(ctx, d.Incident.ID, "ann@example.org")
	if err != nil || run.Status != nightcrier.Dropped || run.Reason != nightcrier.Cancelled || run.Cause != "ann@example.org" {
		t.Errorf("cancelled %+v, %v", run, err)
	}
	inc, err := b.Incident(ctx, d.Incident.ID)
	if err != nil || inc.Status != nightcrier.Failed || inc.FailureClass != nightcrier.FailCancelled || !strings.Contains(inc.FailureReason, "ann@example.org") {
		t.Errorf("incident %+v, %v", inc, err)
	}
	if got := b.drainQueue(t, generousLimits()); len(got) != 0 {
		t.Errorf("a cancelled run was admitted: %v", got)
	}
	_, err = b.RequestCancel(ctx, d.Incident.ID, "again")
	wantCode(t, err, nightcrier.Conflict)
	_, err = b.RequestCancel(ctx, nightcrier.NewID(), "nobody")
	wantCode(t, err, nightcrier.NotFound)
}

func cancelAdmitted(t *testing.T, b *bench) {
	ctx := t.Context()
	d := b.acceptEvent(t, b.newEvent("prod", "cart", nightcrier.Warning), Policy())
	b.admitRun(t)
	woken, stop := b.WatchJournal(d.Run.ID)
	defer stop()
	if asked, cause, err := b.CancelRequested(ctx, d.Run.ID); asked || cause != "" || err != nil {
		t.Errorf("before: %t, %q, %v", asked, cause, err)
	}
	run, err := b.RequestCancel(ctx, d.Incident.ID, "ann")
	if err != nil || run.Status != nightcrier.Admitted || !run.CancelRequested {
		t.Errorf("cancel of a running one: %+v, %v", run, err)
	}
	wantWoken(t, woken)
	if _, err := b.RequestCancel(ctx, d.Incident.ID, "bob"); err != nil {
		t.Errorf("asked again: %v", err)
	}
	if asked, cause, err := b.CancelRequested(ctx, d.Run.ID); !asked || cause != "ann" || err != nil {
		t.Errorf("after: %t, %q, %v", asked, cause, err)
	}
	if leased, err := b.LeasedRuns(ctx); err != nil || len(leased) != 1 {
		t.Errorf("the lease goes only with the agent: %+v, %v", leased, err)
	}
	_, _, err = b.CancelRequested(ctx, nightcrier.NewID())
	wantCode(t, err, nightcrier.NotFound)
}

func testRetry(t *testing.T, b *bench) {
	ctx := t.Context()
	d := b.acceptEvent(t, b.newEvent("prod", "cart", nightcrier.Warning), Policy())
	_, err := b.Retry(ctx, d.Incident.ID, "")
	wantCode(t, err, nightcrier.Conflict) // it is open
	first := b.investigateNext(t, nightcrier.AgentFailed)
	b.clock.Advance(time.Minute)
	run, err := b.Retry(ctx, d.Incident.ID, "builtin")
	if err != nil || run.ID == first.ID || run.Status != nightcrier.Queued || run.Executor != "builtin" || run.Pipeline != first.Pipeline {
		t.Fatalf("retry %+v, %v", run, err)
	}
	inc, err := b.Incident(ctx, d.Incident.ID)
	if err != nil || inc.Status != nightcrier.Pending || !inc.CompletedAt.IsZero() || inc.RunID != run.ID || inc.FailureReason != "" || inc.Attempts != 1 {
		t.Errorf("retried incident %+v, %v", inc, err)
	}
	b.investigateNext(t, nightcrier.Resolved)
	inc, err = b.Incident(ctx, d.Incident.ID)
	if err != nil || inc.Attempts != 2 || inc.Status != nightcrier.Resolved {
		t.Errorf("after the second attempt %+v, %v", inc, err)
	}
	runs, err := b.Runs(ctx, d.Incident.ID)
	if err != nil || len(runs) != 2 || runs[0].ID != first.ID || runs[1].ID != run.ID {
		t.Errorf("runs %+v, %v", runs, err)
	}
	// The fault came again and has an incident of its own now.
	b.clock.Advance(time.Hour)
	b.acceptEvent(t, b.newEvent("prod", "cart", nightcrier.Warning), Policy())
	_, err = b.Retry(ctx, d.Incident.ID, "")
	wantCode(t, err, nightcrier.Conflict)
	_, err = b.Retry(ctx, nightcrier.NewID(), "")
	wantCode(t, err, nightcrier.NotFound)
}

func wantWoken(t *testing.T, ch <-chan struct{}) {
	t.Helper()
	select {
	case <-ch:
	default:
		t.Error("the follower was not woken")
	}
}
