package diagnose

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/text"
)

var dependencyRules = area{of: []Rule{namesNoService, complainsWhileReady}, scene: []SceneRule{dependencyMisnamed}}

var dependencyCauses = []Cause{
	{ID: "dependency-auth-failed", Category: "Pod", Meaning: "what a container connects to refuses its user or password", Rank: rankTold, BeginsElsewhere: true},
	{ID: "dependency-name-unresolved", Category: "Network", Meaning: "the name of what a container connects to cannot be resolved", Rank: rankTold, BeginsElsewhere: true},
	{ID: "dependency-refused", Category: "Network", Meaning: "what a container connects to refuses the connection: nothing listens there", Rank: rankTold, BeginsElsewhere: true},
	{ID: "dependency-timeout", Category: "Network", Meaning: "what a container connects to does not answer in time", Rank: rankTold, BeginsElsewhere: true},
}

const dependencyWrongIf = "the other side answers everybody else, or the process ends for another reason than this"

var dependencySayings = []saying{
	{
		cause: "dependency-auth-failed", because: "what it connects to refuses its credentials",
		wrongIf: "the credentials are right and the other side is not set up yet", refine: otherSide,
		actions: []Step{
			{Action: "Compare the user and the Secret that the container uses with what the other side knows", Outcome: "tells a wrong password from a missing user", Risk: "none: read only"},
			{Action: "Correct or rotate the Secret, then restart the workload", Outcome: "the connection is accepted", Risk: "others that share the Secret are affected"},
		},
		wordings: newWordings(
			`(?i)password authentication failed for user "?([\w.@-]{1,64})`, `(?i)access denied for user '?([\w.@'%-]{1,64})`,
			`(?i)login failed for user '?([\w.@-]{1,64})`, `\bWRONGPASS\b`, `\bNOAUTH\b`, `(?i)invalid username-password pair`,
			`\bACCESS_REFUSED\b`, `(?i)(?:sasl|mongo\w*|scram)\b.{0,60}authentication fail`, `(?i)authentication failed\b.{0,40}\b(?:sasl|scram|code 18)`,
			`MongoServerError: Authentication failed`, `(?i)no pg_hba\.conf entry`, `(?i)FATAL:\s+role "([^"]{1,64})" does not exist`,
			`AuthenticationFailureException|SaslAuthenticationException|PossibleAuthenticationFailureError`,
			`(?i)not authorized on \S{1,64} to execute`, `(?i)command \w{1,40} requires authentication`, `AuthenticationFailed`,
			`(?i)ERR invalid password`, `(?i)x-amz.{0,40}SignatureDoesNotMatch|InvalidAccessKeyId`,
		),
	},
	{
		cause: "dependency-name-unresolved", because: "the name of what it connects to cannot be resolved",
		wrongIf: "the cluster's DNS was away for a moment and answers now", refine: otherSide, actions: nameActions,
		wordings: newWordings(
			`(?i)no such host`, `ENOTFOUND`, `EAI_AGAIN`, `EAI_NONAME`, `(?i)name or service not known`, `(?i)nodename nor servname`,
			`(?i)temporary failure in name resolution`, `(?i)name (?:resolution fail|does not resolve|could not be resolved)`, `UnknownHostException`,
			`(?i)could not translate host name`, `(?i)host not found in upstream`, `(?i)bad address '`, `(?i)can'?t resolve '?[\w.-]+`,
			`(?i)\bnxdomain\b|non-existing domain`, `(?i)could not resolve host`, `(?i)getaddrinfo fail`, `(?i)unknown (?:mysql server )?host\b`, `(?i)host not found\b`,
			`(?i)produced zero addresses`, `(?i)dns resolution failed`, `(?i)No resolvable bootstrap urls`, `(?i)couldn'?t resolve`,
			`(?i)failed to (?:lookup|resolve) (?:address|host)`, `(?i)no address associated with hostname`, `(?i)lookup \S+(?: on \S+)?: (?:i/o timeout|server misbehaving)`,
		),
	},
	{
		cause: "dependency-refused", because: "what it connects to refuses the connection",
		wrongIf: dependencyWrongIf, refine: otherSide, actions: dependencyActions(),
		wordings: newWordings(
			`(?i)connection refused`, `ECONNREFUSED`, `\(111\b`, `(?i)Errno 111`, `(?i)os error 111`, `(?i)actively refused`,
			`(?i)is the server running on`, `(?i)communications link failure`, `(?i)no live upstreams`, `NoBrokersAvailable`,
			`(?i)broker may not be available`, `(?i)could not connect to redis at`, `(?i)Connection to \S+ refused`, `(?i)can'?t connect to (?:mysql|mariadb|server)`,
			`BrokerUnreachableException`,
		),
	},
	{
		cause: "dependency-timeout", because: "what it connects to does not answer",
		wrongIf: dependencyWrongIf, refine: otherSide, actions: dependencyActions(),
		wordings: newWordings(
			`(?i)(?:dial|read|connect|lookup|get|post)\b.{0,200}i/o timeout`, `(?i)connect(?:ion|ing)?(?: to \S+)? timed? ?out`, `ETIMEDOUT`, `ESOCKETTIMEDOUT`,
			`SocketTimeoutException|ConnectTimeoutException|ConnectTimeoutError|ServerSelectionTimeoutError|MongoServerSelectionError|HttpConnectTimeoutException`,
			`(?i)upstream timed out`, `(?i)no route to host`, `EHOSTUNREACH|ENETUNREACH`, `(?i)(?:host|network) is unreachable`, `(?i)os error 110|Errno 110|\(110\b`,
			`(?i)(?:dial|rpc|connect|request|get "|post "|ping)\b.{0,200}(?:context )?deadline exceeded`, `(?i)timeout expired`,
			`(?i)timed? ?out (?:while )?(?:connecting|trying to connect|waiting for (?:a |an |the )?(?:connection|response|reply|answer|server|available|leader|broker|database|db|redis|host))`, `(?i)connection (?:attempt|acquisition).{0,40}timed? ?out`,
		),
	},
}

