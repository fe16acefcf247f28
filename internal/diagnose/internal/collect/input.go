package collect

import (
	"context"
	"time"

	"nightcrier.dev/nightcrier"
)

// Reader reads the cluster; kube.Client is one. Bodies are what the Kubernetes
// API answers, as JSON.
type Reader interface {
	Get(ctx context.Context, res nightcrier.Resource) ([]byte, error)
	List(ctx context.Context, kind, ns, labelSel, fieldSel string, limit int) ([]byte, error)
	Logs(ctx context.Context, ns, pod, container string, previous bool, tail, maxBytes int64) ([]byte, error)
	Permissions(ctx context.Context, ns string) (map[string]any, error)
}

// Recorder keeps what was read and returns its evidence id; evidence.Recorder
// is one.
type Recorder interface {
	Record(kind, source string, body []byte) (id string, err error)
}

// Input is what a diagnosis starts from.
type Input struct {
	Incident *nightcrier.Incident
	// Event is the one that opened the incident.
	Event nightcrier.Event
	// Reader is nil where no credential is configured: the event is then all
	// that is known, and the report says so.
	Reader Reader
	// Sources are asked for metrics and logs; nil where there are none.
	Sources  *Sources
	Evidence Recorder
	// Mask hides secrets; nil hides nothing.
	Mask func(string) string
	// Now is the clock, time.Now when nil.
	Now func() time.Time
}

// WithDefaults is the input with what its fields mean when they are not set.
func (in Input) WithDefaults() Input {
	if in.Mask == nil {
		in.Mask = func(s string) string { return s }
	}
	if in.Now == nil {
		in.Now = time.Now
	}
	if in.Incident == nil {
		in.Incident = &nightcrier.Incident{
			Cluster: in.Event.Cluster, Resource: in.Event.Resource, Owner: in.Event.Owner, Severity: in.Event.Severity,
		}
	}
	return in
}

// Sources are where a cluster's metrics and logs are asked for, beside the cluster
// itself. What they tell is added to what the rules found in the cluster; where they
// are silent, nothing is concluded from that.
type Sources struct {
	// Metrics answers a query over a time as Prometheus' API does, nil where it cannot
	// be asked.
	Metrics func(ctx context.Context, query string, from, to time.Time, step time.Duration) ([]byte, error)
	// Lines answers a query as Loki's API does, the newest lines up to limit.
	Lines func(ctx context.Context, query string, from, to time.Time, limit int) ([]byte, error)
	// MetricsLabel and LinesLabel are the labels that hold a namespace.
	MetricsLabel, LinesLabel string
}
