package detect

import (
	"encoding/json"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/ingest/dialect"
)

// Fault is an edge: a fault has begun, has become more severe, or is over.
type Fault struct {
	// Type is a fault type of internal/ingest/dialect.
	Type     string
	Severity nightcrier.Severity
	// Resource is the object that shows the fault; Owner is the workload, node or
	// other object that a person would mend.
	Resource, Owner nightcrier.Resource
	Container       string
	// Context says in at most 512 bytes what is wrong. Parts of it come from the
	// cluster: it is hostile text on one line.
	Context string
	// OccurredAt is when it began, or ended, by the cluster's own word where it
	// has one.
	OccurredAt time.Time
	// Cleared: what had been reported for the owner and the class of this fault is
	// over. Type, Severity and Resource are those of its most severe report.
	Cleared bool
}

// ID names the fault as MCP servers do. The end of a fault has the id of its
// most severe report.
func (f Fault) ID(cluster string) string {
	return dialect.FaultID(cluster, f.Type, f.Resource, f.Container)
}

// payload is the flat shape of the MCP servers, and what we add to it.
type payload struct {
	SubscriptionID string               `json:"subscriptionId,omitempty"`
	Cluster        string               `json:"cluster,omitempty"`
	FaultID        string               `json:"faultId"`
	FaultType      string               `json:"faultType"`
	Severity       nightcrier.Severity  `json:"severity"`
	Resource       nightcrier.Resource  `json:"resource"`
	Owner          nightcrier.Resource  `json:"owner"`
	Container      string               `json:"container,omitempty"`
	Condition      nightcrier.Condition `json:"condition"`
	Context        string               `json:"context"`
	Timestamp      time.Time            `json:"timestamp,omitzero"`
}

// Payload is f as a notification's data object, which dialect.Parse reads back.
func (f Fault) Payload(cluster, subscriptionID string) json.RawMessage {
	condition := nightcrier.ConditionActive
	if f.Cleared {
		condition = nightcrier.ConditionCleared
	}
	raw, err := json.Marshal(payload{
		SubscriptionID: subscriptionID, Cluster: cluster, FaultID: f.ID(cluster),
		FaultType: f.Type, Severity: f.Severity, Resource: f.Resource, Owner: f.Owner, Container: f.Container,
		Condition: condition, Context: f.Context, Timestamp: f.OccurredAt,
	})
	if err != nil { // strings and a time within four-digit years always marshal
		return nil
	}
	return raw
}