var nameActions = []Step{
	{Action: "Compare the name in the workload's environment, arguments and ConfigMaps with the Services that exist", Outcome: "tells a wrong name from a Service that is missing", Risk: "none: read only"},
	{Action: "Correct the name, or create the Service", Outcome: "the name resolves and the container connects", Risk: "needs a new rollout where the workload is changed"},
	{Action: "See whether other Pods resolve names: if none does, look at the cluster's DNS", Outcome: "tells a wrong name from DNS that is down", Risk: "none: read only"},
}

func dependencyActions() []Step {
	return []Step{
		{Action: "Check that the service that the log names exists and has ready endpoints", Outcome: "tells a dependency that is down from a wrong address", Risk: "none: read only"},
		{Action: "Check the network policies between the two", Outcome: "tells whether the connection is forbidden", Risk: "none: read only"},
	}
}

// otherSide adds what the Scene knows of the other end that the log names: the
// Service behind the name, whether it serves that port and whether it has ready
// Pods.
func otherSide(f *Facts, c container, t told, n *Finding) {
	n.Confidence = nightcrier.Medium // the other side's view decides
	e, ok := endpointIn(t.line)
	if !ok {
		return
	}
	ns := c.pod.Object.Namespace
	svc := f.Scene.serviceAt(ns, e)
	from := f.Scene.sourceOf(c, e.host)
	n.Summary += ": " + e.String()
	if from.text != "" {
		n.Summary += ", named by " + from.text
		n.DependsOn = append(n.DependsOn, from.objects...)
	}
	switch {
	case svc != nil:
		n.knownService(f.Scene, t, e, svc)
	case e.missingIn(f.Scene, c.pod):
		n.Confidence = nightcrier.High
		n.Summary += f.Scene.noSuchService(ns, e)
		n.Lack = f.Scene.lackOfService(ns, e)
	case f.Scene.isOutsideCluster(ns, e):
		n.Lack = &lack{object: nightcrier.Object{Kind: hostKind, Name: e.String()}}
	}
}

// knownService adds what is known of the Service that the log names.
func (n *Finding) knownService(s *Scene, t told, e endpoint, svc *Read[corev1.Service]) {
	o := svc.Object
	n.DependsOn = append(n.DependsOn, nightcrier.Object{Kind: "Service", Namespace: o.Namespace, Name: o.Name})
	n.Test = testByList(o.Namespace, "endpointslices").
		decidesBetween("Service "+o.Name+" has no ready endpoint, or not on that port", "Service "+o.Name+" has ready endpoints on that port")
	if t.saying.cause == "dependency-name-unresolved" { // the name is right, who should know it does not
		n.DependsOn = append(n.DependsOn, nightcrier.Object{Kind: "Service", Namespace: "kube-system", Name: "kube-dns"})
		return
	}
	if e.port != 0 && o.Spec.ClusterIP != corev1.ClusterIPNone && !servesPort(o, e.port) {
		n.Confidence = nightcrier.High
		n.Summary += fmt.Sprintf(": Service %s does not serve port %d but %s", o.Name, e.port, portsOf(&svc.Object))
		return
	}
	if ready, known := s.readyEndpoints(&o); known && ready == 0 && t.saying.cause != "dependency-auth-failed" {
		n.Confidence = nightcrier.High
		n.Summary += ": Service " + o.Name + " has no ready Pods"
	}
}

