package nightcrier

import "time"

// SourceState is where a cluster's fault source stands.
type SourceState string

// The states of a source.
const (
	SourceConnecting SourceState = "connecting"
	SourceSubscribed SourceState = "subscribed"
	// SourceStale: the session stands, yet nothing proves that faults would arrive.
	SourceStale SourceState = "stale"
	// SourceDown: the last attempt failed; the next one is under a timer.
	SourceDown    SourceState = "down"
	SourceStopped SourceState = "stopped"
)

// SourceStatus is what is known about one cluster's source.
type SourceStatus struct {
	Cluster string `json:"cluster"`
	// Labels are those of the configuration.
	Labels   map[string]string `json:"labels,omitempty"`
	Source   string            `json:"source"`
	Endpoint string            `json:"endpoint,omitempty"`
	State    SourceState       `json:"state"`
	// Since is when it entered the state.
	Since time.Time `json:"since"`
	// Mode is the subscription mode agreed with the server.
	Mode        string    `json:"mode,omitempty"`
	LastEventAt time.Time `json:"lastEventAt,omitzero"`
	Events      int64     `json:"events"`
	// Reconnects counts fresh sessions after the first; of a watch, the snapshots
	// that had to be taken again.
	Reconnects int64 `json:"reconnects"`
	// Problems are parts of a cluster that a source cannot see, with the reason.
	Problems []string `json:"problems,omitempty"`
	// Objects are those that a watch follows, ActiveFaults those of its faults that
	// are not over.
	Objects      int `json:"objects,omitempty"`
	ActiveFaults int `json:"activeFaults,omitempty"`
	// LastError is the newest failure, with credentials removed; it stays after
	// a recovery together with LastErrorAt.
	LastError   string    `json:"lastError,omitempty"`
	LastErrorAt time.Time `json:"lastErrorAt,omitzero"`
	// RetryAt is when the next attempt is due, while down.
	RetryAt time.Time `json:"retryAt,omitzero"`
	// Access is what the cluster's credential may do; nil when nobody asks.
	Access *Access `json:"access,omitempty"`
}

// Access is what is known of the credential that a cluster is read with.
type Access struct {
	// ReadOnly is yes, no, unknown, or none without a credential.
	ReadOnly string `json:"readOnly"`
	// Agents tells whether agents look into the cluster with it.
	Agents bool `json:"agents"`
	// Detail says why not and what to do, or what it could do at worst.
	Detail    string    `json:"detail,omitempty"`
	CheckedAt time.Time `json:"checkedAt,omitzero"`
}

// Delivery is one payload as a source received it, before anything read it.
type Delivery struct {
	Source     string
	Cluster    string
	ReceivedAt time.Time
	// EventID is the event's id where the sender says which payloads are one event:
	// delivered again, it is counted and changes nothing else. "" makes one.
	EventID string
	// IncidentID is the id that an incident opened by it gets; "" makes one. Only
	// our own callers set it.
	IncidentID string
	// Raw is the payload as received: a notification's params {"data":…,"level":…,
	// "logger":…}, the bare data object, or one alert.
	Raw []byte
	// Reading is what a source with a mapping of its own makes of Raw: a flat data
	// object. Empty means that Raw says it by itself.
	Reading []byte
	// Dialect names the shape of Raw where the source reads it by itself.
	Dialect string
	// Reason is set where the source itself finds that Raw starts nothing: it cannot
	// be read, or is no fault. Detail says more. The event is kept.
	Reason Reason
	Detail string
}
