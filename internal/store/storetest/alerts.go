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
		ev := b.by("webhook", nightcrier.Warning, cleared)
		ev.FaultID = fmt.Sprint("alert-", alert)
		b.clock.Advance(time.Second)
		return b.accept(t, ev, Policy()).Incident
	}
	for i := range alerts {
		send(i, false)
	}
	b.accept(t, b.by("mcp", nightcrier.Warning, false), Policy()) // which nobody will take back
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

// repeatedUnseen: a fault that nobody looked at because the queue was full gets
// another chance when the very same event is sent again, once the window is over.
func repeatedUnseen(t *testing.T, b *bench) {
	p := Policy()
	p.QueueMax = 1
	waiting := b.accept(t, b.event("prod", "db", nightcrier.Critical), p)
	ev := b.event("prod", "cart", nightcrier.Warning)
	first := b.accept(t, ev, p)
	if first.Run.Reason != nightcrier.QueueFull {
		t.Fatalf("the queue is not full: %+v", first)
	}
	again := func(after time.Duration) (d struct {
		repeated bool
		incident string
	}) {
		b.clock.Advance(after)
		ev.ReceivedAt = b.clock.Now()
		got := b.accept(t, ev, p)
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
