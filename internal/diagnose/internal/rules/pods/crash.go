package pods

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scene"
	"nightcrier.dev/nightcrier/internal/text"
)

var crashRules = scene.Area{Name: "crash", Rules: []scene.Rule{containerCrashed, endedAlone}, Causes: crashCauses}

var crashCauses = []scene.Cause{
	{ID: "container-crash", Category: "Pod", Meaning: "a container that had been running ended with an error", Rank: scene.RankShown, TellsHow: true, Symptom: true},
	{ID: "crash-on-start", Category: "Pod", Meaning: "a container ends with an error shortly after each start", Rank: scene.RankShown, TellsHow: true, Symptom: true},
	{ID: "main-process-exits", Category: "Pod", Meaning: "a container that should keep running ends without an error, again and again", Rank: scene.RankShown, TellsHow: true, Symptom: true},
}

// startTime is how long a container runs at most when it is its start that fails.
const startTime = 60 * time.Second

// containerCrashed finds containers that end with an error. Those of a Pod that was stopped
// as a whole, as by an eviction, those that a Job ends when its time is up, and
// those killed for memory are left to the rules for these.
func containerCrashed(f *scene.Facts) []scene.Finding {
	var out []scene.Finding
	for c := range f.FailingContainers() {
		end := c.LastTermination()
		if end == nil && !isLooping(c) && !c.RestartedLately(f.Now) || c.Pod.Object.Status.Reason != "" || stoppedByJob(f, end) || end != nil && (killedForMemory(f, c, end) || end.ExitCode == 0) {
			continue
		}
		out = append(out, crashFinding(f, c, end))
	}
	return out
}

func isLooping(c scene.Container) bool {
	reason, _ := c.WaitingReason()
	return reason == "CrashLoopBackOff"
}

func crashFinding(f *scene.Facts, c scene.Container, end *corev1.ContainerStateTerminated) scene.Finding {
	n := scene.Finding{
		Cause: "container-crash", Object: f.Mend(), Confidence: nightcrier.High,
		WrongIf: "the process ends as asked, because something outside kills it or what it depends on is away",
		Test:    scene.LastWordsTest(c),
		Actions: crashActions(f),
	}
	if end == nil { // the kubelet has already forgotten the end
		n.Cause, n.Confidence = "crash-on-start", nightcrier.Medium
		n.Summary = fmt.Sprintf("%s ends again and again.", c.DescribeIn(f))
		n.Observed = []scene.Observation{observeLoop(c)}
		return withLog(n, f, c)
	}
	n.Observed = []scene.Observation{c.ObserveEnd(end)}
	switch {
	case neverRan(end):
		n.Cause = startCause(end.Message)
		n.Summary = fmt.Sprintf("%s cannot start: %s (%s).", c.DescribeIn(f), scene.MeaningOf(slices.Concat(startCauses, imageCauses), n.Cause), text.CutMiddle(cmp.Or(end.Message, exitMeaning(end.ExitCode)), scene.MaxQuote))
		n.Actions = commandActions
		if n.Cause == "image-platform-mismatch" {
			n.Actions = platformActions
		}
		return n
	case end.ExitCode == 127 || end.ExitCode == 126:
		n.Cause = "command-not-found"
		n.Summary = fmt.Sprintf("%s cannot start: exit code %d%s (%s).", c.DescribeIn(f), end.ExitCode, exitMeaning(end.ExitCode), commandLine(c))
		n.Actions = commandActions
		return withLog(n, f, c)
	case end.FinishedAt.Sub(end.StartedAt.Time) <= startTime:
		n.Cause = "crash-on-start"
	}
	n.Summary = fmt.Sprintf("%s ends with exit code %d%s (%s).",
		c.DescribeIn(f), end.ExitCode, exitMeaning(end.ExitCode), text.CountNoun(int(c.Status.RestartCount), "restart"))
	return withLog(n, f, c)
}

