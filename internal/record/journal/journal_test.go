package journal

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
)

var at = time.Date(2026, 11, 20, 8, 30, 0, 5_000_000, time.UTC)

func entry(t *testing.T, i Item) nightcrier.JournalEntry {
	t.Helper()
	data, err := i.JSON()
	if err != nil {
		t.Fatal(err)
	}
	return nightcrier.JournalEntry{Run: "r", Seq: 1, Time: at, Type: i.Type, Data: data}
}

func hide(s string) string { return strings.ReplaceAll(s, "hunter2", "‹secret›") }

func TestRenderings(t *testing.T) {
	code := 137
	for _, c := range []struct {
		name               string
		item               Item
		log, command, tail string
	}{
		{"state",
			OfState(State{From: "running", To: "failed", Reason: "killed", FailureClass: "crash", ExitCode: &code}),
			"2026-11-20T08:30:00.005Z state running -> failed [crash]: killed (exit code 137)\n", "",
			"08:30:00 state    running -> failed [crash]: killed (exit code 137)"},
		{"first state", OfState(State{To: "created"}), "2026-11-20T08:30:00.005Z state created\n", "", "08:30:00 state    created"},
		{"running",
			OfState(State{From: "starting", To: "running", AfterMS: 1480, Layers: []string{"env", "pidns"}}),
			"2026-11-20T08:30:00.005Z state starting -> running after 1.5s (sandbox: env, pidns)\n", "",
			"08:30:00 state    starting -> running after 1.5s (sandbox: 2 layers)"},
		{"without namespaces",
			OfState(State{To: "running", Layers: []string{"env"}, Missing: []string{"netns", "landlock-net"}}),
			"2026-11-20T08:30:00.005Z state running (sandbox: env; without netns, landlock-net)\n", "",
			"08:30:00 state    running (sandbox: 1 layers; without netns, landlock-net)"},
		{"message of two lines",
			OfMessage(Message{Role: "assistant", Text: "one\ntwo hunter2"}),
			"2026-11-20T08:30:00.005Z agent one\n2026-11-20T08:30:00.005Z agent two ‹secret›\n", "",
			"08:30:00 agent    one two ‹secret›"},
		{"command",
			OfToolCall(ToolCall{Tool: "Bash", Command: "kubectl get pod\n-n hunter2", Input: json.RawMessage(`{}`)}),
			"2026-11-20T08:30:00.005Z tool Bash: kubectl get pod\n2026-11-20T08:30:00.005Z tool -n ‹secret›\n",
			"2026-11-20T08:30:00.005Z Bash: kubectl get pod -n ‹secret›\n",
			"08:30:00 tool     Bash: kubectl get pod -n ‹secret›"},
		{"tool without command",
			OfToolCall(ToolCall{Tool: "Read", Input: json.RawMessage(`{ "file_path": "a" }`)}),
			"2026-11-20T08:30:00.005Z tool Read {\"file_path\":\"a\"}\n",
			"2026-11-20T08:30:00.005Z Read {\"file_path\":\"a\"}\n",
			`08:30:00 tool     Read file_path=a`},
		{"tool with a long input",
			OfToolCall(ToolCall{Tool: "Write", Input: json.RawMessage(`{"file_path":"a","content":"one\ntwo","limit":5}`)}),
			"2026-11-20T08:30:00.005Z tool Write {\"file_path\":\"a\",\"content\":\"one\\ntwo\",\"limit\":5}\n",
			"2026-11-20T08:30:00.005Z Write {\"file_path\":\"a\",\"content\":\"one\\ntwo\",\"limit\":5}\n",
			"08:30:00 tool     Write content=(7 characters) file_path=a limit=5"},
		{"tool whose input is no object", OfToolCall(ToolCall{Tool: "X", Input: json.RawMessage(`[1, 2]`)}),
			"2026-11-20T08:30:00.005Z tool X [1,2]\n", "2026-11-20T08:30:00.005Z X [1,2]\n", "08:30:00 tool     X [1,2]"},
		{"result of three lines", OfToolResult(ToolResult{Text: "\none\ntwo\nthree\n", Bytes: 15}),
			"2026-11-20T08:30:00.005Z result \n2026-11-20T08:30:00.005Z result one\n2026-11-20T08:30:00.005Z result two\n2026-11-20T08:30:00.005Z result three\n", "",
			"08:30:00 result   one (and 2 lines more)"},
		{"our own word", OfLog(Log{Stream: "run", Text: "checked"}), "2026-11-20T08:30:00.005Z run checked\n", "", "08:30:00 run      checked"},
		{"what looks like it", OfLog(Log{Stream: "stderr", Text: "run checked"}), "2026-11-20T08:30:00.005Z stderr run checked\n", "", "08:30:00 stderr   run checked"},
		{"a long state", OfState(State{From: "running", To: "timeout", AfterMS: 301_400}),
			"2026-11-20T08:30:00.005Z state running -> timeout after 5m1s\n", "", "08:30:00 state    running -> timeout after 5m1s"},
		{"denial",
			OfDenial(Denial{Tool: "Bash", Command: "kubectl delete pod x", Message: "no"}),
			"2026-11-20T08:30:00.005Z DENIED Bash: kubectl delete pod x (no)\n",
			"2026-11-20T08:30:00.005Z DENIED Bash: kubectl delete pod x (no)\n",
			"08:30:00 DENIED   Bash: kubectl delete pod x (no)"},
		{"failed result",
			OfToolResult(ToolResult{Error: true, Text: "not found", Bytes: 9}),
			"2026-11-20T08:30:00.005Z result error: not found\n", "", "08:30:00 result   error: not found"},
		{"cut result",
			OfToolResult(ToolResult{Text: "abc", Bytes: 900, Truncated: true}),
			"2026-11-20T08:30:00.005Z result abc\n2026-11-20T08:30:00.005Z result [cut; 900 bytes in all]\n", "",
			"08:30:00 result   abc (900 bytes in all)"},
		{"error", OfError(Error{FailureClass: "auth", Text: "refused", HTTPStatus: 401}),
			"2026-11-20T08:30:00.005Z error [auth] HTTP 401: refused\n", "", "08:30:00 error    [auth] HTTP 401: refused"},
		{"usage", OfUsage(nightcrier.Usage{APIRequests: 2, InputTokens: 10, OutputTokens: 3, CostUSD: 0.5, DurationMS: 2340}),
			"2026-11-20T08:30:00.005Z usage 2 requests, 10 tokens in, 3 out, $0.5000, 2.3s\n", "",
			"08:30:00 usage    2 requests, 10 tokens in, 3 out, $0.5000, 2.3s"},
		{"evidence", OfEvidence(Evidence{ID: "E1", Source: "kubectl get pod"}),
			"2026-11-20T08:30:00.005Z evidence E1 kubectl get pod\n", "", "08:30:00 evidence E1 kubectl get pod"},
		{"read let through", OfRequest(Request{ID: 1, Verb: "get", Resource: "pods", Name: "x", Decision: Allow}), "", "", ""},
		{"read answered", OfRequest(Request{ID: 1, Verb: "get", Resource: "pods", Subresource: "log", Namespace: "shop", Name: "cart", Query: "tailLines=5", Decision: Allow, Done: true, Status: 200, Bytes: 7, Evidence: "E3"}),
			"2026-11-20T08:30:00.005Z evidence E3 get pods/log cart -n shop ?tailLines=5 (200, 7 bytes)\n", "", "08:30:00 evidence E3 get pods/log cart -n shop ?tailLines=5 (200, 7 bytes)"},
		{"read not kept", OfRequest(Request{Verb: "list", Group: "apps", Resource: "deployments", Decision: Allow, Done: true, Status: 200}),
			"2026-11-20T08:30:00.005Z evidence none, the answer is empty: list deployments.apps (200, 0 bytes)\n", "", "08:30:00 evidence none, the answer is empty: list deployments.apps (200, 0 bytes)"},
		{"discovery", OfRequest(Request{Verb: "get", Query: "/apis", Decision: Allow, Done: true, Status: 200, Evidence: "E4"}), "", "", ""},
		{"discovery failed", OfRequest(Request{Verb: "get", Query: "/apis", Decision: Allow, Done: true, Status: 503, Evidence: "E4"}),
			"2026-11-20T08:30:00.005Z evidence E4 get /apis (503, 0 bytes)\n", "", "08:30:00 evidence E4 get /apis (503, 0 bytes)"},
		{"selectors", OfRequest(Request{Verb: "list", Resource: "pods", Query: "labelSelector=app%3Dcart%0Ax&limit=100", Decision: Allow, Done: true, Status: 200, Evidence: "E4"}),
			"2026-11-20T08:30:00.005Z evidence E4 list pods ?labelSelector=app=cart x&limit=100 (200, 0 bytes)\n", "", "08:30:00 evidence E4 list pods ?labelSelector=app=cart x&limit=100 (200, 0 bytes)"},
		{"write refused", OfRequest(Request{Verb: "delete", Resource: "pods", Namespace: "shop", Name: "cart", Decision: Deny, Reason: "reads only"}),
			"2026-11-20T08:30:00.005Z DENIED cluster: delete pods cart -n shop (reads only)\n", "2026-11-20T08:30:00.005Z DENIED cluster: delete pods cart -n shop (reads only)\n",
			"08:30:00 DENIED   cluster: delete pods cart -n shop (reads only)"},
		{"escape sequences", OfLog(Log{Stream: "stdout", Text: "a\x1b[2Jb\u202ec\x00"}),
			"2026-11-20T08:30:00.005Z stdout a\uFFFDb\uFFFDc\uFFFD\n", "", "08:30:00 stdout   abc"},
		{"nothing", OfLog(Log{Stream: "stdout"}), "", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := entry(t, c.item)
			if got := string(AgentLog(e, hide)); got != c.log {
				t.Errorf("agent.log\n%q\nwant\n%q", got, c.log)
			}
			if got := Command(e, hide); got != c.command {
				t.Errorf("command %q, want %q", got, c.command)
			}
			if got := Tail(e, hide).String(); got != c.tail {
				t.Errorf("tail %q, want %q", got, c.tail)
			}
		})
	}
}

