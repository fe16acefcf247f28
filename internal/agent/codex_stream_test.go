package agent

import (
	"bytes"
	"strings"
	"testing"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/record/journal"
	"nightcrier.dev/nightcrier/internal/sandbox"
)

// codexCaptured are outputs of the real CLI with the exit code that it had.
var codexCaptured = []struct {
	name     string
	exit     int
	state    nightcrier.State
	class    nightcrier.FailureClass
	terminal string
	reason   string
	abort    bool
	items    string // the types of the journal's items
}{
	{name: "400", exit: 1, state: "failed", class: "agent_error", terminal: "turn.failed", reason: "message of 400", items: "log error"},
	{name: "401", exit: 1, state: "failed", class: "auth", terminal: "turn.failed", reason: "401 Unauthorized", abort: true, items: "log error error"},
	{name: "403", exit: 1, state: "failed", class: "auth", terminal: "turn.failed", reason: "403 Forbidden", abort: true, items: "log error error error"},
	{name: "404-model", exit: 1, state: "failed", class: "agent_error", terminal: "turn.failed", reason: "message of 404", items: "log error"},
	{name: "429", exit: 1, state: "failed", class: "quota", terminal: "turn.failed", reason: "429 Too Many Requests", items: "log error"},
	{name: "500", exit: 1, state: "failed", class: "agent_error", terminal: "turn.failed", reason: "high demand", items: "log error error"},
	{name: "503", exit: 1, state: "failed", class: "agent_error", terminal: "turn.failed", reason: "503 Service Unavailable", items: "log error error error"},
	{name: "insufficient-quota", exit: 1, state: "failed", class: "quota", terminal: "turn.failed", reason: "Quota exceeded", items: "log error"},
	{name: "mcp", state: "success", terminal: "turn.completed", items: "log message message usage"},
	{name: "mcp0", state: "success", terminal: "turn.completed", items: "log message tool_call tool_result tool_call tool_result denial message usage"},
	{name: "mcp1", state: "success", terminal: "turn.completed", items: "log message tool_call tool_result message usage"},
	{name: "mcp2", state: "success", terminal: "turn.completed", items: "log message tool_call tool_result tool_call tool_result message usage"},
	{name: "mcp3", state: "success", terminal: "turn.completed", items: "log message tool_call tool_result tool_call tool_result denial message usage"},
	{name: "mcp4", state: "success", terminal: "turn.completed", items: "log message tool_call tool_result message usage"},
	{name: "plain", state: "success", terminal: "turn.completed", items: "log message usage"},
	{name: "recommended", state: "success", terminal: "turn.completed", items: "log message tool_call tool_result message usage"},
	{name: "shell-read-only", state: "success", terminal: "turn.completed", items: "log message tool_call tool_result message usage"},
	{name: "shell-read-only-codemode", state: "success", terminal: "turn.completed", items: "message tool_call tool_result message usage"},
	{name: "shell-workspace-write", state: "success", terminal: "turn.completed", items: "log message tool_call tool_result message usage"},
	{name: "shell-workspace-write-codemode", state: "success", terminal: "turn.completed", items: "message tool_call tool_result message usage"},
	{name: "sigint", exit: 1, state: "failed", class: "agent_error", terminal: "missing", reason: "code 1", items: "log"},
	{name: "stop-max-tokens", exit: 1, state: "failed", class: "agent_error", terminal: "turn.failed", reason: "max_output_tokens", items: "log message error"},
	{name: "stream-cut", state: "success", terminal: "turn.completed", items: "log error message usage"},
	{name: "stream-cut-for-ever", exit: 1, state: "failed", class: "agent_error", terminal: "turn.failed", reason: "stream disconnected", items: "log error error error"},
	{name: "tools-denied", state: "success", terminal: "turn.completed", items: "log message tool_call tool_result tool_call tool_result denial message usage"},
}

func TestCodexCaptures(t *testing.T) {
	eachHasACase(t, "codex", len(codexCaptured))
	for _, c := range codexCaptured {
		t.Run(c.name, func(t *testing.T) {
			p, aborted, types := newCodexParser(), false, []string{}
			for line := range bytes.Lines(capture(t, "codex-"+c.name)) {
				for _, i := range p.Stdout(bytes.TrimRight(line, "\n"), false) {
					types = append(types, string(i.Type))
				}
				aborted = aborted || p.Abort()
			}
			r := Decide(Stop{}, p.Verdict(), sandbox.Exit{Code: c.exit}, "")
			if r.State != c.state || r.FailureClass != c.class || r.TerminalEvent != c.terminal || !strings.Contains(r.FailureReason, c.reason) {
				t.Errorf("got %s %q %q %q", r.State, r.FailureClass, r.TerminalEvent, r.FailureReason)
			}
			if got := strings.Join(types, " "); got != c.items {
				t.Errorf("items %s, want %s", got, c.items)
			}
			if (r.FailureReason == "") != (c.state == "success") || aborted != c.abort || !uuid.MatchString(r.SessionID) {
				t.Errorf("reason %q, abort %v, session %q", r.FailureReason, aborted, r.SessionID)
			}
			if c.state == "success" && (r.Usage.InputTokens == 0 || r.Usage.OutputTokens == 0 || r.FinalMessage == "") {
				t.Errorf("usage %+v, message %q", r.Usage, r.FinalMessage)
			}
		})
	}
}

