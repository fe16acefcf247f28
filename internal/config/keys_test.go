package config

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent/skill"
)

// effect is one value of a key and what it makes of the Config. It says itself
// where the value ends up, so that a key bound to a wrong field is found.
type effect struct {
	line string
	want any
	got  func(*Config) any
}

// script is replaced by the path of an executable in the tests below.
const script = "/SCRIPT"

// effects has a row for every key that goes somewhere.
var effects = map[string]effect{
	"workspace_root":             {"/data/w", "/data/w", func(c *Config) any { return c.WorkspaceRoot }},
	"workspace_max_bytes":        {"2GiB", int64(2 << 30), func(c *Config) any { return c.Agent.MaxWorkspaceBytes }},
	"retention":                  {"24h", 24 * time.Hour, func(c *Config) any { return c.Retention }},
	"database_url":               {"postgres://u:p@h/d", "postgres://u:p@h/d", func(c *Config) any { return c.DatabaseURL.Reveal() }},
	"severity_threshold":         {"critical", nightcrier.Critical, func(c *Config) any { return c.SeverityThreshold }},
	"dedupe_window":              {"7m", 7 * time.Minute, func(c *Config) any { return c.DedupeWindow }},
	"storm.fingerprints":         {"21", 21, func(c *Config) any { return c.Storm.Fingerprints }},
	"storm.within":               {"22s", 22 * time.Second, func(c *Config) any { return c.Storm.Within }},
	"storm.investigate":          {"23", 23, func(c *Config) any { return c.Storm.Investigate }},
	"storm.quiet":                {"24s", 24 * time.Second, func(c *Config) any { return c.Storm.Quiet }},
	"max_concurrent_agents":      {"25", 25, func(c *Config) any { return c.MaxConcurrentAgents }},
	"max_concurrent_per_cluster": {"2", 2, func(c *Config) any { return c.MaxConcurrentPerCluster }},
	"queue.max":                  {"27", 27, func(c *Config) any { return c.Queue.Max }},
	"queue.expiry":               {"28m", 28 * time.Minute, func(c *Config) any { return c.Queue.Expiry }},
	"listen":                     {"[::1]:99", "[::1]:99", func(c *Config) any { return c.Listen }},
	"health_listen":              {"0.0.0.0:98", "0.0.0.0:98", func(c *Config) any { return c.HealthListen }},
	"log.level":                  {"error", "error", func(c *Config) any { return c.Log.Level }},
	"log.format":                 {"text", "text", func(c *Config) any { return c.Log.Format }},
	"slack.webhook_url":          {"https://hooks.example/x", "https://hooks.example/x", func(c *Config) any { return c.Slack.WebhookURL.Reveal() }},

	"budget.per_run_usd":            {"2.5", 2.5, func(c *Config) any { return c.Budget.PerRunUSD }},
	"budget.per_incident_usd":       {"0.02", 0.02, func(c *Config) any { return c.Budget.PerIncidentUSD }},
	"budget.per_cluster_day_usd":    {"51", 51.0, func(c *Config) any { return c.Budget.PerClusterDayUSD }},
	"budget.per_day_usd":            {"52", 52.0, func(c *Config) any { return c.Budget.PerDayUSD }},
	"budget.per_run_tokens":         {"53", 53, func(c *Config) any { return c.Budget.PerRunTokens }},
	"budget.per_incident_tokens":    {"54", 54, func(c *Config) any { return c.Budget.PerIncidentTokens }},
	"budget.per_cluster_day_tokens": {"55", 55, func(c *Config) any { return c.Budget.PerClusterDayTokens }},
	"budget.per_day_tokens":         {"56", 56, func(c *Config) any { return c.Budget.PerDayTokens }},

	"clusters[].name":            {"prod-9", "prod-9", func(c *Config) any { return c.Clusters[0].Name }},
	"clusters[].labels":          {"env=prod,team=a", map[string]string{"env": "prod", "team": "a"}, func(c *Config) any { return c.Clusters[0].Labels }},
	"clusters[].mcp.endpoint":    {"https://mcp.example/x", "https://mcp.example/x", func(c *Config) any { return c.Clusters[0].MCP.Endpoint }},
	"clusters[].mcp.mode":        {"events", "events", func(c *Config) any { return c.Clusters[0].MCP.Mode }},
	"clusters[].mcp.api_key_env": {"THE_KEY", "value of THE_KEY", func(c *Config) any { return "value of " + c.Clusters[0].MCP.APIKeyEnv }},
	"clusters[].watch":           {"true", true, func(c *Config) any { return c.Clusters[0].Watch }},
	"clusters[].kubeconfig":      {"/etc/k", "/etc/k", func(c *Config) any { return c.Clusters[0].Kubeconfig }},
	"clusters[].context":         {"ctx", "ctx", func(c *Config) any { return c.Clusters[0].Context }},

	"clusters[].alertmanager.token_env": {"THE_KEY", "value of THE_KEY", func(c *Config) any { return "value of " + c.Clusters[0].Alertmanager.TokenEnv }},
	"clusters[].alertmanager.labels":    {"pod=k8s_pod", map[string]string{"pod": "k8s_pod"}, func(c *Config) any { return c.Clusters[0].Alertmanager.Labels }},
	"page_listen":                       {"127.0.0.1:96", "127.0.0.1:96", func(c *Config) any { return c.Page.Listen }},
	"page_url":                          {"https://night.example", "https://night.example", func(c *Config) any { return c.Page.URL }},
	"page_tokens":                       {"ada=9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", []string{"ada=9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"}, func(c *Config) any { return c.Page.Tokens }},
	"webhook_listen":                    {"0.0.0.0:97", "0.0.0.0:97", func(c *Config) any { return c.WebhookListen }},

	"clusters[].sources.prometheus.url":             {"https://prometheus.example/x", "https://prometheus.example/x", func(c *Config) any { return c.Clusters[0].Sources.Prometheus.URL }},
	"clusters[].sources.prometheus.token_env":       {"THE_KEY", "value of THE_KEY", func(c *Config) any { return "value of " + c.Clusters[0].Sources.Prometheus.TokenEnv }},
	"clusters[].sources.prometheus.username":        {"me", "me", func(c *Config) any { return c.Clusters[0].Sources.Prometheus.Username }},
	"clusters[].sources.prometheus.password_env":    {"THE_KEY", "value of THE_KEY", func(c *Config) any { return "value of " + c.Clusters[0].Sources.Prometheus.PasswordEnv }},
	"clusters[].sources.prometheus.tenant":          {"team-a", "team-a", func(c *Config) any { return c.Clusters[0].Sources.Prometheus.Tenant }},
	"clusters[].sources.prometheus.namespace_label": {"k8s_ns", "k8s_ns", func(c *Config) any { return c.Clusters[0].Sources.Prometheus.NamespaceLabel }},
	"clusters[].sources.loki.url":                   {"https://loki.example/x", "https://loki.example/x", func(c *Config) any { return c.Clusters[0].Sources.Loki.URL }},
	"clusters[].sources.loki.token_env":             {"THE_KEY", "value of THE_KEY", func(c *Config) any { return "value of " + c.Clusters[0].Sources.Loki.TokenEnv }},
	"clusters[].sources.loki.username":              {"me", "me", func(c *Config) any { return c.Clusters[0].Sources.Loki.Username }},
	"clusters[].sources.loki.password_env":          {"THE_KEY", "value of THE_KEY", func(c *Config) any { return "value of " + c.Clusters[0].Sources.Loki.PasswordEnv }},
	"clusters[].sources.loki.tenant":                {"team-a", "team-a", func(c *Config) any { return c.Clusters[0].Sources.Loki.Tenant }},
	"clusters[].sources.loki.namespace_label":       {"k8s_ns", "k8s_ns", func(c *Config) any { return c.Clusters[0].Sources.Loki.NamespaceLabel }},

	"clusters[].namespaces":             {"shop,bank", []string{"shop", "bank"}, func(c *Config) any { return c.Clusters[0].Namespaces }},
	"clusters[].allow_write_credential": {"true", true, func(c *Config) any { return c.Clusters[0].AllowWriteCredential }},

	"agent.executor":           {"claude-code", "claude-code", func(c *Config) any { return c.Agent.Executor }},
	"agent.provider":           {"openai", nightcrier.OpenAI, func(c *Config) any { return c.Agent.Provider }},
	"agent.script_path":        {script, script, func(c *Config) any { return c.Agent.ScriptPath }},
	"agent.command":            {"claude-next", "claude-next", func(c *Config) any { return c.Agent.Command }},
	"agent.cli":                {"claude", "claude", func(c *Config) any { return c.Agent.CLI }},
	"agent.model":              {"opus", "opus", func(c *Config) any { return c.Agent.Model }},
	"agent.timeout":            {"31s", 31 * time.Second, func(c *Config) any { return c.Agent.Timeout }},
	"agent.graceful_shutdown":  {"32s", 32 * time.Second, func(c *Config) any { return c.Agent.Grace }},
	"agent.shell":              {"false", false, func(c *Config) any { return c.Agent.Shell }},
	"agent.max_turns":          {"33", 33, func(c *Config) any { return c.Agent.MaxTurns }},
	"agent.max_tokens":         {"700", 700, func(c *Config) any { return c.Agent.MaxTokens }},
	"agent.models":             {"a,b*", []string{"a", "b*"}, func(c *Config) any { return c.Agent.Models }},
	"agent.prices":             {"x=1/2", []string{"x=1/2"}, func(c *Config) any { return c.Agent.Prices }},
	"agent.allowed_tools":      {"Read,Bash(kubectl:get*,kubectl:logs*)", []string{"Read", "Bash(kubectl:get*,kubectl:logs*)"}, func(c *Config) any { return c.Agent.AllowedTools }},
	"agent.system_prompt_file": {script, script, func(c *Config) any { return c.Agent.SystemPromptFile }},
	"agent.base_url":           {"http://127.0.0.1:1", "http://127.0.0.1:1", func(c *Config) any { return c.Agent.BaseURL }},
	"agent.api_key":            {"sk-9", "sk-9", func(c *Config) any { return c.Agent.APIKey.Reveal() }},
	"skills.sources": {"/,https://h/s.git#" + pin + ":a/b", []skill.Source{{Path: "/"}, {Git: "https://h/s.git", Commit: pin, Dir: "a/b"}},
		func(c *Config) any { return c.Skills.Sources }},
	"skills.include":                {"payments,cart", []string{"payments", "cart"}, func(c *Config) any { return c.Skills.Include }},
	"skills.cache_dir":              {"/s", "/s", func(c *Config) any { return c.Skills.CacheDir }},
	"skills.disable_triage_preload": {"true", true, func(c *Config) any { return c.Skills.DisableTriagePreload }},
	"skills.triage_script":          {script, script, func(c *Config) any { return c.Skills.TriageScript }},
	"runbooks.dir":                  {"/r", "/r", func(c *Config) any { return c.Runbooks.Dir }},
	"runbooks.allowed_hosts":        {"a.example,10.0.0.0/8", []string{"a.example", "10.0.0.0/8"}, func(c *Config) any { return c.Runbooks.AllowedHosts }},
	"runbooks.timeout":              {"29s", 29 * time.Second, func(c *Config) any { return c.Runbooks.Timeout }},
	"knowledge.repositories":        {"/a,/b", []string{"/a", "/b"}, func(c *Config) any { return c.Knowledge.Repositories }},
	"knowledge.skill_library":       {"/l", "/l", func(c *Config) any { return c.Knowledge.SkillLibrary }},
	"knowledge.describe":            {"true", true, func(c *Config) any { return c.Knowledge.Describe }},
	"pipelines_dir":                 {"/p", "/p", func(c *Config) any { return c.PipelinesDir }},
	"history_dir":                   {"/h", "/h", func(c *Config) any { return c.HistoryDir }},
	"sandbox.backend":               {"process", "process", func(c *Config) any { return c.Sandbox.Backend }},
	"sandbox.require":               {"strict", "strict", func(c *Config) any { return c.Agent.Require }},
	"sandbox.uid_base":              {"300000", 300000, func(c *Config) any { return c.Agent.UIDBase }},
	"sandbox.read":                  {"/usr/local/bin/jq,/opt/scripts", []string{"/usr/local/bin/jq", "/opt/scripts"}, func(c *Config) any { return c.Agent.ReadPaths }},
}

