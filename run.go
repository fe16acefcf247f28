package nightcrier

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// RunStatus is where a run stands in admission.
type RunStatus string

const (
	// Queued: waits for admission.
	Queued RunStatus = "queued"
	// Admitted: holds a lease, unless it is parked; its agent may run, or may still be dying.
	Admitted RunStatus = "admitted"
	// Finished: ended, holds no lease.
	Finished RunStatus = "finished"
	// Dropped: ended without ever being admitted; its Reason says why.
	Dropped RunStatus = "dropped"
)

// Open reports whether the run is still to come or under way.
func (s RunStatus) Open() bool { return s == Queued || s == Admitted }

// SubjectKind says what kind of thing a run is about.
type SubjectKind string

// The kinds of subjects.
const (
	SubjectIncident     SubjectKind = "incident"
	SubjectPullRequest  SubjectKind = "pull_request"
	SubjectConversation SubjectKind = "conversation"
	SubjectSchedule     SubjectKind = "schedule"
	SubjectCall         SubjectKind = "call"
)

// SubjectKinds are all of them.
func SubjectKinds() []SubjectKind {
	return []SubjectKind{SubjectIncident, SubjectPullRequest, SubjectConversation, SubjectSchedule, SubjectCall}
}

// Subject is what a run is about. An incident moves with its run; nothing else does.
type Subject struct {
	Kind SubjectKind `json:"kind"`
	ID   string      `json:"id"`
	// Title is what people read; it may come from outside.
	Title string `json:"title,omitempty"`
}

// Run is one execution of a pipeline.
type Run struct {
	ID       string  `json:"runId"`
	Subject  Subject `json:"subject"`
	Pipeline string  `json:"pipeline"`
	// Key is what may not run twice at once: the cluster, the repository, the
	// conversation, or what the pipeline says.
	Key      string `json:"key"`
	Executor string `json:"executor"`
	// Model is the one that its caller wants in the place of the skill's, "" for most.
	Model string `json:"model,omitempty"`
	// Severity is the priority in the queue.
	Severity Severity  `json:"severity"`
	Status   RunStatus `json:"status"`
	// Reason says why a run was dropped.
	Reason Reason `json:"reason,omitempty"`
	// Outcome is how a finished run ended: success, failed, timeout or cancelled.
	Outcome State `json:"outcome,omitempty"`
	// FailureClass and FailureReason say why a run ended without success; a dropped one
	// has a FailureReason too.
	FailureClass  FailureClass `json:"failureClass,omitempty"`
	FailureReason string       `json:"failureReason,omitempty"`
	CostUSD       float64      `json:"costUSD,omitempty"`
	QueuedAt      time.Time    `json:"queuedAt"`
	// AdmittedAt and EndedAt are zero until then.
	AdmittedAt time.Time `json:"admittedAt,omitzero"`
	EndedAt    time.Time `json:"endedAt,omitzero"`
	// Deadline is when it must have ended, zero for no such time. A run that still waits
	// then is dropped.
	Deadline time.Time `json:"deadline,omitzero"`
	// RetryOf is the run that this one does again, FromStep the step that it begins at;
	// empty for the first.
	RetryOf  string `json:"retryOf,omitempty"`
	FromStep string `json:"fromStep,omitempty"`
	// TriggeredBy says who or what asked for it.
	TriggeredBy string `json:"triggeredBy,omitempty"`
	// CancelRequested asks the run to stop; Cause says who asked.
	CancelRequested bool   `json:"cancelRequested,omitempty"`
	Cause           string `json:"cause,omitempty"`
	// Parked says that it waits for people and has given its lease back.
	Parked bool `json:"parked,omitempty"`
	// WaitsFor is what keeps an open run from going on, nil where nothing does.
	WaitsFor *Wait `json:"waitsFor,omitempty"`
	// Steps are there where one run is shown.
	Steps []Step `json:"steps,omitempty"`
}

// Wait is what a run waits for, and in words for people.
type Wait struct {
	For  WaitKind `json:"for"`
	Text string   `json:"text"`
}

// WaitKind is the kind of thing that a run waits for.
type WaitKind string

// What runs wait for. The first three keep a run in the queue, and are seen there; the limit, also
// that of agents, and the others a run says of itself while it holds its lease.
const (
	WaitKey      WaitKind = "key"     // another run has the key
	WaitLimit    WaitKind = "limit"   // as many runs as may be are under way
	WaitBreaker  WaitKind = "breaker" // its executor fails
	WaitBudget   WaitKind = "budget"
	WaitApproval WaitKind = "approval"
	WaitSchedule WaitKind = "schedule" // a time
)

// SkillPrefix begins the pipeline of a run that is one step, which executes the skill named behind it. No
// file of a pipeline can have such a name.
const SkillPrefix = "skill:"

// IncidentID is the incident that the run is about, "" where it is about anything else.
func (r Run) IncidentID() string {
	if r.Subject.Kind != SubjectIncident {
		return ""
	}
	return r.Subject.ID
}

// Cluster is the cluster of the incident that the run is about, "" where it is about anything
// else: then its key may come from outside, and be called like a cluster.
func (r Run) Cluster() string {
	if r.IncidentID() == "" {
		return ""
	}
	return r.Key
}

// DoneBy are the executors of its steps or, where it shows none that was done, who is to do it.
func (r Run) DoneBy() string {
	var all []string
	for _, s := range r.Steps {
		if s.Executor != "" && !slices.Contains(all, s.Executor) {
			all = append(all, s.Executor)
		}
	}
	return cmp.Or(strings.Join(all, ", "), r.Executor)
}

// WhyUnsuccessful says why a run that has ended did not succeed: who stopped it, where it was
// stopped.
func (r Run) WhyUnsuccessful() string {
	switch {
	case r.Outcome == StateSuccess:
		return ""
	case r.Outcome == StateCancelled && r.Cause != "":
		return r.Cause
	}
	return cmp.Or(r.FailureReason, r.Cause, string(r.Reason), string(r.Outcome))
}

// MarshalJSON adds incidentId, which users of runs about incidents rely on.
func (r Run) MarshalJSON() ([]byte, error) {
	type plain Run
	return json.Marshal(struct {
		plain
		IncidentID string `json:"incidentId,omitempty"`
	}{plain(r), r.IncidentID()})
}

// State is where one step stands; a finished run's outcome is one of the terminal ones.
type State string

// The states of a step.
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

// EarlierThan reports whether a step comes through s on its way to t, and never back.
func (s State) EarlierThan(t State) bool {
	order := []State{StateCreated, StateStarting, StateRunning}
	at, until := slices.Index(order, s), slices.Index(order, t)
	return at >= 0 && (at < until || t.Terminal())
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
	// FailInput is what the run was called with, such as a cluster that there is not.
	FailInput FailureClass = "invalid_input"
	// FailRefused is what a person had to agree to, and did not.
	FailRefused   FailureClass = "refused"
	FailDisk      FailureClass = "disk"
	FailTimeout   FailureClass = "timeout"
	FailCancelled FailureClass = "cancelled"
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
