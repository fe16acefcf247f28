package detect_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/ingest/detect"
	"nightcrier.dev/nightcrier/internal/ingest/intake"
)

// looping is a Pod of a Deployment in a crash loop.
func looping(name, deployment, message string) []byte {
	raw, _ := json.Marshal(map[string]any{
		"metadata": map[string]any{
			"name": name, "namespace": "shop", "uid": "uid-" + name, "labels": map[string]any{"pod-template-hash": "7d4b9c6f58"},
			"ownerReferences": []any{map[string]any{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": deployment + "-7d4b9c6f58", "controller": true}},
		},
		"status": map[string]any{"phase": "Running", "startTime": noon.Add(-time.Hour), "containerStatuses": []any{map[string]any{
			"name": "app", "restartCount": 7, "state": map[string]any{"waiting": map[string]any{"reason": "CrashLoopBackOff"}},
			"lastState": map[string]any{"terminated": map[string]any{"exitCode": 1, "reason": "Error", "message": message, "finishedAt": noon.Add(-time.Minute)}},
		}}},
	})
	return raw
}

// What a fault says of itself is what the rest of the product reads.
func TestPayloadIsReadBack(t *testing.T) {
	c := &clock{noon}
	d := newDetector(c)
	edges := d.Observe(detect.Pod, looping("web-7d4b9c6f58-x2k4p", "web", "no\u202e such\x1b[31m file\n\"quoted\""))
	edges = append(edges, d.API(false, "")...)
	edges = append(edges, pass(d, c, noon.Add(time.Minute))...)
	edges = append(edges, d.Delete(detect.Pod, looping("web-7d4b9c6f58-x2k4p", "web", ""))...)
	edges = append(edges, pass(d, c, noon.Add(time.Hour))...)
	if len(edges) != 3 || !edges[2].Cleared {
		t.Fatalf("edges: %+v", edges)
	}
	for _, f := range edges {
		checkEdge(t, f)
		if guess := intake.OwnerByName(f.Resource); guess.String() != f.Owner.String() {
			t.Errorf("%s is %s by its name, %s by its owner", f.Resource, guess, f.Owner)
		}
	}
	if edges[0].ID("prod") != edges[2].ID("prod") {
		t.Error("the end of the fault has another id than its beginning")
	}
	if strings.ContainsAny(edges[0].Context, "\u202e\x1b\n") {
		t.Errorf("context %q", edges[0].Context)
	}
}

// Fifty Pods of one Deployment are one edge, and one end.
func TestManyPodsAreOneFault(t *testing.T) {
	c := &clock{noon}
	d := newDetector(c)
	var edges []detect.Fault
	name := func(i int) string { return fmt.Sprintf("web-7d4b9c6f58-%05d", i) }
	for i := range 50 {
		edges = append(edges, d.Observe(detect.Pod, looping(name(i), "web", "boom"))...)
	}
	for i := range 50 {
		edges = append(edges, d.Delete(detect.Pod, looping(name(i), "web", "boom"))...)
	}
	edges = append(edges, pass(d, c, noon.Add(2*time.Hour))...)
	if len(edges) != 2 || edges[0].Cleared || !edges[1].Cleared || !strings.Contains(edges[1].Context, "seen in 50 objects") {
		t.Errorf("edges: %+v", edges)
	}
	if s := d.Stats(); s.Objects+s.Active+s.Pending != 0 || s.Bytes > 1000 {
		t.Errorf("it has kept %+v", s)
	}
}

// A node that comes and goes for three hours is told of a few times, and in the
// end it is over.
func TestFlapping(t *testing.T) {
	c := &clock{noon}
	d := newDetector(c)
	var edges []detect.Fault
	turn := func(ready string) {
		edges = append(edges, d.Observe(detect.Node, fmt.Appendf(nil, `{"metadata":{"name":"n1"},"status":{"conditions":[{"type":"Ready","status":"%s","lastTransitionTime":"%s"}]}}`,
			ready, c.now.Format(time.RFC3339)))...)
	}
	for range 36 {
		turn("False")
		edges = append(edges, pass(d, c, c.now.Add(90*time.Second))...)
		turn("True")
		edges = append(edges, pass(d, c, c.now.Add(210*time.Second))...)
	}
	edges = append(edges, pass(d, c, c.now.Add(2*time.Hour))...)
	if len(edges) != 4 || !edges[3].Cleared || d.Stats().Flaps != 35 {
		t.Errorf("%d flaps, %d edges: %+v", d.Stats().Flaps, len(edges), edges)
	}
}

// Whatever the world does, an owner that is deleted is told once.
func TestDeletedWorkload(t *testing.T) {
	c := &clock{noon}
	d := newDetector(c)
	deployment := []byte(`{"metadata":{"name":"web","namespace":"shop","uid":"d1"},"spec":{"replicas":1}}`)
	d.Observe(detect.Deployment, deployment)
	first := d.Observe(detect.Pod, looping("web-7d4b9c6f58-aaaaa", "web", ""))
	over := d.Delete(detect.Deployment, deployment)
	late := d.Observe(detect.Pod, looping("web-7d4b9c6f58-bbbbb", "web", "")) // it goes a little later
	if len(first) != 1 || len(over) != 1 || !over[0].Cleared || len(late) != 0 {
		t.Fatalf("%+v, %+v, %+v", first, over, late)
	}
	for _, pod := range []string{"aaaaa", "bbbbb"} {
		late = append(late, d.Delete(detect.Pod, looping("web-7d4b9c6f58-"+pod, "web", ""))...)
	}
	d.Observe(detect.Deployment, deployment) // and comes back
	again := d.Observe(detect.Pod, looping("web-7d4b9c6f58-ccccc", "web", ""))
	if len(late) != 0 || len(again) != 1 {
		t.Errorf("%+v, %+v", late, again)
	}
}

// Who cannot see must not say that it is over, nor that it has begun.
func TestBlind(t *testing.T) {
	c := &clock{noon}
	d := newDetector(c)
	waiting := []byte(`{"metadata":{"name":"slow-0","namespace":"shop"},"status":{"conditions":[{"type":"PodScheduled","status":"False","reason":"Unschedulable","lastTransitionTime":"2026-03-02T12:00:00Z"}]}}`)
	oom := []byte(`{"metadata":{"name":"web-0","namespace":"shop"},"status":{"phase":"Running","startTime":"2026-03-02T10:00:00Z","containerStatuses":[{"name":"app","ready":true,"restartCount":1,"state":{"running":{}},"lastState":{"terminated":{"exitCode":137,"reason":"OOMKilled","finishedAt":"2026-03-02T12:00:00Z"}}}]}}`)
	d.Observe(detect.Pod, waiting)
	if edges := d.Observe(detect.Pod, oom); len(edges) != 1 {
		t.Fatalf("edges: %+v", edges)
	}
	d.Blind(detect.Pod, "", true)
	if edges := pass(d, c, noon.Add(time.Hour)); len(edges) != 0 {
		t.Fatalf("blind, it tells %+v", edges)
	}
	d.Blind(detect.Pod, "", false)
	d.Observe(detect.Pod, bytes.Replace(waiting, []byte("False"), []byte("True"), 1)) // missed meanwhile
	if edges := pass(d, c, c.now.Add(time.Minute)); len(edges) != 0 {
		t.Fatalf("just sighted, it tells %+v", edges)
	}
	if edges := pass(d, c, c.now.Add(time.Hour)); len(edges) != 1 || !edges[0].Cleared {
		t.Errorf("edges: %+v", edges)
	}
}

// Namespaces that are looked at one by one have each a list and an end of its own:
// where one cannot be seen, nothing is concluded about it, and all about the other.
func TestNamespacesOneByOne(t *testing.T) {
	c := &clock{noon}
	d := newDetector(c)
	shop := looping("web-7d4b9c6f58-aaaaa", "web", "")
	bank := bytes.ReplaceAll(shop, []byte(`"shop"`), []byte(`"bank"`))
	list := func(objects map[string][]byte) (edges []detect.Fault) {
		for ns, object := range objects {
			d.Begin(detect.Pod, ns)
			if object != nil {
				edges = append(edges, d.Observe(detect.Pod, object)...)
			}
			edges = append(edges, d.End(detect.Pod, ns)...)
		}
		return edges
	}
	edges := append(list(map[string][]byte{"shop": shop, "bank": bank}), pass(d, c, noon.Add(time.Minute))...)
	if len(edges) != 2 || d.Stats().Objects != 2 {
		t.Fatalf("edges: %+v, %+v", edges, d.Stats())
	}
	list(map[string][]byte{"bank": bank})
	if d.Stats().Objects != 2 {
		t.Error("the list of one namespace forgets what is in the other")
	}
	d.Blind(detect.Pod, "bank", true)
	list(map[string][]byte{"shop": nil})
	edges = pass(d, c, noon.Add(2*time.Hour))
	if len(edges) != 1 || !edges[0].Cleared || edges[0].Owner.Namespace != "shop" {
		t.Fatalf("edges: %+v", edges)
	}
	d.Begin(detect.Pod, "bank")
	d.Blind(detect.Pod, "bank", false)
	if edges = pass(d, c, noon.Add(4*time.Hour)); len(edges) != 0 {
		t.Fatalf("in the middle of a list: %+v", edges)
	}
	d.End(detect.Pod, "bank")
	if edges = pass(d, c, noon.Add(6*time.Hour)); len(edges) != 1 || !edges[0].Cleared || edges[0].Owner.Namespace != "bank" {
		t.Errorf("edges: %+v", edges)
	}
}

func TestKindsOfNamespaces(t *testing.T) {
	places := map[string]int{}
	for _, w := range detect.Kinds("shop", "bank") {
		places[w.Namespace]++
	}
	if len(places) != 3 || places[""] != 3 || places["shop"] != len(detect.Kinds())-3 || places["shop"] != places["bank"] {
		t.Errorf("%v", places)
	}
}

// After a restart, what was told is not told again, and what has healed
// meanwhile is over.
func TestExpect(t *testing.T) {
	c := &clock{noon}
	d := newDetector(c)
	for _, k := range detect.Kinds() {
		d.Begin(k.Kind, "")
	}
	for _, name := range []string{"web", "api"} {
		d.Expect(detect.Fault{Type: "CrashLoop", Severity: nightcrier.Critical, OccurredAt: noon.Add(-time.Hour),
			Resource: nightcrier.Resource{Kind: "Pod", Namespace: "shop", Name: name + "-7d4b9c6f58-aaaaa"},
			Owner:    nightcrier.Resource{Kind: "Deployment", Namespace: "shop", Name: name}})
	}
	edges := pass(d, c, noon.Add(20*time.Minute)) // a slow list
	edges = append(edges, d.Observe(detect.Pod, bytes.ReplaceAll(looping("web-7d4b9c6f58-aaaaa", "web", ""), []byte("11:59"), []byte("12:19")))...)
	for _, k := range detect.Kinds() {
		edges = append(edges, d.End(k.Kind, "")...)
	}
	if len(edges) != 0 {
		t.Errorf("told again: %+v", edges)
	}
	edges = pass(d, c, noon.Add(30*time.Minute))
	if len(edges) != 1 || !edges[0].Cleared || edges[0].Owner.Name != "api" {
		t.Errorf("edges: %+v", edges)
	}
}

// A secret is masked before what is told is cut, and on the way to every edge.
func TestMask(t *testing.T) {
	c := &clock{noon}
	secret := strings.Repeat("hunter2-", 8)
	d := detect.New(detect.Config{Now: c.Now, Mask: func(s string) string { return strings.ReplaceAll(s, secret, "*") }})
	for pad := 300; pad < 520; pad += 7 {
		name := fmt.Sprintf("web-%d", pad)
		edges := d.Observe(detect.Pod, looping(name, name, strings.Repeat("x", pad)+" "+secret))
		edges = append(edges, d.Observe(detect.Event, fmt.Appendf(nil, `{"reason":"SystemOOM","message":"%s %s","involvedObject":{"kind":"Node","name":"%s"},"lastTimestamp":"2026-03-02T12:00:00Z"}`,
			strings.Repeat("x", pad), secret, name))...)
		if len(edges) != 2 || strings.Contains(edges[0].Context+edges[1].Context, "hunter2") {
			t.Fatalf("edges: %+v", edges)
		}
	}
}

// With less patience everything comes sooner.
func TestPatience(t *testing.T) {
	c := &clock{noon}
	d := detect.New(detect.Config{Now: c.Now, Patience: 0.1})
	d.Observe(detect.Node, []byte(`{"metadata":{"name":"n1"},"status":{"conditions":[{"type":"Ready","status":"False","lastTransitionTime":"2026-03-02T12:00:00Z"}]}}`))
	if got := d.Next(); !got.Equal(noon.Add(6 * time.Second)) {
		t.Errorf("a tick is due at %s", got)
	}
	if edges := pass(d, c, noon.Add(6*time.Second)); len(edges) != 1 {
		t.Errorf("edges: %+v", edges)
	}
}

// Objects that no cluster has must not be believed, and must not cost.
func TestHostileObjects(t *testing.T) {
	huge := strings.Repeat("A", 1<<20)
	var many []string
	for i := range 20_000 {
		many = append(many, fmt.Sprintf(`{"name":"c%d","restartCount":9,"state":{"waiting":{"reason":"CrashLoopBackOff"}}}`, i))
	}
	cases := []struct {
		name, object string
		kind         detect.Kind
		edges        int
	}{
		{"no JSON", `{"metadata":`, detect.Pod, 0},
		{"a list", `[]`, detect.Pod, 0},
		{"no name", `{"metadata":{},"status":{"phase":"Failed","reason":"Evicted"}}`, detect.Pod, 0},
		{"a path for a name", `{"metadata":{"name":"../../etc","namespace":"x"},"status":{"phase":"Failed","reason":"Evicted"}}`, detect.Pod, 0},
		{"a huge name", `{"metadata":{"name":"` + huge + `"},"status":{"phase":"Failed","reason":"Evicted"}}`, detect.Pod, 0},
		{"a huge message", `{"metadata":{"name":"a"},"status":{"phase":"Failed","reason":"Evicted","message":"` + huge + `"}}`, detect.Pod, 1},
		{"wrong types", `{"metadata":{"name":"b","labels":7,"ownerReferences":"x"},"status":{"phase":"Failed","reason":"Evicted","startTime":5,"containerStatuses":{}}}`, detect.Pod, 1},
		{"negative counts", `{"metadata":{"name":"c"},"status":{"containerStatuses":[{"name":"app","restartCount":-9223372036854775808,"state":{"waiting":{"reason":"CrashLoopBackOff"}}}]}}`, detect.Pod, 0},
		{"times ahead", `{"metadata":{"name":"d","creationTimestamp":"9999-12-31T23:59:59Z"},"status":{"startTime":"9999-12-31T23:59:59Z","containerStatuses":[{"name":"app","restartCount":3,"state":{"running":{}},"lastState":{"terminated":{"exitCode":1,"finishedAt":"9999-12-31T23:59:59Z"}}}]}}`, detect.Pod, 1},
		{"times long ago", `{"metadata":{"name":"e"},"status":{"containerStatuses":[{"name":"app","restartCount":3,"state":{"running":{}},"lastState":{"terminated":{"exitCode":1,"finishedAt":"0001-01-02T00:00:00Z"}}}]}}`, detect.Pod, 0},
		{"many containers", `{"metadata":{"name":"f"},"status":{"phase":"Running","containerStatuses":[` + strings.Join(many, ",") + `]}}`, detect.Pod, 1},
		{"an owner that is a path", `{"metadata":{"name":"g","ownerReferences":[{"kind":"../x","name":"..","controller":true}]},"status":{"phase":"Failed","reason":"Evicted"}}`, detect.Pod, 1},
		{"a schedule that panics", `{"metadata":{"name":"h"},"spec":{"schedule":"TZ=0"},"status":{"lastScheduleTime":"2020-01-01T00:00:00Z"}}`, detect.CronJob, 0},
		{"a zone that is a path", `{"metadata":{"name":"i"},"spec":{"schedule":"* * * * *","timeZone":"../../etc/passwd"},"status":{"lastScheduleTime":"2020-01-01T00:00:00Z"}}`, detect.CronJob, 0},
		{"a day that never comes", `{"metadata":{"name":"j"},"spec":{"schedule":"0 0 31 2 *"},"status":{"lastScheduleTime":"2020-01-01T00:00:00Z"}}`, detect.CronJob, 0},
		{"an Event of nothing", `{"reason":"FailedMount","count":9,"lastTimestamp":"2026-03-02T12:00:00Z"}`, detect.Event, 0},
		{"an Event of a path", `{"reason":"SystemOOM","involvedObject":{"kind":"Node","name":"../x"},"lastTimestamp":"2026-03-02T12:00:00Z"}`, detect.Event, 0},
		{"an Event without end", `{"reason":"FailedMount","involvedObject":{"kind":"Pod","name":"k"},"count":9223372036854775807,"firstTimestamp":"2026-03-02T11:55:00Z","lastTimestamp":"2099-03-02T12:00:00Z"}`, detect.Event, 1},
		{"no kind of ours", `{"metadata":{"name":"a"}}`, "Secret", 0},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			d := newDetector(&clock{noon})
			edges := d.Observe(c.kind, []byte(c.object))
			for _, f := range edges {
				checkEdge(t, f)
			}
			if len(edges) != c.edges {
				t.Errorf("edges: %+v", edges)
			}
			if s := d.Stats(); s.Bytes > 4096 {
				t.Errorf("it keeps %+v", s)
			}
		})
	}
}

