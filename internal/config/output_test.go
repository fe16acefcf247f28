package config

import (
	"bytes"
	"encoding/json"
	goflag "flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"
	"go.yaml.in/yaml/v4"
)

var update = goflag.Bool("update", false, "rewrite generated parts of the documentation")

func chmod(t *testing.T, path string, mode os.FileMode) {
	t.Helper()
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

// examples returns the paths of the example files.
func examples(t *testing.T) []string {
	t.Helper()
	paths, err := filepath.Glob("../../examples/*.yaml")
	if err != nil || len(paths) < 3 {
		t.Fatalf("examples: %v, %v", paths, err)
	}
	return paths
}

func TestExamplesLoad(t *testing.T) {
	for _, path := range examples(t) {
		cfg, warnings, err := Load(Options{File: path, Dir: "/srv"})
		if err != nil {
			t.Errorf("%s: %v", path, err)
		} else if len(cfg.Clusters) == 0 {
			t.Errorf("%s watches nothing", path)
		}
		if hasWarning(warnings, "nobody can send") {
			t.Errorf("%s: %v", path, warnings)
		}
	}
}

// TestReferenceFile loads a file as the reference has it.
func TestReferenceFile(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "agent.sh"), []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	cfg, warnings, err := Load(Options{File: "testdata/reference.yaml", Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Agent.Executor != Script || len(cfg.Clusters) != 1 || len(warnings) != 0 || cfg.Budget.PerRunUSD == 0 {
		t.Errorf("%+v, %v", cfg, warnings)
	}
}

func TestFullExampleHasEveryKey(t *testing.T) {
	data, err := os.ReadFile("../../examples/full.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var parsed map[string]any
	if err := yaml.Unmarshal(data, &parsed); err != nil {
		t.Fatal(err)
	}
	for _, k := range allKeys() {
		if !k.foreign && !has(parsed, strings.Split(k.path, ".")) {
			t.Errorf("examples/full.yaml lacks %s", k.path)
		}
	}
}

func has(at any, path []string) bool {
	if len(path) == 0 {
		return true
	}
	name, list := strings.CutSuffix(path[0], "[]")
	next, ok := at.(map[string]any)[name]
	if list && ok {
		next = next.([]any)[0]
	}
	return ok && has(next, path[1:])
}

func TestPrintLoadsAgain(t *testing.T) {
	bare := write(t, "alerts.yaml", "clusters: [{name: a, alertmanager: {}}, {name: b, watch: false}]\n")
	for _, path := range append(examples(t), "", bare) {
		o := Options{File: path, Dir: "/srv", Env: []string{"SLACK_WEBHOOK_URL=https://h/x", "K8S_CLUSTER_MCP_ENDPOINT="}}
		cfg, _, err := Load(o)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := Print(&out, cfg, "yaml"); err != nil {
			t.Fatal(err)
		}
		again, _, err := load(t, out.String(), []string{"SLACK_WEBHOOK_URL=https://h/x"}, nil)
		if err != nil {
			t.Fatalf("%v\n%s", err, out.String())
		}
		if diff := cmp.Diff(cfg, again, cmp.FilterPath(isHidden, cmp.Ignore())); diff != "" {
			t.Errorf("%s\n%s", diff, out.String())
		}
	}
}

func TestPrintShowsOrigins(t *testing.T) {
	path := write(t, "nc.yaml", "clusters:\n  - {name: a, labels: {x: \"no: 1\"}, mcp: {endpoint: http://h/}}\n")
	cfg, _, err := Load(Options{File: path, Dir: "/srv", Env: []string{"LOG_LEVEL=warn", "ANTHROPIC_API_KEY=k"}, Flags: map[string]string{"agent-timeout": "90"}})
	if err != nil {
		t.Fatal(err)
	}
	var asYAML, asJSON bytes.Buffer
	if err := Print(&asYAML, cfg, "yaml"); err != nil {
		t.Fatal(err)
	}
	if err := Print(&asJSON, cfg, "json"); err != nil {
		t.Fatal(err)
	}
	squeezed := strings.Join(strings.Fields(asYAML.String()), " ")
	for _, want := range []string{
		"level: warn # env LOG_LEVEL", "timeout: 1m30s # flag --agent-timeout", "- name: a # " + path + ":2", "retention: 72h # default",
		"executor: claude-code # derived: a model key is set", `labels: {x: "no: 1"}`, "# api_key: ‹secret› # env ANTHROPIC_API_KEY",
	} {
		if !strings.Contains(squeezed, want) {
			t.Errorf("yaml lacks %q:\n%s", want, asYAML.String())
		}
	}
	var doc struct {
		Settings []struct {
			Key, Origin string
			Value       any
		}
	}
	if err := json.Unmarshal(asJSON.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, s := range doc.Settings {
		text, _ := json.Marshal(s.Value)
		found[s.Key] = string(text) + " " + s.Origin
	}
	for key, want := range map[string]string{
		"clusters[0].name": `"a" ` + path + ":2", "agent.timeout": `"1m30s" flag --agent-timeout`, "severity_threshold": `"warning" default`,
		"agent.api_key": `"‹secret›" env ANTHROPIC_API_KEY`, "workspace_max_bytes": `"256MiB" default`,
	} {
		if found[key] != want {
			t.Errorf("json %s = %s, want %s", key, found[key], want)
		}
	}
	if err := Print(&asJSON, cfg, "toml"); err == nil {
		t.Error("an unknown format is accepted")
	}
}

func compiledSchema(t *testing.T) *jsonschema.Resolved {
	t.Helper()
	var doc jsonschema.Schema
	if err := json.Unmarshal(Schema(), &doc); err != nil {
		t.Fatal(err)
	}
	schema, err := doc.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

func validate(t *testing.T, schema *jsonschema.Resolved, text []byte) error {
	t.Helper()
	var doc any
	if err := yaml.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	return schema.Validate(doc)
}

func TestSchema(t *testing.T) {
	schema := compiledSchema(t)
	for _, path := range append(examples(t), "testdata/reference.yaml", "testdata/agent_runtime.yaml") {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := validate(t, schema, data); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	for _, bad := range []string{
		"agents: {}", "agent: {timeout: 300}", "agent: {executor: opencode}", "clusters: [{mcp: {mode: auto}}]", "queue: {max: 0}",
		"clusters: [{name: a, watch: maybe}]", "agent_runtime: {read_only_mode: false}", "severity_threshold: bad", "retention: soon",
	} {
		if validate(t, schema, []byte(bad)) == nil {
			t.Errorf("the schema accepts %s", bad)
		}
	}
}

func TestOlderFile(t *testing.T) {
	data, err := os.ReadFile("testdata/agent_runtime.yaml")
	if err != nil {
		t.Fatal(err)
	}
	cfg, _ := mustLoad(t, string(data), "K8S_CLUSTER_MCP_ENDPOINT=http://h/")
	got := []any{cfg.WorkspaceRoot, cfg.Retention.String(), cfg.Agent.Timeout.String(), cfg.Clusters[0].Kubeconfig, cfg.Log.Format, cfg.Agent.Executor}
	want := []any{"/var/lib/event-runner/workspaces", "72h0m0s", "10m0s", "/etc/event-runner/kubeconfig-readonly.yaml", "json", ClaudeCode}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

const (
	docsPath  = "../../docs/configuration.md"
	docsBegin = "<!-- generated: go test ./internal/config -run TestDocs -update -->\n"
	docsEnd   = "<!-- end of the generated part -->"
)

func TestDocs(t *testing.T) {
	data, err := os.ReadFile(docsPath)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(data), docsBegin)
	_, after, ok2 := strings.Cut(rest, docsEnd)
	if !ok || !ok2 {
		t.Fatalf("%s lacks the markers of the generated part", docsPath)
	}
	want := before + docsBegin + docsTables() + docsEnd + after
	if want == string(data) {
		return
	}
	if !*update {
		t.Fatalf("%s is out of date: run go test ./internal/config -run TestDocs -update", docsPath)
	}
	if err := os.WriteFile(docsPath, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestFlags(t *testing.T) {
	byName := map[string]Flag{}
	for _, f := range Flags() {
		if f.Usage == "" {
			t.Errorf("--%s has no usage", f.Name)
		}
		byName[f.Name] = f
	}
	for name, key := range map[string]string{"mcp-endpoint": "clusters[].mcp.endpoint", "workspace-root": "workspace_root",
		"agent-timeout": "agent.timeout", "log-level": "log.level"} {
		if byName[name].Key != key {
			t.Errorf("--%s sets %q, want %s", name, byName[name].Key, key)
		}
	}
	for name := range byName {
		if strings.Contains(name, "api-key") && !strings.HasSuffix(name, "-env") || strings.Contains(name, "webhook-url") {
			t.Errorf("--%s takes a secret", name)
		}
	}
}

// TestDefaultsAreOfTheirType: an editor takes what the schema says of a key as what may be
// written there.
func TestDefaultsAreOfTheirType(t *testing.T) {
	for _, k := range allKeys() {
		if k.def == "" {
			continue
		}
		raw, err := json.Marshal(schemaDefault(&k))
		if err != nil {
			t.Fatal(err)
		}
		is := map[byte]string{'"': "string", '[': "array", 't': "boolean", 'f': "boolean"}[raw[0]]
		if is == "" {
			is = "number"
		}
		want := fmt.Sprint(k.typ.schema["type"])
		if want == "integer" {
			want = "number"
		}
		if !strings.Contains(want, is) {
			t.Errorf("%s is of type %s, and its default is %s", k.path, want, raw)
		}
	}
}
