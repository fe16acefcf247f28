package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent"
)

// write puts text into a file of a fresh directory and returns its path.
func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// load loads a file's text; empty means no file.
func load(t *testing.T, yaml string, env []string, flags map[string]string) (*Config, []Warning, error) {
	t.Helper()
	o := Options{Env: env, Flags: flags, Dir: "/srv"}
	if yaml != "" {
		o.File = write(t, "nc.yaml", yaml)
	}
	return Load(o)
}

// mustLoad is load for what has to be valid.
func mustLoad(t *testing.T, yaml string, env ...string) (*Config, []Warning) {
	t.Helper()
	cfg, warnings, err := load(t, yaml, env, nil)
	if err != nil {
		t.Fatal(err)
	}
	return cfg, warnings
}

func TestDefaults(t *testing.T) {
	cfg, warnings := mustLoad(t, "")
	if len(warnings) > 0 {
		t.Errorf("warnings without any setting: %v", warnings)
	}
	want := &Config{
		WorkspaceRoot: "/srv/incidents", SeverityThreshold: nightcrier.Warning, DedupeWindow: 5 * time.Minute,
		Storm:               Storm{Fingerprints: 10, Within: time.Minute, Investigate: 3, Quiet: 5 * time.Minute},
		MaxConcurrentAgents: 5, MaxConcurrentPerCluster: 1, Queue: Queue{Max: 1000, Expiry: 6 * time.Hour},
		Clusters: []Cluster{},
		Agent: Agent{Spec: agent.Spec{Executor: Builtin, Provider: nightcrier.Anthropic, Model: "sonnet", Timeout: 5 * time.Minute, Grace: 30 * time.Second,
			MaxTurns: 30, MaxTokens: 32000, AllowedTools: []string{"Read", "Grep", "Glob", readOnlyBash}, Shell: true,
			Require: "best-effort", UIDBase: 1879048192, MaxWorkspaceBytes: 256 << 20}},
		Skills:   Skills{FetchedDir: "/srv/incidents/skills"},
		Runbooks: Runbooks{Timeout: 5 * time.Second},
		Sandbox:  Sandbox{Backend: "process"}, Budget: Budget{PerRunUSD: 2, PerIncidentUSD: 4, PerClusterDayUSD: 50}, Retention: 72 * time.Hour,
		Log: Log{Level: "info", Format: "auto"}, HealthListen: "127.0.0.1:8080", Page: Page{Listen: "127.0.0.1:8090"},
	}
	if diff := cmp.Diff(want, cfg, cmp.FilterPath(isHidden, cmp.Ignore())); diff != "" {
		t.Error(diff)
	}
}

func isHidden(p cmp.Path) bool {
	return p.Last().String() == ".origins" || p.Last().String() == ".models"
}

// Without a word on addresses the API has no port, and health has one.
func TestAddresses(t *testing.T) {
	for yaml, want := range map[string][2]string{
		"":                          {"", "127.0.0.1:8080"},
		"listen: 127.0.0.1:8080":    {"127.0.0.1:8080", ""},
		"listen: none":              {"", ""},
		"health_listen: none":       {"", ""},
		"health_listen: 0.0.0.0:81": {"", "0.0.0.0:81"},
		"listen: 127.0.0.1:8080\nhealth_listen: 0.0.0.0:81": {"127.0.0.1:8080", "0.0.0.0:81"},
		"listen: 127.0.0.1:0\nhealth_listen: 127.0.0.1:0":   {"127.0.0.1:0", "127.0.0.1:0"},
	} {
		cfg, _ := mustLoad(t, yaml)
		if got := [2]string{cfg.Listen, cfg.HealthListen}; got != want {
			t.Errorf("%q: listen, health_listen %q, want %q", yaml, got, want)
		}
	}
}

func TestPrecedence(t *testing.T) {
	const yaml = "agent: {max_turns: 11}\n"
	env := []string{"NIGHTCRIER_AGENT_MAX_TURNS=12"}
	flags := map[string]string{"agent-max-turns": "13"}
	tests := []struct {
		name   string
		yaml   string
		env    []string
		flags  map[string]string
		want   int
		origin string
	}{
		{"default", "", nil, nil, 30, "default"},
		{"file over default", yaml, nil, nil, 11, "nc.yaml:1"},
		{"environment over file", yaml, env, nil, 12, "env NIGHTCRIER_AGENT_MAX_TURNS"},
		{"flag over environment and file", yaml, env, flags, 13, "flag --agent-max-turns"},
		{"flag over environment", "", env, flags, 13, "flag --agent-max-turns"},
		{"an empty variable is unset", yaml, []string{"NIGHTCRIER_AGENT_MAX_TURNS="}, nil, 11, "nc.yaml:1"},
		{"an empty value of the file is unset", "agent: {max_turns: \"\"}", nil, nil, 30, "default"},
		{"null is unset", "agent: {max_turns: }\nqueue:\n", nil, nil, 30, "default"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg, _, err := load(t, tt.yaml, tt.env, tt.flags)
			if err != nil {
				t.Fatal(err)
			}
			if cfg.Agent.MaxTurns != tt.want {
				t.Errorf("max_turns = %d, want %d", cfg.Agent.MaxTurns, tt.want)
			}
			if got := cfg.Origin("agent.max_turns").String(); !strings.HasSuffix(got, tt.origin) {
				t.Errorf("origin %q, want %q", got, tt.origin)
			}
		})
	}
}

