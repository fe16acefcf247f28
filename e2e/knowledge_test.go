package e2e

import (
	"os"
	"path/filepath"
	"strings"

	"nightcrier.dev/nightcrier/internal/fake/fakemodel"
)

// knowledgeEffects shows what is known of services and of stages of work.
func knowledgeEffects() map[string]func(*house) {
	return map[string]func(*house){
		"knowledge.repositories": func(h *house) {
			repo := filepath.Join(filepath.Dir(h.root), "repo")
			h.writeFiles(repo, map[string]string{".agentura/services/cart/SERVICE.md": "# cart\n\n- Workloads: `d1`\n"})
			list := h.reportOf(h.start("knowledge: {repositories: [" + repo + "]}").done()).Runbooks
			h.want(len(list) == 1 && list[0].Title == "What is known of the service cart", "joined %+v", list)
		},
		"knowledge.skill_library": func(h *house) {
			dir := filepath.Dir(h.root)
			h.writeFiles(dir, map[string]string{
				"library/sdlc.yaml":             "stages: {review: {base: [careful]}}\n",
				"library/careful/SKILL.md":      "Look twice.",
				"skills/shop/reviewer/SKILL.md": "# Review it",
				"pipelines/look-again.yaml": "name: k8s-incident-triage\non: incident\nsteps:\n- action: collect\n- {id: look, skill: shop/reviewer}\n" +
					"- {id: investigate, skill: sre/k8s-troubleshooter, deliverable: report}\n- action: check\n- action: notify\n",
			})
			got := h.order("knowledge: {skill_library: "+dir+"/library}", "skills: {cache_dir: "+dir+"/skills}", "pipelines_dir: "+dir+"/pipelines", working)
			input, err := os.ReadFile(filepath.Join(got.Workspace, "context/input.json"))
			h.must(err)
			h.want(strings.Contains(string(input), "Look twice."), "the skill is given %s", input)
		},
		"knowledge.describe": func(h *house) {
			m := fakemodel.New(h.t)
			m.MustAdd(h.t, "it", fakemodel.Scenario{WithoutTools: "script", Steps: []fakemodel.Step{
				{Text: `{"service": "It keeps carts.", "modules": "main", "api": "carts", "tests": "none"}`},
			}})
			dir := filepath.Dir(h.root)
			h.writeFiles(dir, map[string]string{"cart/main.go": "package main\n", "nightcrier.yaml": "knowledge: {describe: true}\nworkspace_root: " + h.root + "\n"})
			c := &cli{site: h.site, t: h.t, bin: binary(h.t), vars: []string{"ANTHROPIC_API_KEY=" + realKey, "ANTHROPIC_BASE_URL=" + m.URL("it"), "NIGHTCRIER_BUDGET_PER_RUN_USD=0"}}
			c.ok("index", "cart", "--config", "nightcrier.yaml")
			page, err := os.ReadFile(filepath.Join(dir, "cart/.agentura/services/cart/SERVICE.md"))
			h.must(err)
			h.want(strings.Contains(string(page), "It keeps carts."), "%s", page)
		},
	}
}
