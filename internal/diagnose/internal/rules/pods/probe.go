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

var gateRules = scene.Area{Name: "gate", Rules: []scene.Rule{readinessGates}, Causes: gateCauses}

var gateCauses = []scene.Cause{
	{ID: "readiness-gate-unmet", Category: "Pod", Meaning: "a Pod's containers are ready, but a readiness gate that something outside sets keeps it from traffic", Rank: scene.RankShown - 4, Symptom: true},
}

// readinessGates finds Pods whose containers are ready and have been, and which
// still count as unready because nobody has set the condition of a readiness gate.
func readinessGates(f *scene.Facts) []scene.Finding {
	if f.Hearsay {
		return nil
	}
	for i := range f.Pods {
		p := &f.Pods[i]
		gate, unmet := unmetGate(&p.Object)
		containers := podCondition(&p.Object, corev1.ContainersReady)
		if !unmet || f.IsPast(p) || scene.IsPodReady(&p.Object) || containers == nil || containers.Status != corev1.ConditionTrue || !scene.HasLasted(containers.LastTransitionTime, f.Now, scene.TakeUpTime) {
			continue
		}
		return []scene.Finding{gateUnmet(f, p, text.CutMiddle(gate, scene.MaxQuote))}
	}
	return nil
}

// unmetGate is the first readiness gate of a Pod whose condition is not True.
func unmetGate(p *corev1.Pod) (string, bool) {
	for _, g := range p.Spec.ReadinessGates {
		if c := podCondition(p, g.ConditionType); c == nil || c.Status != corev1.ConditionTrue {
			return string(g.ConditionType), true
		}
	}
	return "", false
}

func podCondition(p *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range p.Status.Conditions {
		if p.Status.Conditions[i].Type == kind {
			return &p.Status.Conditions[i]
		}
	}
	return nil
}

func gateUnmet(f *scene.Facts, p *scene.Read[corev1.Pod], gate string) scene.Finding {
	n := scene.Finding{
		Cause: "readiness-gate-unmet", Object: f.Mend(), Confidence: nightcrier.High,
		Summary: fmt.Sprintf("The containers of %s are ready, but its Pods get no traffic: nothing has set the condition of their readiness gate %s to True.", f.Mend(), gate),
		Observed: []scene.Observation{
			{Text: fmt.Sprintf("Pod %s has the readiness gate %s, which is not met", p.Object.Name, gate), Quote: gate, Ref: p.Ref},
			{Text: "Pod " + p.Object.Name + " has all containers ready", Quote: "type=ContainersReady", Ref: p.Ref},
		},
		WrongIf: "whoever sets the condition is about to, as a load balancer that still registers the Pod",
		Test: scene.GetTest(p.Object.Namespace, "pod", p.Object.Name).
			DecidesBetween("condition "+gate+" is missing or not True while ContainersReady is True", "it is True"),
		Actions: []scene.Step{
			{Action: "Find the controller that sets " + gate + " and see whether it runs and knows the Pods", Outcome: "names what the Pods wait for", Risk: "none: read only"},
			{Action: "Take the gate out of the template of " + f.Mend().String(), Do: scene.DoEdit, Outcome: "new Pods are ready when their containers are", Risk: "goes around what the gate is for"},
		},
	}
	if c := podCondition(&p.Object, corev1.PodReady); c != nil && c.Reason == "ReadinessGatesNotReady" {
		n.Observed = append(n.Observed, scene.Observation{Text: "Pod " + p.Object.Name + " is not ready", Quote: c.Message, Ref: p.Ref})
	}
	return n
}

var probeRules = scene.Area{Name: "probe", Rules: []scene.Rule{probeFailed}, Causes: probeCauses}

var probeCauses = []scene.Cause{
	{ID: "liveness-probe-failing", Category: "Pod", Meaning: "a liveness probe fails, so the container is killed and restarted", Rank: rankTold, Symptom: true},
	{ID: "readiness-probe-failing", Category: "Pod", Meaning: "a readiness probe fails, so the Pod gets no traffic", Rank: scene.RankShown - 5, Symptom: true},
	{ID: "startup-probe-failing", Category: "Pod", Meaning: "a startup probe fails, so the container is killed before it counts as started", Rank: rankTold, Symptom: true},
}

