package storetest

import (
	"fmt"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/record/store"
)

// stormyPolicy is a policy under which four fingerprints are a storm, of which two are
// investigated.
func stormyPolicy() store.AcceptPolicy {
	p := Policy()
	p.Storm = store.StormPolicy{Fingerprints: 4, Within: time.Minute, Investigate: 2, Quiet: 5 * time.Minute}
	return p
}

// acceptBurst accepts one new fault of each severity, a second apart.
func (b *bench) acceptBurst(t *testing.T, cluster string, severities ...nightcrier.Severity) []store.Decision {
	t.Helper()
	var list []store.Decision
	for _, s := range severities {
		b.n++
		list = append(list, b.acceptEvent(t, b.newEvent(cluster, fmt.Sprintf("w%d", b.n), s), stormyPolicy()))
		b.clock.Advance(time.Second)
	}
	return list
}

func stormBegins(t *testing.T, b *bench) {
	d := b.acceptBurst(t, "prod", nightcrier.Warning, nightcrier.Critical, nightcrier.Warning, nightcrier.ErrorSeverity)
	for _, early := range d[:3] {
		if early.StormStarted != nil || len(early.Dropped) != 0 {
			t.Errorf("a storm before its fourth fingerprint: %+v", early)
		}
	}
	last := d[3]
	if last.StormStarted == nil || last.StormStarted.Incidents != 4 || last.StormStarted.Cluster != "prod" || !last.Incident.Storm {
		t.Fatalf("no storm: %+v", last)
	}
	if len(last.Dropped) != 2 || last.Run.Status != nightcrier.Queued {
		t.Errorf("dropped %+v, want the two warnings", last.Dropped)
	}
	for _, run := range last.Dropped {
		if run.Severity != nightcrier.Warning || run.Reason != nightcrier.StormListed {
			t.Errorf("dropped %+v", run)
		}
		b.wantDropped(t, run.IncidentID(), nightcrier.Listed, last.StormStarted.ID)
	}
	list, err := b.StormIncidents(t.Context(), last.StormStarted.ID)
	if err != nil || len(list) != 4 || list[0].Severity != nightcrier.Critical || !list[3].Storm {
		t.Errorf("incidents of the storm: %+v, %v", list, err)
	}
	// One more, and worse than all: it takes the place of the least severe.
	worse := b.acceptBurst(t, "prod", nightcrier.Critical)[0]
	if worse.StormStarted != nil || worse.Run.Status != nightcrier.Queued || len(worse.Dropped) != 1 || worse.Dropped[0].Severity != nightcrier.ErrorSeverity {
		t.Errorf("a worse one in the storm: %+v", worse)
	}
	if other := b.acceptBurst(t, "stage", nightcrier.Info)[0]; other.Incident.Storm || len(other.Dropped) != 0 {
		t.Errorf("another cluster is drawn in: %+v", other)
	}
}

func stormCountsAdmitted(t *testing.T, b *bench) {
	b.acceptBurst(t, "prod", nightcrier.Warning, nightcrier.Warning)
	b.investigateNext(t, nightcrier.Resolved)
	b.admitRun(t)
	d := b.acceptBurst(t, "prod", nightcrier.Critical, nightcrier.Critical)
	if d[1].StormStarted == nil || len(d[1].Dropped) != 2 {
		t.Errorf("two were admitted already, yet %+v", d[1])
	}
}

func stormNeedsTheWindow(t *testing.T, b *bench) {
	b.acceptBurst(t, "prod", nightcrier.Warning, nightcrier.Warning, nightcrier.Warning)
	b.clock.Advance(time.Minute - 2*time.Second) // only the last two are still within
	if d := b.acceptBurst(t, "prod", nightcrier.Warning); d[0].StormStarted != nil {
		t.Errorf("a storm of what is too far apart: %+v", d[0].StormStarted)
	}
	for range 5 { // one fault again and again is no storm
		b.acceptEvent(t, b.newEvent("prod", "w1", nightcrier.Warning), stormyPolicy())
	}
	if list, err := b.OpenStorms(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("storms %+v, %v", list, err)
	}
}

func stormEnds(t *testing.T, b *bench) {
	start := b.clock.Now()
	d := b.acceptBurst(t, "prod", nightcrier.Warning, nightcrier.Warning, nightcrier.Warning, nightcrier.Warning)
	storm := d[3].StormStarted
	b.clock.Advance(5*time.Minute - time.Second - time.Microsecond)
	if ended, err := b.EndStorms(t.Context(), 5*time.Minute); err != nil || len(ended) != 0 {
		t.Errorf("ended before it was quiet: %+v, %v", ended, err)
	}
	// A known fingerprint belongs to it but does not prolong it.
	again := b.acceptEvent(t, b.newEvent("prod", "w3", nightcrier.Warning), stormyPolicy())
	if again.Outcome != nightcrier.Opened || !again.Incident.Storm {
		t.Errorf("in the storm: %+v", again)
	}
	b.clock.Advance(time.Microsecond)
	ended, err := b.EndStorms(t.Context(), 5*time.Minute)
	if err != nil || len(ended) != 1 || ended[0].ID != storm.ID || ended[0].EndedAt.IsZero() {
		t.Errorf("ended %+v, %v", ended, err)
	}
	if d := b.acceptBurst(t, "prod", nightcrier.Warning)[0]; d.Incident.Storm || d.Run.Status != nightcrier.Queued {
		t.Errorf("after the storm: %+v", d)
	}
	all, err := b.Storms(t.Context(), start)
	if err != nil || len(all) != 1 || all[0].EndedAt.IsZero() {
		t.Errorf("storms since %s: %+v, %v", start, all, err)
	}
}

func stormEndsByItself(t *testing.T, b *bench) {
	b.acceptBurst(t, "prod", nightcrier.Warning, nightcrier.Warning, nightcrier.Warning, nightcrier.Warning)
	b.clock.Advance(time.Hour)
	if d := b.acceptBurst(t, "prod", nightcrier.Warning)[0]; d.Incident.Storm {
		t.Errorf("an hour later: %+v", d.Incident)
	}
	if open, err := b.OpenStorms(t.Context()); err != nil || len(open) != 0 {
		t.Errorf("still open: %+v, %v", open, err)
	}
}

func stormSparesRetries(t *testing.T, b *bench) {
	d := b.acceptBurst(t, "prod", nightcrier.Warning, nightcrier.Critical, nightcrier.Critical, nightcrier.Critical)
	dropped := d[3].Dropped[0]
	run, err := b.Retry(t.Context(), dropped.IncidentID(), "")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range b.acceptBurst(t, "prod", nightcrier.Critical, nightcrier.Critical) {
		for _, other := range d.Dropped {
			if other.ID == run.ID {
				t.Error("the storm dropped what a person asked for")
			}
		}
	}
	if got, err := b.Run(t.Context(), run.ID); err != nil || got.Status != nightcrier.Queued {
		t.Errorf("retried run %+v, %v", got, err)
	}
}
