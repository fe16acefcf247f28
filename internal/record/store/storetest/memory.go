package storetest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/record/store"
)

// writeNote writes one, or ends the test.
func (b *bench) writeNote(t *testing.T, incidentID, text string) {
	t.Helper()
	n, err := nightcrier.NewNote("ana", text, b.clock.Now())
	if err == nil {
		err = b.AddNote(t.Context(), incidentID, n)
	}
	if err != nil {
		t.Fatalf("note %q: %v", text, err)
	}
}

func testNotes(t *testing.T, b *bench) {
	inc := b.acceptEvent(t, b.newEvent("prod", "cart", nightcrier.Warning), Policy()).Incident
	if list, err := b.Notes(t.Context(), inc.ID); err != nil || list == nil || len(list) != 0 {
		t.Errorf("notes of nobody: %v, %v", list, err)
	}
	b.writeNote(t, inc.ID, "first")
	b.clock.Advance(time.Minute)
	b.writeNote(t, inc.ID, `'); DROP TABLE notes; -- ? $1 <!channel>`)
	want := []nightcrier.Note{
		{At: b.clock.Now(), By: "ana", Text: `'); DROP TABLE notes; -- ? $1 <!channel>`},
		{At: b.clock.Now().Add(-time.Minute), By: "ana", Text: "first"},
	}
	list, err := b.Notes(t.Context(), inc.ID)
	if diff := cmp.Diff(want, list); diff != "" || err != nil {
		t.Error(err, diff)
	}
	for i := len(list); i < nightcrier.MaxNotes; i++ {
		b.writeNote(t, inc.ID, fmt.Sprint("note ", i))
	}
	wantCode(t, b.AddNote(t.Context(), inc.ID, nightcrier.Note{Text: "one more"}), nightcrier.Exhausted)
	wantCode(t, b.AddNote(t.Context(), nightcrier.NewID(), nightcrier.Note{Text: "of nothing"}), nightcrier.NotFound)
	// What no caller of ours would hand over does not fail in the database either.
	other := b.acceptEvent(t, b.newEvent("prod", "pay", nightcrier.Warning), Policy()).Incident
	if err := b.AddNote(t.Context(), other.ID, nightcrier.Note{By: "\x00\xff", Text: "a\x00b"}); err != nil {
		t.Error(err)
	}
}

// openDiagnosed opens an incident of the workload, ends it with a diagnosis, and
// returns it.
func (b *bench) openDiagnosed(t *testing.T, workload string, cause *nightcrier.RootCause, report string) nightcrier.Incident {
	t.Helper()
	inc := b.acceptEvent(t, b.newEvent("prod", workload, nightcrier.Warning), Policy()).Incident
	run := b.admitRun(t)
	if _, err := b.BeginRun(t.Context(), run.ID); err != nil {
		t.Fatal(err)
	}
	f := store.Finish{RunID: run.ID, Status: nightcrier.Resolved, Diagnosis: cause}
	if report != "" {
		f.Report = []byte(report)
	}
	if err := b.FinishRun(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	b.clock.Advance(time.Hour)
	return inc
}

func oomCause(name string) nightcrier.RootCause {
	return nightcrier.RootCause{Cause: "oom-killed", Object: nightcrier.Object{Kind: "Deployment", Namespace: "shop", Name: name}, Summary: "in words", Confidence: nightcrier.High}
}

func testRecall(t *testing.T, b *bench) {
	ctx, cart := t.Context(), oomCause("cart")
	first := b.openDiagnosed(t, "cart", &cart, `{"n":1}`)
	if _, err := b.Recall(ctx, first.ID, cart); nightcrier.CodeOf(err) != nightcrier.NotFound {
		t.Errorf("an incident recalls itself: %v", err)
	}
	b.writeNote(t, first.ID, "raised the limit to 1Gi")
	second := b.openDiagnosed(t, "cart", &cart, `{"n":2}`)
	b.writeNote(t, second.ID, "again")
	otherCause := nightcrier.RootCause{Cause: "crash-on-start", Object: cart.Object}
	b.openDiagnosed(t, "cart", &otherCause, `{"n":3}`) // newer, and something else
	b.openDiagnosed(t, "cart", &cart, "")              // newer, without a report
	b.openDiagnosed(t, "cart", nil, `{"n":4}`)
	pay := oomCause("cart") // the same object, found from another fault
	b.openDiagnosed(t, "pay", &pay, `{"n":5}`)
	now := b.acceptEvent(t, b.newEvent("prod", "cart", nightcrier.Warning), Policy()).Incident

	cart.Summary, cart.Confidence = strings.Repeat("other words ", 100), nightcrier.Low
	r, err := b.Recall(ctx, now.ID, cart)
	if err != nil || r.Incident.ID != second.ID || string(r.Report) != `{"n":2}` {
		t.Fatalf("recalled %s, %q, %v; want %s", r.Incident.ID, r.Report, err, second.ID)
	}
	if len(r.Notes) != 2 || r.Notes[0].Text != "again" || r.Notes[1].Text != "raised the limit to 1Gi" {
		t.Errorf("notes %+v; want those of both, the newest first", r.Notes)
	}
	for name, cause := range map[string]nightcrier.RootCause{
		"another object": oomCause("pay"),
		"no diagnosis":   {},
		// One field must not pass for two.
		"shifted": {Cause: cart.Cause, Object: nightcrier.Object{Kind: "Deployment", Namespace: "shop/cart"}},
	} {
		if r, err := b.Recall(ctx, now.ID, cause); nightcrier.CodeOf(err) != nightcrier.NotFound {
			t.Errorf("%s: recalled %s, %v", name, r.Incident.ID, err)
		}
	}
	for i := range 15 {
		b.writeNote(t, second.ID, fmt.Sprint("more ", i))
	}
	if r, err := b.Recall(ctx, now.ID, cart); err != nil || len(r.Notes) != 10 {
		t.Errorf("%d notes, %v", len(r.Notes), err)
	}
}

// recallRetried: what an earlier investigation said counts no more once the
// incident is investigated again.
func recallRetried(t *testing.T, b *bench) {
	cart := oomCause("cart")
	first := b.openDiagnosed(t, "cart", &cart, `{"n":1}`)
	later := b.openDiagnosed(t, "cart", nil, `{"n":2}`)
	if _, err := b.Recall(t.Context(), later.ID, cart); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Retry(t.Context(), first.ID, ""); err != nil {
		t.Fatal(err)
	}
	if r, err := b.Recall(t.Context(), later.ID, cart); nightcrier.CodeOf(err) != nightcrier.NotFound {
		t.Errorf("recalled %s, which is open, %v", r.Incident.ID, err)
	}
	b.investigateNext(t, nightcrier.Resolved) // to no diagnosis this time
	if r, err := b.Recall(t.Context(), later.ID, cart); nightcrier.CodeOf(err) != nightcrier.NotFound {
		t.Errorf("recalled %s, whose diagnosis is another now, %v", r.Incident.ID, err)
	}
}
