package nodes

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scene"
	"nightcrier.dev/nightcrier/internal/text"
)

var filledRules = scene.Area{Name: "filled", SceneRules: []scene.SceneRule{nodeFilled}, Causes: []scene.Cause{
	{ID: "node-filled-by-pod", Category: "Node", Meaning: "one Pod uses up the disk or the memory of its node, so that others are evicted", Rank: scene.RankGround},
}}

// Of how much a Pod counts as what filled its node: that much more than all others that were
// evicted use together, and at least so much.
const (
	timesTheOthers = 4
	muchOnNode     = 1 << 30
)

// evictedWithin is how old an eviction may be to tell what fills a node.
const evictedWithin = 2 * time.Hour

var (
	// lowOn tells what a node was short of when it evicted a Pod.
	lowOn = scene.NewPattern(`The node was low on resource: ([\w-]{1,60})`)
	// wasUsing tells what a container used then.
	wasUsing = scene.NewPattern(`Container ([\w.-]{1,63}) was using (\d{1,18}\w{0,2})`)
)

// eviction is what a kubelet says of a Pod that it evicted.
type eviction struct {
	pod  *scene.Read[corev1.Pod]
	of   nightcrier.Object
	used int64
	said string
}

// nodeFilled finds the one workload whose Pod used most of what a node ran out of, by what
// the kubelet measured when it evicted Pods. Where several used about as much, or nobody used
// much, nobody is blamed: it may be images, logs of the system, or too small a node.
func nodeFilled(s *scene.Scene) []scene.Finding {
	type place struct{ node, resource string }
	evicted := map[place][]eviction{}
	var places []place
	for i := range s.Pods {
		p := &s.Pods[i]
		m := lowOn.FindStringSubmatch(p.Object.Status.Message)
		if p.Object.Status.Reason != "Evicted" || m == nil || !isShort(s, p.Object.Spec.NodeName) || s.Now.Sub(endOf(&p.Object)) > evictedWithin {
			continue
		}
		e := eviction{pod: p, of: s.WorkloadAbove("Pod", &p.Object), said: p.Object.Status.Message}
		for _, u := range wasUsing.FindAllStringSubmatch(e.said, 16) {
			if q, err := resource.ParseQuantity(u[2]); err == nil {
				e.used += q.Value()
			}
		}
		at := place{p.Object.Spec.NodeName, m[1]}
		if evicted[at] == nil {
			places = append(places, at)
		}
		evicted[at] = append(evicted[at], e)
	}
	var out []scene.Finding
	for _, at := range places {
		all := evicted[at]
		most := slices.MaxFunc(all, func(a, b eviction) int { return int(min(max(a.used-b.used, -1), 1)) })
		var others int64
		for _, e := range all {
			if e.of != most.of {
				others += e.used
			}
		}
		if most.used < muchOnNode || most.used < timesTheOthers*others {
			continue
		}
		out = append(out, filledFinding(s, at.node, at.resource, most, all))
	}
	return out
}

// isShort reports whether a node says that it is short of something now. What filled one that is
// well again is history.
func isShort(s *scene.Scene, node string) bool {
	n := scene.FindObject(s.Nodes, "", node)
	return n != nil && slices.ContainsFunc(n.Object.Status.Conditions, func(c corev1.NodeCondition) bool {
		_, short := pressures[c.Type]
		return short && c.Status == corev1.ConditionTrue
	})
}

// endOf is when a Pod that was evicted ended, as near as it tells.
func endOf(p *corev1.Pod) time.Time {
	at := p.CreationTimestamp.Time
	if c := scene.FindDisruption(p); c != nil && c.LastTransitionTime.After(at) {
		at = c.LastTransitionTime.Time
	}
	for _, c := range p.Status.ContainerStatuses {
		if t := c.State.Terminated; t != nil && t.FinishedAt.After(at) {
			at = t.FinishedAt.Time
		}
	}
	return at
}

func filledFinding(s *scene.Scene, node, name string, most eviction, all []eviction) scene.Finding {
	used := resource.NewQuantity(most.used, resource.BinarySI)
	limit := "an ephemeral-storage limit"
	if name == string(corev1.ResourceMemory) {
		limit = "a memory limit"
	}
	n := scene.Finding{
		Cause: "node-filled-by-pod", Object: most.of, Confidence: nightcrier.High, Weight: len(all),
		Summary: fmt.Sprintf("%s fills node %s: its Pod %s used %s of %s there when the node ran low on it and evicted %s.",
			most.of, node, most.pod.Object.Name, used, text.CutMiddle(name, scene.MaxQuote), text.CountNoun(len(all), "Pod")),
		Observed: []scene.Observation{{Text: "Pod " + most.pod.Object.Name + " was evicted, and what it used was measured", Quote: text.CutMiddle(most.said, scene.MaxQuote), Ref: most.pod.Ref}},
		WrongIf:  "something that is no Pod fills the node, such as images or the logs of the system",
		Test:     scene.GetTest(most.pod.Object.Namespace, "pod", most.pod.Object.Name).DecidesBetween("its message says that its container used most", "others used as much"),
		Affected: []nightcrier.Object{{Kind: "Node", Name: node}},
		Actions: []scene.Step{
			{Action: "Give " + most.of.String() + " " + limit + ", and stop what writes so much: its new Pod does the same on its next node", Do: scene.DoEdit, Outcome: "it is stopped before its node is full", Risk: "makes its Pods anew"},
			{Action: "Look at the new Pod of " + most.of.String() + " and at the node that it runs on", Do: scene.DoReadLog, Outcome: "tells what it writes, and how long that node lasts", Risk: "none: read only"},
		},
	}
	for _, e := range all {
		if e.of != most.of && !strings.HasPrefix(e.of.Kind, "Pod") {
			n.Affected = scene.UniteObjects(n.Affected, []nightcrier.Object{e.of})
		}
		if e.of != most.of && len(n.Observed) < scene.MaxToldOfMany {
			n.Observed = append(n.Observed, scene.Observation{Text: "Pod " + e.pod.Object.Name + " was evicted for it", Quote: text.CutMiddle(e.said, scene.MaxQuote), Ref: e.pod.Ref})
		}
	}
	return n
}
