package agent

import (
	"strings"
	"testing"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/record/journal"
	"nightcrier.dev/nightcrier/internal/sandbox"
)

// gooseCaptured are outputs of the real CLI with the exit code that it had.
var gooseCaptured = []struct {
	name     string
	exit     sandbox.Exit
	state    nightcrier.State
	class    nightcrier.FailureClass
	terminal string
	final    string
	entries  string
}{
	{name: "401", exit: sandbox.Exit{Code: 1}, state: "failed", class: "auth", terminal: "error", entries: "error"},
	{name: "401-openai", exit: sandbox.Exit{Code: 1}, state: "failed", class: "auth", terminal: "error", entries: "error"},
	{name: "402", state: "failed", class: "quota", terminal: "error", entries: "error usage"},
	{name: "403", exit: sandbox.Exit{Code: 1}, state: "failed", class: "auth", terminal: "error", entries: "error"},
	{name: "429", state: "failed", class: "quota", terminal: "error", entries: "error usage"},
	{name: "500", state: "failed", class: "agent_error", terminal: "error", entries: "error usage"},
	{name: "cost", state: "success", terminal: "complete", final: "one", entries: "message usage"},
	{name: "max-turns", state: "failed", class: "agent_error", terminal: "max_turns", final: "again"},
	{name: "mcp-approve", state: "success", terminal: "complete", final: "done",
		entries: "message tool_call tool_result message tool_call denial tool_result message usage"},
	{name: "mcp-auto", state: "success", terminal: "complete", final: "done",
		entries: "message tool_call tool_result message tool_call tool_result message usage"},
	{name: "mcp-smart_approve", exit: sandbox.Exit{Code: 1}, state: "failed", class: "agent_error", terminal: "missing", final: "r2"},
	{name: "mode-approve", exit: sandbox.Exit{Code: 1}, state: "failed", class: "agent_error", terminal: "missing", final: "r", entries: "message tool_call"},
	{name: "mode-auto", state: "success", terminal: "complete", final: "FAKELLM: script exhausted."},
	{name: "mode-chat", state: "success", terminal: "complete", final: "FAKELLM: script exhausted."},
	{name: "mode-smart_approve", exit: sandbox.Exit{Code: 1}, state: "failed", class: "agent_error", terminal: "missing", final: "r"},
	{name: "not-offered", state: "success", terminal: "complete", final: "Nothing of that is mine to do.",
		entries: "message tool_call tool_result message tool_call denial tool_result tool_call denial tool_result message usage"},
	{name: "not-offered-openai", state: "success", terminal: "complete", final: "Nothing of that is mine to do.",
		entries: "message tool_call tool_result message tool_call denial tool_result tool_call denial tool_result message usage"},
	{name: "plain-anthropic", state: "success", terminal: "complete", final: "Plain answer.", entries: "log log log message usage"},
	{name: "plain-openai", state: "success", terminal: "complete", final: "Plain answer.", entries: "log log log message usage"},
	{name: "prompt-too-long", state: "failed", class: "agent_error", terminal: "error", entries: "log log error usage"},
	{name: "recommended", state: "success", terminal: "complete", final: "done"},
	{name: "sigint", exit: sandbox.Exit{Code: 1}, state: "failed", class: "agent_error", terminal: "error", entries: "log error"},
	{name: "stream-cut", state: "failed", class: "agent_error", terminal: "error", final: "This answer arrives whol", entries: "message error usage"},
}

// types names the entries in order.
func types(items []journal.Item) string {
	var names []string
	for _, i := range items {
		names = append(names, string(i.Type))
	}
	return strings.Join(names, " ")
}

// whole feeds an output and takes what was held back.
func whole(p *gooseParser, output []byte) []journal.Item {
	items := feed(p, output)
	return append(items, p.End()...)
}

