package agent

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/guard/readonly"
)

// gooseJob is a job with a workspace that has instructions, and tools.
func gooseJob(t *testing.T, system string) Job {
	t.Helper()
	j := toolsJob(t, system)
	j.Tools = []string{"kubernetes_get", "kubernetes_logs", "read_file"}
	j.Allowed = readonly.Policy{Verbs: []string{"get", "logs"}}
	return j
}

// gooseConfigOf is the configuration that an invocation writes.
func gooseConfigOf(t *testing.T, inv Invocation) (extensions map[string]struct {
	Enabled   bool
	Type, URI string
	Headers   map[string]string
	Tools     []string `json:"available_tools"`
}, allowed []string) {
	t.Helper()
	var config, permission struct {
		Extensions json.RawMessage
		User       struct {
			Allow []string `json:"always_allow"`
		}
	}
	for name, v := range map[string]any{"config.yaml": &config, "permission.yaml": &permission} {
		if err := json.Unmarshal(inv.Files[gooseConfig+"/"+name], v); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	if err := json.Unmarshal(config.Extensions, &extensions); err != nil {
		t.Fatal(err)
	}
	return extensions, permission.User.Allow
}

func TestGooseInvocation(t *testing.T) {
	for _, c := range []struct {
		provider nightcrier.Provider
		env      []string
	}{
		{nightcrier.Anthropic, []string{"GOOSE_PROVIDER=anthropic", "ANTHROPIC_HOST=http://127.0.0.1:1", "ANTHROPIC_API_KEY=run-token"}},
		{nightcrier.OpenAI, []string{"GOOSE_PROVIDER=openai", "OPENAI_HOST=http://127.0.0.1:1", "OPENAI_API_KEY=run-token"}},
		{nightcrier.Google, []string{"GOOSE_PROVIDER=google", "GOOGLE_HOST=http://127.0.0.1:1", "GOOGLE_API_KEY=run-token"}},
	} {
		j := gooseJob(t, "Only look.")
		j.Provider = c.provider
		j.ExtraEnv["GOOSE_MODE"], j.ExtraEnv["XDG_CONFIG_HOME"], j.ExtraEnv["GOOSE_ADDITIONAL_CONFIG_FILES"] = "auto", "/evil", "/evil"
		inv, err := prepareGoose(j)
		if err != nil {
			t.Fatal(err)
		}
		line := strings.Join(inv.Argv[1:], " ")
		if want := "run --quiet --output-format stream-json --name investigation --max-turns 7 --instructions -"; line != want {
			t.Errorf("arguments %s\nwant      %s", line, want)
		}
		for _, want := range append(c.env, "GOOSE_MODE=approve", "GOOSE_MODEL=sonnet", "GOOSE_TELEMETRY_OFF=1", "NIGHTCRIER_TOOLS_TOKEN=tools-token") {
			if !slices.Contains(inv.Env, want) {
				t.Errorf("environment lacks %s: %q", want, inv.Env)
			}
		}
		for _, kv := range inv.Env {
			if strings.Contains(kv, "evil") || strings.Contains(kv, "sk-real") || strings.HasSuffix(kv, "=auto") {
				t.Errorf("environment holds %s", kv)
			}
		}
		for name, data := range inv.Files {
			if strings.Contains(string(data), "run-token") || strings.Contains(string(data), "tools-token") {
				t.Errorf("%s holds a token: %s", name, data)
			}
		}
	}
}

// What is offered is what may be used without asking; the CLI's own is off.
func TestGooseTools(t *testing.T) {
	for _, c := range []struct {
		name    string
		change  func(*Job)
		offered []string
		notes   int
	}{
		{"all of it", func(*Job) {}, []string{"kubernetes_get", "kubernetes_logs", "read_file"}, 0},
		{"a verb less", func(j *Job) { j.Allowed.Verbs = []string{"get"} }, []string{"kubernetes_get", "read_file"}, 1},
		{"no verb", func(j *Job) { j.Allowed.Verbs = nil }, []string{"read_file"}, 2},
		{"no cluster", func(j *Job) { j.Tools = []string{"read_file"} }, []string{"read_file"}, 0},
		{"no tools", func(j *Job) { j.Tools = nil }, nil, 0},
		{"nothing to reach", func(j *Job) { j.ToolsURL, j.Tools = "", nil }, nil, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			j := gooseJob(t, "Only look.")
			j.ExtraEnv = nil
			c.change(&j)
			inv, err := prepareGoose(j)
			if err != nil {
				t.Fatal(err)
			}
			extensions, allowed := gooseConfigOf(t, inv)
			for name, e := range extensions {
				if e.Enabled != (name == gooseExtension) {
					t.Errorf("extension %s is enabled: %v", name, e.Enabled)
				}
			}
			ours, there := extensions[gooseExtension]
			if !slices.Equal(ours.Tools, c.offered) || there != (c.offered != nil) {
				t.Errorf("offered %q, want %q", ours.Tools, c.offered)
			}
			if there && (ours.URI != "${NIGHTCRIER_TOOLS_URL}" || ours.Headers["Authorization"] != "Bearer ${NIGHTCRIER_TOOLS_TOKEN}") {
				t.Errorf("extension %+v", ours)
			}
			if got := strings.Join(allowed, " "); got != strings.TrimSuffix("kube__"+strings.Join(c.offered, " kube__"), "kube__") {
				t.Errorf("allowed %s", got)
			}
			if len(inv.Notes) != c.notes {
				t.Errorf("notes %q", inv.Notes)
			}
		})
	}
}

func TestGooseRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Job)
		want   string
	}{
		"no CLI":              {func(j *Job) { j.Command = filepath.Join(j.Workspace, "no-goose") }, "agent.command"},
		"no model":            {func(j *Job) { j.Model = "" }, "agent.model"},
		"a session of claude": {func(j *Job) { j.Session = "3f0c0000-0000-0000-0000-000000000000" }, "no session"},
		"a flag as session":   {func(j *Job) { j.Session = "--no-profile" }, "no session"},
		"no instructions":     {func(j *Job) { j.Workspace = t.TempDir() }, "instructions"},
	} {
		j := gooseJob(t, "Only look.")
		c.change(&j)
		if _, err := prepareGoose(j); nightcrier.CodeOf(err) != nightcrier.Invalid || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	j := gooseJob(t, "Only look.")
	j.Session = gooseSession
	if inv, err := prepareGoose(j); err != nil || !slices.Contains(inv.Argv, "--resume") {
		t.Errorf("%q, %v", inv.Argv, err)
	}
}