// probe is one probe of a container, and what was heard of it.
type probe struct {
	kind  string // Liveness, Readiness or Startup
	cause string
	c     scene.Container
	spec  *corev1.Probe // nil when the Pod's specification was not read
	// said are the Events about it, the newest first, none when all are gone.
	said []scene.Observation
	// message is what the newest failure says, "" when nothing does.
	message string
}

// probes are those of a container, in the order in which a kubelet runs them.
func probes(c scene.Container) []probe {
	return []probe{
		{kind: "Startup", cause: "startup-probe-failing", c: c, spec: c.Spec.StartupProbe},
		{kind: "Liveness", cause: "liveness-probe-failing", c: c, spec: c.Spec.LivenessProbe},
		{kind: "Readiness", cause: "readiness-probe-failing", c: c, spec: c.Spec.ReadinessProbe},
	}
}

// probeFailed finds containers whose probes fail: a liveness or startup probe
// restarts the container, a readiness probe keeps traffic away. Events tell; where
// they are gone, the container's state does.
func probeFailed(f *scene.Facts) []scene.Finding {
	var out []scene.Finding
	for c := range f.AllContainers() {
		if f.IsPast(c.Pod) || f.JobFailedForGood() {
			continue
		}
		for _, p := range probes(c) {
			failing := collectProbeEvents(f, &p)
			if !failing && len(p.said) == 0 {
				failing = p.shownByState(f.Now)
			}
			if failing {
				out = append(out, failedProbe(f, p))
			}
		}
	}
	return out
}

// collectProbeEvents collects the fresh Events about p and reports whether they show that it
// fails. A liveness probe that merely fails is no cause: a process that is dying
// by itself fails it too. It is one once the container is killed for it, also while the next
// one still looks well.
func collectProbeEvents(f *scene.Facts, p *probe) (failing bool) {
	well := scene.IsPodWell(p.c.Pod, f.Now) // also while a kubelet is about to kill it
	for e := range f.EventsOf("Pod", p.c.Pod.Object.Name) {
		if !f.IsFresh(e) || !isMeantBy(p.c, e.Object) {
			continue
		}
		kills := e.Object.Reason == "Killing" && strings.Contains(e.Object.Message, "failed "+strings.ToLower(p.kind)+" probe")
		fails := e.Object.Reason == "Unhealthy" && strings.HasPrefix(e.Object.Message, p.kind+" probe ")
		if !kills && !fails {
			continue
		}
		p.said = append(p.said, scene.ObserveEvent(e))
		if fails && p.message == "" {
			p.message = e.Object.Message
		}
		ago := f.Now.Sub(scene.EventLastSeen(&e.Object))
		switch {
		case fails && f.Claimed == nightcrier.FaultProbe && p.isFailingStill(f, ago) && !p.diesByItself():
			failing = true
		case p.kind == "Readiness":
			failing = failing || !well && isUnready(p.c, f.Now, p.spec) || p.isUnreadyAtTimes(e.Object, f.Now)
		case fails && p.isKillDue(e.Object) && (f.Hearsay || ago < doomedFor), kills && (!well || ago < scene.SettleTime):
			failing = true
		}
	}
	return failing
}

// isFailingStill reports whether nothing better can have been heard since the last failure:
// a kubelet tells of each one, and of no success.
func (p probe) isFailingStill(f *scene.Facts, ago time.Duration) bool {
	return f.Hearsay || ago <= scene.ProbeSilence(p.spec)
}

