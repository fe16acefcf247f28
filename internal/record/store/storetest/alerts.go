package storetest

import (
	"fmt"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
)

// lastAlertEnds: alerts of one fault end one by one, in any order, and the fault
// is over with the last of them.
func lastAlertEnds(t *testing.T, b *bench) {
	const alerts = 250 // more than are looked at at once
	send := func(alert int, cleared bool) nightcrier.Incident {
		ev := b.eventBy("webhook", nightcrier.Warning, cleared)
		ev.FaultID = fmt.Sprint("alert-", alert)
		b.clock.Advance(time.Second)
		return b.acceptEvent(t, ev, Policy()).Incident
	}
	for i := range alerts {
		send(i, false)
	}
	b.acceptEvent(t, b.eventBy("mcp", nightcrier.Warning, false), Policy()) // which nobody will take back
	for i := range alerts - 1 {
		if inc := send(i, true); inc.Condition != nightcrier.ConditionActive {
			t.Fatalf("the fault is %s after %d of %d alerts ended", inc.Condition, i+1, alerts)
		}
	}
	send(3, false) // fires again
	if inc := send(alerts-1, true); inc.Condition != nightcrier.ConditionActive {
		t.Error("the alert that fires again is forgotten")
	}
	if inc := send(3, true); inc.Condition != nightcrier.ConditionCleared {
		t.Errorf("the fault is %s after all alerts ended", inc.Condition)
	}
}

// lateEnds: an end that was held up on its way does not end what its source reported since,
// whoever the source is. That of the newest does, and one without a time.
func lateEnds(t *testing.T, b *bench) {
	began := b.clock.Now()
	for _, source := range []string{"webhook", "mcp"} {
		send := func(minute int, cleared bool) nightcrier.Incident {
			ev := b.eventBy(source, nightcrier.Warning, cleared)
			ev.FaultID, ev.Owner.Name, ev.Fingerprint = "f", source, "late/"+source
			if minute >= 0 {
				ev.OccurredAt = began.Add(time.Duration(minute) * time.Minute)
			}
			b.clock.Advance(time.Second)
			d := b.acceptEvent(t, ev, Policy())
			return d.Incident
		}
		want := func(what string, inc nightcrier.Incident, want nightcrier.Condition) {
			t.Helper()
			if got := b.readIncident(t, inc.ID); got.Condition != want {
				t.Errorf("%s, %s: the fault is %s, want %s", source, what, got.Condition, want)
			}
		}
		inc := send(0, false)
		send(5, false)
		send(0, true)
		want("the end of what began before", inc, nightcrier.ConditionActive)
		send(3, false) // it came late as well
		send(4, true)
		want("another one", inc, nightcrier.ConditionActive)
		send(5, true)
		want("its own end", inc, nightcrier.ConditionCleared)
		send(6, false)
		want("again", inc, nightcrier.ConditionActive)
		send(-1, true)
		want("an end without a time", inc, nightcrier.ConditionCleared)
	}
}

// repeatedUnseen: a fault that nobody looked at because the queue was full gets
// another chance when the very same event is sent again, once the window is over.
func repeatedUnseen(t *testing.T, b *bench) {
	p := Policy()
	p.QueueMax = 1
	waiting := b.acceptEvent(t, b.newEvent("prod", "db", nightcrier.Critical), p)
	ev := b.newEvent("prod", "cart", nightcrier.Warning)
	first := b.acceptEvent(t, ev, p)
	if first.Run.Reason != nightcrier.QueueFull {
		t.Fatalf("the queue is not full: %+v", first)
	}
	again := func(after time.Duration) (d struct {
		repeated bool
		incident string
	}) {
		b.clock.Advance(after)
		ev.ReceivedAt = b.clock.Now()
		got := b.acceptEvent(t, ev, p)
		d.repeated, d.incident = got.Repeated, got.Incident.ID
		return d
	}
	if d := again(p.DedupeWindow / 2); !d.repeated || d.incident != first.Incident.ID {
		t.Errorf("within the window: %+v", d)
	}
	if _, err := b.RequestCancel(t.Context(), waiting.Incident.ID, "make room"); err != nil {
		t.Fatal(err)
	}
	second := again(p.DedupeWindow)
	if second.repeated || second.incident == first.Incident.ID {
		t.Errorf("it is not looked at: %+v", second)
	}
	if d := again(time.Hour); !d.repeated || d.incident != second.incident {
		t.Errorf("sent once more it is another event: %+v", d)
	}
}
