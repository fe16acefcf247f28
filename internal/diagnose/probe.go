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

var probeRules = area{of: []Rule{probeFailed}}

var probeCauses = []Cause{
	{ID: "liveness-probe-failing", Category: "Pod", Meaning: "a liveness probe fails, so the container is killed and restarted", Rank: rankTold},
	{ID: "readiness-probe-failing", Category: "Pod", Meaning: "a readiness probe fails, so the Pod gets no traffic", Rank: rankShown - 5},
	{ID: "startup-probe-failing", Category: "Pod", Meaning: "a startup probe fails, so the container is killed before it counts as started", Rank: rankTold},
}

// probe is one probe of a container, and what was heard of it.
type probe struct {
	kind  string // Liveness, Readiness or Startup
	cause string
	c     container
	spec  *corev1.Probe // nil when the Pod's specification was not read
	// said are the Events about it, the newest first, none when all are gone.
	said []Observation
	// message is what the newest failure says, "" when nothing does.
	message string
}

// probes are those of a container, in the order in which a kubelet runs them.
func (c container) probes() []probe {
	return []probe{
		{kind: "Startup", cause: "startup-probe-failing", c: c, spec: c.spec.StartupProbe},
		{kind: "Liveness", cause: "liveness-probe-failing", c: c, spec: c.spec.LivenessProbe},
		{kind: "Readiness", cause: "readiness-probe-failing", c: c, spec: c.spec.ReadinessProbe},
	}
}

// probeFailed finds containers whose probes fail: a liveness or startup probe
// restarts the container, a readiness probe keeps traffic away. Events tell; where
// they are gone, the container's state does.
func probeFailed(f *Facts) []Finding {
	var out []Finding
	for c := range f.allContainers() {
		if f.isPast(c.pod) || f.jobFailedForGood() {
			continue
		}
		for _, p := range c.probes() {
			failing := f.collectProbeEvents(&p)
			if !failing && len(p.said) == 0 {
				failing = p.shownByState(f.Now)
			}
			if failing {
				out = append(out, f.failedProbe(p))
			}
		}
	}
	return out
}

// collectProbeEvents collects the fresh Events about p and reports whether they show that it
// fails. A liveness probe that merely fails is no cause: a process that is dying
// by itself fails it too. It is one once the container is killed for it.
func (f *Facts) collectProbeEvents(p *probe) (failing bool) {
	well := podWell(p.c.pod, f.Now) // also while a kubelet is about to kill it
	for e := range f.eventsOf("Pod", p.c.pod.Object.Name) {
		if !f.isFresh(e) || !p.c.isMeantBy(e.Object) {
			continue
		}
		kills := e.Object.Reason == "Killing" && strings.Contains(e.Object.Message, "failed "+strings.ToLower(p.kind)+" probe")
		fails := e.Object.Reason == "Unhealthy" && strings.HasPrefix(e.Object.Message, p.kind+" probe ")
		if !kills && !fails {
			continue
		}
		p.said = append(p.said, sawEvent(e))
		if fails && p.message == "" {
			p.message = e.Object.Message
		}
		switch {
		case p.kind == "Readiness":
			failing = failing || !well && p.c.isUnready(f.Now, p.spec)
		case fails && p.isKillDue(e.Object) && f.Now.Sub(lastSeen(&e.Object)) < doomedFor, kills && !well:
			failing = true
		}
	}
	return failing
}

// isMeantBy reports whether an Event is about this container: it may name none.
func (c container) isMeantBy(e corev1.Event) bool {
	path := e.InvolvedObject.FieldPath
	return path == "" || strings.Contains(path, "{"+c.status.Name+"}")
}

// isUnready reports whether the container runs, is not ready, and has had the time
// that its probe gives it.
func (c container) isUnready(now time.Time, spec *corev1.Probe) bool {
	st := c.status.State
	if c.status.Ready || st.Waiting != nil || st.Terminated != nil {
		return false
	}
	return st.Running == nil || st.Running.StartedAt.IsZero() || now.Sub(st.Running.StartedAt.Time) > probeAllowance(spec)
}

