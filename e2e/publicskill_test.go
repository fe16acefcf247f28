package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent"
	"nightcrier.dev/nightcrier/internal/agent/skill"
	"nightcrier.dev/nightcrier/internal/app"
	"nightcrier.dev/nightcrier/internal/face/api"
	"nightcrier.dev/nightcrier/internal/fake/fakemodel"
	"nightcrier.dev/nightcrier/internal/oneshot/skilltest"
	"nightcrier.dev/nightcrier/internal/test/kubetest"
	"nightcrier.dev/nightcrier/internal/test/testproc"
)

// writeFiles writes files below a directory.
func (s *site) writeFiles(dir string, files map[string]string) {
	s.Helper()
	for name, text := range files {
		at := filepath.Join(dir, name)
		s.must(os.MkdirAll(filepath.Dir(at), 0o700))
		s.must(os.WriteFile(at, []byte(text), 0o600))
	}
}

// publicSkill is one as people publish them: a SKILL.md alone, with what it refers to.
var publicSkill = map[string]string{
	"change-notes/SKILL.md": "---\nname: change-notes\ndescription: Turns a list of merged changes into notes for the users of a program.\nlicense: MIT\nallowed-tools: Bash, WebFetch\nmetadata:\n  version: \"1.4\"\n---\n" +
		"# Change notes\n\nRead `references/voice.md` first. Group what changed by who notices it, and leave out what nobody does.\n",
	"change-notes/references/voice.md": "Begin each line with a verb. Name the thing, not the ticket.\n",
	"change-notes/scripts/collect.py":  "print('changes')\n",
}

// A public skill is executed by a CLI and by our own agent: each reads what it refers to, and gets none of
// the tools that it grants itself.
func TestAPublicSkill(t *testing.T) {
	t.Parallel()
	for _, executor := range []string{"claude-code", "ptc"} {
		t.Run(executor, func(t *testing.T) {
			t.Parallel()
			who, err := agent.For(executor)
			if err != nil {
				t.Fatal(err)
			}
			h, m := handsOf(who), fakemodel.New(t)
			s := h.site(t, m, []fakemodel.Step{{Text: "replaced below"}})
			m.MustAdd(t, h.cli, fakemodel.Scenario{Answer: func(r fakemodel.Request) fakemodel.Step {
				switch {
				case r.Turn == 0:
					return fakemodel.Step{Tools: []fakemodel.ToolCall{h.read(".claude/skills/change-notes/references/voice.md")}}
				case strings.Contains(r.Text, "Name the thing, not the ticket."):
					return fakemodel.Step{Text: "- Shows the total of a cart."}
				}
				return fakemodel.Step{Text: "There is nothing to read."}
			}})
			dir := filepath.Join(filepath.Dir(s.root), "skills")
			s.writeFiles(dir, publicSkill)
			s.env["SKILLS_CACHE_DIR"] = dir
			kube := kubetest.Start(t) // our own agent works with tools alone: here with those of a cluster
			a := s.app(func(o *app.Options) {
				o.Reach = nil
				o.Config.Clusters[0].Kubeconfig = kube.ReadOnly(t)
			})
			run, err := a.StartRun(t.Context(), api.Call{Skill: "change-notes", Input: json.RawMessage(`{"cluster": "real", "changes": ["cart: show the total (#12)"]}`), By: "ann"})
			s.must(err)
			run = s.finished(a.Store().Run, run.ID)
			rows, err := a.Store().Steps(t.Context(), run.ID)
			s.must(err)
			if run.Outcome != nightcrier.StateSuccess || len(rows) != 1 || string(rows[0].Output) != `{"summary":"- Shows the total of a cart."}` {
				t.Fatalf("%s: %s, %+v", run.Outcome, run.FailureReason, rows)
			}
			first := m.Requests(h.cli)[0]
			if !strings.Contains(first.Text, "# Change notes") || strings.Contains(first.Text, "allowed-tools") {
				t.Errorf("it was told:\n%s", first.Text)
			}
			if slices.Contains(first.Tools, "WebFetch") {
				t.Errorf("it granted itself a tool: %q", first.Tools)
			}
			d, err := a.FindSkill(api.NoDomain, "change-notes")
			if err != nil || d.Version != "1.4" || !strings.Contains(strings.Join(d.Findings, "\n"), "allowed-tools") {
				t.Errorf("%+v %v", d, err)
			}
			s.noKeyIn(s.root)
		})
	}
}

