package e2e

import (
	"strings"
	"testing"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent"
	"nightcrier.dev/nightcrier/internal/fake/fakemodel"
)

// A pipeline of two skills, done by the real claude CLI in its sandbox: the first leaves a file, which
// the second reads, and is told what the first delivered.
func TestAPipelineOfSkills(t *testing.T) {
	t.Parallel()
	claude := handsOf(claudeCLI(t))
	m := fakemodel.New(t)
	s := claude.site(t, m, claude.deliver(oneFact)) // replaced below
	m.MustAdd(t, claude.cli, fakemodel.Scenario{Answer: func(r fakemodel.Request) fakemodel.Step {
		first := strings.Contains(r.Text, "You do step build of the pipeline site")
		switch {
		case first && r.Turn == 0:
			return fakemodel.Step{Tools: []fakemodel.ToolCall{toolCall(claudeCLI(t).Calls.Write("output/app.html", "<h1>a shop</h1>"))}}
		case first:
			return fakemodel.Step{Text: "It is built."}
		case r.Turn == 0:
			return fakemodel.Step{Tools: []fakemodel.ToolCall{claude.read("context/steps/build/app.html")}}
		case strings.Contains(r.Text, "<h1>a shop</h1>"):
			return fakemodel.Step{Text: "It says: a shop."}
		}
		return fakemodel.Step{Text: "There is nothing to read."}
	}})
	s.writeLibrary(map[string]string{
		"skills/WORKSPACE.md":                      "Be brief.",
		"skills/shop/DOMAIN.md":                    "Shops sell things.",
		"skills/shop/builder/SKILL.md":             "---\nname: builder\ndescription: builds\nmodel: anthropic/of-the-skill\nallowed-tools: Bash\n---\n# Build a page\n\nWrite the page that the input asks for.\n",
		"skills/shop/builder/agentura.config.yaml": "domain: shop\nskills: [{name: builder, role: agent}]\nagent: {executor: claude-code, max_iterations: 9, timeout: 200}\ndeliver: {files: ['*.html']}\n",
		"skills/shop/reader/SKILL.md":              "---\nname: reader\ndescription: reads\n---\nRead what was built.\n",
		"pipelines/site.yaml": "name: site\non: manual\nsteps:\n  - {id: build, skill: shop/builder}\n" +
			"  - {id: read, skill: shop/reader, with: {page: 'steps.build.output.files[0]'}}\n",
	})
	a := s.app(nil)
	run, rows := s.callPipeline(a, "site", claude.executor, `{"prd": "a page for @shop"}`)
	if run.Outcome != nightcrier.StateSuccess || len(rows) != 2 {
		t.Fatalf("%s: %s, %+v", run.Outcome, run.FailureReason, rows)
	}
	if string(rows[0].Output) != `{"files":["app.html"]}` || string(rows[1].Output) != `{"summary":"It says: a shop."}` {
		t.Errorf("%s, then %s", rows[0].Output, rows[1].Output)
	}
	if len(rows[0].Artifacts) != 1 || rows[0].Artifacts[0].Path != "output/app.html" {
		t.Errorf("%+v", rows[0].Artifacts)
	}
	all := m.Requests(claude.cli)
	if all[0].Model != "of-the-skill" {
		t.Errorf("%s was asked", all[0].Model)
	}
	for _, part := range []string{"Be brief.\n\n---\n\nShops sell things.\n\n---\n\n# Build a page", `a page for \u0040shop`} {
		if !strings.Contains(all[0].Text, part) {
			t.Errorf("the first was not told %q", part)
		}
	}
	last := all[len(all)-1].Text
	if !strings.Contains(last, `"page": "app.html"`) || strings.Contains(last, "# Build a page") {
		t.Errorf("the second was told:\n%s", last)
	}
	s.noKeyIn(s.root)
}

func claudeCLI(t *testing.T) agent.Executor {
	t.Helper()
	e, err := agent.For("claude-code")
	if err != nil {
		t.Fatal(err)
	}
	return e
}