// effectOf returns the row of a key, with a real file for script.
func effectOf(t *testing.T, k *key) effect {
	e, ok := effects[k.path]
	if !ok {
		t.Fatalf("key %s has no row in effects: show what it does", k.path)
	}
	if e.line == script {
		path := filepath.Join(t.TempDir(), "agent.sh")
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		e.line, e.want = path, path
	}
	return e
}

// base is a file with one cluster, so that cluster keys have a place. What a
// test states itself is left out.
func base(without string) string {
	endpoint := "http://h/"
	if without == "clusters[].mcp.endpoint" {
		endpoint = ""
	}
	kubeconfig := "" // but for watch, which needs one
	if without == "clusters[].watch" {
		kubeconfig = "/k"
	}
	return "clusters: [{name: a, kubeconfig: \"" + kubeconfig + "\", mcp: {endpoint: \"" + endpoint + "\"}}]\n"
}

func TestEveryKeyFromEveryLayer(t *testing.T) {
	all := allKeys()
	for i := range all {
		k := &all[i]
		if k.field == nil {
			continue
		}
		t.Run(k.path, func(t *testing.T) {
			e := effectOf(t, k)
			check := func(layer string, cfg *Config, err error) {
				t.Helper()
				if err != nil {
					t.Errorf("%s: %v", layer, err)
				} else if diff := cmp.Diff(e.want, e.got(cfg)); diff != "" {
					t.Errorf("%s: %s", layer, diff)
				}
			}
			cfg, _, err := load(t, yamlOf(k.path, e.line), nil, nil)
			check("file", cfg, err)
			cfg, _, err = load(t, base(k.path), []string{k.envName() + "=" + e.line}, nil)
			check("environment", cfg, err)
			for _, name := range []string{k.flagName(), k.path} {
				cfg, _, err = load(t, base(k.path), nil, map[string]string{name: e.line})
				if k.typ.secret {
					if err == nil || strings.Contains(err.Error(), e.line) {
						t.Errorf("a secret as flag: %v", err)
					}
					continue
				}
				check("flag "+name, cfg, err)
			}
		})
	}
}

