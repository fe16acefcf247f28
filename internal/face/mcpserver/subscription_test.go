package mcpserver_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"nightcrier.dev/nightcrier/internal/face/mcpserver"
	"nightcrier.dev/nightcrier/internal/test/kubetest"
)

// quick has a server notice everything at once.
func quick(f *fake) mcpserver.Config {
	cfg := config(f.cluster("prod"))
	cfg.Limits.Look, cfg.Limits.Linger = 100*time.Millisecond, 20*time.Millisecond
	return cfg
}

func TestSnapshotThenChanges(t *testing.T) {
	f := newFake()
	f.listed = []string{crashing("old")}
	url, _ := serve(t, quick(f))
	first := connect(t, url, nil)
	first.level(t, "warning")
	first.subscribe(t, map[string]any{"mode": "faults"})
	first.next(t, named("old"))
	f.push(t, "new")
	first.next(t, named("new"))
	second := connect(t, url, nil) // comes to a watch that runs
	second.level(t, "warning")
	second.subscribe(t, map[string]any{"mode": "faults"})
	all := func(notification) bool { return true }
	got := []string{second.next(t, all).Resource.Name, second.next(t, all).Resource.Name}
	slices.Sort(got)
	if !slices.Equal(got, []string{"new", "old"}) {
		t.Errorf("the snapshot was %v", got)
	}
}

func TestResourceFaultsMode(t *testing.T) {
	f := newFake()
	f.listed = []string{crashing("old")}
	url, _ := serve(t, quick(f))
	c := connect(t, url, nil)
	c.level(t, "warning")
	c.subscribe(t, map[string]any{"mode": "resource-faults"})
	n := c.next(t, named("old"))
	if n.logger != "kubernetes/resource-faults" || n.FaultID != "" || n.Condition != "" || n.Severity != "critical" || strings.Contains(n.raw, "owner") {
		t.Errorf("%s %s", n.logger, n.raw)
	}
}

func TestEventsMode(t *testing.T) {
	f := newFake()
	url, _ := serve(t, quick(f))
	c := connect(t, url, nil)
	c.level(t, "info")
	id := c.subscribe(t, map[string]any{"type": "Warning"}) // events is the default
	f.send(t, f.events, event("Pulled", "Normal"))
	f.send(t, f.events, event("BackOff", "Warning"))
	n := c.next(t, func(notification) bool { return true })
	if n.Event == nil || n.Event.Reason != "BackOff" || n.Event.InvolvedObject.Name != "cart" || n.SubscriptionID != id || n.logger != "kubernetes/events" {
		t.Errorf("%s", n.raw)
	}
}

// Until the client has said what it wants to hear the protocol drops all
// messages; here they wait.
func TestNotificationsWaitForTheLevel(t *testing.T) {
	f := newFake()
	f.listed = []string{crashing("old")}
	url, _ := serve(t, quick(f))
	c := connect(t, url, nil)
	text := c.must(t, "events_subscribe", map[string]any{"mode": "faults"})
	if !strings.Contains(text, "logging/setLevel") {
		t.Errorf("the client is not told what to do: %s", text)
	}
	f.push(t, "new")
	c.level(t, "warning")
	c.next(t, named("old"))
	c.next(t, named("new"))
	c.level(t, "error")
	f.push(t, "unheard")
	c.settle(t)
	c.level(t, "warning")
	f.push(t, "heard")
	if n := c.next(t, func(n notification) bool { return n.Resource.Name != "" }); n.Resource.Name != "heard" {
		t.Errorf("%s came below the level", n.Resource.Name)
	}
}

// settle gives the sender time to send, or hold back, what was queued.
func (c *client) settle(t *testing.T) {
	t.Helper()
	for range 50 { // each a round trip, in which the sender has long had its turn
		c.must(t, "events_list_subscriptions", nil)
	}
}

func TestLabelSelector(t *testing.T) {
	f := newFake()
	f.labels = map[string]string{"/api/v1/namespaces/shop/pods/mine": `{"team":"a"}`, "/api/v1/namespaces/shop/pods/theirs": `{"team":"b"}`}
	url, _ := serve(t, quick(f))
	c := connect(t, url, nil)
	c.level(t, "warning")
	c.subscribe(t, map[string]any{"mode": "faults", "labelSelector": "team=a"})
	for _, name := range []string{"theirs", "mine", "unreadable"} {
		f.push(t, name)
	}
	if n := c.next(t, func(notification) bool { return true }); n.Resource.Name != "mine" {
		t.Errorf("%s came", n.Resource.Name)
	}
	c.next(t, named("unreadable")) // is kept from nobody
}

