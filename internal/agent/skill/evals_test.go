package skill

import (
	"strings"
	"testing"
	"testing/fstest"

	"nightcrier.dev/nightcrier"
)

const anEval = `
name: deploys
prompt: Deploy it
input_data: {app: shop}
mock_tools:
  apply: {response: "created"}
  get: {response: {ready: 1}}
expected_tools: [apply]
forbidden_tools: [delete]
assertions:
  - {type: output-contains, value: Deployed}
  - {type: output-not-contains, value: error}
max_retries: 3
`

func withEval(t *testing.T, text string) *Skill {
	t.Helper()
	s, err := Load("x", fstest.MapFS{"SKILL.md": {Data: []byte("do")}, "evals/a.yaml": {Data: []byte(text)}, "evals/notes.md": {Data: []byte("x")}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestWhatAnEvaluationHoldsAgainst(t *testing.T) {
	all, err := withEval(t, anEval).Evals()
	if err != nil || len(all) != 1 || all[0].Attempts != 3 || all[0].Mocks["apply"].Response != "created" {
		t.Fatalf("%+v, %v", all, err)
	}
	for name, c := range map[string]struct {
		output string
		called []string
		want   string
	}{
		"all is well":      {`{"summary": "deployed"}`, []string{"apply", "get"}, ""},
		"nothing was done": {`{"summary": "deployed"}`, nil, "apply was not called"},
		"too much":         {`{"summary": "deployed"}`, []string{"apply", "delete"}, "delete was called"},
		"said otherwise":   {`{"summary": "Error"}`, []string{"apply"}, `the output does not contain "Deployed"; the output contains "error"`},
	} {
		if got := strings.Join(all[0].Check(c.output, c.called), "; "); got != c.want {
			t.Errorf("%s: %q, not %q", name, got, c.want)
		}
	}
	judged := Eval{Assertions: []Assertion{{Type: Judged, Criteria: "it is kind"}}}
	if got := judged.Check("", nil); len(got) != 1 || !strings.Contains(got[0], "it is kind") {
		t.Errorf("what nobody judges passes: %q", got)
	}
}

func TestBrokenEvaluationsAreNamed(t *testing.T) {
	for text, want := range map[string]string{
		"name: x":                               "asserts nothing",
		"assertions: [{type: smells-like}]":     `"smells-like" is none of output-contains`,
		"assertions: [{type: output-contains}]": "has no value",
		"asserts: []":                           `unknown field "asserts"`,
		"[":                                     "evals/a.yaml: line",
	} {
		if _, err := withEval(t, text).Evals(); nightcrier.CodeOf(err) != nightcrier.Invalid || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, not %s", text, err, want)
		}
	}
}