// isUnreadyAtTimes reports whether the container was ready, ceased to be for its probe, and is
// again since shortly before: that is the good half of a fault that comes and goes. What
// failed only while it started has merely started slowly.
func (p probe) isUnreadyAtTimes(e corev1.Event, now time.Time) bool {
	running := p.c.Status.State.Running
	if !p.c.Status.Ready || running == nil || running.StartedAt.IsZero() || e.FirstTimestamp.IsZero() || e.Count < p.threshold() {
		return false
	}
	readyAt := scene.PodReadyAt(&p.c.Pod.Object)
	return e.FirstTimestamp.Sub(running.StartedAt.Time) > 2*scene.ProbeAllowance(p.spec) &&
		readyAt.After(e.FirstTimestamp.Time) && now.Sub(readyAt) < scene.SettleTime
}

// isMeantBy reports whether an Event is about this container: it may name none.
func isMeantBy(c scene.Container, e corev1.Event) bool {
	path := e.InvolvedObject.FieldPath
	return path == "" || strings.Contains(path, "{"+c.Status.Name+"}")
}

// isUnready reports whether the container runs, is not ready, and has had the time
// that its probe gives it.
func isUnready(c scene.Container, now time.Time, spec *corev1.Probe) bool {
	st := c.Status.State
	if c.Status.Ready || st.Waiting != nil || st.Terminated != nil {
		return false
	}
	return st.Running == nil || st.Running.StartedAt.IsZero() || now.Sub(st.Running.StartedAt.Time) > scene.ProbeAllowance(spec)
}

// doomedFor is for how long a probe that failed too often and is not heard of again
// may still be about to have its container killed.
const doomedFor = time.Minute

// isKillDue reports a probe that has failed as often as a kubelet allows, of a
// process that does not end by itself: it is about to be killed for it.
func (p probe) isKillDue(e corev1.Event) bool {
	return e.Count >= p.threshold() && !p.diesByItself()
}

// threshold is how often the probe may fail in a row.
func (p probe) threshold() int32 {
	if p.spec == nil {
		return 3
	}
	return cmp.Or(p.spec.FailureThreshold, 3)
}

// diesByItself reports whether the process last ended with an error of its own.
func (p probe) diesByItself() bool {
	end := p.c.LastTermination()
	return end != nil && end.ExitCode != 0 && !killedFromOutside(end)
}

// killedFromOutside reports whether the container ended by a signal to end.
func killedFromOutside(end *corev1.ContainerStateTerminated) bool {
	return end.Reason != "OOMKilled" && (end.ExitCode == 137 || end.ExitCode == 143)
}

// shownByState reports whether the container's state alone shows that the probe
// fails: it runs and is long not ready, or it was killed again and again just when
// a kubelet gives up on the probe.
func (p probe) shownByState(now time.Time) bool {
	if p.spec == nil || p.c.HasRecovered(now) {
		return false
	}
	if p.kind == "Readiness" {
		started := p.c.Status.Started == nil || *p.c.Status.Started
		return p.c.Status.State.Running != nil && started && !endedWithError(p.c) && unreadyLong(p.c, now) && isUnready(p.c, now, p.spec)
	}
	if p.kind == "Liveness" && p.c.Spec.StartupProbe != nil {
		return false // which of the two it was cannot be told
	}
	end := p.c.LastTermination()
	if end == nil || p.c.Status.RestartCount < 2 || end.StartedAt.IsZero() || end.ExitCode != 0 && !killedFromOutside(end) {
		return false
	}
	ran := end.FinishedAt.Sub(end.StartedAt.Time)
	grace := 30 * time.Second
	if g := p.c.Pod.Object.Spec.TerminationGracePeriodSeconds; g != nil {
		grace = time.Duration(*g) * time.Second
	}
	period := time.Duration(cmp.Or(p.spec.PeriodSeconds, 10)) * time.Second
	slack := time.Duration(cmp.Or(p.spec.FailureThreshold, 3)*cmp.Or(p.spec.TimeoutSeconds, 1)) * time.Second
	due := scene.ProbeAllowance(p.spec)
	return ran > 5*time.Second && ran >= due-period-2*time.Second && ran <= due+slack+grace+10*time.Second
}

