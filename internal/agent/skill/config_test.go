package skill

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"nightcrier.dev/nightcrier"
)

const wholeConfig = `
domain: {name: shop, description: "what it sells", owner: a-team}
skills:
  - {name: builder, role: agent, version: 1.2.0, model: anthropic/of-the-config, cost_budget: "$1.00", triggers: [{type: manual}]}
agent: {executor: claude-code, max_iterations: 25, max_tokens: 4096, timeout: 900, cpu: 2}
mcp_tools: [{server: k8s, tools: [apply, get], approval_required: [apply]}]
guardrails: {budget: {max_per_execution: "$0.30", alert_at: "$0.20"}, rate_limits: {requests_per_minute: 9}}
verify: {enabled: true, criteria: ["it runs"], max_retries: 1}
deliver: {files: ["*.html"]}
display: {title: Builder}
strange: 1
`

// above is a place with all layers.
func above(t *testing.T, more map[string]string) *Library {
	t.Helper()
	files := map[string]string{
		"WORKSPACE.md": "of all", "shop/DOMAIN.md": "of the shop", "shop/project-configs/b.md": "of b", "shop/project-configs/_workspace.md": "of its projects",
		"shop/builder/SKILL.md": "---\nname: builder\nmodel: anthropic/of-the-front\n---\n# Build", "shop/builder/agentura.config.yaml": wholeConfig,
	}
	for name, text := range more {
		files[name] = text
	}
	l, err := Open(Options{CacheDir: tree(t, files)})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// saidOf is all that is found about a skill.
func saidOf(s *Skill) string {
	var all []string
	for _, f := range s.Findings {
		all = append(all, string(f.Level)+" "+f.String())
	}
	return strings.Join(all, "\n")
}

func TestWhatASkillAsksFor(t *testing.T) {
	s, err := above(t, nil).Find("shop/builder")
	if err != nil {
		t.Fatal(err)
	}
	want := Settings{
		Domain: "shop", Role: "agent", Executor: "claude-code", Model: "anthropic/of-the-front", MaxTurns: 25, MaxTokens: 4096, Timeout: 15 * time.Minute, BudgetUSD: 0.3,
		Deliver: &Deliver{Files: []string{"*.html"}}, Verify: []string{"it runs"}, VerifyRetries: 1, PerMinute: 9, Tools: []Binding{{Server: "k8s", Tools: []string{"apply", "get"}, Approval: []string{"apply"}}}, Configured: true,
	}
	if diff := cmp.Diff(want, s.Settings); diff != "" || s.Version != "1.2.0" {
		t.Error(diff)
	}
	if got := s.Instructions(); got != "of all\n\n---\n\nof the shop\n\n---\n\nof its projects\n\n---\n\nof b\n\n---\n\n# Build" {
		t.Errorf("%q", got)
	}
	for _, said := range []string{
		"agentura.config.yaml:5: agent.cpu: has no effect here", "agentura.config.yaml:7: guardrails.budget.alert_at: has no",
		"agentura.config.yaml:11: strange: is not known", "agentura.config.yaml:4: skills.triggers: is only shown here",
	} {
		if !strings.Contains(saidOf(s), said) {
			t.Errorf("nothing says %q: %s", said, saidOf(s))
		}
	}
	if err := s.CheckRunnable(); err != nil {
		t.Error(err)
	}
}

// What a run was admitted with is what it gets, whatever becomes of the source or of the copy.
func TestACopyIsWhatWasPinned(t *testing.T) {
	l, c := above(t, nil), Copies{filepath.Join(t.TempDir(), "copies")}
	s, err := l.Find("builder")
	if err == nil {
		err = c.Keep(s)
	}
	if err != nil {
		t.Fatal(err)
	}
	got, err := c.Open(s.Ref().Digest)
	if err != nil || got.Ref() != s.Ref() || got.Instructions() != s.Instructions() || cmp.Diff(got.Settings, s.Settings) != "" {
		t.Fatalf("%+v, %v", got, err)
	}
	dir := l.places[0].dir
	if err := os.WriteFile(filepath.Join(dir, "WORKSPACE.md"), []byte("other"), 0o600); err != nil {
		t.Fatal(err)
	}
	if changed, err := l.Find("builder"); err != nil || changed.Ref().Digest == s.Ref().Digest {
		t.Errorf("another WORKSPACE.md is the same skill: %v", err)
	}
	file := c.file(s.Ref().Digest)
	raw, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(file, []byte(strings.Replace(string(raw), "of the shop", "of a thief", 1)), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Open(s.Ref().Digest); nightcrier.CodeOf(err) != nightcrier.Invalid || !strings.Contains(err.Error(), "was changed") {
		t.Errorf("a changed copy: %v", err)
	}
	if err := c.Keep(s); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Open(s.Ref().Digest); err != nil {
		t.Errorf("it was not made anew: %v", err)
	}
	if _, err := c.Open("sha256:../../" + strings.Repeat("0", 64)); nightcrier.CodeOf(err) != nightcrier.NotFound {
		t.Errorf("a digest that leads out: %v", err)
	}
}

func TestWhatCannotBeExecuted(t *testing.T) {
	config := func(more string) string { return "skills: [{name: x, role: agent}]\n" + more }
	for name, c := range map[string]struct{ skill, config, says string }{
		"a SKILL.md alone":    {"do", "", ""},
		"all is well":         {"do", config("agent: {executor: codex, max_iterations: 3}"), ""},
		"our own":             {"do", config("agent: {executor: ptc, max_iterations: 3, budget_tokens: 0}"), ""},
		"without turns":       {"do", config("agent: {executor: ptc}"), "max_iterations is missing"},
		"one call":            {"---\nrole: specialist\n---\ndo", "", ""},
		"no role":             {"do", "skills: [{name: x}]", ""},
		"no block":            {"do", config(""), "an agent needs a block agent"},
		"no such executor":    {"do", config("agent: {executor: claude, max_iterations: 3}"), "agentura.config.yaml:2: agent.executor: claude is no executor (did you mean claude-code?)"},
		"deprecated":          {"do", config("agent: {max_iterations: 3}"), ""},
		"a manager":           {"do", "skills: [{name: x, role: manager}]", ""},
		"a strange role":      {"do", "skills: [{name: x, role: king}]", `its role "king" is none of`},
		"no bound":            {"do", config("agent: {executor: codex}"), "agentura.config.yaml:2: agent: max_iterations is missing"},
		"disabled":            {"do", "skills: [{name: x, role: agent, deploy_status: disabled}]", "disabled"},
		"approval":            {"do", config("agent: {max_iterations: 3}\nguardrails: {human_in_loop: {require_approval: true}}"), ""},
		"approval of a role":  {"do", config("agent: {max_iterations: 3}\nguardrails: {human_in_loop: {required_for: [{action: deploy, approver_role: lead}]}}"), "guardrails.human_in_loop.required_for: names roles"},
		"a schema of no type": {"do", config("agent: {executor: codex, max_iterations: 3}\ndeliver:\n  schema: {type: objct}"), `agentura.config.yaml:4: deliver.schema: is no JSON Schema: its type "objct" is none of array, boolean`},
		"too much to read":    {strings.Repeat("word ", 60<<10), "", "an agent is given at most"},
	} {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{"x/SKILL.md": c.skill}
			if c.config != "" {
				files["x/agentura.config.yaml"] = c.config
			}
			l, err := Open(Options{CacheDir: tree(t, files)})
			if err != nil {
				t.Fatal(err)
			}
			s, err := l.Find("x")
			if err == nil {
				err = s.CheckRunnable()
			}
			if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "\n")) {
				t.Errorf("%v, not %q", err, c.says)
			}
		})
	}
}

