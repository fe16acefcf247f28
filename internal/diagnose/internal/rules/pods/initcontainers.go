package pods

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scene"
	"nightcrier.dev/nightcrier/internal/text"
)

var initContainerRules = scene.Area{Name: "initcontainer", Rules: []scene.Rule{initStuck, sidecarTrouble}, Causes: initContainerCauses}

var initContainerCauses = []scene.Cause{
	{ID: "init-container-stuck", Category: "Pod", Meaning: "an init container runs on and on, so the Pod's own containers never start", Rank: scene.RankShown + 1, Symptom: true},
	{ID: "sidecar-blocks-job", Category: "Pod", Meaning: "the Job's own container is done, but a sidecar runs on, so the Job never completes", Rank: scene.RankStated},
	{ID: "sidecar-not-ready", Category: "Pod", Meaning: "a sidecar is not ready and keeps the whole Pod from traffic", Rank: scene.RankShown - 4, Symptom: true},
}

// How long an init container may take before it counts as stuck: short when it
// says that it waits for something, long when it may be at work.
const (
	waitsFor = 2 * time.Minute
	worksFor = 30 * time.Minute
)

// awaits matches the words and commands of init containers that wait for
// something else.
var awaits = scene.NewPattern(`(?i)\bwait(ing|s)?\b|\buntil\b|not (yet )?(ready|available|reachable|up)|retry|sleep|\bnc -z|nslookup|pg_isready|can'?t resolve|bad address|refused|timed out|wait-for|waitfor|dockerize`)

// initStuck finds Pods whose init container runs and does not end.
func initStuck(f *scene.Facts) []scene.Finding {
	var out []scene.Finding
	for c := range f.FailingContainers() {
		running := c.Status.State.Running
		if !isInit(c) || isSidecar(c) || running == nil {
			continue
		}
		since := running.StartedAt.Time
		if since.IsZero() {
			since = c.Pod.Object.CreationTimestamp.Time
		}
		evidence, waits := waitsForOther(f, c)
		if ran := f.Now.Sub(since); ran > worksFor || waits && ran > waitsFor {
			out = append(out, stuckInit(f, c, ran, evidence))
		}
	}
	return out
}

func isInit(c scene.Container) bool {
	return slices.ContainsFunc(c.Pod.Object.Spec.InitContainers, func(s corev1.Container) bool { return s.Name == c.Status.Name })
}

