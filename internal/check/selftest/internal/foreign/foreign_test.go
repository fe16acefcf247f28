package foreign

import (
	"encoding/json"
	"strings"
	"testing"

	"nightcrier.dev/nightcrier/internal/fake/fakemodel"
)

// codex is led by words, wherever it stands, and the user's own come after them.
func TestCodexIsLed(t *testing.T) {
	for line, want := range map[string]string{
		"/usr/bin/codex exec -c model_provider=x": `/usr/bin/codex -c model_provider="selftest"`,
		"env A=b codex exec":                      `env A=b codex -c model_provider="selftest"`,
		"npx @openai/codex exec":                  `npx @openai/codex -c model_provider="selftest"`,
		"gemini -p codex-like":                    "gemini -p codex-like",
	} {
		at := aimed{argv: strings.Fields(line), dir: t.TempDir()}
		if err := at.leadTo("http://127.0.0.1:1/s/orders"); err != nil {
			t.Fatal(err)
		}
		got := strings.Join(at.argv, " ")
		if !strings.HasPrefix(got, want) || want != line && !strings.HasSuffix(got, line[strings.Index(line, " exec"):]) {
			t.Errorf("%s became %s", line, got)
		}
	}
}

// Agents name and shape their tools as they like.
func TestTheToolThatRunsCommands(t *testing.T) {
	type tool struct{ name, schema string }
	for name, c := range map[string]struct {
		tools []tool
		want  string
	}{
		"a shell":                {[]tool{{"read", `{"properties":{"path":{"type":"string"}}}`}, {"Bash", `{"properties":{"command":{"type":"string"}},"required":["command"]}`}}, `Bash {"command":"id"}`},
		"a shell before kubectl": {[]tool{{"kubectl", `{"properties":{"command":{"type":"string"}}}`}, {"bash", `{"properties":{"command":{"type":"string"}}}`}}, `bash {"command":"id"}`},
		"kubectl alone":          {[]tool{{"kubectl", `{"properties":{"command":{"type":"STRING"}}}`}}, `kubectl {"command":"id"}`},
		"words":                  {[]tool{{"shell", `{"properties":{"command":{"type":"array","items":{"type":"string"}}}}`}}, `shell {"command":["bash","-c","id"]}`},
		"more is required": {[]tool{{"run_bash_command", `{"properties":{"command":{"type":"string"},"why":{"type":"string"},"timeout":{"type":["integer","null"]},"prefixes":{"type":"array"},"mode":{"enum":["a"]},"bg":{"type":"boolean"},"free":{"type":"string"}},"required":["command","why","timeout","prefixes","mode","bg"]}`}},
			`run_bash_command {"bg":false,"command":"id","mode":"a","prefixes":[],"timeout":30,"why":"look"}`},
		"code":   {[]tool{{"exec", ""}, {"wait", `{"properties":{"cell":{"type":"string"}}}`}}, `exec_command {"cmd":"id"}`},
		"none":   {[]tool{{"read", `{"properties":{"path":{}}}`}, {"odd", `[]`}, {"bare", ""}}, ""},
		"no one": {nil, ""},
	} {
		var r fakemodel.Request
		for _, tl := range c.tools {
			r.Tools, r.Schemas = append(r.Tools, tl.name), append(r.Schemas, json.RawMessage(tl.schema))
		}
		got := ""
		if call, ok := findRunner(r); ok {
			made := call("id")
			input, err := json.Marshal(made.Input)
			if err != nil {
				t.Fatal(err)
			}
			got = made.Name + " " + string(input)
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