// yamlOf writes one key of a file, with all that its cluster needs.
func yamlOf(path, line string) string {
	value := yamlText(line)
	if name, ok := strings.CutPrefix(path, clusterPrefix); ok {
		rest := map[string]string{"name": "a", "mcp.endpoint": "http://h/"}
		if name == "watch" {
			rest["kubeconfig"] = "/k"
		}
		rest[name] = line
		entry := "clusters:\n  - "
		groups := map[string]string{}
		for _, n := range slices.Sorted(maps.Keys(rest)) {
			group, leaf, nested := strings.Cut(n, ".")
			if !nested {
				entry += n + ": " + yamlText(rest[n]) + "\n    "
				continue
			}
			groups[group] += "      " + strings.ReplaceAll(leaf, ".", ": {") + ": " + yamlText(rest[n]) + strings.Repeat("}", strings.Count(leaf, ".")) + "\n"
		}
		for group, lines := range groups {
			entry += group + ":\n" + lines + "    "
		}
		return strings.TrimRight(entry, " ")
	}
	segments := strings.Split(path, ".")
	out := ""
	for i, s := range segments {
		out += strings.Repeat("  ", i) + s + ":"
		if i < len(segments)-1 {
			out += "\n"
		}
	}
	return out + " " + value + "\n"
}

