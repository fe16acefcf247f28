package agent

import (
	"bytes"
	"strings"
	"testing"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent/internal/hook"
	"nightcrier.dev/nightcrier/internal/record/journal"
	"nightcrier.dev/nightcrier/internal/sandbox"
)

// feed parses a whole output.
// captured are outputs of the real CLI with the exit code that it had.
var captured = []struct {
	name     string
	exit     sandbox.Exit
	state    nightcrier.State
	class    nightcrier.FailureClass
	terminal string
	abort    bool
	used     [3]int64 // requests, tokens in, tokens out
	calls    int      // of tools
	denials  int
}{
	{name: "400", exit: sandbox.Exit{Code: 1}, state: "failed", class: "agent_error", terminal: "api_error", used: [3]int64{0, 0, 0}},
	{name: "401", exit: sandbox.Exit{Code: 1}, state: "failed", class: "auth", terminal: "api_error", abort: true, used: [3]int64{0, 0, 0}},
	{name: "403", exit: sandbox.Exit{Code: 1}, state: "failed", class: "auth", terminal: "api_error", used: [3]int64{0, 0, 0}},
	{name: "404-model", exit: sandbox.Exit{Code: 1}, state: "failed", class: "agent_error", terminal: "api_error", used: [3]int64{0, 0, 0}},
	{name: "429-max-retries-1", exit: sandbox.Exit{Code: 1}, state: "failed", class: "quota", terminal: "api_error", used: [3]int64{0, 0, 0}},
	{name: "429-recovered", state: "success", terminal: "success", used: [3]int64{1, 1000, 50}},
	{name: "500-max-retries-2", exit: sandbox.Exit{Code: 1}, state: "failed", class: "agent_error", terminal: "api_error", used: [3]int64{0, 0, 0}},
	{name: "500-recovered", state: "success", terminal: "success", used: [3]int64{1, 1000, 50}},
	{name: "529-max-retries-2", exit: sandbox.Exit{Code: 1}, state: "failed", class: "agent_error", terminal: "api_error", used: [3]int64{0, 0, 0}},
	{name: "bash-allowed", state: "success", terminal: "success", used: [3]int64{2, 2000, 100}, calls: 1},
	{name: "bash-denied", state: "success", terminal: "success", used: [3]int64{2, 2000, 100}, calls: 1, denials: 1},
	{name: "conn-refused", exit: sandbox.Exit{Code: 1}, state: "failed", class: "agent_error", terminal: "api_error", used: [3]int64{0, 0, 0}},
	{name: "grep-glob", state: "success", terminal: "success", used: [3]int64{3, 3000, 150}, calls: 2},
	{name: "json-schema", state: "success", terminal: "success", used: [3]int64{1, 1000, 50}, calls: 1},
	{name: "kill-api-hang-sigint", state: "failed", class: "agent_error", terminal: "error_during_execution", used: [3]int64{1, 1000, 24}},
	{name: "kill-api-hang-sigterm", exit: sandbox.Exit{Code: 143}, state: "failed", class: "crash", terminal: "missing", used: [3]int64{0, 0, 0}},
	{name: "kill-api-retry-sigint", state: "failed", class: "agent_error", terminal: "error_during_execution", used: [3]int64{0, 0, 0}},
	{name: "kill-api-retry-sigterm", exit: sandbox.Exit{Code: 143}, state: "failed", class: "crash", terminal: "missing", used: [3]int64{0, 0, 0}},
	{name: "kill-bash-sigint-group", state: "failed", class: "agent_error", terminal: "error_during_execution", used: [3]int64{1, 1000, 50}, calls: 1},
	{name: "kill-bash-sigint-pid", state: "failed", class: "agent_error", terminal: "error_during_execution", used: [3]int64{1, 1000, 50}, calls: 1},
	{name: "kill-bash-sigkill-group", exit: sandbox.Exit{Code: 137, Signal: "SIGKILL"}, state: "failed", class: "crash", terminal: "missing", used: [3]int64{0, 0, 0}, calls: 1},
	{name: "kill-bash-sigterm-group", exit: sandbox.Exit{Code: 143}, state: "failed", class: "crash", terminal: "missing", used: [3]int64{0, 0, 0}, calls: 1},
	{name: "kill-bash-sigterm-pid", exit: sandbox.Exit{Code: 143}, state: "failed", class: "crash", terminal: "missing", used: [3]int64{0, 0, 0}, calls: 1},
	{name: "max-budget", exit: sandbox.Exit{Code: 1}, state: "failed", class: "budget", terminal: "error_max_budget_usd", used: [3]int64{3, 60000, 3000}, calls: 3},
	{name: "max-turns", exit: sandbox.Exit{Code: 1}, state: "failed", class: "agent_error", terminal: "error_max_turns", used: [3]int64{3, 3000, 150}, calls: 3},
	{name: "mcp-allowed", state: "success", terminal: "success", used: [3]int64{2, 2000, 100}, calls: 2, denials: 1},
	{name: "no-key", exit: sandbox.Exit{Code: 1}, state: "failed", class: "auth", terminal: "api_error", used: [3]int64{0, 0, 0}},
	{name: "partial", state: "success", terminal: "success", used: [3]int64{1, 1000, 50}},
	{name: "plain", state: "success", terminal: "success", used: [3]int64{1, 1000, 50}},
	{name: "prompt-too-long", exit: sandbox.Exit{Code: 1}, state: "failed", class: "agent_error", terminal: "prompt_too_long", used: [3]int64{0, 0, 0}},
	{name: "read", state: "success", terminal: "success", used: [3]int64{2, 2000, 100}, calls: 1},
	{name: "recommended", state: "success", terminal: "success", used: [3]int64{2, 2000, 100}, calls: 8, denials: 3},
	{name: "recommended-mcp-only", state: "success", terminal: "success", used: [3]int64{2, 2000, 100}, calls: 3, denials: 1},
	{name: "stop-max-tokens", state: "success", terminal: "success", used: [3]int64{2, 2000, 100}},
	{name: "stream-cut", state: "success", terminal: "success", used: [3]int64{1, 2000, 82}},
	{name: "write-allowed", state: "success", terminal: "success", used: [3]int64{2, 2000, 100}, calls: 1},
	{name: "write-denied", state: "success", terminal: "success", used: [3]int64{2, 2000, 100}, calls: 1, denials: 1},
}

