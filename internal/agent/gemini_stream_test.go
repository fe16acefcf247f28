package agent

import (
	"bytes"
	"strings"
	"testing"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/record/journal"
	"nightcrier.dev/nightcrier/internal/sandbox"
)

// geminiCaptured are outputs of the real CLI with the exit code that it had: an
// HTTP status modulo 256 after a failure of the API.
var geminiCaptured = []struct {
	name     string
	exit     int
	state    nightcrier.State
	class    nightcrier.FailureClass
	terminal string
	status   int
	denials  int
	final    string
}{
	{name: "400", exit: 144, state: "failed", class: "auth", terminal: "error", status: 400},
	{name: "401", exit: 145, state: "failed", class: "auth", terminal: "error", status: 401},
	{name: "429", exit: 173, state: "failed", class: "quota", terminal: "error"},
	{name: "500", exit: 244, state: "failed", class: "agent_error", terminal: "error", status: 500},
	{name: "loop", state: "failed", class: "agent_error", terminal: "loop"},
	{name: "max-turns", exit: 53, state: "failed", class: "agent_error", terminal: "max_turns"},
	{name: "mcp", state: "success", terminal: "success", denials: 1, final: "done"},
	{name: "plain", state: "success", terminal: "success", final: "Plain answer."},
	{name: "recommended", state: "success", terminal: "success", denials: 1, final: "done"},
	{name: "sigint", state: "failed", class: "crash", terminal: "missing"},
	{name: "tools-default", state: "success", terminal: "success", denials: 3, final: "done"},
}

func TestGeminiCaptures(t *testing.T) {
	eachHasACase(t, "gemini", len(geminiCaptured))
	for _, c := range geminiCaptured {
		t.Run(c.name, func(t *testing.T) {
			p := newGeminiParser()
			items := feed(p, capture(t, "gemini-"+c.name))
			r := Decide(Stop{}, p.Verdict(), sandbox.Exit{Code: c.exit}, "")
			if r.State != c.state || r.FailureClass != c.class || r.TerminalEvent != c.terminal || r.FinalMessage != c.final {
				t.Errorf("got %s %q %q %q", r.State, r.FailureClass, r.TerminalEvent, r.FinalMessage)
			}
			if (r.FailureReason == "") != (c.state == "success") || r.SessionID == "" || p.Abort() {
				t.Errorf("reason %q, session %q", r.FailureReason, r.SessionID)
			}
			denials := 0
			for _, i := range items {
				if d, ok := i.Data.(journal.Denial); ok {
					denials++
					if d.Tool == "" || d.Message == "" {
						t.Errorf("denial %+v", d)
					}
				}
				if e, ok := i.Data.(journal.Error); ok && e.FailureClass != "" && (e.HTTPStatus != c.status || e.FailureClass != c.class) {
					t.Errorf("error %+v", e)
				}
			}
			if denials != c.denials {
				t.Errorf("%d denials, want %d", denials, c.denials)
			}
			if c.state == "success" && (r.Usage.InputTokens == 0 || r.Usage.OutputTokens == 0) {
				t.Errorf("usage %+v", r.Usage)
			}
		})
	}
}

func TestGeminiEntries(t *testing.T) {
	items := feed(newGeminiParser(), capture(t, "gemini-recommended"))
	var types []string
	for _, i := range items {
		types = append(types, string(i.Type))
	}
	if got, want := strings.Join(types, " "), "message tool_call tool_call tool_call tool_result tool_result denial tool_result message usage"; got != want {
		t.Fatalf("entries %s, want %s", got, want)
	}
	if call := items[1].Data.(journal.ToolCall); call.Tool != "run_shell_command" || call.Command != "kubectl get pods" {
		t.Errorf("call %+v", call)
	}
	if d := items[6].Data.(journal.Denial); d.Command != "kubectl delete pod x" || d.Message != "Tool execution denied by policy." {
		t.Errorf("denial %+v", d)
	}
	if r := items[7].Data.(journal.ToolResult); !r.Error || r.Command != "kubectl delete pod x" || r.Tool != "run_shell_command" {
		t.Errorf("result %+v", r)
	}
	if u := items[9].Data.(nightcrier.Usage); u.InputTokens != 2000 || u.OutputTokens != 100 || u.DurationMS != 111 {
		t.Errorf("usage %+v", u)
	}
}

// Pieces become one message, whose end is what follows it; a long one is told
// while it grows, and what an interrupted agent had begun to say is not lost.
func TestGeminiPieces(t *testing.T) {
	say := func(text string) string {
		return `{"type":"message","role":"assistant","content":"` + text + `","delta":true}` + "\n"
	}
	p := newGeminiParser()
	items := feed(p, []byte(say("one ")+say("two")+`{"type":"tool_use","tool_name":"x","tool_id":"1"}`+"\n"+say("th")+say("ree")))
	if len(items) != 2 || items[0].Data.(journal.Message).Text != "one two" {
		t.Errorf("%+v", items)
	}
	if end := p.End(); len(end) != 1 || end[0].Data.(journal.Message).Text != "three" || p.End() != nil {
		t.Errorf("at the end %+v", end)
	}
	if got := p.Verdict().FinalMessage; got != "three" {
		t.Errorf("final message %q", got)
	}
	grown := feed(p, []byte(strings.Repeat(say(strings.Repeat("x", 1000)), 1000)))
	if len(grown) < 100 || len(grown) > 300 || len(p.Verdict().FinalMessage) > maxFinal {
		t.Errorf("%d entries, %d bytes kept", len(grown), len(p.Verdict().FinalMessage))
	}
}

