package storetest

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"nightcrier.dev/nightcrier"
)

func acceptOpens(t *testing.T, b *bench) {
	ev := b.newEvent("prod", "cart", nightcrier.ErrorSeverity)
	ev.Context, ev.FaultID = "hostile \x00 \xff <!channel>", "f-1"
	d := b.acceptEvent(t, ev, Policy())
	inc, run := d.Incident, d.Run
	if d.Outcome != nightcrier.Opened || !d.NewIncident || d.SeverityRose || d.Repeated {
		t.Errorf("decision %+v is not that of a new incident", d)
	}
	if inc.Status != nightcrier.Pending || inc.EventID != ev.ID || inc.EventCount != 1 || inc.RunID != run.ID || inc.FaultID != "f-1" {
		t.Errorf("incident %+v", inc)
	}
	if run.Status != nightcrier.Queued || run.Key != "prod" || run.Severity != nightcrier.ErrorSeverity || run.Executor != "script" {
		t.Errorf("run %+v", run)
	}
	stored, err := b.Incident(t.Context(), inc.ID)
	if diff := cmp.Diff(inc, stored); err != nil || diff != "" {
		t.Errorf("the stored incident differs (%v):\n%s", err, diff)
	}
	got, err := b.Event(t.Context(), ev.ID)
	if err != nil || got.IncidentID != inc.ID || got.Outcome != nightcrier.Opened || string(got.Raw) != string(ev.Raw) {
		t.Errorf("stored event %+v, %v", got, err)
	}
	select {
	case <-b.QueueChanged():
	default:
		t.Error("a queued run woke nobody")
	}
}

func acceptJoins(t *testing.T, b *bench) {
	first := b.acceptEvent(t, b.newEvent("prod", "cart", nightcrier.Warning), Policy())
	b.clock.Advance(24 * time.Hour)
	ev := b.newEvent("prod", "cart", nightcrier.Critical)
	d := b.acceptEvent(t, ev, Policy())
	if d.Outcome != nightcrier.Joined || d.Incident.ID != first.Incident.ID || d.NewIncident {
		t.Errorf("an event of an open incident gave %+v", d)
	}
	if !d.SeverityRose || d.Was != nightcrier.Warning || d.Run.Severity != nightcrier.Critical || d.Incident.Severity != nightcrier.Critical {
		t.Errorf("the rise in severity is missing: %+v", d)
	}
	if told := b.acceptEvent(t, ev, Policy()); !told.Repeated || !told.SeverityRose || told.Was != nightcrier.Warning {
		t.Errorf("the same event again: %+v", told)
	}
	if again := b.acceptEvent(t, b.newEvent("prod", "cart", nightcrier.Critical), Policy()); again.SeverityRose {
		t.Error("the same severity rose twice")
	}
	other := b.acceptEvent(t, b.newEvent("stage", "cart", nightcrier.Warning), Policy())
	if other.Outcome != nightcrier.Opened {
		t.Errorf("another cluster's fault gave %+v", other)
	}
	inc, err := b.Incident(t.Context(), d.Incident.ID)
	if err != nil || inc.EventCount != 4 || len(inc.EventIDs) != 3 || inc.EventIDs[1] != ev.ID || !inc.LastEventAt.Equal(ev.ReceivedAt) {
		t.Errorf("incident after three events, one of them twice: %+v, %v", inc, err)
	}
}

func acceptDedupeWindow(t *testing.T, b *bench) {
	first := b.acceptEvent(t, b.newEvent("prod", "cart", nightcrier.Warning), Policy())
	b.investigateNext(t, nightcrier.Resolved)
	steps := []struct {
		after time.Duration
		want  nightcrier.Outcome
	}{
		{5*time.Minute - time.Microsecond, nightcrier.Suppressed},
		{4 * time.Minute, nightcrier.Suppressed}, // counted from the last event
		{5 * time.Minute, nightcrier.Opened},
	}
	for _, step := range steps {
		b.clock.Advance(step.after)
		d := b.acceptEvent(t, b.newEvent("prod", "cart", nightcrier.Warning), Policy())
		if d.Outcome != step.want {
			t.Fatalf("%s after the last event: %+v, want %s", step.after, d, step.want)
		}
		if d.Outcome == nightcrier.Suppressed && (d.Reason != nightcrier.DedupeWindow || d.Incident.ID != first.Incident.ID) {
			t.Errorf("suppressed as %+v", d)
		}
		if d.Outcome == nightcrier.Opened && d.Incident.PreviousID != first.Incident.ID {
			t.Errorf("the new incident names %q as the earlier one", d.Incident.PreviousID)
		}
	}
}

func acceptTwice(t *testing.T, b *bench) {
	ev := b.newEvent("prod", "cart", nightcrier.Warning)
	first := b.acceptEvent(t, ev, Policy())
	b.clock.Advance(time.Hour)
	second := b.acceptEvent(t, ev, Policy())
	if !second.Repeated {
		t.Error("the second acceptance is not marked as repeated")
	}
	if got, err := b.Event(t.Context(), ev.ID); err != nil || got.Repeats != 1 || !got.RepeatedAt.Equal(ev.ReceivedAt) || second.Incident.EventCount != 2 {
		t.Errorf("the repeat is not counted: %+v, %+v, %v", got, second.Incident, err)
	}
	second.Repeated, second.Incident.EventCount = false, 1
	if diff := cmp.Diff(first, second); diff != "" {
		t.Errorf("the same event was decided twice:\n%s", diff)
	}
}
