package config

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent"
)

// bin is a PATH that holds empty programs of these names.
func bin(t *testing.T, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range names {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return "PATH=" + dir
}

// Each provider's key and address go to that provider alone, and what is set for
// another one is neither used nor complained of.
func TestKeyOfTheProviderInUse(t *testing.T) {
	all := []string{"ANTHROPIC_API_KEY=k-anthropic", "OPENAI_API_KEY=k-openai", "GEMINI_API_KEY=k-google",
		"ANTHROPIC_BASE_URL=https://anthropic.example", "OPENAI_BASE_URL=https://openai.example/v1", "GOOGLE_GEMINI_BASE_URL=https://google.example"}
	for _, p := range []nightcrier.Provider{nightcrier.Anthropic, nightcrier.OpenAI, nightcrier.Google} {
		cfg, warnings := mustLoad(t, "agent: {executor: script, script_path: /bin/true, provider: "+string(p)+"}", all...)
		if len(warnings) > 0 {
			t.Errorf("%s: warnings %v", p, warnings)
		}
		if a := cfg.Agent; a.Provider != p || a.APIKey.Reveal() != "k-"+string(p) || !strings.HasPrefix(a.BaseURL, "https://"+string(p)) {
			t.Errorf("%s: %s at %s with %s", p, a.Provider, a.BaseURL, a.APIKey.Reveal())
		}
		if got := len(slices.DeleteFunc(cfg.ModelKeys(), func(s Secret) bool { return !s.IsSet() })); got != 4 { // the one in use stands twice
			t.Errorf("%s: %d keys to be masked", p, got)
		}
	}
}

func TestKeyThatNobodyUses(t *testing.T) {
	broken := []string{"OPENAI_API_KEY=two words", "OPENAI_BASE_URL=ftp://x", "GOOGLE_API_KEY=one", "GEMINI_API_KEY=another", "ANTHROPIC_API_KEY=k"}
	cfg, warnings := mustLoad(t, "", broken...)
	if cfg.Agent.Executor != ClaudeCode || len(warnings) > 0 {
		t.Errorf("%s, %v", cfg.Agent.Executor, warnings)
	}
	for provider, want := range map[string][]string{
		"openai": {"OPENAI_API_KEY: contains a space", "OPENAI_BASE_URL: has the scheme"},
		"google": {"GOOGLE_API_KEY: disagrees with env GEMINI_API_KEY"},
	} {
		_, _, err := load(t, "agent: {executor: script, script_path: /bin/true, provider: "+provider+"}", broken, nil)
		for _, part := range want {
			if err == nil || !strings.Contains(err.Error(), part) || strings.Contains(err.Error(), "two words") {
				t.Errorf("%s: %v, want %s", provider, err, part)
			}
		}
	}
}

// Every executor's facts reach the configuration, and what it lacks is said with
// the command that mends it.
func TestEveryCLI(t *testing.T) {
	for _, cli := range agent.CLIs() {
		t.Run(cli.Name, func(t *testing.T) {
			model := ""
			if cli.NamesModel {
				model = ", model: m"
				if _, _, err := load(t, "agent: {executor: "+cli.Name+"}", nil, nil); err == nil || !strings.Contains(err.Error(), "agent.model: is not set, and "+cli.Name) {
					t.Errorf("without a model: %v", err)
				}
			}
			cfg, warnings := mustLoad(t, "agent: {executor: "+cli.Name+model+"}", bin(t))
			if cfg.Agent.Provider != cli.Providers[0] || model == "" && cfg.Agent.Model != cli.DefaultModel {
				t.Errorf("provider %s, model %s", cfg.Agent.Provider, cfg.Agent.Model)
			}
			for _, want := range []string{"set " + KeyVariables(cli.Providers[0])[0] + " or", cli.Command + " is not in PATH: install it (npm install -g " + cli.Package + "@" + cli.Versions[0] + ")"} {
				if !hasWarning(warnings, want) {
					t.Errorf("warnings %v, want %q", warnings, want)
				}
			}
			for _, p := range []nightcrier.Provider{nightcrier.Anthropic, nightcrier.OpenAI, nightcrier.Google} {
				_, _, err := load(t, "agent: {executor: "+cli.Name+model+", provider: "+string(p)+"}", nil, nil)
				if can := slices.Contains(cli.Providers, p); can != (err == nil) || err != nil && !strings.Contains(err.Error(), "agent.provider: "+cli.Name+" cannot use "+string(p)) {
					t.Errorf("%s: %v", p, err)
				}
			}
			if cli.NamesModel {
				return // none is chosen by itself
			}
			for _, env := range [][]string{{"AGENT_CLI=" + cli.Command}, {"AGENT_RUNTIME_COMMAND=" + cli.Command}, {"NIGHTCRIER_AGENT_PROVIDER=" + string(cli.Providers[0])},
				{KeyVariables(cli.Providers[0])[0] + "=k", bin(t, cli.Command)}} {
				if cfg, _ := mustLoad(t, "", env...); cfg.Agent.Executor != cli.Name {
					t.Errorf("%v: %s", env, cfg.Agent.Executor)
				}
			}
		})
	}
}

// npm installs goose by the name of its package.
func TestCLIByItsAlias(t *testing.T) {
	for _, cli := range agent.CLIs() {
		if cli.Alias == "" {
			continue
		}
		_, warnings := mustLoad(t, "agent: {executor: "+cli.Name+", model: m, api_key: k}", bin(t, cli.Alias))
		if len(warnings) > 0 {
			t.Errorf("%s is installed: %v", cli.Alias, warnings)
		}
		cfg, _ := mustLoad(t, "agent: {model: m, api_key: k, command: "+cli.Alias+"}", bin(t, cli.Alias))
		if cfg.Agent.Executor != cli.Name {
			t.Errorf("agent.command %s means %s", cli.Alias, cfg.Agent.Executor)
		}
		if _, warnings = mustLoad(t, "agent: {model: m, api_key: k, command: "+cli.Command+"}", bin(t, cli.Alias)); !hasWarning(warnings, cli.Command+" is not in PATH") {
			t.Errorf("another command than the one that was named: %v", warnings)
		}
	}
}

// OPENAI_API_KEY and its like serve many programs: without the CLI they start none.
func TestKeyWithoutItsCLI(t *testing.T) {
	for _, key := range []string{"OPENAI_API_KEY=k", "GEMINI_API_KEY=k", "GOOGLE_API_KEY=k"} {
		cfg, warnings := mustLoad(t, "", key, bin(t))
		if cfg.Agent.Executor != Builtin || len(warnings) > 0 {
			t.Errorf("%s: %s, %v", key, cfg.Agent.Executor, warnings)
		}
	}
}

func TestAnotherExecutor(t *testing.T) {
	cfg, _ := mustLoad(t, "agent: {command: /bin/true, model: opus}", "ANTHROPIC_API_KEY=k-a", "OPENAI_API_KEY=k-o", "OPENAI_BASE_URL=https://o.example")
	if a, err := cfg.AgentFor(""); err != nil || a.Command != "/bin/true" || a.APIKey.Reveal() != "k-a" {
		t.Errorf("the configured one: %+v, %v", a, err)
	}
	if a, err := cfg.AgentFor(Builtin); err != nil || a.Executor != Builtin {
		t.Errorf("%+v, %v", a, err)
	}
	if _, err := cfg.AgentFor(Script); nightcrier.CodeOf(err) != nightcrier.Invalid {
		t.Errorf("a script that is not named: %v", err)
	}
	if _, err := cfg.AgentFor("copilot"); nightcrier.CodeOf(err) != nightcrier.Invalid {
		t.Errorf("unknown: %v", err)
	}
	for _, cli := range agent.CLIs() {
		a, err := cfg.AgentFor(cli.Name)
		switch {
		case cli.Name == ClaudeCode:
		case cli.NamesModel && !slices.Contains(cli.Providers, nightcrier.Anthropic):
			if nightcrier.CodeOf(err) != nightcrier.Invalid {
				t.Errorf("%s: %+v, %v", cli.Name, a, err)
			}
		case err != nil || a.Command != "":
			t.Errorf("%s: %+v, %v", cli.Name, a, err)
		case a.Provider == nightcrier.OpenAI && (a.APIKey.Reveal() != "k-o" || a.BaseURL != "https://o.example" || a.Model != cli.DefaultModel):
			t.Errorf("%s: %+v with %s", cli.Name, a, a.APIKey.Reveal())
		}
	}
}

// The page about agents says of each what its executor says.
func TestAgentsPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/agents.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := strings.Split(string(page), "\n")
	for _, cli := range agent.CLIs() {
		i := slices.IndexFunc(rows, func(row string) bool { return strings.HasPrefix(row, "| `"+cli.Name+"` | `"+cli.Install()+"` |") })
		if i < 0 {
			t.Errorf("no row says that `%s` installs %s", cli.Install(), cli.Name)
			continue
		}
		want := []string{"`" + KeyVariables(cli.Providers[0])[0] + "`", map[bool]string{true: "our tools", false: "`kubectl`"}[cli.UsesTools], cli.DefaultModel}
		if cli.NamesModel && cli.DefaultModel == "" {
			want = append(want, "name one in `agent.model`")
		}
		for _, w := range want {
			if !strings.Contains(rows[i], w) {
				t.Errorf("the row of %s lacks %s: %s", cli.Name, w, rows[i])
			}
		}
	}
	for _, p := range []nightcrier.Provider{nightcrier.Anthropic, nightcrier.OpenAI, nightcrier.Google} {
		for _, name := range append(KeyVariables(p), AddressVariables(p)...) {
			if !strings.Contains(string(page), "`"+name+"`") {
				t.Errorf("the page does not name %s of %s", name, p)
			}
		}
	}
}

