package mcpserver

import (
	"encoding/json"
	"time"

	corev1 "k8s.io/api/core/v1"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/ingest/detect"
)

// The subscription modes. Resource faults are the flat faults of older servers:
// without an id, without the end of a fault.
const (
	modeEvents         = "events"
	modeFaults         = "faults"
	modeResourceFaults = "resource-faults"
)

// The loggers that notifications come from.
const (
	loggerPrefix = "kubernetes/"
	loggerError  = loggerPrefix + "subscription_error"
)

// The levels of notifications: below a client's own they are not sent.
const (
	levelEvents = "info"
	levelFaults = "warning"
)

// resourceFault is a fault as older servers send it.
type resourceFault struct {
	SubscriptionID string              `json:"subscriptionId"`
	Cluster        string              `json:"cluster"`
	FaultType      string              `json:"faultType"`
	Severity       nightcrier.Severity `json:"severity"`
	Resource       nightcrier.Resource `json:"resource"`
	Context        string              `json:"context"`
	Timestamp      time.Time           `json:"timestamp"`
}

func faultData(f detect.Fault, mode, cluster, subscription string) (json.RawMessage, error) {
	if mode == modeFaults {
		return f.Payload(cluster, subscription), nil
	}
	return json.Marshal(resourceFault{
		SubscriptionID: subscription, Cluster: cluster, FaultType: f.Type, Severity: f.Severity,
		Resource: f.Resource, Context: f.Context, Timestamp: f.OccurredAt.UTC(),
	})
}

// eventNote is a Kubernetes event as servers pass it on.
type eventNote struct {
	SubscriptionID string    `json:"subscriptionId"`
	Cluster        string    `json:"cluster"`
	Event          eventBody `json:"event"`
}

type eventBody struct {
	Namespace      string              `json:"namespace"`
	Timestamp      string              `json:"timestamp"`
	Type           string              `json:"type"`
	Reason         string              `json:"reason"`
	Message        string              `json:"message"`
	InvolvedObject nightcrier.Resource `json:"involvedObject"`
	Count          int32               `json:"count,omitempty"`
	FirstTimestamp string              `json:"firstTimestamp,omitempty"`
	LastTimestamp  string              `json:"lastTimestamp,omitempty"`
}

func eventData(e *corev1.Event, cluster, subscription string) (json.RawMessage, error) {
	return json.Marshal(eventNote{subscription, cluster, eventBody{
		Namespace: e.Namespace, Timestamp: formatTime(lastSeen(e)), Type: e.Type, Reason: e.Reason, Message: e.Message,
		InvolvedObject: involvedResource(e), Count: e.Count,
		FirstTimestamp: formatTime(e.FirstTimestamp.Time), LastTimestamp: formatTime(e.LastTimestamp.Time),
	}})
}

func involvedResource(e *corev1.Event) nightcrier.Resource {
	o := e.InvolvedObject
	return nightcrier.Resource{APIVersion: o.APIVersion, Kind: o.Kind, Namespace: o.Namespace, Name: o.Name, UID: string(o.UID)}
}

// lastSeen is when an event happened last.
func lastSeen(e *corev1.Event) time.Time {
	for _, t := range []time.Time{e.LastTimestamp.Time, e.EventTime.Time, e.FirstTimestamp.Time, e.CreationTimestamp.Time} {
		if !t.IsZero() {
			return t
		}
	}
	return time.Time{}
}

func formatTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// errorNote says that a subscription is broken.
type errorNote struct {
	SubscriptionID string `json:"subscriptionId"`
	Cluster        string `json:"cluster"`
	Error          string `json:"error"`
	Degraded       bool   `json:"degraded"`
}