// failedProbe says which probe fails and, as far as it can be told, what is wrong
// with it.
func failedProbe(f *scene.Facts, p probe) scene.Finding {
	n := scene.Finding{
		Cause: p.cause, Object: f.Mend(), Confidence: nightcrier.Medium, Observed: p.said,
		WrongIf: "the probe only reports that the process is failing by itself",
		Test: scene.DescribeTest(nightcrier.Object{Kind: "Pod", Namespace: p.c.Pod.Object.Namespace, Name: p.c.Pod.Object.Name}).
			DecidesBetween("its newest events say the same, or its state does", "the probe succeeds"),
	}
	if len(n.Observed) == 0 {
		n.Observed = []scene.Observation{sawState(p.c)}
	}
	v := judgeProbe(f, p)
	n.Summary = fmt.Sprintf("%s: its %s probe%s fails%s", p.c.DescribeIn(f), strings.ToLower(p.kind), p.describeTarget(), v.text)
	if p.message != "" {
		n.Summary += " (" + p.message + ")"
	}
	n.Summary += "."
	n.Observed = append(n.Observed[:min(3, len(n.Observed))], v.seen...)
	n.DependsOn, n.Actions = v.dependsOn, mendProbe(f, p, v)
	if o, ok := saidUnready(f, p.c); ok && !v.proven && p.kind == "Readiness" {
		n.Why = o.Quote
		n.Summary = strings.TrimSuffix(n.Summary, ".") + "; its log says: " + o.Quote
		n.Observed = append(n.Observed, o)
		n.Actions = append([]scene.Step{{Action: "Mend what its log names: " + o.Quote, Do: scene.DoReadLog, Outcome: "the process calls itself ready", Risk: "none while reading"}}, n.Actions...)
	}
	if v.proven {
		n.Confidence, n.Rank, n.Why = nightcrier.High, rankTold+5, v.text
	}
	return n
}

// notReadyYet matches what a process says of why it does not call itself ready.
var notReadyYet = scene.NewPattern(`(?i)\b(?:not|cannot|can't|never|unable to) (?:yet )?(?:be(?:come)? |get )?(?:ready|healthy|in service)\b|(?:readiness|health)[ -]?check\b.{0,60}(?:fail|unhealthy|down|error)|\b(?:waiting|waits) (?:for|until|on)\b|\bnot (?:synced|initiali[sz]ed|connected|bootstrapped|joined)\b|\b(?:status|state)["=: ]+(?:DOWN|OUT_OF_SERVICE|UNHEALTHY)\b`)

// saidUnready is the last line of a running container's log that says why it is not ready.
func saidUnready(f *scene.Facts, c scene.Container) (scene.Observation, bool) {
	l, ok := currentLog(f, c)
	if !ok || c.Status.State.Running == nil {
		return scene.Observation{}, false
	}
	lines := strings.Split(strings.TrimSpace(l.Text), "\n")
	for _, line := range reverseLines(lines[max(0, len(lines)-scene.RecentLines):]) {
		line = text.KeepBytes(line, 4*scene.MaxQuote)
		if notReadyYet.MatchString(line) && !scene.StackFramePattern.MatchString(line) {
			return ObserveLog(c, l, text.CutMiddle(line, scene.MaxQuote)), true
		}
	}
	return scene.Observation{}, false
}

// mendProbe is what to do about a failing probe: where it is known what is wrong with
// it, that.
func mendProbe(f *scene.Facts, p probe, v opinion) []scene.Step {
	undo := scene.Step{Action: "Roll back if it began with the last rollout", Do: scene.DoUndo, Outcome: "the version that ran before is back", Risk: "loses what the rollout brought"}
	slow := scene.Step{Action: "Give it a startup probe or a longer delay if it starts slowly", Do: scene.DoEdit, Outcome: "it is not killed while it starts", Risk: "a process that hangs is noticed later"}
	if v.proven {
		return []scene.Step{{
			Action: fmt.Sprintf("Make the %s probe of %s and the process agree%s", strings.ToLower(p.kind), f.Mend(), v.text),
			Do:     scene.DoEdit, Outcome: "the probe succeeds", Risk: "makes the Pods anew; a probe that asks too little hides a process that hangs",
		}, undo}
	}
	check := scene.Step{
		Action:  "Check path, port and delays of the probe of " + f.Mend().String() + " against what the process serves and how long it starts",
		Outcome: "tells a wrong probe from a process that hangs", Risk: "none: read only",
	}
	if v.slow {
		return []scene.Step{slow, check, undo}
	}
	return []scene.Step{check, slow, undo}
}

