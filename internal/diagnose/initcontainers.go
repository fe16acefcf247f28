package diagnose

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/text"
)

var initContainerRules = area{of: []Rule{initStuck, sidecarTrouble}}

var initContainerCauses = []Cause{
	{ID: "init-container-stuck", Category: "Pod", Meaning: "an init container runs on and on, so the Pod's own containers never start", Rank: rankShown + 1},
	{ID: "sidecar-blocks-job", Category: "Pod", Meaning: "the Job's own container is done, but a sidecar runs on, so the Job never completes", Rank: rankStated},
	{ID: "sidecar-not-ready", Category: "Pod", Meaning: "a sidecar is not ready and keeps the whole Pod from traffic", Rank: rankShown - 4},
}

// How long an init container may take before it counts as stuck: short when it
// says that it waits for something, long when it may be at work.
const (
	waitsFor = 2 * time.Minute
	worksFor = 30 * time.Minute
)

// awaits matches the words and commands of init containers that wait for
// something else.
var awaits = newPattern(`(?i)\bwait(ing|s)?\b|\buntil\b|not (yet )?(ready|available|reachable|up)|retry|sleep|\bnc -z|nslookup|pg_isready|can'?t resolve|bad address|refused|timed out|wait-for|waitfor|dockerize`)

// initStuck finds Pods whose init container runs and does not end.
func initStuck(f *Facts) []Finding {
	var out []Finding
	for c := range f.failingContainers() {
		running := c.status.State.Running
		if !c.isInit() || c.isSidecar() || running == nil {
			continue
		}
		since := running.StartedAt.Time
		if since.IsZero() {
			since = c.pod.Object.CreationTimestamp.Time
		}
		evidence, waits := f.waitsFor(c)
		if ran := f.Now.Sub(since); ran > worksFor || waits && ran > waitsFor {
			out = append(out, f.stuckInit(c, ran, evidence))
		}
	}
	return out
}

func (c container) isInit() bool {
	return slices.ContainsFunc(c.pod.Object.Spec.InitContainers, func(s corev1.Container) bool { return s.Name == c.status.Name })
}

