package run

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent/backend"
	"nightcrier.dev/nightcrier/internal/agent/skill"
	"nightcrier.dev/nightcrier/internal/guard/price"
	"nightcrier.dev/nightcrier/internal/run/pipeline"
)

// failing is an agent that fails as often as is said, and then ends well.
func failing(times int) script {
	n := 0
	return func(int, backend.Spec) nightcrier.AgentResult {
		if n++; n <= times {
			return nightcrier.AgentResult{State: nightcrier.StateFailed, FailureClass: nightcrier.FailAgent, FailureReason: "it gave up"}
		}
		return well("at last")
	}
}

func steps(list string) string { return "name: p\non: manual\nsteps:\n" + list }

// executed executes a pipeline to its end, and returns its run and a line for each row.
func (s *site) executed(t *testing.T, file, input string, with ...func(*Order)) (nightcrier.Run, []string) {
	t.Helper()
	if s.dir == "" {
		s.dir = t.TempDir()
		if err := s.open(t.Context()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.close(); err != nil {
				t.Error(err)
			}
		})
	}
	o, err := s.admit(t.Context(), file, input)
	if err == nil {
		for _, change := range with {
			change(&o)
		}
		err = s.engine.Start(Workflow, o.RunID, o)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s.ended(t, o.RunID)
}

