package storetest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/record/store"
)

// newCall is a run about a call.
func newCall(key string) store.NewRun {
	return store.NewRun{
		Subject:  nightcrier.Subject{Kind: nightcrier.SubjectCall, ID: nightcrier.NewID(), Title: "a call"},
		Pipeline: "greet", Key: key, Executor: "codex", Severity: nightcrier.Warning,
	}
}

// enqueueRun queues n, or ends the test.
func (b *bench) enqueueRun(t *testing.T, n store.NewRun) store.Enqueued {
	t.Helper()
	e, err := b.EnqueueRun(t.Context(), n)
	if err != nil {
		t.Fatalf("enqueue: %v", err)
	}
	return e
}

func (b *bench) readRun(t *testing.T, id string) nightcrier.Run {
	t.Helper()
	run, err := b.Run(t.Context(), id)
	if err != nil {
		t.Fatalf("run %s: %v", id, err)
	}
	return run
}

// A run about a pull request goes through its whole life, and no incident with it.
func subjectLife(t *testing.T, b *bench) {
	ctx := t.Context()
	n := newCall("acme/shop")
	n.Subject = nightcrier.Subject{Kind: nightcrier.SubjectPullRequest, ID: "acme/shop#12", Title: "Make\nit \x00 work " + strings.Repeat("x", 1000)}
	n.Input, n.TriggeredBy, n.Deadline = json.RawMessage(`{"diff": "\u0000"}`), "github", b.clock.Now().Add(time.Hour)
	e := b.enqueueRun(t, n)
	if e.Repeated || len(e.Dropped)+len(e.Stopping) > 0 || e.Run.Status != nightcrier.Queued || e.Run.IncidentID() != "" ||
		len(e.Run.Subject.Title) > 256 || strings.ContainsAny(e.Run.Subject.Title, "\n\x00") || !e.Run.Deadline.Equal(n.Deadline) {
		t.Fatalf("queued %+v", e)
	}
	if input, err := b.RunInput(ctx, e.Run.ID); err != nil || string(input) != string(n.Input) {
		t.Errorf("input %s, %v", input, err)
	}
	run := b.admitRun(t)
	if inc, err := b.BeginRun(ctx, run.ID); err != nil || inc.ID != "" {
		t.Errorf("begun %+v, %v", inc, err)
	}
	woken, stop := b.WatchJournal(run.ID)
	defer stop()
	if inc, err := b.NoteProgress(ctx, run.ID, store.Progress{Executor: "gemini", State: nightcrier.StateRunning}); err != nil || inc.ID != "" {
		t.Errorf("progress %+v, %v", inc, err)
	}
	wantWoken(t, woken)
	wantCode(t, b.FinishRun(ctx, store.Finish{RunID: run.ID}), nightcrier.Invalid)
	wantCode(t, b.FinishRun(ctx, store.Finish{RunID: run.ID, Outcome: nightcrier.StateRunning}), nightcrier.Invalid)
	b.clock.Advance(time.Minute)
	f := store.Finish{RunID: run.ID, Outcome: nightcrier.StateTimeout, FailureClass: nightcrier.FailTimeout, FailureReason: "too late", CostUSD: 0.25}
	if err := b.FinishRun(ctx, f); err != nil {
		t.Fatal(err)
	}
	want := run
	want.Status, want.Outcome, want.FailureClass, want.FailureReason, want.CostUSD = nightcrier.Finished, f.Outcome, f.FailureClass, f.FailureReason, f.CostUSD
	want.Executor, want.EndedAt = "gemini", b.clock.Now()
	if diff := cmp.Diff(want, b.readRun(t, run.ID)); diff != "" {
		t.Errorf("finished:\n%s", diff)
	}
	f.Outcome = nightcrier.StateSuccess
	if err := b.FinishRun(ctx, f); err != nil || b.readRun(t, run.ID).Outcome != nightcrier.StateTimeout {
		t.Errorf("finished twice, %v", err)
	}
	if n := b.readCounts(t); len(n.Incidents)+n.Leases+n.Queued != 0 {
		t.Errorf("counts %+v", n)
	}
}