// A server in one's own network needs no key; what is asked in the open gets none.
func TestLocalModelsNeedNoKey(t *testing.T) {
	path := bin(t, "goose", "gemini")
	for _, c := range []struct {
		base, provider, key string
		keyless             bool
		want                string // of what is wrong
	}{
		{"http://127.0.0.1:11434", "openai", "", true, ""},
		{"http://localhost:8000/v1", "anthropic", "", true, ""},
		{"http://[::1]:8000", "openai", "", true, ""},
		{"http://10.1.2.3:8000", "openai", "", true, ""},
		{"http://[fd00::7]:8000", "openai", "", true, ""},
		{"http://ollama.ai.svc:11434", "openai", "", true, ""},
		{"http://127.0.0.1:11434", "google", "", false, "agent.api_key: is not set"},
		{"https://10.1.2.3:8000", "openai", "", false, "agent.api_key: is not set"},
		{"http://127.0.0.1:11434", "openai", "k", false, ""},
		{"http://10.1.2.3:8000", "openai", "k", false, "unencrypted"},
		{"http://8.8.8.8:8000", "openai", "", false, "unencrypted"},
		{"http://169.254.169.254", "openai", "", false, "unencrypted"},
		{"http://models.example", "openai", "", false, "unencrypted"},
		{"http://10.example", "openai", "", false, "unencrypted"},
	} {
		yaml := "agent: {executor: goose, model: m, base_url: \"" + c.base + "\", provider: " + c.provider + "}"
		env := []string{path}
		if c.key != "" {
			env = append(env, "NIGHTCRIER_AGENT_API_KEY="+c.key)
		}
		cfg, warnings, err := load(t, yaml, env, nil)
		said := fmt.Sprint(warnings)
		if err != nil {
			said += err.Error()
		}
		if !strings.Contains(said, c.want) || c.want == "" && (err != nil || strings.Contains(said, "api_key")) {
			t.Errorf("%+v: %s", c, said)
		}
		if err == nil && cfg.Agent.Keyless != c.keyless {
			t.Errorf("%+v: keyless %v", c, cfg.Agent.Keyless)
		}
	}
}