// isSidecar reports whether it is one by its definition: an init container that
// is always restarted.
func (c container) isSidecar() bool {
	return c.isInit() && c.spec.RestartPolicy != nil && *c.spec.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// waitsFor is what shows that an init container waits for something.
func (f *Facts) waitsFor(c container) (Observation, bool) {
	if l, ok := f.logOf(c); ok {
		line := text.CutLine(lastLine(l.Text), maxQuote)
		if t, ok := f.reasonInLog(c); ok {
			line = t.line
		}
		if awaits.MatchString(line) || farSide.MatchString(line) {
			return sawLog(c, l, line), true
		}
	}
	for _, w := range slices.Concat(c.spec.Command, c.spec.Args) {
		if awaits.MatchString(text.KeepBytes(w, 4096)) {
			return Observation{Text: c.String() + " waits by its command", Quote: text.CutLine(w, maxQuote), Ref: c.pod.Ref}, true
		}
	}
	return Observation{}, false
}

func (f *Facts) stuckInit(c container, ran time.Duration, evidence Observation) Finding {
	n := Finding{
		Cause: "init-container-stuck", Object: f.Mend(), Confidence: nightcrier.Medium,
		Summary: fmt.Sprintf("Init %s of %s has been running for %s, so the Pod does not start", c.nameAfter("container"), f.Mend(), ran.Round(time.Minute)),
		Observed: []Observation{{
			Text:  fmt.Sprintf("init %s runs since %s", c, f.Now.Add(-ran).UTC().Format(time.RFC3339)),
			Quote: f.Now.Add(-ran).UTC().Format(time.RFC3339), Ref: c.pod.Ref,
		}},
		WrongIf: "it is at work and will end",
		Test:    testByLogs(c).decidesBetween("the last lines show it waiting", "the last lines show progress"),
		Actions: []Step{
			{Action: "Mend what the init container waits for", Outcome: "it ends and the Pod starts", Risk: "none for this Pod"},
			{Action: "Give the wait a time limit, and say in its log what it waits for", Do: doEdit, Outcome: "the next such wait is seen at once", Risk: "needs a new rollout"},
		},
	}
	if evidence.Quote != "" {
		n.Confidence = nightcrier.High
		n.Summary += ": it waits (" + evidence.Quote + ")"
		n.Observed = append(n.Observed, evidence)
	}
	n.DependsOn = f.Scene.waitedFor(c, evidence.Quote)
	if len(n.DependsOn) == 0 {
		n.Summary += f.missingWait(c, evidence.Quote)
	}
	n.Summary += "."
	return n
}

// hosts matches words of a script that may be names of Services.
var hosts = newPattern(`[A-Za-z0-9][A-Za-z0-9.-]{0,200}[A-Za-z0-9]`)

// waitedFor are the Services that the words of an init container name.
func (s *Scene) waitedFor(c container, line string) []nightcrier.Object {
	var out []nightcrier.Object
	said := line
	for _, v := range s.settingsOf(c) {
		said += "\n" + text.KeepBytes(v.value, 4096)
	}
	for _, w := range hosts.FindAllString(said, 200) {
		svc := s.serviceAt(c.pod.Object.Namespace, endpoint{host: w})
		if svc == nil {
			continue
		}
		o := nightcrier.Object{Kind: "Service", Namespace: svc.Object.Namespace, Name: svc.Object.Name}
		if !slices.Contains(out, o) {
			out = append(out, o)
		}
	}
	return out
}

// missingWait says that what is waited for does not exist.
func (f *Facts) missingWait(c container, line string) string {
	e, ok := endpointIn(line)
	for _, w := range slices.Concat(c.spec.Command, c.spec.Args) {
		if !ok {
			e, ok = waitTarget(w)
		}
	}
	if !ok || !e.missingIn(f.Scene, c.pod) {
		return ""
	}
	return f.Scene.noSuchService(c.pod.Object.Namespace, e)
}

var waitCommand = newPattern(`(?:nslookup|nc(?: -\w+)*|getent hosts|ping(?: -\w+(?: \d+)?)*|pg_isready -h|mysqladmin ping -h|redis-cli -h) ` + hostPattern + `(?:[ :](\d{1,5}))?`)

// waitTarget is what a script waits for.
func waitTarget(script string) (endpoint, bool) {
	if m := waitCommand.FindStringSubmatch(text.KeepBytes(script, 4096)); m != nil {
		return endpoint{host: m[1], port: portOf(m[2])}, true
	}
	return endpointIn(text.KeepBytes(script, 4096))
}

// knownSidecars are names of containers that stand beside the one that does the
// work.
var knownSidecars = newPattern(`(?i)sidecar|^(istio|linkerd|kuma|consul|dapr|envoy)[-d]?|cloud-?sql-?proxy|vault-agent|fluent|filebeat|promtail|vector|otel|telegraf|exporter|log(ger|ging|-?shipper)|^proxy$|-proxy$|-agent$|config-reloader|oauth2`)

// besideMain reports whether the container is a sidecar, by its definition or by
// its name, of a Pod that has another.
func (c container) besideMain() bool {
	if c.isSidecar() {
		return true
	}
	main := c.pod.Object.Annotations["kubectl.kubernetes.io/default-container"]
	return !c.isInit() && len(c.pod.Object.Spec.Containers) > 1 && c.status.Name != main && knownSidecars.MatchString(c.status.Name)
}

// sidecarTrouble finds Pods that only their sidecar keeps from being ready, and
// Jobs that only their sidecar keeps from being complete.
func sidecarTrouble(f *Facts) []Finding {
	var out []Finding
	for i := range f.Pods {
		p := &f.Pods[i]
		if f.isPast(p) {
			continue
		}
		all := podContainers(p)
		if f.ofJob() {
			out = append(out, f.blockedJob(all)...)
			continue
		}
		out = append(out, f.unreadySidecar(all)...)
	}
	return out
}

func (f *Facts) unreadySidecar(all []container) []Finding {
	var bad []container
	for _, c := range all {
		if !c.status.Ready && !c.isDone() {
			bad = append(bad, c)
		}
	}
	if len(bad) != 1 || !bad[0].besideMain() || !bad[0].unreadyLong(f.Now) {
		return nil
	}
	c := bad[0]
	return []Finding{{
		Cause: "sidecar-not-ready", Object: f.Mend(), Confidence: nightcrier.High, Weight: 10,
		Summary:  fmt.Sprintf("Sidecar %s of %s is not ready, so the Pod gets no traffic although its other containers are well.", c.status.Name, f.Mend()),
		Observed: []Observation{{Text: c.String() + " is not ready, the others are", Quote: c.status.Name, Ref: c.pod.Ref}},
		WrongIf:  "the sidecar is still starting",
		Test:     testByGet(c.pod.Object.Namespace, "pod", c.pod.Object.Name).decidesBetween("the sidecar alone is not ready", "it is ready, or others are not"),
		Actions: []Step{
			{Action: "Read the sidecar's log and its readiness probe, and mend what keeps it", Do: doReadLog, Outcome: "the Pod gets traffic again", Risk: "none while reading"},
			{Action: "Compare the sidecar's version and injection with Pods that are ready", Outcome: "tells a fault of the mesh from one of this Pod", Risk: "none: read only"},
		},
	}}
}

// blockedJob finds a Pod of a Job whose first container is done while another
// runs on.
func (f *Facts) blockedJob(all []container) []Finding {
	var done, runs *container
	for i, c := range all {
		end := c.status.State.Terminated
		switch {
		case c.isInit():
		case end != nil && end.ExitCode == 0 && f.Now.Sub(end.FinishedAt.Time) > waitsFor:
			done = &all[i]
		case c.status.State.Running != nil:
			runs = &all[i]
		}
	}
	if done == nil || runs == nil {
		return nil
	}
	n := Finding{
		Cause: "sidecar-blocks-job", Object: f.Mend(), Confidence: nightcrier.High,
		Summary:  fmt.Sprintf("%s cannot complete: container %s is done, but container %s runs on.", f.Mend(), done.status.Name, runs.status.Name),
		Observed: []Observation{done.sawEnd(done.status.State.Terminated), {Text: runs.String() + " is still running", Quote: runs.status.Name, Ref: runs.pod.Ref}},
		WrongIf:  "the container that runs on has work of its own to finish",
		Test:     testByGet(runs.pod.Object.Namespace, "pod", runs.pod.Object.Name).decidesBetween("one container is completed and the other runs", "all have ended"),
		Actions: []Step{
			{Action: "Make the sidecar an init container with restartPolicy Always, or let the work end it", Do: doEdit, Outcome: "the Job completes when its work is done", Risk: "needs a new Job"},
		},
	}
	if !runs.besideMain() {
		n.Confidence = nightcrier.Medium
	}
	return []Finding{n}
}