// observeLoop is what a container's state shows of a loop whose last end is forgotten.
func observeLoop(c scene.Container) scene.Observation {
	if reason, message := c.WaitingReason(); reason != "" {
		return scene.Observation{Text: fmt.Sprintf("%s waits: %s", c, reason), Quote: message, Ref: c.Pod.Ref}
	}
	return scene.Observation{
		Text:  fmt.Sprintf("%s has been restarted %d times, the last time at %s", c, c.Status.RestartCount, c.Status.State.Running.StartedAt.UTC().Format(time.RFC3339)),
		Quote: fmt.Sprintf("restartCount=%d", c.Status.RestartCount), Ref: c.Pod.Ref,
	}
}

// neverRan reports whether the runtime could not run the container at all.
func neverRan(end *corev1.ContainerStateTerminated) bool {
	return slices.Contains([]string{"StartError", "ContainerCannotRun", "RunContainerError"}, end.Reason)
}

// commandLine is what the container is started with.
func commandLine(c scene.Container) string {
	line := text.CutLine(strings.Join(slices.Concat(c.Spec.Command, c.Spec.Args), " "), 120)
	if line == "" {
		return "the image's own command"
	}
	return "command: " + line
}

// withLog adds the line of the log that says most, to the facts and the
// summary. Without one, and without a last message, why it ended is not known.
func withLog(n scene.Finding, f *scene.Facts, c scene.Container) scene.Finding {
	l, ok := f.FindLog(c)
	t, told := reasonInLog(f, c)
	end := c.LastTermination()
	if after := ok && !l.Previous && end != nil && c.Status.State.Running != nil; !ok || after && !told && c.Status.Ready { // begun after the end, it does not tell of it
		switch {
		case end == nil || end.Message == "" && !isOver(f, c, end):
			n.Confidence = nightcrier.Medium
		case end.Message == "":
			n.Confidence = nightcrier.Low
			n.Summary = strings.TrimSuffix(n.Summary, ".") + "; nothing that was read says why: the log of the ended container and Events about it are needed."
		}
		return n
	}
	line, why := decidingLine(l.Text)
	if told {
		line, why = t.line, true
	}
	if why {
		n.Why = line
	}
	n.Observed = append(n.Observed, ObserveLog(c, l, line))
	n.Summary = strings.TrimSuffix(n.Summary, ".") + "; its log says: " + line
	if farSide.MatchString(line) {
		n.Actions = append(dependencyActions(), n.Actions...)
	}
	return n
}

// isOver reports whether a container has outlived the longest pause between two starts, so
// that it is in no loop, and no fresh Event tells of its end.
func isOver(f *scene.Facts, c scene.Container, end *corev1.ContainerStateTerminated) bool {
	if !c.Status.Ready || f.Now.Sub(end.FinishedAt.Time) < scene.SettleTime || f.Hearsay {
		return false
	}
	for e := range f.EventsOf("Pod", c.Pod.Object.Name) {
		if e.Object.Type == corev1.EventTypeWarning && f.IsFresh(e) && isMeantBy(c, e.Object) {
			return false
		}
	}
	return true
}

// ObserveLog is a line of a container's log.
func ObserveLog(c scene.Container, l scene.LogExcerpt, line string) scene.Observation {
	which, flag := "log", ""
	if l.Previous {
		which, flag = "previous log", " --previous"
	}
	return scene.Observation{
		Text:  fmt.Sprintf("the %s of %s says what it failed on", which, c),
		Quote: line,
		Ref:   scene.Ref{Evidence: l.Evidence, Source: cmp.Or(l.Source, "kubectl logs "+l.Pod+" -c "+l.Container+scene.NamespaceFlag(l.Namespace)+flag)},
	}
}

// exitMeanings are the exit codes that say more than "failed".
var exitMeanings = map[int32]string{
	126: " (the command cannot be executed)",
	127: " (the command was not found)",
	134: " (SIGABRT: it aborted itself)",
	137: " (SIGKILL: it was killed)",
	139: " (SIGSEGV: it touched memory that is not its own)",
	143: " (SIGTERM: it was asked to end)",
}

func exitMeaning(code int32) string { return exitMeanings[code] }