func TestGooseCaptures(t *testing.T) {
	eachHasACase(t, "goose", len(gooseCaptured))
	for _, c := range gooseCaptured {
		t.Run(c.name, func(t *testing.T) {
			p := newGooseParser()
			items := whole(p, capture(t, "goose-"+c.name))
			r := Decide(Stop{}, p.Verdict(), c.exit, "")
			if r.State != c.state || r.FailureClass != c.class || r.TerminalEvent != c.terminal {
				t.Errorf("got %s %q %q, want %s %q %q", r.State, r.FailureClass, r.TerminalEvent, c.state, c.class, c.terminal)
			}
			if (r.FailureReason == "") != (c.state == "success") {
				t.Errorf("reason %q", r.FailureReason)
			}
			if r.FinalMessage != c.final {
				t.Errorf("final message %q, want %q", r.FinalMessage, c.final)
			}
			if got := types(items); c.entries != "" && got != c.entries {
				t.Errorf("entries %s\nwant    %s", got, c.entries)
			}
			if (r.SessionID == "") != (c.name == "sigint") {
				t.Errorf("session %q", r.SessionID)
			}
		})
	}
}

func TestGooseEntries(t *testing.T) {
	items := whole(newGooseParser(), capture(t, "goose-not-offered"))
	if m := items[0].Data.(journal.Message); m.Role != "assistant" || m.Text != "First I look." {
		t.Errorf("the pieces of a message became %+v", m)
	}
	if r := items[2].Data.(journal.ToolResult); r.Tool != "kubernetes__pods_list" || r.Error || r.Text != "RESULT pods_list a" {
		t.Errorf("tool result %+v", r)
	}
	if d := items[5].Data.(journal.Denial); d.Tool != "kubernetes__pods_delete" || !strings.Contains(d.Message, "not advertised") {
		t.Errorf("denial %+v", d)
	}
	if r := items[6].Data.(journal.ToolResult); r.Tool != "kubernetes__pods_delete" || !r.Error {
		t.Errorf("tool result %+v", r)
	}
	if u := items[len(items)-1].Data.(nightcrier.Usage); u.InputTokens != 270 || u.OutputTokens != 79 {
		t.Errorf("usage %+v", u)
	}
	items = whole(newGooseParser(), capture(t, "goose-mcp-approve"))
	if d := items[5].Data.(journal.Denial); d.Tool != "127_0_0_1_9912_mcp__pods_delete" || d.ID == "" {
		t.Errorf("denial %+v", d)
	}
	items = whole(newGooseParser(), capture(t, "goose-mode-auto"))
	if c := items[1].Data.(journal.ToolCall); c.Tool != "shell" || !strings.HasPrefix(c.Command, "kubectl get pods; kubectl delete") {
		t.Errorf("tool call %+v", c)
	}
	if u := whole(newGooseParser(), capture(t, "goose-cost"))[1].Data.(nightcrier.Usage); u.CostUSD != 0.000144 {
		t.Errorf("usage %+v", u)
	}
}

// A session that is gone on with counts from its beginning.
func TestGooseResumedUsage(t *testing.T) {
	p := newGooseParser()
	p.Resumed(nightcrier.Usage{InputTokens: 200, OutputTokens: 70})
	whole(p, capture(t, "goose-not-offered"))
	if u := p.Verdict().Usage; u.InputTokens != 70 || u.OutputTokens != 9 {
		t.Errorf("usage %+v", u)
	}
}

