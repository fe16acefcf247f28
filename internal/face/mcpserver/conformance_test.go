package mcpserver_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// capture reads what a server in the field has said.
func capture(t *testing.T, name string) map[string]any {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", "captures", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return doc
}

// answer is the JSON-RPC answer in an SSE body.
func answer(t *testing.T, body string) map[string]any {
	t.Helper()
	for line := range strings.Lines(body) {
		data, ok := strings.CutPrefix(line, "data: ")
		var doc map[string]any
		if ok && json.Unmarshal([]byte(data), &doc) == nil && doc["id"] != nil {
			return doc
		}
	}
	t.Fatalf("no answer in %q", body)
	return nil
}

// shape lists the paths of a document with the types of their values.
func shape(doc any) []string {
	var paths []string
	var walk func(string, any)
	walk = func(path string, v any) {
		paths = append(paths, fmt.Sprintf("%s %T", path, v))
		switch v := v.(type) {
		case map[string]any:
			for _, k := range slices.Sorted(maps.Keys(v)) {
				walk(path+"."+k, v[k])
			}
		case []any:
			for _, e := range v {
				walk(path+"[]", e)
			}
		}
	}
	walk("", doc)
	slices.Sort(paths)
	return slices.Compact(paths)
}

// missing is what want's shape has that got's has not.
func missing(want, got any, except ...string) []string {
	has := shape(got)
	return slices.DeleteFunc(shape(want), func(p string) bool {
		return slices.Contains(has, p) || slices.ContainsFunc(except, func(e string) bool { return strings.HasPrefix(p, e) })
	})
}

