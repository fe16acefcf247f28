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
	judged := Eval{Assertions: []Assertion{{Type: Judged, Criteria: "it is kind"}, {Type: Judged, Value: "it is short"}, {Type: OutputContains, Value: "x"}}}
	if got := strings.Join(judged.Judges(), ", "); got != "it is kind, it is short" {
		t.Errorf("to be judged is %q", got)
	}
}

func TestBrokenEvaluationsAreNamed(t *testing.T) {
	for text, want := range map[string]string{
		"name: x": "evals/a.yaml: asserts nothing",
		"name: x\nassertions:\n- {type: judge, criteria: kind}\n- {type: smells-like}": `evals/a.yaml:4: assertions.type "smells-like" is none of output-contains`,
		"assertions: [{type: judge}]":                                      "evals/a.yaml:1: an assertion judge has no criteria",
		"assertions: [{type: output-contains}]":                            "evals/a.yaml:1: an assertion output-contains has no value",
		"mock_tools: {get: {response: &a [{type: nose}]}}\nassertions: *a": `evals/a.yaml: assertions.type "nose" is none of`,
		"asserts: []":                 `evals/a.yaml: line 1: unknown field "asserts"`,
		"[":                           "evals/a.yaml:1: is not valid YAML",
		"[" + strings.Repeat("[", 99): "evals/a.yaml: nests brackets",
	} {
		s := withEval(t, text)
		if _, err := s.Evals(); nightcrier.CodeOf(err) != nightcrier.Invalid || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, not %s", text, err, want)
		}
		place, what, _ := strings.Cut(want, ": ")
		if len(s.Findings) == 0 || s.Findings[0].Level != Warn || !strings.HasPrefix(s.Findings[0].String(), place+": is no evaluation: "+what) {
			t.Errorf("%s: its author is told %v", text, s.Findings)
		}
	}
	if s := withEval(t, anEval); len(s.Findings) > 0 && s.Findings[0].Level == Warn {
		t.Errorf("a good one: %v", s.Findings)
	}
}
