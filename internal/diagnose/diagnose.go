// Package diagnose finds out what the cluster itself says about a fault. It
// reads the incident's object and what belongs to it in a handful of recorded
// reads, applies named rules to what it read, and makes a report of the result.
//
// The report is preloaded for an agent, stands in when an agent fails, and is
// the whole report where no model is configured. Every fact in it cites the
// evidence that it was read from; a cause is named only where a rule's
// predicate held, otherwise the verdict is undetermined.
//
// It goes through four packages, each of which knows those before it by the scene alone:
//
//   - internal/scene: the objects that were read, and questions about them
//   - internal/collect: the reads that fill a scene
//   - internal/rules: functions of the scene that return findings
//   - internal/compose: what follows from what, and the report
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
	"nightcrier.dev/nightcrier/internal/diagnose/internal/collect"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/compose"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/rules"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scene"
)

// Diagnosis is what came of it.
type Diagnosis struct {
	Report nightcrier.Report
	// Logs are excerpts of the containers concerned, masked.
	Logs        []scene.LogExcerpt
	ClusterInfo ClusterInfo
	// Permissions is what the credential may do in the incident's namespace,
	// nil when it is not known.
	Permissions map[string]any
	// Incomplete says why part of the context is missing, "" when nothing is.
	Incomplete string
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
	in = in.WithDefaults()
	start := time.Now()
	c := collect.NewCollector(in)
	facts, err := c.CollectFacts(ctx)
	if err != nil {
		return Diagnosis{}, err
	}
	found, err := conclude(ctx, c, facts)
	if err != nil {
		return Diagnosis{}, err
	}
	if c.Scene.Late {
		c.NoteMissed("some of what the rules look for", fmt.Sprintf("there is so much of it that %s were over", ruleTime))
	}
	if root, ok := found.Root(); ok {
		if err := c.ReadRootHistory(ctx, facts, root); err != nil {
			return Diagnosis{}, err
		}
	}
	d := Diagnosis{
		Logs:        facts.Logs,
		ClusterInfo: clusterInfo(in, c.Involved),
		Permissions: c.Permissions,
		Incomplete:  collect.JoinMissed(c.NotChecked()),
	}
	d.Report = compose.AssembleReport(compose.Case{Incident: in.Incident, Event: in.Event, Mask: in.Mask}, facts, found, c.NotChecked(), d.Permissions)
	d.Report.Usage = nightcrier.Usage{APIRequests: c.Reads, DurationMS: time.Since(start).Milliseconds()}
	return d, nil
}

// maxAsked is how often what was found is asked why.
const maxAsked = 2

// conclude judges what was read. A chain is followed to its end: where the root shows only
// that something is wrong, or complains of what was not read, that is read, and all is judged
// again.
func conclude(ctx context.Context, c *collect.Collector, facts *scene.Facts) (compose.Composition, error) {
	for asked := 0; ; asked++ {
		c.Scene.Until = time.Now().Add(ruleTime)
		own, all := rules.Judge(facts)
		found := compose.Compose(facts, own, all)
		root, ok := found.Root()
		if asked == maxAsked || facts.Hearsay {
			return found, nil
		}
		if !ok || found.Findings[0].Confidence == nightcrier.Low {
			more, err := c.ReadLeading(ctx)
			if err != nil || !more && !ok {
				return found, err
			}
			if more {
				continue
			}
		}
		_, unexplained := found.Unexplained()
		if more, err := c.AskWhy(ctx, root, unexplained); err != nil || !more {
			return found, err
		}
	}
}

func clusterInfo(in Input, involved []nightcrier.Resource) ClusterInfo {
	return ClusterInfo{ClusterName: in.Incident.Cluster, Namespace: in.Incident.Namespace(), InvolvedResources: involved}
}