func TestSpellingsThatDisagree(t *testing.T) {
	const oneCluster = "clusters: [{name: a, kubeconfig: /k1, mcp: {endpoint: http://h/}}]\n"
	tests := []struct {
		name  string
		yaml  string
		env   []string
		flags map[string]string
		want  []string // all named in the error; empty for no error
	}{
		{"in the environment", "", []string{"LOG_LEVEL=debug", "NIGHTCRIER_LOG_LEVEL=error"}, nil, []string{"LOG_LEVEL", "NIGHTCRIER_LOG_LEVEL", "log.level"}},
		{"in the file", "workspace_root: /a/b\nagent_runtime: {workspace_root: /a/c}", nil, nil,
			[]string{"nc.yaml:2", "agent_runtime.workspace_root", "nc.yaml:1"}},
		{"as flags", "", nil, map[string]string{"mcp-endpoint": "http://a/", "cluster-mcp-endpoint": "http://b/"},
			[]string{"--mcp-endpoint", "--cluster-mcp-endpoint"}},
		{"two keys for one model", "", []string{"ANTHROPIC_API_KEY=k1", "CLAUDE_API_KEY=k2"}, nil, []string{"ANTHROPIC_API_KEY", "CLAUDE_API_KEY"}},
		{"two kubeconfigs for one cluster", oneCluster + "agent_runtime: {kubeconfig_path: /k2}", nil, nil,
			[]string{"agent_runtime.kubeconfig_path", "clusters[0].kubeconfig"}},
		{"also where a stronger layer decides", "log: {level: info}\nagent_runtime: {log_level: debug}", []string{"LOG_LEVEL=warn"}, nil,
			[]string{"agent_runtime.log_level"}},
		{"the same in other words", "", []string{"AGENT_TIMEOUT=300", "NIGHTCRIER_AGENT_TIMEOUT=5m", "AGENT_RUNTIME_MAX_DURATION=300s"}, nil, nil},
		{"in different layers", "log: {level: info}", []string{"LOG_LEVEL=warn"}, map[string]string{"log-level": "error"}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, _, err := load(t, tt.yaml, tt.env, tt.flags)
			if (err != nil) != (len(tt.want) > 0) {
				t.Fatalf("error %v", err)
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not name %q", err, want)
				}
			}
			if err != nil && nightcrier.CodeOf(err) != nightcrier.Invalid {
				t.Errorf("code %s", nightcrier.CodeOf(err))
			}
		})
	}
}

func TestAllProblemsAtOnce(t *testing.T) {
	_, _, err := load(t, "agent:\n  timeout: 5\n  modle: x\nqueue:\n  max: 0\nlog: {level: loud}\n", []string{"SUBSCRIBE_MODE=all"}, nil)
	var found Problems
	if !errors.As(err, &found) || len(found) != 5 {
		t.Fatalf("problems: %v", err)
	}
	lines := map[string]int{}
	for _, p := range found {
		lines[p.Key] = p.Origin.Line
		if p.Code != nightcrier.Invalid {
			t.Errorf("%s: code %s", p.Key, p.Code)
		}
	}
	want := map[string]int{"agent.timeout": 2, "agent.modle": 3, "queue.max": 5, "log.level": 6, "SUBSCRIBE_MODE": 0}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Error(diff)
	}
}

