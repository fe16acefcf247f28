package kubetool

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v4"
)

// What an object says in words is words in YAML too, on as many lines as it has.
func TestTextsStayTexts(t *testing.T) {
	doc := map[string]any{
		"bool": "true", "exponent": "1e3", "hex": "0x10", "nothing": "null", "time": "2024-01-01T00:00:00Z", "yes": "yes", "number": int64(3),
		"lines": "one\ntwo", "long": strings.Repeat("word ", 40) + "end", "tab": "a\tb", "said": `"x"`,
	}
	out, err := encodeDocument(doc, "yaml")
	if err != nil {
		t.Fatal(err)
	}
	var back map[string]any
	if err := yaml.Unmarshal([]byte(out), &back); err != nil {
		t.Fatal(err)
	}
	back["number"] = int64(back["number"].(int))
	if diff := cmp.Diff(doc, back); diff != "" {
		t.Errorf("%s\n%s", diff, out)
	}
	for _, want := range []string{`exponent: "1e3"`, "lines: |-\n  one\n  two\n", "word word word", "end\n", `said: "\"x\""`} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}
