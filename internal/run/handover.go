package run

import (
	"maps"
	"unicode/utf8"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/run/pipeline"
)

// InputFile has what an agent step is given.
const InputFile = "context/input.json"

// The names by which a step finds what others hand on: what the one before delivered, where that is
// no object of its own, what it said, where it delivers nothing else, and what the agents of an earlier phase came to.
const (
	contextKey = "context"
	summaryKey = "summary"
	resultsKey = "agent_results"
)

// maxFannedIn is how much of what one agent delivered is handed to a later phase, in characters.
const maxFannedIn = 50_000

// fannedIn is what an agent of an earlier phase came to.
type fannedIn struct {
	Output    any      `json:"output"`
	Success   bool     `json:"success"`
	Artifacts []string `json:"artifacts,omitempty"`
	// Truncated says that the output was cut: it is its beginning then, as text.
	Truncated bool `json:"truncated,omitempty"`
}

// scope is what the expressions of a step see, with the outputs that they name.
func (w *Work) scope(step *pipeline.Step) pipeline.Scope {
	s := pipeline.Scope{Input: w.input, Subject: w.frozen.Subject, Steps: map[string]pipeline.Result{}}
	for id, row := range w.done {
		if step.RefersTo(id) {
			s.Steps[id] = w.resultOf(id)
		} else {
			s.Steps[id] = pipeline.Result{Success: row.State == nightcrier.StateSuccess}
		}
	}
	return s
}

// usedBy is what is done, with the outputs that a step may use.
func (w *Work) usedBy(phase *pipeline.Phase, step *pipeline.Step) map[string]nightcrier.Step {
	used := maps.Clone(w.done)
	for p, s := range w.frozen.Pipeline.Definition.AllSteps() {
		if row, there := used[s.ID]; there && !step.RefersTo(s.ID) && p.Name != phase.FanInFrom && s != w.previous {
			row.Output = nil
			used[s.ID] = row
		}
	}
	return used
}

// resultOf is what a step left.
func (w *Work) resultOf(id string) pipeline.Result {
	return pipeline.ResultOf(w.done[id])
}

// inputOf is what a step is given: the input of the run, what the step before hands on, what the
// agents of an earlier phase came to, and what the step names for itself. Later ones win.
func (w *Work) inputOf(phase *pipeline.Phase, step *pipeline.Step) (map[string]any, error) {
	in := maps.Clone(w.input)
	if w.previous != nil && w.previous.ContextForNext {
		switch said := w.resultOf(w.previous.ID).Output.(type) {
		case nil:
		case map[string]any:
			maps.Copy(in, said)
		default:
			in[contextKey] = said
		}
	}
	if phase.FanInFrom != "" {
		in[resultsKey] = w.fanIn(phase.FanInFrom)
	}
	with, err := w.frozen.Pipeline.Definition.EvalWith(w.ctx, step, w.scope(step))
	if err != nil {
		return nil, err
	}
	maps.Copy(in, with)
	return in, nil
}

// fanIn is what the agents of a phase came to, by their ids.
func (w *Work) fanIn(name string) map[string]fannedIn {
	all := map[string]fannedIn{}
	for p, step := range w.frozen.Pipeline.Definition.AllSteps() {
		if p.Name != name {
			continue
		}
		r := w.resultOf(step.ID)
		got := fannedIn{Output: r.Output, Success: r.Success, Artifacts: r.Artifacts}
		whole, isText := r.Output.(string)
		if said, ok := r.Output.(map[string]any); ok && len(said) == 1 {
			whole, isText = said[summaryKey].(string)
		}
		if !isText {
			whole = string(w.done[step.ID].Output)
		}
		if utf8.RuneCountInString(whole) > maxFannedIn {
			got.Output, got.Truncated = keepRunes(whole, maxFannedIn), true
		}
		all[step.AgentID] = got
	}
	return all
}

// keepRunes is the beginning of a text, of so many characters.
func keepRunes(s string, n int) string {
	for at := range s {
		if n == 0 {
			return s[:at]
		}
		n--
	}
	return s
}