// What a skill says of its tool servers is read as it is meant, or its author is told.
func TestToolsThatASkillNames(t *testing.T) {
	for _, c := range []struct{ tools, says string }{
		{"[{server: k8s, tools: [get], read_only: true}]", ""},
		{"[{server: k8s, approval_required: ['kubectl_*']}]", ""},
		{"[{server: k8s, tools: [get], read_only: maybe}]", "agentura.config.yaml:3: mcp_tools.read_only: is not true or false"},
		{"[{server: k8s, tools: [get]}, {server: k8s, tools: [apply]}]", "agentura.config.yaml:3: mcp_tools.server: names k8s a second time"},
		{"[{server: k8s, tools: [apply], approval_required: [aply]}]", "warn agentura.config.yaml:3: mcp_tools.approval_required: names aply, which tools does not"},
	} {
		l, err := Open(Options{CacheDir: tree(t, map[string]string{"x/SKILL.md": "---\ndescription: Does it.\n---\ndo", "x/agentura.config.yaml": "skills: [{name: x, role: agent}]\nagent: {executor: ptc, max_iterations: 3}\nmcp_tools: " + c.tools})})
		if err != nil {
			t.Fatal(err)
		}
		s, err := l.Find("x")
		said := ""
		if s != nil {
			said = saidOf(s)
		}
		if said += fmt.Sprint(err); c.says == "" && said != "<nil>" || !strings.Contains(said, c.says) {
			t.Errorf("%s: %s", c.tools, said)
		}
		if s != nil && c.says == "" && s.Settings.Tools[0].ReadOnly != strings.Contains(c.tools, "read_only") {
			t.Errorf("%+v", s.Settings.Tools)
		}
	}
}

