package expr

import (
	"slices"
	"strings"
	"testing"

	"nightcrier.dev/nightcrier"
)

// parts is a language with objects: what a step left, for each step.
var parts = NewLanguage(map[string]Shape{
	"input": {Kind: Any},
	"steps": {Each: &Shape{Fields: map[string]Shape{"output": {Kind: Any}, "success": {Kind: Bool}, "files": {Kind: List}}}},
	"about": {Fields: map[string]Shape{"kind": {Kind: Text}}},
})

func TestObjectsAreTyped(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]string{
		`steps.a.sucess`:              "undefined field 'sucess'",
		`steps["a"].outputs.x`:        "undefined field 'outputs'",
		`about.name`:                  "undefined field 'name'",
		`steps.a.success + 1 == 2`:    "no matching overload",
		`steps.a.files`:               "yields list(dyn): it must yield true or false",
		`steps.all(k, steps[k].good)`: "undefined field 'good'",
		`body.x`:                      "undeclared reference to 'body'",
	} {
		if _, err := parts.Compile(source, Bool); nightcrier.CodeOf(err) != nightcrier.Invalid || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", source, err, want)
		}
	}
}

func TestObjectsAreRead(t *testing.T) {
	t.Parallel()
	v := Vars{"input": map[string]any{"n": 3.0}, "about": map[string]any{"kind": "call"}, "steps": map[string]any{
		"a":   map[string]any{"output": map[string]any{"url": "http://x"}, "success": true, "files": []any{"report.md"}},
		"b-c": map[string]any{"output": nil, "success": false, "files": []any{}},
	}}
	for source, want := range map[string]bool{
		`steps.a.success`:                           true,
		`steps["b-c"].success`:                      false,
		`steps.a.output.url == "http://x"`:          true,
		`has(steps.a.output)`:                       true,
		`has(steps["b-c"].output)`:                  false,
		`has(steps.d)`:                              false,
		`steps.?d.?success.orValue(true)`:           true,
		`steps.all(k, steps[k].success)`:            false,
		`"report.md" in steps.a.files`:              true,
		`about.kind == "call" && input.n > 2`:       true,
		`steps.a.files.exists(f, f.endsWith(".y"))`: false,
	} {
		e, err := parts.Compile(source, Bool)
		if err != nil {
			t.Errorf("%s: %v", source, err)
			continue
		}
		if got, err := e.Bool(t.Context(), v); err != nil || got != want {
			t.Errorf("%s = %v, %v; want %v", source, got, err, want)
		}
	}
	e, err := parts.Compile(`{"all": steps.a, "n": input.n}`, Any)
	if err != nil {
		t.Fatal(err)
	}
	got, err := e.Value(t.Context(), v)
	if all, ok := got.(map[string]any); err != nil || !ok || all["n"] != 3.0 || all["all"].(map[string]any)["success"] != true {
		t.Errorf("%v, %v", got, err)
	}
}

func TestEntriesThatAreWrittenOut(t *testing.T) {
	t.Parallel()
	e, err := parts.Compile(`has(steps.a.output) && steps["b-c"].success || steps.?d.?success.orValue(true) || steps[?"e"].hasValue() || input.steps.f || steps.exists(k, k == "g")`, Bool)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := e.EntriesOf("steps"), []string{"a", "b-c", "d", "e"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestCostIsSaid(t *testing.T) {
	t.Parallel()
	e, err := parts.Compile(`input.l.all(a, input.l.all(b, input.l.all(c, a == b && b == c)))`, Bool)
	if err != nil {
		t.Fatal(err)
	}
	_, err = e.Bool(t.Context(), Vars{"input": map[string]any{"l": make([]any, 2000)}})
	if nightcrier.CodeOf(err) != nightcrier.Exhausted || !strings.Contains(err.Error(), "costs too much") {
		t.Errorf("%v", err)
	}
}