var (
	ids   = regexp.MustCompile(`sub-[0-9a-f]{8}`)
	dates = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`)
)

// said is the text of a tool's answer, without what differs each time.
func said(t *testing.T, doc map[string]any) (text string, isError bool) {
	t.Helper()
	res, _ := doc["result"].(map[string]any)
	content, _ := res["content"].([]any)
	if len(content) != 1 {
		t.Fatalf("no content in %v", doc)
	}
	part := content[0].(map[string]any)
	text, _ = part["text"].(string)
	isError, _ = res["isError"].(bool)
	if part["type"] != "text" {
		t.Errorf("content is %v", part["type"])
	}
	return dates.ReplaceAllString(ids.ReplaceAllString(text, "ID"), "TIME"), isError
}

// Where the servers in the field give an answer, ours is the same: word by word
// where clients read the prose, else in its shape.
func TestAnswersAreThoseOfTheField(t *testing.T) {
	f := newFake()
	cfg := quick(f)
	cfg.Clusters[0] = f.cluster("local")
	url, _ := serve(t, cfg)
	for _, age := range []string{"mcp-current", "mcp-legacy", "mcp-upstream-0.0.67"} {
		r := &raw{t: t, url: url}
		_, body := r.status("POST", hello)
		if lost := missing(capture(t, age+".initialize.response"), answer(t, body), ".result.capabilities.prompts", ".result.capabilities.resources"); len(lost) > 0 {
			t.Errorf("%s initialize lacks %v", age, lost)
		}
	}
	r := &raw{t: t, url: url}
	r.open()
	if got := answer(t, r.rpc("logging/setLevel", `{"level":"info"}`)); !slices.Equal(shape(got), shape(capture(t, "mcp-current.logging_setLevel.response"))) {
		t.Errorf("logging/setLevel answers %v", got)
	}
	for _, c := range []struct{ capture, tool, args string }{
		{"mcp-current.tools_call.events_subscribe.faults.response", "events_subscribe", `{"mode":"faults"}`},
		{"mcp-current.tools_call.events_subscribe.events.response", "events_subscribe", `{"mode":"events","namespaces":["faults"]}`},
		{"mcp-current.tools_call.events_subscribe.faults.err.type-Normal.response", "events_subscribe", `{"mode":"faults","type":"Normal"}`},
		{"mcp-current.tools_call.events_list_subscriptions.response", "events_list_subscriptions", `{}`},
		{"mcp-legacy.tools_call.events_subscribe.resource-faults.response", "events_subscribe", `{"mode":"resource-faults"}`},
		{"mcp-legacy.tools_call.events_subscribe.faults.response", "events_subscribe", `{"mode":"faults"}`},
	} {
		want, wantError := said(t, capture(t, c.capture))
		got, gotError := said(t, answer(t, r.tool(c.tool, c.args)))
		if got != want || gotError != wantError {
			t.Errorf("%s\ngot  %t %s\nwant %t %s", c.capture, gotError, got, wantError, want)
		}
	}
	want, _ := said(t, capture(t, "mcp-current.tools_call.events_subscribe.resource-faults.err.response"))
	got, isError := said(t, answer(t, r.tool("events_subscribe", `{"mode":"everything"}`)))
	if prefix, _, _ := strings.Cut(want, "'"); !isError || !strings.HasPrefix(got, prefix) {
		t.Errorf("an unknown mode: %t %s", isError, got)
	}
}

// The event tools are offered with the arguments that clients of the field send.
func TestToolsAreThoseOfTheField(t *testing.T) {
	url, _ := serve(t, quick(newFake()))
	r := &raw{t: t, url: url}
	r.open()
	ours := toolsOf(t, answer(t, r.rpc("tools/list", `{}`)))
	for _, age := range []string{"mcp-current", "mcp-legacy"} {
		compared := 0
		for name, theirs := range toolsOf(t, capture(t, age+".tools_list.response")) {
			if !strings.HasPrefix(name, "events_") {
				continue
			}
			compared++
			except := []string{".inputSchema.properties.mode.enum"}
			if lost := missing(theirs, ours[name], except...); len(lost) > 0 {
				t.Errorf("%s: %s lacks %v", age, name, lost)
			}
		}
		if compared != 4 {
			t.Errorf("%s: %d event tools were compared", age, compared)
		}
	}
}

func toolsOf(t *testing.T, doc map[string]any) map[string]any {
	t.Helper()
	tools := map[string]any{}
	for _, tool := range doc["result"].(map[string]any)["tools"].([]any) {
		tools[tool.(map[string]any)["name"].(string)] = tool
	}
	return tools
}

// dataOf is the payload of a captured notification, and its logger and level.
func dataOf(t *testing.T, name string) (data map[string]any, logger, level string) {
	t.Helper()
	params := capture(t, name)["params"].(map[string]any)
	return params["data"].(map[string]any), params["logger"].(string), params["level"].(string)
}

func TestNotificationsAreThoseOfTheField(t *testing.T) {
	cases := []struct {
		name, capture, args string
		exact               bool // no key more
		push                func(*fake)
	}{
		{"faults", "mcp-current.notification.faults.CrashLoop.synth", `{"mode":"faults"}`, false, func(f *fake) { f.push(t, "synth") }},
		{"resource faults", "mcp-legacy.notification.resource-faults.CrashLoop.synth", `{"mode":"resource-faults"}`, true, func(f *fake) { f.push(t, "synth") }},
		{"events", "mcp-current.notification.events.BackOff.real-crashloop", `{"mode":"events"}`, true, func(f *fake) {
			data, _, _ := dataOf(t, "mcp-current.notification.events.BackOff.real-crashloop")
			e := data["event"].(map[string]any)
			e["metadata"] = map[string]any{"name": "x", "namespace": e["namespace"]}
			raw, err := json.Marshal(e)
			if err != nil {
				t.Fatal(err)
			}
			f.send(t, f.events, string(raw))
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			f := newFake()
			cfg := quick(f)
			cfg.Clusters[0] = f.cluster("local")
			url, _ := serve(t, cfg)
			r := &raw{t: t, url: url}
			r.open()
			r.tool("events_subscribe", c.args)
			s := r.stream()
			c.push(f)
			var got struct {
				Method string
				Params struct {
					Data          map[string]any
					Logger, Level string
				}
			}
			for got.Method != "notifications/message" {
				line, err := s.in.ReadString('\n')
				if err != nil {
					t.Fatal(err)
				}
				if data, ok := strings.CutPrefix(line, "data: "); ok {
					if err := json.Unmarshal([]byte(data), &got); err != nil {
						t.Fatal(err)
					}
				}
			}
			want, logger, level := dataOf(t, c.capture)
			if got.Params.Logger != logger || got.Params.Level != level {
				t.Errorf("logger %s, level %s", got.Params.Logger, got.Params.Level)
			}
			if lost := missing(want, got.Params.Data); len(lost) > 0 {
				t.Errorf("it lacks %v", lost)
			}
			if more := missing(got.Params.Data, want); c.exact && len(more) > 0 {
				t.Errorf("it has %v besides", more)
			}
			if c.name == "events" {
				got.Params.Data["subscriptionId"] = want["subscriptionId"]
				a, _ := json.Marshal(got.Params.Data)
				b, _ := json.Marshal(want)
				if string(a) != string(b) {
					t.Errorf("got  %s\nwant %s", a, b)
				}
			}
		})
	}
}
