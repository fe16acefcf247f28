package nightcrier

import (
	"slices"
	"time"
)

// RunStatus is where a run stands in admission.
type RunStatus string

const (
	// Queued: waits for admission.
	Queued RunStatus = "queued"
	// Admitted: holds a lease; its agent may run, or may still be dying.
	Admitted RunStatus = "admitted"
	// Finished: ended, holds no lease.
	Finished RunStatus = "finished"
	// Dropped: ended without ever being admitted; its Reason says why.
	Dropped RunStatus = "dropped"
)

// Run is one investigation of an incident: one execution of a pipeline.
type Run struct {
	ID         string `json:"runId"`
	IncidentID string `json:"incidentId"`
	Pipeline   string `json:"pipeline"`
	// Key is what may not run twice at once: the cluster's name.
	Key      string    `json:"key"`
	Executor string    `json:"executor"`
	Severity Severity  `json:"severity"`
	Status   RunStatus `json:"status"`
	Reason   Reason    `json:"reason,omitempty"`
	QueuedAt time.Time `json:"queuedAt"`
	// AdmittedAt and EndedAt are zero until then.
	AdmittedAt time.Time `json:"admittedAt,omitzero"`
	EndedAt    time.Time `json:"endedAt,omitzero"`
	// CancelRequested asks the run to stop; Cause says who asked.
	CancelRequested bool   `json:"cancelRequested,omitempty"`
	Cause           string `json:"cause,omitempty"`
}

// State is where one agent step stands (the seeds' AgentStatus).
type State string

// The states of an agent step.
const (
	StateCreated   State = "created"
	StateStarting  State = "starting"
	StateRunning   State = "running"
	StateSuccess   State = "success"
	StateFailed    State = "failed"
	StateTimeout   State = "timeout"
	StateCancelled State = "cancelled"
)

var stateMoves = map[State][]State{
	StateCreated:  {StateStarting, StateFailed, StateCancelled},
	StateStarting: {StateRunning, StateSuccess, StateFailed, StateTimeout, StateCancelled},
	StateRunning:  {StateSuccess, StateFailed, StateTimeout, StateCancelled},
}

// Terminal reports whether the step has ended.
func (s State) Terminal() bool {
	return s == StateSuccess || s == StateFailed || s == StateTimeout || s == StateCancelled
}

// CanBecome reports whether the transition is legal.
func (s State) CanBecome(next State) bool {
	return slices.Contains(stateMoves[s], next)
}

// FailureClass says what kind of failure ended a step, so that retries and
// people can act on it.
type FailureClass string

// The failure classes.
const (
	FailAgent         FailureClass = "agent_error"
	FailAuth          FailureClass = "auth"
	FailQuota         FailureClass = "quota"
	FailBudget        FailureClass = "budget"
	FailStart         FailureClass = "start_error"
	FailCrash         FailureClass = "crash"
	FailLost          FailureClass = "lost"
	FailInvalidOutput FailureClass = "invalid_output"
	FailDisk          FailureClass = "disk"
	FailTimeout       FailureClass = "timeout"
	FailCancelled     FailureClass = "cancelled"
	// FailInternal is a step of ours that failed, for any reason but the disk.
	FailInternal FailureClass = "internal"
)

// Retryable reports whether trying again by itself can help.
func (c FailureClass) Retryable() bool {
	return c == FailCrash || c == FailLost || c == FailStart
}

// TripsBreaker reports whether it says that the executor itself is unusable.
func (c FailureClass) TripsBreaker() bool {
	return c == FailAuth || c == FailQuota || c == FailStart
}

// AgentResult is how one attempt of an agent step ended.
type AgentResult struct {
	State         State        `json:"state"`
	FailureClass  FailureClass `json:"failureClass,omitempty"`
	FailureReason string       `json:"failureReason,omitempty"`
	// TerminalEvent is the agent's own last word ("success",
	// "error_max_turns", …), "missing" when it has none.
	TerminalEvent string `json:"terminalEvent,omitempty"`
	// ExitCode is 128+n for signal n.
	ExitCode  *int      `json:"exitCode,omitempty"`
	Signal    string    `json:"signal,omitempty"`
	StartedAt time.Time `json:"startedAt,omitzero"`
	EndedAt   time.Time `json:"endedAt,omitzero"`
	// FinalMessage is the agent's last text, at most 256 KiB.
	FinalMessage string `json:"finalMessage,omitempty"`
	SessionID    string `json:"sessionId,omitempty"`
	Usage        Usage  `json:"usage,omitzero"`
	// Layers are the sandbox layers that held.
	Layers []string `json:"sandboxLayers,omitempty"`
	// Missing are those that did not, of what a strict sandbox has.
	Missing []string `json:"sandboxMissing,omitempty"`
	// Blocked counts what the agent tried to reach beside its model, its cluster and
	// its tools. None of it left this machine.
	Blocked int `json:"blocked,omitempty"`
	// Truncated is set when output went over its limit and was cut.
	Truncated bool `json:"truncated,omitempty"`
	// NotChecked is what the agent was to look with and could not.
	NotChecked []NotChecked `json:"notChecked,omitempty"`
}

// Usage is what a step cost.
type Usage struct {
	APIRequests  int     `json:"apiRequests"`
	DurationMS   int64   `json:"durationMs"`
	InputTokens  int64   `json:"inputTokens"`
	OutputTokens int64   `json:"outputTokens"`
	CostUSD      float64 `json:"costUSD"`
}

// Plus is what both cost together.
func (u Usage) Plus(v Usage) Usage {
	return Usage{
		APIRequests: u.APIRequests + v.APIRequests, DurationMS: u.DurationMS + v.DurationMS,
		InputTokens: u.InputTokens + v.InputTokens, OutputTokens: u.OutputTokens + v.OutputTokens, CostUSD: u.CostUSD + v.CostUSD,
	}
}
