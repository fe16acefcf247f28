package nightcrier

import (
	"encoding/json"
	"time"
)

// Event is an immutable fact from outside, stored before it is acknowledged.
// What became of it (Outcome, Reason, IncidentID) is decided once, by intake.
type Event struct {
	ID         string    `json:"eventId"`
	ReceivedAt time.Time `json:"receivedAt"`
	// Source is where it came from: mcp, watch, webhook, cli, demo.
	Source  string `json:"source"`
	Cluster string `json:"cluster"`
	// Dialect is the payload's shape, e.g. "faults", "legacy-faults",
	// "resource-faults", "events".
	Dialect        string `json:"dialect,omitempty"`
	SubscriptionID string `json:"subscriptionId,omitempty"`
	// FaultID is the sender's id of the fault, or one computed the same way.
	FaultID   string   `json:"faultId,omitempty"`
	FaultType string   `json:"faultType"`
	Severity  Severity `json:"severity"`
	Resource  Resource `json:"resource"`
	// Owner is the workload (or node) that a person would mend. A source that sees
	// the cluster itself says it; otherwise intake resolves it.
	Owner     Resource `json:"owner,omitzero"`
	Container string   `json:"container,omitempty"`
	// Context is the sender's own words: hostile text, never put into a prompt
	// unfenced.
	Context string `json:"context,omitempty"`
	// Cleared: the event says that the fault is over. It opens nothing.
	Cleared bool `json:"cleared,omitempty"`
	// OccurredAt is when the sender says it happened; zero when it does not say.
	OccurredAt time.Time      `json:"timestamp,omitzero"`
	Logs       []ContainerLog `json:"logs,omitempty"`
	// Raw is the payload as received, with its secrets masked.
	Raw json.RawMessage `json:"raw,omitempty"`

	Class       Class   `json:"class,omitempty"`
	Fingerprint string  `json:"fingerprint,omitempty"`
	Outcome     Outcome `json:"outcome,omitempty"`
	Reason      Reason  `json:"reason,omitempty"`
	// Detail says more about the reason: the threshold, the parse error.
	Detail     string `json:"detail,omitempty"`
	IncidentID string `json:"incidentId,omitempty"`
	// Repeats is how often the very same event was delivered again, RepeatedAt when
	// it last was.
	Repeats    int       `json:"repeats,omitempty"`
	RepeatedAt time.Time `json:"repeatedAt,omitzero"`
}

// ContainerLog is an excerpt that came with an event.
type ContainerLog struct {
	Container string `json:"container"`
	Previous  bool   `json:"previous,omitempty"`
	Sample    string `json:"sample,omitempty"`
	Error     string `json:"error,omitempty"`
}

// Class groups fault types that are one fault seen from several sides.
type Class string

// The classes of faults.
const (
	ClassWorkload   Class = "workload"
	ClassScheduling Class = "scheduling"
	ClassStorage    Class = "storage"
	ClassJob        Class = "job"
	ClassNode       Class = "node"
	ClassService    Class = "service"
)

// Outcome says where an event went.
type Outcome string

const (
	// Opened: the event opened a new incident.
	Opened Outcome = "opened"
	// Joined: the event belongs to an incident that was open, or closed less
	// than the dedupe window ago.
	Joined Outcome = "joined"
	// Suppressed: the event started nothing; its Reason says why.
	Suppressed Outcome = "suppressed"
)

// Reason says why an event or a run was not (or no longer) worked on.
// Logs, metrics, API and tests all use these words.
type Reason string

// The reasons of suppressed events and of runs that never started.
const (
	BelowThreshold  Reason = "below_threshold"
	Malformed       Reason = "malformed"
	Oversized       Reason = "oversized"
	NotAFault       Reason = "not_a_fault"
	SubscriptionErr Reason = "subscription_error"
	Duplicate       Reason = "duplicate"
	DedupeWindow    Reason = "dedupe_window"
	StormListed     Reason = "storm"
	QueueFull       Reason = "queue_full"
	QueueExpired    Reason = "queue_expired"
	// DeadlinePassed: it still waited when it should have ended.
	DeadlinePassed Reason = "deadline"
	// Superseded: a newer run of the same pipeline and key took its place.
	Superseded Reason = "superseded"
	// NothingToClear: the end of a fault that no incident is known of.
	NothingToClear Reason = "nothing_to_clear"
	// OutsideNamespaces: a fault in a namespace that is not looked at.
	OutsideNamespaces Reason = "outside_namespaces"
	// StillActive: a fault that goes on after its incident was closed.
	StillActive Reason = "still_active"
	// Cancelled: a person or the server asked for it before it was admitted.
	Cancelled Reason = "cancelled"
)