func TestTheOnlyCluster(t *testing.T) {
	const one = "clusters: [{name: a, mcp: {endpoint: http://file/}}]"
	const two = "clusters: [{name: a, mcp: {endpoint: http://a/}}, {name: b, mcp: {endpoint: http://b/}}]"
	tests := []struct {
		name, yaml string
		env        []string
		want       []Cluster
		err, warn  string
	}{
		{name: "a variable alone makes a cluster", env: []string{"K8S_CLUSTER_MCP_ENDPOINT=http://env/", "SUBSCRIBE_MODE=faults"},
			want: []Cluster{{Name: "default", MCP: MCP{Endpoint: "http://env/", Mode: "faults"}}}},
		{name: "it may be named", env: []string{"K8S_CLUSTER_MCP_ENDPOINT=http://env/", "NIGHTCRIER_CLUSTER_NAME=prod"},
			want: []Cluster{{Name: "prod", MCP: MCP{Endpoint: "http://env/", Mode: "auto"}}}},
		{name: "the environment beats the file", yaml: one, env: []string{"K8S_CLUSTER_MCP_ENDPOINT=http://env/"},
			want: []Cluster{{Name: "a", MCP: MCP{Endpoint: "http://env/", Mode: "auto"}}}},
		{name: "an empty list is no cluster", yaml: "clusters: []", want: []Cluster{}},
		{name: "a mode without a cluster", env: []string{"SUBSCRIBE_MODE=faults"}, want: []Cluster{}, warn: "no cluster is configured"},
		{name: "never guessed among several", yaml: two, env: []string{"AGENT_RUNTIME_KUBECONFIG=/k"}, err: "which of the 2 clusters"},
		{name: "nor from the file", yaml: two + "\nagent_runtime: {kubeconfig_path: /k}", err: "which of the 2 clusters"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg, warnings, err := load(t, tt.yaml, tt.env, nil)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Fatalf("error %v, want %q", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, cfg.Clusters); diff != "" {
				t.Error(diff)
			}
			if !hasWarning(warnings, tt.warn) {
				t.Errorf("warnings %v, want %q", warnings, tt.warn)
			}
		})
	}
}

// What lacks a watched cluster is said of the watch.
func TestWatchWithoutItsFile(t *testing.T) {
	for line, want := range map[string]string{
		"watch: true, kubeconfig: /none":                              "is not watched before that can be read",
		"watch: false, mcp: {endpoint: http://h/}, kubeconfig: /none": "from the event alone",
		"watch: false":                           "watch is false: no faults of cluster a arrive",
		"alertmanager: ":                         "no faults of cluster a arrive, unless this machine posts alerts of it",
		"alertmanager: {}":                       "",
		"kubeconfig: /none":                      "no faults of cluster a arrive",
		"alertmanager: {labels: {pod: k8s_pod}}": "",
	} {
		_, warnings, err := load(t, "clusters: [{name: a, "+line+"}]", nil, nil)
		if err != nil || !hasWarning(warnings, want) {
			t.Errorf("%s: %v, %v, want %q", line, warnings, err, want)
		}
	}
}

// hasWarning reports whether one warning contains the text; an empty text
// wants no warning at all.
func hasWarning(warnings []Warning, text string) bool {
	if text == "" {
		return len(warnings) == 0
	}
	for _, w := range warnings {
		if strings.Contains(w.String(), text) {
			return true
		}
	}
	return false
}

func TestChooseExecutor(t *testing.T) {
	script := filepath.Join(t.TempDir(), "agent.sh")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	const key = "ANTHROPIC_API_KEY=sk-1"
	tests := []struct {
		name string
		env  []string
		want string
		err  string
	}{
		{"no key", nil, Builtin, ""},
		{"a key", []string{key}, ClaudeCode, ""},
		{"the other name of the key", []string{"CLAUDE_API_KEY=sk-1"}, ClaudeCode, ""},
		{"a script", []string{key, "AGENT_SCRIPT_PATH=" + script}, Script, ""},
		{"a script and the CLI it shall use", []string{"AGENT_CLI=codex", "AGENT_SCRIPT_PATH=" + script}, Script, ""},
		{"a CLI", []string{"AGENT_CLI=claude"}, ClaudeCode, ""},
		{"a command", []string{"AGENT_RUNTIME_COMMAND=claude"}, ClaudeCode, ""},
		{"a named executor beats all", []string{key, "AGENT_SCRIPT_PATH=" + script, "NIGHTCRIER_AGENT_EXECUTOR=builtin"}, Builtin, ""},
		{"a second CLI", []string{"AGENT_CLI=codex"}, "codex", ""},
		{"a script that is not named", []string{"NIGHTCRIER_AGENT_EXECUTOR=script"}, "", "agent.script_path: is not set"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg, _, err := load(t, "", tt.env, nil)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) || strings.Contains(err.Error(), "\n") {
					t.Fatalf("error %v, want only %q", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if cfg.Agent.Executor != tt.want {
				t.Errorf("executor %q, want %q", cfg.Agent.Executor, tt.want)
			}
		})
	}
}

