package nightcrier

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// IncidentStatus answers one question: is there a valid report?
type IncidentStatus string

// The statuses of an incident.
const (
	Pending       IncidentStatus = "pending"
	Investigating IncidentStatus = "investigating"
	Resolved      IncidentStatus = "resolved"
	Failed        IncidentStatus = "failed"
	AgentFailed   IncidentStatus = "agent_failed"
	// Listed: nobody looks at it, because it came in a storm; the storm's message lists it.
	Listed IncidentStatus = "listed"
)

// IncidentStatuses are all of them, in the order of an incident's life.
func IncidentStatuses() []IncidentStatus {
	return []IncidentStatus{Pending, Investigating, Resolved, Failed, AgentFailed, Listed}
}

// Words are what people read of a status: a report is there, which is not to say that
// the fault is over. JSON keeps the statuses as they are.
func (s IncidentStatus) Words() string {
	switch s {
	case Pending:
		return "waiting"
	case Resolved:
		return "report ready"
	case AgentFailed:
		return "agent failed"
	case Listed:
		return "listed in a storm"
	}
	return string(s)
}

// ParseIncidentStatus reads a status as JSON has it or as people read it.
func ParseIncidentStatus(s string) (IncidentStatus, error) {
	plain := func(s string) string {
		return strings.Join(strings.FieldsFunc(strings.ToLower(s), func(r rune) bool { return r == ' ' || r == '_' || r == '-' }), " ")
	}
	var known []string
	for _, st := range IncidentStatuses() {
		if plain(s) == plain(string(st)) || plain(s) == st.Words() {
			return st, nil
		}
		name := string(st)
		if w := st.Words(); w != plain(name) {
			name += fmt.Sprintf(" (%s)", w)
		}
		known = append(known, name)
	}
	return "", Errorf(Invalid, "%q is no status of an incident; there are %s", s, strings.Join(known, ", "))
}

// Open reports whether an investigation is still to come or under way.
func (s IncidentStatus) Open() bool { return s == Pending || s == Investigating }

// incidentMoves lists the legal transitions. A finished incident becomes
// pending again only by a retry.
var incidentMoves = map[IncidentStatus][]IncidentStatus{
	Pending:       {Investigating, Failed, Listed},
	Investigating: {Resolved, Failed, AgentFailed},
	Resolved:      {Pending},
	Failed:        {Pending},
	AgentFailed:   {Pending},
	Listed:        {Pending},
}

// CanBecome reports whether the transition is legal.
func (s IncidentStatus) CanBecome(next IncidentStatus) bool {
	return slices.Contains(incidentMoves[s], next)
}

// Condition answers the other question: is the fault still there?
type Condition string

// The conditions of an incident.
const (
	ConditionActive  Condition = "active"
	ConditionCleared Condition = "cleared"
	ConditionUnknown Condition = "unknown"
)

// Asked is the fault type of an incident that a person asked for: nobody said that
// something is wrong, nor since when.
const Asked = "Asked"

// Incident is one fault, however often it is reported. Its JSON is incident.json:
// unknown values are absent, never empty strings.
type Incident struct {
	ID string `json:"incidentId"`
	// EventID is the event that opened it.
	EventID string `json:"eventId,omitempty"`
	// EventIDs are its events, oldest first; the store bounds them to the first
	// and the newest hundred. EventCount counts all, and those delivered again.
	EventIDs    []string       `json:"eventIds,omitempty"`
	EventCount  int            `json:"eventCount,omitempty"`
	LastEventAt time.Time      `json:"lastEventAt,omitzero"`
	FaultID     string         `json:"faultId,omitempty"`
	Fingerprint string         `json:"fingerprint,omitempty"`
	Status      IncidentStatus `json:"status"`
	Condition   Condition      `json:"condition,omitempty"`
	// SeenBy are the sources that say the fault is there; ClearedAt is when it was
	// said to be over.
	SeenBy    []string  `json:"seenBy,omitempty"`
	ClearedAt time.Time `json:"clearedAt,omitzero"`
	Cluster   string    `json:"cluster"`
	Resource  Resource  `json:"resource,omitzero"`
	Owner     Resource  `json:"owner,omitzero"`
	Class     Class     `json:"class,omitempty"`
	FaultType string    `json:"faultType,omitempty"`
	// Severity is the highest that any of its events had.
	Severity Severity `json:"severity"`
	Context  string   `json:"context,omitempty"`
	// Timestamp is when the first event says the fault happened.
	Timestamp   time.Time `json:"timestamp,omitzero"`
	CreatedAt   time.Time `json:"createdAt"`
	StartedAt   time.Time `json:"startedAt,omitzero"`
	CompletedAt time.Time `json:"completedAt,omitzero"`
	// PreviousID names the earlier incident of the same fingerprint.
	PreviousID string `json:"previousIncidentId,omitempty"`
	// CausedBy names the incident whose diagnosis came to the same cause of the same
	// object: that one is the root, or was there first.
	CausedBy string `json:"causedBy,omitempty"`
	// Storm is set when it was opened in a storm.
	Storm             bool         `json:"storm,omitempty"`
	ExitCode          *int         `json:"exitCode,omitempty"`
	Signal            string       `json:"signal,omitempty"`
	FailureReason     string       `json:"failureReason,omitempty"`
	FailureClass      FailureClass `json:"failureClass,omitempty"`
	ContextIncomplete string       `json:"contextIncomplete,omitempty"`
	Executor          string       `json:"executor,omitempty"`
	Attempts          int          `json:"attempts,omitempty"`
	// RunID is its newest run.
	RunID     string     `json:"runId,omitempty"`
	State     State      `json:"state,omitempty"`
	Skills    []SkillRef `json:"skills,omitempty"`
	Artifacts []Artifact `json:"artifacts,omitempty"`
	RootCause string     `json:"rootCause,omitempty"`
	Workspace string     `json:"workspace,omitempty"`
}

// Namespace returns the namespace of the fault, "" for a cluster-wide one.
func (i *Incident) Namespace() string {
	if i.Resource.Kind == "Namespace" {
		return i.Resource.Name
	}
	return i.Resource.Namespace
}

// SkillRef says which skill an agent was given, exactly.
type SkillRef struct {
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
	Digest  string `json:"digest"`
}

// Artifact is a file that an agent left in output/artifacts.
type Artifact struct {
	Path   string `json:"path"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// MarshalJSON adds the spellings that users of the earlier layouts rely on: id,
// triggeringEventId and namespace.
func (i Incident) MarshalJSON() ([]byte, error) {
	type plain Incident
	return json.Marshal(struct {
		plain
		AliasID    string `json:"id"`
		Triggering string `json:"triggeringEventId,omitempty"`
		NS         string `json:"namespace,omitempty"`
	}{plain(i), i.ID, i.EventID, i.Resource.Namespace})
}
