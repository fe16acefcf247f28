package pods

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scene"
	"nightcrier.dev/nightcrier/internal/text"
)

var startRules = scene.Area{Name: "start", Rules: []scene.Rule{startRefused, hookFailed}, Causes: startCauses}

var startCauses = []scene.Cause{
	{ID: "command-not-found", Category: "Pod", Meaning: "the container's command does not exist in its image or cannot be executed", Rank: scene.RankStated},
	{ID: "container-not-started", Category: "Pod", Meaning: "the container runtime cannot create or start the container", Rank: scene.RankStated - 1, Symptom: true},
	{ID: "pod-sandbox-failed", Category: "Network", Meaning: "the Pod's sandbox or its network cannot be made", Rank: scene.RankStated - 1, Symptom: true},
	{ID: "run-as-non-root-refused", Category: "Pod", Meaning: "the Pod must not run as root, and its image does or does not say", Rank: scene.RankStated},
}

// startLogPatterns are what shells and runtimes write into the log of a container
// whose command cannot be executed.
var startLogPatterns = []logPattern{
	{
		cause: "image-platform-mismatch", because: "its program is built for another processor than the node has",
		wrongIf: "the file is a script without an interpreter line", actions: platformActions,
		wordings: scene.NewWordings(`exec (/\S{1,200}): exec format error`, `(?i)exec(?:user process)?.{0,120}exec format error`, `cannot execute binary file: Exec format error`),
	},
	{
		cause: "command-not-found", because: "its command does not exist in the image or cannot be executed",
		wrongIf: "the process goes on without that command", actions: commandActions,
		wordings: scene.NewWordings(
			`exec (/\S{1,200}): (?:no such file or directory|permission denied)`, `exec: "?([^\s":]{1,200})"?: executable file not found`, `(?:^|: )(?:exec: )?(?:line )?\d*:? ?([\w./-]{1,200}): (?:command )?not found$`,
			`exec: ([\w./-]{1,200}): not found`, `exec: ([\w./-]{1,200}): (?:cannot execute|Permission denied)`, `no such file or directory.{0,40}unable to start container process`,
		),
	},
}

var platformActions = []scene.Step{
	{Action: "Build the image for the node's processor, or for several", Outcome: "the container starts on any node", Risk: "none for those that run"},
	{Action: "Select nodes by kubernetes.io/arch until then", Do: scene.DoEdit, Outcome: "the Pod runs where its image fits", Risk: "the Pod may become unschedulable"},
}

var commandActions = []scene.Step{
	{Action: "Correct the container's command, or use an image that has it", Do: scene.DoEdit, Outcome: "the container starts", Risk: "needs a new rollout"},
	{Action: "Roll back if it came with the last rollout", Do: scene.DoUndo, Outcome: "the version that ran before is back", Risk: "loses what the rollout brought"},
}

// nonRoot matches a kubelet's refusal to run a container as root.
var nonRoot = scene.NewPattern(`runAsNonRoot|breaks non-root policy|image will run as root`)

// startRefused finds containers that the runtime cannot create or start, and
// Pods whose sandbox, the network with it, cannot be made.
func startRefused(f *scene.Facts) []scene.Finding {
	var out []scene.Finding
	for c := range f.FailingContainers() {
		reason, message := c.WaitingReason()
		config := reason == "CreateContainerConfigError" && scene.WhatIsMissing(message) == ""
		if !config && !slices.Contains([]string{"RunContainerError", "CreateContainerError", "StartError"}, reason) {
			continue
		}
		if message == "" {
			message = startFailure(f, c)
		}
		if config && message == "" && configIsAbsent(f, c.Pod) {
			continue // what is missing says more
		}
		if limitTooLow.MatchString(message) {
			continue // the limit of memory is the reason
		}
		said := scene.Observation{Text: fmt.Sprintf("%s waits: %s", c, reason), Quote: message, Ref: c.Pod.Ref}
		out = append(out, notStarted(f, startCause(message), c.Pod.Object.Name, said))
	}
	for _, p := range f.Pods {
		for e := range f.EventsOf("Pod", p.Object.Name) {
			if limitTooLow.MatchString(e.Object.Message) {
				continue // the limit of memory is the reason
			}
			sandbox := e.Object.Reason == "FailedCreatePodSandBox" || e.Object.Reason == "NetworkNotReady"
			if sandbox && f.IsFresh(e) && !scene.IsPodReady(&p.Object) && !f.IsPast(&p) && sandboxLess(&p.Object) {
				n := notStarted(f, "pod-sandbox-failed", p.Object.Name, scene.ObserveEvent(e))
				n.DependsOn = networkOf(f.Scene, &p.Object, e.Object.Message)
				out = append(out, n)
			}
		}
	}
	return out
}

