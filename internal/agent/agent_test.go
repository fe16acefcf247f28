package agent

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/guard/readonly"
	"nightcrier.dev/nightcrier/internal/sandbox"
)

func TestDecide(t *testing.T) {
	ok := Verdict{Terminal: "success"}
	quota := Verdict{Terminal: "api_error", Failed: true, Class: nightcrier.FailQuota, Reason: "slow down"}
	timeout := Stop{State: nightcrier.StateTimeout, Class: nightcrier.FailTimeout, Reason: "too long"}
	for _, c := range []struct {
		name  string
		stop  Stop
		v     Verdict
		exit  sandbox.Exit
		state nightcrier.State
		class nightcrier.FailureClass
	}{
		{"success", Stop{}, ok, sandbox.Exit{}, "success", ""},
		{"no last word", Stop{}, Verdict{}, sandbox.Exit{}, "success", ""},
		{"our cause is first", timeout, ok, sandbox.Exit{}, "timeout", "timeout"},
		{"our cause before a failure", timeout, quota, sandbox.Exit{Code: 1}, "timeout", "timeout"},
		{"the word before the code", Stop{}, quota, sandbox.Exit{}, "failed", "quota"},
		{"success, but a code", Stop{}, ok, sandbox.Exit{Code: 3}, "failed", "agent_error"},
		{"signal", Stop{}, Verdict{}, sandbox.Exit{Code: 139, Signal: "SIGSEGV"}, "failed", "crash"},
		{"code of a signal", Stop{}, Verdict{}, sandbox.Exit{Code: 137}, "failed", "crash"},
		{"no last word of one that always has one", Stop{}, Verdict{Unfinished: true}, sandbox.Exit{}, "failed", "crash"},
		{"no last word, and a code", Stop{}, Verdict{Unfinished: true}, sandbox.Exit{Code: 3}, "failed", "agent_error"},
		{"no first word", Stop{}, Verdict{Unstarted: true}, sandbox.Exit{Code: 1}, "failed", "start_error"},
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

func job(t *testing.T) Job {
	t.Helper()
	dir := t.TempDir()
	script := filepath.Join(dir, "agent.sh")
	if err := os.WriteFile(script, []byte("#!/usr/bin/env -S sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return Job{
		IncidentID: "id", Cluster: "prod", Namespace: "shop", Workspace: "/ws", OutputDir: "/ws/output", Kubeconfig: "/ws/home/kubeconfig",
		Spec:     Spec{Command: script, ScriptPath: script, Provider: nightcrier.Anthropic, Model: "sonnet", MaxTurns: 7, Timeout: 5 * time.Minute, Shell: true},
		ModelURL: "http://127.0.0.1:1", ModelToken: "run-token",
		ExtraEnv: map[string]string{
			"TEAM": "sre", "LD_PRELOAD": "/evil.so", "PATH": "/evil", "KUBECONFIG": "/root/.kube/config",
			"ANTHROPIC_API_KEY": "sk-real", "OPENAI_API_KEY": "sk-real", "BAD NAME": "x", "HTTPS_PROXY": "http://evil", "NUL": "a\x00b",
		},
	}
}

// toolsJob is a job for an agent without a shell, in a workspace that has these
// instructions.
func toolsJob(t *testing.T, instructions string) Job {
	t.Helper()
	j := job(t)
	j.Workspace = t.TempDir()
	if err := os.Mkdir(filepath.Join(j.Workspace, "context"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(j.Workspace, systemFile), []byte(instructions), 0o600); err != nil {
		t.Fatal(err)
	}
	j.ToolsURL, j.ToolsToken = "http://127.0.0.1:2/mcp", "tools-token"
	return j
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
		_, err := prepareScript(Job{Spec: Spec{ScriptPath: path}, Workspace: "/ws"})
		if nightcrier.CodeOf(err) != nightcrier.Invalid {
			t.Errorf("script %q: %v", path, err)
		}
	}
}

func TestClaudeInvocation(t *testing.T) {
	j := job(t)
	j.Allowed, j.Self = readonly.Policy{Verbs: []string{"get", "logs"}}, j.ScriptPath
	inv, err := prepareClaude(j)
	if err != nil {
		t.Fatal(err)
	}
	line := strings.Join(inv.Argv[1:], " ")
	for _, want := range []string{
		"-p --output-format stream-json --verbose", "--restricted", "--strict-mcp-config", "--max-turns 7", "--model sonnet",
		"--append-system-prompt-file context/system-instructions.txt", "--tools Read,Grep,Glob,Bash,Write",
		"--allowedTools Edit(./output/**)", `"command":"'` + j.Self + `' 'hook' 'claude' '/ws' 'get' 'logs'"`,
	} {
		if !strings.Contains(line, want) {
			t.Errorf("argv lacks %q: %s", want, line)
		}
	}
	if !strings.HasSuffix(line, "--allowedTools "+reportRule) || strings.Contains(line, "Bash(") {
		t.Errorf("more is allowed than the report: %s", line)
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

// Only claude is given what a cluster says in its system prompt: it stands there behind
// ours, in blocks. To the others it is a user's text.
func TestWhoseSystemPromptHoldsThePreload(t *testing.T) {
	for _, e := range Executors() {
		if e.PreloadInSystem != (e.Name == "claude-code") {
			t.Errorf("%s: %v", e.Name, e.PreloadInSystem)
		}
	}
}
