package worker

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/fake/fakemodel"
	"nightcrier.dev/nightcrier/internal/guard/budget"
	"nightcrier.dev/nightcrier/internal/guard/toolserver"
	"nightcrier.dev/nightcrier/internal/test/testproc"
)

// loopBench is a bench with one of our own agents, whose model is scripted.
type loopBench struct {
	*bench
	model *fakemodel.Server
}

func newLoop(t *testing.T, executor string, provider nightcrier.Provider, steps ...fakemodel.Step) *loopBench {
	t.Helper()
	m := fakemodel.New(t)
	m.MustAdd(t, "it", fakemodel.Scenario{Steps: steps, WithoutTools: "script"})
	b := newBench(t, "")
	b.program = testproc.Self()
	b.spec.Executor, b.spec.Provider, b.spec.Model, b.spec.BaseURL = executor, provider, "scripted", m.URL("it")
	b.spec.Timeout, b.spec.MaxTurns = patience, 10
	b.sec.ModelAPIKey = realKey
	b.write("PROMPT.md", "Find out whose cart is.\n")
	b.write("context/system-instructions.txt", "Only look.\n")
	self, err := os.Executable()
	b.must(err)
	b.spec.ToolServers = []toolserver.Server{{Name: "near", Command: []string{self, "strangers"}, Tools: []string{"owner"}, Timeout: 30 * time.Second}}
	return &loopBench{b, m}
}

func calls1(name string, input map[string]any) fakemodel.Step {
	return fakemodel.Step{Tools: []fakemodel.ToolCall{{Name: name, Input: input}}}
}

var loopProviders = []nightcrier.Provider{nightcrier.Anthropic, nightcrier.OpenAI, nightcrier.OpenRouter}

// Our own agent works with a server on the standard streams and with one behind HTTP, by each API
// that it speaks: what it asks goes through the guards, and is on record.
// The gates that an agent says are entries of the journal, behind its words.
func TestGatesAreJournaled(t *testing.T) {
	t.Parallel()
	b := newLoop(t, "ptc", nightcrier.Anthropic, fakemodel.Step{Text: "Gate 1: It is red. I paint it. Next I look.", Tools: []fakemodel.ToolCall{{Name: "near_owner", Input: map[string]any{"name": "cart"}}}},
		calls1("task_complete", map[string]any{"summary": "Gate 9: is no message of its own"}))
	r, entries := b.run()
	var gates []string
	for _, e := range entries {
		if e.Type == nightcrier.EntryPhase {
			gates = append(gates, string(e.Data))
		}
	}
	if r.State != nightcrier.StateSuccess || len(gates) != 1 || gates[0] != `{"gate":"It is red. I paint it. Next I look.","number":1}` {
		t.Errorf("%s: %q", r.State, gates)
	}
}

func TestPTCUsesTools(t *testing.T) {
	t.Parallel()
	for _, provider := range loopProviders {
		t.Run(string(provider), func(t *testing.T) {
			t.Parallel()
			var wrote atomic.Bool
			server := strangers("the team cart, password: hunter2-of-the-stranger\n", &wrote)
			handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, nil)
			web := httptest.NewServer(handler)
			defer web.Close()
			both := fakemodel.Step{Text: "I look.", Tools: []fakemodel.ToolCall{
				{Name: "near_owner", Input: map[string]any{"name": "cart"}}, {Name: "far_owner", Input: map[string]any{"name": "cart"}},
				{Name: "far_restart", Input: map[string]any{"name": "cart"}},
			}}
			rich := map[string]any{"title": "Cart", "status": "info", "summary": "It is the team cart's."}
			b := newLoop(t, "ptc", provider, both, calls1("task_complete", map[string]any{"summary": "It is the team cart's.", "rich_output": rich}))
			b.spec.ToolServers = append(b.spec.ToolServers, toolserver.Server{Name: "far", URL: web.URL, Tools: []string{"*"}, Timeout: 30 * time.Second})
			r, entries := b.run()
			log := text(entries)
			if r.State != nightcrier.StateSuccess || r.FinalMessage != "It is the team cart's." || r.TerminalEvent != "task_complete" || r.Usage.APIRequests != 2 {
				t.Fatalf("%+v\n%s", r, log)
			}
			if got := states(t, entries); got != "created starting running success" {
				t.Errorf("states %s", got)
			}
			last := b.model.Requests("it")[1]
			for _, want := range []string{"it says on a pipe", "the team cart, password: ", "[evidence E", "There is no tool"} {
				if !strings.Contains(last.Text, want) {
					t.Errorf("the model was not told %q:\n%s", want, last.Text)
				}
			}
			for _, want := range []string{"near_owner", "far_restart", "no tool of this name"} {
				if !strings.Contains(log, want) {
					t.Errorf("the journal lacks %q:\n%s", want, log)
				}
			}
			if wrote.Load() || strings.Contains(last.Text+log, "hunter2-of-the-stranger") {
				t.Errorf("something was written, or a secret shown:\n%s", log)
			}
			if got := b.read(".scratch/rich_output.json"); !strings.Contains(got, `"status":"info"`) {
				t.Errorf("shown to people: %s", got)
			}
			b.noneLeft()
		})
	}
}