func TestKeysThatAreOnlyChecked(t *testing.T) {
	tests := []struct{ path, good, warning, bad, problem string }{
		{"agent_runtime.read_only_mode", "true", "", "false", "agents are always read-only"},
		{"agent_runtime.metrics_enabled", "true", "", "false", "cannot be switched off"},
		{"agent_runtime.skills[].name", "k8s-troubleshooter", "", "other", "only the skill k8s-troubleshooter"},
		{"agent_runtime.skills[].enabled", "true", "", "false", "cannot be switched off"},
	}
	rows := map[string]bool{}
	for _, tt := range tests {
		rows[tt.path] = true
		t.Run(tt.path, func(t *testing.T) {
			yaml := yamlOf(tt.path, tt.good)
			bad := yamlOf(tt.path, tt.bad)
			if name, ok := strings.CutPrefix(tt.path, "agent_runtime.skills[]."); ok {
				yaml = "agent_runtime: {skills: [{" + name + ": " + tt.good + "}]}"
				bad = "agent_runtime: {skills: [{" + name + ": " + tt.bad + "}]}"
			}
			if _, warnings := mustLoad(t, yaml); !hasWarning(warnings, tt.warning) {
				t.Errorf("warnings %v, want %q", warnings, tt.warning)
			}
			if _, _, err := load(t, bad, nil, nil); err == nil || !strings.Contains(err.Error(), tt.problem) {
				t.Errorf("error %v, want %q", err, tt.problem)
			}
		})
	}
	for _, k := range allKeys() {
		if k.field == nil && k.hook == nil && k.tool == nil && !rows[k.path] {
			t.Errorf("key %s has no row here", k.path)
		}
	}
}

