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

// asked is an approval of a call that the run waits for.
func (b *bench) asked(t *testing.T, id, run string, park bool) nightcrier.Approval {
	t.Helper()
	a, err := b.AskApproval(t.Context(), nightcrier.Approval{
		ID: id, RunID: run, Pipeline: "deploy", Step: "deploy", Kind: nightcrier.ApproveCall, Prompt: "apply\x00 this", Server: "k8s", Tool: "apply",
		Arguments: json.RawMessage(`{"name":"shop"}`), RequestedBy: "ann", Approvers: []string{"ann", "bob", "cy"}, Needed: 1,
	}, park)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// admittedCall is a run of a call that is under way, alone on its key.
func (b *bench) admittedCall(t *testing.T, key string) nightcrier.Run {
	t.Helper()
	id := nightcrier.NewID()
	if _, err := b.EnqueueRun(t.Context(), store.NewRun{ID: id, Subject: nightcrier.Subject{Kind: nightcrier.SubjectCall, ID: id}, Pipeline: "deploy", Key: key, Executor: "ptc", TriggeredBy: "ann"}); err != nil {
		t.Fatal(err)
	}
	b.admitNext(t, id)
	return b.readRun(t, id)
}

func (b *bench) admitNext(t *testing.T, want string) {
	t.Helper()
	run, err := b.AdmitNext(t.Context(), store.Limits{Total: 2, PerKey: 1})
	switch {
	case err != nil:
		t.Fatal(err)
	case want == "" && run != nil:
		t.Fatalf("run %s was admitted", run.ID)
	case want != "" && (run == nil || run.ID != want || run.Parked):
		t.Fatalf("admitted %+v, want %s", run, want)
	}
}

// An approval is asked once, decided once, and what follows of it is recorded once.
func approvalLife(t *testing.T, b *bench) {
	ctx, run := t.Context(), b.admittedCall(t, "shop")
	a := b.asked(t, "a", run.ID, false)
	if again := b.asked(t, "a", run.ID, true); !cmp.Equal(a, again) || b.readRun(t, run.ID).Parked {
		t.Errorf("asked again: %s", cmp.Diff(a, again))
	}
	if a.Status != nightcrier.ApprovalPending || a.AskedAt.IsZero() || a.Digest == "" || strings.Contains(a.Prompt, "\x00") {
		t.Errorf("asked: %+v", a)
	}
	_, err := b.NoteApprovalUse(ctx, "a", nightcrier.UseBegun)
	wantCode(t, err, nightcrier.Conflict)
	for by, code := range map[string]nightcrier.Code{"ann": nightcrier.Refused, "eve": nightcrier.Refused} {
		_, err := b.DecideApproval(ctx, "a", nightcrier.Decision{By: by, Approve: true, Digest: a.Digest})
		wantCode(t, err, code)
	}
	_, err = b.DecideApproval(ctx, "a", nightcrier.Decision{By: "bob", Approve: true, Digest: "old"})
	wantCode(t, err, nightcrier.Conflict)
	_, err = b.DecideApproval(ctx, "none", nightcrier.Decision{By: "bob", Approve: true, Digest: a.Digest})
	wantCode(t, err, nightcrier.NotFound)
	b.clock.Advance(time.Hour)
	granted, err := b.DecideApproval(ctx, "a", nightcrier.Decision{By: "bob", Approve: true, Reason: "fine", Digest: a.Digest})
	if err != nil || granted.Status != nightcrier.ApprovalGranted || !granted.DecidedAt.Equal(b.clock.Now()) || len(granted.Decisions) != 1 {
		t.Fatalf("decided: %+v, %v", granted, err)
	}
	again, err := b.DecideApproval(ctx, "a", nightcrier.Decision{By: "bob", Approve: true, Digest: a.Digest})
	if err != nil || !cmp.Equal(granted, again) {
		t.Errorf("decided again: %v %s", err, cmp.Diff(granted, again))
	}
	_, err = b.DecideApproval(ctx, "a", nightcrier.Decision{By: "cy", Reason: "no", Digest: a.Digest})
	wantCode(t, err, nightcrier.Conflict)
	for _, use := range []nightcrier.ApprovalUse{nightcrier.UseBegun, nightcrier.UseUnknown, nightcrier.UseDone} {
		if _, err := b.NoteApprovalUse(ctx, "a", use); err != nil {
			t.Fatal(err)
		}
	}
	if kept, err := b.Approval(ctx, "a"); err != nil || kept.Use != nightcrier.UseUnknown {
		t.Errorf("what was unknown became %q, %v", kept.Use, err)
	}
	b.clock.Advance(time.Minute)
	b.asked(t, "b", run.ID, false)
	list, next, err := b.Approvals(ctx, store.ApprovalFilter{RunID: run.ID, Limit: 1})
	if err != nil || len(list) != 1 || list[0].ID != "b" || next == "" {
		t.Errorf("listed %+v, %q, %v", list, next, err)
	}
	list, next, err = b.Approvals(ctx, store.ApprovalFilter{RunID: run.ID, Limit: 1, Cursor: next})
	if err != nil || len(list) != 1 || list[0].ID != "a" || next != "" {
		t.Errorf("listed %+v, %q, %v", list, next, err)
	}
	if err := b.FinishRun(ctx, store.Finish{RunID: run.ID, Outcome: nightcrier.StateFailed}); err != nil {
		t.Fatal(err)
	}
	if left, err := b.Approval(ctx, "b"); err != nil || left.Status != nightcrier.ApprovalWithdrawn {
		t.Errorf("behind its run it is %s, %v", left.Status, err)
	}
	_, err = b.AskApproval(ctx, nightcrier.Approval{ID: "c", RunID: run.ID, Step: "s", Kind: nightcrier.ApproveStep, Approvers: []string{"bob"}, Needed: 1}, false)
	wantCode(t, err, nightcrier.Conflict)
	b.clock.Advance(time.Hour)
	if _, err := b.Prune(ctx, b.clock.Now()); err != nil {
		t.Fatal(err)
	}
	_, err = b.Approval(ctx, "a")
	wantCode(t, err, nightcrier.NotFound)
}

// Whom nobody can answer asks nobody.
func approvalRefuses(t *testing.T, b *bench) {
	run := b.admittedCall(t, "shop")
	good := nightcrier.Approval{ID: "a", RunID: run.ID, Step: "s", Kind: nightcrier.ApproveStep, Approvers: []string{"ann", "bob"}, Needed: 1, RequestedBy: "ann"}
	for name, c := range map[string]struct {
		spoil func(*nightcrier.Approval)
		code  nightcrier.Code
	}{
		"no id":          {func(a *nightcrier.Approval) { a.ID = "" }, nightcrier.Invalid},
		"nobody":         {func(a *nightcrier.Approval) { a.Approvers = nil }, nightcrier.Conflict},
		"oneself":        {func(a *nightcrier.Approval) { a.Approvers = []string{"ann"} }, nightcrier.Conflict},
		"too few":        {func(a *nightcrier.Approval) { a.Needed = 2 }, nightcrier.Conflict},
		"no such run":    {func(a *nightcrier.Approval) { a.RunID = "none" }, nightcrier.NotFound},
		"long arguments": {func(a *nightcrier.Approval) { a.Arguments = json.RawMessage(`"` + strings.Repeat("x", 300<<10) + `"`) }, nightcrier.Invalid},
	} {
		t.Run(name, func(t *testing.T) {
			a := good
			c.spoil(&a)
			_, err := b.AskApproval(t.Context(), a, true)
			wantCode(t, err, c.code)
		})
	}
}

// What has expired cannot be decided, and what is asked for ever does not expire.
func approvalExpires(t *testing.T, b *bench) {
	ctx, run := t.Context(), b.admittedCall(t, "shop")
	ask := func(id string, expires time.Time) nightcrier.Approval {
		a, err := b.AskApproval(ctx, nightcrier.Approval{ID: id, RunID: run.ID, Step: "s", Kind: nightcrier.ApproveStep, Approvers: []string{"bob"}, Needed: 1, ExpiresAt: expires}, false)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	soon, never := ask("soon", b.clock.Now().Add(time.Minute)), ask("never", time.Time{})
	for range 2 {
		for id, want := range map[string]nightcrier.ApprovalStatus{"soon": soon.Status, "never": never.Status} {
			if a, err := b.ExpireApproval(ctx, id); err != nil || a.Status != want {
				t.Errorf("%s is %s, %v", id, a.Status, err)
			}
		}
		b.clock.Advance(time.Minute)
		_, err := b.DecideApproval(ctx, "soon", nightcrier.Decision{By: "bob", Approve: true, Digest: soon.Digest})
		wantCode(t, err, nightcrier.Conflict)
		soon.Status = nightcrier.ApprovalExpired
	}
}

// A run that waits for people keeps nobody off its key or his turn, and gets its lease back when
// it was answered and there is one.
func approvalParks(t *testing.T, b *bench) {
	ctx, run := t.Context(), b.admittedCall(t, "shop")
	first, second := b.asked(t, "first", run.ID, true), b.asked(t, "second", run.ID, true)
	if !b.readRun(t, run.ID).Parked {
		t.Fatal("it holds its lease")
	}
	if n, err := b.Counts(ctx); err != nil || n.Leases != 0 {
		t.Errorf("%d leases, %v", n.Leases, err)
	}
	other := b.admittedCall(t, "shop")
	decide := func(a nightcrier.Approval) {
		t.Helper()
		if _, err := b.DecideApproval(ctx, a.ID, nightcrier.Decision{By: "bob", Approve: true, Digest: a.Digest}); err != nil {
			t.Fatal(err)
		}
	}
	decide(first)
	b.admitNext(t, "") // it waits for the second answer
	decide(second)
	b.admitNext(t, "") // another one has the key
	leased, err := b.LeasedRuns(ctx)
	if err != nil || len(leased) != 2 {
		t.Errorf("resumed would be %d runs, %v", len(leased), err)
	}
	if err := b.FinishRun(ctx, store.Finish{RunID: other.ID, Outcome: nightcrier.StateSuccess}); err != nil {
		t.Fatal(err)
	}
	before := b.readRun(t, run.ID).AdmittedAt
	b.clock.Advance(time.Minute)
	b.admitNext(t, run.ID)
	if now := b.readRun(t, run.ID); now.Parked || !now.AdmittedAt.Equal(before) {
		t.Errorf("it returned as %+v", now)
	}
	b.admitNext(t, "")
	// One that is cancelled while it waits is not decided any more.
	third := b.asked(t, "third", run.ID, true)
	if _, err := b.RequestCancelRun(ctx, run.ID, "enough"); err != nil {
		t.Fatal(err)
	}
	_, err = b.DecideApproval(ctx, third.ID, nightcrier.Decision{By: "bob", Approve: true, Digest: third.Digest})
	wantCode(t, err, nightcrier.Conflict)
	if err := b.FinishRun(ctx, store.Finish{RunID: run.ID, Outcome: nightcrier.StateCancelled}); err != nil {
		t.Fatal(err)
	}
	b.admitNext(t, "")
}