func crashActions(f *scene.Facts) []scene.Step {
	return []scene.Step{
		{Action: "Read the last lines of the previous log and mend what they name in " + f.Mend().String(),
			Do: scene.DoReadLog, Outcome: "the container starts and stays up", Risk: "none while reading"},
		{Action: "Roll back if it began with the last rollout", Do: scene.DoUndo, Outcome: "the version that ran before is back", Risk: "loses what the rollout brought"},
		{Action: "Check what it depends on: configuration, databases, other services", Outcome: "tells a fault of its own from one of its surroundings", Risk: "none: read only"},
	}
}

// endsAgain reports whether a container that is always restarted ends again and
// again, also when it has just been started or has just ended.
func endsAgain(c scene.Container, now time.Time) bool {
	policy := c.Pod.Object.Spec.RestartPolicy
	if isLooping(c) {
		return true
	}
	if policy != "" && policy != corev1.RestartPolicyAlways || c.Status.RestartCount < scene.OftenRestarts || c.HasRecovered(now) {
		return false
	}
	end := c.LastTermination()
	return c.Status.State.Terminated != nil || end.FinishedAt.Sub(end.StartedAt.Time) < scene.SettleTime
}

// endedAlone finds containers that end without an error and are started again
// and again, as when the main process goes to the background.
func endedAlone(f *scene.Facts) []scene.Finding {
	var out []scene.Finding
	for c := range f.AllContainers() {
		end := c.LastTermination()
		if f.IsOfJob() || f.IsPast(c.Pod) || isInit(c) || end == nil || end.ExitCode != 0 || !endsAgain(c, f.Now) {
			continue
		}
		out = append(out, withLog(scene.Finding{
			Cause: "main-process-exits", Object: f.Mend(), Confidence: nightcrier.High,
			Summary:  fmt.Sprintf("%s ends by itself with exit code 0 and is restarted for ever.", c.DescribeIn(f)),
			Observed: []scene.Observation{c.ObserveEnd(end)},
			WrongIf:  "it ends because something outside asks it to",
			Test:     scene.LastWordsTest(c),
			Actions: []scene.Step{
				{Action: "Keep the main process in the foreground, or run the work as a Job", Do: scene.DoEdit, Outcome: "no more restarts", Risk: "needs a new rollout"},
			},
		}, f, c))
	}
	return out
}

var memoryRules = scene.Area{Name: "memory", Rules: []scene.Rule{outOfMemory, tooLittleToStart}, Causes: memoryCauses}

var memoryCauses = []scene.Cause{
	{ID: "oom-killed", Category: "Pod", Meaning: "a container was killed for want of memory: its limit, or its node, has no more", Rank: scene.RankStated + 5},
}

// outOfMemory finds containers that the kernel killed for their memory.
func outOfMemory(f *scene.Facts) []scene.Finding {
	var out []scene.Finding
	for c := range f.FailingContainers() {
		if end := c.LastTermination(); end != nil && killedForMemory(f, c, end) {
			out = append(out, memoryKill(f, c, end))
		}
	}
	return out
}

// memoryLogPatterns are what programs of several processes say when one of theirs is
// killed from outside and they go on. A kubelet kills all of a container at once.
var memoryLogPatterns = []logPattern{{
	cause: "oom-killed", because: "a process in it is killed again and again, most likely by the kernel for want of memory",
	wrongIf: "somebody, or a timeout of the program, kills its processes", refine: withinWhichLimit,
	actions: []scene.Step{
		{Action: "Raise the memory limit above the peak of all processes together, or run fewer of them", Do: scene.DoEdit, Outcome: "no process is killed any more", Risk: "a leak only takes longer to reach the limit"},
		{Action: "Read the node's kernel log for the kill", Outcome: "tells which process grew, and whether the limit or the node was the bound", Risk: "none: read only"},
	},
	wordings: scene.NewWordings(
		`(?i)worker exited prematurely: signal 9`, `(?i)exited with '?signal 9 \(SIGKILL\)`, `(?i)sent SIGKILL! Perhaps out of memory`, `(?i)died, killed by signal 9`,
		`(?i)terminated by signal 9: Killed`, `(?i)exited on signal 9\b`, `(?i)exit signal Killed \(9\)`,
	),
}}

