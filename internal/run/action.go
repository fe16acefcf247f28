package run

import (
	"context"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/run/engine"
)

// Action is a step that is done by this program itself. A run knows none of them: whoever makes
// a Runner hands them over by their names.
type Action interface {
	// Do does the step. All that it reads and changes is in checkpoints of w; between them it
	// decides by what they returned alone, as it is done again after a crash.
	Do(w *Work) (Done, error)
}

// Done is what a step came to.
type Done struct {
	// Result is how the run stands behind the step: when it is terminal no agent is asked.
	Result nightcrier.AgentResult
	// Outcome is what the run comes to, nil of a step that does not decide that.
	Outcome *Outcome
}

// Work is a step that is under way.
type Work struct {
	Order Order
	// Result is how the run stands, and Review what became of what its agent was to deliver.
	Result nightcrier.AgentResult
	Review Review

	runner *Runner
	ctx    engine.Context
	// begun says that a step before has begun the run.
	begun bool
	// resumed says that all checkpoints until now were made by an earlier process.
	resumed bool
	// unrecorded says that no checkpoint can be written any more.
	unrecorded bool
}

// Checkpoint does a part of a step and remembers what it returned, as engine.Step does. The part
// has a session of its own.
func Checkpoint[T any](w *Work, name string, do func(context.Context, *Session) (T, error)) (result T, err error) {
	open := w.runner.OpenSession
	if !w.begun {
		open, w.begun = w.runner.beginSession, true
	}
	part := func(c context.Context) (result T, err error) {
		w.resumed = false
		s, err := open(c, w.Order)
		if err != nil {
			return result, err
		}
		defer s.Close()
		return do(c, s)
	}
	if w.unrecorded {
		return result, engine.Insist(w.ctx, name, func(c context.Context) (err error) { result, err = part(c); return err })
	}
	return engine.Step(w.ctx, name, part)
}
