package webhook

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/ingest/dialect"
)

// shop is a mapping that uses every expression.
func shop() Mapping {
	return Mapping{Name: "shop", Items: "body.list", When: "item.bad", Cluster: "item.cluster", Kind: "item.kind", Namespace: "item.ns", Object: "item.name",
		Type: "item.what", Severity: `item.?level.orValue("")`, Text: "item.text", Key: `item.?id.orValue("")`, Cleared: `item.?state.orValue("") == "over"`}
}

func reader(t testing.TB, m Mapping) func(string) batch {
	t.Helper()
	p, err := m.compileProgram()
	if err != nil {
		t.Fatal(err)
	}
	return func(payload string) batch {
		return p.readPayload(t.Context(), []byte(payload), map[string]bool{"prod": true})
	}
}

func TestMapping(t *testing.T) {
	t.Parallel()
	read := reader(t, shop())
	const item = `"bad":true,"cluster":"prod","ns":"shop","text":"it is slow","what":"Too slow!"`
	for name, c := range map[string]struct{ item, want, detail string }{
		"an object":             {`{` + item + `,"kind":"deployment","name":"cart","level":"P?"}`, "Too-slow of shop/Deployment/cart (warning)", ""},
		"a kind of its own":     {`{` + item + `,"kind":"Rollout","name":"cart","level":"fatal"}`, "Too-slow of shop/Rollout/cart (critical)", ""},
		"a Node has none":       {`{` + item + `,"kind":"Node","name":"worker-3"}`, "Too-slow of Node/worker-3 (warning)", ""},
		"no object":             {`{` + item + `,"kind":"","name":"","id":7}`, "Too-slow of shop/Alert/Too-slow-" + labelsHash(map[string]string{"shop": "7"})[:8] + " (warning)", ""},
		"over":                  {`{` + item + `,"kind":"Node","name":"worker-3","state":"over"}`, "Too-slow of Node/worker-3 (warning) cleared", ""},
		"not a fault":           {`{"bad":false}`, "not_a_fault", "when of webhook shop is false"},
		"a cluster of nowhere":  {`{` + strings.Replace(item, "prod", "elsewhere", 1) + `,"kind":"Node","name":"n"}`, "malformed", `"elsewhere", which is not configured`},
		"a missing field":       {`{"bad":true}`, "malformed", "no such key"},
		"a text for a truth":    {`{"bad":"yes"}`, "malformed", "when: it yields string instead of true or false"},
		"an item that is none":  {`7`, "malformed", "when: it cannot be evaluated"},
		"a name of a path":      {`{` + item + `,"kind":"Pod","name":"../x"}`, "malformed", "no Kubernetes name has"},
		"a name of markup":      {`{` + item + `,"kind":"<b>","name":"x"}`, "malformed", "no Kubernetes name has"},
		"a name that is a list": {`{` + item + `,"kind":"Pod","name":["x"]}`, "malformed", "object.name: it yields list instead of a text"},
		"a text without end":    {`{"bad":true,"cluster":"prod","ns":"","kind":"Node","name":"n","what":"x","text":"` + strings.Repeat("x", 70_000) + `"}`, "oversized", "text: it yields 70000 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			b := read(`{"list":[` + c.item + `]}`)
			if b.problem != nil || len(b.deliveries) != 1 {
				t.Fatalf("%+v", b)
			}
			d := b.deliveries[0]
			got, detail := string(d.Reason), d.Detail
			if d.Reason == "" {
				ev, err := dialect.Parse(d.Reading)
				got = ev.FaultType + " of " + ev.Resource.String() + " (" + ev.Severity.String() + ")"
				if ev.Cleared {
					got += " cleared"
				}
				if err != nil {
					got, detail = "malformed", err.Error()
				}
			}
			if got != c.want || !strings.Contains(detail, c.detail) {
				t.Errorf("%s: %s; want %s: %s", got, detail, c.want, c.detail)
			}
		})
	}
}

func TestMappingOfAWholePayload(t *testing.T) {
	t.Parallel()
	for payload, want := range map[string]string{"": "payload: ", `{"list":7}`: "items: it yields", `{}`: "no such key: list", `{"list":{"a":1}}`: "items: it yields map"} {
		b := reader(t, shop())(payload)
		if b.problem == nil || len(b.deliveries) != 1 || b.deliveries[0].Reason != nightcrier.Malformed || !strings.Contains(b.deliveries[0].Detail, want) {
			t.Errorf("%q: %+v, want %q", payload, b, want)
		}
	}
	b := reader(t, Mapping{Name: "plain", Cluster: `"prod"`})(`{"a": [1, 2]}`)
	if len(b.deliveries) != 1 || !bytes.Equal(b.deliveries[0].Raw, []byte(`{"a": [1, 2]}`)) || event(t, b.deliveries[0]).Resource.String() != "Alert/plain" {
		t.Errorf("%+v", b)
	}
	if b := reader(t, shop())(`{"list":[]}`); b.problem != nil || len(b.deliveries) != 0 {
		t.Errorf("nothing to report: %+v", b)
	}
}

// A key makes two payloads one event as long as the fault is there; each end of it
// is an event of its own.
func TestMappingIdentity(t *testing.T) {
	t.Parallel()
	read := reader(t, Mapping{Name: "k", Cluster: `"prod"`, Key: "body.id", Cleared: "body.over"})
	id := func(payload string) string { return read(payload).deliveries[0].EventID }
	if id(`{"id":1,"over":false,"at":1}`) != id(`{"id":1,"over":false,"at":2}`) {
		t.Error("one key, two events")
	}
	seen := map[string]bool{}
	for _, payload := range []string{`{"id":1,"over":false}`, `{"id":2,"over":false}`, `{"id":1,"over":true,"at":1}`, `{"id":1,"over":true,"at":2}`} {
		if seen[id(payload)] {
			t.Errorf("%s is one of the others", payload)
		}
		seen[id(payload)] = true
	}
}

func FuzzMapping(f *testing.F) {
	f.Add([]byte(`{"list":[{"bad":true,"cluster":"prod","ns":"shop","kind":"Pod","name":"a","what":"x","text":"y","id":1.5,"state":"over"}]}`))
	f.Add([]byte(`{"list":[{"bad":true,"cluster":"prod","kind":"","name":"","ns":"","what":"","text":null}]}`))
	f.Fuzz(func(t *testing.T, payload []byte) {
		b := reader(t, shop())(string(payload))
		if b.problem != nil && len(b.deliveries) != 1 {
			t.Fatalf("%+v", b)
		}
		for _, d := range b.deliveries {
			if !nightcrier.ValidID(d.EventID) || d.Reason == "" && (d.Reading == nil || d.Cluster != "prod") {
				t.Fatalf("%+v", d)
			}
		}
	})
}

// A payload whose items take too long is kept as one event, and its sender told.
func TestMappingTakesTooLong(t *testing.T) {
	t.Parallel()
	p, err := shop().compileProgram()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithDeadline(t.Context(), time.Now())
	defer cancel()
	b := p.readPayload(ctx, []byte(`{"list":[{"bad":false}]}`), nil)
	if nightcrier.CodeOf(b.problem) != nightcrier.Exhausted || len(b.deliveries) != 1 || b.deliveries[0].Reason != nightcrier.Oversized {
		t.Errorf("%+v", b)
	}
}