// A payload of another version is shown as it is, and still masked.
func TestUnreadablePayloads(t *testing.T) {
	for _, typ := range []nightcrier.EntryType{nightcrier.EntryState, nightcrier.EntryToolCall, nightcrier.EntryDenial, "new"} {
		e := nightcrier.JournalEntry{Time: at, Type: typ, Data: json.RawMessage(`["hunter2"]`)}
		if got := string(AgentLog(e, hide)); !strings.Contains(got, `["‹secret›"]`) {
			t.Errorf("%s: %q", typ, got)
		}
		if got := Command(e, hide); got != "" {
			t.Errorf("%s: command %q", typ, got)
		}
	}
}

func TestTailIsShort(t *testing.T) {
	got := Tail(entry(t, OfLog(Log{Text: strings.Repeat("é", 10_000)})), nil).String()
	if n := len([]rune(got)); n > tailWidth+30 || !strings.HasSuffix(got, "…") {
		t.Errorf("%d runes", n)
	}
}

func TestDecode(t *testing.T) {
	want := ToolResult{ID: "x", Tool: "Bash", Text: "t", Bytes: 1}
	got, err := Decode[ToolResult](entry(t, OfToolResult(want)))
	if err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	_, err = Decode[ToolResult](nightcrier.JournalEntry{Data: json.RawMessage(`{`)})
	if nightcrier.CodeOf(err) != nightcrier.Invalid {
		t.Errorf("half a payload: %v", err)
	}
	if _, err := (Item{nightcrier.EntryToolCall, ToolCall{Input: json.RawMessage("{")}}).JSON(); err == nil {
		t.Error("a payload that is no JSON was encoded")
	}
}

func TestRequestOf(t *testing.T) {
	want := Request{ID: 3, Time: at, Verb: "get", Resource: "pods", Decision: Deny, Reason: "no"}
	got, err := RequestOf(entry(t, OfRequest(want)))
	if err != nil || got == nil || *got != want {
		t.Errorf("%+v, %v", got, err)
	}
	for _, i := range []Item{OfEvidence(Evidence{ID: "E1"}), OfDenial(Denial{Tool: "Bash"}), OfLog(Log{Text: "{}"})} {
		if got, err := RequestOf(entry(t, i)); got != nil || err != nil {
			t.Errorf("%+v: %+v, %v", i, got, err)
		}
	}
}
