package pipeline

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"nightcrier.dev/nightcrier"
)

// steps makes a file of these steps, which begin in its third line.
func steps(list string) string { return "name: p\nsteps:\n" + list }

// badFiles are files that do not load; want is a problem after the file's name.
var badFiles = map[string]struct{ text, want string }{
	"nothing":                  {"", " is empty: write name"},
	"no mapping":               {"- a\n", "1: is a list: write keys below it: budget, concurrency"},
	"no name":                  {"steps:\n  - skill: a/b\n", "1: name: is missing"},
	"no steps":                 {"name: p\n", "1: steps: is missing"},
	"steps and phases":         {"name: p\nsteps: [{skill: a}]\nphases: [{name: a, steps: [{skill: b}]}]\n", "3: steps: is given beside phases: keep one"},
	"on and trigger":           {"name: p\non: manual\ntrigger: {type: manual}\nsteps: [{skill: a}]\n", "3: trigger: is given beside on"},
	"unknown key":              {"name: p\nstep:\n  - skill: a\n", "2: step: is not a key: did you mean steps?"},
	"unknown key, far":         {"name: p\nzzzzzz: 1\n", "2: zzzzzz: is not a key: known here are budget, concurrency"},
	"unknown key of a step":    {steps("  - skill: a\n    requird: true\n"), "4: steps[0].requird: is not a key: did you mean required?"},
	"key twice":                {"name: p\nname: q\nsteps: [{skill: a}]\n", "2: name: is given a second time: keep one"},
	"no skill":                 {steps("  - id: a\n"), "3: steps[0]: lacks skill"},
	"empty skill":              {steps("  - skill:\n"), `3: steps[0].skill: is "", which is no skill`},
	"skill and action":         {steps("  - skill: a\n    action: notify\n"), "3: steps[0]: has a skill and an action"},
	"unknown action":           {steps("  - action: notfy\n"), `3: steps[0].action: is "notfy", which is not known: did you mean notify?`},
	"unknown action, far":      {steps("  - action: kubectl-apply\n"), "write one of check, collect, fetch_pull_request, health, notify, post_review"},
	"skill outside":            {steps("  - skill: ../../etc/passwd\n"), "3: steps[0].skill: is"},
	"skill up":                 {steps("  - skill: dev/..\n"), "3: steps[0].skill: is"},
	"skill absolute":           {steps("  - skill: /etc/passwd\n"), "3: steps[0].skill: is"},
	"name outside":             {"name: ../p\nsteps: [{skill: a}]\n", "1: name: is \"../p\", which is no name"},
	"id outside":               {steps("  - skill: a\n    id: ../x\n"), "4: steps[0].id: is \"../x\", which is no id"},
	"id with a dot":            {steps("  - skill: a\n    id: a.if\n"), "4: steps[0].id: is"},
	"files outside":            {steps("  - skill: a\n    deliverable: {files: [../../x]}\n"), "4: steps[0].deliverable.files[0]: is"},
	"files absolute":           {steps("  - skill: a\n    deliverable: {files: [/etc/*]}\n"), "4: steps[0].deliverable.files[0]: is"},
	"files up":                 {steps("  - skill: a\n    deliverable: {files: [a/../../b]}\n"), "4: steps[0].deliverable.files[0]: is"},
	"no deliverable":           {steps("  - skill: a\n    deliverable: words\n"), "4: steps[0].deliverable: is \"words\": write report"},
	"schema alone":             {steps("  - skill: a\n    deliverable: schema\n"), "write it as a key"},
	"no channel":               {"name: p\nnotifications:\n  - on: [success]\nsteps: [{skill: a}]\n", "3: notifications[0]: lacks channel: write slack"},
	"unknown channel":          {"name: p\nnotifications:\n  - channel: pager\nsteps: [{skill: a}]\n", "3: notifications[0].channel: is \"pager\""},
	"unknown outcome":          {"name: p\nnotifications:\n  - channel: slack\n    on: [sucess]\nsteps: [{skill: a}]\n", "4: notifications[0].on"},
	"text of no step":          {"name: p\nnotifications:\n  - channel: slack\n    text: steps.b.output.x\nsteps: [{skill: a}]\n", "4: notifications[0].text: names the step \"b\", which there is not"},
	"text that is none":        {"name: p\nnotifications:\n  - channel: slack\n    text: input.x +\nsteps: [{skill: a}]\n", "4: notifications[0].text: "},
	"unknown notification key": {"name: p\nnotifications:\n  - channel: slack\n    colour: red\nsteps: [{skill: a}]\n", "4: notifications[0].colour"},
	"no schema":                {steps("  - skill: a\n    deliverable: {schema: {type: 5}}\n"), "4: steps[0].deliverable.schema: is no JSON Schema"},
	"schema of no type":        {steps("  - skill: a\n    deliverable: {schema: {type: objct}}\n"), `4: steps[0].deliverable.schema: is no JSON Schema: its type "objct" is none of array, boolean, integer, null, number, object, string`},
	"no type within":           {steps("  - skill: a\n    deliverable: {schema: {properties: {n: {anyOf: [{type: [string, nul]}]}}}}\n"), `4: steps[0].deliverable.schema: is no JSON Schema: its type "nul" is none`},
	"schema from elsewhere":    {steps("  - skill: a\n    deliverable: {schema: {$ref: 'http://127.0.0.1/x'}}\n"), "4: steps[0].deliverable.schema: is no JSON Schema that is complete"},
	"schema with alias":        {steps("  - skill: a\n    deliverable: {schema: {type: object, properties: {a: &a {type: string}, b: *a}}}\n"), "anchors, aliases"},
	"deliverable of an action": {steps("  - action: notify\n    deliverable: report\n"), "4: steps[0].deliverable: belongs to a skill"},
	"same id":                  {steps("  - skill: a\n    id: x\n  - skill: b\n    id: x\n"), `6: steps[1].id: is "x", as that of steps[0] is`},
	"same agent":               {steps("  - {skill: a, id: a, agent_id: x}\n  - skill: b\n    id: b\n    agent_id: x\n"), `6: steps[1].agent_id: is "x", as that of steps[0] is`},
	"same skill":               {steps("  - skill: a\n  - skill: a\n"), "4: steps[1]: uses a, as steps[0] does: give one of them an id and an agent_id"},
	"no duration":              {steps("  - skill: a\n    timeout: 5\n"), `4: steps[0].timeout: is "5", which is no duration: write one with a unit`},
	"long duration":            {steps("  - skill: a\n    timeout: 9000h\n"), "4: steps[0].timeout: is"},
	"no budget":                {steps("  - skill: a\n    budget: much\n"), "4: steps[0].budget: is \"much\", which is no amount"},
	"budget of nothing":        {steps("  - skill: a\n    budget: NaN\n"), "4: steps[0].budget: is \"NaN\": write US dollars"},
	"no truth":                 {steps("  - skill: a\n    required: yes\n"), `4: steps[0].required: is "yes": write true or false`},
	"contradiction":            {steps("  - skill: a\n    required: true\n    on_failure: continue\n"), "5: steps[0].on_failure: is continue, and required is true"},
	"retries of nothing":       {steps("  - skill: a\n    retries: 2\n"), "4: steps[0].retries: belongs to on_failure: retry"},
	"many retries":             {steps("  - skill: a\n    on_failure: retry\n    retries: 50\n"), "5: steps[0].retries: is \"50\""},
	"condition of itself":      {steps("  - skill: a\n    if: steps.a.success\n"), "4: steps[0].if: names the step a (steps[0]), which is not done by then"},
	"cycle":                    {steps("  - skill: a\n    if: steps.b.success\n  - skill: b\n    if: steps.a.success\n"), "4: steps[0].if: names the step b (steps[1]), which is not done by then"},
	"unknown step after a step with a mistake": {"name: x\nsteps:\n  - skil: a\n  - skill: b\n    if: steps.z.success\n", `5: steps[1].if: names the step "z", which there is not: there is none`},
	"unknown step":            {steps("  - skill: buildx\n  - skill: b\n    with: {x: steps.build.output}\n"), `5: steps[1].with.x: names the step "build", which there is not: did you mean buildx?`},
	"unknown field":           {steps("  - skill: a\n  - skill: b\n    if: steps.a.sucess\n"), "5: steps[1].if: is not a valid expression: line 1, column 8: undefined field 'sucess'"},
	"a text as a condition":   {steps("  - skill: a\n    if: '\"x\"'\n"), "4: steps[0].if: is an expression that yields string"},
	"no expression":           {steps("  - skill: a\n    if: input.x ==\n"), "4: steps[0].if: is not a valid expression"},
	"no name of an input":     {steps("  - skill: a\n    with: {a-b: '1'}\n"), `4: steps[0].with: "a-b" is no name of an input`},
	"nested input":            {steps("  - skill: a\n    with: {a: {b: c}}\n"), "4: steps[0].with.a: is a mapping: write a single value"},
	"key of a step":           {"name: p\nconcurrency:\n  key: steps.a.output\nsteps: [{skill: a}]\n", "3: concurrency.key: is not a valid expression: line 1, column 1: undeclared reference to 'steps'"},
	"policy without key":      {"name: p\nconcurrency: {policy: queue}\nsteps: [{skill: a}]\n", "2: concurrency: lacks key"},
	"unknown policy":          {"name: p\nconcurrency: {key: input.a, policy: cancel}\nsteps: [{skill: a}]\n", `2: concurrency.policy: is "cancel", which is not known`},
	"two for one":             {"name: p\ninput_mapping:\n  a: c\n  b: c\nsteps: [{skill: a}]\n", "4: input_mapping.b: gives c, which a gives too"},
	"fan in from later":       {"name: p\nphases:\n  - name: a\n    fan_in_from: b\n    steps: [{skill: x}]\n  - name: b\n    steps: [{skill: y}]\n", `4: phases[0].fan_in_from: is "b", which is no earlier phase: there is none`},
	"fan in from itself":      {"name: p\nphases:\n  - name: a\n    steps: [{skill: x}]\n  - name: b\n    fan_in_from: b\n    steps: [{skill: y}]\n", `6: phases[1].fan_in_from: is "b", which is no earlier phase`},
	"phase twice":             {"name: p\nphases:\n  - name: a\n    steps: [{skill: x}]\n  - name: a\n    steps: [{skill: y}]\n", `5: phases[1].name: is "a", as an earlier phase is`},
	"phase without name":      {"name: p\nphases:\n  - steps: [{skill: x}]\n", "3: phases[0]: lacks name"},
	"phase without steps":     {"name: p\nphases:\n  - name: a\n", "3: phases[0]: lacks steps"},
	"unknown kind of phase":   {"name: p\nphases:\n  - name: a\n    type: paralel\n    steps: [{skill: x}]\n", `4: phases[0].type: is "paralel", which is not known: did you mean parallel?`},
	"a sibling in parallel":   {"name: p\nphases:\n  - name: a\n    type: parallel\n    steps:\n      - skill: x\n      - skill: y\n        if: steps.x.success\n", "8: phases[0].steps[1].if: names the step x (phases[0].steps[0]), which is not done by then"},
	"unknown trigger":         {"name: p\non: github\nsteps: [{skill: a}]\n", `2: on: is "github", which is not known`},
	"trigger without type":    {"name: p\non:\n  - schedule: 0 7 * * *\nsteps: [{skill: a}]\n", "3: on[0]: lacks type"},
	"no cron":                 {"name: p\non:\n  type: cron\n  schedule: 0 25 * * *\nsteps: [{skill: a}]\n", `4: on.schedule: is "0 25 * * *", which is no cron expression`},
	"cron without schedule":   {"name: p\non: cron\nsteps: [{skill: a}]\n", "2: on: lacks schedule"},
	"no time zone":            {"name: p\ntrigger: {type: cron, schedule: '@daily', timezone: Mars/Olympus}\nsteps: [{skill: a}]\n", "2: trigger.schedule: timezone is \"Mars/Olympus\", which is none"},
	"a date that never comes": {"name: p\ntrigger: {type: cron, schedule: '0 0 30 2 *'}\nsteps: [{skill: a}]\n", "a date that never comes"},
	"unknown action of a PR":  {"name: p\non: {type: github_pr, actions: [opend]}\nsteps: [{skill: a}]\n", `2: on.actions[0]: is "opend", which is not known: did you mean opened?`},
	"actions of a schedule":   {"name: p\non: {type: cron, schedule: '@daily', actions: [opened]}\nsteps: [{skill: a}]\n", "2: on.actions: belongs to github_pr, not to cron"},
	"second document":         {steps("  - skill: a\n---\nname: q\n"), "5: a second document begins here"},
	"alias":                   {"name: &n p\ndescription: *n\nsteps: [{skill: a}]\n", "2: description: anchors, aliases"},
	"merge":                   {"name: p\nsteps:\n  - skill: a\n    <<: {id: b}\n", "4: steps[0].<<: anchors, aliases"},
	"tag":                     {"name: !!python/object p\nsteps: [{skill: a}]\n", "1: name: anchors, aliases"},
	"bomb": {"name: p\na: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\n" +
		"d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nsteps: *e\n", "7: steps: anchors, aliases"},
	"itself":          {"name: p\nsteps: &s [*s]\n", "2: steps: anchors, aliases"},
	"deep":            {steps(strings.Repeat("[", 100_000)), " nests brackets or dashes more than"},
	"dashes":          {steps(strings.Repeat("- ", 100_000)), " nests brackets or dashes more than"},
	"large":           {steps("  - skill: a\n") + strings.Repeat("# x\n", 1<<20), " is larger than 1048576 bytes"},
	"many steps":      {steps(strings.Repeat("  - skill: a\n", 5000)), "3: steps: has 5000 entries: at most 100 are taken"},
	"many problems":   {"name: p\n" + strings.Repeat("x: 1\n", 2000), " and 1951 more"},
	"no YAML":         {"name: [p\n", "is not valid YAML"},
	"binary":          {"\x00\x01\x02\xff\xfe", "is not valid YAML"},
	"hidden in words": {"name: \"a\\u202eb\"\nsteps: [{skill: a}]\n", "1: name: is"},
}

