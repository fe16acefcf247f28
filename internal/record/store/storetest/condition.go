package storetest

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"nightcrier.dev/nightcrier"

	"nightcrier.dev/nightcrier/internal/record/store"
)

// eventBy makes a source say something about the fault of shop/Deployment/cart.
func (b *bench) eventBy(source string, s nightcrier.Severity, cleared bool) nightcrier.Event {
	ev := b.newEvent("prod", "cart", s)
	ev.Source, ev.Cleared = source, cleared
	return ev
}

// clearNothing: the end of a fault that nobody knows starts nothing.
func clearNothing(t *testing.T, b *bench) {
	d := b.acceptEvent(t, b.eventBy("watch", nightcrier.Critical, true), Policy())
	if d.Outcome != nightcrier.Suppressed || d.Reason != nightcrier.NothingToClear || d.Incident.ID != "" {
		t.Errorf("decision %+v", d)
	}
	if ev, err := b.Event(t.Context(), d.EventID); err != nil || ev.Reason != nightcrier.NothingToClear || !ev.Cleared {
		t.Errorf("event %+v, %v", ev, err)
	}
	if n, err := b.Counts(t.Context()); err != nil || n.Queued != 0 || len(n.Incidents) != 0 {
		t.Errorf("counts %+v, %v", n, err)
	}
}

// clearWaiting: a fault that is over before anyone looked is looked at after all
// that are there; when it is back, in its turn.
func clearWaiting(t *testing.T, b *bench) {
	first := b.acceptEvent(t, b.eventBy("watch", nightcrier.Critical, false), Policy())
	b.acceptEvent(t, b.newEvent("prod", "other", nightcrier.Warning), Policy())
	d := b.acceptEvent(t, b.eventBy("watch", nightcrier.Critical, true), Policy())
	inc := d.Incident
	if d.Outcome != nightcrier.Joined || inc.ID != first.Incident.ID || inc.Condition != nightcrier.ConditionCleared || !inc.ClearedAt.Equal(b.clock.Now()) {
		t.Errorf("decision %+v", d)
	}
	if inc.Status != nightcrier.Pending || inc.Severity != nightcrier.Critical || d.Run.Severity != nightcrier.Info || d.SeverityRose {
		t.Errorf("incident %+v, run %+v", inc, d.Run)
	}
	if run := b.admitRun(t); run.IncidentID() == inc.ID {
		t.Error("a fault that is over goes before one that is there")
	}
	back := b.acceptEvent(t, b.eventBy("watch", nightcrier.Warning, false), Policy())
	if back.Incident.Condition != nightcrier.ConditionActive || !back.Incident.ClearedAt.IsZero() || back.Run.Severity != nightcrier.Critical {
		t.Errorf("the fault is back: %+v, run %+v", back.Incident, back.Run)
	}
}

// clearClosed: what is over is noted after the incident was closed, once; the
// same fault is the same incident within the window, and another one after it.
func clearClosed(t *testing.T, b *bench) {
	first := b.acceptEvent(t, b.eventBy("watch", nightcrier.Warning, false), Policy())
	b.investigateNext(t, nightcrier.Resolved)
	b.clock.Advance(time.Hour)
	d := b.acceptEvent(t, b.eventBy("watch", nightcrier.Warning, true), Policy())
	if d.Incident.ID != first.Incident.ID || d.Incident.Status != nightcrier.Resolved || d.Incident.Condition != nightcrier.ConditionCleared {
		t.Errorf("decision %+v", d)
	}
	if again := b.acceptEvent(t, b.eventBy("watch", nightcrier.Warning, true), Policy()); again.Reason != nightcrier.NothingToClear {
		t.Errorf("over twice: %+v", again)
	}
	b.clock.Advance(4 * time.Minute)
	back := b.acceptEvent(t, b.eventBy("watch", nightcrier.Warning, false), Policy())
	if back.NewIncident || back.Incident.ID != first.Incident.ID || back.Incident.Condition != nightcrier.ConditionActive {
		t.Errorf("back within the window: %+v", back)
	}
	b.acceptEvent(t, b.eventBy("watch", nightcrier.Warning, true), Policy())
	b.clock.Advance(5 * time.Minute)
	next := b.acceptEvent(t, b.eventBy("watch", nightcrier.Warning, false), Policy())
	if !next.NewIncident || next.Incident.PreviousID != first.Incident.ID || next.Incident.Condition != nightcrier.ConditionActive {
		t.Errorf("back after the window: %+v", next)
	}
	if old, err := b.Incident(t.Context(), first.Incident.ID); err != nil || old.Condition != nightcrier.ConditionCleared {
		t.Errorf("the earlier incident is %s, %v", old.Condition, err)
	}
}

