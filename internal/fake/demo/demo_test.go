package demo_test

import (
	"testing"
	"time"

	"nightcrier.dev/nightcrier/internal/fake/demo"
	"nightcrier.dev/nightcrier/internal/ingest/dialect"
)

func TestScenariosParseAndAreRecent(t *testing.T) {
	now := time.Now()
	list, err := demo.Load(now)
	if err != nil {
		t.Fatal(err)
	}
	if len(list) < 12 {
		t.Fatalf("there are %d scenarios", len(list))
	}
	dialects, clusters := map[string]bool{}, map[string]bool{}
	for _, s := range list {
		if clusters[s.Cluster] || s.Cluster != s.Snapshot.Cluster || s.About == "" || len(s.Notifications) == 0 {
			t.Errorf("%s: %q of cluster %q with %d notifications", s.Name, s.About, s.Cluster, len(s.Notifications))
		}
		clusters[s.Cluster] = true
		if len(s.Snapshot.NotCaptured) > 0 {
			t.Errorf("%s is not whole: %v", s.Name, s.Snapshot.NotCaptured)
		}
		for _, n := range s.Notifications {
			ev, err := dialect.Parse(n)
			if err != nil {
				t.Errorf("%s: %v", s.Name, err)
				continue
			}
			dialects[ev.Dialect] = true
			if age := now.Sub(ev.OccurredAt); age < 0 || age > 10*time.Minute {
				t.Errorf("%s happened %s ago; the demo shows faults of this moment", s.Name, age)
			}
			if ev.Resource.Kind == "" {
				t.Errorf("%s is about nothing", s.Name)
			}
		}
	}
	if len(dialects) < 4 {
		t.Errorf("the scenarios show the dialects %v; all four are wanted", dialects)
	}
}
