package worker

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/clitest"
	"nightcrier.dev/nightcrier/internal/journal"
	"nightcrier.dev/nightcrier/internal/modeltest"
)

const realKey = "sk-ant-api03-the-real-key"

// claudeBench is a bench for the real CLI against a scripted model.
func claudeBench(t *testing.T, m *modeltest.Server, scenario string) *bench {
	t.Helper()
	b := newBench(t, "")
	b.spec.Executor, b.spec.Command = "claude-code", clitest.Claude(t)
	b.spec.Model, b.spec.MaxTurns = "sonnet", 10
	b.spec.ModelBaseURL = m.URL(scenario)
	b.spec.Timeout, b.spec.Grace = 60*time.Second, 5*time.Second
	b.spec.AllowedTools = []string{"Read", "Grep", "Glob", "Bash(kubectl:get*,kubectl:describe*,kubectl:logs*)"}
	b.sec.ModelAPIKey = realKey
	b.write("PROMPT.md", "Investigate the incident.\n")
	b.write("context/system-instructions.txt", "Only look.\n")
	return b
}

func TestClaudeWritesItsReport(t *testing.T) {
	m := modeltest.New(t)
	m.MustAdd(t, "report", modeltest.Scenario{Steps: []modeltest.Step{
		{Text: "First the incident.", Tools: []modeltest.ToolCall{
			{Name: "Read", Input: map[string]any{"file_path": "context/incident.json"}},
			{Name: "Bash", Input: map[string]any{"command": "kubectl delete pod x", "description": "delete"}},
			{Name: "Read", Input: map[string]any{"file_path": "/etc/shadow"}},
		}},
		{Tools: []modeltest.ToolCall{
			{Name: "Write", Input: map[string]any{"file_path": "output/investigation.md", "content": "# found it\n"}},
			{Name: "Write", Input: map[string]any{"file_path": "context/incident.json", "content": "{}"}},
		}},
		{Text: "Done."},
	}})
	b := claudeBench(t, m, "report")
	r, entries := b.run()
	if r.State != nightcrier.StateSuccess || r.TerminalEvent != "success" || r.FinalMessage != "Done." || r.SessionID == "" {
		t.Fatalf("result %+v\n%s", r, text(entries))
	}
	if got := b.read(".scratch/investigation.md"); got != "# found it\n" {
		t.Errorf("report %q\n%s", got, text(entries))
	}
	if got := b.read("context/incident.json"); got != `{"x":1}` {
		t.Errorf("the incident was changed to %q", got)
	}
	denials := 0
	for _, e := range entries {
		if e.Type == nightcrier.EntryDenial {
			denials++
		}
	}
	if denials < 2 {
		t.Errorf("%d denials in the journal:\n%s", denials, text(entries))
	}
	if r.Usage.InputTokens == 0 || r.Usage.OutputTokens == 0 || r.Usage.APIRequests == 0 {
		t.Errorf("usage %+v", r.Usage)
	}
	for _, req := range m.Requests("report") {
		if strings.Contains(req.Text, "root:") {
			t.Error("the model was shown /etc/shadow")
		}
	}
	b.noKeyLeft(t)
	t.Logf("layers %v, usage %+v", r.Layers, r.Usage)
}

// noKeyLeft looks for the real key in everything that was written.
func (b *bench) noKeyLeft(t *testing.T) {
	t.Helper()
	err := filepath.WalkDir(filepath.Dir(b.ws), func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		if strings.Contains(string(data), realKey) {
			t.Errorf("the key stands in %s", path)
		}
		return err
	})
	b.must(err)
}

func TestClaudeFailures(t *testing.T) {
	m := modeltest.New(t)
	m.MustAdd(t, "wrong-key", modeltest.Scenario{Steps: []modeltest.Step{
		{Repeat: true, Error: &modeltest.Failure{Status: 401, Message: "invalid x-api-key"}},
	}})
	for _, c := range []struct {
		scenario string
		class    nightcrier.FailureClass
	}{
		{"wrong-key", nightcrier.FailAuth}, // would be retried
		{"bad-key", nightcrier.FailAuth},
		{"quota", nightcrier.FailQuota},
	} {
		t.Run(c.scenario, func(t *testing.T) {
			b := claudeBench(t, m, c.scenario)
			r, entries := b.run()
			if r.State != nightcrier.StateFailed || r.FailureClass != c.class {
				t.Errorf("result %+v\n%s", r, text(entries))
			}
		})
	}
}

func TestClaudeIsCancelled(t *testing.T) {
	m := modeltest.New(t)
	b := claudeBench(t, m, "hang")
	b.launch()
	select {
	case <-m.Held("hang"):
	case <-time.After(60 * time.Second):
		t.Fatal("claude did not call the model")
	}
	b.must(Cancel(t.Context(), b.dir, "an engineer said so"))
	r, entries := b.follow()
	if r.State != nightcrier.StateCancelled || r.FailureReason != "an engineer said so" || r.TerminalEvent != "error_during_execution" {
		t.Errorf("result %+v\n%s", r, text(entries))
	}
	b.noneLeft()
}

func TestClaudeWithoutAKey(t *testing.T) {
	b := claudeBench(t, modeltest.New(t), "plain")
	b.sec = Secrets{}
	r, entries := b.run()
	if r.State != nightcrier.StateFailed || r.FailureClass != nightcrier.FailAuth {
		t.Errorf("result %+v\n%s", r, text(entries))
	}
	var state journal.State
	for _, e := range entries {
		if e.Type == nightcrier.EntryState {
			state, _ = journal.Decode[journal.State](e)
		}
	}
	if state.FailureClass != nightcrier.FailAuth {
		t.Errorf("last transition %+v", state)
	}
}
