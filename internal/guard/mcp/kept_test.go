package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/guard/toolserver"
	"nightcrier.dev/nightcrier/internal/record/replay/tape"
)

// memory keeps answers by name, and gives them again.
type memory struct {
	mu   sync.Mutex
	kept map[string][]line
}

type line struct {
	value []byte
	err   error
}

func (k *memory) keep(name string, into any, ask func() error) error {
	err := ask()
	value, encodeErr := json.Marshal(into)
	if encodeErr != nil {
		return encodeErr
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.kept[name] = append(k.kept[name], line{value, err})
	return err
}

func (k *memory) play(name string, into any, _ func() error) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	list := k.kept[name]
	if len(list) == 0 {
		return nightcrier.Errorf(nightcrier.NotFound, "not recorded: %s", name)
	}
	k.kept[name] = list[1:]
	if list[0].err != nil {
		return list[0].err
	}
	return json.Unmarshal(list[0].value, into)
}

// What servers answered is answered again without them: results, failures, a tool that
// changed, and a server that was not there. What leaves the run is the same.
func TestServersAreMadeAgainFromWhatIsKept(t *testing.T) {
	p := newPeer(t)
	p.tool("read", readsOnly, nil, textPart("the password is hunter2"))
	p.tool("late", readsOnly, nil, textPart("x"))
	gone := httptest.NewServer(nil)
	gone.Close()
	servers := []toolserver.Server{p.server("*"), {Name: "gone", URL: gone.URL, Tools: []string{"*"}, Timeout: time.Second}}
	kept := &memory{kept: map[string][]line{}}
	run := func(r *record, servers []toolserver.Server, take tape.Take, midway func()) (told []string, absent []nightcrier.NotChecked) {
		o := r.options()
		o.Take = take
		s := Open(t.Context(), servers, o)
		defer s.Close()
		say := func(name, args string) {
			answer, err := ask(t, s, name, json.RawMessage(args))
			told = append(told, fmt.Sprint(answer, err))
		}
		say("peer_read", `{"a":1,"b":2}`)
		say("peer_late", `{}`)
		midway()
		say("peer_late", `{}`)
		say("peer_read", `{"b":2,"a":1}`)
		return append(told, strings.Join(names(s), " ")), s.Absent()
	}
	first := newRecord()
	then, thenAbsent := run(first, servers, kept.keep, func() {
		p.AddTool(&sdk.Tool{Name: "late", Description: "quite another", InputSchema: map[string]any{"type": "object"}, Annotations: readsOnly}, nil)
		first.later(time.Minute)
	})
	if len(thenAbsent) != 1 || !strings.Contains(then[0], "‹secret") || !strings.Contains(then[2], "changed by its server") {
		t.Fatalf("%q, absent %v", then, thenAbsent)
	}
	calls := len(p.calls())
	second := newRecord()
	now, nowAbsent := run(second, []toolserver.Server{servers[0].Recorded(), servers[1].Recorded()}, kept.play, func() {})
	if !slices.Equal(now, then) || !slices.Equal(nowAbsent, thenAbsent) || !slices.Equal(second.calls, first.calls) || len(p.calls()) != calls {
		t.Errorf("then %q %v\nnow  %q %v\n%+v\n%+v", then, thenAbsent, now, nowAbsent, first.calls, second.calls)
	}
	for name, list := range kept.kept {
		if len(list) > 0 {
			t.Errorf("%s was not asked again", name)
		}
	}
}

