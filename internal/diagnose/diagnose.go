// Package diagnose finds out what the cluster itself says about a fault. It
// reads the incident's object and what belongs to it in a handful of recorded
// reads, applies named rules to what it read, and makes a report of the result.
//
// The report is preloaded for an agent, stands in when an agent fails, and is
// the whole report where no model is configured. Every fact in it cites the
// evidence that it was read from; a cause is named only where a rule's
// predicate held, otherwise the verdict is undetermined.
//
// All text that comes from the cluster or from an event is hostile: it is
// masked, stripped of control characters, bounded, and never becomes part of a
// command.
package diagnose

import (
	"context"
	"fmt"
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

// Diagnosis is what came of it.
type Diagnosis struct {
	Report nightcrier.Report
	// Logs are excerpts of the containers concerned, masked.
	Logs        []LogExcerpt
	ClusterInfo ClusterInfo
	// Permissions is what the credential may do in the incident's namespace,
	// nil when it is not known.
	Permissions map[string]any
	// Incomplete says why part of the context is missing, "" when nothing is.
	Incomplete string
}

// LogExcerpt is the end of one container's log.
type LogExcerpt struct {
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	Container string `json:"container"`
	Previous  bool   `json:"previous,omitempty"`
	// Evidence is the id under which the excerpt was recorded.
	Evidence string `json:"evidence"`
	Text     string `json:"text"`
	// source is how it was read, "" for the kubelet's log.
	source string
}

// ClusterInfo says where the fault is and which objects belong to it.
type ClusterInfo struct {
	ClusterName       string                `json:"clusterName"`
	Namespace         string                `json:"namespace"`
	InvolvedResources []nightcrier.Resource `json:"involvedResources"`
}

// ruleTime is for how long rules are begun: a namespace as large or as hostile as it
// may be gets an answer all the same.
const ruleTime = 10 * time.Second

// Run diagnoses one incident. It returns an error only when ctx ends or the
// evidence cannot be kept; a cluster that cannot be read makes a report that
// says what was not checked.
func Run(ctx context.Context, in Input) (Diagnosis, error) {
	in = in.withDefaults()
	start := time.Now()
	c := newCollector(in)
	facts, err := c.collectFacts(ctx)
	if err != nil {
		return Diagnosis{}, err
	}
	c.scene.until = time.Now().Add(ruleTime)
	own, all := judgeFacts(facts)
	found := composeFindings(facts, own, all)
	if c.scene.late {
		c.noteMissed("some of what the rules look for", fmt.Sprintf("there is so much of it that %s were over", ruleTime))
	}
	if root, ok := found.root(); ok {
		if err := c.rootHistory(ctx, facts, root); err != nil {
			return Diagnosis{}, err
		}
	}
	d := Diagnosis{
		Logs:        facts.Logs,
		ClusterInfo: clusterInfo(in, c.involved),
		Permissions: c.permissions,
		Incomplete:  joinMissed(c.notChecked()),
	}
	d.Report = assembleReport(Case{Incident: in.Incident, Event: in.Event, Mask: in.Mask}, facts, found, c.notChecked(), d.Permissions)
	d.Report.Usage = nightcrier.Usage{APIRequests: c.reads, DurationMS: time.Since(start).Milliseconds()}
	return d, nil
}

func (in Input) withDefaults() Input {
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

func clusterInfo(in Input, involved []nightcrier.Resource) ClusterInfo {
	return ClusterInfo{ClusterName: in.Incident.Cluster, Namespace: in.Incident.Namespace(), InvolvedResources: involved}
}