// withinWhichLimit adds the limit that the processes share.
func withinWhichLimit(f *scene.Facts, c scene.Container, t logMatch, n *scene.Finding) {
	n.Confidence = nightcrier.Medium // the kernel itself has not said so
	heapAndLimit(f, c, t, n)
}

func memoryKill(f *scene.Facts, c scene.Container, end *corev1.ContainerStateTerminated) scene.Finding {
	limit, has := c.Spec.Resources.Limits[corev1.ResourceMemory]
	how := fmt.Sprintf("(%s, %s)", cmp.Or(end.Reason, "SIGKILL"), text.CountNoun(int(c.Status.RestartCount), "restart"))
	observed := []scene.Observation{c.ObserveEnd(end)}
	summary := fmt.Sprintf("%s is killed by the kernel for want of memory %s although it has no limit of its own.", c.DescribeIn(f), how)
	if has {
		summary = fmt.Sprintf("%s is killed for exceeding its memory limit of %s %s.", c.DescribeIn(f), limit.String(), how)
		observed = append(observed, sawMemory(c))
	}
	if said, ok := kernelSaid(f, c); ok {
		observed = append(observed, said)
	}
	if used, ok := f.ObserveUse(c); ok {
		observed = append(observed, used)
	}
	n := scene.Finding{
		Cause: "oom-killed", Object: f.Mend(), Summary: summary, Confidence: nightcrier.High, Observed: observed,
		WrongIf: "the process was killed by another signal and the reason is left from an earlier end",
		Test: scene.GetTest(c.Pod.Object.Namespace, "pod", c.Pod.Object.Name).
			DecidesBetween("lastState.terminated.reason is OOMKilled", "it is another reason"),
		Actions: memoryActions(f, has),
	}
	if !has && c.Pod.Object.Spec.NodeName != "" {
		n.DependsOn = []nightcrier.Object{{Kind: "Node", Name: c.Pod.Object.Spec.NodeName}}
	}
	return n
}

// limitTooLow is what runtimes say when the kernel kills even the process that
// starts the container's own, or its sandbox.
var limitTooLow = scene.NewPattern(`OOM-killed \(memory limit too low\?\)`)

// tooLittleToStart finds Pods whose memory limit does not suffice to start them.
func tooLittleToStart(f *scene.Facts) []scene.Finding {
	for i := range f.Pods {
		p := &f.Pods[i]
		if f.IsPast(p) || scene.IsPodReady(&p.Object) {
			continue
		}
		if said, found := startKilled(f, p); found {
			return []scene.Finding{limitRaise(f, p, said)}
		}
	}
	return nil
}

// startKilled is what says that a Pod's start ended for want of memory: the state
// of a container, or an Event while none runs.
func startKilled(f *scene.Facts, p *scene.Read[corev1.Pod]) (scene.Observation, bool) {
	for _, c := range scene.PodContainers(p) {
		if reason, message := c.WaitingReason(); limitTooLow.MatchString(message) {
			return scene.Observation{Text: fmt.Sprintf("%s waits: %s", c, text.CutMiddle(reason, scene.MaxQuote)), Quote: message, Ref: p.Ref}, true
		}
	}
	for e := range f.EventsOf("Pod", p.Object.Name) {
		if f.IsFresh(e) && sandboxLess(&p.Object) && limitTooLow.MatchString(e.Object.Message) {
			return scene.ObserveEvent(e), true
		}
	}
	return scene.Observation{}, false
}

