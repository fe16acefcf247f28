package agent

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/record/journal"
	"nightcrier.dev/nightcrier/internal/sandbox"
)

// capture is what the real CLI printed, by the name of its file.
func capture(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name + ".jsonl")
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// eachHasACase checks that there are as many cases as captures of a CLI.
func eachHasACase(t *testing.T, cli string, cases int) {
	t.Helper()
	files, err := filepath.Glob("testdata/" + cli + "-*.jsonl")
	if err != nil || len(files) != cases {
		t.Fatalf("%d captures, %d cases: each capture needs a case (%v)", len(files), cases, err)
	}
}

// feed has p read an output.
func feed(p Parser, output []byte) (items []journal.Item) {
	for line := range bytes.Lines(output) {
		items = append(items, p.Stdout(bytes.TrimRight(line, "\n"), false)...)
	}
	return items
}

// ending are the entries that p held back.
func ending(p Parser) []journal.Item {
	if e, ok := p.(Ender); ok {
		return e.End()
	}
	return nil
}

// staysSmall checks that a line of output becomes entries of a decent size.
func staysSmall(t *testing.T, p Parser, line string) {
	t.Helper()
	for _, i := range append(p.Stdout([]byte(line), false), ending(p)...) {
		if raw, err := i.JSON(); err != nil || len(raw) > 3*maxText {
			t.Errorf("line %.80q: %s of %d bytes, %v", line, i.Type, len(raw), err)
		}
	}
}

// Whatever an agent writes into the fields of a call, its entries are bounded, those
// too that repeat it; and a line that is too long to be read is told of.
func TestCallsAreBounded(t *testing.T) {
	big := strings.Repeat("a", 1<<20)
	for _, e := range CLIs() {
		t.Run(e.Name, func(t *testing.T) {
			lines := map[string][]string{
				"claude-code": {
					`{"type":"assistant","message":{"content":[{"type":"tool_use","id":"BIG","name":"BIG","input":{"command":"BIG"}}]}}`,
					`{"type":"system","subtype":"permission_denied","tool_name":"BIG","tool_use_id":"BIG","message":"BIG"}`,
					`{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"BIG","is_error":true,"content":"BIG"}]}}`,
				},
				"codex": {
					`{"type":"item.started","item":{"id":"BIG","type":"command_execution","command":"BIG"}}`,
					`{"type":"item.completed","item":{"id":"BIG","type":"mcp_tool_call","tool":"BIG","status":"declined","error":{"message":"BIG"}}}`,
				},
				"gemini": {
					`{"type":"tool_use","tool_name":"BIG","tool_id":"BIG","parameters":{"command":"BIG"}}`,
					`{"type":"tool_result","tool_id":"BIG","status":"error","error":{"type":"policy_violation","message":"BIG"}}`,
				},
				"goose": {
					`{"type":"message","message":{"content":[{"type":"toolRequest","id":"BIG","toolCall":{"value":{"name":"BIG","arguments":{"command":"BIG"}}}}]}}`,
					`{"type":"message","message":{"content":[{"type":"toolResponse","id":"BIG","toolResult":{"status":"error","error":"BIG"}}]}}`,
				},
			}[e.Name]
			p := e.NewParser()
			for _, line := range lines {
				staysSmall(t, p, strings.ReplaceAll(line, "BIG", big))
			}
			if len(lines) == 0 {
				t.Error("no lines: each CLI needs its own")
			}
			items := e.NewParser().Stdout([]byte(`{"type":"message"`), true)
			if len(items) != 1 || items[0].Type != nightcrier.EntryError {
				t.Errorf("a line that was cut gave %+v", items)
			}
		})
	}
}

