package diagnose

import (
	"fmt"
	"slices"

	"nightcrier.dev/nightcrier"
)

var startRules = area{of: []Rule{startRefused}}

var startCauses = []Cause{
	{"command-not-found", "Pod", "the container's command does not exist in its image or cannot be executed", rankStated},
	{"container-not-started", "Pod", "the container runtime cannot create or start the container", rankStated - 1},
	{"pod-sandbox-failed", "Network", "the Pod's sandbox or its network cannot be made", rankStated - 1},
}

// startRefused finds containers that the runtime cannot create or start, and
// Pods whose sandbox, the network with it, cannot be made.
func startRefused(f *Facts) []Finding {
	var out []Finding
	for c := range f.containers() {
		reason, message := c.waiting()
		config := reason == "CreateContainerConfigError" && configCause(message) == ""
		if !config && !slices.Contains([]string{"RunContainerError", "CreateContainerError", "StartError"}, reason) {
			continue
		}
		cause := "container-not-started"
		if notExecutable.MatchString(message) {
			cause = "command-not-found"
		}
		said := Observation{Text: fmt.Sprintf("%s waits: %s", c, reason), Quote: message, Ref: c.pod.Ref}
		out = append(out, notStarted(f, cause, c.pod.Object.Name, said))
	}
	for _, p := range f.Pods {
		for e := range f.eventsOf("Pod", p.Object.Name) {
			sandbox := e.Object.Reason == "FailedCreatePodSandBox" || e.Object.Reason == "NetworkNotReady"
			if sandbox && f.fresh(e) && !podReady(&p.Object) {
				out = append(out, notStarted(f, "pod-sandbox-failed", p.Object.Name, sawEvent(e)))
			}
		}
	}
	return out
}

func notStarted(f *Facts, cause, pod string, said Observation) Finding {
	return Finding{
		Cause: cause, Object: f.Mend(), Confidence: nightcrier.High, Observed: []Observation{said},
		Summary: fmt.Sprintf("%s cannot start: %s (%s).", f.Mend(), causeOf(cause).Meaning, oneLine(said.Quote, maxQuote)),
		WrongIf: "it has started since; the kubelet tries again by itself",
		Test: describe(nightcrier.Resource{Kind: "Pod", Namespace: f.Mend().Namespace, Name: pod}).
			decides("its newest events say the same", "it has started"),
		Actions: []nightcrier.Action{
			{Action: "Correct what the message names in " + f.Mend().String() + ", or on its node", Outcome: "the Pod starts by itself", Risk: "needs a new rollout where the Pod is changed"},
			{Action: "See whether other Pods of the same node start", Outcome: "tells a fault of the workload from one of the node", Risk: "none: read only"},
		},
	}
}