func TestCodexEntries(t *testing.T) {
	p := newCodexParser()
	items := feed(p, []byte(`{"type":"item.started","item":{"id":"i1","type":"mcp_tool_call","server":"nightcrier","tool":"kubernetes_get","arguments":{"kind":"Pod"},"result":null,"error":null,"status":"in_progress"}}
{"type":"item.completed","item":{"id":"i1","type":"mcp_tool_call","server":"nightcrier","tool":"kubernetes_get","arguments":{"kind":"Pod"},"result":{"content":[{"type":"text","text":"pod "},{"type":"text","text":"cart"}]},"error":null,"status":"completed"}}
{"type":"item.completed","item":{"id":"i2","type":"command_execution","command":"rm -rf x","aggregated_output":"","exit_code":null,"status":"declined"}}
{"type":"error","message":"Reconnecting... 2/3 (unexpected status 503 Service Unavailable: x, url: http://x)"}
`))
	if len(items) != 5 {
		t.Fatalf("items %+v", items)
	}
	if c := items[0].Data.(journal.ToolCall); c.Tool != "mcp__nightcrier__kubernetes_get" || string(c.Input) != `{"kind":"Pod"}` {
		t.Errorf("call %+v", c)
	}
	if r := items[1].Data.(journal.ToolResult); r.Text != "pod cart" || r.Error || r.ID != "i1" || r.Bytes != 8 {
		t.Errorf("result %+v", r)
	}
	if d := items[3].Data.(journal.Denial); d.Command != "rm -rf x" || d.Tool != "command_execution" {
		t.Errorf("denial %+v", d)
	}
	if e := items[4].Data.(journal.Error); e.HTTPStatus != 503 || e.Attempt != 2 || p.Abort() {
		t.Errorf("error %+v, abort %v", e, p.Abort())
	}
}

// What our own guard refuses says nothing of the provider's key.
func TestCodexToldByTheGuard(t *testing.T) {
	p := newCodexParser()
	feed(p, []byte(`{"type":"error","message":"Reconnecting... 1/2 (unexpected status 403 Forbidden: nightcrier: the field \"plugins\" is not forwarded, url: http://x)"}`))
	if p.Abort() || p.Verdict().Failed {
		t.Errorf("verdict %+v", p.Verdict())
	}
	feed(p, []byte(`{"type":"turn.failed","error":{"message":"unexpected status 403 Forbidden: nightcrier: the field \"plugins\" is not forwarded, url: http://x"}}`))
	if v := p.Verdict(); v.Class != nightcrier.FailAgent || !strings.Contains(v.Reason, "plugins") {
		t.Errorf("verdict %+v", v)
	}
}

// The CLI counts the whole session; a step has its own part of it.
func TestCodexCountsWhatIsNew(t *testing.T) {
	p := newCodexParser()
	p.Resumed(nightcrier.Usage{InputTokens: 100, OutputTokens: 10})
	feed(p, []byte(`{"type":"turn.completed","usage":{"input_tokens":300,"output_tokens":25}}`))
	if u := p.Verdict().Usage; u.InputTokens != 200 || u.OutputTokens != 15 {
		t.Errorf("usage %+v", u)
	}
}

func TestCodexHostileLines(t *testing.T) {
	big := strings.Repeat("a", 1<<20)
	p := newCodexParser()
	for _, line := range []string{
		"", "not json", `{"type":`, `[]`, `null`, `{"type":7}`, `{"type":"item.started"}`, `{"type":"item.completed","item":"text"}`,
		`{"type":"item.completed","item":{"type":"mcp_tool_call","error":{"message":"` + big + `"},"status":"failed"}}`,
		`{"type":"item.started","item":{"type":"command_execution","command":"` + big + `"}}`,
		`{"type":"item.completed","item":{"type":"command_execution","command":"` + big + `","aggregated_output":"` + big + `","status":"declined"}}`,
		`{"type":"item.started","item":{"type":"mcp_tool_call","server":"` + big + `","arguments":"` + big + `"}}`,
		`{"type":"item.completed","item":{"type":"error","message":"` + big + `"}}`,
		`{"type":"error","message":"Reconnecting... 99999999999999999999/1 (` + big + `)"}`, `{"type":"error","message":"` + big + `"}`,
		`{"type":"turn.failed","error":{"message":"` + big + `"}}`, `{"type":"turn.failed"}`, strings.Repeat("[", 100_000),
	} {
		staysSmall(t, p, line)
	}
	if v := p.Verdict(); !v.Failed || v.Reason == "" || len(v.Reason) > 4<<10 {
		t.Errorf("reason of %d bytes", len(v.Reason))
	}
}

func FuzzCodexParser(f *testing.F) { fuzzParser(f, codexExecutor(), nil) }

// A call of a tool that is not offered is told on stderr alone.
func TestCodexTellsOfRefusedCalls(t *testing.T) {
	const said = "2026-11-23T10:39:44.684673Z ERROR codex_core::tools::router: error="
	for line, want := range map[string]string{
		said + "unsupported call: kubernetes_delete":                  "kubernetes_delete",
		said + "unsupported call: " + strings.Repeat("x", 200):        strings.Repeat("x", 200),
		said + "unsupported call: " + strings.Repeat("x", 201):        "",
		said + "unsupported call: ":                                   "",
		said + "unsupported call: two words":                          "",
		said + "exec_command failed":                                  "",
		strings.Repeat("y", 1<<20) + " error=unsupported call: shell": "shell",
		"": "",
	} {
		items, got := newCodexParser().Stderr([]byte(line)), ""
		if len(items) == 1 && items[0].Type == nightcrier.EntryDenial {
			got = items[0].Data.(journal.Denial).Tool
		}
		if got != want || (len(items) > 0) != (want != "") {
			t.Errorf("%.120q: refused %q, want %q", line, got, want)
		}
	}
}
