package e2e

import (
	"strings"
	"testing"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent"
	"nightcrier.dev/nightcrier/internal/app"
	"nightcrier.dev/nightcrier/internal/fake/fakemodel"
	"nightcrier.dev/nightcrier/internal/test/kubetest"
)

// Our own agent investigates a real cluster with our tools alone, and its report holds: also one that
// lacks something at first, which is asked for in the same conversation.
func TestOurOwnAgentInvestigates(t *testing.T) {
	t.Parallel()
	kube := kubetest.Start(t)
	e, err := agent.For("ptc")
	if err != nil {
		t.Fatal(err)
	}
	h := handsOf(e)
	m := fakemodel.New(t)
	s, p := h.site(t, m, []fakemodel.Step{
		{Tools: []fakemodel.ToolCall{h.read(".claude/skills/k8s-troubleshooter/SKILL.md"), h.look(thePod)}},
		{Tools: []fakemodel.ToolCall{h.look(lastWords)}},
		{Text: strings.Replace(oneFact, "## 3. Root Cause Analysis\n", "", 1)},
		{Text: oneFact},
	}), newPatient(t, kube)
	inc := s.investigate(t, p, kube.ReadOnly(t))
	rep := s.checkReport(inc, p, "agent", "permission-denied")
	if inc.Status != nightcrier.Resolved || rep.CheckedShare != 1 {
		t.Errorf("%s (%s), the fact is not seen: %+v", inc.Status, inc.FailureReason, rep.Facts)
	}
	if n := len(m.Requests("ptc")); n != 4 {
		t.Errorf("%d calls of the model, want 4", n)
	}
	s.noKeyIn(s.root)
}

// A pipeline of one call and of our own agent: what the first says, as JSON in a fence and valid only
// when it is asked again, is what the second is given.
func TestAPipelineOfOurOwn(t *testing.T) {
	t.Parallel()
	m := fakemodel.New(t)
	s := newRealSite(t)
	router := "```json\n{\"route_to\":\"shop/worker\"}\n```"
	m.MustAdd(t, "it", fakemodel.Scenario{WithoutTools: "script", Answer: func(r fakemodel.Request) fakemodel.Step {
		switch first := strings.Contains(r.Text, "You do step route of"); {
		case first && r.Turn == 0:
			return fakemodel.Step{Text: `{"nothing": 1}`}
		case first:
			return fakemodel.Step{Text: router}
		case r.Turn == 0:
			return fakemodel.Step{Tools: []fakemodel.ToolCall{{Name: "kubernetes_list", Input: map[string]any{"kind": "Pod"}}}}
		}
		return fakemodel.Step{Tools: []fakemodel.ToolCall{{Name: "task_complete", Input: map[string]any{
			"summary": "No pods.", "rich_output": map[string]any{"title": "Pods", "status": "healthy", "summary": "None."},
		}}}}
	}})
	s.writeLibrary(map[string]string{
		"skills/shop/triage/SKILL.md":             "---\nname: triage\nrole: manager\nmodel: anthropic/claude-haiku-4.5\n---\nRoute it.\n",
		"skills/shop/worker/SKILL.md":             "---\nname: worker\nmodel: anthropic/claude-sonnet-4-5\n---\nCount the pods.\n",
		"skills/shop/worker/agentura.config.yaml": "domain: shop\nskills: [{name: worker, role: agent}]\nagent: {executor: ptc, max_iterations: 5}\n",
		"pipelines/own.yaml": "name: own\non: manual\nsteps:\n  - {id: route, skill: shop/triage, deliverable: {schema: {type: object, required: [route_to]}}}\n" +
			"  - {id: work, skill: shop/worker, with: {cluster: '\"real\"', to: steps.route.output.route_to}}\n",
	})
	kube := kubetest.Start(t)
	s.env["OPENROUTER_API_KEY"], s.env["OPENROUTER_BASE_URL"] = realKey, m.URL("it")
	s.env["ANTHROPIC_API_KEY"], s.env["ANTHROPIC_BASE_URL"], s.env["NIGHTCRIER_AGENT_EXECUTOR"] = realKey, m.URL("it"), "builtin"
	a := s.app(func(o *app.Options) {
		o.Reach = nil
		o.Config.Clusters[0].Kubeconfig = kube.ReadOnly(t)
	})
	run, rows := s.callPipeline(a, "own", "builtin", `{"text": "how many pods?"}`)
	if run.Outcome != nightcrier.StateSuccess || len(rows) != 2 {
		t.Fatalf("%s: %s, %+v", run.Outcome, run.FailureReason, rows)
	}
	if string(rows[0].Output) != `{"route_to":"shop/worker"}` || string(rows[1].Output) != `{"rich_output":{"title":"Pods","status":"healthy","summary":"None."},"summary":"No pods."}` {
		t.Errorf("%s, then %s", rows[0].Output, rows[1].Output)
	}
	if by := rows[0].Executor + ", then " + rows[1].Executor; by != "llm, then ptc" {
		t.Errorf("it was done by %s", by)
	}
	all := m.Requests("it")
	if all[0].Model != "anthropic/claude-haiku-4.5" || !strings.HasSuffix(all[0].Path, "/chat/completions") || all[2].Model != "claude-sonnet-4-5" || !strings.Contains(all[2].Text, `"to": "shop/worker"`) {
		t.Errorf("%s asked at %s, then %s:\n%s", all[0].Model, all[0].Path, all[2].Model, all[2].Text)
	}
	s.noKeyIn(s.root)
}