// The evaluations of a skill are run by our own agent: it calls the tools that are mocked, by the wire, and
// what it spent is counted.
func TestEvaluationsOfASkill(t *testing.T) {
	t.Parallel()
	who, err := agent.For("ptc")
	if err != nil {
		t.Fatal(err)
	}
	h, m := handsOf(who), fakemodel.New(t)
	s := h.site(t, m, []fakemodel.Step{{Text: "replaced below"}})
	m.MustAdd(t, h.cli, fakemodel.Scenario{WithoutTools: "script", Answer: func(r fakemodel.Request) fakemodel.Step {
		if strings.Contains(r.Text, "# Does it fulfil the criterion?") {
			kind := strings.Contains(r.Text, `"criterion": "says what was done"`) && strings.Contains(r.Text, "The shop is deployed.")
			return fakemodel.Step{Usage: &fakemodel.Usage{Input: 1, Output: 1}, Text: fmt.Sprintf(`{"passes": %t, "why": "it names no cluster"}`, kind)}
		}
		usage := &fakemodel.Usage{Input: 1000, Output: 100}
		tool := slices.IndexFunc(r.Tools, func(name string) bool { return strings.HasSuffix(name, "kubectl_apply") })
		switch {
		case r.Turn == 0 && tool >= 0 && !strings.Contains(r.Text, "Do nothing"):
			return fakemodel.Step{Usage: usage, Tools: []fakemodel.ToolCall{{Name: r.Tools[tool], Input: map[string]any{"manifest": "kind: Deployment"}}}}
		case strings.Contains(r.Text, "deployment.apps/shop created"):
			return fakemodel.Step{Usage: usage, Tools: []fakemodel.ToolCall{{Name: "task_complete", Input: map[string]any{"summary": "The shop is deployed."}}}}
		}
		return fakemodel.Step{Usage: usage, Text: "Nothing was done."}
	}})
	dir := filepath.Join(filepath.Dir(s.root), "skills")
	s.writeFiles(dir, map[string]string{
		"shop/deployer/SKILL.md":             "---\nname: deployer\nmodel: anthropic/claude-sonnet-4-5\n---\n# Deploy\n\nApply the manifest.\n",
		"shop/deployer/agentura.config.yaml": "domain: shop\nskills: [{name: deployer, role: agent}]\nagent: {executor: ptc, max_iterations: 5}\nmcp_tools: [{server: k8s, tools: [kubectl_apply, kubectl_get]}]\n",
		"shop/deployer/evals/deploys.yaml": "prompt: Deploy the shop\nmock_tools:\n  kubectl_apply: {response: deployment.apps/shop created}\nexpected_tools: [kubectl_apply]\nforbidden_tools: [kubectl_get]\n" +
			"assertions: [{type: output-contains, value: deployed}, {type: judge, criteria: says what was done}]\n",
		"shop/deployer/evals/judged.yaml": "prompt: Deploy the shop\nmock_tools:\n  kubectl_apply: {response: deployment.apps/shop created}\n" +
			"assertions: [{type: judge, criteria: says where}]\n",
		"shop/deployer/evals/idle.yaml": "prompt: Do nothing\nexpected_tools: [kubectl_apply]\nmax_retries: 2\n",
	})
	s.env["SKILLS_CACHE_DIR"] = dir
	cfg, err := s.order().config()
	s.must(err)
	library, err := skill.Open(cfg.Skills.Options())
	s.must(err)
	sk, err := library.Find("shop/deployer")
	s.must(err)
	evals, err := sk.Evals()
	s.must(err)
	o := skilltest.Options{Config: cfg, Logger: slog.New(slog.DiscardHandler), Version: "e2e", Skill: sk, Name: "shop/deployer", WorkerCommand: []string{testproc.Self(), "worker"}}
	for _, e := range evals {
		r, err := skilltest.RunEval(t.Context(), o, e)
		s.must(err)
		switch e.Name {
		case "judged":
			if r.Passed || len(r.Failures) != 1 || r.Failures[0] != `"says where" is not so: it names no cluster` {
				t.Errorf("%+v", r)
			}
		case "deploys":
			if !r.Passed || r.Attempts != 1 || !slices.Contains(r.Called, "kubectl_apply") || !strings.Contains(string(r.Output), "The shop is deployed.") {
				t.Errorf("%+v, %s", r, r.Output)
			}
			// Two answers of 1000 tokens in and 100 out, at $3 and $15 a million.
			if r.CostUSD < 0.0089 || r.CostUSD > 0.0091 {
				t.Errorf("it cost $%f", r.CostUSD)
			}
		default:
			if r.Passed || r.Attempts != 2 || !slices.Contains(r.Failures, "kubectl_apply was not called") || r.CostUSD == 0 {
				t.Errorf("%+v", r)
			}
		}
	}
}

// finished waits for the end of a run.
func (s *site) finished(read func(context.Context, string) (nightcrier.Run, error), id string) (run nightcrier.Run) {
	s.Helper()
	s.eventually(func() string {
		var err error
		run, err = read(s.Context(), id)
		s.must(err)
		if run.Status != nightcrier.Finished {
			return "the run is " + string(run.Status)
		}
		return ""
	})
	return run
}

// What an index shows is said in words by a model, in a run of a skill that is part of the product.
func TestAModelDescribesAService(t *testing.T) {
	t.Parallel()
	m := fakemodel.New(t)
	m.MustAdd(t, "it", fakemodel.Scenario{WithoutTools: "script", Steps: []fakemodel.Step{
		{Text: "It is a shop."},
		{Text: "```json\n{\"service\": \"It keeps carts.\", \"modules\": \"main\", \"api\": \"carts\", \"tests\": \"none\"}\n```"},
	}})
	s := newRealSite(t)
	s.env["ANTHROPIC_API_KEY"], s.env["ANTHROPIC_BASE_URL"] = realKey, m.URL("it")
	cfg, err := s.order().config()
	s.must(err)
	o := skilltest.Options{Config: cfg, Logger: slog.New(slog.DiscardHandler), Version: "e2e", Name: "platform/service-writer", WorkerCommand: []string{testproc.Self(), "worker"}}
	out, err := skilltest.RunSkill(t.Context(), o, map[string]any{"name": "cart", "modules": []string{"main"}})
	if err != nil || !strings.Contains(string(out), `"service":"It keeps carts."`) && !strings.Contains(string(out), `"service": "It keeps carts."`) {
		t.Fatalf("%s, %v", out, err)
	}
	first := m.Requests("it")[0]
	if first.Model != "claude-haiku-4-5" || !strings.Contains(first.Text, "# What is this service?") || !strings.Contains(first.Text, `"name": "cart"`) {
		t.Errorf("%s was asked:\n%s", first.Model, first.Text)
	}
}