// A run is as JSON what it always was where it is about an incident.
func subjectJSON(t *testing.T, b *bench) {
	d := b.acceptEvent(t, b.newEvent("prod", "cart", nightcrier.Warning), Policy())
	var seen map[string]any
	for id, want := range map[string]any{d.Run.ID: d.Incident.ID, b.enqueueRun(t, newCall("")).Run.ID: nil} {
		raw, err := json.Marshal(b.readRun(t, id))
		if err == nil {
			seen = nil
			err = json.Unmarshal(raw, &seen)
		}
		if err != nil || seen["incidentId"] != want || seen["runId"] != id {
			t.Errorf("%s, %v, want the incident %v", raw, err, want)
		}
		var again nightcrier.Run
		if err := json.Unmarshal(raw, &again); err != nil || !cmp.Equal(again, b.readRun(t, id)) {
			t.Errorf("read back %+v, %v", again, err)
		}
	}
}

func enqueueRefuses(t *testing.T, b *bench) {
	for word, spoil := range map[string]func(*store.NewRun){
		"UUID":         func(n *store.NewRun) { n.ID = "../x" },
		"pipeline":     func(n *store.NewRun) { n.Pipeline = "" },
		"an incident":  func(n *store.NewRun) { n.Subject.Kind = nightcrier.SubjectIncident },
		"conversation": func(n *store.NewRun) { n.Subject.Kind = "cat" },
		"id and":       func(n *store.NewRun) { n.Subject.ID = "" },
		"queue or":     func(n *store.NewRun) { n.Policy = "both" },
		"needs a key":  func(n *store.NewRun) { n.Policy, n.Key = store.CancelPrevious, "" },
		"no JSON":      func(n *store.NewRun) { n.Input = json.RawMessage(`{`) },
		"1048576":      func(n *store.NewRun) { n.Input = make([]byte, 10<<20) },
		"key has 600":  func(n *store.NewRun) { n.Key = strings.Repeat("k", 600) },
	} {
		n := newCall("k")
		spoil(&n)
		_, err := b.EnqueueRun(t.Context(), n)
		wantCode(t, err, nightcrier.Invalid)
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%v does not say %q", err, word)
		}
	}
	if n := b.readCounts(t); n.Queued != 0 {
		t.Errorf("%d are queued", n.Queued)
	}
	_, err := b.RunInput(t.Context(), nightcrier.NewID())
	wantCode(t, err, nightcrier.NotFound)
}

func enqueueTwice(t *testing.T, b *bench) {
	n := newCall("k")
	n.ID = nightcrier.DerivedID("delivery", "1")
	first := b.enqueueRun(t, n)
	n.Pipeline = "another"
	again := b.enqueueRun(t, n)
	if first.Run.ID != n.ID || !again.Repeated || !cmp.Equal(again.Run, first.Run) || b.readCounts(t).Queued != 1 {
		t.Errorf("first %+v, again %+v", first, again)
	}
}

// A call that is made twice is one run, and the same name for another call is a conflict.
func callTwice(t *testing.T, b *bench) {
	n := newCall("k")
	n.ID, n.Call = nightcrier.DerivedID("call", "1"), "asks for this"
	if _, err := b.CalledRun(t.Context(), n); nightcrier.CodeOf(err) != nightcrier.NotFound {
		t.Errorf("before it is queued: %v", err)
	}
	first, again := b.enqueueRun(t, n), b.enqueueRun(t, n)
	known, err := b.CalledRun(t.Context(), n)
	if err != nil || !again.Repeated || !cmp.Equal(again.Run, first.Run) || !cmp.Equal(known, first.Run) {
		t.Errorf("first %+v, again %+v, known %+v, %v", first, again, known, err)
	}
	n.Call = "asks for that"
	_, err = b.EnqueueRun(t.Context(), n)
	wantCode(t, err, nightcrier.Conflict)
	_, err = b.CalledRun(t.Context(), n)
	wantCode(t, err, nightcrier.Conflict)
	if b.readCounts(t).Queued != 1 {
		t.Errorf("%+v", b.readCounts(t))
	}
}

