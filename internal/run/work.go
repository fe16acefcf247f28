package run

import (
	"context"
	"fmt"
	"maps"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/record/workspace"
	"nightcrier.dev/nightcrier/internal/run/engine"
	"nightcrier.dev/nightcrier/internal/run/pipeline"
)

// Work is a run that is under way, in one of its steps. All in it follows from the order and
// from what checkpoints returned.
type Work struct {
	// Order is the run's, with the bounds of the step.
	Order Order
	// Result is how the run stands, and Review what became of what its agent was to deliver.
	Result nightcrier.AgentResult
	Review Review

	runner *Runner
	ctx    engine.Context
	frozen Order // as it was handed over
	input  map[string]any
	done   map[string]nightcrier.Step // by id
	// earlier is what rounds used after which a step was done again.
	earlier nightcrier.Usage
	given   map[string]any // what the action that is under way is given
	// previous is the step before, for what it hands on.
	previous *pipeline.Step
	// stopped is why no more is done, "" while the run goes on, and stoppedFor what was wrong then.
	stopped, stoppedFor string
	outcome             *Outcome

	step  *pipeline.Step
	place place
	row   nightcrier.Step   // of the attempt that is under way
	rows  []nightcrier.Step // that are not shown yet
	parts int               // how many checkpoints it has made
	// questions is how often the attempt has asked people.
	questions int

	// begun says that a step before has begun the run, and ended that the run has ended.
	begun, ended bool
	// resumed says that all checkpoints until now were made by an earlier process, and passed
	// that there were some.
	resumed, passed bool
	// seated says that its agent is counted among those that work.
	seated bool
	// beside says that it is a step beside others, and waited how long it has waited for people.
	beside bool
	waited time.Duration
	// unrecorded says that no checkpoint can be written any more.
	unrecorded bool
}

// Given is what the action that is under way is given: the input of the run, and what the step names for itself.
func (w *Work) Given() map[string]any { return maps.Clone(w.given) }

// Earlier are the steps that are done, in the order in which they are written.
func (w *Work) Earlier() (all []nightcrier.Step) {
	for _, s := range w.frozen.Pipeline.Definition.AllSteps() {
		if row, done := w.done[s.ID]; done {
			all = append(all, row)
		}
	}
	return all
}

// recallOnce has this process learn, before it does anything in a run that an earlier one began,
// what the workers of it learned of secrets.
func (w *Work) recallOnce() {
	if w.resumed && w.passed {
		w.runner.recallLearned(w.ctx, w.Order.RunID)
	}
	w.resumed = false
}

// place is where a step stands in its run: what keeps it apart from the others.
type place struct {
	// step is the name of its branch of the journal, and keys begins the keys of its entries.
	step, keys string
	// id is the step's in its pipeline, "" for what is of no step.
	id string
	// seat is the number before those of its workers; 0 has the first agent.
	seat int
	// own says that its agent has a workspace of its own.
	own bool
	// cluster is the one that its input names for it to look into, "" for none, and namespace
	// where in it.
	cluster, namespace string
}

// deliverable is what the agent of a step is to leave, in a word.
func (p place) deliverable() string {
	if p.own {
		return "result"
	}
	return "report"
}

// recorded is what a checkpoint holds: when it was made, and what it returned.
type recorded[T any] struct {
	Value T         `json:"value"`
	From  time.Time `json:"from"`
	To    time.Time `json:"to"`
	// Interrupted is why it came to nothing, nil where it did not.
	Interrupted *interrupted `json:"interrupted,omitempty"`
}

// Checkpoint does a part of a step and remembers what it returned, as engine.Step does. The part
// has a session of its own.
func Checkpoint[T any](w *Work, name string, do func(context.Context, *Session) (T, error)) (T, error) {
	open, first := w.runner.openPlace, w.parts == 0
	if !w.begun {
		open, w.begun = w.runner.beginSession, true
	}
	w.parts++
	defer func() { w.passed = true }()
	name = fmt.Sprintf("%s/%s", w.place.step, name)
	part := func(c context.Context) (got recorded[T], err error) {
		w.recallOnce()
		got.From = w.runner.cfg.Now()
		s, err := open(c, w.Order, w.place)
		if err != nil {
			return got, err
		}
		defer s.Close()
		if first && w.row.ID != "" {
			row := w.row
			row.State, row.StartedAt = nightcrier.StateRunning, got.From
			w.rows = append(w.rows, row)
		}
		if err := w.showRows(c); err != nil && !workspace.DiskFault(err) { // there may be room for them later
			return got, err
		}
		got.Interrupted, err = w.interruptible(c, func(c context.Context) (err error) { got.Value, err = do(c, s); return err })
		got.To = w.runner.cfg.Now()
		return got, err
	}
	var got recorded[T]
	var err error
	if w.unrecorded {
		err = engine.Insist(w.ctx, name, func(c context.Context) (err error) { got, err = part(c); return err })
	} else {
		got, err = engine.Step(w.ctx, name, part)
	}
	if first {
		w.row.StartedAt = got.From
	}
	w.row.EndedAt = got.To
	if err == nil && got.Interrupted != nil {
		err = got.Interrupted
	}
	return got.Value, err
}
