package pipeline

import (
	"reflect"
	"strings"
	"testing"

	"nightcrier.dev/nightcrier"
)

func TestWhatExpressionsSee(t *testing.T) {
	t.Parallel()
	d := mustRead(t, `name: p
input_mapping: {description: prd, repo: repository, gone: gone_too}
concurrency: {key: 'subject.kind + "/" + input.repository'}
steps:
  - skill: dev/build
    id: app-build
    with: {text: input.prd, most: 5, all: "true"}
  - skill: dev/deploy
    id: deploy
    if: steps["app-build"].success && "dist/index.html" in steps["app-build"].artifacts
    with: {url: 'steps["app-build"].output.url', of: subject.title, both: "[input.n, {'a': input.n}]"}
  - skill: dev/tell
    id: tell
    if: '!steps.deploy.success && !has(steps.deploy.output)'
  - action: notify
`)
	input, err := d.ReadInput([]byte(`{"description": "a shop", "repo": "a/b", "repository": "c/d", "n": 2}`))
	if err != nil {
		t.Fatal(err)
	}
	if want := map[string]any{"description": "a shop", "prd": "a shop", "repo": "a/b", "repository": "c/d", "n": 2.0}; !reflect.DeepEqual(input, want) {
		t.Errorf("%v, want %v", input, want)
	}
	s := Scope{Input: input, Subject: nightcrier.Subject{Kind: nightcrier.SubjectPullRequest, ID: "7", Title: "A change"}}
	if key, err := d.EvalKey(t.Context(), s); err != nil || key != "pull_request/c/d" {
		t.Errorf("%q, %v", key, err)
	}
	for _, bad := range []string{"two\nlines", "\x1b[31m", strings.Repeat("x", 600)} {
		if key, err := d.EvalKey(t.Context(), Scope{Input: map[string]any{"repository": bad}, Subject: s.Subject}); nightcrier.CodeOf(err) != nightcrier.Invalid {
			t.Errorf("a key of %.20q: %.20q, %v", bad, key, err)
		}
	}
	const lacks = "concurrency.key: the input has no repository: give it, as with --input repository=…"
	if _, err := d.EvalKey(t.Context(), Scope{Input: map[string]any{"repo": "a/b"}, Subject: s.Subject}); nightcrier.CodeOf(err) != nightcrier.Invalid || !strings.HasSuffix(err.Error(), lacks) {
		t.Errorf("without a repository: %v", err)
	}
	all := d.Phases[0].Steps
	with := func(i int) map[string]any {
		t.Helper()
		got, err := d.EvalWith(t.Context(), &all[i], s)
		if err != nil {
			t.Error(err)
		}
		return got
	}
	is := func(i int, want bool) {
		t.Helper()
		if got, err := d.EvalIf(t.Context(), &all[i], s); err != nil || got != want {
			t.Errorf("%s: %v, %v; want %v", all[i].If, got, err, want)
		}
	}
	if got, want := with(0), map[string]any{"text": "a shop", "most": 5.0, "all": true}; !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	s.Steps = map[string]Result{"app-build": {Output: map[string]any{"url": "http://x"}, Success: true, Artifacts: []string{"dist/index.html"}}}
	is(1, true)
	if got, want := with(1), map[string]any{"url": "http://x", "of": "A change", "both": []any{2.0, map[string]any{"a": 2.0}}}; !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	s.Steps["deploy"] = Result{} // skipped
	is(2, true)
	is(3, true)
	s.Steps["app-build"] = Result{Success: true, Output: "done"}
	is(1, false)
	if _, err := d.EvalWith(t.Context(), &all[1], s); nightcrier.CodeOf(err) != nightcrier.Invalid {
		t.Errorf("%v", err)
	}
}

// What a user puts in the place of the product's own pipeline keeps what incidents rely on.
func TestTriageOfOnesOwn(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ steps, want string }{
		"with a step more":    {"[{action: collect}, {skill: a, id: b}, {skill: x, deliverable: report}, {action: check}, {skill: c, if: steps.check.success}, {action: notify}, {skill: d}]", ""},
		"in phases":           {"", ""},
		"without collect":     {"[{skill: x, deliverable: report}, {action: check}, {action: notify}]", "2: the step x is out of place: incidents rely on collect, one skill with deliverable: report, check and notify, in this order"},
		"without report":      {"[{action: collect}, {skill: x}, {action: check}, {action: notify}]", "2: the step check is out of place"},
		"without check":       {"[{action: collect}, {skill: x, deliverable: report}, {action: notify}]", "2: the step notify is out of place"},
		"without notify":      {"[{action: collect}, {skill: x, deliverable: report}, {action: check}]", "2: lacks action: notify"},
		"without an end":      {"[{action: collect}]", "2: lacks a skill with deliverable: report"},
		"two reports":         {"[{action: collect}, {skill: x, deliverable: report}, {skill: y, deliverable: report}, {action: check}, {action: notify}]", "2: the step y is out of place"},
		"an agent first":      {"[{skill: y}, {action: collect}, {skill: x, deliverable: report}, {action: check}, {action: notify}]", "2: the step y comes before collect"},
		"a check on occasion": {"[{action: collect}, {skill: x, deliverable: report}, {action: check, if: 'false'}, {action: notify}]", "3: the step check has an if"},
	} {
		text := "# of our own\nname: k8s-incident-triage\nsteps: " + c.steps + "\n"
		if name == "in phases" {
			text = "name: k8s-incident-triage\nphases:\n  - {name: a, steps: [{action: collect}]}\n  - {name: b, type: parallel, steps: [{skill: x}, {skill: y}]}\n" +
				"  - {name: c, fan_in_from: b, steps: [{skill: z, deliverable: report}, {action: check}, {action: notify}]}\n"
		}
		dir := write(t, map[string]string{"own.yaml": text})
		l, problems := Load(dir)
		e, err := l.Find(Triage)
		if err != nil || e.IsEmbedded() != (c.want != "") {
			t.Errorf("%s: %+v, %v", name, e, err)
		}
		switch {
		case c.want == "" && len(problems) > 0, c.want != "" && len(problems) != 1:
			t.Errorf("%s: %v, want %q", name, problems, c.want)
		case c.want != "":
			if got := problems[0].String()[len(dir)+len("/own.yaml:"):]; len(got) < len(c.want) || got[:len(c.want)] != c.want {
				t.Errorf("%s: %q, want %q", name, got, c.want)
			}
		}
	}
}