// sawState is what the container's state shows of a probe.
func sawState(c scene.Container) scene.Observation {
	if end := c.LastTermination(); end != nil && c.Status.RestartCount > 0 {
		return c.ObserveEnd(end)
	}
	return scene.Observation{Text: c.String() + " runs and is not ready", Quote: "ready=false", Ref: c.Pod.Ref}
}

// describeTarget says what the probe asks.
func (p probe) describeTarget() string {
	switch s := p.spec; {
	case s == nil:
	case s.HTTPGet != nil:
		return fmt.Sprintf(" (%s %s on port %s)", cmp.Or(string(s.HTTPGet.Scheme), "HTTP"), cmp.Or(s.HTTPGet.Path, "/"), s.HTTPGet.Port.String())
	case s.TCPSocket != nil:
		return " (TCP port " + s.TCPSocket.Port.String() + ")"
	case s.GRPC != nil:
		return fmt.Sprintf(" (gRPC on port %d)", s.GRPC.Port)
	case s.Exec != nil:
		return " (command " + text.CutLine(strings.Join(s.Exec.Command, " "), 120) + ")"
	}
	return ""
}

// opinion is what is wrong with a probe.
type opinion struct {
	text string
	// proven is set when something else than the failure itself shows it.
	proven bool
	// slow is set when the process was killed while it started.
	slow      bool
	seen      []scene.Observation
	dependsOn []nightcrier.Object
}

// probeWords tell from a failure's message what is wrong; the first that matches
// counts. What is proven is proven by these words alone.
var probeWords = []struct {
	words  *scene.Pattern
	text   string
	proven bool
}{
	{scene.NewPattern(`(?i)(executable file not found|no such file or directory|: not found\b|exit(ed with)?( status| code)?:? 127)`), ": its command does not exist in the image", true},
	{scene.NewPattern(`(?i)statuscode: 404`), ": the process answers that there is no such path (HTTP 404)", true},
	{scene.NewPattern(`(?i)statuscode: (401|403|407)`), ": the process answers that the probe has no right to that path", true},
	{scene.NewPattern(`(?i)statuscode: 405`), ": the process does not take GET on that path (HTTP 405)", true},
	{scene.NewPattern(`(?i)server gave HTTP response to HTTPS client|first record does not look like a TLS handshake`), ": it asks by HTTPS, and the process speaks HTTP", true},
	{scene.NewPattern(`(?i)malformed HTTP response|statuscode: 400`), ": the process does not understand the request; it may speak HTTPS or another protocol", false},
	{scene.NewPattern(`(?i)does not implement the grpc health protocol|unknown service grpc\.health`), ": the process does not implement the gRPC health protocol", true},
	{scene.NewPattern(`(?i)service unhealthy|NOT_SERVING`), ": the process says that it is not serving", false},
	{scene.NewPattern(`(?i)statuscode: 5\d\d`), ": the process answers that it is not well", false},
	{scene.NewPattern(`(?i)deadline exceeded|timed? ?out|timeout|Client\.Timeout`), ": no answer in time", false},
	{scene.NewPattern(`(?i)no route to host|network is unreachable`), ": the Pod's address cannot be reached", false},
}