// A record is no more trusted than a server: what it offers is bounded and judged, and what it
// lacks is neither asked nor journaled as a call.
func TestAKeptServerIsJudged(t *testing.T) {
	def := func(name string, schema any) map[string]any {
		return map[string]any{"name": name, "inputSchema": schema, "annotations": map[string]any{"readOnlyHint": true}}
	}
	deep := map[string]any{"type": "object"}
	for range 200 {
		deep = map[string]any{"type": "object", "properties": map[string]any{"x": deep}}
	}
	offers, err := json.Marshal([]any{nil, def("read", map[string]any{"type": "object"}), def("deep", deep), def("a\x1b[2J", nil),
		map[string]any{"name": "writes", "inputSchema": map[string]any{"type": "object"}, "annotations": map[string]any{}}})
	if err != nil {
		t.Fatal(err)
	}
	r := newRecord()
	o := r.options()
	o.Take = (&memory{kept: map[string][]line{`"tools" "peer"`: {{value: offers}}}}).play
	s := Open(t.Context(), []toolserver.Server{{Name: "peer", Tools: []string{"*"}, Timeout: time.Second}}, o)
	defer s.Close()
	if got := names(s); !slices.Equal(got, []string{"peer_read"}) {
		t.Fatalf("tools %v", got)
	}
	if answer, err := ask(t, s, "peer_read", json.RawMessage(`{}`)); nightcrier.CodeOf(err) != nightcrier.NotFound || len(r.calls)+len(r.evidence) > 0 {
		t.Errorf("%q, %v, on record %+v", answer, err, r.calls)
	}
}

// Nor does a record choose how much of it is held in memory.
func TestWhatIsKeptIsBounded(t *testing.T) {
	offer := `{"name":"read","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}`
	large := `"` + strings.Repeat("a", maxKept) + `"`
	for what, tools := range map[string]string{
		"many tools":  "[" + strings.TrimSuffix(strings.Repeat("{},", maxOffered+1), ",") + "]",
		"large tools": "[" + large + "]",
		"no list":     `{"name":"read"}`,
		"an answer":   "[" + offer + "]",
	} {
		r := newRecord()
		o := r.options()
		o.Take = func(_ string, into any, _ func() error) error {
			if got, ok := into.(*answer); ok {
				got.Text = large
				return nil
			}
			return json.Unmarshal([]byte(tools), into)
		}
		s := Open(t.Context(), []toolserver.Server{{Name: "peer", Tools: []string{"*"}, Timeout: time.Second}}, o)
		if what != "an answer" {
			if len(s.Tools()) != 0 || len(s.Absent()) != 1 {
				t.Errorf("%s: %v, absent %v", what, names(s), s.Absent())
			}
		} else if answer, err := ask(t, s, "peer_read", json.RawMessage(`{}`)); nightcrier.CodeOf(err) != nightcrier.Invalid || len(r.calls)+len(r.evidence) > 0 {
			t.Errorf("%s: %d bytes, %.200v, on record %+v", what, len(answer), err, r.calls)
		}
		s.Close()
	}
}

// What a tool says of its failure is a result, kept and shown as its words, and is one
// again when it is played. An error of ours is neither: nobody is told that the tool said so.
func TestOnlyTheToolsOwnWordsAreKept(t *testing.T) {
	p := newPeer(t)
	p.AddTool(&sdk.Tool{Name: "read", InputSchema: map[string]any{"type": "object"}, Annotations: readsOnly},
		func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return &sdk.CallToolResult{IsError: true, Content: []sdk.Content{&sdk.TextContent{Text: "there is no such shop"}}}, nil
		})
	kept := &memory{kept: map[string][]line{}}
	invalid := nightcrier.Errorf(nightcrier.Invalid, "the tape is torn")
	torn := func(name string, into any, ask func() error) error {
		if _, ok := into.(*answer); ok {
			return invalid
		}
		return ask()
	}
	for _, c := range []struct {
		name     string
		take     tape.Take
		evidence int
		want     string
	}{
		{"a failure", kept.keep, 1, "there is no such shop\n[evidence E1]"},
		{"a failure again", kept.play, 1, "there is no such shop\n[evidence E1]"},
		{"an error of ours", torn, 0, "the tape is torn"},
	} {
		r := newRecord()
		o := r.options()
		o.Take = c.take
		s := Open(t.Context(), []toolserver.Server{p.server("*")}, o)
		text, err := ask(t, s, "peer_read", json.RawMessage(`{}`))
		s.Close()
		if text != "" || err == nil || strings.TrimSpace(err.Error()) != c.want || nightcrier.CodeOf(err) != nightcrier.Invalid {
			t.Errorf("%s: %q, error %v, want %q", c.name, text, err, c.want)
		}
		if len(r.evidence) != c.evidence || len(r.calls) != 2*c.evidence {
			t.Errorf("%s: evidence %q, calls %+v", c.name, r.evidence, r.calls)
		}
	}
}
