package intake

import (
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/record/store"
)

// newReal returns an intake on a real store.
func newReal(t *testing.T) (*Intake, *store.Store) {
	t.Helper()
	s, err := store.Open(t.Context(), store.Options{Path: filepath.Join(t.TempDir(), "n.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	policy := store.AcceptPolicy{Pipeline: "k8s-incident-triage", Executor: "builtin", DedupeWindow: 5 * time.Minute}
	return New(Config{Store: s, Threshold: nightcrier.Warning, Policy: policy}), s
}

// What a crashing Deployment makes several Pods of two ReplicaSets report is one
// incident, as severe as the worst report.
func TestOneFaultOneIncident(t *testing.T) {
	t.Parallel()
	in, s := newReal(t)
	reports := []struct {
		raw  []byte
		want nightcrier.Outcome
		rose bool
	}{
		{fault("PodCrash", "warning", "Pod", "shop", "cart-7d9f8b6c5d-x2x9z"), nightcrier.Opened, false},
		{fault("OOMKilled", "error", "Pod", "shop", "cart-7d9f8b6c5d-bcdfg"), nightcrier.Joined, true},
		{fault("CrashLoop", "critical", "Pod", "shop", "cart-66b6c48dd5-7hsn9"), nightcrier.Joined, true},
		{fault("DeploymentFailure", "critical", "Deployment", "shop", "cart"), nightcrier.Joined, false},
		{fault("CrashLoop", "critical", "Pod", "other", "cart-66b6c48dd5-7hsn9"), nightcrier.Opened, false},
		{fault("Unschedulable", "error", "Pod", "shop", "cart-66b6c48dd5-7hsn9"), nightcrier.Opened, false},
		{fault("CrashLoop", "info", "Pod", "shop", "cart-66b6c48dd5-7hsn9"), nightcrier.Suppressed, false},
	}
	var first store.Decision
	for i, r := range reports {
		d := deliver(t, in, r.raw)
		if d.Outcome != r.want || d.SeverityRose != r.rose {
			t.Errorf("report %d: %s, rose %t, want %s, %t", i, d.Outcome, d.SeverityRose, r.want, r.rose)
		}
		if i == 0 {
			first = d
		}
	}
	inc, err := s.Incident(t.Context(), first.Incident.ID)
	if err != nil || inc.EventCount != 4 || inc.Severity != nightcrier.Critical || inc.Owner.String() != "shop/Deployment/cart" || inc.FaultType != "PodCrash" {
		t.Errorf("incident %+v, %v", inc, err)
	}
}

// A caller that must know the incident's id beforehand chooses it.
func TestChosenIncidentID(t *testing.T) {
	t.Parallel()
	in, s := newReal(t)
	d := nightcrier.Delivery{Source: "cli", Cluster: "prod", IncidentID: nightcrier.NewID(), Raw: fault("CrashLoop", "critical", "Pod", "shop", "web-0")}
	got, err := in.Deliver(t.Context(), d)
	if err != nil || got.Incident.ID != d.IncidentID || got.Cluster != "prod" {
		t.Errorf("decision %+v, %v", got, err)
	}
	d.IncidentID = nightcrier.NewID()
	if joined, err := in.Deliver(t.Context(), d); err != nil || joined.Incident.ID != got.Incident.ID {
		t.Errorf("an event of an open incident: %+v, %v", joined.Incident, err)
	}
	d.Raw = []byte("{")
	bad, err := in.Deliver(t.Context(), d)
	if err != nil || bad.Reason != nightcrier.Malformed || bad.Cluster != "prod" {
		t.Errorf("decision %+v, %v", bad, err)
	}
	if ev, err := s.Event(t.Context(), bad.EventID); err != nil || ev.IncidentID != "" {
		t.Errorf("a malformed event claims incident %q, %v", ev.IncidentID, err)
	}
	d.IncidentID = "../../etc"
	if _, err := in.Deliver(t.Context(), d); nightcrier.CodeOf(err) != nightcrier.Invalid {
		t.Errorf("a path for an id: %v", err)
	}
}

// Hostile payloads, delivered at once from many sides, are all recorded and hurt
// nothing.
func TestHostileDeliveries(t *testing.T) {
	t.Parallel()
	in, s := newReal(t)
	hostile := [][]byte{
		nil, []byte("\x00"), []byte("{}"), []byte("[]"), []byte("null"), []byte(`{"data":{"resource":{}}}`),
		fault("CrashLoop", "critical", "Pod", "shop", "$(reboot)"),
		fault("CrashLoop", "critical", "Pod", "../..", "web-0"),
		fault("CrashLoop", "critical", "", "shop", ""),
	}
	var wg sync.WaitGroup
	for i := range 4 * len(hostile) {
		wg.Go(func() {
			d, err := in.Deliver(t.Context(), nightcrier.Delivery{Source: "mcp", Cluster: fmt.Sprint("c", i%3), Raw: hostile[i%len(hostile)]})
			if err != nil || d.Outcome != nightcrier.Suppressed || d.Reason != nightcrier.Malformed {
				t.Errorf("%q: %s %s, %v", hostile[i%len(hostile)], d.Outcome, d.Reason, err)
			}
		})
	}
	wg.Wait()
	n, err := s.Counts(t.Context())
	if err != nil || n.Suppressed[nightcrier.Malformed] != 4*len(hostile) || n.Queued != 0 {
		t.Errorf("counts %+v, %v", n, err)
	}
}

func FuzzOwnerByName(f *testing.F) {
	for _, name := range []string{"cart-7d9f8b6c5d-x2x9z", "web-0", "-", "--", "backup-28391020-abcde"} {
		f.Add("Pod", name)
	}
	f.Fuzz(func(t *testing.T, kind, name string) {
		got := OwnerByName(nightcrier.Resource{Kind: kind, Name: name, Namespace: "n"})
		if name != "" && got.Name == "" || got.Namespace != "n" || len(got.Name) > len(name) || name[:len(got.Name)] != got.Name {
			t.Errorf("%s %q has owner %+v", kind, name, got)
		}
	})
}

// What a sender says is one event stays one, however often it is delivered; what
// it could not read is kept with its reason.
func TestDeliveredAgain(t *testing.T) {
	t.Parallel()
	in, s := newReal(t)
	id := nightcrier.NewID()
	d := nightcrier.Delivery{Source: "webhook", Cluster: "prod", EventID: id, Raw: []byte(`{"alerts":[]}`),
		Reading: fault("CrashLoop", "critical", "Deployment", "shop", "cart")}
	var last store.Decision
	for range 20 {
		dec, err := in.Deliver(t.Context(), d)
		if err != nil {
			t.Fatal(err)
		}
		last = dec
	}
	if ev, err := s.Event(t.Context(), id); err != nil || ev.Repeats != 19 || !last.Repeated || last.Incident.EventCount != 20 {
		t.Errorf("%+v, %+v, %v", ev, last, err)
	}
	broken := nightcrier.Delivery{Source: "webhook", Cluster: "prod", Raw: fault("CrashLoop", "critical", "Deployment", "shop", "cart"),
		Reason: nightcrier.Malformed, Detail: "no alert"}
	if dec, err := in.Deliver(t.Context(), broken); err != nil || dec.Reason != nightcrier.Malformed || dec.Detail != "no alert" {
		t.Errorf("%+v, %v", dec, err)
	}
	if _, err := in.Deliver(t.Context(), nightcrier.Delivery{EventID: "../x", Raw: d.Raw}); nightcrier.CodeOf(err) != nightcrier.Invalid {
		t.Errorf("an id that is none: %v", err)
	}
}