func servesPort(svc corev1.Service, port int32) bool {
	for _, p := range svc.Spec.Ports {
		if p.Port == port {
			return true
		}
	}
	return svc.Spec.Type == corev1.ServiceTypeExternalName
}

// namesNoService finds failing containers whose environment or arguments name a
// Service that does not exist, or a port that the Service does not have, where
// their log does not tell.
func namesNoService(f *Facts) []Finding {
	var out []Finding
	for c := range f.failingContainers() {
		if !c.endedWithError() && !c.unreadyLong(f.Now) {
			continue
		}
		if t, ok := f.reasonInLog(c); !ok && f.hasLog(c) || ok && (t.namesOther() || !strings.HasPrefix(t.saying.cause, "dependency-")) {
			continue // it says why, or what it says is not about an address
		}
		for _, v := range f.Scene.settingsOf(c) {
			if n, ok := f.badAddress(c, v); ok {
				out = append(out, n)
			}
		}
	}
	return out
}

// namesOther reports whether the line names the other end itself.
func (t told) namesOther() bool {
	_, ok := endpointIn(t.line)
	return ok
}

func (f *Facts) hasLog(c container) bool {
	_, ok := f.logOf(c)
	return ok
}

// forTelemetry matches names of what a program sends its traces and metrics to,
// and can do without.
var forTelemetry = newPattern(`(?i)otel|opentelemetry|otlp|jaeger|zipkin|collector|statsd|datadog|sentry|tempo|prometheus|telemetry|tracing|metrics|newrelic`)

// badAddress judges one setting of a container that fails.
func (f *Facts) badAddress(c container, v setting) (Finding, bool) {
	n, wrong := f.Scene.judgeAddress(c, v, f.Mend())
	if wrong == "" {
		return Finding{}, false
	}
	n.Rank = rankShown + 1
	n.Summary = fmt.Sprintf("%s fails and %s.", c.describeIn(f), wrong)
	return n, true
}

// judgeAddress finds that a setting cannot be right: it names a Service that does
// not exist, or a port that the Service does not have. wrong is "" if it may be.
func (s *Scene) judgeAddress(c container, v setting, mend nightcrier.Object) (n Finding, wrong string) {
	e, ok := v.parseEndpoint()
	if !ok || forTelemetry.MatchString(v.name+" "+e.host) {
		return Finding{}, ""
	}
	ns := c.pod.Object.Namespace
	n = Finding{
		Object: mend, Confidence: nightcrier.Medium, Actions: nameActions, DependsOn: v.objects,
		Observed: []Observation{{Text: c.String() + " is given " + e.String() + " by " + v.text, Quote: e.host, Ref: v.ref}},
		WrongIf:  "the container does not use that setting, or fails for another reason",
		Test:     testByList(ns, "services").decidesBetween("no Service has that name and port", "one has"),
	}
	told := fmt.Sprintf("is told by %s to connect to %s", v.text, e)
	svc := s.serviceAt(ns, e)
	switch {
	case svc == nil && e.missingIn(s, c.pod):
		n.Cause, n.Lack = "dependency-name-unresolved", s.lackOfService(ns, e)
		return n, told + s.noSuchService(ns, e)
	case svc != nil && e.port != 0 && svc.Object.Spec.ClusterIP != corev1.ClusterIPNone && len(svc.Object.Spec.Ports) > 0 && !servesPort(svc.Object, e.port):
		n.Cause = "dependency-refused"
		return n, fmt.Sprintf("%s, but Service %s serves port %s", told, svc.Object.Name, portsOf(&svc.Object))
	}
	return Finding{}, ""
}

