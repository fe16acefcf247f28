package diagnose

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/text"
)

var crashRules = area{of: []Rule{containerCrashed, endedAlone}}

var crashCauses = []Cause{
	{ID: "container-crash", Category: "Pod", Meaning: "a container that had been running ended with an error", Rank: rankShown, TellsHow: true},
	{ID: "crash-on-start", Category: "Pod", Meaning: "a container ends with an error shortly after each start", Rank: rankShown, TellsHow: true},
	{ID: "main-process-exits", Category: "Pod", Meaning: "a container that should keep running ends without an error, again and again", Rank: rankShown, TellsHow: true},
}

// startTime is how long a container runs at most when it is its start that fails.
const startTime = 60 * time.Second

// notExecutable matches what runtimes say about a command that is not there.
var notExecutable = newPattern(`executable file not found|no such file or directory|exec format error|permission denied|is a directory: unknown|no command specified`)

// containerCrashed finds containers that end with an error. Those of a Pod that was stopped
// as a whole, as by an eviction, those that a Job ends when its time is up, and
// those killed for memory are left to the rules for these.
func containerCrashed(f *Facts) []Finding {
	var out []Finding
	for c := range f.failingContainers() {
		end := c.lastEnd()
		if end == nil && !isLooping(c) || c.pod.Object.Status.Reason != "" || f.stoppedByJob(end) || end != nil && (killedForMemory(f, c, end) || end.ExitCode == 0) {
			continue
		}
		out = append(out, crashFinding(f, c, end))
	}
	return out
}

func isLooping(c container) bool {
	reason, _ := c.waitingReason()
	return reason == "CrashLoopBackOff"
}

func crashFinding(f *Facts, c container, end *corev1.ContainerStateTerminated) Finding {
	n := Finding{
		Cause: "container-crash", Object: f.Mend(), Confidence: nightcrier.High,
		WrongIf: "the process ends as asked, because something outside kills it or what it depends on is away",
		Test:    logsTest(c),
		Actions: crashActions(f),
	}
	if end == nil { // the kubelet has already forgotten the end
		reason, message := c.waitingReason()
		n.Cause, n.Confidence = "crash-on-start", nightcrier.Medium
		n.Summary = fmt.Sprintf("%s ends again and again.", c.describeIn(f))
		n.Observed = []Observation{{
			Text:  fmt.Sprintf("%s waits: %s", c, reason),
			Quote: message, Ref: c.pod.Ref,
		}}
		return n.withLog(f, c)
	}
	n.Observed = []Observation{c.sawEnd(end)}
	switch {
	case neverRan(end):
		n.Cause = startCause(end.Message)
		n.Summary = fmt.Sprintf("%s cannot start: %s (%s).", c.describeIn(f), causeOf(n.Cause).Meaning, text.CutLine(cmp.Or(end.Message, exitMeaning(end.ExitCode)), maxQuote))
		n.Actions = commandActions
		if n.Cause == "image-platform-mismatch" {
			n.Actions = platformActions
		}
		return n
	case end.ExitCode == 127 || end.ExitCode == 126:
		n.Cause = "command-not-found"
		n.Summary = fmt.Sprintf("%s cannot start: exit code %d%s (%s).", c.describeIn(f), end.ExitCode, exitMeaning(end.ExitCode), c.commandLine())
		n.Actions = commandActions
		return n.withLog(f, c)
	case end.FinishedAt.Sub(end.StartedAt.Time) <= startTime:
		n.Cause = "crash-on-start"
	}
	n.Summary = fmt.Sprintf("%s ends with exit code %d%s (%s).",
		c.describeIn(f), end.ExitCode, exitMeaning(end.ExitCode), text.CountNoun(int(c.status.RestartCount), "restart"))
	return n.withLog(f, c)
}

// neverRan reports whether the runtime could not run the container at all.
func neverRan(end *corev1.ContainerStateTerminated) bool {
	return slices.Contains([]string{"StartError", "ContainerCannotRun", "RunContainerError"}, end.Reason)
}

// commandLine is what the container is started with.
func (c container) commandLine() string {
	line := text.CutLine(strings.Join(slices.Concat(c.spec.Command, c.spec.Args), " "), 120)
	if line == "" {
		return "the image's own command"
	}
	return "command: " + line
}

