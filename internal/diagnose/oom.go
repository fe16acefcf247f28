package diagnose

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"nightcrier.dev/nightcrier"
)

var memoryRules = area{of: []Rule{outOfMemory}}

var memoryCauses = []Cause{
	{"oom-killed", "Pod", "a container was killed for want of memory: its limit, or its node, has no more", rankStated + 5},
}

// outOfMemory finds containers that the kernel killed for their memory.
func outOfMemory(f *Facts) []Finding {
	var out []Finding
	for c := range f.containers() {
		end := c.lastEnd()
		if end == nil || end.Reason != "OOMKilled" || c.recovered(f.Now) {
			continue
		}
		limit, has := c.spec.Resources.Limits[corev1.ResourceMemory]
		summary := fmt.Sprintf("%s is killed by the kernel for want of memory (OOMKilled, %s) although it has no limit of its own.",
			c.in(f), restarts(c.status.RestartCount))
		observed := []Observation{c.sawEnd(end)}
		if has {
			summary = fmt.Sprintf("%s is killed for exceeding its memory limit of %s (OOMKilled, %s).",
				c.in(f), limit.String(), restarts(c.status.RestartCount))
			observed = append(observed, c.sawMemory())
		}
		out = append(out, Finding{
			Cause: "oom-killed", Object: f.Mend(), Summary: summary, Confidence: nightcrier.High, Observed: observed,
			WrongIf: "the process was killed by another signal and the reason is left from an earlier end",
			Test: get(c.pod.Object.Namespace, "pod", c.pod.Object.Name).
				decides("lastState.terminated.reason is OOMKilled", "it is another reason"),
			Actions: memoryActions(f, has),
		})
	}
	return out
}

// sawMemory is what the container may use and asks for.
func (c container) sawMemory() Observation {
	limit, request := c.spec.Resources.Limits.Memory(), c.spec.Resources.Requests.Memory()
	text := fmt.Sprintf("%s has a memory limit of %s", c, limit)
	if !request.IsZero() {
		text += fmt.Sprintf(" and requests %s", request)
	}
	return Observation{Text: text, Quote: "memory=" + limit.String(), Ref: c.pod.Ref}
}

func memoryActions(f *Facts, limited bool) []nightcrier.Action {
	first := nightcrier.Action{
		Action:  "Raise the memory limit of " + f.Mend().String() + " above the peak of its use",
		Outcome: "the container stays up", Risk: "a leak only takes longer to reach the limit",
	}
	if !limited {
		first = nightcrier.Action{
			Action:  "Give " + f.Mend().String() + " a memory request and limit, or move it to a node with more memory",
			Outcome: "the node is not overcommitted any more", Risk: "the Pod may become unschedulable",
		}
	}
	return []nightcrier.Action{
		first,
		{Action: "Compare its memory use over time with the last rollout", Outcome: "tells a leak from a limit that is too small", Risk: "none: read only"},
		{Action: "Roll back if the use grew with the last rollout", Outcome: "the earlier use is back", Risk: "loses what the rollout brought"},
	}
}