func TestHostileFiles(t *testing.T) {
	t.Parallel()
	for name, c := range badFiles {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, problems := readDefinition("p.yaml", []byte(c.text))
			var all []string
			found := false
			for _, p := range problems {
				said := strings.TrimPrefix(p.String(), "p.yaml:")
				all = append(all, said)
				found = found || strings.HasPrefix(said, c.want) || strings.Contains(said, c.want) && (c.want[0] < '0' || c.want[0] > '9')
				if len(said) > 1000 || strings.ContainsAny(said, "\n\x00\u202e") {
					t.Errorf("%d bytes: %.200q", len(said), said)
				}
			}
			if d != nil || !found || len(problems) > maxProblems+1 {
				t.Errorf("%q, want %q", all, c.want)
			}
		})
	}
}

// What is no file, or cannot be one, is named and the rest is read.
func TestHostileDirectories(t *testing.T) {
	t.Parallel()
	dir := write(t, map[string]string{"good.yaml": steps("  - skill: a\n"), "dir.txt": ""})
	if err := os.Mkdir(filepath.Join(dir, "dir.yaml"), 0o700); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	if runtime.GOOS != "windows" {
		for name, target := range map[string]string{"zero.yaml": "/dev/zero", "gone.yaml": "/no/such/file", "loop.yaml": "loop.yaml"} {
			if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
		want = map[string]string{"zero.yaml": "no regular file", "gone.yaml": "no such file", "loop.yaml": "levels of symbolic links"}
	}
	l, problems := Load(dir)
	if _, err := l.Find("p"); err != nil || len(problems) != len(want) {
		t.Errorf("%v, %v", err, problems)
	}
	for _, p := range problems {
		if w := want[filepath.Base(p.File)]; w == "" || !strings.Contains(p.Text, w) {
			t.Errorf("%v, want %q", p, w)
		}
	}
	for path, want := range map[string]string{filepath.Join(dir, "none"): "there is no such directory", filepath.Join(dir, "dir.txt"): "is no directory"} {
		l, problems := Load(path)
		if _, err := l.Find(Triage); err != nil || len(problems) != 1 || !strings.Contains(problems[0].Text, want) {
			t.Errorf("%v, %v", err, problems)
		}
	}
}

func TestExpressionsAreBounded(t *testing.T) {
	t.Parallel()
	d := mustRead(t, "name: p\nconcurrency: {key: input.key}\nsteps:\n  - skill: a\n  - skill: b\n"+
		"    if: input.l.all(a, input.l.all(b, input.l.all(c, a == b && b == c)))\n    with:\n      big: input.l.map(a, input.text)\n      twice: input.text + input.text\n")
	s := Scope{Input: map[string]any{"l": make([]any, 2000), "text": strings.Repeat("x", 600<<10), "key": strings.Repeat("k", 600)}}
	step := &d.Phases[0].Steps[1]
	_, err := d.EvalIf(t.Context(), step, s)
	if nightcrier.CodeOf(err) != nightcrier.Exhausted || !strings.HasPrefix(err.Error(), "p.yaml:6: steps.b.if: it costs too much") {
		t.Error(err)
	}
	if _, err := d.EvalKey(t.Context(), s); nightcrier.CodeOf(err) != nightcrier.Invalid || !strings.HasPrefix(err.Error(), "p.yaml:2: concurrency.key: it yields 600 bytes") {
		t.Error(err)
	}
	for name, want := range map[string]string{"big": "p.yaml:8: steps.b.with.big: it yields more than", "twice": "p.yaml:9: steps.b.with.twice: the inputs of the step take more than"} {
		one := *step
		one.With = map[string]string{name: step.With[name]}
		if got, err := d.EvalWith(t.Context(), &one, s); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%d inputs, %v, want %q", len(got), err, want)
		}
	}
}

