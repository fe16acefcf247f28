package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
)

const hunter = "hunter2-very-secret"

func TestSecretNeverPrints(t *testing.T) {
	s := NewSecret(hunter)
	hidden := struct {
		inner struct{ key Secret }
	}{}
	hidden.inner.key = s
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "secret", s, "held", hidden)
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "secret", s, "held", hidden)
	asJSON, err := json.Marshal(map[string]any{"a": s, "b": &s})
	if err != nil {
		t.Fatal(err)
	}
	asYAML, err := yaml.Marshal(map[string]any{"a": s})
	if err != nil {
		t.Fatal(err)
	}
	outputs := map[string]string{"log": log.String(), "json": string(asJSON), "yaml": string(asYAML)}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%p", "%T"} {
		outputs[verb] = fmt.Sprintf(verb, s) + fmt.Sprintf(verb, &s) + fmt.Sprintf(verb, hidden)
	}
	for how, out := range outputs {
		if strings.Contains(out, hunter) || strings.Contains(out, fmt.Sprintf("%x", hunter)) {
			t.Errorf("%s shows the secret: %s", how, out)
		}
	}
	if s.Reveal() != hunter || s.String() != secretMask || NewSecret("").IsSet() || (Secret{}).String() != "" {
		t.Error("a secret reveals what it holds, and an empty one is unset")
	}
	if !s.Equal(NewSecret(hunter)) || s.Equal(Secret{}) {
		t.Error("Equal compares the texts")
	}
}

// secretPlaces puts a secret wherever a careless person might.
func secretPlaces() []Options {
	env := func(lines ...string) Options { return Options{Env: lines, Dir: "/srv"} }
	return []Options{
		env("ANTHROPIC_API_KEY=" + hunter),
		env("ANTHROPIC_API_KEY=" + hunter + " \u00e9"),
		env("ANTHROPIC_API_KEY="+hunter, "CLAUDE_API_KEY=other"),
		env("SLACK_WEBHOOK_URL=https://hooks.example/" + hunter),
		env("SLACK_WEBHOOK_URL=http://hooks.example/" + hunter),
		env("SLACK_WEBHOOK_URL=" + hunter),
		env("DATABASE_URL=postgres://u:" + hunter + "@h/d"),
		env("DATABASE_URL=mysql://u:" + hunter + "@h/d"),
		env("DATABASE_URL=postgres://u:" + hunter + "@h:bad port/d"),
		env("K8S_CLUSTER_MCP_ENDPOINT=http://u:" + hunter + "@h/"),
		env("K8S_CLUSTER_MCP_ENDPOINT=http://u:" + hunter + "@h:bad/"),
		env("ANTHROPIC_BASE_URL=https://u:" + hunter + "@h/"),
		env("K8S_CLUSTER_MCP_ENDPOINT=http://h/", "NIGHTCRIER_CLUSTER_MCP_API_KEY_ENV="+hunter),
		env("K8S_CLUSTER_MCP_ENDPOINT=http://h/", "NIGHTCRIER_CLUSTER_MCP_API_KEY_ENV=K", "K="+hunter+"\n"),
		env("K8S_CLUSTER_MCP_ENDPOINT=http://h/", "NIGHTCRIER_CLUSTER_MCP_API_KEY_ENV=K", "K="+hunter),
		{Flags: map[string]string{"slack-webhook-url": "https://h/" + hunter}},
		{Flags: map[string]string{"agent.api_key": hunter}},
	}
}

func TestSecretsStayOutOfErrorsWarningsAndPrint(t *testing.T) {
	for i, o := range secretPlaces() {
		var out bytes.Buffer
		cfg, warnings, err := Load(o)
		fmt.Fprintln(&out, warnings, err)
		if _, err := Check(o); err != nil {
			fmt.Fprintln(&out, err)
		}
		if cfg != nil {
			fmt.Fprintf(&out, "%v %+v %#v", cfg, *cfg, cfg)
			for _, format := range []string{"yaml", "json"} {
				if err := Print(&out, cfg, format); err != nil {
					t.Fatal(err)
				}
			}
		}
		if strings.Contains(out.String(), hunter) {
			t.Errorf("case %d shows the secret: %s", i, out.String())
		}
	}
}

func TestSecretsOfABrokenFileStayInIt(t *testing.T) {
	for _, broken := range []string{
		"slack:\n  webhook_url: https://h/" + hunter + "\n bad",
		"slack: {webhook_url: https://h/" + hunter,
		"slack: {webhook_url: \"https://h/" + hunter,
		"slack: {webhook_url: [https://h/" + hunter + "]}",
		"slack: {webhook_url: {a: https://h/" + hunter + "}}",
		"slack: https://h/" + hunter,
		"agent: {api_key: !!str " + hunter + "}",
		"agent: {api_key: &" + hunter + " x}",
		"agent: {api_key: *" + hunter + "}",
		"agent:\n\tapi_key: " + hunter,
	} {
		_, _, err := load(t, broken, nil, nil)
		if err == nil || strings.Contains(err.Error(), hunter) {
			t.Errorf("%q: %v", broken, err)
		}
	}
}

func TestAFileThatOthersRead(t *testing.T) {
	path := write(t, "nc.yaml", "slack: {webhook_url: https://h/x}")
	if _, warnings, err := Load(Options{File: path}); err != nil || len(warnings) > 0 {
		t.Fatalf("private file: %v, %v", warnings, err)
	}
	chmod(t, path, 0o644)
	if _, warnings, err := Load(Options{File: path}); err != nil || !hasWarning(warnings, "chmod 600") {
		t.Fatalf("public file: %v, %v", warnings, err)
	}
}
