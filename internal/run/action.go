package run

import (
	"context"
	"encoding/json"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/run/pipeline"
)

// Action is a step that is done by this program itself. A run knows none of them: whoever makes
// a Runner hands them over by their names.
type Action interface {
	// Do does the step. All that it reads and changes is in checkpoints of w; between them it
	// decides by what they returned alone, as it is done again after a crash.
	Do(w *Work) (Done, error)
	// Due says whether it is done where a step before it stopped the run.
	Due() Due
}

// Due says when an action is done.
type Due int

// An action is done in its turn, unless the run was stopped before; in its turn in any case; or
// when the run has ended, as what tells how it did is.
const (
	UnlessStopped Due = iota
	Always
	AfterEnd
)

// Done is what an action came to.
type Done struct {
	// Result is how the run stands behind the step.
	Result nightcrier.AgentResult
	// Class and Reason say why the step failed, "" when it has not.
	Class  nightcrier.FailureClass
	Reason string
	// Output is what it hands on, as JSON; nil for nothing. Artifacts are files below output/ of the run's
	// workspace that the agents of later steps are given.
	Output    json.RawMessage
	Artifacts []nightcrier.Artifact
	// Outcome is what the run comes to, nil of a step that does not decide that.
	Outcome *Outcome
}

// Skills makes agents ready for what their steps use.
type Skills interface {
	// PrepareSkill fills the workspace of an agent before its first attempt: what it is told,
	// and what it works by. It may be asked again. Its error says in a line what is missing.
	PrepareSkill(ctx context.Context, s *Session, t Task) error
}

// Task is what an agent is to do.
type Task struct {
	Step pipeline.Step
	// Skill is the one that was there when the run was admitted.
	Skill pipeline.SkillPin
	// Input is what it is given; the workspace has it as InputFile.
	Input map[string]any
	// Before are the steps that left files.
	Before []nightcrier.Step
}
