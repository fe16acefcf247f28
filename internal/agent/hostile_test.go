package agent

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/record/journal"
	"nightcrier.dev/nightcrier/internal/sandbox"
)

// A result is a checkpoint and a row: an agent that prints megabytes where a
// word belongs does not get them there.
func TestResultIsBounded(t *testing.T) {
	big := strings.Repeat("x", 1<<20)
	for _, line := range []string{
		fmt.Sprintf(`{"type":"result","subtype":%q,"session_id":%q,"result":%q,"errors":[%q],"is_error":true}`, big, big, big, big),
		fmt.Sprintf(`{"type":"result","subtype":"success","terminal_reason":%q,"session_id":%q,"is_error":true}`, big, big),
		fmt.Sprintf(`{"type":"result","subtype":"success","session_id":%q,"result":%q}`, big, big),
	} {
		p := newClaudeParser()
		p.Stdout([]byte(line), false)
		r := Decide(Stop{}, p.Verdict(), sandbox.Exit{}, "")
		if len(r.SessionID)+len(r.TerminalEvent)+len(r.FailureReason) > 4<<10 || len(r.FinalMessage) > maxFinal+8 {
			t.Errorf("session %d, terminal %d, reason %d, message %d bytes", len(r.SessionID), len(r.TerminalEvent), len(r.FailureReason), len(r.FinalMessage))
		}
	}
}

// hostile is what an agent prints that does not mean well, in the words of its CLI.
var hostile = map[string]struct {
	// call is a tool's call with an id, a command and an input; denied one that was
	// refused; used its last word, with tokens in, tokens out and dollars.
	call, denied, used string
}{
	"claude-code": {
		`{"type":"assistant","message":{"content":[{"type":"tool_use","id":%q,"name":"Bash","input":{"command":%q,"x":%s}}]}}`,
		`{"type":"system","subtype":"permission_denied","tool_use_id":%q}`,
		`{"type":"result","subtype":"success","num_turns":%[1]d,"duration_ms":%[1]d,"modelUsage":{"a":{"inputTokens":%[1]d,"cacheReadInputTokens":%[1]d,"outputTokens":%[2]d},"b":{"inputTokens":%[1]d,"outputTokens":%[2]d}},"total_cost_usd":%[3]g}`,
	},
	"codex": {
		`{"type":"item.started","item":{"id":%q,"type":"mcp_tool_call","command":%q,"arguments":%s}}`,
		`{"type":"item.completed","item":{"id":%q,"type":"mcp_tool_call","status":"declined"}}`,
		`{"type":"turn.completed","usage":{"input_tokens":%d,"output_tokens":%d,"cost":%g}}`,
	},
	"gemini": {
		`{"type":"tool_use","tool_id":%q,"tool_name":"run_shell_command","parameters":{"command":%q,"x":%s}}`,
		`{"type":"tool_result","tool_id":%q,"status":"error","error":{"type":"policy_violation"}}`,
		`{"type":"result","status":"success","stats":{"input_tokens":%[1]d,"output_tokens":%[2]d,"total_tokens":%[2]d,"duration_ms":%[1]d,"cost":%[3]g}}`,
	},
	"goose": {
		`{"type":"message","message":{"role":"assistant","content":[{"type":"toolRequest","id":%q,"toolCall":{"status":"success","value":{"name":"x","arguments":{"command":%q,"x":%s}}}}]}}`,
		`{"type":"message","message":{"role":"user","content":[{"type":"toolResponse","id":%q,"toolResult":{"status":"error","error":"The user has declined to run this tool."}}]}}`,
		`{"type":"complete","input_tokens":%d,"output_tokens":%d,"cost_usd":%g}`,
	},
}

// What an agent says that it used is added up, subtracted and counted: no number of
// it ends in one that cannot be.
func TestFalseUsage(t *testing.T) {
	for _, e := range CLIs() {
		for _, in := range []int64{math.MinInt64, -1, 0, math.MaxInt64} {
			for _, out := range []int64{math.MinInt64, -7, math.MaxInt64} {
				for _, cost := range []float64{-math.MaxFloat64, -1, math.MaxFloat64} {
					line := fmt.Sprintf(hostile[e.Name].used, in, out, cost)
					p := e.NewParser()
					items := p.Stdout([]byte(line), false)
					first := Decide(Stop{}, p.Verdict(), sandbox.Exit{}, "")
					p = e.NewParser()
					if r, ok := p.(Resumed); ok {
						r.Resumed(first.Usage)
					}
					for _, again := range []string{line, fmt.Sprintf(hostile[e.Name].used, -in, -out, -cost)} {
						items = append(items, p.Stdout([]byte(again), false)...)
						second := Decide(Stop{}, p.Verdict(), sandbox.Exit{}, "")
						items = append(items, journal.OfUsage(second.Usage), journal.OfUsage(first.Usage.Plus(second.Usage)))
					}
					for _, i := range items {
						u, ok := i.Data.(nightcrier.Usage)
						if _, err := i.JSON(); err != nil || ok && (u.APIRequests < 0 || u.InputTokens < 0 || u.OutputTokens < 0 || u.CostUSD < 0 || u.DurationMS < 0) {
							t.Errorf("%s: %s becomes %+v (%v)", e.Name, line, u, err)
						}
					}
				}
			}
		}
	}
}

// An input that can just be read stays readable where it stands deeper: in a journal,
// and in a list of its entries.
func TestDeepInput(t *testing.T) {
	for _, e := range CLIs() {
		read := 0
		for depth := 9_980; depth <= 10_000; depth++ {
			line := fmt.Sprintf(hostile[e.Name].call, "x", "y", strings.Repeat("[", depth)+strings.Repeat("]", depth))
			for _, i := range e.NewParser().Stdout([]byte(line), false) {
				data, err := i.JSON()
				if err != nil {
					t.Fatalf("%s, %d deep: %v", e.Name, depth, err)
				}
				if i.Type == nightcrier.EntryToolCall {
					read++
				}
				whole, err := json.Marshal(map[string]any{"entries": []any{nightcrier.JournalEntry{Data: data}}})
				if err != nil || !json.Valid(whole) {
					t.Errorf("%s, %d deep: the journal cannot be read: %v", e.Name, depth, err)
				}
			}
		}
		if read == 0 {
			t.Errorf("%s: no call was read", e.Name)
		}
	}
}

// One long command, refused again and again in few words, fills no disk.
func TestRepeatedDenials(t *testing.T) {
	for _, e := range CLIs() {
		p := e.NewParser()
		lines, entries, denials := 0, 0, 0
		print := func(line string) {
			lines += len(line)
			for _, i := range p.Stdout([]byte(line), false) {
				data, err := i.JSON()
				if err != nil {
					t.Fatal(err)
				}
				entries += len(data)
				if i.Type == nightcrier.EntryDenial {
					denials++
				}
			}
		}
		print(fmt.Sprintf(hostile[e.Name].call, "x", strings.Repeat("c", 4<<20), "1"))
		for range 1000 {
			print(fmt.Sprintf(hostile[e.Name].denied, "x"))
		}
		if denials == 0 || entries > 4*lines {
			t.Errorf("%s: %d bytes of output became %d bytes of entries, %d denials", e.Name, lines, entries, denials)
		}
	}
}