// The watch is one for all, begins with the first subscription, and ends after
// the last, however that ended.
func TestNothingLeaks(t *testing.T) {
	f := newFake()
	url, _ := serve(t, quick(f))
	a, b := connect(t, url, nil), connect(t, url, nil)
	id := a.subscribe(t, map[string]any{"mode": "faults"})
	f.await(t, func(n int) bool { return n > 0 })
	all := 0
	f.await(t, func(n int) bool { all = n; return n >= 12 }) // the kinds that are watched
	for range 5 {
		b.subscribe(t, map[string]any{"mode": "faults"})
	}
	f.await(t, func(n int) bool { return n == all })
	a.must(t, "events_unsubscribe", map[string]any{"subscriptionId": id})
	f.await(t, func(n int) bool { return n == all })
	if err := b.Close(); err != nil { // DELETE
		t.Fatal(err)
	}
	f.await(t, func(n int) bool { return n == 0 })
	a.subscribe(t, map[string]any{"mode": "faults"})
	f.await(t, func(n int) bool { return n == all })
}

// Clients that come and go leave nothing behind.
func TestChurnLeavesNothing(t *testing.T) {
	f := newFake()
	cfg := quick(f)
	cfg.Limits.Subscriptions, cfg.Limits.Sessions = 8, 8
	url, _ := serve(t, cfg)
	stays := connect(t, url, nil)
	stays.subscribe(t, map[string]any{"mode": "faults"})
	for i := range 100 {
		c := connect(t, url, nil)
		for range 5 {
			c.subscribe(t, map[string]any{"mode": []string{"faults", "events", "resource-faults"}[i%3]})
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		stays.awaitRoom(t)
	}
	f.await(t, func(n int) bool { return n == 12 })
}

// awaitRoom waits until what another session held is free.
func (c *client) awaitRoom(t *testing.T) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		var ids []string
		for range 7 {
			text, bad := c.call(t, "events_subscribe", map[string]any{"mode": "faults"})
			if bad {
				break
			}
			var answer struct {
				ID string `json:"subscriptionId"`
			}
			embedded(t, text, &answer)
			ids = append(ids, answer.ID)
		}
		for _, id := range ids {
			c.must(t, "events_unsubscribe", map[string]any{"subscriptionId": id})
		}
		if len(ids) == 7 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("what a session held is not freed")
		}
	}
}

func TestSubscriptionsAreBounded(t *testing.T) {
	f := newFake()
	cfg := quick(f)
	cfg.Limits.Subscriptions, cfg.Limits.SessionSubscriptions = 5, 3
	url, _ := serve(t, cfg)
	a, b := connect(t, url, nil), connect(t, url, nil)
	var ids []string
	for range 3 {
		ids = append(ids, a.subscribe(t, map[string]any{"mode": "faults"}))
	}
	if text, bad := a.call(t, "events_subscribe", map[string]any{"mode": "faults"}); !bad || !strings.Contains(text, "this session has 3 subscriptions") {
		t.Errorf("a fourth of one session: %t %s", bad, text)
	}
	for range 2 {
		b.subscribe(t, map[string]any{"mode": "faults"})
	}
	if text, bad := b.call(t, "events_subscribe", map[string]any{"mode": "faults"}); !bad || !strings.Contains(text, "the server has 5 subscriptions") {
		t.Errorf("a sixth: %t %s", bad, text)
	}
	b.must(t, "events_unsubscribe", map[string]any{"subscriptionId": ids[0]}) // not b's: nothing happens
	if text := a.must(t, "events_list_subscriptions", nil); !strings.Contains(text, `"total": 3`) {
		t.Errorf("somebody else's subscription was ended:\n%s", text)
	}
	a.must(t, "events_unsubscribe", map[string]any{"subscriptionId": ids[0]})
	b.subscribe(t, map[string]any{"mode": "faults"})
}

