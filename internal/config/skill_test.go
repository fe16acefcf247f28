package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"nightcrier.dev/nightcrier/internal/agent"
	"nightcrier.dev/nightcrier/internal/agent/skill"
)

// A skill gets what it asks for within what is configured, and nothing beside it.
func TestTheAgentOfASkill(t *testing.T) {
	base := "agent: {executor: claude-code, timeout: 60s, max_tokens: 8000}\n" +
		"tool_servers: [{name: k8s, url: 'http://127.0.0.1:1/mcp', tools: ['get_*', apply]}, {name: other, url: 'http://127.0.0.1:1/mcp', tools: [x]}]\n"
	for name, c := range map[string]struct{ config, base, want string }{
		"its bounds":         {"agent: {max_iterations: 9, timeout: 900, max_tokens: 4096}", base, "claude-code of-theirs 9 4096 15m0s []"},
		"no more tokens":     {"agent: {max_iterations: 9, max_tokens: 9000}", base, "claude-code of-theirs 9 8000 1m0s []"},
		"tools of a server":  {"agent: {max_iterations: 1}\nmcp_tools: [{server: k8s, tools: [get_pods, delete]}]", base, "claude-code of-theirs 1 8000 1m0s [k8s [get_* apply] [get_pods] []]"},
		"all of them":        {"agent: {max_iterations: 1}\nmcp_tools: [{server: k8s, tools: ['*']}]", base, "claude-code of-theirs 1 8000 1m0s [k8s [get_* apply] [] []]"},
		"a pattern":          {"agent: {max_iterations: 1}\nmcp_tools: [{server: k8s, tools: ['*_*']}]", base, "none of the tools of k8s"},
		"approval":           {"agent: {max_iterations: 1}\nmcp_tools: [{server: k8s, tools: [apply, get_x], approval_required: [apply]}]", base, "claude-code of-theirs 1 8000 1m0s [k8s [get_* apply] [apply get_x] [apply]]"},
		"all with approval":  {"agent: {max_iterations: 1}\nmcp_tools: [{server: k8s, approval_required: [apply]}]", base, "claude-code of-theirs 1 8000 1m0s [k8s [get_* apply] [] [apply]]"},
		"an unknown server":  {"agent: {max_iterations: 1}\nmcp_tools: [{server: mine}]", base, `it needs the tool server "mine"`},
		"an unknown agent":   {"agent: {executor: copilot, max_iterations: 1}", base, "agent.executor: copilot is no executor"},
		"a model of another": {"agent: {executor: gemini, max_iterations: 1}", base, "is not one of google"},
		"no agent at all":    {"agent: {max_iterations: 1}", "agent: {executor: builtin}\n", "agent.executor is builtin"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "x")
			if err := os.MkdirAll(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			for file, text := range map[string]string{
				"SKILL.md":             "---\nmodel: anthropic/of-theirs\n---\ndo",
				"agentura.config.yaml": "domain: shop\nskills: [{name: x, role: agent}]\n" + c.config,
			} {
				if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			cfg, _ := mustLoad(t, c.base, "ANTHROPIC_API_KEY=k", "GEMINI_API_KEY=k")
			var spec agent.Spec
			s, err := skill.Load("x", os.DirFS(dir))
			if err == nil {
				spec, err = cfg.AgentOfSkill(s)
			}
			got := ""
			if err != nil {
				got = err.Error()
			} else {
				tools := []string{}
				for _, server := range spec.ToolServers {
					tools = append(tools, fmt.Sprint(server.Name, " ", server.Tools, " ", server.Only, " ", server.Approval))
				}
				got = fmt.Sprint(spec.Executor, " ", spec.Model, " ", spec.MaxTurns, " ", spec.MaxTokens, " ", spec.Timeout.Round(time.Second), " ", tools)
			}
			if !strings.Contains(got, c.want) || strings.Contains(got, "\n") {
				t.Errorf("%s, not %s", got, c.want)
			}
		})
	}
}

// A skill cannot choose a model that searches the web by itself, unless the operator has named it.
func TestASkillChoosesNoModelThatActs(t *testing.T) {
	for name, c := range map[string]struct{ skill, models, want string }{
		"its model":         {"skills: [{name: x, role: agent, model: 'anthropic/claude-x:online'}]", "", `"claude-x:online" acts by itself`},
		"a fallback":        {"skills: [{name: x, role: agent, fallback_models: ['anthropic/sonar-pro']}]", "", `"sonar-pro" acts by itself`},
		"one of a pattern":  {"skills: [{name: x, role: agent, model: 'anthropic/sonar-pro'}]", ", models: ['*']", `"sonar-pro" acts by itself`},
		"one that is named": {"skills: [{name: x, role: agent, model: 'anthropic/sonar-pro'}]", ", models: [sonar-pro]", "sonar-pro"},
		"one call":          {"skills: [{name: x, role: specialist, model: 'anthropic/sonar-pro'}]", "", `"sonar-pro" acts by itself`},
	} {
		t.Run(name, func(t *testing.T) {
			cfg, _ := mustLoad(t, "agent: {executor: claude-code"+c.models+"}\n", "ANTHROPIC_API_KEY=k")
			s, err := skill.Load("x", fstest.MapFS{
				"SKILL.md": {Data: []byte("do")}, "agentura.config.yaml": {Data: []byte("domain: shop\n" + c.skill + "\nagent: {executor: claude-code, max_iterations: 3}\n")},
			})
			if err != nil {
				t.Fatal(err)
			}
			spec, err := cfg.AgentOfSkill(s)
			if got := spec.Model; err != nil && !strings.Contains(err.Error(), c.want) || err == nil && got != c.want {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
}
