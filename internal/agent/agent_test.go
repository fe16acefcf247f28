package agent

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/sandbox/process"
)

func TestDecide(t *testing.T) {
	ok := Verdict{Terminal: "success"}
	quota := Verdict{Terminal: "api_error", Failed: true, Class: nightcrier.FailQuota, Reason: "slow down"}
	timeout := Stop{State: nightcrier.StateTimeout, Class: nightcrier.FailTimeout, Reason: "too long"}
	for _, c := range []struct {
		name  string
		stop  Stop
		v     Verdict
		exit  process.Exit
		state nightcrier.State
		class nightcrier.FailureClass
	}{
		{"success", Stop{}, ok, process.Exit{}, "success", ""},
		{"no last word", Stop{}, Verdict{}, process.Exit{}, "success", ""},
		{"our cause is first", timeout, ok, process.Exit{}, "timeout", "timeout"},
		{"our cause before a failure", timeout, quota, process.Exit{Code: 1}, "timeout", "timeout"},
		{"the word before the code", Stop{}, quota, process.Exit{}, "failed", "quota"},
		{"success, but a code", Stop{}, ok, process.Exit{Code: 3}, "failed", "agent_error"},
		{"signal", Stop{}, Verdict{}, process.Exit{Code: 139, Signal: "SIGSEGV"}, "failed", "crash"},
		{"code of a signal", Stop{}, Verdict{}, process.Exit{Code: 137}, "failed", "crash"},
		{"no first word", Stop{}, Verdict{Unstarted: true}, process.Exit{Code: 1}, "failed", "start_error"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := Decide(c.stop, c.v, c.exit, "bad flag")
			if r.State != c.state || r.FailureClass != c.class {
				t.Errorf("got %s %q, want %s %q", r.State, r.FailureClass, c.state, c.class)
			}
			if (r.FailureReason == "") != (r.State == nightcrier.StateSuccess) {
				t.Errorf("reason %q", r.FailureReason)
			}
		})
	}
}

func TestClaudeTools(t *testing.T) {
	kubectl := []string{reportRule, "Bash(kubectl get:*)", "Bash(kubectl describe:*)", "Bash(kubectl logs:*)"}
	for _, c := range []struct {
		name   string
		wanted []string
		rules  []string
		notes  int
	}{
		{"default", nil, kubectl, 0},
		{"one string with colons", []string{"Read,Grep,Glob,Bash(kubectl:get*,kubectl:describe*,kubectl:logs*)"}, kubectl, 3},
		{"the CLI's own syntax", []string{"Bash(kubectl get:*)", "Bash(kubectl get *)"}, kubectl[:2], 0},
		{"everything bare", []string{"Read,Write,Grep,Glob,Bash,Skill"}, kubectl, 6},
		{"writing verbs", []string{"Bash(kubectl delete:*)", "Bash(kubectl:exec*)", "Bash(rm:*)"}, kubectl[:1], 3},
		{"anything", []string{"Bash(*)"}, kubectl[:1], 1},
		{"a verb and more", []string{"Bash(kubectl get --raw:*)"}, kubectl[:1], 1},
		{"unknown tools", []string{"WebFetch", "mcp__x"}, kubectl[:1], 2},
		{"unbalanced", []string{"Bash(kubectl get", ")))", "((("}, kubectl[:2], 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := claudeTools(c.wanted)
			if !slices.Equal(got.rules, c.rules) {
				t.Errorf("rules %q, want %q", got.rules, c.rules)
			}
			if len(got.notes) != c.notes {
				t.Errorf("%d notes, want %d: %q", len(got.notes), c.notes, got.notes)
			}
		})
	}
}

