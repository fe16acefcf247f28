package storetest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/record/store"
)

// generousLimits returns generous limits.
func generousLimits() store.Limits { return store.Limits{Total: 100, PerKey: 1} }

// drainQueue admits until nothing is admissible and returns the clusters in order.
func (b *bench) drainQueue(t *testing.T, l store.Limits) []string {
	t.Helper()
	var keys []string
	for {
		run, err := b.AdmitNext(t.Context(), l)
		if err != nil {
			t.Fatalf("admit: %v", err)
		}
		if run == nil {
			return keys
		}
		if run.Status != nightcrier.Admitted || !run.AdmittedAt.Equal(b.clock.Now()) {
			t.Errorf("admitted run %+v", run)
		}
		keys = append(keys, run.Key)
	}
}

func admitOrder(t *testing.T, b *bench) {
	for i, s := range []nightcrier.Severity{nightcrier.Warning, nightcrier.Critical, nightcrier.Warning, nightcrier.Critical, nightcrier.ErrorSeverity} {
		b.acceptEvent(t, b.newEvent(fmt.Sprintf("c%d", i), "cart", s), Policy())
		b.clock.Advance(time.Second)
	}
	if got, want := b.drainQueue(t, generousLimits()), []string{"c1", "c3", "c4", "c0", "c2"}; !slices.Equal(got, want) {
		t.Errorf("admitted %v, want the most severe and then the oldest first: %v", got, want)
	}
}

func admitRise(t *testing.T, b *bench) {
	b.acceptEvent(t, b.newEvent("a", "cart", nightcrier.ErrorSeverity), Policy())
	b.acceptEvent(t, b.newEvent("b", "cart", nightcrier.Warning), Policy())
	b.acceptEvent(t, b.newEvent("b", "cart", nightcrier.Critical), Policy())
	if got := b.drainQueue(t, generousLimits()); !slices.Equal(got, []string{"b", "a"}) {
		t.Errorf("admitted %v; the one that rose in severity goes first", got)
	}
}

func admitLimits(t *testing.T, b *bench) {
	for _, cluster := range []string{"a", "b", "c"} {
		for _, workload := range []string{"cart", "web", "db"} {
			b.acceptEvent(t, b.newEvent(cluster, workload, nightcrier.Warning), Policy())
			b.clock.Advance(time.Second)
		}
	}
	l := store.Limits{Total: 2, PerKey: 1}
	if got := b.drainQueue(t, l); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("admitted %v under %+v", got, l)
	}
	l = store.Limits{Total: 5, PerKey: 2}
	if got := b.drainQueue(t, l); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("admitted %v more under %+v", got, l)
	}
	leased, err := b.LeasedRuns(t.Context())
	if err != nil || len(leased) != 5 {
		t.Fatalf("%d leases, %v", len(leased), err)
	}
	if _, err := b.BeginRun(t.Context(), leased[0].ID); err != nil {
		t.Fatal(err)
	}
	if err := b.FinishRun(t.Context(), store.Finish{RunID: leased[0].ID, Status: nightcrier.Failed}); err != nil {
		t.Fatal(err)
	}
	if got := b.drainQueue(t, l); !slices.Equal(got, []string{leased[0].Key}) {
		t.Errorf("after a lease of %s was released: %v", leased[0].Key, got)
	}
	for _, bad := range []store.Limits{{Total: 0, PerKey: 1}, {Total: 1, PerKey: 0}} {
		_, err := b.AdmitNext(t.Context(), bad)
		wantCode(t, err, nightcrier.Invalid)
	}
}

func admitClosed(t *testing.T, b *bench) {
	p := Policy()
	p.Executor = "claude-code"
	b.acceptEvent(t, b.newEvent("a", "cart", nightcrier.Critical), p)
	p.Executor = "builtin"
	b.acceptEvent(t, b.newEvent("b", "cart", nightcrier.Warning), p)
	closed := generousLimits()
	closed.Closed = []string{"claude-code", "codex"}
	if got := b.drainQueue(t, closed); !slices.Equal(got, []string{"b"}) {
		t.Errorf("with a closed executor: %v", got)
	}
	if got := b.drainQueue(t, generousLimits()); !slices.Equal(got, []string{"a"}) {
		t.Errorf("with it open again: %v", got)
	}
}