func TestCheckFailsWhereServeOnlyWarns(t *testing.T) {
	yaml := `clusters:
  - {name: a, kubeconfig: /does/not/exist, mcp: {endpoint: "http://h/", api_key_env: NO_SUCH_KEY}}
  - {name: b, mcp: {endpoint: "http://i/"}}
`
	o := Options{File: write(t, "nc.yaml", yaml), Dir: "/srv"}
	cfg, warnings, err := Load(o)
	if err != nil || len(cfg.Clusters) != 2 || len(warnings) != 2 {
		t.Fatalf("one broken cluster stops the others: %v, %v", warnings, err)
	}
	rest, err := Check(o)
	var found Problems
	if !errors.As(err, &found) || len(found) != 2 || len(rest) != 0 {
		t.Fatalf("check: %v, %v", rest, err)
	}
	for _, want := range []string{"cluster a", "/does/not/exist", "NO_SUCH_KEY", "nc.yaml:2"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not name %s", err, want)
		}
	}
	if _, err := Check(Options{Dir: "/srv"}); err != nil {
		t.Errorf("nothing configured: %v", err)
	}
}

func TestCLIThatIsNotThere(t *testing.T) {
	dir := t.TempDir()
	key, path := "ANTHROPIC_API_KEY=k", "PATH=/no/such/dir:"+dir
	if _, warnings := mustLoad(t, "", key, path); !hasWarning(warnings, "claude is not in PATH") {
		t.Errorf("warnings %v", warnings)
	}
	if _, err := Check(Options{Env: []string{key, path}}); err == nil {
		t.Error("the check passes without the command")
	}
	if err := os.WriteFile(filepath.Join(dir, "claude"), []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, warnings := mustLoad(t, "", key, path); len(warnings) > 0 {
		t.Errorf("warnings %v", warnings)
	}
	if _, warnings := mustLoad(t, "agent: {executor: claude-code}", path); !hasWarning(warnings, "agent.api_key: is not set") {
		t.Errorf("warnings %v", warnings)
	}
	if _, _, err := load(t, "agent: {command: /no/such/claude}", nil, nil); err == nil || !strings.Contains(err.Error(), "/no/such/claude cannot be run") {
		t.Errorf("error %v", err)
	}
}

func TestThingsWorthKnowing(t *testing.T) {
	script := write(t, "agent.sh", "#!/bin/sh\n")
	if err := os.Chmod(script, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ yaml, want string }{
		{"agent: {executor: builtin, script_path: " + script + "}", "agent.script_path: has no effect: the executor is builtin"},
		{"sandbox: {require: none}", "sandbox.require: none: agents start even when nothing isolates them"},
		{"skills: {cache_dir: /no/such}", "the embedded skill is used"},
		{"clusters: [{name: a}]", "no faults of cluster a arrive"},
		{"clusters: [{name: a, mcp: {endpoint: http://h/}}, {name: b, mcp: {endpoint: http://h/}}]", "is also the endpoint of clusters[0]"},
		{"clusters: [{name: a, context: c, mcp: {endpoint: http://h/}}]", "has no effect without a kubeconfig"},
		{"agent: {cli: codex, script_path: " + script + "}", ""},
	} {
		if _, warnings := mustLoad(t, tt.yaml); !hasWarning(warnings, tt.want) {
			t.Errorf("%s: warnings %v, want %q", tt.yaml, warnings, tt.want)
		}
	}
}

func TestFileOfTheEnvironment(t *testing.T) {
	path := write(t, "nc.yaml", "log: {level: debug}")
	cfg, _, err := Load(Options{Env: []string{"NIGHTCRIER_CONFIG=" + path}})
	if err != nil || cfg.Log.Level != "debug" {
		t.Fatalf("%+v, %v", cfg, err)
	}
	other := write(t, "other.yaml", "log: {level: error}")
	cfg, _, err = Load(Options{File: other, Env: []string{"NIGHTCRIER_CONFIG=" + path}})
	if err != nil || cfg.Log.Level != "error" {
		t.Fatalf("the flag does not beat the variable: %+v, %v", cfg, err)
	}
}

func TestPathsAreAbsolute(t *testing.T) {
	cfg, _ := mustLoad(t, "clusters: [{name: a, kubeconfig: ~/k, mcp: {endpoint: http://h/}}]\nskills: {cache_dir: s/../t}",
		"HOME=/home/x", "AGENT_RUNTIME_COMMAND=claude")
	got := []string{cfg.Clusters[0].Kubeconfig, cfg.Skills.CacheDir, cfg.WorkspaceRoot, cfg.Agent.Command}
	want := []string{"/home/x/k", "/srv/t", "/srv/incidents", "claude"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