func TestClaudeCaptures(t *testing.T) {
	eachHasACase(t, "claude", len(captured))
	for _, c := range captured {
		t.Run(c.name, func(t *testing.T) {
			p := newClaudeParser()
			aborted := false
			seen := map[nightcrier.EntryType]int{}
			for line := range bytes.Lines(capture(t, "claude-"+c.name)) {
				for _, i := range p.Stdout(bytes.TrimRight(line, "\n"), false) {
					seen[i.Type]++
				}
				aborted = aborted || p.Abort()
			}
			r := Decide(Stop{}, p.Verdict(), c.exit, "")
			if r.State != c.state || r.FailureClass != c.class || r.TerminalEvent != c.terminal {
				t.Errorf("got %s %q %q, want %s %q %q", r.State, r.FailureClass, r.TerminalEvent, c.state, c.class, c.terminal)
			}
			if (r.FailureReason == "") != (c.state == "success") {
				t.Errorf("reason %q", r.FailureReason)
			}
			if aborted != c.abort {
				t.Errorf("abort %v, want %v", aborted, c.abort)
			}
			if used := [3]int64{int64(r.Usage.APIRequests), r.Usage.InputTokens, r.Usage.OutputTokens}; used != c.used {
				t.Errorf("used %v, want %v", used, c.used)
			}
			if seen[nightcrier.EntryToolCall] != c.calls || seen[nightcrier.EntryDenial] != c.denials {
				t.Errorf("%d calls and %d denials, want %d and %d", seen[nightcrier.EntryToolCall], seen[nightcrier.EntryDenial], c.calls, c.denials)
			}
			if r.SessionID == "" {
				t.Error("no session id")
			}
		})
	}
}

