// Package agentruntime runs one investigation at a time from any Go program: it
// gives an agent a workspace with all that is known of an incident, runs it in a
// sandbox that can change nothing, and says how it ended and what it left.
//
// It is the engine of nightcrier without a server: no sources, no listeners. A
// Runtime keeps its record below one directory, survives a crash of the program
// (the next Runtime on the directory goes on with what was interrupted), and
// owns the directory while it is open.
//
// An agent is started by a worker, a process of its own. By default that is the
// importing program itself, so its main function must begin with [Main].
package agentruntime

import (
	"context"
	"encoding/json"
	"time"
)

// AgentRuntime runs agents; [*Runtime] does.
type AgentRuntime interface {
	// RunAgent investigates an incident and returns when the agent is gone.
	RunAgent(ctx context.Context, incident *Incident) (*AgentResult, error)
	// GetStatus tells where the agent of an incident stands.
	GetStatus(incidentID string) (*AgentStatus, error)
	// Cancel asks the agent of an incident to end. RunAgent returns once it has.
	Cancel(incidentID string) error
}

// Incident is what is to be investigated.
type Incident struct {
	// ID is a UUID in lower case; it names the workspace.
	ID        string
	Cluster   string
	Namespace string
	// Severity is info, warning, error or critical, or a word that sources use
	// for one of them. Empty means what EventData says, else warning.
	Severity string
	// Timestamp is when the fault happened; zero when that is not known.
	Timestamp time.Time
	// EventData is the event as kubernetes-mcp-server sent it, in any of its
	// shapes. It may be empty where Resources names an object.
	EventData json.RawMessage
	// Logs are lines that the agent shall see beside those of the event.
	Logs []string
	// Resources are the objects involved, the failing one first.
	Resources []Resource
}

// Resource names a Kubernetes object.
type Resource struct {
	APIVersion string
	Kind       string
	Namespace  string
	Name       string
	UID        string
}

// AgentResult is how an investigation ended.
type AgentResult struct {
	IncidentID   string
	Status       AgentStatus
	WorkspaceDir string
	StartTime    time.Time
	EndTime      time.Time
	// ExitCode is 128+n for signal n, and -1 when the agent had none.
	ExitCode int
	// OutputLog is the path of the agent's log.
	OutputLog string
	// Artifacts are the paths of the report and of what the agent left with it.
	Artifacts []string
	// Error says why there is no valid report of the agent; nil when there is.
	// A report of the facts alone may be there all the same.
	Error error
}

// AgentStatus is where an agent stands.
type AgentStatus string

// The statuses, in the order in which they can follow each other.
const (
	StatusCreated   AgentStatus = "created"
	StatusStarting  AgentStatus = "starting"
	StatusRunning   AgentStatus = "running"
	StatusSuccess   AgentStatus = "success"
	StatusFailed    AgentStatus = "failed"
	StatusTimeout   AgentStatus = "timeout"
	StatusCancelled AgentStatus = "cancelled"
)

// Progress is more on where an agent stands.
type Progress struct {
	Status AgentStatus
	// StartTime is zero while the investigation waits for its turn.
	StartTime time.Time
	// Duration is how long it has taken so far, or took.
	Duration     time.Duration
	WorkspaceDir string
}