var networkPlugin = scene.NewPattern(`plugin type="([a-z][a-z0-9]{2,30})`)

// networkOf is what the network of a Pod needs: its node, and the DaemonSet of the
// plugin that a message names.
func networkOf(s *scene.Scene, p *corev1.Pod, message string) []nightcrier.Object {
	var out []nightcrier.Object
	if p.Spec.NodeName != "" {
		out = append(out, nightcrier.Object{Kind: "Node", Name: p.Spec.NodeName})
	}
	m := networkPlugin.FindStringSubmatch(message)
	for _, d := range s.DaemonSets {
		if m != nil && strings.Contains(d.Object.Name, m[1]) {
			out = append(out, nightcrier.Object{Kind: "DaemonSet", Namespace: d.Object.Namespace, Name: d.Object.Name})
		}
	}
	return out
}

// sandboxLess reports whether no container of a Pod has started yet.
func sandboxLess(p *corev1.Pod) bool {
	return !slices.ContainsFunc(slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses), func(st corev1.ContainerStatus) bool {
		return st.State.Running != nil
	})
}

// startCause tells why a runtime does not start a container.
func startCause(message string) string {
	switch {
	case nonRoot.MatchString(message):
		return "run-as-non-root-refused"
	case formatError.MatchString(message):
		return "image-platform-mismatch"
	case scene.NotExecutablePattern.MatchString(message):
		return "command-not-found"
	case badReference.MatchString(message):
		return "bad-env-reference"
	}
	return "container-not-started"
}

var (
	formatError = scene.NewPattern(`(?i)exec format error`)
	// badReference matches a kubelet that cannot work out a variable's value.
	badReference = scene.NewPattern(`(?i)unsupported (container resource|fieldPath|fieldRef)|fieldRef|resourceFieldRef|FileKeyRef|environment variable key .{1,200} not found|couldn't parse env file|container \S{1,80} not found$`)
)

// startFailure is what the newest Event says of a container that waits without
// a word, "" for nothing.
func startFailure(f *scene.Facts, c scene.Container) string {
	for e := range f.EventsOf("Pod", c.Pod.Object.Name) {
		if e.Object.Reason == "Failed" && e.Object.Type == corev1.EventTypeWarning {
			return e.Object.Message
		}
	}
	return ""
}

func notStarted(f *scene.Facts, cause, pod string, said scene.Observation) scene.Finding {
	return scene.Finding{
		Cause: cause, Object: f.Mend(), Confidence: nightcrier.High, Observed: []scene.Observation{said}, Why: scene.ReasonIn(said.Quote),
		Summary: fmt.Sprintf("%s cannot start: %s (%s).", f.Mend(), scene.MeaningOf(slices.Concat(startCauses, imageCauses), cause), text.CutMiddle(said.Quote, scene.MaxQuote)),
		WrongIf: "it has started since; the kubelet tries again by itself",
		Test: scene.DescribeTest(nightcrier.Object{Kind: "Pod", Namespace: f.Mend().Namespace, Name: pod}).
			DecidesBetween("its newest events say the same", "it has started"),
		Actions: []scene.Step{
			{Action: "Correct what the message names in " + f.Mend().String() + ", or on its node", Do: scene.DoEdit, Outcome: "the Pod starts by itself", Risk: "needs a new rollout where the Pod is changed"},
			{Action: "See whether other Pods of the same node start", Outcome: "tells a fault of the workload from one of the node", Risk: "none: read only"},
		},
	}
}

// hookFailed finds Pods whose container is killed because the hook after its start
// fails.
func hookFailed(f *scene.Facts) []scene.Finding {
	var out []scene.Finding
	for i := range f.Pods {
		p := &f.Pods[i]
		if f.IsPast(p) || scene.IsPodReady(&p.Object) {
			continue
		}
		for e := range f.EventsOf("Pod", p.Object.Name) {
			if e.Object.Reason == "FailedPostStartHook" && f.IsFresh(e) {
				n := notStarted(f, "container-not-started", p.Object.Name, scene.ObserveEvent(e))
				n.Summary = fmt.Sprintf("%s does not stay up: the postStart hook of its container fails, so it is killed after each start (%s).", f.Mend(), text.CutMiddle(e.Object.Message, scene.MaxQuote))
				out = append(out, n)
			}
		}
	}
	return out
}
