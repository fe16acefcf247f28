package e2e

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"nightcrier.dev/nightcrier/internal/check/doctor"
	"nightcrier.dev/nightcrier/internal/oneshot"

	"nightcrier.dev/nightcrier/internal/agent"
	"nightcrier.dev/nightcrier/internal/config"
	"nightcrier.dev/nightcrier/internal/test/clitest"
)

// agentConfig is a configuration with that executor, a key for each provider, and
// nothing else.
func agentConfig(t *testing.T, executor, command string, env ...string) *config.Config {
	t.Helper()
	env = append(env, "PATH="+os.Getenv("PATH"), "ANTHROPIC_API_KEY="+realKey, "OPENAI_API_KEY="+realKey, "GEMINI_API_KEY="+realKey)
	cfg, _, err := config.Load(config.Options{Env: env, Flags: map[string]string{
		"workspace_root": t.TempDir(), "agent.executor": executor, "agent.command": command, "agent.model": "scripted"}})
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// found are the checks of one code.
func found(t *testing.T, cfg *config.Config, o doctor.Options, code string) (list []doctor.Check) {
	t.Helper()
	for _, c := range doctor.Run(t.Context(), cfg, o) {
		if c.Code == code {
			list = append(list, c)
		}
		if strings.Contains(c.Detail+c.Hint, realKey) {
			t.Errorf("the key is told: %+v", c)
		}
	}
	return list
}

// Each real CLI is started in its sandbox, and asks a model on this machine: what
// doctor says is what an investigation would meet.
func TestDoctorStartsTheRealCLIs(t *testing.T) {
	t.Parallel()
	for _, cli := range agent.CLIs() {
		t.Run(cli.Name, func(t *testing.T) {
			t.Parallel()
			path := clitest.CLI(t, cli.Command)
			for _, c := range found(t, agentConfig(t, cli.Name, path), doctor.Options{ListTools: oneshot.ListTools, AllAgents: true}, doctor.CheckAgent)[:1] {
				t.Log(c.Detail)
				if c.Status != "ok" || !strings.HasPrefix(c.Detail, clitest.Version(cli.Command)+" works in its sandbox") || !strings.HasSuffix(c.Detail, path) || !strings.Contains(c.Detail, "MiB") || !strings.Contains(c.Detail, " without a shell: ") {
					t.Errorf("%+v", c)
				}
			}
		})
	}
}

// What a CLI makes of a short name is what has to have a price, as seen in its own
// request.
func TestDoctorLooksAtThePriceOfWhatIsAsked(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ executor, model, status string }{
		{"claude-code", "sonnet", "ok"},
		{"claude-code", "opus", "ok"},
		{"claude-code", "haiku", "ok"},
		{"claude-code", "house-model", "fail"},
		{"gemini", "gemini-2.5-pro", "ok"},
	} {
		t.Run(tt.executor+" "+tt.model, func(t *testing.T) {
			t.Parallel()
			cli, err := agent.For(tt.executor)
			if err != nil {
				t.Fatal(err)
			}
			cfg := agentConfig(t, tt.executor, clitest.CLI(t, cli.Command))
			cfg.Agent.Model = tt.model
			c := found(t, cfg, doctor.Options{ListTools: oneshot.ListTools}, doctor.CheckModel)[0]
			if c.Status != tt.status || c.Status == "fail" && !strings.Contains(c.Detail, "house-model has no price") {
				t.Errorf("%+v", c)
			}
		})
	}
}

// Without kubectl an agent with a shell would be blind: it gets our tools in its place,
// and doctor says so.
func TestDoctorWithoutKubectl(t *testing.T) {
	claude := clitest.CLI(t, "claude")
	t.Setenv("PATH", t.TempDir()) // where a server would look
	c := found(t, agentConfig(t, "claude-code", claude), doctor.Options{ListTools: oneshot.ListTools}, doctor.CheckAgent)[0]
	if c.Status != "warn" || !strings.Contains(c.Detail, ", without a shell: ") || !strings.Contains(c.Detail, "kubectl is not in PATH") || !strings.Contains(c.Hint, "install kubectl") {
		t.Errorf("%+v", c)
	}
}

func TestDoctorLooksAtAllAgents(t *testing.T) {
	cfg := agentConfig(t, "builtin", "")
	t.Setenv("PATH", t.TempDir()) // doctor looks where a server would
	checks := found(t, cfg, doctor.Options{ListTools: oneshot.ListTools, AllAgents: true}, doctor.CheckAgent)
	if len(checks) != 1+len(agent.CLIs()) {
		t.Fatalf("%+v", checks)
	}
	for i, cli := range agent.CLIs() {
		if c := checks[1+i]; c.Name != cli.Name || c.Status != "warn" || !strings.HasPrefix(c.Hint, "npm install -g "+cli.Package+"@"+cli.Versions[0]) {
			t.Errorf("%+v", c)
		}
	}
}