// Who names a key for a run of a pipeline keeps other runs off it, and no investigation of a
// cluster that is called the same; nor do those keep it off.
func keysOfAll(t *testing.T, b *bench) {
	l := store.Limits{Total: 100, PerKey: 2}
	call := b.enqueueRun(t, newCall("prod")).Run
	b.enqueueRun(t, newCall("prod"))
	b.enqueueRun(t, newCall(""))
	b.enqueueRun(t, newCall(""))
	b.clock.Advance(time.Second)
	for _, workload := range []string{"cart", "web", "db"} {
		b.acceptEvent(t, b.newEvent("prod", workload, nightcrier.Warning), Policy())
	}
	if got := b.drainQueue(t, l); len(got) != 5 || countOf(got, "prod") != 3 {
		t.Errorf("admitted %v, want one call and two investigations of prod, and the two that share with nothing", got)
	}
	b.endRun(t, call.ID)
	second := b.admitRun(t)
	if second.IncidentID() != "" || second.Key != "prod" || len(b.drainQueue(t, l)) != 0 {
		t.Errorf("admitted %+v beside others", second)
	}
	b.enqueueRun(t, newCall("prod"))
	sums, err := b.RunSums(t.Context())
	if err != nil || len(sums) != 2 || sums[0].Runs != 5 || sums[1].Runs != 3 || sums[0].Ended+sums[1].Ended != 1 || sums[0].Succeeded+sums[1].Succeeded != 1 || sums[0].Took+sums[1].Took != time.Second {
		t.Errorf("%+v, %v", sums, err)
	}
	if got := b.drainQueue(t, store.Limits{Total: 100, PerKey: 3}); !slices.Equal(got, []string{"prod"}) {
		t.Errorf("admitted %v, want the third investigation and not the call", got)
	}
}

func countOf(all []string, one string) (n int) {
	for _, s := range all {
		if s == one {
			n++
		}
	}
	return n
}

// endRun finishes a run about anything but an incident.
func (b *bench) endRun(t *testing.T, id string) {
	t.Helper()
	if err := b.FinishRun(t.Context(), store.Finish{RunID: id, Outcome: nightcrier.StateSuccess}); err != nil {
		t.Fatal(err)
	}
}

// Severity is the priority of all alike, and the queue's bound counts all alike.
func queueOfAll(t *testing.T, b *bench) {
	p := Policy()
	p.QueueMax = 2
	low := newCall("low")
	low.Severity, low.QueueMax = nightcrier.Info, 2
	b.enqueueRun(t, low)
	b.acceptEvent(t, b.newEvent("prod", "cart", nightcrier.Warning), p)
	high := newCall("high")
	high.Severity, high.QueueMax = nightcrier.Critical, 2
	e := b.enqueueRun(t, high)
	if len(e.Dropped) != 1 || e.Dropped[0].Key != "low" || e.Dropped[0].Reason != nightcrier.QueueFull || e.Run.Status != nightcrier.Queued ||
		!strings.Contains(e.Dropped[0].FailureReason, "nightcrier runs retry "+e.Dropped[0].ID) {
		t.Errorf("dropped %+v", e.Dropped)
	}
	if own := b.enqueueRun(t, low); own.Run.Status != nightcrier.Dropped || len(own.Dropped) != 1 {
		t.Errorf("the least severe is the new one: %+v", own)
	}
	if got := b.drainQueue(t, generousLimits()); !slices.Equal(got, []string{"high", "prod"}) {
		t.Errorf("admitted %v", got)
	}
}

func cancelPrevious(t *testing.T, b *bench) {
	b.acceptEvent(t, b.newEvent("pr", "cart", nightcrier.Critical), Policy()) // of the same key, but no earlier one
	other := newCall("pr")
	other.Pipeline = "other"
	b.enqueueRun(t, other)
	n := newCall("pr")
	n.Policy, n.Severity = store.CancelPrevious, nightcrier.Critical
	b.clock.Advance(-time.Hour)
	running := b.enqueueRun(t, n).Run
	b.admitRun(t)
	b.clock.Advance(time.Hour)
	waiting := b.enqueueRun(t, n)
	if len(waiting.Stopping) != 1 || waiting.Stopping[0].ID != running.ID || !b.readRun(t, running.ID).CancelRequested || len(waiting.Dropped) != 0 {
		t.Errorf("stopping %+v", waiting)
	}
	last := b.enqueueRun(t, n)
	if len(last.Dropped) != 1 || last.Dropped[0].ID != waiting.Run.ID || last.Dropped[0].Reason != nightcrier.Superseded || !strings.Contains(last.Dropped[0].Cause, last.Run.ID) {
		t.Errorf("dropped %+v", last)
	}
	if got := b.readCounts(t); got.Queued != 3 || got.Dropped[nightcrier.Superseded] != 1 {
		t.Errorf("counts %+v", got)
	}
	n.Policy = store.QueueBehind
	if e := b.enqueueRun(t, n); len(e.Dropped)+len(e.Stopping) != 0 {
		t.Errorf("queued behind, and yet %+v", e)
	}
}