func job(t *testing.T) Job {
	t.Helper()
	dir := t.TempDir()
	script := filepath.Join(dir, "agent.sh")
	if err := os.WriteFile(script, []byte("#!/usr/bin/env -S sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return Job{
		IncidentID: "id", Cluster: "prod", Namespace: "shop", Workspace: "/ws", OutputDir: "/ws/output", Kubeconfig: "/ws/home/kubeconfig",
		Command: script, ScriptPath: script, Model: "sonnet", MaxTurns: 7, Timeout: 5 * time.Minute,
		ModelURL: "http://127.0.0.1:1", ModelToken: "run-token",
		ExtraEnv: map[string]string{
			"TEAM": "sre", "DISABLE_TRIAGE_PRELOAD": "true", "LD_PRELOAD": "/evil.so", "PATH": "/evil", "KUBECONFIG": "/root/.kube/config",
			"ANTHROPIC_API_KEY": "sk-real", "OPENAI_API_KEY": "sk-real", "BAD NAME": "x", "HTTPS_PROXY": "http://evil", "NUL": "a\x00b",
		},
	}
}

// The triage script is called as skills expect it, and as bare as any script.
func TestTriageScriptInvocation(t *testing.T) {
	j := job(t)
	j.ModelURL, j.ModelToken, j.ExtraEnv = "", "", nil
	e, err := For("triage-script")
	if err != nil {
		t.Fatal(err)
	}
	inv, err := e.Prepare(j)
	if err != nil || !slices.Equal(inv.Argv, []string{j.ScriptPath, "--skip-dump"}) || e.NeedsModel {
		t.Errorf("%q, %v", inv.Argv, err)
	}
	if !slices.Contains(inv.Env, "KUBECONFIG=/ws/home/kubeconfig") || !slices.Contains(inv.Env, "HOME=/ws/home") || slices.ContainsFunc(inv.Env, func(kv string) bool { return strings.Contains(kv, "API_KEY") }) {
		t.Errorf("environment %q", inv.Env)
	}
	j.ScriptPath += ".gone"
	if _, err := e.Prepare(j); nightcrier.CodeOf(err) != nightcrier.Invalid {
		t.Errorf("a script that is not there: %v", err)
	}
}

func TestScriptInvocation(t *testing.T) {
	t.Setenv("SECRET_OF_THE_SERVER", "x")
	j := job(t)
	inv, err := prepareScript(j)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(inv.Argv, []string{j.ScriptPath, "/ws"}) {
		t.Errorf("argv %q", inv.Argv)
	}
	var names []string
	for _, kv := range inv.Env {
		name, value, _ := strings.Cut(kv, "=")
		names = append(names, name)
		if strings.Contains(value, "evil") || strings.Contains(value, "sk-real") || strings.Contains(value, ".kube") {
			t.Errorf("environment holds %s", kv)
		}
	}
	want := "AGENT_ALLOWED_TOOLS AGENT_CLI AGENT_MODEL AGENT_TIMEOUT ANTHROPIC_API_KEY ANTHROPIC_BASE_URL CLAUDE_READ_ONLY_MODE " +
		"DISABLE_TRIAGE_PRELOAD HOME INCIDENT_ID INCIDENT_WORKSPACE KUBECONFIG KUBERNETES_CLUSTER KUBERNETES_NAMESPACE LANG OUTPUT_DIR PATH " +
		"SKILLS_DIR TEAM TMPDIR WORKSPACE_DIR"
	if got := strings.Join(names, " "); got != want {
		t.Errorf("environment\n%s\nwant\n%s", got, want)
	}
	if !slices.Contains(inv.Env, "AGENT_TIMEOUT=300") || !slices.Contains(inv.Env, "DISABLE_TRIAGE_PRELOAD=true") {
		t.Errorf("environment %q", inv.Env)
	}
	if len(inv.Notes) != 8 {
		t.Errorf("%d notes for 8 refused variables: %q", len(inv.Notes), inv.Notes)
	}
	if sh, _ := filepath.EvalSymlinks("/bin/sh"); !slices.Contains(inv.Read, sh) && !slices.Contains(inv.Read, "/usr/bin/sh") {
		t.Errorf("the interpreter is not readable: %q", inv.Read)
	}
}

func TestScriptRefused(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"", filepath.Join(dir, "missing"), plain, dir} {
		_, err := prepareScript(Job{ScriptPath: path, Workspace: "/ws"})
		if nightcrier.CodeOf(err) != nightcrier.Invalid {
			t.Errorf("script %q: %v", path, err)
		}
	}
}

func TestClaudeInvocation(t *testing.T) {
	j := job(t)
	j.AllowedTools = []string{"Read,Bash"}
	inv, err := prepareClaude(j)
	if err != nil {
		t.Fatal(err)
	}
	line := strings.Join(inv.Argv[1:], " ")
	for _, want := range []string{
		"-p --output-format stream-json --verbose", "--restricted", "--strict-mcp-config", "--max-turns 7", "--model sonnet",
		"--append-system-prompt-file context/system-instructions.txt", "--tools Read,Grep,Glob,Bash,Write",
	} {
		if !strings.Contains(line, want) {
			t.Errorf("argv lacks %q: %s", want, line)
		}
	}
	if strings.Contains(line, "run-token") {
		t.Error("the token is in argv")
	}
	for _, want := range []string{"ANTHROPIC_API_KEY=run-token", "ANTHROPIC_BASE_URL=http://127.0.0.1:1", "CLAUDE_CODE_MAX_RETRIES=3"} {
		if !slices.Contains(inv.Env, want) {
			t.Errorf("environment lacks %s", want)
		}
	}
	j.Command = filepath.Join(t.TempDir(), "no-claude")
	if _, err := prepareClaude(j); nightcrier.CodeOf(err) != nightcrier.Invalid || !strings.Contains(err.Error(), "agent.command") {
		t.Errorf("missing CLI: %v", err)
	}
}

func TestFor(t *testing.T) {
	if _, err := For("claude-code"); err != nil {
		t.Error(err)
	}
	if _, err := For("skynet"); nightcrier.CodeOf(err) != nightcrier.Invalid || !strings.Contains(err.Error(), "script") {
		t.Errorf("unknown executor: %v", err)
	}
}