// isSidecar reports whether it is one by its definition: an init container that
// is always restarted.
func isSidecar(c scene.Container) bool {
	return isInit(c) && c.Spec.RestartPolicy != nil && *c.Spec.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// waitsForOther is what shows that an init container waits for something.
func waitsForOther(f *scene.Facts, c scene.Container) (scene.Observation, bool) {
	if l, ok := f.FindLog(c); ok {
		line := text.CutMiddle(scene.LastLine(l.Text), scene.MaxQuote)
		if t, ok := reasonInLog(f, c); ok {
			line = t.line
		}
		if awaits.MatchString(line) || farSide.MatchString(line) {
			return ObserveLog(c, l, line), true
		}
	}
	for _, w := range slices.Concat(c.Spec.Command, c.Spec.Args) {
		if awaits.MatchString(text.KeepBytes(w, 4096)) {
			return scene.Observation{Text: c.String() + " waits by its command", Quote: text.CutMiddle(w, scene.MaxQuote), Ref: c.Pod.Ref}, true
		}
	}
	return scene.Observation{}, false
}

func stuckInit(f *scene.Facts, c scene.Container, ran time.Duration, evidence scene.Observation) scene.Finding {
	n := scene.Finding{
		Cause: "init-container-stuck", Object: f.Mend(), Confidence: nightcrier.Medium,
		Summary: fmt.Sprintf("Init %s of %s has been running for %s, so the Pod does not start", c.NameAfter("container"), f.Mend(), ran.Round(time.Minute)),
		Observed: []scene.Observation{{
			Text:  fmt.Sprintf("init %s runs since %s", c, f.Now.Add(-ran).UTC().Format(time.RFC3339)),
			Quote: f.Now.Add(-ran).UTC().Format(time.RFC3339), Ref: c.Pod.Ref,
		}},
		WrongIf: "it is at work and will end",
		Test:    scene.LogsTest(c).DecidesBetween("the last lines show it waiting", "the last lines show progress"),
		Actions: []scene.Step{
			{Action: "Mend what the init container waits for", Outcome: "it ends and the Pod starts", Risk: "none for this Pod"},
			{Action: "Give the wait a time limit, and say in its log what it waits for", Do: scene.DoEdit, Outcome: "the next such wait is seen at once", Risk: "needs a new rollout"},
		},
	}
	if evidence.Quote != "" {
		n.Confidence = nightcrier.High
		n.Summary += ": it waits (" + evidence.Quote + ")"
		n.Observed = append(n.Observed, evidence)
	}
	n.DependsOn = waitedFor(f.Scene, c, evidence.Quote)
	if len(n.DependsOn) == 0 {
		n.Why = missingWait(f, c, evidence.Quote)
		n.Summary += n.Why
	}
	n.Summary += "."
	return n
}

// hosts matches words of a script that may be names of Services.
var hosts = scene.NewPattern(`[A-Za-z0-9][A-Za-z0-9.-]{0,200}[A-Za-z0-9]`)

// waitedFor are the Services that the words of an init container name.
func waitedFor(s *scene.Scene, c scene.Container, line string) []nightcrier.Object {
	var out []nightcrier.Object
	said := line
	for _, v := range settingsOf(s, c) {
		said += "\n" + text.KeepBytes(v.value, 4096)
	}
	for _, w := range hosts.FindAllString(said, 200) {
		svc := serviceAt(s, c.Pod.Object.Namespace, endpoint{host: w})
		if svc == nil {
			continue
		}
		o := nightcrier.Object{Kind: "Service", Namespace: svc.Object.Namespace, Name: svc.Object.Name}
		if !slices.Contains(out, o) {
			out = append(out, o)
		}
	}
	return scene.UniteObjects(out, jobsNamed(s, c, said))
}

// jobsNamed are the Jobs whose names stand in the words of an init container, each as a word
// of its own.
func jobsNamed(s *scene.Scene, c scene.Container, said string) []nightcrier.Object {
	words := hosts.FindAllString(said, 400)
	var out []nightcrier.Object
	for _, j := range s.Jobs {
		if j.Object.Namespace == c.Pod.Object.Namespace && slices.Contains(words, j.Object.Name) {
			out = append(out, s.WorkloadAbove("Job", &j.Object))
		}
	}
	return out
}

// missingWait says that what is waited for does not exist.
func missingWait(f *scene.Facts, c scene.Container, line string) string {
	e, ok := endpointIn(line)
	for _, w := range slices.Concat(c.Spec.Command, c.Spec.Args) {
		if !ok {
			e, ok = waitTarget(w)
		}
	}
	if !ok || !e.missingIn(f.Scene, c.Pod) {
		return ""
	}
	return noSuchService(f.Scene, c.Pod.Object.Namespace, e)
}

var waitCommand = scene.NewPattern(`(?:nslookup|nc(?: -\w+)*|getent hosts|ping(?: -\w+(?: \d+)?)*|pg_isready -h|mysqladmin ping -h|redis-cli -h) ` + hostPattern + `(?:[ :](\d{1,5}))?`)

// waitTarget is what a script waits for.
func waitTarget(script string) (endpoint, bool) {
	if m := waitCommand.FindStringSubmatch(text.KeepBytes(script, 4096)); m != nil {
		return endpoint{host: m[1], port: portOf(m[2])}, true
	}
	return endpointIn(text.KeepBytes(script, 4096))
}

// knownSidecars are names of containers that stand beside the one that does the
// work.
var knownSidecars = scene.NewPattern(`(?i)sidecar|^(istio|linkerd|kuma|consul|dapr|envoy)[-d]?|cloud-?sql-?proxy|vault-agent|fluent|filebeat|promtail|vector|otel|telegraf|exporter|log(ger|ging|-?shipper)|^proxy$|-proxy$|-agent$|config-reloader|oauth2`)

// besideMain reports whether the container is a sidecar, by its definition or by
// its name, of a Pod that has another.
func besideMain(c scene.Container) bool {
	if isSidecar(c) {
		return true
	}
	main := c.Pod.Object.Annotations["kubectl.kubernetes.io/default-container"]
	return !isInit(c) && len(c.Pod.Object.Spec.Containers) > 1 && c.Status.Name != main && knownSidecars.MatchString(c.Status.Name)
}

// sidecarTrouble finds Pods that only their sidecar keeps from being ready, and
// Jobs that only their sidecar keeps from being complete.
func sidecarTrouble(f *scene.Facts) []scene.Finding {
	var out []scene.Finding
	for i := range f.Pods {
		p := &f.Pods[i]
		if f.IsPast(p) {
			continue
		}
		all := scene.PodContainers(p)
		if f.IsOfJob() {
			out = append(out, blockedJob(f, all)...)
			continue
		}
		out = append(out, unreadySidecar(f, all)...)
	}
	return out
}

func unreadySidecar(f *scene.Facts, all []scene.Container) []scene.Finding {
	var bad []scene.Container
	for _, c := range all {
		if !c.Status.Ready && !c.IsDone() {
			bad = append(bad, c)
		}
	}
	if len(bad) != 1 || !besideMain(bad[0]) || !unreadyLong(bad[0], f.Now) {
		return nil
	}
	c := bad[0]
	return []scene.Finding{{
		Cause: "sidecar-not-ready", Object: f.Mend(), Confidence: nightcrier.High, Weight: 10,
		Summary:  fmt.Sprintf("Sidecar %s of %s is not ready, so the Pod gets no traffic although its other containers are well.", c.Status.Name, f.Mend()),
		Observed: []scene.Observation{{Text: c.String() + " is not ready, the others are", Quote: c.Status.Name, Ref: c.Pod.Ref}},
		WrongIf:  "the sidecar is still starting",
		Test:     scene.GetTest(c.Pod.Object.Namespace, "pod", c.Pod.Object.Name).DecidesBetween("the sidecar alone is not ready", "it is ready, or others are not"),
		Actions: []scene.Step{
			{Action: "Read the sidecar's log and its readiness probe, and mend what keeps it", Do: scene.DoReadLog, Outcome: "the Pod gets traffic again", Risk: "none while reading"},
			{Action: "Compare the sidecar's version and injection with Pods that are ready", Outcome: "tells a fault of the mesh from one of this Pod", Risk: "none: read only"},
		},
	}}
}

// blockedJob finds a Pod of a Job whose first container is done while another
// runs on.
func blockedJob(f *scene.Facts, all []scene.Container) []scene.Finding {
	var done, runs *scene.Container
	for i, c := range all {
		end := c.Status.State.Terminated
		switch {
		case isInit(c):
		case end != nil && end.ExitCode == 0 && f.Now.Sub(end.FinishedAt.Time) > waitsFor:
			done = &all[i]
		case c.Status.State.Running != nil:
			runs = &all[i]
		}
	}
	if done == nil || runs == nil {
		return nil
	}
	n := scene.Finding{
		Cause: "sidecar-blocks-job", Object: f.Mend(), Confidence: nightcrier.High,
		Summary:  fmt.Sprintf("%s cannot complete: container %s is done, but container %s runs on.", f.Mend(), done.Status.Name, runs.Status.Name),
		Observed: []scene.Observation{done.ObserveEnd(done.Status.State.Terminated), {Text: runs.String() + " is still running", Quote: runs.Status.Name, Ref: runs.Pod.Ref}},
		WrongIf:  "the container that runs on has work of its own to finish",
		Test:     scene.GetTest(runs.Pod.Object.Namespace, "pod", runs.Pod.Object.Name).DecidesBetween("one container is completed and the other runs", "all have ended"),
		Actions: []scene.Step{
			{Action: "Make the sidecar an init container with restartPolicy Always, or let the work end it", Do: scene.DoEdit, Outcome: "the Job completes when its work is done", Risk: "needs a new Job"},
		},
	}
	if !besideMain(*runs) {
		n.Confidence = nightcrier.Medium
	}
	return []scene.Finding{n}
}
