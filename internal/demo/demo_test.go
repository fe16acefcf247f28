package demo

import (
	"encoding/json"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/dialect"
)

func TestScenariosParseAndAreRecent(t *testing.T) {
	now := time.Now()
	d, err := Load(now)
	if err != nil {
		t.Fatal(err)
	}
	if len(d.Scenarios) < 8 || len(d.Clusters()) < 3 {
		t.Fatalf("%d scenarios from %d clusters", len(d.Scenarios), len(d.Clusters()))
	}
	dialects := map[string]bool{}
	for _, s := range d.Scenarios {
		ev, err := dialect.Parse(s.Notification)
		if err != nil {
			t.Errorf("%s: %v", s.Name, err)
			continue
		}
		dialects[ev.Dialect] = true
		if age := now.Sub(ev.OccurredAt); age < 0 || age > 10*time.Minute {
			t.Errorf("%s happened %s ago; the demo shows faults of this moment", s.Name, age)
		}
	}
	if len(dialects) < 4 {
		t.Errorf("the scenarios show the dialects %v; all four are wanted", dialects)
	}
}

func TestClusterAnswersAsAnAPIServer(t *testing.T) {
	d, err := Load(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	c, ctx := d.Cluster("demo-east"), t.Context()
	pod := nightcrier.Resource{Kind: "Pod", Namespace: "shop", Name: "cart-6d9f8b7c5d-x2k9q"}
	owner, err := c.Owner(ctx, pod)
	if err != nil || owner.Kind != "Deployment" || owner.Name != "cart" {
		t.Errorf("owner is %v, %v", owner, err)
	}
	if _, err := c.Owner(ctx, nightcrier.Resource{Kind: "Pod", Namespace: "shop", Name: "gone"}); nightcrier.CodeOf(err) != nightcrier.NotFound {
		t.Errorf("the owner of a missing Pod: %v", err)
	}
	for selector, want := range map[string]int{"app=cart": 1, "app=nobody": 0, "": 1} {
		raw, err := c.List(ctx, "Pod", "shop", selector, "", 0)
		if err != nil {
			t.Fatal(err)
		}
		var list struct{ Items []json.RawMessage }
		if err := json.Unmarshal(raw, &list); err != nil || len(list.Items) != want {
			t.Errorf("%q selects %d Pods, %v; want %d", selector, len(list.Items), err, want)
		}
	}
	log, err := c.Logs(ctx, "shop", pod.Name, "app", true, 1, 0)
	if err != nil || len(log) == 0 || log[len(log)-1] != '\n' {
		t.Errorf("the last line of the log is %q, %v", log, err)
	}
	if _, err := c.Logs(ctx, "shop", pod.Name, "nobody", true, 1, 0); nightcrier.CodeOf(err) != nightcrier.NotFound {
		t.Errorf("the log of a container that is not there: %v", err)
	}
}