// A base URL of Bedrock or Vertex is refused when the configuration is read, and not by
// the first investigation; one of a provider that is not in use, when it would be.
func TestSignedUpstreamsAreRefused(t *testing.T) {
	for _, base := range []string{"https://bedrock-runtime.eu-west-1.amazonaws.com", "https://bedrock-runtime.cn-north-1.amazonaws.com.cn/v1", "https://europe-west1-aiplatform.googleapis.com/v1"} {
		_, _, err := load(t, "agent: {executor: claude-code, base_url: \""+base+"\"}", []string{"ANTHROPIC_API_KEY=k"}, nil)
		if err == nil || !strings.Contains(err.Error(), "agent.base_url") || !strings.Contains(err.Error(), "signed") {
			t.Errorf("%s: %v", base, err)
		}
		cfg, _, err := load(t, "agent: {executor: claude-code}", []string{"ANTHROPIC_API_KEY=k", "OPENAI_API_KEY=k", "OPENAI_BASE_URL=" + base}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if a, err := cfg.AgentFor("codex"); err == nil || !strings.Contains(err.Error(), "OPENAI_BASE_URL") || !strings.Contains(err.Error(), "signed") {
			t.Errorf("%s, of another provider: asked at %q, %v", base, a.BaseURL, err)
		}
	}
}