// A run for which the queue has no room stops none that is under way.
func cancelForNone(t *testing.T, b *bench) {
	n := newCall("pr")
	n.Policy, n.QueueMax = store.CancelPrevious, 1
	running := b.enqueueRun(t, n).Run
	b.admitRun(t)
	other := newCall("other")
	other.Severity = nightcrier.Critical
	b.enqueueRun(t, other)
	if e := b.enqueueRun(t, n); e.Run.Status != nightcrier.Dropped || len(e.Dropped) != 1 || len(e.Stopping) != 0 || b.readRun(t, running.ID).CancelRequested {
		t.Errorf("%+v, and the earlier one is %+v", e, b.readRun(t, running.ID))
	}
	b.drainQueue(t, generousLimits())
	if e := b.enqueueRun(t, n); e.Run.Status != nightcrier.Queued || len(e.Stopping) != 1 {
		t.Errorf("with room: %+v", e)
	}
}

func deadlinePasses(t *testing.T, b *bench) {
	n := newCall("a")
	n.Deadline = b.clock.Now().Add(time.Minute)
	due := b.enqueueRun(t, n).Run
	b.enqueueRun(t, newCall("b"))
	b.clock.Advance(time.Minute - time.Microsecond)
	if dropped, err := b.ExpireQueued(t.Context(), 0); err != nil || len(dropped) != 0 {
		t.Errorf("before its deadline: %+v, %v", dropped, err)
	}
	b.clock.Advance(time.Microsecond)
	dropped, err := b.ExpireQueued(t.Context(), 0)
	if err != nil || len(dropped) != 1 || dropped[0].ID != due.ID || dropped[0].Reason != nightcrier.DeadlinePassed {
		t.Errorf("at its deadline: %+v, %v", dropped, err)
	}
	b.clock.Advance(time.Hour)
	dropped, err = b.ExpireQueued(t.Context(), time.Hour)
	if err != nil || len(dropped) != 1 || dropped[0].Key != "b" || dropped[0].Reason != nightcrier.QueueExpired || !strings.Contains(dropped[0].FailureReason, "not executed") {
		t.Errorf("after an hour: %+v, %v", dropped, err)
	}
}

func cancelAnyRun(t *testing.T, b *bench) {
	ctx := t.Context()
	_, err := b.RequestCancelRun(ctx, nightcrier.NewID(), "x")
	wantCode(t, err, nightcrier.NotFound)
	queued := b.enqueueRun(t, newCall("a")).Run
	got, err := b.RequestCancelRun(ctx, queued.ID, "ann")
	if err != nil || got.Status != nightcrier.Dropped || got.Reason != nightcrier.Cancelled || got.FailureClass != nightcrier.FailCancelled {
		t.Errorf("queued: %+v, %v", got, err)
	}
	_, err = b.RequestCancelRun(ctx, queued.ID, "ann")
	wantCode(t, err, nightcrier.Conflict)
	running := b.enqueueRun(t, newCall("a")).Run
	b.admitRun(t)
	for _, who := range []string{"ann", "bob"} {
		got, err = b.RequestCancelRun(ctx, running.ID, who)
		if err != nil || got.Status != nightcrier.Admitted || !got.CancelRequested || got.Cause != "ann" {
			t.Errorf("admitted: %+v, %v", got, err)
		}
	}
	d := b.acceptEvent(t, b.newEvent("prod", "cart", nightcrier.Warning), Policy())
	if _, err := b.RequestCancelRun(ctx, d.Run.ID, "ann"); err != nil || b.readIncident(t, d.Incident.ID).Status != nightcrier.Failed {
		t.Errorf("a run about an incident: %v", err)
	}
}