func TestClaudeEntries(t *testing.T) {
	items := feed(newClaudeParser(), capture(t, "claude-bash-denied"))
	var types []string
	for _, i := range items {
		types = append(types, string(i.Type))
	}
	if got, want := strings.Join(types, " "), "message tool_call denial tool_result message usage"; got != want {
		t.Fatalf("entries %s, want %s", got, want)
	}
	denial := items[2].Data.(journal.Denial)
	if denial.Tool != "Bash" || denial.Command != "kubectl delete pod x" || denial.Message == "" {
		t.Errorf("denial %+v", denial)
	}
	result := items[3].Data.(journal.ToolResult)
	if !result.Error || result.Command != "kubectl delete pod x" || result.Text != "This command requires approval" {
		t.Errorf("tool result %+v", result)
	}
	usage := items[5].Data.(nightcrier.Usage)
	if usage.InputTokens != 2000 || usage.OutputTokens != 100 || usage.CostUSD != 0.01 {
		t.Errorf("usage %+v", usage)
	}
}

// What our hook refuses has no event of its own.
func TestClaudeHookDenial(t *testing.T) {
	items := feed(newClaudeParser(), []byte(`{"type":"assistant","message":{"content":[{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"rm x"}}]}}
{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t1","is_error":true,"content":"PreToolUse:Bash hook error: `+hook.Refusal+`rm is not available"}]}}
{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t2","content":"a log that says: `+hook.Refusal+`no"}]}}
`))
	if len(items) != 4 || items[1].Type != nightcrier.EntryDenial || items[2].Type != nightcrier.EntryToolResult || items[3].Type != nightcrier.EntryToolResult {
		t.Fatalf("entries %+v", items)
	}
	if d := items[1].Data.(journal.Denial); d != (journal.Denial{ID: "t1", Tool: "Bash", Command: "rm x", Message: "rm is not available"}) {
		t.Errorf("denial %+v", d)
	}
}

// Nor has a call of a tool that is not offered.
func TestClaudeToolThatIsNotOffered(t *testing.T) {
	items := feed(newClaudeParser(), []byte(`{"type":"assistant","message":{"content":[{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"rm x"}}]}}
{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t1","is_error":true,"content":"<tool_use_error>Error: No such tool available: Bash. Bash is disabled for this session."}]}}
{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t2","content":"<tool_use_error>Error: No such tool available, says a log"}]}}
`))
	if len(items) != 4 || items[1].Type != nightcrier.EntryDenial || items[3].Type != nightcrier.EntryToolResult {
		t.Fatalf("entries %+v", items)
	}
	if d := items[1].Data.(journal.Denial); d != (journal.Denial{ID: "t1", Tool: "Bash", Command: "rm x", Message: "the tool is not offered"}) {
		t.Errorf("denial %+v", d)
	}
}

func TestClaudeHostileLines(t *testing.T) {
	p := newClaudeParser()
	for _, line := range []string{
		"", "not json", `{"type":`, `[]`, `null`, `{"type":7}`, `{"type":"assistant"}`, `{"type":"assistant","message":"text"}`,
		`{"type":"user","message":{"content":"plain text"}}`, `{"type":"system","subtype":"permission_denied","message":{}}`,
		`{"type":"result","subtype":"success","is_error":"yes"}`, strings.Repeat("[", 100_000),
		`{"type":"assistant","message":{"content":[{"type":"tool_use","id":"x","name":"Bash","input":"` + strings.Repeat("a", 1<<20) + `"}]}}`,
	} {
		staysSmall(t, p, line)
	}
}

// The last result wins: there can be several.
func TestClaudeLastResultWins(t *testing.T) {
	p := newClaudeParser()
	feed(p, []byte(`{"type":"result","subtype":"success","is_error":false,"result":"first"}
{"type":"result","subtype":"error_max_turns","is_error":true,"errors":["too many"]}
`))
	if v := p.Verdict(); !v.Failed || v.Terminal != "error_max_turns" || v.Reason != "too many" {
		t.Errorf("verdict %+v", v)
	}
}

func FuzzClaudeParser(f *testing.F) { fuzzParser(f, claudeCode(), nil) }