func TestReadOnlyCannotBeSwitchedOff(t *testing.T) {
	for _, try := range []struct{ yaml, env string }{
		{"agent_runtime: {read_only_mode: false}", ""},
		{"agent_runtime: {read_only_mode: \"no\"}", ""},
		{"", "AGENT_RUNTIME_READ_ONLY=false"},
		{"", "AGENT_RUNTIME_READ_ONLY=0"},
		{"agent_runtime: {read_only_mode: true}", "AGENT_RUNTIME_READ_ONLY=maybe"},
	} {
		_, _, err := load(t, try.yaml, []string{try.env}, nil)
		if nightcrier.CodeOf(err) != nightcrier.Refused {
			t.Errorf("%v: %v", try, err)
		}
	}
	mustLoad(t, "agent_runtime: {read_only_mode: true}", "AGENT_RUNTIME_READ_ONLY=true")
}

// otherSpellings has, for every other spelling, what is written and what it
// means.
var otherSpellings = map[string]struct {
	written string
	want    any
}{
	"WORKSPACE_ROOT":                          {"/a/b", "/a/b"},
	"AGENT_RUNTIME_WORKSPACE_ROOT":            {"/a/b", "/a/b"},
	"agent_runtime.workspace_root":            {"/var/lib/x", "/var/lib/x"},
	"agent_runtime.workspace_retention_hours": {"48", 48 * time.Hour},
	"DATABASE_URL":                            {"postgresql://h/d", "postgresql://h/d"},
	"LOG_LEVEL":                               {"WARNING", "warn"},
	"agent_runtime.log_level":                 {"debug", "debug"},
	"agent_runtime.structured_logging":        {"false", "text"},
	"SLACK_WEBHOOK_URL":                       {"https://h/x", "https://h/x"},
	"K8S_CLUSTER_MCP_ENDPOINT":                {"http://e/", "http://e/"},
	"mcp-endpoint":                            {"http://e/", "http://e/"},
	"SUBSCRIBE_MODE":                          {"resource-faults", "resource-faults"},
	"AGENT_RUNTIME_KUBECONFIG":                {"/k", "/k"},
	"agent_runtime.kubeconfig_path":           {"/k", "/k"},
	"AGENT_SCRIPT_PATH":                       {script, script},
	"AGENT_RUNTIME_COMMAND":                   {"claude", "claude"},
	"agent_runtime.agent_command":             {"claude", "claude"},
	"AGENT_CLI":                               {"claude-code", "claude"},
	"AGENT_MODEL":                             {"opus", "opus"},
	"AGENT_TIMEOUT":                           {"90", 90 * time.Second},
	"AGENT_RUNTIME_MAX_DURATION":              {"10m", 10 * time.Minute},
	"agent_runtime.max_duration_minutes":      {"10", 10 * time.Minute},
	"agent-timeout":                           {"90", 90 * time.Second},
	"agent_runtime.graceful_shutdown_seconds": {"20", 20 * time.Second},
	"AGENT_ALLOWED_TOOLS":                     {"Read", []string{"Read"}},
	"agent_runtime.allowed_tools":             {"Read", []string{"Read"}},
	"AGENT_SYSTEM_PROMPT_FILE":                {script, script},
	"ANTHROPIC_BASE_URL":                      {"https://h/", "https://h/"},
	"ANTHROPIC_API_KEY":                       {"k", "k"},
	"CLAUDE_API_KEY":                          {"k", "k"},
	"OPENAI_BASE_URL":                         {"https://h/v1", "https://h/v1"},
	"OPENAI_API_KEY":                          {"k", "k"},
	"OPENROUTER_BASE_URL":                     {"https://h/", "https://h/"},
	"OPENROUTER_API_KEY":                      {"k", "k"},
	"GOOGLE_GEMINI_BASE_URL":                  {"https://h/", "https://h/"},
	"GEMINI_API_KEY":                          {"k", "k"},
	"GOOGLE_API_KEY":                          {"k", "k"},
	"SKILLS_CACHE_DIR":                        {"/s", "/s"},
	"SKILLS_DIR":                              {"/s", "/s"},
	"AGENT_RUNTIME_SKILLS_SOURCE":             {"/s", "/s"},
	"agent_runtime.skills_source":             {"/s", "/s"},
	"SKILLS_DISABLE_TRIAGE_PRELOAD":           {"1", true},
	"DISABLE_TRIAGE_PRELOAD":                  {"yes", true},
	"PIPELINES_DIR":                           {"/p", "/p"},
	"AGENTURA_KNOWLEDGE_DIR":                  {"/h", "/h"},
	"SKILL_LIBRARY_DIR":                       {"/l", "/l"},
	"AI_VELOCITY_DIR":                         {"/l", "/l"},
	"SANDBOX_BACKEND":                         {"process", "process"},
	"EXECUTION_MODE":                          {"proxy", "process"},
}