// A cluster in which everything is broken has its bounds.
func TestBounds(t *testing.T) {
	d := newDetector(&clock{noon})
	event := `{"metadata":{"uid":"e%d"},"reason":"FailedMount","involvedObject":{"kind":"Pod","namespace":"x","name":"p%d"},"count":1,"lastTimestamp":"2026-03-02T12:00:00Z"}`
	for i := range 20_000 {
		d.Observe(detect.Event, fmt.Appendf(nil, event, i, i))
	}
	if s := d.Stats(); s.Dropped == 0 || s.Bytes > 2<<20 {
		t.Errorf("it keeps %+v", s)
	}
	told := 0
	for i := range 60_000 {
		told += len(d.Observe(detect.Pod, fmt.Appendf(nil, `{"metadata":{"name":"p%d","namespace":"x"},"status":{"phase":"Failed","reason":"Evicted"}}`, i)))
	}
	if s := d.Stats(); told != 50_000 || s.Active != told {
		t.Errorf("%d faults of 60,000 are told, it keeps %+v", told, s)
	}
}

// Whatever comes, it neither panics nor tells what the rest cannot read.
func FuzzObserve(f *testing.F) {
	for i, k := range detect.Kinds() {
		f.Add(uint8(i), looping("web-7d4b9c6f58-aaaaa", "web", "x"), looping("web-7d4b9c6f58-aaaaa", "web", "y"))
		f.Add(uint8(i), []byte(`{"metadata":{"name":"`+strings.ToLower(string(k.Kind))+`"},"spec":{"replicas":3,"schedule":"* * * * *"},"status":{"conditions":[{"type":"Ready","status":"False"},{"type":"Available","status":"False"},{"type":"Failed","status":"True"}],"phase":"Failed","reason":"Evicted"}}`), []byte(`{}`))
	}
	f.Add(uint8(11), []byte(`{"reason":"FailedCreate","message":"failed calling webhook \"x\": Post \"https://a.b.svc:443/\"","involvedObject":{"kind":"ReplicaSet","name":"web-7d4b9c6f58","namespace":"x"},"count":9,"firstTimestamp":"2026-03-02T11:55:00Z","lastTimestamp":"2026-03-02T12:00:00Z"}`), []byte(`{}`))
	f.Fuzz(func(t *testing.T, kind uint8, one, two []byte) {
		kinds := detect.Kinds()
		k := kinds[int(kind)%len(kinds)].Kind
		c := &clock{noon}
		d := newDetector(c)
		d.Begin(k, "")
		edges := d.Observe(k, one)
		edges = append(edges, d.Observe(k, two)...)
		edges = append(edges, d.End(k, "")...)
		for range 100 {
			next := d.Next()
			if next.IsZero() || next.After(noon.Add(48*time.Hour)) {
				break
			}
			if next.Before(c.now) {
				t.Fatalf("a tick is due at %s, and it is %s", next, c.now)
			}
			c.now = next.Add(time.Nanosecond)
			edges = append(edges, d.Tick()...)
		}
		edges = append(edges, d.Delete(k, two)...)
		for _, f := range edges {
			checkEdge(t, f)
		}
	})
}