func retryAnyRun(t *testing.T, b *bench) {
	ctx := t.Context()
	n := newCall("")
	n.Input, n.Deadline = json.RawMessage(`{"a":1}`), b.clock.Now().Add(time.Minute)
	old := b.enqueueRun(t, n).Run
	_, err := b.RetryRun(ctx, old.ID, "")
	wantCode(t, err, nightcrier.Conflict)
	b.admitRun(t)
	b.endRun(t, old.ID)
	b.clock.Advance(time.Hour)
	run, err := b.RetryRun(ctx, old.ID, "")
	if err != nil || run.RetryOf != old.ID || run.Subject != old.Subject || run.Key != run.ID || run.Status != nightcrier.Queued ||
		!run.Deadline.Equal(b.clock.Now().Add(time.Minute)) || !cmp.Equal(run, b.readRun(t, run.ID)) {
		t.Errorf("retried %+v, %v", run, err)
	}
	if input, err := b.RunInput(ctx, run.ID); err != nil || string(input) != `{"a":1}` {
		t.Errorf("input %s, %v", input, err)
	}
	_, err = b.RetryRun(ctx, nightcrier.NewID(), "")
	wantCode(t, err, nightcrier.NotFound)
	b.drainQueue(t, generousLimits())
	d := b.acceptEvent(t, b.newEvent("prod", "cart", nightcrier.Warning), Policy())
	b.investigateNext(t, nightcrier.Failed)
	again, err := b.RetryRun(ctx, d.Run.ID, "")
	if inc := b.readIncident(t, d.Incident.ID); err != nil || again.IncidentID() != d.Incident.ID || inc.RunID != again.ID || inc.Status != nightcrier.Pending {
		t.Errorf("retried %+v of %+v, %v", again, inc, err)
	}
	_, err = b.RetryRun(ctx, d.Run.ID, "") // its incident is open again
	wantCode(t, err, nightcrier.Conflict)
	b.investigateNext(t, nightcrier.Failed)
	_, err = b.RetryRun(ctx, d.Run.ID, "") // the workspace is the newer one's
	wantCode(t, err, nightcrier.Conflict)
	if err == nil || !strings.Contains(err.Error(), again.ID+"; retry that one") {
		t.Errorf("an older run of an incident: %v", err)
	}
}

// Retention takes what ended before, and nothing that is open.
func pruneRuns(t *testing.T, b *bench) {
	ctx := t.Context()
	var ids []string
	for i := range 3 {
		ids = append(ids, b.enqueueRun(t, newCall(fmt.Sprint(i))).Run.ID)
		if _, err := b.AppendJournal(ctx, ids[i], newEntry("a")); err != nil {
			t.Fatal(err)
		}
		b.clock.Advance(time.Millisecond)
	}
	d := b.acceptEvent(t, b.newEvent("prod", "cart", nightcrier.Critical), Policy())
	b.investigateNext(t, nightcrier.Failed)
	b.saveStep(t, nightcrier.Step{RunID: b.admitRun(t).ID, ID: "a", Attempt: 1, State: nightcrier.StateSuccess})
	b.endRun(t, ids[0])
	b.saveStep(t, nightcrier.Step{RunID: b.admitRun(t).ID, ID: "a", Attempt: 1, State: nightcrier.StateSuccess})
	b.clock.Advance(time.Hour)
	if _, err := b.Prune(ctx, b.clock.Now()); err != nil {
		t.Fatal(err)
	}
	_, err := b.Run(ctx, ids[0])
	wantCode(t, err, nightcrier.NotFound)
	for i, id := range ids {
		if list, err := b.Journal(ctx, id, 0, 0); err != nil || len(list) != min(i, 1) {
			t.Errorf("run %d has %d entries, %v", i, len(list), err)
		}
		if list, err := b.Steps(ctx, id); err != nil || len(list) != i%2 {
			t.Errorf("run %d has %d steps, %v", i, len(list), err)
		}
	}
	b.readRun(t, ids[1])
	b.readRun(t, ids[2])
	b.readRun(t, d.Run.ID)
}