func TestOtherSpellings(t *testing.T) {
	all := allKeys()
	for i := range all {
		k := &all[i]
		for _, s := range k.also {
			if k.field == nil {
				continue // shown by TestReadOnlyCannotBeSwitchedOff
			}
			t.Run(s.name, func(t *testing.T) {
				row, ok := otherSpellings[s.name]
				if !ok {
					t.Fatalf("spelling %s of %s has no row: show what it means", s.name, k.path)
				}
				e := effectOf(t, k)
				if row.written == script {
					row.written, row.want = e.line, e.line
				}
				yaml, env, flags := base(k.path), []string{}, map[string]string{}
				if s.provider != "" {
					env = append(env, "NIGHTCRIER_AGENT_PROVIDER="+string(s.provider))
				}
				switch s.layer {
				case LayerFile:
					yaml += yamlOf(s.name, row.written)
				case LayerEnv:
					env = append(env, s.name+"="+row.written)
				case LayerFlag:
					flags[s.name] = row.written
				}
				cfg, _, err := load(t, yaml, env, flags)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(row.want, e.got(cfg)); diff != "" {
					t.Error(diff)
				}
			})
		}
	}
}

func TestNamesAreUnique(t *testing.T) {
	type name struct {
		layer Layer
		name  string
	}
	seen := map[name]string{}
	all := allKeys()
	for i := range all {
		for _, s := range all[i].allSpellings() {
			if other, again := seen[name{s.layer, s.name}]; again {
				t.Errorf("%s belongs to %s and to %s", s.name, other, all[i].path)
			}
			seen[name{s.layer, s.name}] = all[i].path
		}
	}
}