// probeAllowance is how long a probe may fail from the start until it counts.
func probeAllowance(p *corev1.Probe) time.Duration {
	if p == nil {
		return 30 * time.Second
	}
	seconds := p.InitialDelaySeconds + cmp.Or(p.PeriodSeconds, 10)*cmp.Or(p.FailureThreshold, 3)
	return time.Duration(seconds) * time.Second
}

// doomedFor is for how long a probe that failed too often and is not heard of again
// may still be about to have its container killed.
const doomedFor = time.Minute

// isKillDue reports a probe that has failed as often as a kubelet allows, of a
// process that does not end by itself: it is about to be killed for it.
func (p probe) isKillDue(e corev1.Event) bool {
	allowed := int32(3)
	if p.spec != nil {
		allowed = cmp.Or(p.spec.FailureThreshold, allowed)
	}
	if e.Count < allowed {
		return false
	}
	end := p.c.lastEnd()
	return end == nil || end.ExitCode == 0 || killedFromOutside(end)
}

// killedFromOutside reports whether the container ended by a signal to end.
func killedFromOutside(end *corev1.ContainerStateTerminated) bool {
	return end.Reason != "OOMKilled" && (end.ExitCode == 137 || end.ExitCode == 143)
}

// killedByProbe matches what a kubelet says when it ends a container because of
// a probe.
var killedByProbe = newPattern(`failed (liveness|startup) probe`)

// shownByState reports whether the container's state alone shows that the probe
// fails: it runs and is long not ready, or it was killed again and again just when
// a kubelet gives up on the probe.
func (p probe) shownByState(now time.Time) bool {
	if p.spec == nil || p.c.hasRecovered(now) {
		return false
	}
	if p.kind == "Readiness" {
		started := p.c.status.Started == nil || *p.c.status.Started
		return p.c.status.State.Running != nil && started && !p.c.endedWithError() && p.c.unreadyLong(now) && p.c.isUnready(now, p.spec)
	}
	if p.kind == "Liveness" && p.c.spec.StartupProbe != nil {
		return false // which of the two it was cannot be told
	}
	end := p.c.lastEnd()
	if end == nil || p.c.status.RestartCount < 2 || end.StartedAt.IsZero() || end.ExitCode != 0 && !killedFromOutside(end) {
		return false
	}
	ran := end.FinishedAt.Sub(end.StartedAt.Time)
	grace := 30 * time.Second
	if g := p.c.pod.Object.Spec.TerminationGracePeriodSeconds; g != nil {
		grace = time.Duration(*g) * time.Second
	}
	period := time.Duration(cmp.Or(p.spec.PeriodSeconds, 10)) * time.Second
	slack := time.Duration(cmp.Or(p.spec.FailureThreshold, 3)*cmp.Or(p.spec.TimeoutSeconds, 1)) * time.Second
	due := probeAllowance(p.spec)
	return ran > 5*time.Second && ran >= due-period-2*time.Second && ran <= due+slack+grace+10*time.Second
}

// failedProbe says which probe fails and, as far as it can be told, what is wrong
// with it.
func (f *Facts) failedProbe(p probe) Finding {
	n := Finding{
		Cause: p.cause, Object: f.Mend(), Confidence: nightcrier.Medium, Observed: p.said,
		WrongIf: "the probe only reports that the process is failing by itself",
		Test: testByDescribe(nightcrier.Resource{Kind: "Pod", Namespace: p.c.pod.Object.Namespace, Name: p.c.pod.Object.Name}).
			decidesBetween("its newest events say the same, or its state does", "the probe succeeds"),
	}
	if len(n.Observed) == 0 {
		n.Observed = []Observation{p.c.sawState()}
	}
	v := f.judgeProbe(p)
	n.Summary = fmt.Sprintf("%s: its %s probe%s fails%s", p.c.describeIn(f), strings.ToLower(p.kind), p.describeTarget(), v.text)
	if p.message != "" {
		n.Summary += " (" + p.message + ")"
	}
	n.Summary += "."
	n.Observed = append(n.Observed[:min(3, len(n.Observed))], v.seen...)
	n.DependsOn, n.Actions = v.dependsOn, f.mendProbe(p, v)
	if v.proven {
		n.Confidence, n.Rank = nightcrier.High, rankTold+5
	}
	return n
}

