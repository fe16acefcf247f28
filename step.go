package nightcrier

import (
	"encoding/json"
	"time"
)

// Step is one attempt of one step of a run.
type Step struct {
	RunID string `json:"runId"`
	// ID is the step's name in its pipeline; attempts count from 1.
	ID      string `json:"stepId"`
	Attempt int    `json:"attempt"`
	Phase   string `json:"phase,omitempty"`
	// Beside are the steps of its phase where those are done side by side, with itself.
	Beside []string `json:"beside,omitempty"`
	// AfterEnd says that it is done when the run has ended, as what tells of it.
	AfterEnd bool `json:"afterEnd,omitempty"`
	// Uses is the skill, or "action:" and the action.
	Uses string `json:"uses,omitempty"`
	// Executor and Model are who does it, and what that asks; of an action neither, and no Model where
	// the executor chooses.
	Executor string `json:"executor,omitempty"`
	Model    string `json:"model,omitempty"`
	State    State  `json:"state"`
	// Skipped says why it was not to be done; its state stays created then.
	Skipped       string       `json:"skipped,omitempty"`
	FailureClass  FailureClass `json:"failureClass,omitempty"`
	FailureReason string       `json:"failureReason,omitempty"`
	StartedAt     time.Time    `json:"startedAt,omitzero"`
	EndedAt       time.Time    `json:"endedAt,omitzero"`
	Usage         Usage        `json:"usage,omitzero"`
	// Output is what it delivered, as JSON (kept as encoding/json writes it); Artifacts are files that it left beside.
	Output    json.RawMessage `json:"output,omitempty"`
	Artifacts []Artifact      `json:"artifacts,omitempty"`
	// FromRun is the run that did it, where this one begins behind it: a retry. What it
	// used is counted there.
	FromRun string `json:"fromRun,omitempty"`
}

// Ended reports whether nothing more will become of the attempt.
func (s *Step) Ended() bool { return s.State.Terminal() || s.Skipped != "" }

// Delivered reports whether the run could go on as if nothing had happened.
func (s *Step) Delivered() bool { return s.State == StateSuccess || s.Skipped != "" }

// LastAttempts leaves the last attempt of each step. The attempts of one stand together, in their
// order.
func LastAttempts(all []Step) (last []Step) {
	for _, s := range all {
		if n := len(last); n > 0 && last[n-1].ID == s.ID {
			last[n-1] = s
		} else {
			last = append(last, s)
		}
	}
	return last
}