// sawEnd is how the container last ended.
func (c container) sawEnd(end *corev1.ContainerStateTerminated) Observation {
	text := fmt.Sprintf("%s ended with exit code %d", c, end.ExitCode)
	quote := fmt.Sprintf("exitCode=%d", end.ExitCode)
	if end.Reason != "" {
		text += ", reason " + end.Reason
		quote += ", reason=" + end.Reason
	}
	if !end.FinishedAt.IsZero() {
		text += ", at " + end.FinishedAt.UTC().Format(time.RFC3339)
	}
	if c.status.RestartCount > 0 {
		text += fmt.Sprintf(", restart count %d", c.status.RestartCount)
	}
	if end.Message != "" {
		quote = end.Message
	}
	return Observation{Text: text, Quote: quote, Ref: c.pod.Ref}
}

// withLog adds the line of the log that says most, to the facts and the
// summary. Without one, and without a last message, why it ended is not known.
func (n Finding) withLog(f *Facts, c container) Finding {
	l, ok := f.logOf(c)
	if !ok {
		if end := c.lastEnd(); end == nil || end.Message == "" {
			n.Confidence = nightcrier.Medium
		}
		return n
	}
	line := text.CutLine(errorLine(l.Text), maxQuote)
	if t, ok := f.reasonInLog(c); ok {
		line = t.line
	}
	n.Observed = append(n.Observed, sawLog(c, l, line))
	n.Summary = strings.TrimSuffix(n.Summary, ".") + "; its log says: " + line
	if farSide.MatchString(line) {
		n.Actions = append(dependencyActions(), n.Actions...)
	}
	return n
}

// sawLog is a line of a container's log.
func sawLog(c container, l LogExcerpt, line string) Observation {
	which, flag := "log", ""
	if l.Previous {
		which, flag = "previous log", " --previous"
	}
	return Observation{
		Text:  fmt.Sprintf("the %s of %s says what it failed on", which, c),
		Quote: line,
		Ref:   Ref{Evidence: l.Evidence, Source: cmp.Or(l.source, "kubectl logs "+l.Pod+" -c "+l.Container+namespaceFlag(l.Namespace)+flag)},
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

func crashActions(f *Facts) []Step {
	return []Step{
		{Action: "Read the last lines of the previous log and mend what they name in " + f.Mend().String(),
			Do: doReadLog, Outcome: "the container starts and stays up", Risk: "none while reading"},
		{Action: "Roll back if it began with the last rollout", Do: doUndo, Outcome: "the version that ran before is back", Risk: "loses what the rollout brought"},
		{Action: "Check what it depends on: configuration, databases, other services", Outcome: "tells a fault of its own from one of its surroundings", Risk: "none: read only"},
	}
}

// endsAgain reports whether a container that is always restarted ends again and
// again, also when it has just been started or has just ended.
func (c container) endsAgain(now time.Time) bool {
	policy := c.pod.Object.Spec.RestartPolicy
	if isLooping(c) {
		return true
	}
	if policy != "" && policy != corev1.RestartPolicyAlways || c.status.RestartCount < oftenRestarts || c.hasRecovered(now) {
		return false
	}
	end := c.lastEnd()
	return c.status.State.Terminated != nil || end.FinishedAt.Sub(end.StartedAt.Time) < settled
}

// endedAlone finds containers that end without an error and are started again
// and again, as when the main process goes to the background.
func endedAlone(f *Facts) []Finding {
	var out []Finding
	for c := range f.allContainers() {
		end := c.lastEnd()
		if f.ofJob() || f.isPast(c.pod) || c.isInit() || end == nil || end.ExitCode != 0 || !c.endsAgain(f.Now) {
			continue
		}
		out = append(out, Finding{
			Cause: "main-process-exits", Object: f.Mend(), Confidence: nightcrier.High,
			Summary:  fmt.Sprintf("%s ends by itself with exit code 0 and is restarted for ever.", c.describeIn(f)),
			Observed: []Observation{c.sawEnd(end)},
			WrongIf:  "it ends because something outside asks it to",
			Test:     logsTest(c),
			Actions: []Step{
				{Action: "Keep the main process in the foreground, or run the work as a Job", Do: doEdit, Outcome: "no more restarts", Risk: "needs a new rollout"},
			},
		}.withLog(f, c))
	}
	return out
}