// dependencyMisnamed finds workloads that are configured with an address which cannot be
// right, however well their Pods are: a name that is a slip away from that of a
// Service, or a port that the Service does not serve. Names that are merely not
// there may belong to what is optional.
func dependencyMisnamed(s *Scene) []Finding {
	var out []Finding
	for _, ns := range s.podNamespaces() {
		for w := range s.workloadsIn(ns) {
			if w.wants == 0 {
				continue
			}
			pod := Read[corev1.Pod]{Ref: w.ref}
			pod.Object.Namespace, pod.Object.Name, pod.Object.Spec = ns, w.object.Name, *w.spec
			for _, spec := range w.spec.Containers {
				c := container{pod: &pod, spec: spec, status: corev1.ContainerStatus{Name: spec.Name}}
				out = append(out, s.findSlips(c, w.object)...)
			}
		}
	}
	return out
}

func (s *Scene) findSlips(c container, mend nightcrier.Object) []Finding {
	var out []Finding
	for _, v := range s.settingsOf(c) {
		n, wrong := s.judgeAddress(c, v, mend)
		if wrong == "" {
			continue
		}
		e, _ := v.parseEndpoint()
		if n.Cause == "dependency-name-unresolved" && !s.slipOf(c.pod.Object.Namespace, e) {
			continue
		}
		n.Rank = rankFollows + 10
		n.Summary = fmt.Sprintf("%s of %s %s.", c.nameAfter("Container"), mend, wrong)
		out = append(out, n)
	}
	return out
}

// slipOf reports whether e differs from the name of a Service by a slip.
func (s *Scene) slipOf(ns string, e endpoint) bool {
	name, in, _ := e.inCluster(ns)
	for _, svc := range s.Services {
		if svc.Object.Namespace == in && len(name) >= 5 && text.CountEdits(name, svc.Object.Name) <= 2 {
			return true
		}
	}
	return false
}

// complainsWhileReady finds containers that are ready, yet keep failing to reach
// something of which the cluster shows that it cannot be reached.
func complainsWhileReady(f *Facts) []Finding {
	var out []Finding
	for c := range f.allContainers() {
		if !c.status.Ready || f.isPast(c.pod) || c.isDone() {
			continue
		}
		t, often := f.lastComplaint(c)
		if often < 2 {
			continue
		}
		n := t.asFinding(f, c)
		corroborated := n.Confidence == nightcrier.High
		n.Confidence, n.Rank = nightcrier.Medium, rankFollows+15
		if corroborated {
			out = append(out, n)
			continue
		}
		if t.namesOther() {
			continue
		}
		for _, v := range f.Scene.settingsOf(c) {
			if n, ok := f.badAddress(c, v); ok {
				n.Rank = rankFollows + 15
				n.Observed = append(n.Observed, sawLog(c, t.log, t.line))
				out = append(out, n)
			}
		}
	}
	return out
}

// Bounds of what counts as a complaint of now.
const recentLines = 40

// lastComplaint is the last line of a container's log, of those that were written
// lately, that tells of something that cannot be reached, and how many there are.
func (f *Facts) lastComplaint(c container) (last told, often int) {
	for _, l := range f.Logs {
		if l.Pod != c.pod.Object.Name || l.Container != c.status.Name || l.Previous {
			continue
		}
		lines := strings.Split(strings.TrimSpace(l.Text), "\n")
		for _, line := range lines[max(0, len(lines)-recentLines):] {
			line = text.KeepBytes(line, 4*maxQuote)
			at, dated := lineTime(line)
			if dated && f.Now.Sub(at) > freshFor {
				continue
			}
			for _, s := range dependencySayings {
				if _, ok := s.matchLine(line); ok {
					last, often = told{saying: s, log: l, line: text.CutLine(line, maxQuote)}, often+1
					break
				}
			}
		}
	}
	return last, often
}

var lineDate = newPattern(`\b(\d{4})[-/](\d\d)[-/](\d\d)[T ](\d\d:\d\d:\d\d)`)

// lineTime is when a line was written, if it says so. Without a zone it is UTC,
// as containers have it.
func lineTime(line string) (time.Time, bool) {
	m := lineDate.FindStringSubmatch(line)
	if m == nil {
		return time.Time{}, false
	}
	at, err := time.Parse("2006-01-02T15:04:05", m[1]+"-"+m[2]+"-"+m[3]+"T"+m[4])
	return at, err == nil
}

// farSide matches log lines about another party that does not answer.
var farSide = newPattern(`(?i)connection refused|no such host|name or service not known|temporary failure in name resolution|ECONNREFUSED|ENOTFOUND|EAI_AGAIN|i/o timeout|connect(ion)? timed out|ETIMEDOUT|no route to host|host is unreachable`)
