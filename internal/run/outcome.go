package run

import (
	"context"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/record/audit"
	"nightcrier.dev/nightcrier/internal/record/workspace"
)

// Outcome is what a run came to: the checkpoint between deciding and recording. What it delivers
// lies in the workspace.
type Outcome struct {
	Status nightcrier.IncidentStatus `json:"status"`
	// State is how the run itself ended, "" as its incident did.
	State     nightcrier.State        `json:"state,omitempty"`
	Result    nightcrier.AgentResult  `json:"result"`
	Reason    string                  `json:"reason,omitempty"`
	Class     nightcrier.FailureClass `json:"class,omitempty"`
	RootCause string                  `json:"rootCause,omitempty"`
	// Diagnosis is what the facts alone say.
	Diagnosis *nightcrier.RootCause `json:"diagnosis,omitempty"`
	// Conclusion is the cause that the delivered report names, if it names one.
	Conclusion *nightcrier.RootCause `json:"conclusion,omitempty"`
	// Verdict is that of the delivered report, "" without one.
	Verdict   nightcrier.Verdict    `json:"verdict,omitempty"`
	Artifacts []nightcrier.Artifact `json:"artifacts,omitempty"`
	// Report is the file of the workspace that the store keeps of it, "" for none.
	Report string        `json:"report,omitempty"`
	Audit  audit.Summary `json:"audit"`
}

// NewOutcome is what a run comes to that nothing good is said of. What it spent is what its
// account says, also for attempts that did not live to tell.
func (s *Session) NewOutcome(res nightcrier.AgentResult) Outcome {
	out := Outcome{Status: nightcrier.Failed, Result: res, Reason: res.FailureReason, Class: res.FailureClass}
	if usd, err := s.runner.cfg.Supervisor.Spent(s.Order); err != nil {
		s.Log.Warn("what the run spent is not known for certain", "event", "budget", "error", err)
	} else if usd > 0 {
		out.Result.Usage.CostUSD = usd
	}
	return out
}

// CanBeRepeated reports whether a part of a step that failed is to be tried again: the store is
// away, or the server stops. Anything else ends the run.
func CanBeRepeated(ctx context.Context, err error) bool {
	return ctx.Err() != nil || nightcrier.CodeOf(err) == nightcrier.Unreachable
}

// UnpreparedResult leaves to the engine what can be repeated; what cannot, such as a workspace
// that cannot be written, is how the agent ended before there was one.
func UnpreparedResult(ctx context.Context, err error) (nightcrier.AgentResult, error) {
	if CanBeRepeated(ctx, err) {
		return nightcrier.AgentResult{}, err
	}
	return FailedResult(ClassOf(err, nightcrier.FailStart), err), nil
}

// FailedResult is the result of an attempt that ended before there was an agent.
func FailedResult(class nightcrier.FailureClass, err error) nightcrier.AgentResult {
	return nightcrier.AgentResult{State: nightcrier.StateFailed, FailureClass: class, FailureReason: err.Error()}
}

// ClassOf is disk where the disk is at fault, and else what the caller says.
func ClassOf(err error, otherwise nightcrier.FailureClass) nightcrier.FailureClass {
	if workspace.DiskFault(err) {
		return nightcrier.FailDisk
	}
	return otherwise
}

// ReasonSuffix appends a reason to a sentence, where there is one.
func ReasonSuffix(reason string) string {
	if reason == "" {
		return ""
	}
	return ", " + reason
}