func (s *site) ended(t *testing.T, id string) (nightcrier.Run, []string) {
	t.Helper()
	run, err := s.await(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := s.store.Steps(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, r := range rows {
		line := r.ID + " " + string(r.State)
		if r.Attempt > 1 {
			line += " again"
		}
		if r.Skipped != "" {
			line += ", " + r.Skipped
			if r.Executor != "" {
				t.Errorf("%s was not done by %s", r.ID, r.Executor)
			}
		}
		lines = append(lines, line)
	}
	return run, lines
}

func TestHowPipelinesEnd(t *testing.T) {
	for name, tt := range map[string]struct {
		file    string
		agents  map[string]script
		outcome nightcrier.State
		reason  string
		rows    []string
	}{
		"all well": {steps("  - {id: a, skill: x/a}\n  - {id: b, skill: x/b}\n"), nil, nightcrier.StateSuccess, "", []string{"a success", "b success"}},
		"a required step fails": {steps("  - {id: a, skill: x/a}\n  - {id: b, skill: x/b}\n  - {id: check, action: check}\n"), map[string]script{"a": failing(9)},
			nightcrier.StateFailed, "step a failed: it gave up", []string{"a failed", "b created, the step a failed", "check success"}},
		"it may fail": {steps("  - {id: a, skill: x/a, on_failure: continue}\n  - {id: b, skill: x/b, if: '!steps.a.success'}\n"), map[string]script{"a": failing(9)},
			nightcrier.StateSuccess, "", []string{"a failed", "b success"}},
		"it is done again": {steps("  - {id: a, skill: x/a, on_failure: retry, retries: 2}\n"), map[string]script{"a": failing(1), "a~2": failing(0)},
			nightcrier.StateSuccess, "", []string{"a failed", "a success again"}},
		"again in vain": {steps("  - {id: a, skill: x/a, on_failure: retry}\n"), map[string]script{"a": failing(9), "a~2": failing(9)},
			nightcrier.StateFailed, "it gave up", []string{"a failed", "a failed again"}},
		"a condition":      {steps("  - {id: a, skill: x/a, if: input.n > 5}\n  - {id: b, skill: x/b}\n"), nil, nightcrier.StateSuccess, "", []string{"a created, its condition does not hold: input.n > 5", "b success"}},
		"a bad condition":  {steps("  - {id: a, skill: x/a, if: input.none.x}\n"), nil, nightcrier.StateFailed, "steps.a.if", []string{"a failed"}},
		"a missing skill":  {steps("  - {id: a, skill: x/missing}\n"), nil, nightcrier.StateFailed, "step a: the skill x/missing is not there", []string{"a failed"}},
		"JSON":             {steps("  - {id: a, skill: x/a, deliverable: {schema: {type: object, required: [n]}}}\n"), map[string]script{"a": words(`{"n": 1}`)}, nightcrier.StateSuccess, "", []string{"a success"}},
		"JSON asked again": {steps("  - {id: a, skill: x/a, deliverable: {schema: {type: object, required: [n]}}}\n"), map[string]script{"a": words(`no`, `{"n": 1}`)}, nightcrier.StateSuccess, "", []string{"a success"}},
		"never JSON": {steps("  - {id: a, skill: x/a, deliverable: {schema: {type: object, required: [n]}}}\n"), map[string]script{"a": words(`no`, `{}`)},
			nightcrier.StateFailed, "asked for again, it is still not valid", []string{"a failed"}},
		"no files": {steps("  - {id: a, skill: x/a, deliverable: {files: ['*.html']}}\n"), nil, nightcrier.StateFailed, "there is no file output/*.html", []string{"a failed"}},
		"files": {steps("  - {id: a, skill: x/a, deliverable: {files: ['*.html']}}\n"), map[string]script{"a": func(_ int, spec backend.Spec) nightcrier.AgentResult {
			if err := os.WriteFile(filepath.Join(spec.Workspace, ".scratch", "x.html"), []byte("x"), 0o600); err != nil && !os.IsNotExist(err) {
				panic(err)
			}
			return well("done")
		}}, nightcrier.StateSuccess, "", []string{"a success"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &site{agents: tt.agents}
			run, rows := s.executed(t, tt.file, `{"n": 3}`)
			if run.Outcome != tt.outcome || !strings.Contains(run.FailureReason, tt.reason) || !slices.Equal(rows, tt.rows) {
				t.Errorf("%s (%s), %q", run.Outcome, run.FailureReason, rows)
			}
		})
	}
}

// words is an agent whose last words are these, one after the other.
func words(said ...string) script {
	return func(attempt int, _ backend.Spec) nightcrier.AgentResult {
		if attempt == repairAttempt {
			return well(said[1])
		}
		return well(said[0])
	}
}

// What a step leaves reaches the next: by context, by name, and of many by fan-in, which is
// bounded. Agents beside each other have a workspace each.
func TestWhatIsHandedOn(t *testing.T) {
	dirs := make(chan string, 9)
	long := strings.Repeat("é", maxFannedIn+7)
	s := &site{agents: map[string]script{
		"first": words(`{"n": 7}`),
		"a":     func(_ int, spec backend.Spec) nightcrier.AgentResult { dirs <- spec.Workspace; return well(long) },
		"b":     func(_ int, spec backend.Spec) nightcrier.AgentResult { dirs <- spec.Workspace; return well("short") },
	}}
	run, _ := s.executed(t, `
name: p
on: manual
input_mapping: {service: name}
budget: $3
phases:
  - name: one
    steps:
      - {id: first, skill: x/first, deliverable: {schema: {type: object}}}
      - {id: second, skill: x/second, with: {twice: steps.first.output.n * 2.0}}
  - name: many
    type: parallel
    steps: [{id: a, skill: x/a, agent_id: anna}, {id: b, skill: x/b, agent_id: bert}]
  - name: last
    fan_in_from: many
    steps: [{id: sum, skill: x/sum}]
`, `{"service": "cart"}`)
	if run.Outcome != nightcrier.StateSuccess {
		t.Fatalf("%s: %s", run.Outcome, run.FailureReason)
	}
	if one, two := <-dirs, <-dirs; one == two || !strings.Contains(one, ownDir) || !strings.Contains(two, ownDir) {
		t.Errorf("they worked in %s and in %s", one, two)
	}
	for _, w := range []string{"a", "b"} {
		found := false
		all, err := s.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range all {
			if spec, err := s.spec(o.Handle.ID); err == nil && spec.Step == w {
				found = true
				if spec.StepID != w || spec.Budget.Run.Money.Dollars() != 3 || spec.Budget.Step.Money.Dollars() != 1.25 {
					t.Errorf("%s spends from %s, at most %s", w, spec.StepID, spec.Budget.Step.Money)
				}
				if of := spec.Budget.Step.MoneyOf; !strings.Contains(of, "the budget of the pipeline p, for 2 steps") {
					t.Errorf("%s spends what is %q", w, of)
				}
			}
		}
		if !found {
			t.Errorf("%s was not started", w)
		}
	}
	var in struct {
		Name    string              `json:"name"`
		Results map[string]fannedIn `json:"agent_results"`
	}
	raw, err := os.ReadFile(filepath.Join(s.root.Path(), "incident-"+run.ID, ownDir, "incident-"+nightcrier.DerivedID(run.ID, "sum"), InputFile))
	if err == nil {
		err = json.Unmarshal(raw, &in)
	}
	if err != nil {
		t.Fatal(err)
	}
	anna, _ := in.Results["anna"].Output.(string)
	if in.Name != "cart" || len([]rune(anna)) != maxFannedIn || !in.Results["anna"].Truncated || fmt.Sprint(in.Results["bert"].Output) != "map[summary:short]" || in.Results["bert"].Truncated {
		t.Errorf("it was given %d characters, and %+v", len([]rune(anna)), in.Results["bert"])
	}
}

// inputOf is what the agent of a step was given.
func (s *site) inputOf(t *testing.T, run, step string) string {
	t.Helper()
	all, err := s.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, owned := range all {
		spec, err := s.spec(owned.Handle.ID)
		if err != nil {
			t.Fatal(err)
		}
		if spec.RunID != run || spec.Step != step {
			continue
		}
		raw, err := os.ReadFile(filepath.Join(spec.Workspace, InputFile))
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	t.Fatalf("no agent of step %s in run %s", step, run)
	return ""
}

// A run goes on behind what an earlier one delivered, and does not do that again. Its pipeline is
// the one that it was admitted with, whatever stands in the file.
func TestRetryFromAStep(t *testing.T) {
	s := &site{agents: map[string]script{"b": failing(1)}}
	file := steps("  - {id: a, skill: x/a}\n  - {id: b, skill: x/b, with: {said: steps.a.output}}\n")
	run, rows := s.executed(t, file, "")
	if !slices.Equal(rows, []string{"a success", "b failed"}) {
		t.Fatal(rows)
	}
	given := s.inputOf(t, run.ID, "b")
	again, err := s.store.RetryRun(t.Context(), run.ID, "b")
	if err != nil {
		t.Fatal(err)
	}
	delivered, err := s.store.Steps(t.Context(), again.ID)
	if err != nil {
		t.Fatal(err)
	}
	run, rows = s.executed(t, file, "", func(o *Order) { o.RunID, o.Delivered = again.ID, delivered })
	if run.Outcome != nightcrier.StateSuccess || !slices.Equal(rows, []string{"a success", "b success"}) || count(s.noted(), "a#1") != 1 || count(s.noted(), "b#1") != 2 {
		t.Errorf("%s, %q, %q", run.Outcome, rows, s.noted())
	}
	if got := s.inputOf(t, run.ID, "b"); got != given || !strings.Contains(got, `"summary": "a says so"`) {
		t.Errorf("b was given %s, and again %s", given, got)
	}
}

// Who retries from a later step does not get round one that is required.
func TestARetryBehindARequiredStep(t *testing.T) {
	s := &site{agents: map[string]script{"a": failing(9)}}
	file := steps("  - {id: a, skill: x/a}\n  - {id: check, action: check}\n  - {id: b, skill: x/b}\n")
	run, _ := s.executed(t, file, "")
	again, err := s.store.RetryRun(t.Context(), run.ID, "check")
	if err != nil {
		t.Fatal(err)
	}
	delivered, err := s.store.Steps(t.Context(), again.ID)
	if err != nil {
		t.Fatal(err)
	}
	run, rows := s.executed(t, file, "", func(o *Order) { o.RunID, o.Delivered = again.ID, delivered })
	if run.Outcome != nightcrier.StateFailed || !slices.Equal(rows, []string{"a failed", "check success", "b created, the step a failed"}) {
		t.Errorf("%s, %q", run.Outcome, rows)
	}
}

// A run may begin with steps beside each other, also behind one that is left out.
func TestAPhaseBehindASkippedStep(t *testing.T) {
	s := &site{}
	run, rows := s.executed(t, "name: p\nphases:\n- {name: first, steps: [{id: z, skill: x/z, if: \"false\"}]}\n- {name: both, type: parallel, steps: [{id: a, skill: x/a, agent_id: a}, {id: b, skill: x/b, agent_id: b}]}\n", "")
	if run.Outcome != nightcrier.StateSuccess || !slices.Equal(slices.Sorted(slices.Values(rows)), []string{"a success", "b success", "z created, its condition does not hold: false"}) {
		t.Errorf("%s: %s, %q", run.Outcome, run.FailureReason, rows)
	}
}

// A worker of which nothing is left, or whose workspace is gone, has been lost; nobody waits for it.
func TestALostWorker(t *testing.T) {
	for name, gone := range map[string]func(*site, backend.Spec) string{
		"no worker":    func(s *site, spec backend.Spec) string { return s.workerDir(spec.WorkerName()) },
		"no workspace": func(s *site, spec backend.Spec) string { return filepath.Join(s.root.Path(), "incident-"+spec.RunID) },
	} {
		t.Run(name, func(t *testing.T) {
			s := &site{}
			s.launched = func(spec backend.Spec) error { return os.RemoveAll(gone(s, spec)) }
			if run, rows := s.executed(t, steps("  - {id: a, skill: x/a}\n"), ""); run.Outcome != nightcrier.StateFailed || !slices.Equal(rows, []string{"a failed"}) {
				t.Errorf("%s: %s, %q", run.Outcome, run.FailureReason, rows)
			}
		})
	}
}

// What a step beside others is handed of the steps before is what it may use.
func TestABranchHasWhatItUses(t *testing.T) {
	w := &Work{done: map[string]nightcrier.Step{}}
	phase := pipeline.Phase{Name: "many", FanInFrom: "first", Steps: []pipeline.Step{{ID: "x", With: map[string]string{"v": "steps.b.output"}}}}
	w.frozen.Pipeline.Definition.Phases = []pipeline.Phase{{Name: "first", Steps: []pipeline.Step{{ID: "a"}}}, {Name: "second", Steps: []pipeline.Step{{ID: "b"}, {ID: "c"}, {ID: "d"}}}, phase}
	for p, s := range w.frozen.Pipeline.Definition.AllSteps() {
		if p.Name != "many" {
			w.done[s.ID], w.previous = nightcrier.Step{ID: s.ID, State: nightcrier.StateSuccess, Output: json.RawMessage(`1`), Artifacts: []nightcrier.Artifact{{Path: "output/x"}}}, s
		}
	}
	used := w.usedBy(&phase, &phase.Steps[0])
	for id, want := range map[string]string{"a": "1", "b": "1", "c": "", "d": "1"} {
		if string(used[id].Output) != want || len(used[id].Artifacts) != 1 || used[id].State != nightcrier.StateSuccess {
			t.Errorf("%s: %+v", id, used[id])
		}
	}
	if len(w.done["c"].Output) == 0 {
		t.Error("the run lost what a step delivered")
	}
}

// A state of an agent that cannot be read shows nothing; the run goes on.
func TestAStateThatCannotBeRead(t *testing.T) {
	s := &site{says: []nightcrier.JournalEntry{{Type: nightcrier.EntryState, Data: []byte(`"x"`), Time: time.Now(), Key: "worker#1/2"}}}
	if run, rows := s.executed(t, steps("  - {id: a, skill: x/a}\n"), ""); run.Outcome != nightcrier.StateSuccess {
		t.Errorf("%s: %s, %q", run.Outcome, run.FailureReason, rows)
	}
}

// What an agent delivers as JSON is masked with its keys, which say what is a secret; so is what
// an agent is given.
func TestSecretsBehindKeys(t *testing.T) {
	const secret = `{"db_password": "hunter2horse", "n": [{"name": "API_TOKEN", "value": "zq81kd92ll"}]}`
	s := &site{agents: map[string]script{"a": func(int, backend.Spec) nightcrier.AgentResult { return well(secret) }}}
	run, _ := s.executed(t, steps("  - {id: a, skill: x/a, deliverable: {schema: {type: object}}}\n"), secret)
	rows, err := s.store.Steps(t.Context(), run.ID)
	if err != nil || len(rows) != 1 || !json.Valid(rows[0].Output) {
		t.Fatalf("%v, %+v", err, rows)
	}
	for _, text := range []string{string(rows[0].Output), s.inputOf(t, run.ID, "a")} {
		if strings.Contains(text, "hunter2horse") || strings.Contains(text, "zq81kd92ll") || !strings.Contains(text, "db_password") {
			t.Errorf("shown: %s", text)
		}
	}
}

// A step may have less time and money than its run.
func TestTheBoundsOfAStep(t *testing.T) {
	s := &site{}
	s.executed(t, "name: p\nbudget: 3\nsteps:\n  - {id: a, skill: x/a}\n  - {id: b, skill: x/b, timeout: 7s, budget: 1}\n  - {id: c, skill: x/c, budget: 9}\n", "", func(o *Order) { o.Deadline = time.Now().Add(30 * time.Second) })
	all, err := s.List(t.Context())
	if err != nil || len(all) != 3 {
		t.Fatalf("%v, %v", all, err)
	}
	for _, w := range all {
		spec, err := s.spec(w.Handle.ID)
		if err != nil {
			t.Fatal(err)
		}
		if want := map[string]float64{"b": 1, "c": 9}[spec.Step]; spec.Budget.Step.Money.Dollars() != want || spec.Budget.Run.Money.Dollars() != 3 {
			t.Errorf("%s may spend %s, want $%.2f", spec.Step, spec.Budget.Step.Money, want)
		}
		of := map[string]string{"b": "the budget of the step b", "c": "the budget of the step c"}[spec.Step]
		if spec.Budget.Run.MoneyOf != "the budget of the pipeline p" || spec.Budget.Step.MoneyOf != of {
			t.Errorf("%s spends %q, %q", spec.Step, spec.Budget.Run.MoneyOf, spec.Budget.Step.MoneyOf)
		}
		if spec.Step == "b" && spec.Timeout != 7*time.Second || spec.Timeout <= 0 || spec.Timeout > 30*time.Second {
			t.Errorf("%s has %s", spec.Step, spec.Timeout)
		}
	}
}

// Agents beside each other spend no more than their run may, however much each of them wants, and
// who comes behind them has what they left. What the run cost is all of it.
func TestABudgetOfAgentsBesideEachOther(t *testing.T) {
	s := &site{agents: map[string]script{}}
	for _, id := range []string{"a", "b", "c", "sum"} {
		s.agents[id] = spending(words("done"))
	}
	run, _ := s.executed(t, `
name: p
budget: 1
phases:
  - {name: many, type: parallel, steps: [{id: a, skill: x/a}, {id: b, skill: x/b, budget: $0.15}, {id: c, skill: x/c, on_failure: retry}]}
  - {name: last, steps: [{id: sum, skill: x/sum}]}
`, "")
	sum, err := spentOf(s.runner.cfg.BudgetDir, run.ID)
	// A third each is four calls, and 15 cents are one or two. The last one has what is left: it
	// stops where no call fits any more.
	if err != nil || sum.Held.Money > 0 || sum.Spent.Money > price.Dollar || sum.Spent.Money < price.FromDollars(0.9) {
		t.Errorf("%v: spent %+v", err, sum)
	}
	if run.Outcome != nightcrier.StateSuccess || run.CostUSD != sum.Spent.Money.Dollars() {
		t.Errorf("%s: %s; it cost %v, by the record %s", run.Outcome, run.FailureReason, run.CostUSD, sum.Spent.Money)
	}
}

// What is written longer than it is, is whole.
func TestFanInCutsByWhatIsSaid(t *testing.T) {
	quotes := strings.Repeat("\"", maxFannedIn)
	raw, err := json.Marshal(quotes)
	if err != nil {
		t.Fatal(err)
	}
	w := &Work{done: map[string]nightcrier.Step{"a": {State: nightcrier.StateSuccess, Output: raw}}}
	w.frozen.Pipeline.Definition.Phases = []pipeline.Phase{{Name: "many", Steps: []pipeline.Step{{ID: "a", AgentID: "a"}}}}
	if got := w.fanIn("many")["a"]; got.Truncated || got.Output != quotes {
		t.Errorf("truncated %v, %d bytes", got.Truncated, len(got.Output.(string)))
	}
}

// The deadline of a run ends it: no agent is asked behind it.
func TestTheDeadlineOfARun(t *testing.T) {
	s := &site{}
	run, rows := s.executed(t, steps("  - {id: a, skill: x/a}\n"), "", func(o *Order) { o.Deadline = time.Now().Add(-time.Second) })
	if run.Outcome != nightcrier.StateTimeout || len(s.noted()) > 0 || !strings.Contains(run.FailureReason, "the deadline of the run") {
		t.Errorf("%s: %s, %q, %q", run.Outcome, run.FailureReason, rows, s.noted())
	}
}

// A cancellation that is heard before a step ends the run there.
func TestACancelledRunDoesNoMore(t *testing.T) {
	s := &site{}
	s.collect = func(w *Work) (Done, error) {
		_, err := s.store.RequestCancelRun(t.Context(), w.Order.RunID, "somebody")
		return Done{Result: w.Result}, err
	}
	run, rows := s.executed(t, steps("  - {id: collect, action: collect}\n  - {id: a, skill: x/a, on_failure: continue}\n  - {id: b, skill: x/b}\n"), "")
	if run.Outcome != nightcrier.StateCancelled || !slices.Equal(rows, []string{"collect success", "a cancelled", "b created, the run was cancelled"}) {
		t.Errorf("%s: %s, %q", run.Outcome, run.FailureReason, rows)
	}
}

// What cannot be executed ends its run, with one line that says why.
func TestAPipelineThatIsNotReady(t *testing.T) {
	for _, known := range []bool{true, false} { // whether its file was there
		s := &site{}
		run, _ := s.executed(t, steps("  - {id: a, skill: x/a}\n"), "", func(o *Order) {
			o.Unready = "pipeline p cannot run: no skill x/a"
			if o.Pipeline.Definition.Notifications = tellAll; !known {
				o.Pipeline = pipeline.Frozen{}
			}
		})
		if run.Outcome != nightcrier.StateFailed || run.FailureReason != "pipeline p cannot run: no skill x/a" || known != (s.toldOnce(t) == 1) {
			t.Errorf("%s: %s, told %d times", run.Outcome, run.FailureReason, s.told.Load())
		}
	}
}

var tellAll = []pipeline.Notification{{Notification: skill.Notification{Channel: "slack"}}}

// toldOnce is how often people were told, once the engine has come to its end.
func (s *site) toldOnce(t *testing.T) int32 {
	t.Helper()
	if err := s.engine.Stop(time.Minute); err != nil {
		t.Fatal(err)
	}
	return s.told.Load()
}

// People are told of a run that has ended, however it did, and of one that nobody asked to be told of not.
func TestPeopleAreToldOfTheEnd(t *testing.T) {
	for name, tt := range map[string]struct {
		agents map[string]script
		tell   []pipeline.Notification
		want   int32
	}{
		"success": {nil, tellAll, 1}, "failure": {map[string]script{"a": failing(9)}, tellAll, 1}, "not asked for": {nil, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &site{agents: tt.agents}
			s.executed(t, steps("  - {id: a, skill: x/a}\n"), "", func(o *Order) { o.Pipeline.Definition.Notifications = tt.tell })
			if got := s.toldOnce(t); got != tt.want {
				t.Errorf("told %d times", got)
			}
		})
	}
}

// What killed an attempt and those beside it shall not do so again: the next one is alone.
func TestAnotherAttemptIsAlone(t *testing.T) {
	var shared []bool
	s := &site{agents: map[string]script{"a": func(attempt int, spec backend.Spec) nightcrier.AgentResult {
		spec.Executor = "ptc"
		if shared = append(shared, spec.SharesProcess()); attempt == 1 {
			return nightcrier.AgentResult{State: nightcrier.StateFailed, FailureClass: nightcrier.FailLost, FailureReason: "it died"}
		}
		return well("done")
	}}}
	run, _ := s.executed(t, steps("  - {id: a, skill: x/a}\n"), "")
	if run.Outcome != nightcrier.StateSuccess || !slices.Equal(shared, []bool{true, false}) {
		t.Errorf("%s: %s, %v", run.Outcome, run.FailureReason, shared)
	}
}

// The pause before another attempt ends with the run's time.
func TestTheDeadlineEndsThePause(t *testing.T) {
	s := &site{pause: 24 * time.Hour, agents: map[string]script{"a": func(int, backend.Spec) nightcrier.AgentResult {
		return nightcrier.AgentResult{State: nightcrier.StateFailed, FailureClass: nightcrier.FailLost, FailureReason: "it died"}
	}}}
	run, rows := s.executed(t, steps("  - {id: a, skill: x/a}\n"), "", func(o *Order) { o.Deadline = time.Now().Add(time.Second) })
	if run.Outcome != nightcrier.StateTimeout || !strings.Contains(run.FailureReason, "the deadline of the run, ") {
		t.Errorf("%s: %s, %q", run.Outcome, run.FailureReason, rows)
	}
}

// What a run used is that of all rounds of its steps, also of those beside others.
func TestAllRoundsAreCounted(t *testing.T) {
	used := func(state nightcrier.State) script {
		return func(int, backend.Spec) nightcrier.AgentResult {
			r := well("done")
			if r.State, r.Usage.InputTokens = state, 100; state != nightcrier.StateSuccess {
				r.FailureClass, r.FailureReason = nightcrier.FailAgent, "it gave up"
			}
			return r
		}
	}
	s := &site{agents: map[string]script{}}
	for _, id := range []string{"a", "b"} {
		s.agents[id], s.agents[id+"~2"] = used(nightcrier.StateFailed), used(nightcrier.StateSuccess)
	}
	file := "name: p\nphases:\n- name: one\n  steps:\n  - {id: a, skill: x/a, on_failure: retry}\n- name: many\n  type: parallel\n  steps:\n  - {id: b, agent_id: b, skill: x/b, on_failure: retry}\n  - {id: c, agent_id: c, skill: x/c}\n"
	run, rows := s.executed(t, file, "")
	if got := s.used.Load(); run.Outcome != nightcrier.StateSuccess || got == nil || got.InputTokens != 400 || got.APIRequests != 5 {
		t.Errorf("%s: %s, %q; it used %+v", run.Outcome, run.FailureReason, rows, got)
	}
}