func TestInputsAreBounded(t *testing.T) {
	t.Parallel()
	for text, code := range map[string]nightcrier.Code{
		`{"a":"` + strings.Repeat("x", 10<<20) + `"}`: nightcrier.Exhausted, `[1]`: nightcrier.Invalid, `{"a":`: nightcrier.Invalid,
		strings.Repeat(`{"a":`, 100_000): nightcrier.Invalid, `null`: "", ``: "", `{"a":1}`: "",
	} {
		input, err := new(Definition).ReadInput([]byte(text))
		if nightcrier.CodeOf(err) != code || err == nil && input == nil {
			t.Errorf("%.20s: %v, %v", text, input, err)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add(review)
	for _, c := range badFiles {
		if len(c.text) < 1<<10 {
			f.Add(c.text)
		}
	}
	for _, key := range []string{"on: [incident, {type: cron, schedule: '*/5 * * * *', timezone: Europe/Berlin}]\n", "input_mapping: {a: b}\n", "deadline: 1h\nbudget: $2\n",
		"concurrency: {key: subject.id, policy: cancel-previous}\n"} {
		f.Add(key + steps("  - {skill: a, with: {x: input.a, y: 5}, on_failure: retry, deliverable: {schema: {type: object}}}\n  - {action: notify, if: steps.a.success}\n"))
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, problems := readDefinition("p.yaml", []byte(text))
		if (d == nil) == (len(problems) == 0) {
			t.Fatalf("%v, %v", d, problems)
		}
		for _, p := range problems {
			if strings.Contains(p.Text, "\n") {
				t.Errorf("%q", p.Text)
			}
		}
		if d == nil {
			return
		}
		seen := map[string]bool{}
		for _, s := range d.AllSteps() {
			if s.ID == "" || seen[s.ID] || strings.ContainsAny(s.ID, "/.\\") || s.Uses() == "" {
				t.Errorf("step %q", s.ID)
			}
			seen[s.ID] = true
		}
		frozen := Frozen{Version: FrozenVersion, Definition: *d}
		if first, again := freeze(t, frozen), freeze(t, thaw(t, frozen)); first != again {
			t.Errorf("%s\nis not\n%s", again, first)
		}
		DrawText(d)
		DrawMermaid(d)
	})
}