// stillThere: a fault that nobody said was over is the same one however long it
// lasts, over restarts of its source too; a worse one is another incident.
func stillThere(t *testing.T, b *bench) {
	first := b.acceptEvent(t, b.eventBy("watch", nightcrier.Warning, false), Policy())
	b.investigateNext(t, nightcrier.Resolved)
	for range 3 {
		b.clock.Advance(24 * time.Hour)
		d := b.acceptEvent(t, b.eventBy("watch", nightcrier.Warning, false), Policy())
		if d.Outcome != nightcrier.Joined || d.Reason != nightcrier.StillActive || d.Incident.ID != first.Incident.ID || d.Incident.Status != nightcrier.Resolved {
			t.Fatalf("a fault that lasts: %+v", d)
		}
	}
	if n, err := b.Counts(t.Context()); err != nil || n.Queued != 0 {
		t.Errorf("counts %+v, %v", n, err)
	}
	b.clock.Advance(24 * time.Hour)
	worse := b.acceptEvent(t, b.eventBy("watch", nightcrier.Critical, false), Policy())
	if !worse.NewIncident || worse.Incident.PreviousID != first.Incident.ID {
		t.Errorf("a worse fault: %+v", worse)
	}
	if old, err := b.Incident(t.Context(), first.Incident.ID); err != nil || old.Condition != nightcrier.ConditionUnknown || old.SeenBy != nil {
		t.Errorf("the incident that another one follows: %+v, %v", old, err)
	}
}

// notStillThere: who only pushes faults may have missed the end of one, and what
// nobody has looked at is not put off.
func notStillThere(t *testing.T, b *bench) {
	b.acceptEvent(t, b.eventBy("mcp", nightcrier.Warning, false), Policy())
	b.investigateNext(t, nightcrier.Resolved)
	b.clock.Advance(time.Hour)
	if d := b.acceptEvent(t, b.eventBy("watch", nightcrier.Warning, false), Policy()); !d.NewIncident {
		t.Errorf("reported by another source an hour ago: %+v", d)
	}
	b.investigateNext(t, nightcrier.Resolved)
	b.clock.Advance(time.Hour)
	if d := b.acceptEvent(t, b.eventBy("mcp", nightcrier.Warning, false), Policy()); !d.NewIncident {
		t.Errorf("pushed again: %+v", d)
	}
	p := Policy()
	p.QueueMax = 1
	first := b.acceptEvent(t, func() nightcrier.Event {
		ev := b.newEvent("stage", "cart", nightcrier.Info)
		ev.Source = "watch"
		return ev
	}(), p)
	if first.Run.Status != nightcrier.Dropped {
		t.Fatalf("run %+v", first.Run)
	}
	b.clock.Advance(time.Hour)
	again := b.newEvent("stage", "cart", nightcrier.Info)
	again.Source = "watch"
	if d := b.acceptEvent(t, again, Policy()); !d.NewIncident {
		t.Errorf("a fault that nobody looked at: %+v", d)
	}
}

// manySources: the source that follows a fault decides when it is over.
func manySources(t *testing.T, b *bench) {
	b.acceptEvent(t, b.eventBy("mcp", nightcrier.Warning, false), Policy())
	b.acceptEvent(t, b.eventBy("alert", nightcrier.Warning, false), Policy())
	d := b.acceptEvent(t, b.eventBy("watch", nightcrier.Warning, false), Policy())
	if want := []string{"mcp", "alert", "watch"}; !slices.Equal(d.Incident.SeenBy, want) {
		t.Errorf("seen by %v", d.Incident.SeenBy)
	}
	followed, err := b.Followed(t.Context(), "prod")
	if err != nil || len(followed) != 1 || followed[0].ID != d.Incident.ID {
		t.Errorf("followed %+v, %v", followed, err)
	}
	d = b.acceptEvent(t, b.eventBy("alert", nightcrier.Warning, true), Policy())
	if d.Incident.Condition != nightcrier.ConditionActive || slices.Contains(d.Incident.SeenBy, "alert") || d.Detail == "" {
		t.Errorf("an alert that is over: %+v", d)
	}
	d = b.acceptEvent(t, b.eventBy("watch", nightcrier.Warning, true), Policy())
	if d.Incident.Condition != nightcrier.ConditionCleared || d.Incident.SeenBy != nil {
		t.Errorf("a fault that is over: %+v", d.Incident)
	}
	if followed, err = b.Followed(t.Context(), "prod"); err != nil || len(followed) != 0 {
		t.Errorf("followed %+v, %v", followed, err)
	}
	b.acceptEvent(t, b.eventBy("alert", nightcrier.Warning, false), Policy())
	if d = b.acceptEvent(t, b.eventBy("alert", nightcrier.Warning, true), Policy()); d.Incident.Condition != nightcrier.ConditionCleared {
		t.Errorf("an alert alone: %+v", d.Incident)
	}
}

// strangersWord: who never said that a fault was there cannot say that it is over,
// and so put its run behind all others.
func strangersWord(t *testing.T, b *bench) {
	first := b.acceptEvent(t, b.eventBy("mcp", nightcrier.Critical, false), Policy())
	d := b.acceptEvent(t, b.eventBy("webhook", nightcrier.Info, true), Policy())
	if d.Incident.ID != first.Incident.ID || d.Incident.Condition != nightcrier.ConditionActive || d.Run.Severity != nightcrier.Critical || d.Detail == "" {
		t.Errorf("an end without a beginning: %+v", d)
	}
	b.acceptEvent(t, b.eventBy("webhook", nightcrier.Critical, false), Policy())
	if d = b.acceptEvent(t, b.eventBy("webhook", nightcrier.Critical, true), Policy()); d.Incident.Condition != nightcrier.ConditionCleared {
		t.Errorf("an end with one: %+v", d)
	}
}

