package agent

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/journal"
	"nightcrier.dev/nightcrier/internal/sandbox/process"
)

// feed parses a whole output.
func feed(p Parser, output []byte) (items []journal.Item) {
	for line := range bytes.Lines(output) {
		items = append(items, p.Stdout(bytes.TrimRight(line, "\n"), false)...)
	}
	return items
}

// captured are outputs of the real CLI with the exit code that it had.
var captured = []struct {
	name     string
	exit     process.Exit
	state    nightcrier.State
	class    nightcrier.FailureClass
	terminal string
	abort    bool
}{
	{name: "400", exit: process.Exit{Code: 1}, state: "failed", class: "agent_error", terminal: "api_error"},
	{name: "401", exit: process.Exit{Code: 1}, state: "failed", class: "auth", terminal: "api_error", abort: true},
	{name: "403", exit: process.Exit{Code: 1}, state: "failed", class: "auth", terminal: "api_error"},
	{name: "404-model", exit: process.Exit{Code: 1}, state: "failed", class: "agent_error", terminal: "api_error"},
	{name: "429-max-retries-1", exit: process.Exit{Code: 1}, state: "failed", class: "quota", terminal: "api_error"},
	{name: "429-recovered", state: "success", terminal: "success"},
	{name: "500-max-retries-2", exit: process.Exit{Code: 1}, state: "failed", class: "agent_error", terminal: "api_error"},
	{name: "500-recovered", state: "success", terminal: "success"},
	{name: "529-max-retries-2", exit: process.Exit{Code: 1}, state: "failed", class: "agent_error", terminal: "api_error"},
	{name: "bash-allowed", state: "success", terminal: "success"},
	{name: "bash-denied", state: "success", terminal: "success"},
	{name: "conn-refused", exit: process.Exit{Code: 1}, state: "failed", class: "agent_error", terminal: "api_error"},
	{name: "grep-glob", state: "success", terminal: "success"},
	{name: "json-schema", state: "success", terminal: "success"},
	{name: "kill-api-hang-sigint", state: "failed", class: "agent_error", terminal: "error_during_execution"},
	{name: "kill-api-hang-sigterm", exit: process.Exit{Code: 143}, state: "failed", class: "crash", terminal: "missing"},
	{name: "kill-api-retry-sigint", state: "failed", class: "agent_error", terminal: "error_during_execution"},
	{name: "kill-api-retry-sigterm", exit: process.Exit{Code: 143}, state: "failed", class: "crash", terminal: "missing"},
	{name: "kill-bash-sigint-group", state: "failed", class: "agent_error", terminal: "error_during_execution"},
	{name: "kill-bash-sigint-pid", state: "failed", class: "agent_error", terminal: "error_during_execution"},
	{name: "kill-bash-sigkill-group", exit: process.Exit{Code: 137, Signal: "SIGKILL"}, state: "failed", class: "crash", terminal: "missing"},
	{name: "kill-bash-sigterm-group", exit: process.Exit{Code: 143}, state: "failed", class: "crash", terminal: "missing"},
	{name: "kill-bash-sigterm-pid", exit: process.Exit{Code: 143}, state: "failed", class: "crash", terminal: "missing"},
	{name: "max-budget", exit: process.Exit{Code: 1}, state: "failed", class: "budget", terminal: "error_max_budget_usd"},
	{name: "max-turns", exit: process.Exit{Code: 1}, state: "failed", class: "agent_error", terminal: "error_max_turns"},
	{name: "mcp-allowed", state: "success", terminal: "success"},
	{name: "no-key", exit: process.Exit{Code: 1}, state: "failed", class: "auth", terminal: "api_error"},
	{name: "partial", state: "success", terminal: "success"},
	{name: "plain", state: "success", terminal: "success"},
	{name: "prompt-too-long", exit: process.Exit{Code: 1}, state: "failed", class: "agent_error", terminal: "prompt_too_long"},
	{name: "read", state: "success", terminal: "success"},
	{name: "recommended", state: "success", terminal: "success"},
	{name: "recommended-mcp-only", state: "success", terminal: "success"},
	{name: "stop-max-tokens", state: "success", terminal: "success"},
	{name: "stream-cut", state: "success", terminal: "success"},
	{name: "write-allowed", state: "success", terminal: "success"},
	{name: "write-denied", state: "success", terminal: "success"},
}

func TestClaudeCaptures(t *testing.T) {
	files, err := filepath.Glob("testdata/claude-*.jsonl")
	if err != nil || len(files) != len(captured) {
		t.Fatalf("%d captures, %d cases: each capture needs a case (%v)", len(files), len(captured), err)
	}
	for _, c := range captured {
		t.Run(c.name, func(t *testing.T) {
			p := newClaudeParser()
			aborted := false
			for line := range bytes.Lines(capture(t, c.name)) {
				p.Stdout(bytes.TrimRight(line, "\n"), false)
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
			if r.SessionID == "" {
				t.Error("no session id")
			}
		})
	}
}

func capture(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile("testdata/claude-" + name + ".jsonl")
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestClaudeEntries(t *testing.T) {
	items := feed(newClaudeParser(), capture(t, "bash-denied"))
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

func TestClaudeHostileLines(t *testing.T) {
	p := newClaudeParser()
	for _, line := range []string{
		"", "not json", `{"type":`, `[]`, `null`, `{"type":7}`, `{"type":"assistant"}`, `{"type":"assistant","message":"text"}`,
		`{"type":"user","message":{"content":"plain text"}}`, `{"type":"system","subtype":"permission_denied","message":{}}`,
		`{"type":"result","subtype":"success","is_error":"yes"}`, strings.Repeat("[", 100_000),
		`{"type":"assistant","message":{"content":[{"type":"tool_use","id":"x","name":"Bash","input":"` + strings.Repeat("a", 1<<20) + `"}]}}`,
	} {
		for _, i := range p.Stdout([]byte(line), false) {
			raw, err := i.JSON()
			if err != nil || len(raw) > 2*maxText {
				t.Errorf("line %.40q: %d bytes, %v", line, len(raw), err)
			}
		}
	}
	if items := p.Stdout([]byte(`{"type":"assistant"`), true); len(items) != 1 || items[0].Type != nightcrier.EntryError {
		t.Errorf("a cut line gave %+v", items)
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

func FuzzClaudeParser(f *testing.F) {
	files, _ := filepath.Glob("testdata/claude-*.jsonl")
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, output []byte) {
		p := newClaudeParser()
		for _, i := range feed(p, output) {
			if _, err := i.JSON(); err != nil {
				t.Fatal(err)
			}
		}
		if r := Decide(Stop{}, p.Verdict(), process.Exit{Code: 1}, ""); r.State == nightcrier.StateSuccess {
			t.Fatalf("exit code 1 became %+v", r)
		}
	})
}