// The words of failures that no capture has.
func TestGeminiFailures(t *testing.T) {
	for _, c := range []struct {
		lines, class, terminal, reason string
	}{
		{`{"type":"result","status":"error","error":{"type":"FatalTurnLimitedError","message":"Reached max session turns for this session. Increase"}}`, "agent_error", "max_turns", "Reached max"},
		{`{"type":"error","severity":"error","message":"the model said nothing"}` + "\n" + `{"type":"result","status":"error"}`, "agent_error", "error", "the model said nothing"},
		{`{"type":"error","severity":"warning","message":"Loop detected, stopping execution"}` + "\n" + `{"type":"result","status":"success"}`, "agent_error", "loop", "Loop detected"},
		{`{"type":"result","status":"error"}`, "agent_error", "error", "does not name"},
		{`{"type":"result","status":"error","error":{"message":"[API Error: {\"error\":{\"code\":403,\"status\":\"PERMISSION_DENIED\"}}]"}}`, "auth", "error", "PERMISSION"},
		{`{"type":"result","status":"error","error":{"message":"[API Error: You have exhausted your daily quota on this model.]"}}`, "quota", "error", "daily"},
		{`{"type":"result","status":"success"}` + "\n" + `{"type":"result","status":"error","error":{"message":"late"}}`, "agent_error", "error", "late"},
	} {
		p := newGeminiParser()
		feed(p, []byte(c.lines+"\n"))
		r := Decide(Stop{}, p.Verdict(), sandbox.Exit{Code: 1}, "")
		if string(r.FailureClass) != c.class || r.TerminalEvent != c.terminal || !strings.Contains(r.FailureReason, c.reason) {
			t.Errorf("%s: %+v", c.lines, r)
		}
	}
}

// An agent that ends without its last word has not succeeded, whatever its code.
func TestGeminiSaysWhenItIsDone(t *testing.T) {
	for _, c := range []struct {
		output string
		exit   sandbox.Exit
		class  nightcrier.FailureClass
	}{
		{"", sandbox.Exit{}, nightcrier.FailCrash},
		{`{"type":"init","session_id":"s"}` + "\n", sandbox.Exit{}, nightcrier.FailCrash},
		{`{"type":"init","session_id":"s"}` + "\n", sandbox.Exit{Code: 137, Signal: "SIGKILL"}, nightcrier.FailCrash},
		{"", sandbox.Exit{Code: 41}, nightcrier.FailStart},
		{"", sandbox.Exit{Code: 55}, nightcrier.FailStart},
	} {
		p := newGeminiParser()
		feed(p, []byte(c.output))
		if r := Decide(Stop{}, p.Verdict(), c.exit, "what it complained of"); r.State != nightcrier.StateFailed || r.FailureClass != c.class || r.FailureReason == "" {
			t.Errorf("%q %+v: %+v", c.output, c.exit, r)
		}
	}
	ours := Stop{State: nightcrier.StateCancelled, Class: nightcrier.FailCancelled, Reason: "an engineer"}
	if r := Decide(ours, newGeminiParser().Verdict(), sandbox.Exit{}, ""); r.State != nightcrier.StateCancelled {
		t.Errorf("%+v", r)
	}
}

func TestGeminiHostileLines(t *testing.T) {
	p := newGeminiParser()
	for _, line := range []string{
		"", "not json", `{"type":`, `[]`, `null`, `{"type":7}`, `{"type":"message"}`, `{"type":"message","role":"assistant","content":7}`,
		`{"type":"tool_use","parameters":"text"}`, `{"type":"tool_result","status":7,"error":"x"}`, `{"type":"result","stats":[]}`, strings.Repeat("[", 100_000),
		`{"type":"result","status":"success","stats":{"input_tokens":-5,"output_tokens":"much"}}`,
		`{"type":"tool_use","tool_name":"x","tool_id":"1","parameters":"` + strings.Repeat("a", 1<<20) + `"}`,
		`{"type":"tool_result","tool_id":"1","status":"error","error":{"type":"policy_violation","message":"` + strings.Repeat("a", 1<<20) + `"}}`,
		`{"type":"message","role":"assistant","content":"` + strings.Repeat("a", 1<<20) + `"}`,
		`{"type":"error","message":"` + strings.Repeat("a", 1<<20) + `"}`,
	} {
		staysSmall(t, p, line)
	}
}

func FuzzGeminiParser(f *testing.F) {
	fuzzParser(f, geminiExecutor(), func(t *testing.T, p Parser, output []byte) {
		finished := bytes.Contains(output, []byte("result")) || bytes.Contains(output, []byte(`\u`))
		if r := Decide(Stop{}, p.Verdict(), sandbox.Exit{}, ""); r.State == nightcrier.StateSuccess && !finished {
			t.Fatalf("no result became %+v", r)
		}
	})
}