// Without tools nothing is spent.
func TestPTCWithoutTools(t *testing.T) {
	t.Parallel()
	b := newLoop(t, "ptc", nightcrier.Anthropic, fakemodel.Step{Text: "nobody asked"})
	b.spec.ToolServers = nil
	r, _ := b.run()
	if r.State != nightcrier.StateFailed || r.FailureClass != nightcrier.FailStart || !strings.Contains(r.FailureReason, "No MCP tools discovered") || len(b.model.Requests("it")) > 0 {
		t.Errorf("%+v, after %d calls", r, len(b.model.Requests("it")))
	}
}

// A budget, the turns and the time each end it.
func TestPTCKeepsItsBounds(t *testing.T) {
	t.Parallel()
	again := calls1("near_owner", map[string]any{"name": "cart"})
	again.Repeat = true
	for name, c := range map[string]struct {
		set    func(*loopBench)
		step   fakemodel.Step
		class  nightcrier.FailureClass
		reason string
		most   int
	}{
		"dollars": {func(b *loopBench) {
			b.spec.BudgetDir, b.spec.Prices = b.ws+".budget", []string{"scripted=10/50"}
			b.spec.Budget = budget.Limits{}
			b.spec.Budget.Run.BoundMoney(0.02, "")
		}, again, nightcrier.FailBudget, "budget", 9},
		"turns": {func(b *loopBench) { b.spec.MaxTurns = 3 }, again, nightcrier.FailAgent, "did not end within agent.max_turns (3)", 3},
		"time":  {func(b *loopBench) { b.spec.Timeout = 2 * time.Second }, fakemodel.Step{Text: "never", Hold: "for-ever"}, nightcrier.FailTimeout, "did not end within 2s", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newLoop(t, "ptc", nightcrier.Anthropic, c.step)
			c.set(b)
			r, entries := b.run()
			if r.FailureClass != c.class || !strings.Contains(r.FailureReason, c.reason) || len(b.model.Requests("it")) > c.most {
				t.Errorf("%d calls, %+v\n%s", len(b.model.Requests("it")), r, text(entries))
			}
			b.noneLeft()
		})
	}
}

// Attempts without programs share a process for as long as one of them is at work. Each ends by
// itself, one can be cancelled and one destroyed, and the others go on.
func TestPTCSharesAProcess(t *testing.T) {
	t.Parallel()
	first, all := sharing(t, 6)
	pids := map[string]int{}
	for _, b := range all {
		if pids[b.process()]++; len(pids) != 1 {
			t.Fatalf("processes: %v", pids)
		}
	}
	all[1].cancel("enough")
	if r, _ := all[1].follow(); r.State != nightcrier.StateCancelled {
		t.Errorf("%+v", r)
	}
	all[2].must(all[2].workers.Destroy(t.Context(), all[2].handle()))
	if _, err := os.Stat(string(all[2].dir())); err == nil {
		t.Error("it was not destroyed")
	}
	first.model.Release("go")
	for _, i := range []int{0, 3, 4, 5} {
		if r, entries := all[i].follow(); r.State != nightcrier.StateSuccess || r.FinalMessage != "said" {
			t.Errorf("%d: %+v\n%s", i, r, text(entries))
		}
	}
}

// sharing launches attempts at one call of a model each, which is held.
func sharing(t *testing.T, n int) (first *loopBench, all []*loopBench) {
	t.Helper()
	first = newLoop(t, "llm", nightcrier.Anthropic, fakemodel.Step{Text: "said", Hold: "go"})
	for i := range n {
		b := &loopBench{first.bench, first.model}
		if i > 0 {
			own := *first.bench
			own.spec.RunID = nightcrier.NewID()
			b.bench = &own
		}
		b.spec.ToolServers = nil
		b.spec.Workspace = filepath.Join(t.TempDir(), "ws")
		b.must(os.MkdirAll(filepath.Join(b.spec.Workspace, "context"), 0o700))
		for name, text := range map[string]string{"PROMPT.md": "go", "context/system-instructions.txt": "be brief"} {
			b.must(os.WriteFile(filepath.Join(b.spec.Workspace, name), []byte(text), 0o600))
		}
		b.launch()
		all = append(all, b)
	}
	return first, all
}

// process is what says which process its worker is in.
func (b *loopBench) process() string {
	b.Helper()
	raw, err := os.ReadFile(b.dir().PathOf("pid"))
	b.must(err)
	return string(raw)
}

// A process that dies loses all attempts in it, once: launched again none of them starts anew. Their
// next attempts share no process, so that one that it dies of takes none with it again.
func TestASharedProcessThatDies(t *testing.T) {
	t.Parallel()
	first, all := sharing(t, 4)
	select {
	case <-first.model.Held("go"):
	case <-time.After(patience):
		t.Fatal("the model was not asked")
	}
	first.killWorker()
	for i, b := range all {
		b.launch()
		if r, entries := b.follow(); r.State != nightcrier.StateFailed || r.FailureClass != nightcrier.FailLost {
			t.Errorf("%d: %+v\n%s", i, r, text(entries))
		}
	}
	first.model.Release("go")
	if n := len(first.model.Requests("it")); n > len(all) {
		t.Errorf("%d calls of the model by %d attempts", n, len(all))
	}
	pids := map[string]bool{}
	for i, b := range all {
		b.spec.Attempt, b.spec.Alone = 2, true
		b.launch()
		pids[b.process()] = true
		if r, entries := b.follow(); r.State != nightcrier.StateSuccess || r.FinalMessage != "said" {
			t.Errorf("%d: %+v\n%s", i, r, text(entries))
		}
	}
	if len(pids) != len(all) {
		t.Errorf("%d processes for %d attempts", len(pids), len(all))
	}
}