// A CLI that is there and does not work is found by starting it, not by its version.
func TestDoctorFindsWhatDoesNotStart(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ script, says string }{
		"another program":  {"[ \"$1\" = --version ] && echo 2.1.328 && exit\necho usage: claude >&2\nexit 64", "usage: claude"},
		"one that is mute": {"[ \"$1\" = --version ] && echo 2.1.328 && exit\nexit 0", "without a question to its model"},
		"one that crashes": {"[ \"$1\" = --version ] && echo 2.1.328 && exit\nkill -SEGV $$", "crash"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "claude")
			if err := os.WriteFile(path, []byte("#!/bin/sh\n"+tt.script+"\n"), 0o755); err != nil {
				t.Fatal(err)
			}
			c := found(t, agentConfig(t, config.ClaudeCode, path), doctor.Options{ListTools: oneshot.ListTools}, doctor.CheckAgent)[0]
			if c.Status != "fail" || !strings.Contains(c.Detail, tt.says) || !strings.Contains(c.Hint, "npm install -g @anthropic-ai/claude-code@") {
				t.Errorf("%+v", c)
			}
		})
	}
}

// The same program in a version that nobody tried works, and is said to be one.
func TestDoctorSaysThatAVersionIsUntested(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "node_modules", "@anthropic-ai", "claude-code")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "package.json"), []byte(`{"name": "@anthropic-ai/claude-code", "version": "2.9.0"}`), 0o644); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "claude")
	if err := os.Link(clitest.Claude(t), path); err != nil {
		t.Skipf("SKIPPED ALOUD: the cache of CLIs and the temporary directory are on two file systems: %v", err)
	}
	c := found(t, agentConfig(t, config.ClaudeCode, path), doctor.Options{ListTools: oneshot.ListTools}, doctor.CheckAgent)[0]
	if c.Status != "warn" || !strings.Contains(c.Hint, "2.9.0 was not tested, 2.1.328 was: npm install -g") {
		t.Errorf("%+v", c)
	}

	s := newSite(t, "")
	s.env["NIGHTCRIER_AGENT_EXECUTOR"], s.env["NIGHTCRIER_AGENT_COMMAND"], s.env["ANTHROPIC_API_KEY"] = config.ClaudeCode, path, realKey
	s.app(nil)
	s.eventually(func() string {
		log, err := os.ReadFile(s.logFile)
		s.must(err)
		if strings.Count(string(log), `"event":"agent_cli"`) != 1 || !strings.Contains(string(log), `"version":"2.9.0"`) || !strings.Contains(string(log), "was not tested") {
			return "the server does not warn of the version"
		}
		return ""
	})
}

// The provider is asked only where that is wanted, and its answer is put in words.
func TestDoctorAsksWhetherAKeyIsAccepted(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]struct{ status, says, hint string }{
		200: {"ok", "the key is accepted", ""},
		401: {"fail", "does not accept the key (HTTP 401)", "OPENAI_API_KEY"},
		403: {"fail", "does not accept the key (HTTP 403)", "OPENAI_API_KEY"},
		429: {"warn", "rate or quota is used up", "balance"},
		503: {"fail", "is not known", "agent.base_url"},
	} {
		var calls atomic.Int32
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			calls.Add(1)
			w.WriteHeader(status)
		}))
		cfg := agentConfig(t, "script", "", "NIGHTCRIER_AGENT_PROVIDER=openai", "OPENAI_BASE_URL="+srv.URL+"/v1", "AGENT_SCRIPT_PATH=/bin/true")
		if c := found(t, cfg, doctor.Options{ListTools: oneshot.ListTools}, doctor.CheckModel)[0]; c.Status != "ok" || calls.Load() != 0 {
			t.Errorf("%+v after %d calls", c, calls.Load())
		}
		if c := found(t, cfg, doctor.Options{ListTools: oneshot.ListTools, CheckKey: true}, doctor.CheckModel)[0]; c.Status != want.status || !strings.Contains(c.Detail, want.says) || !strings.Contains(c.Hint, want.hint) || calls.Load() != 1 {
			t.Errorf("HTTP %d: %+v after %d calls", status, c, calls.Load())
		}
		srv.Close()
	}
}
