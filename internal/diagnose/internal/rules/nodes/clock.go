package nodes

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scene"
	"nightcrier.dev/nightcrier/internal/text"
)

var clockRules = scene.Area{Name: "clock", SceneRules: []scene.SceneRule{clockWrong}, Causes: clockCauses}

var clockCauses = []scene.Cause{
	{ID: "node-clock-wrong", Category: "Node", Meaning: "the clock of a node is not the time of the others", Rank: scene.RankGround},
}

var (
	// clockCondition matches the conditions by which what watches a node says that its clock is
	// not kept.
	clockCondition = scene.NewPattern(`(?i)^(?:ntp|chrony|clock|time)\w*(?:problem|skew\w*|unsync\w*|drift|unhealthy|down)$`)
	// ahead matches what is said of a time that is yet to come.
	ahead = scene.NewPattern(`(?i)used before issued|issued in the future|issued at .{0,80}in the future|not (?:yet valid|valid yet)|before: current time|nbf claim|\biat\b.{0,60}(?:future|check failed)|clock (?:skew|drift)|RequestTimeTooSkewed`)
)

// clockWrong finds nodes whose clock is said not to be kept, and of whose Pods one complains of
// times that are yet to come. The one alone is no fault of anybody, the other may be of whoever
// made the token or certificate: then Pods of other nodes complain as well.
func clockWrong(s *scene.Scene) []scene.Finding {
	if !slices.ContainsFunc(s.Nodes, func(n scene.Read[corev1.Node]) bool {
		return slices.ContainsFunc(n.Object.Status.Conditions, saysClock)
	}) {
		return nil
	}
	complaints, victims := clockComplaints(s)
	var out []scene.Finding
	for _, node := range s.Nodes {
		name := node.Object.Name
		for _, c := range node.Object.Status.Conditions {
			if saysClock(c) && len(complaints[name]) > 0 {
				out = append(out, clockFinding(node, c, complaints[name][0], victims[name], len(complaints) > 1))
			}
		}
	}
	return out
}

func saysClock(c corev1.NodeCondition) bool {
	return c.Status == corev1.ConditionTrue && clockCondition.MatchString(string(c.Type))
}

// clockComplaints are those of times that are yet to come, by node, and whose Pods say so.
func clockComplaints(s *scene.Scene) (complaints map[string][]scene.Observation, victims map[string][]nightcrier.Object) {
	complaints, victims = map[string][]scene.Observation{}, map[string][]nightcrier.Object{}
	for _, l := range s.Logs {
		p := scene.FindObject(s.Pods, l.Namespace, l.Pod)
		if p == nil || l.Previous {
			continue
		}
		for line := range strings.Lines(l.Text) {
			if line = text.KeepBytes(strings.TrimSpace(line), 4*scene.MaxQuote); !ahead.MatchString(line) {
				continue
			}
			node := p.Object.Spec.NodeName
			complaints[node] = append(complaints[node], scene.Observation{Text: "the log of Pod " + l.Pod + " on node " + node + " complains of a time that is yet to come", Quote: text.CutMiddle(line, scene.MaxQuote), Ref: scene.Ref{Evidence: l.Evidence, Source: l.Source}})
			if o := s.WorkloadAbove("Pod", &p.Object); !slices.Contains(victims[node], o) {
				victims[node] = append(victims[node], o)
			}
			break
		}
	}
	return complaints, victims
}

func clockFinding(node scene.Read[corev1.Node], c corev1.NodeCondition, complaint scene.Observation, victims []nightcrier.Object, elsewhere bool) scene.Finding {
	name := node.Object.Name
	n := scene.Finding{
		Cause: "node-clock-wrong", Object: nightcrier.Object{Kind: "Node", Name: name}, Confidence: nightcrier.High, Affected: victims,
		Summary: fmt.Sprintf("The clock of node %s is wrong: it reports %s (%s), and what runs there takes valid times for future ones: %s", name, c.Type, text.CutMiddle(conditionWords(c), scene.MaxQuote/2), complaint.Quote),
		Observed: []scene.Observation{
			{Text: fmt.Sprintf("Node %s has condition %s=True since %s", name, c.Type, c.LastTransitionTime.UTC().Format("2006-01-02 15:04 UTC")), Quote: conditionWords(c), Ref: node.Ref}, complaint,
		},
		WrongIf: "Pods on nodes whose clock is kept complain of the same: then whoever signs has the wrong time",
		Test:    scene.DescribeTest(nightcrier.Object{Kind: "Node", Name: name}).DecidesBetween("the condition is still True", "it is False"),
		Actions: []scene.Step{
			{Action: "Start the time service of node " + name + " (chronyd, ntpd or systemd-timesyncd) and step its clock; cordon the node until then", On: nightcrier.Object{Kind: "Node", Name: name}, Outcome: "what is signed elsewhere is valid there at once", Risk: "a clock that leaps disturbs what measures time on that node"},
			{Action: "Delete the Pods of " + scene.NameSome(victims) + " on node " + name + ", so that they come up on another", Outcome: "requests are accepted before the clock is right", Risk: "less of them serve until the new ones are ready"},
		},
	}
	if elsewhere {
		n.Confidence = nightcrier.Medium
	}
	return n
}

// conditionWords is what a condition says, or its reason where it says nothing.
func conditionWords(c corev1.NodeCondition) string {
	if c.Message == "" {
		return c.Reason
	}
	return c.Message
}
