package pipeline

import "testing"

func TestRefersTo(t *testing.T) {
	for source, want := range map[string]bool{
		"steps.a.output": true, `steps["a"].success`: true, `steps[ 'a' ].output.x`: true, "steps.b.output == steps.a.output": true,
		"has(steps . a)": true, "steps[input.which].output": true, "steps.all(k, steps[k].success)": true, "size(steps) > 1": true, `steps[r"a"].output`: true,
		`steps["\x61"].output`: true, "steps.?a": true,
		"steps.ab.output": false, `steps["a-b"].output`: false, "input.a": false, "input.steps_a": false, "": false,
	} {
		if got := (&Step{With: map[string]string{"x": source}}).RefersTo("a"); got != want {
			t.Errorf("%s: %v", source, got)
		}
		if got := (&Step{If: source}).RefersTo("a"); got != want {
			t.Errorf("if %s: %v", source, got)
		}
	}
}