// judgeProbe tells what is wrong with a failing probe, from what it said, the
// container's ports, its settings and its log.
func judgeProbe(f *scene.Facts, p probe) opinion {
	if name, ok := p.unknownPortName(); ok {
		return opinion{text: ": it names port " + name + ", which the container does not have", proven: true}
	}
	for _, w := range probeWords {
		if w.words.MatchString(p.message) {
			v := opinion{text: w.text, proven: w.proven}
			if strings.HasPrefix(w.text, ": no answer in time") && p.spec != nil {
				v.text += fmt.Sprintf(" (timeoutSeconds %d)", cmp.Or(p.spec.TimeoutSeconds, 1))
			}
			return v
		}
	}
	refused := strings.Contains(p.message, "connection refused")
	if v, ok := onLoopback(f, p); ok && refused {
		return v
	}
	if port := p.port(); port != 0 && (refused || p.message == "") {
		if v, ok := otherPort(f, p, port); ok {
			return v
		}
	}
	v := opinion{}
	if refused {
		v.text = ": nothing listens there"
		if p.kind != "Readiness" && stillStarting(f, p.c) {
			v.slow = true
			v.text += fmt.Sprintf(" yet: it starts more slowly than the %s that the probe gives it", scene.ProbeAllowance(p.spec))
		}
	}
	return v
}

// loopback matches what a server says that listens where only its own Pod reaches it, and
// anyAddress what it says where others do too.
var (
	loopback   = scene.NewPattern(`(?i)\b(?:listen\w*|running|serving|started|bound|bind\w*|ready|available)\b[^\n]{0,80}?((?:127\.0\.0\.1|localhost|\[::1\]):\d{2,5})\b`)
	anyAddress = scene.NewPattern(`(?i)(?:0\.0\.0\.0|\[::\]|\*):\d{2,5}\b|network: +http`)
)

// onLoopback tells that the process listens on an address that nothing outside of its Pod
// reaches: neither a kubelet's probe nor a Service.
func onLoopback(f *scene.Facts, p probe) (opinion, bool) {
	l, ok := f.FindLog(p.c)
	if !ok || p.port() == 0 || anyAddress.MatchString(l.Text) || p.spec.HTTPGet != nil && p.spec.HTTPGet.Host != "" {
		return opinion{}, false
	}
	m := loopback.FindStringSubmatch(l.Text)
	if m == nil {
		return opinion{}, false
	}
	return opinion{
		text:   ": the process listens on " + m[1] + ", which only its own Pod reaches; it must listen on 0.0.0.0",
		proven: true, seen: []scene.Observation{ObserveLog(p.c, l, text.CutMiddle(m[0], scene.MaxQuote))},
	}, true
}

// stillStarting reports whether the container was killed while its log showed
// nothing but its start.
func stillStarting(f *scene.Facts, c scene.Container) bool {
	l, ok := f.FindLog(c)
	return ok && starting.MatchString(l.Text) && !scene.GraveWords.MatchString(l.Text)
}

var starting = scene.NewPattern(`(?i)\b(starting|initiali[sz]ing|booting|loading|warming|migrating|compiling|preparing)\b`)

// port is the number of the probe's port, 0 when it has none.
func (p probe) port() int32 {
	switch s := p.spec; {
	case s == nil:
	case s.HTTPGet != nil:
		return portNumber(p.c, s.HTTPGet.Port.StrVal, s.HTTPGet.Port.IntVal)
	case s.TCPSocket != nil:
		return portNumber(p.c, s.TCPSocket.Port.StrVal, s.TCPSocket.Port.IntVal)
	case s.GRPC != nil:
		return s.GRPC.Port
	}
	return 0
}

func portNumber(c scene.Container, name string, number int32) int32 {
	for _, p := range c.Spec.Ports {
		if name != "" && p.Name == name {
			return p.ContainerPort
		}
	}
	return number
}

// unknownPortName is the name that the probe calls its port by, when the
// container has none of that name.
func (p probe) unknownPortName() (string, bool) {
	name := ""
	switch s := p.spec; {
	case s == nil:
	case s.HTTPGet != nil:
		name = s.HTTPGet.Port.StrVal
	case s.TCPSocket != nil:
		name = s.TCPSocket.Port.StrVal
	}
	has := slices.ContainsFunc(p.c.Spec.Ports, func(cp corev1.ContainerPort) bool { return cp.Name == name })
	return name, name != "" && !has
}

