package storetest

import (
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/record/store"
)

// searchIncidents: incidents are found by what a person remembers of them, and who follows them
// is woken when one changes.
func searchIncidents(t *testing.T, b *bench) {
	wake, stop := b.WatchIncidents()
	defer stop()
	first := b.acceptEvent(t, b.newEvent("prod", "cart", nightcrier.Critical), Policy()).Incident
	select {
	case <-wake:
	case <-time.After(time.Minute):
		t.Fatal("a new incident wakes nobody")
	}
	odd := b.newEvent("prod", "ledger", nightcrier.Warning)
	odd.Context = `50% of Calls_failed \`
	b.acceptEvent(t, odd, Policy())
	b.acceptEvent(t, b.newEvent("test", "cart", nightcrier.Warning), Policy())
	ns := first.Namespace()
	for name, c := range map[string]struct {
		f    store.IncidentFilter
		want int
	}{
		"all": {store.IncidentFilter{}, 3}, "a namespace": {store.IncidentFilter{Namespace: ns}, 3}, "another": {store.IncidentFilter{Namespace: ns + "x"}, 0},
		"severe": {store.IncidentFilter{Severity: nightcrier.ErrorSeverity}, 1}, "still there": {store.IncidentFilter{Condition: nightcrier.ConditionActive}, 3},
		"a word": {store.IncidentFilter{Text: "CART"}, 2}, "two words": {store.IncidentFilter{Text: "cart test"}, 1}, "an id": {store.IncidentFilter{Text: first.ID}, 1},
		"signs": {store.IncidentFilter{Text: "50% calls_failed"}, 1}, "no pattern": {store.IncidentFilter{Text: "5_% c%d"}, 0}, "a backslash": {store.IncidentFilter{Text: `\`}, 1},
		"until": {store.IncidentFilter{Until: first.CreatedAt}, 0}, "nothing": {store.IncidentFilter{Text: "zzz"}, 0},
	} {
		list, _, err := b.Incidents(t.Context(), c.f)
		if err != nil || len(list) != c.want {
			t.Errorf("%s: %d incidents, want %d, %v", name, len(list), c.want, err)
		}
	}
}

// clearByAPerson: who looks at an incident may say that it is over, once.
func clearByAPerson(t *testing.T, b *bench) {
	inc := b.acceptEvent(t, b.eventBy("watch", nightcrier.Critical, false), Policy()).Incident
	got, err := b.MarkCleared(t.Context(), inc.ID)
	if err != nil || got.Condition != nightcrier.ConditionCleared || !got.ClearedAt.Equal(b.clock.Now()) || len(got.SeenBy) > 0 {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := b.MarkCleared(t.Context(), inc.ID); nightcrier.CodeOf(err) != nightcrier.Conflict {
		t.Errorf("twice: %v", err)
	}
	if _, err := b.MarkCleared(t.Context(), nightcrier.NewID()); nightcrier.CodeOf(err) != nightcrier.NotFound {
		t.Errorf("one that is not there: %v", err)
	}
	if back := b.acceptEvent(t, b.eventBy("watch", nightcrier.Warning, false), Policy()); back.Incident.ID != inc.ID || back.Incident.Condition != nightcrier.ConditionActive {
		t.Errorf("the fault is back: %+v", back.Incident)
	}
}