func TestSubscribeNeverHangs(t *testing.T) {
	f := newFake()
	f.down = errors.New("connection refused")
	cfg := quick(f)
	cfg.Limits.Look = 5 * time.Second
	url, _ := serve(t, cfg)
	c := connect(t, url, nil)
	text, bad := c.call(t, "events_subscribe", map[string]any{"mode": "faults"})
	if !bad || !strings.Contains(text, "cluster prod cannot be watched") {
		t.Errorf("a cluster that is down: %t %s", bad, text)
	}
	if text := c.must(t, "events_list_subscriptions", nil); !strings.Contains(text, `"total": 0`) {
		t.Errorf("what failed is listed:\n%s", text)
	}
	silent := newFake()
	silent.silent = true
	url, _ = serve(t, quick(silent))
	c = connect(t, url, nil)
	c.must(t, "events_subscribe", map[string]any{"mode": "faults"}) // nobody knows yet
	c.must(t, "events_list_subscriptions", nil)                     // and nobody else waits
}

func TestDownIsTold(t *testing.T) {
	f := newFake()
	cfg := quick(f)
	url, _ := serve(t, cfg)
	c := connect(t, url, nil)
	c.level(t, "info")
	faults := c.subscribe(t, map[string]any{"mode": "faults"})
	events := c.subscribe(t, map[string]any{"mode": "events"})
	f.await(t, func(n int) bool { return n > 12 })
	f.set(func(f *fake) { f.down = errors.New("connection refused") })
	told := map[string]bool{}
	for len(told) < 2 {
		n := c.next(t, func(n notification) bool { return n.Error != "" })
		if !n.Degraded || n.logger != "kubernetes/subscription_error" || n.Cluster != "prod" {
			t.Errorf("%s", n.raw)
		}
		told[n.SubscriptionID] = true
	}
	if !told[faults] || !told[events] {
		t.Errorf("told %v", told)
	}
	if text := c.must(t, "events_list_subscriptions", nil); strings.Count(text, `"degraded": true`) != 2 {
		t.Errorf("list:\n%s", text)
	}
}

func TestContextPicksTheCluster(t *testing.T) {
	prod, dev := newFake(), newFake()
	dev.listed = []string{crashing("there")}
	url, _ := serve(t, config(prod.cluster("prod"), dev.cluster("dev")))
	c := connect(t, url, nil)
	c.level(t, "warning")
	text := c.must(t, "events_subscribe", map[string]any{"mode": "faults", "context": "dev"})
	if !strings.Contains(text, `"cluster": "dev"`) {
		t.Errorf("%s", text)
	}
	if n := c.next(t, named("there")); n.Cluster != "dev" {
		t.Errorf("%s", n.raw)
	}
	if text, bad := c.call(t, "events_subscribe", map[string]any{"context": "nowhere"}); !bad || !strings.Contains(text, "one of prod, dev") {
		t.Errorf("%t %s", bad, text)
	}
	tools, err := c.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range tools.Tools {
		schema := fmt.Sprint(tool.InputSchema)
		if want := strings.HasPrefix(tool.Name, "kubernetes_") || tool.Name == "events_subscribe" || tool.Name == "events_list"; want != strings.Contains(schema, "context") {
			t.Errorf("%s: %s", tool.Name, schema)
		}
		if !tool.Annotations.ReadOnlyHint || tool.Annotations.DestructiveHint == nil || *tool.Annotations.DestructiveHint {
			t.Errorf("%s is not marked as read-only", tool.Name)
		}
	}
}

func TestEventsListOfARealServer(t *testing.T) {
	s := kubetest.Start(t)
	ns := s.Namespace(t)
	url, _ := serve(t, config(cluster(t, "prod", s.Kubeconfig)))
	c := connect(t, url, nil)
	if text := c.must(t, "events_list", map[string]any{"namespace": ns}); text != "# No events found" {
		t.Errorf("%s", text)
	}
	s.Warn(t, s.Pod(t, ns, "cart", nil), "BackOff", "Back-off \x1b[2Jrestarting")
	text := c.must(t, "events_list", map[string]any{"namespace": ns})
	for _, want := range []string{"# The following events (YAML format) were found:\n- InvolvedObject:\n    Kind: Pod\n    Name: cart\n    apiVersion: v1\n  Message: ", "  Reason: BackOff\n", "  Type: Warning\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in:\n%s", want, text)
		}
	}
	if strings.Contains(text, "\x1b") {
		t.Errorf("it steers a terminal: %q", text)
	}
}