// otherPort tells that the process listens on another port than the probe asks:
// by its log, by its settings, or by the ports that the container declares.
func otherPort(f *scene.Facts, p probe, port int32) (opinion, bool) {
	if l, ok := f.FindLog(p.c); ok {
		if line, others := portsHeard(l.Text); len(others) > 0 && !slices.Contains(others, port) {
			v := opinion{text: fmt.Sprintf(": nothing listens on port %d; the process listens on %s", port, joinPorts(others)), proven: true}
			v.seen = append(v.seen, ObserveLog(p.c, l, text.CutMiddle(line, scene.MaxQuote)))
			if s, set, ok := listenSetting(f.Scene, p.c); ok && slices.Contains(others, set) {
				v.text += ", set by " + s.text
				v.dependsOn = s.objects
			}
			return v, true
		}
	}
	if s, set, ok := listenSetting(f.Scene, p.c); ok && set != port {
		return opinion{
			text:   fmt.Sprintf(": %s makes the process listen on port %d, not %d", s.text, set, port),
			proven: true, dependsOn: s.objects,
			seen: []scene.Observation{{Text: p.c.String() + " is told its port by " + s.text, Quote: fmt.Sprint(set), Ref: s.ref}},
		}, true
	}
	var declared []int32
	for _, cp := range p.c.Spec.Ports {
		declared = append(declared, cp.ContainerPort)
	}
	if len(declared) == 0 || slices.Contains(declared, port) {
		return opinion{}, false
	}
	return opinion{
		text: fmt.Sprintf(": the container declares port %s, not %d", joinPorts(declared), port), proven: p.message != "",
		seen: []scene.Observation{{Text: p.c.String() + " declares other ports than its probe asks", Quote: fmt.Sprintf("containerPort=%d", declared[0]), Ref: p.c.Pod.Ref}},
	}, true
}

func joinPorts(ports []int32) string {
	var out []string
	for _, p := range ports {
		out = append(out, fmt.Sprint(p))
	}
	return strings.Join(out, ", ")
}

// portsHeard are the ports that a log says its process listens on, and the line
// that says so.
func portsHeard(log string) (line string, ports []int32) {
	for l := range strings.Lines(log) {
		l = text.KeepBytes(l, 1024)
		m := scene.ListeningPattern.FindStringSubmatch(l)
		if m == nil || !portWord.MatchString(l) || farSide.MatchString(l) {
			continue
		}
		if p := portOf(m[1]); p >= 80 && !slices.Contains(ports, p) {
			line, ports = l, append(ports, p)
		}
	}
	return line, ports
}

// portWord matches lines that are about ports rather than times or counts.
var portWord = scene.NewPattern(`(?i)\bport\b|https?://|:\d{2,5}\b|listen`)

// ownPort matches variables that tell a process which port to listen on.
var ownPort = scene.NewPattern(`^(PORT|(HTTP|HTTPS|APP|WEB|SERVER|LISTEN|SERVICE|BIND|API|GRPC|NODE|ASPNETCORE_HTTP)_PORTS?|LISTEN_ADDR(ESS)?|BIND_ADDR(ESS)?|LISTEN|SERVER_ADDR|ASPNETCORE_URLS)$`)

// portArgument matches an argument that does.
var portArgument = scene.NewPattern(`^-{1,2}(?:port|listen|listen-addr(?:ess)?|bind|http-port|server\.port|serve|addr|web\.listen-address)[= ](?:[\w.:/\[\]]*:)?(\d{2,5})$`)

// listenSetting is the one setting that tells the container which port to listen
// on. ok is false when there is none, or there are several that differ.
func listenSetting(s *scene.Scene, c scene.Container) (found setting, port int32, ok bool) {
	for _, v := range settingsOf(s, c) {
		p := int32(0)
		switch {
		case v.name == "":
			if m := portArgument.FindStringSubmatch(v.value); m != nil {
				p = portOf(m[1])
			}
		case ownPort.MatchString(v.name):
			p = portOf(v.value[strings.LastIndexByte(v.value, ':')+1:])
		}
		if p == 0 {
			continue
		}
		if ok && p != port {
			return setting{}, 0, false
		}
		found, port, ok = v, p, true
	}
	return found, port, ok
}