// Each CLI has a last word. Exit code 0 without it is no success, whatever was said
// before; the same output with it is one. What prints nothing of the CLI's language is
// another program, of which no last word is known: its report decides.
func TestExitCodeZeroWithoutALastWord(t *testing.T) {
	for _, e := range CLIs() {
		t.Run(e.Name, func(t *testing.T) {
			if r := decided(e, []byte("looking\ndone\n")); e.Name != "gemini" && (r.State != nightcrier.StateSuccess || r.TerminalEvent != "missing") {
				t.Errorf("plain lines became %+v", r) // gemini, interrupted, ends so itself
			}
			files, err := filepath.Glob("testdata/" + e.Command + "-*.jsonl")
			if err != nil {
				t.Fatal(err)
			}
			successes := 0
			for _, name := range files {
				whole := capture(t, strings.TrimSuffix(filepath.Base(name), ".jsonl"))
				if decided(e, whole).State != nightcrier.StateSuccess {
					continue
				}
				successes++
				if r := decided(e, withoutLastWord(t, whole)); r.State != nightcrier.StateFailed || r.FailureClass != nightcrier.FailCrash || r.FailureReason == "" {
					t.Errorf("%s without its last word became %+v", name, r)
				}
			}
			if successes == 0 {
				t.Error("no capture is a success")
			}
		})
	}
}

// decided is what an output comes to that ends with exit code 0.
func decided(e Executor, output []byte) nightcrier.AgentResult {
	p := e.NewParser()
	feed(p, output)
	ending(p)
	return Decide(Stop{}, p.Verdict(), sandbox.Exit{}, "")
}

// withoutLastWord leaves out of an output the lines of the type of its last one.
func withoutLastWord(t *testing.T, output []byte) (kept []byte) {
	t.Helper()
	kind := func(line []byte) string {
		var l struct{ Type string }
		_ = json.Unmarshal(line, &l) // a plain line has none
		return l.Type
	}
	lines := slices.Collect(bytes.Lines(output))
	last := kind(lines[len(lines)-1])
	if last == "" {
		t.Fatalf("the output ends with %s", lines[len(lines)-1])
	}
	for _, line := range lines {
		if kind(line) != last {
			kept = append(kept, line...)
		}
	}
	return kept
}

func TestSince(t *testing.T) {
	before := nightcrier.Usage{APIRequests: 3, InputTokens: 100, OutputTokens: 10, CostUSD: 0.5}
	for name, c := range map[string]struct{ total, want nightcrier.Usage }{
		"a total":                 {nightcrier.Usage{InputTokens: 300, OutputTokens: 25, CostUSD: 0.75}, nightcrier.Usage{InputTokens: 200, OutputTokens: 15, CostUSD: 0.25}},
		"nothing more":            {nightcrier.Usage{InputTokens: 100, OutputTokens: 10, CostUSD: 0.5}, nightcrier.Usage{}},
		"less, so it is no total": {nightcrier.Usage{InputTokens: 300, OutputTokens: 5, CostUSD: 0.75}, nightcrier.Usage{InputTokens: 300, OutputTokens: 5, CostUSD: 0.75}},
		"calls are its own":       {nightcrier.Usage{APIRequests: 1, InputTokens: 100, OutputTokens: 10, CostUSD: 0.5}, nightcrier.Usage{APIRequests: 1}},
	} {
		if got := usageSince(before, c.total); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// fuzzParser feeds a CLI's parser whatever comes: its entries can be stored, and an
// agent that exited with 1 has not succeeded. more checks what holds for it besides.
func fuzzParser(f *testing.F, e Executor, more func(t *testing.T, p Parser, output []byte)) {
	files, err := filepath.Glob("testdata/" + e.Command + "-*.jsonl")
	if err != nil || len(files) == 0 {
		f.Fatalf("no captures of %s (%v)", e.Command, err)
	}
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, output []byte) {
		p := e.NewParser()
		for _, i := range append(feed(p, output), ending(p)...) {
			if _, err := i.JSON(); err != nil {
				t.Fatal(err)
			}
		}
		if r := Decide(Stop{}, p.Verdict(), sandbox.Exit{Code: 1}, ""); r.State == nightcrier.StateSuccess {
			t.Fatalf("exit code 1 became %+v", r)
		}
		if more != nil {
			more(t, p, output)
		}
	})
}