// Runs of the past are taken over once, all or none, and hold nothing up.
func importRuns(t *testing.T, b *bench) {
	past := func(n string) store.PastRun {
		id, at := nightcrier.DerivedID("past", n), b.clock.Now().Add(-time.Hour)
		return store.PastRun{
			Run: nightcrier.Run{ID: id, Subject: nightcrier.Subject{Kind: nightcrier.SubjectCall, ID: n, Title: n}, Pipeline: "old/skill", Key: id, Executor: "a-model", Status: nightcrier.Finished,
				Outcome: nightcrier.StateFailed, FailureReason: "it failed", CostUSD: 0.5, QueuedAt: at, AdmittedAt: at, EndedAt: at.Add(time.Minute), TriggeredBy: "ann"},
			Input: json.RawMessage(`{"a":1}`),
			Steps: []nightcrier.Step{{RunID: id, ID: "execution", Attempt: 1, State: nightcrier.StateFailed, Output: json.RawMessage(`{"b":2}`)}},
		}
	}
	one, two := past("1"), past("2")
	for i, want := range []int{1, 1, 0} {
		n, err := b.ImportRuns(t.Context(), [][]store.PastRun{{one}, {one, two}, {one, two}}[i])
		if err != nil || n != want {
			t.Errorf("import %d: %d, %v, want %d", i, n, err, want)
		}
	}
	if got := b.readRun(t, one.Run.ID); !cmp.Equal(got, one.Run) {
		t.Errorf("%+v, want %+v", got, one.Run)
	}
	steps, err := b.Steps(t.Context(), two.Run.ID)
	input, inputErr := b.RunInput(t.Context(), two.Run.ID)
	if err != nil || inputErr != nil || len(steps) != 1 || string(steps[0].Output) != `{"b":2}` || string(input) != `{"a":1}` {
		t.Errorf("%+v, %v, %s, %v", steps, err, input, inputErr)
	}
	open, large := past("3"), past("4")
	open.Run.Outcome, large.Steps[0].Output = "", make(json.RawMessage, store.MaxStepOutput+1)
	for _, bad := range []store.PastRun{open, large} {
		_, err := b.ImportRuns(t.Context(), []store.PastRun{past("5"), bad})
		wantCode(t, err, nightcrier.Invalid)
	}
	if list, _, err := b.ListRuns(t.Context(), store.RunFilter{}); err != nil || len(list) != 2 || len(b.drainQueue(t, generousLimits())) != 0 {
		t.Errorf("%v, %v", list, err)
	}
	if _, err := b.Prune(t.Context(), b.clock.Now()); err != nil {
		t.Fatal(err)
	}
	_, err = b.Run(t.Context(), one.Run.ID)
	wantCode(t, err, nightcrier.NotFound)
}

// What was queued as often as it may be within a minute is refused until the minute is over; so many runs
// as have slots do not wait for each other.
func limitsOfSkills(t *testing.T, b *bench) {
	n := newCall("")
	n.Pipeline, n.Key, n.Slots = "skill:shop/builder", "skill:shop/builder", 2
	n.Rates = []store.Rate{{Of: "the skill shop/builder", PerMinute: 3, Pipelines: []string{"skill:shop/builder", "uses-it"}}}
	other := n
	other.Pipeline, other.Key, other.Slots = "uses-it", "", 0
	var keys []string
	for _, one := range []store.NewRun{n, n, other} {
		keys = append(keys, b.enqueueRun(t, one).Run.Key)
		b.clock.Advance(10 * time.Second)
	}
	if keys[0] != "skill:shop/builder#1" || keys[1] != "skill:shop/builder#2" || strings.HasPrefix(keys[2], "skill") {
		t.Errorf("keys %q", keys)
	}
	for _, one := range []store.NewRun{n, other} {
		_, err := b.EnqueueRun(t.Context(), one)
		wantCode(t, err, nightcrier.Conflict)
		if err == nil || !strings.Contains(err.Error(), "the skill shop/builder may be started 3 times a minute, and was: it may be again in 30s, at ") {
			t.Errorf("%v", err)
		}
	}
	unlimited := n
	unlimited.Rates = nil
	b.enqueueRun(t, unlimited)
	b.clock.Advance(time.Minute)
	last := b.enqueueRun(t, n).Run
	if first, second := b.admitRun(t), b.admitRun(t); first.Key == second.Key {
		t.Errorf("both have %s", first.Key)
	}
	if b.readRun(t, last.ID).Status != nightcrier.Queued {
		t.Error("the last does not wait")
	}
}
