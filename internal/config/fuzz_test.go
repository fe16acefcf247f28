package config

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

// FuzzFile feeds any bytes to the file layer. It must never panic, and what it
// accepts must come back from Print unchanged and free of secrets.
func FuzzFile(f *testing.F) {
	for _, path := range []string{"../../examples/full.yaml", "../../examples/multicluster.yaml", "../../examples/minimal.yaml",
		"testdata/reference.yaml", "testdata/agent_runtime.yaml"} {
		data, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	for _, s := range []string{
		"", "a: &a [*a, *a]", "? x\n: y", "{", "- - - -", "clusters: [{name: a}, {name: a}]", "%YAML 9", "\xff\xfe", "<<: {a: b}",
		"slack: {webhook_url: https://h/" + hunter + "}", "a:\n  - b\n c"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		l := newLoader(Options{Dir: "/srv"})
		l.parseFile("f.yaml", data)
		cfg, _, err := l.finishLoad()
		if err != nil || bytes.Contains(data, []byte(hunter)) {
			return
		}
		cfg.Slack.WebhookURL = NewSecret(hunter)
		var out bytes.Buffer
		if err := Print(&out, cfg, "yaml"); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(out.String(), hunter) {
			t.Fatalf("Print shows a secret:\n%s", out.String())
		}
		again := newLoader(Options{Dir: "/srv"})
		again.parseFile("f.yaml", out.Bytes())
		if _, _, err := again.finishLoad(); err != nil && !keyed(cfg) {
			t.Fatalf("Print does not load again: %v\n%s", err, out.String())
		}
	})
}

// keyed reports whether the printed file lacks a secret that it needs: an
// executor may have been chosen because of a key.
func keyed(cfg *Config) bool { return cfg.Agent.APIKey.IsSet() }