// staleAlerts: a fault of several alerts is over with the last of them, also when
// some ended after somebody else had said that it was over.
func staleAlerts(t *testing.T, b *bench) {
	alert := func(id string, cleared bool) nightcrier.Event {
		ev := b.eventBy("webhook", nightcrier.Warning, cleared)
		ev.FaultID = id
		return ev
	}
	says := func(ev nightcrier.Event, want nightcrier.Condition) {
		t.Helper()
		b.acceptEvent(t, ev, Policy())
		list, _, err := b.Incidents(t.Context(), store.IncidentFilter{})
		if err != nil || len(list) != 1 || list[0].Condition != want {
			t.Fatalf("%s over %t: %+v, %v; want %s", ev.FaultID, ev.Cleared, list, err, want)
		}
	}
	const active, cleared = nightcrier.ConditionActive, nightcrier.ConditionCleared
	says(alert("a", false), active)
	says(alert("b", false), active)
	says(alert("c", false), active)
	says(alert("a", true), active)
	says(alert("a", false), active)
	says(alert("b", true), active)
	says(alert("c", true), active)
	says(alert("a", true), cleared)
	says(alert("d", false), active)
	says(b.eventBy("watch", nightcrier.Warning, false), active)
	says(b.eventBy("watch", nightcrier.Warning, true), cleared)
	says(alert("d", true), cleared)
	says(alert("e", false), active)
	says(alert("e", true), cleared)
}

// retriesInVain: what was resolved is as it was before, where its retry never begins; what had failed has failed.
func retriesInVain(t *testing.T, b *bench) {
	first := b.acceptEvent(t, b.eventBy("watch", nightcrier.Warning, false), Policy())
	end := func(f store.Finish) nightcrier.Incident {
		t.Helper()
		f.RunID = b.admitRun(t).ID
		if _, err := b.BeginRun(t.Context(), f.RunID); err != nil {
			t.Fatal(err)
		}
		if err := b.FinishRun(t.Context(), f); err != nil {
			t.Fatal(err)
		}
		b.clock.Advance(time.Hour)
		return b.readIncident(t, first.Incident.ID)
	}
	inc := end(store.Finish{Status: nightcrier.Resolved, RootCause: "the disk is full", Report: []byte(`{}`), LookAgainAt: b.clock.Now().Add(time.Minute)})
	if got, err := b.RetryDue(t.Context()); err != nil || len(got) != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
	run, err := b.RequestCancelRun(t.Context(), b.readIncident(t, inc.ID).RunID, "not needed")
	if err != nil || run.Status != nightcrier.Dropped {
		t.Fatalf("%+v, %v", run, err)
	}
	if got := b.readIncident(t, inc.ID); !cmp.Equal(got, inc) {
		t.Errorf("it was %+v, and is %+v", inc, got)
	}
	if _, err := b.Retry(t.Context(), first.Incident.ID, ""); err != nil {
		t.Fatal(err)
	}
	inc = end(store.Finish{Status: nightcrier.Failed, FailureReason: "no"})
	if _, err := b.Retry(t.Context(), inc.ID, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := b.RequestCancelRun(t.Context(), b.readIncident(t, inc.ID).RunID, "not needed"); err != nil {
		t.Fatal(err)
	}
	if got := b.readIncident(t, inc.ID); got.Status != nightcrier.Failed || got.RootCause != "" {
		t.Errorf("what had failed is %+v", got)
	}
}

// looksAgain: an incident whose report asks for another look gets one run when the time has come,
// and no more than a few in all.
func looksAgain(t *testing.T, b *bench) {
	const after = 2 * time.Minute
	first := b.acceptEvent(t, b.eventBy("watch", nightcrier.Warning, false), Policy())
	investigate := func() {
		t.Helper()
		run := b.admitRun(t)
		if _, err := b.BeginRun(t.Context(), run.ID); err != nil {
			t.Fatal(err)
		}
		if err := b.FinishRun(t.Context(), store.Finish{RunID: run.ID, Status: nightcrier.Resolved, LookAgainAt: b.clock.Now().Add(after)}); err != nil {
			t.Fatal(err)
		}
	}
	due := func(want int, when string) {
		t.Helper()
		if got, err := b.RetryDue(t.Context()); err != nil || len(got) != want {
			t.Fatalf("%s: %d runs queued, %v, want %d", when, len(got), err, want)
		}
	}
	due(0, "while it is investigated")
	investigate()
	for range 4 {
		due(0, "too early")
		b.clock.Advance(after)
		due(1, "in time")
		due(0, "a second time")
		if inc := b.readIncident(t, first.Incident.ID); inc.Status != nightcrier.Pending {
			t.Fatalf("the incident is %s", inc.Status)
		}
		investigate()
	}
	b.clock.Advance(time.Hour)
	due(0, "after so many looks")
}
