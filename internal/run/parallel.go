package run

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/run/engine"
	"nightcrier.dev/nightcrier/internal/run/pipeline"
	"nightcrier.dev/nightcrier/internal/text"
)

// BranchWorkflow is the name of the workflow of a step that is done beside others.
const BranchWorkflow = Workflow + "/branch"

// branch is what a step beside others is handed over: it shares nothing else with them.
type branch struct {
	Order Order `json:"order"`
	// Phase and Step are where it is written.
	Phase int `json:"phase"`
	Step  int `json:"step"`
	// Done are the steps before, with the outputs that it may use, and Previous the one whose words it is handed.
	Done     map[string]nightcrier.Step `json:"done,omitempty"`
	Previous string                     `json:"previous,omitempty"`
}

// arrived is what a branch comes back with.
type arrived struct {
	Row nightcrier.Step `json:"row"`
	// Earlier is what its rounds before that used.
	Earlier nightcrier.Usage `json:"earlier,omitzero"`
	// Waited is how long it has waited for people.
	Waited time.Duration `json:"waited_ns,omitempty"`
}

// doSideBySide does the steps of a phase at the same time, each as a workflow of its own. What
// the run may still spend is divided among them.
func (w *Work) doSideBySide(at int) error {
	phase := &w.frozen.Pipeline.Definition.Phases[at]
	if !w.begun {
		w.step, w.row, w.place, w.parts = nil, nightcrier.Step{}, place{step: "run"}, 0
		if _, err := Checkpoint(w, "begin", func(context.Context, *Session) (bool, error) { return true, nil }); err != nil {
			return err
		}
	}
	var steps []*pipeline.Step
	var branches []engine.Branch
	for i := range phase.Steps {
		step := &phase.Steps[i]
		if _, there := w.done[step.ID]; there {
			continue
		}
		w.enter(step, 0)
		why, err := w.whySkip(phase, step)
		if err != nil {
			return err
		}
		if why != "" {
			w.skipStep(why)
			if err := w.keepBeside(step, arrived{Row: w.row}); err != nil {
				return err
			}
			continue
		}
		b := branch{Order: w.frozen, Phase: at, Step: i, Done: w.usedBy(phase, step)}
		b.Order.Delivered = slices.Clone(w.frozen.Delivered) // what of it is used is in Done
		for j := range b.Order.Delivered {
			b.Order.Delivered[j].Output = nil
		}
		if w.previous != nil {
			b.Previous = w.previous.ID
		}
		steps, branches = append(steps, step), append(branches, engine.Branch{Name: step.ID, Workflow: BranchWorkflow, Input: b})
	}
	w.shareBudget(branches)
	if err := w.showRowsNow(); err != nil {
		return err
	}
	all, err := engine.RunBranches[arrived](w.ctx, branches)
	if err != nil {
		return err
	}
	var waited time.Duration
	for i, step := range steps {
		waited = max(waited, all[i].Waited)
		if err := w.keepBeside(step, all[i]); err != nil {
			return err
		}
	}
	w.addWaited(waited)
	for i := range phase.Steps { // an earlier run did some
		w.noteDone(&phase.Steps[i], w.done[phase.Steps[i].ID])
	}
	w.previous = nil // what several said is handed on by fan-in alone
	return nil
}

// keepBeside keeps what a step beside others came to.
func (w *Work) keepBeside(step *pipeline.Step, a arrived) error {
	previous := w.previous
	w.step, w.row, w.place, w.earlier = step, a.Row, place{step: step.ID}, w.earlier.Plus(a.Earlier)
	err := w.keepStep(step)
	w.previous = previous
	return err
}

// shareBudget divides what the run may still spend among the agents of a phase, so that none
// takes it from the others; that all of them keep to it is counted when they spend.
func (w *Work) shareBudget(branches []engine.Branch) {
	o := w.frozen
	o.boundByPipeline()
	limit := o.Agent.Budget.Run.Money
	if limit == 0 || len(branches) == 0 {
		return
	}
	part := fmt.Sprintf("what this step may spend of what was left (%s, for %s)", cmp.Or(o.Agent.Budget.Run.MoneyOf, "budget.per_run_usd"), text.CountNoun(len(branches), "step"))
	left := max(limit.Dollars()-w.used().CostUSD, 0) / float64(len(branches))
	for i := range branches {
		b := branches[i].Input.(branch)
		b.Order.Agent.Budget.Step.BoundMoney(max(left, 1e-9), part) // 0 would bound nothing
		branches[i].Input = b
	}
}

// executeBranch is BranchWorkflow.
func (r *Runner) executeBranch(ctx engine.Context, _ string, input []byte) error {
	var b branch
	if err := json.Unmarshal(input, &b); err != nil {
		return nightcrier.Errorf(nightcrier.Internal, "run: a branch cannot be read: %w", err)
	}
	w, err := r.newWork(ctx, b.Order)
	if err != nil {
		return err
	}
	w.begun, w.passed, w.beside, w.done = true, true, true, b.Done // the run was begun before
	if w.done == nil {
		w.done = map[string]nightcrier.Step{}
	}
	phase := &w.frozen.Pipeline.Definition.Phases[b.Phase]
	step := &phase.Steps[b.Step]
	for _, s := range w.frozen.Pipeline.Definition.AllSteps() {
		if s.ID == b.Previous {
			w.previous = s
		}
	}
	if err := w.doRounds(phase, step); err != nil {
		return err
	}
	w.saveRow()
	if err := w.showRowsNow(); err != nil {
		return err
	}
	return ctx.Return(arrived{Row: w.row, Earlier: w.earlier, Waited: w.waited})
}