func TestHostileConfigurations(t *testing.T) {
	for name, c := range map[string]struct{ file, text, says string }{
		"turns without end":   {"x/y/agentura.config.yaml", "skills: [{name: y}]\nagent: {max_iterations: 99999999}", "agent.max_iterations: is not a whole number from 1 to 1000"},
		"a time without end":  {"x/y/agentura.config.yaml", "skills: [{name: y}]\nagent: {timeout: 1e300}", "agent.timeout: is not"},
		"a negative budget":   {"x/y/agentura.config.yaml", "skills: [{name: y, cost_budget: -1}]", "skills.cost_budget: is not"},
		"no number":           {"x/y/agentura.config.yaml", "skills: [{name: y, cost_budget: NaN}]", "skills.cost_budget: is not"},
		"tools as text":       {"x/y/agentura.config.yaml", "skills: [{name: y}]\nmcp_tools: k8s", "mcp_tools: is not a list"},
		"two deliverables":    {"x/y/agentura.config.yaml", "skills: [{name: y}]\ndeliver: {files: [a], report: b}", "deliver: is not one of"},
		"a large domain":      {"x/DOMAIN.md", strings.Repeat("x", 10<<20), "x/DOMAIN.md has 10240 KiB"},
		"a domain of bytes":   {"x/DOMAIN.md", "\xff\xfe", "x/DOMAIN.md: it is not UTF-8"},
		"a large SKILL.md":    {"x/y/SKILL.md", strings.Repeat("x", 17<<20), "16 MiB"},
		"a crowded config":    {"x/y/agentura.config.yaml", strings.Repeat("[", 99), "nests brackets"},
		"a config of another": {"x/y/agentura.config.yaml", "skills: [{name: ../../etc}]", "does not list this skill"},
	} {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{"x/y/SKILL.md": "do"}
			files[c.file] = c.text
			l, err := Open(Options{CacheDir: tree(t, files)})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := l.Find("x/y"); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, not %q", err, c.says)
			}
		})
	}
	// What is no plain file is not opened: a link may lead anywhere, and a pipe has no end.
	for name, plant := range map[string]func(string) error{
		"a link": func(at string) error { return os.Symlink("/etc/passwd", at) },
		"a pipe": func(at string) error { return syscall.Mkfifo(at, 0o600) },
	} {
		dir := tree(t, map[string]string{"x/y/SKILL.md": "do"})
		if err := plant(filepath.Join(dir, "x", "DOMAIN.md")); err != nil {
			t.Fatal(err)
		}
		l, err := Open(Options{CacheDir: dir})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Find("x/y"); err == nil || !strings.Contains(err.Error(), "not a regular file") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := above(t, nil).Find("../shop/builder"); nightcrier.CodeOf(err) != nightcrier.Invalid {
		t.Errorf("a name that leads out: %v", err)
	}
}

// The page has a row for each key, with its effect.
func TestThePageSaysWhatEachKeyDoes(t *testing.T) {
	page, err := os.ReadFile("../../../docs/skills.md")
	if err != nil {
		t.Fatal(err)
	}
	_, tables, _ := strings.Cut(string(page), "## Keys of agentura")
	configs, fronts, _ := strings.Cut(tables, "## Keys of SKILL.md")
	for table, known := range map[string][]Key{configs: Keys(), fronts: FrontKeys()} {
		checkTableOfKeys(t, table, known)
	}
}

func checkTableOfKeys(t *testing.T, table string, known []Key) {
	t.Helper()
	rows := map[string]string{}
	for line := range strings.Lines(table) {
		if cells := strings.Split(line, "|"); len(cells) > 3 && strings.HasPrefix(cells[1], " `") {
			for _, path := range strings.Split(cells[1], ",") {
				rows[strings.Trim(path, " `")] = strings.TrimSpace(cells[2])
			}
		}
	}
	for _, k := range known {
		if rows[k.Path] != string(k.Effect) {
			t.Errorf("docs/skills.md says %q of %s, which is %s", rows[k.Path], k.Path, k.Effect)
		}
		delete(rows, k.Path)
	}
	if len(rows) > 0 {
		raw, _ := json.Marshal(rows)
		t.Errorf("docs/skills.md has rows of nothing: %s", raw)
	}
}