func queueBound(t *testing.T, b *bench) {
	p := Policy()
	p.QueueMax = 2
	b.acceptEvent(t, b.newEvent("a", "cart", nightcrier.Warning), p)
	b.clock.Advance(time.Second)
	newer := b.acceptEvent(t, b.newEvent("b", "cart", nightcrier.Warning), p)
	b.clock.Advance(time.Second)
	d := b.acceptEvent(t, b.newEvent("c", "cart", nightcrier.Critical), p)
	if len(d.Dropped) != 1 || d.Dropped[0].ID != newer.Run.ID || d.Dropped[0].Reason != nightcrier.QueueFull || d.Run.Status != nightcrier.Queued {
		t.Errorf("over the bound %+v was dropped, want the newest of the least severe", d.Dropped)
	}
	b.wantFailed(t, newer.Incident.ID, "maximum of 2")
	own := b.acceptEvent(t, b.newEvent("d", "cart", nightcrier.Info), p)
	if own.Run.Status != nightcrier.Dropped || own.Incident.Status != nightcrier.Failed || own.Outcome != nightcrier.Opened {
		t.Errorf("the least severe is the new one itself: %+v", own)
	}
	if n := b.readCounts(t); n.Queued != 2 || n.Dropped[nightcrier.QueueFull] != 2 || n.Incidents[nightcrier.Failed] != 2 {
		t.Errorf("counts %+v", n)
	}
	// Nobody has looked at it: being reported again does not put it off.
	b.clock.Advance(3 * time.Minute)
	if again := b.acceptEvent(t, b.newEvent("d", "cart", nightcrier.Info), p); again.Outcome != nightcrier.Suppressed {
		t.Errorf("within the window: %+v", again)
	}
	b.clock.Advance(3 * time.Minute)
	if again := b.acceptEvent(t, b.newEvent("d", "cart", nightcrier.Critical), p); again.Outcome != nightcrier.Opened {
		t.Errorf("after the window: %+v", again)
	}
}

func queueExpiry(t *testing.T, b *bench) {
	old := b.acceptEvent(t, b.newEvent("a", "cart", nightcrier.Critical), Policy())
	b.clock.Advance(time.Hour)
	b.acceptEvent(t, b.newEvent("b", "cart", nightcrier.Warning), Policy())
	dropped, err := b.ExpireQueued(t.Context(), time.Hour)
	if err != nil || len(dropped) != 0 {
		t.Errorf("at exactly its age: %v, %v", dropped, err)
	}
	b.clock.Advance(time.Microsecond)
	dropped, err = b.ExpireQueued(t.Context(), time.Hour)
	if err != nil || len(dropped) != 1 || dropped[0].ID != old.Run.ID || dropped[0].Reason != nightcrier.QueueExpired {
		t.Errorf("expired %+v, %v", dropped, err)
	}
	b.wantFailed(t, old.Incident.ID, "1h0m0s")
	stored, err := b.Run(t.Context(), old.Run.ID)
	if err != nil || stored.Status != nightcrier.Dropped || !stored.EndedAt.Equal(b.clock.Now()) {
		t.Errorf("stored run %+v, %v", stored, err)
	}
}

// wantFailed checks that an incident failed for a reason that says what, and how
// to have it investigated after all.
func (b *bench) wantFailed(t *testing.T, id, what string) {
	t.Helper()
	b.wantDropped(t, id, nightcrier.Failed, what)
}

// wantDropped is wantFailed for an incident that ended in another status.
func (b *bench) wantDropped(t *testing.T, id string, status nightcrier.IncidentStatus, what string) {
	t.Helper()
	inc, err := b.Incident(t.Context(), id)
	if err != nil || inc.Status != status || inc.CompletedAt.IsZero() {
		t.Errorf("incident %+v, %v, want it %s", inc, err, status)
	}
	for _, part := range []string{what, "nightcrier incidents retry " + id} {
		if !strings.Contains(inc.FailureReason, part) {
			t.Errorf("failure reason %q does not say %q", inc.FailureReason, part)
		}
	}
}

func (b *bench) readCounts(t *testing.T) store.Counts {
	t.Helper()
	n, err := b.Counts(t.Context())
	if err != nil {
		t.Fatalf("counts: %v", err)
	}
	return n
}
