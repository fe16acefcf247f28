package triage

import (
	"strings"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent"
	"nightcrier.dev/nightcrier/internal/run"
	"nightcrier.dev/nightcrier/internal/triage/prompt"
)

var preloadTags = []string{"incident", "kubernetes_cluster_access_permissions", "initial_triage_report"}

// A crash loop is investigated with all three blocks, in the place where each
// executor reads them, and the record of what was sent is what was sent.
func TestACrashLoopIsPreloaded(t *testing.T) {
	for executor, file := range map[string]string{"claude-code": "context/system-instructions.txt", "script": "PROMPT.md"} {
		t.Run(executor, func(t *testing.T) {
			b := newBench(t, executor, nil, attempt{report: "facts", result: success()})
			if inc := b.investigate(); inc.Status != nightcrier.Resolved || !strings.Contains(inc.FaultType, "CrashLoop") {
				t.Fatalf("%s ended %s: %s", inc.FaultType, inc.Status, inc.FailureReason)
			}
			system, user, sent := b.read("context/system-instructions.txt"), b.read("PROMPT.md"), b.read("prompt-sent.md")
			if !strings.Contains(sent, "\n\n"+system+"\n\n") || !strings.HasSuffix(sent, "\n\n"+user) {
				t.Error("prompt-sent.md is not both prompts, byte for byte")
			}
			for _, tag := range preloadTags {
				for place, text := range map[string]string{file: b.read(file), "prompt-sent.md": sent} {
					if strings.Count(text, "<"+tag+">\n") != 1 || strings.Count(text, "\n</"+tag+">") != 1 {
						t.Errorf("%s does not hold the block %s once", place, tag)
					}
				}
			}
		})
	}
}

// The record of what was sent says where the system prompt went, which is another place
// for each CLI.
func TestTheRecordSaysWhereTheSystemPromptWent(t *testing.T) {
	places := map[string]string{run.Builtin: "not sent: there is no agent"}
	for _, e := range append(agent.CLIs(), executorNamed(t, "script")) {
		places[e.Name] = e.Instructions
	}
	for executor, place := range places {
		t.Run(executor, func(t *testing.T) {
			t.Parallel()
			var attempts []attempt
			if executor != run.Builtin {
				attempts = []attempt{{report: "facts", result: success()}}
			}
			b := newBench(t, executor, nil, attempts...)
			b.investigate()
			if sent := b.read("prompt-sent.md"); place == "" || !strings.HasPrefix(sent, "# System prompt ("+place+")\n\n") {
				t.Errorf("prompt-sent.md begins with %.100q, want %q", sent, place)
			}
		})
	}
}

func executorNamed(t *testing.T, name string) agent.Executor {
	t.Helper()
	e, err := agent.For(name)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// What the preload saves an agent: the reads that lead to the cause were made, and
// the cause is named before its first turn. Without it, the agent begins with the
// object's name. The cost in tokens stays within the budget.
func TestWhatThePreloadSaves(t *testing.T) {
	investigate := func(preload bool) (sent string, rep nightcrier.Report) {
		b := newBench(t, "script", nil, attempt{report: "facts", result: success()})
		b.investigateWith(agent.Spec{Preload: preload, Timeout: time.Minute})
		return b.read("prompt-sent.md"), b.report()
	}
	with, rep := investigate(true)
	without, _ := investigate(false)
	if rep.RootCause == nil || rep.Usage.APIRequests == 0 {
		t.Fatalf("cause %+v after %d reads", rep.RootCause, rep.Usage.APIRequests)
	}
	t.Logf("with the preload: %d tokens, %d reads made, %d facts given, cause %s named; without: %d tokens, none of it",
		prompt.Tokens(with), rep.Usage.APIRequests, len(rep.Facts), rep.RootCause.Cause, prompt.Tokens(without))
	if !strings.Contains(with, rep.RootCause.Cause) || strings.Contains(without, rep.RootCause.Cause) {
		t.Error("the cause must be in the prompt with the preload, and not without it")
	}
	if facts := strings.Count(with, "[FACT-"); facts < len(rep.Facts) {
		t.Errorf("%d of %d facts are in the prompt", facts, len(rep.Facts))
	}
	if more := prompt.Tokens(with) - prompt.Tokens(without); more <= 0 || more > 10_000 {
		t.Errorf("the preload costs %d tokens", more)
	}
	if !strings.Contains(without, "<incident>") {
		t.Error("the incident itself is never left out")
	}
}