// mendProbe is what to do about a failing probe: where it is known what is wrong with
// it, that.
func (f *Facts) mendProbe(p probe, v opinion) []Step {
	undo := Step{Action: "Roll back if it began with the last rollout", Do: doUndo, Outcome: "the version that ran before is back", Risk: "loses what the rollout brought"}
	slow := Step{Action: "Give it a startup probe or a longer delay if it starts slowly", Do: doEdit, Outcome: "it is not killed while it starts", Risk: "a process that hangs is noticed later"}
	if v.proven {
		return []Step{{
			Action: fmt.Sprintf("Make the %s probe of %s and the process agree%s", strings.ToLower(p.kind), f.Mend(), v.text),
			Do:     doEdit, Outcome: "the probe succeeds", Risk: "makes the Pods anew; a probe that asks too little hides a process that hangs",
		}, undo}
	}
	check := Step{
		Action:  "Check path, port and delays of the probe of " + f.Mend().String() + " against what the process serves and how long it starts",
		Outcome: "tells a wrong probe from a process that hangs", Risk: "none: read only",
	}
	if v.slow {
		return []Step{slow, check, undo}
	}
	return []Step{check, slow, undo}
}

// sawState is what the container's state shows of a probe.
func (c container) sawState() Observation {
	if end := c.lastEnd(); end != nil && c.status.RestartCount > 0 {
		return c.sawEnd(end)
	}
	return Observation{Text: c.String() + " runs and is not ready", Quote: "ready=false", Ref: c.pod.Ref}
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
	seen      []Observation
	dependsOn []nightcrier.Object
}

// probeWords tell from a failure's message what is wrong; the first that matches
// counts. What is proven is proven by these words alone.
var probeWords = []struct {
	words  *pattern
	text   string
	proven bool
}{
	{newPattern(`(?i)(executable file not found|no such file or directory|: not found\b|exit(ed with)?( status| code)?:? 127)`), ": its command does not exist in the image", true},
	{newPattern(`(?i)statuscode: 404`), ": the process answers that there is no such path (HTTP 404)", true},
	{newPattern(`(?i)statuscode: (401|403|407)`), ": the process answers that the probe has no right to that path", true},
	{newPattern(`(?i)statuscode: 405`), ": the process does not take GET on that path (HTTP 405)", true},
	{newPattern(`(?i)server gave HTTP response to HTTPS client|first record does not look like a TLS handshake`), ": it asks by HTTPS, and the process speaks HTTP", true},
	{newPattern(`(?i)malformed HTTP response|statuscode: 400`), ": the process does not understand the request; it may speak HTTPS or another protocol", false},
	{newPattern(`(?i)does not implement the grpc health protocol|unknown service grpc\.health`), ": the process does not implement the gRPC health protocol", true},
	{newPattern(`(?i)service unhealthy|NOT_SERVING`), ": the process says that it is not serving", false},
	{newPattern(`(?i)statuscode: 5\d\d`), ": the process answers that it is not well", false},
	{newPattern(`(?i)deadline exceeded|timed? ?out|timeout|Client\.Timeout`), ": no answer in time", false},
	{newPattern(`(?i)no route to host|network is unreachable`), ": the Pod's address cannot be reached", false},
}

// judgeProbe tells what is wrong with a failing probe, from what it said, the
// container's ports, its settings and its log.
func (f *Facts) judgeProbe(p probe) opinion {
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
	if port := p.port(); port != 0 && (refused || p.message == "") {
		if v, ok := f.otherPort(p, port); ok {
			return v
		}
	}
	v := opinion{}
	if refused {
		v.text = ": nothing listens there"
		if p.kind != "Readiness" && f.stillStarting(p.c) {
			v.slow = true
			v.text += fmt.Sprintf(" yet: it starts more slowly than the %s that the probe gives it", probeAllowance(p.spec))
		}
	}
	return v
}