func limitRaise(f *scene.Facts, p *scene.Read[corev1.Pod], said scene.Observation) scene.Finding {
	var limits []string
	for _, c := range p.Object.Spec.Containers {
		if limit, has := c.Resources.Limits[corev1.ResourceMemory]; has {
			limits = append(limits, fmt.Sprintf("%s of container %s", limit.String(), text.CutMiddle(c.Name, scene.MaxQuote)))
		}
	}
	n := scene.Finding{
		Cause: "oom-killed", Object: f.Mend(), Confidence: nightcrier.High, Observed: []scene.Observation{said},
		Summary: fmt.Sprintf("%s cannot start: its memory limit is too low even for the runtime to start it (%s).", f.Mend(), text.CutMiddle(cmp.Or(strings.Join(limits, ", "), "no container states one"), scene.MaxQuote)),
		WrongIf: "the node itself is out of memory",
		Test: scene.DescribeTest(nightcrier.Object{Kind: "Pod", Namespace: p.Object.Namespace, Name: p.Object.Name}).
			DecidesBetween("its events say that it was OOM-killed while it started", "it has started"),
		Actions: memoryActions(f, true),
	}
	if len(limits) == 0 {
		n.Confidence = nightcrier.Medium
	}
	return n
}

// killedForMemory reports whether the kernel killed the container for its
// memory. Runtimes do not always say so, but the signal is always the same.
func killedForMemory(f *scene.Facts, c scene.Container, end *corev1.ContainerStateTerminated) bool {
	if end.Reason == "OOMKilled" || neverRan(end) && kernelKill.MatchString(end.Message) {
		return true
	}
	if end.ExitCode != 137 {
		return false
	}
	_, said := kernelSaid(f, c)
	return said
}

// kernelKill matches what kernels and what reports them say of such a kill.
var kernelKill = scene.NewPattern(`Memory cgroup out of memory|Out of memory: Kill(ed)? process|oom-kill:constraint|OOMKilling|ContainerOOM|init was OOM-killed`)

// kernelSaid is where somebody else tells that memory was the reason: the last
// message of the container, an Event about the Pod, or the last line of the log.
func kernelSaid(f *scene.Facts, c scene.Container) (scene.Observation, bool) {
	if end := c.LastTermination(); end != nil && kernelKill.MatchString(end.Message) {
		return scene.Observation{Text: c.String() + " left a message", Quote: end.Message, Ref: c.Pod.Ref}, true
	}
	for e := range f.EventsOf("Pod", c.Pod.Object.Name) {
		if f.IsFresh(e) && kernelKill.MatchString(e.Object.Reason+" "+e.Object.Message) && len(c.Pod.Object.Spec.Containers) <= 1 {
			return scene.ObserveEvent(e), true
		}
	}
	if l, ok := f.FindLog(c); ok && kernelKill.MatchString(scene.ErrorLine(l.Text)) {
		return ObserveLog(c, l, text.CutMiddle(scene.ErrorLine(l.Text), scene.MaxQuote)), true
	}
	return scene.Observation{}, false
}

// sawMemory is what the container may use and asks for.
func sawMemory(c scene.Container) scene.Observation {
	limit, request := c.Spec.Resources.Limits.Memory(), c.Spec.Resources.Requests.Memory()
	text := fmt.Sprintf("%s has a memory limit of %s", c, limit)
	if !request.IsZero() {
		text += fmt.Sprintf(" and requests %s", request)
	}
	return scene.Observation{Text: text, Quote: "memory=" + limit.String(), Ref: c.Pod.Ref}
}

func memoryActions(f *scene.Facts, limited bool) []scene.Step {
	first := scene.Step{
		Action: "Raise the memory limit of " + f.Mend().String() + " above the peak of its use",
		Do:     scene.DoEdit, Outcome: "the container stays up", Risk: "a leak only takes longer to reach the limit",
	}
	if !limited {
		first = scene.Step{
			Action: "Give " + f.Mend().String() + " a memory request and limit, or move it to a node with more memory",
			Do:     scene.DoEdit, Outcome: "the node is not overcommitted any more", Risk: "the Pod may become unschedulable",
		}
	}
	return []scene.Step{
		first,
		{Action: "Compare its memory use over time with the last rollout", Outcome: "tells a leak from a limit that is too small", Risk: "none: read only"},
		{Action: "Roll back if the use grew with the last rollout", Do: scene.DoUndo, Outcome: "the earlier use is back", Risk: "loses what the rollout brought"},
	}
}