// What the model says cannot be taken for the CLI's own word, and the CLI's own word
// is a failure only where the model says nothing after it.
func TestGooseWhoseWord(t *testing.T) {
	model := func(text string) string {
		return `{"type":"message","message":{"id":"m` + text + `","role":"assistant","content":[{"type":"text","text":"` + text + `"}],"metadata":{"inference":{"provider":"x"}}}}` + "\n"
	}
	own := func(text string) string {
		return `{"type":"message","message":{"id":"o","role":"assistant","content":[{"type":"text","text":"` + text + `"}],"metadata":{}}}` + "\n"
	}
	const complete = `{"type":"complete","output_tokens":1}` + "\n"
	const uncounted = `{"type":"complete","output_tokens":0}` + "\n"
	for _, c := range []struct {
		name, output string
		failed       bool
		final        string
	}{
		{"a model that quotes an error", model("Ran into this error: Authentication error") + complete, false, "Ran into this error: Authentication error"},
		{"an error and then an answer", model("a") + own("Network error: x") + model("b") + complete, false, "b"},
		{"an answer and then an error", model("a") + own("Ran into this error: Rate limit exceeded: x") + complete, true, "a"},
		{"a word that we do not know", model("a") + own("I have stopped for a reason.") + complete, true, "a"},
		{"a version that names no model", own("the report") + complete, false, "the report"},
		{"half an answer", model("a") + uncounted, true, "a"},
		{"nothing said", uncounted, true, ""},
		{"an interrupt in mid-word", model("a") + `half a line {"type":"error","error":"Headless run interrupted"}`, true, "a"},
		{"an answer that looks like an event", model(`{\"type\":\"error\",\"error\":\"x\"}`) + complete, false, `{"type":"error","error":"x"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newGooseParser()
			whole(p, []byte(c.output))
			if v := p.Verdict(); v.Failed != c.failed || v.FinalMessage != c.final || v.Failed != (v.Reason != "") {
				t.Errorf("verdict %+v", v)
			}
		})
	}
}

// A message that never ends is journaled as it comes, and bounded as a result.
func TestGooseEndlessMessage(t *testing.T) {
	p := newGooseParser()
	piece := []byte(`{"type":"message","message":{"id":"m","role":"assistant","content":[{"type":"text","text":"` + strings.Repeat("é", 5000) + `"}],"metadata":{"inference":{}}}}`)
	total := 0
	for range 100 {
		for _, i := range p.Stdout(piece, false) {
			n := len(i.Data.(journal.Message).Text)
			if n > maxText {
				t.Fatalf("an entry of %d bytes", n)
			}
			total += n
		}
	}
	if total == 0 || p.said.Len() > maxText || len(p.Verdict().FinalMessage) > maxFinal {
		t.Errorf("%d bytes journaled, %d held, final message of %d", total, p.said.Len(), len(p.Verdict().FinalMessage))
	}
}

func TestGooseHostileLines(t *testing.T) {
	p := newGooseParser()
	big := strings.Repeat("a", 1<<20)
	for _, line := range []string{
		"", "not json", `{"type":`, `[]`, `null`, `{"type":7}`, `{"type":"message"}`, `{"type":"message","message":"text"}`,
		`{"type":"message","message":{"content":"plain"}}`, `{"type":"message","message":{"content":[7,null,"x",{}]}}`,
		`{"type":"message","message":{"content":[{"type":"toolResponse","toolResult":"x"}]}}`,
		`{"type":"complete","input_tokens":-5,"output_tokens":"x"}`, strings.Repeat("[", 100_000),
		`{"type":"error","error":"` + big + `"}`,
		`{"type":"message","message":{"content":[{"type":"systemNotification","msg":"` + big + `"}]}}`,
		`{"type":"message","message":{"content":[{"type":"error","kind":"` + big + `","message":"` + big + `"}]}}`,
		`{"type":"message","message":{"role":"` + big[:100] + `","content":[{"type":"text","text":"` + big + `"}]}}`,
		`{"type":"message","message":{"content":[{"type":"toolRequest","id":"` + big + `","toolCall":{"value":{"name":"` + big + `","arguments":{"command":"` + big + `"}}}}]}}`,
		`{"type":"message","message":{"content":[{"type":"toolRequest","id":"x","toolCall":{"status":"error","error":"Tool '` + big[:200] + `' was not advertised ` + big + `"}}]}}`,
		`{"type":"message","message":{"content":[{"type":"toolResponse","id":"x","toolResult":{"status":"error","error":"` + big + `"}}]}}`,
	} {
		staysSmall(t, p, line)
	}
}

func FuzzGooseParser(f *testing.F) { fuzzParser(f, gooseExecutor(), nil) }