// stillStarting reports whether the container was killed while its log showed
// nothing but its start.
func (f *Facts) stillStarting(c container) bool {
	l, ok := f.logOf(c)
	return ok && starting.MatchString(l.Text) && !gravest.MatchString(l.Text)
}

var starting = newPattern(`(?i)\b(starting|initiali[sz]ing|booting|loading|warming|migrating|compiling|preparing)\b`)

// port is the number of the probe's port, 0 when it has none.
func (p probe) port() int32 {
	switch s := p.spec; {
	case s == nil:
	case s.HTTPGet != nil:
		return p.c.portNumber(s.HTTPGet.Port.StrVal, s.HTTPGet.Port.IntVal)
	case s.TCPSocket != nil:
		return p.c.portNumber(s.TCPSocket.Port.StrVal, s.TCPSocket.Port.IntVal)
	case s.GRPC != nil:
		return s.GRPC.Port
	}
	return 0
}

func (c container) portNumber(name string, number int32) int32 {
	for _, p := range c.spec.Ports {
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
	has := slices.ContainsFunc(p.c.spec.Ports, func(cp corev1.ContainerPort) bool { return cp.Name == name })
	return name, name != "" && !has
}

// otherPort tells that the process listens on another port than the probe asks:
// by its log, by its settings, or by the ports that the container declares.
func (f *Facts) otherPort(p probe, port int32) (opinion, bool) {
	if l, ok := f.logOf(p.c); ok {
		if line, others := portsHeard(l.Text); len(others) > 0 && !slices.Contains(others, port) {
			v := opinion{text: fmt.Sprintf(": nothing listens on port %d; the process listens on %s", port, joinPorts(others)), proven: true}
			v.seen = append(v.seen, sawLog(p.c, l, text.CutLine(line, maxQuote)))
			if s, set, ok := f.Scene.listenSetting(p.c); ok && slices.Contains(others, set) {
				v.text += ", set by " + s.text
				v.dependsOn = s.objects
			}
			return v, true
		}
	}
	if s, set, ok := f.Scene.listenSetting(p.c); ok && set != port {
		return opinion{
			text:   fmt.Sprintf(": %s makes the process listen on port %d, not %d", s.text, set, port),
			proven: true, dependsOn: s.objects,
			seen: []Observation{{Text: p.c.String() + " is told its port by " + s.text, Quote: fmt.Sprint(set), Ref: s.ref}},
		}, true
	}
	var declared []int32
	for _, cp := range p.c.spec.Ports {
		declared = append(declared, cp.ContainerPort)
	}
	if len(declared) == 0 || slices.Contains(declared, port) {
		return opinion{}, false
	}
	return opinion{
		text: fmt.Sprintf(": the container declares port %s, not %d", joinPorts(declared), port), proven: p.message != "",
		seen: []Observation{{Text: p.c.String() + " declares other ports than its probe asks", Quote: fmt.Sprintf("containerPort=%d", declared[0]), Ref: p.c.pod.Ref}},
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
		m := listening.FindStringSubmatch(l)
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
var portWord = newPattern(`(?i)\bport\b|https?://|:\d{2,5}\b|listen`)

// ownPort matches variables that tell a process which port to listen on.
var ownPort = newPattern(`^(PORT|(HTTP|HTTPS|APP|WEB|SERVER|LISTEN|SERVICE|BIND|API|GRPC|NODE|ASPNETCORE_HTTP)_PORTS?|LISTEN_ADDR(ESS)?|BIND_ADDR(ESS)?|LISTEN|SERVER_ADDR|ASPNETCORE_URLS)$`)

// portArgument matches an argument that does.
var portArgument = newPattern(`^-{1,2}(?:port|listen|listen-addr(?:ess)?|bind|http-port|server\.port|serve|addr|web\.listen-address)[= ](?:[\w.:/\[\]]*:)?(\d{2,5})$`)

// listenSetting is the one setting that tells the container which port to listen
// on. ok is false when there is none, or there are several that differ.
func (s *Scene) listenSetting(c container) (found setting, port int32, ok bool) {
	for _, v := range s.settingsOf(c) {
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
