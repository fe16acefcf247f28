package pods

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scene"
	"nightcrier.dev/nightcrier/internal/text"
)

var certificateRules = scene.Area{Name: "certificate", Causes: certificateCauses} // by their words in a log

var certificateCauses = []scene.Cause{
	{ID: "certificate-expired", Category: "Pod", Meaning: "a certificate that a container uses or is shown has expired", Rank: rankTold + 1},
	{ID: "certificate-invalid", Category: "Pod", Meaning: "a certificate is not trusted or is for another name", Rank: rankTold + 1},
	{ID: "clock-skew", Category: "Node", Meaning: "a clock is wrong: certificates or tokens seem to be from the future", Rank: rankTold + 2},
}

var certificateActions = []scene.Step{
	{Action: "Read the certificate's dates, names and issuer on the side that shows it", Outcome: "tells which certificate is wrong and how", Risk: "none: read only"},
	{Action: "Renew the certificate, or give the container the authority that signed it", Outcome: "the connection is trusted", Risk: "what pins the old certificate fails"},
}

// certificateLogPatterns: Go, OpenSSL (Python, curl, nginx, Node), Java, .NET.
var certificateLogPatterns = []logPattern{
	{
		cause: "clock-skew", because: "a certificate or token is from the future: a clock is wrong",
		wrongIf: "the certificate was issued for a later time on purpose", refine: otherEnd,
		actions: []scene.Step{
			{Action: "Compare the clocks of the nodes with each other and with the issuer's", Outcome: "tells which clock is wrong", Risk: "none: read only"},
			{Action: "Repair time synchronisation on the node that is off", Outcome: "certificates and tokens are valid again", Risk: "a jump of the clock upsets timers and databases"},
		},
		wordings: scene.NewWordings(
			`(?i)certificate (?:is )?not yet valid`, `CertificateNotYetValidException`, `CERT_NOT_YET_VALID`, `(?i)is before \d{4}-\d\d-\d\dT`, `NotBefore: `,
			`(?i)clock (?:skew|drift)`, `(?i)token used before issued`, `(?i)issued in the future`, `(?i)RequestTimeTooSkewed`, `(?i)iat.{0,30}in the future`,
			`(?i)ImmatureSignatureError`, `(?i)system clock.{0,40}(?:wrong|behind|ahead)`, `(?i)clock is (?:too far|not) `,
		),
	},
	{
		cause: "certificate-expired", because: "a certificate has expired",
		wrongIf: "the clock of the node is ahead", refine: otherEnd, actions: certificateActions,
		wordings: scene.NewWordings(
			`(?i)certificate (?:has|is) expired`, `(?i)x509: certificate has expired`, `CERT_HAS_EXPIRED`, `CertificateExpiredException`, `(?i)NotAfter: `,
			`(?i)is after \d{4}-\d\d-\d\dT`, `(?i)expired certificate`, `(?i)sslv3 alert certificate expired|tlsv1 alert certificate expired`, `(?i)certificate expired`,
			`(?i)certificate.{0,80}\bexpired (?:on|at|since)\b`, `(?i)invalid peer certificate: (?:Cert)?Expired`,
		),
	},
	{
		cause: "certificate-invalid", because: "a certificate is not trusted or is for another name",
		wrongIf: "the other side is an impostor and is rightly refused", refine: otherEnd, actions: certificateActions,
		wordings: scene.NewWordings(
			`(?i)signed by unknown authority`, `(?i)invalid peer certificate`, `(?i)x509: cannot validate certificate`, `(?i)x509: certificate is (?:valid for|not valid for)`, `(?i)certificate is not valid for`,
			`(?i)self[- ]signed certificate`, `UNABLE_TO_VERIFY_LEAF_SIGNATURE|UNABLE_TO_GET_ISSUER_CERT|DEPTH_ZERO_SELF_SIGNED_CERT|SELF_SIGNED_CERT_IN_CHAIN|ERR_TLS_CERT_ALTNAME_INVALID`,
			`(?i)unable to get (?:local )?issuer certificate`, `(?i)certificate[ _]verify[ _]failed`, `(?i)hostname\b.{0,100}(?:doesn'?t|does not|mismatch).{0,20}match`, `(?i)hostname mismatch, certificate`,
			`(?i)PKIX path (?:building|validation) failed`, `SunCertPathBuilderException`, `(?i)no subject alternative (?:DNS )?name`, `(?i)remote certificate is invalid`, `(?i)x509: certificate relies on legacy Common Name`,
			`(?i)tls: bad certificate`, `(?i)alert unknown ca`, `(?i)private key does not match`, `(?i)key values mismatch`, `(?i)certificate specifies an incompatible key usage`,
		),
	},
}

// shownByPeer matches what a client says of a certificate that the other side has shown it.
var shownByPeer = scene.NewPattern(`(?i)peer certificate|failed to verify certificate|x509: certificate has expired|CERT_HAS_EXPIRED|certificate verify failed|CertificateExpiredException`)

// otherEnd names who showed the certificate, where it is a Service. One that has expired is
// mended where it is shown, not where it is refused.
func otherEnd(f *scene.Facts, c scene.Container, t logMatch, n *scene.Finding) {
	if e, ok := endpointIn(t.whole); ok {
		n.Summary += ": " + e.String()
		if svc := serviceAt(f.Scene, c.Pod.Object.Namespace, e); svc != nil {
			n.DependsOn = append(n.DependsOn, nightcrier.Object{Kind: "Service", Namespace: svc.Object.Namespace, Name: svc.Object.Name})
			behind := f.Scene.WorkloadsBehind(svc.Object.Namespace, svc.Object.Name)
			if n.Cause == "certificate-expired" && shownByPeer.MatchString(t.whole) && len(behind) == 1 && behind[0] != n.Object {
				n.Affected, n.Object, n.DependsOn = append(n.Affected, n.Object), behind[0], nil
				n.Actions = append([]scene.Step{{Action: fmt.Sprintf("Renew the certificate that %s shows at %s, and the one that signed it if that has expired too", behind[0], e), Outcome: "its clients accept it again", Risk: "what pins the old certificate fails"}}, n.Actions...)
			}
		}
	}
}

var dependencyRules = scene.Area{Name: "dependency", Rules: []scene.Rule{namesNoService}, SceneRules: []scene.SceneRule{dependencyMisnamed}, Causes: dependencyCauses}

var dependencyCauses = []scene.Cause{
	{ID: "dependency-auth-failed", Category: "Pod", Meaning: "what a container connects to refuses its user or password", Rank: rankTold, BeginsElsewhere: true},
	{ID: "dependency-name-unresolved", Category: "Network", Meaning: "the name of what a container connects to cannot be resolved", Rank: rankTold, BeginsElsewhere: true},
	{ID: "dependency-refused", Category: "Network", Meaning: "what a container connects to refuses the connection: nothing listens there", Rank: rankTold, BeginsElsewhere: true},
	{ID: "dependency-timeout", Category: "Network", Meaning: "what a container connects to does not answer in time", Rank: rankTold, BeginsElsewhere: true},
}

const dependencyWrongIf = "the other side answers everybody else, or the process ends for another reason than this"

var dependencyLogPatterns = []logPattern{
	{
		cause: "dependency-auth-failed", because: "what it connects to refuses its credentials",
		wrongIf: "the credentials are right and the other side is not set up yet", refine: otherSide,
		actions: []scene.Step{
			{Action: "Compare the user and the Secret that the container uses with what the other side knows", Outcome: "tells a wrong password from a missing user", Risk: "none: read only"},
			{Action: "Correct or rotate the Secret, then restart the workload", Outcome: "the connection is accepted", Risk: "others that share the Secret are affected"},
		},
		wordings: scene.NewWordings(
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
		wordings: scene.NewWordings(
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
		wordings: scene.NewWordings(
			`(?i)connection refused`, `ECONNREFUSED`, `\(111\b`, `(?i)Errno 111`, `(?i)os error 111`, `(?i)actively refused`,
			`(?i)is the server running on`, `(?i)communications link failure`, `(?i)no live upstreams`, `NoBrokersAvailable`,
			`(?i)broker may not be available`, `(?i)could not connect to redis at`, `(?i)Connection to \S+ refused`, `(?i)can'?t connect to (?:mysql|mariadb|server)`,
			`BrokerUnreachableException`,
		),
	},
	{
		cause: "dependency-timeout", because: "what it connects to does not answer",
		wrongIf: dependencyWrongIf, refine: otherSide, actions: dependencyActions(),
		wordings: scene.NewWordings(
			`(?i)(?:dial|read|connect|lookup|get|post)\b.{0,200}i/o timeout`, `(?i)connect(?:ion|ing)?(?: to \S+)? timed? ?out`, `ETIMEDOUT`, `ESOCKETTIMEDOUT`,
			`SocketTimeoutException|ConnectTimeoutException|ConnectTimeoutError|ServerSelectionTimeoutError|MongoServerSelectionError|HttpConnectTimeoutException`,
			`(?i)upstream timed out`, `(?i)no route to host`, `EHOSTUNREACH|ENETUNREACH`, `(?i)(?:host|network) is unreachable`, `(?i)os error 110|Errno 110|\(110\b`,
			`(?i)(?:dial|rpc|connect|request|get "|post "|ping)\b.{0,200}(?:context )?deadline exceeded`, `(?i)timeout expired`,
			`(?i)timed? ?out (?:while )?(?:connecting|trying to connect|waiting for (?:a |an |the )?(?:connection|response|reply|answer|server|available|leader|broker|database|db|redis|host))`, `(?i)connection (?:attempt|acquisition).{0,40}timed? ?out`,
		),
	},
}

var nameActions = []scene.Step{
	{Action: "Compare the name in the workload's environment, arguments and ConfigMaps with the Services that exist", Outcome: "tells a wrong name from a Service that is missing", Risk: "none: read only"},
	{Action: "Correct the name, or create the Service", Outcome: "the name resolves and the container connects", Risk: "needs a new rollout where the workload is changed"},
	{Action: "See whether other Pods resolve names: if none does, look at the cluster's DNS", Outcome: "tells a wrong name from DNS that is down", Risk: "none: read only"},
}

func dependencyActions() []scene.Step {
	return []scene.Step{
		{Action: "Check that the service that the log names exists and has ready endpoints", Outcome: "tells a dependency that is down from a wrong address", Risk: "none: read only"},
		{Action: "Check the network policies between the two", Outcome: "tells whether the connection is forbidden", Risk: "none: read only"},
	}
}

// otherSide adds what the Scene knows of the other end that the log names: the
// Service behind the name, whether it serves that port and whether it has ready
// Pods.
func otherSide(f *scene.Facts, c scene.Container, t logMatch, n *scene.Finding) {
	n.Confidence = nightcrier.Medium // the other side's view decides
	e, ok := endpointIn(t.whole)
	if !ok {
		return
	}
	ns := c.Pod.Object.Namespace
	svc := serviceAt(f.Scene, ns, e)
	from := sourceOf(f.Scene, c, e.host)
	n.Summary += ": " + e.String()
	if from.text != "" {
		n.Summary += ", named by " + from.text
		n.DependsOn = append(n.DependsOn, from.objects...)
	}
	switch {
	case svc != nil:
		knownService(n, f.Scene, t, e, svc)
	case e.missingIn(f.Scene, c.Pod):
		n.Confidence = nightcrier.High
		n.Summary += noSuchService(f.Scene, ns, e)
		n.Lack = lackOfService(f.Scene, ns, e)
	case isOutsideCluster(f.Scene, ns, e):
		n.Lack = &scene.Lack{Object: nightcrier.Object{Kind: scene.HostKind, Name: e.String()}}
	}
}

// knownService adds what is known of the Service that the log names.
func knownService(n *scene.Finding, s *scene.Scene, t logMatch, e endpoint, svc *scene.Read[corev1.Service]) {
	o := svc.Object
	n.DependsOn = append(n.DependsOn, nightcrier.Object{Kind: "Service", Namespace: o.Namespace, Name: o.Name})
	n.Test = scene.ListTest(o.Namespace, "endpointslices").
		DecidesBetween("Service "+o.Name+" has no ready endpoint, or not on that port", "Service "+o.Name+" has ready endpoints on that port")
	if t.pattern.cause == "dependency-name-unresolved" { // the name is right, who should know it does not
		n.DependsOn = append(n.DependsOn, nightcrier.Object{Kind: "Service", Namespace: "kube-system", Name: "kube-dns"})
		return
	}
	if e.port != 0 && o.Spec.ClusterIP != corev1.ClusterIPNone && !servesPort(o, e.port) {
		n.Confidence = nightcrier.High
		n.Summary += fmt.Sprintf(": Service %s does not serve port %d but %s", o.Name, e.port, scene.DescribePorts(&svc.Object))
		return
	}
	if ready, known := s.ReadyEndpoints(&o); known && ready == 0 && t.pattern.cause != "dependency-auth-failed" {
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
func namesNoService(f *scene.Facts) []scene.Finding {
	var out []scene.Finding
	for c := range f.FailingContainers() {
		if !endedWithError(c) && !unreadyLong(c, f.Now) {
			continue
		}
		if t, ok := reasonInLog(f, c); !ok && hasLog(f, c) || ok && (t.namesOther() || !strings.HasPrefix(t.pattern.cause, "dependency-")) {
			continue // it says why, or what it says is not about an address
		}
		for _, v := range settingsOf(f.Scene, c) {
			if n, ok := badAddress(f, c, v); ok {
				out = append(out, n)
			}
		}
	}
	return out
}

// namesOther reports whether the line names the other end itself.
func (t logMatch) namesOther() bool {
	_, ok := endpointIn(t.whole)
	return ok
}

func hasLog(f *scene.Facts, c scene.Container) bool {
	_, ok := f.FindLog(c)
	return ok
}

// forTelemetry matches names of what a program sends its traces and metrics to,
// and can do without.
var forTelemetry = scene.NewPattern(`(?i)otel|opentelemetry|otlp|jaeger|zipkin|collector|statsd|datadog|sentry|tempo|prometheus|telemetry|tracing|metrics|newrelic`)

// badAddress judges one setting of a container that fails.
func badAddress(f *scene.Facts, c scene.Container, v setting) (scene.Finding, bool) {
	n, wrong := judgeAddress(f.Scene, c, v, f.Mend())
	if wrong == "" {
		return scene.Finding{}, false
	}
	n.Rank = scene.RankShown + 1
	n.Summary = fmt.Sprintf("%s fails and %s.", c.DescribeIn(f), wrong)
	return n, true
}

// judgeAddress finds that a setting cannot be right: it names a Service that does
// not exist, or a port that the Service does not have. wrong is "" if it may be.
func judgeAddress(s *scene.Scene, c scene.Container, v setting, mend nightcrier.Object) (n scene.Finding, wrong string) {
	e, ok := v.parseEndpoint()
	if !ok || forTelemetry.MatchString(v.name+" "+e.host) {
		return scene.Finding{}, ""
	}
	ns := c.Pod.Object.Namespace
	n = scene.Finding{
		Object: mend, Confidence: nightcrier.Medium, Actions: nameActions, DependsOn: v.objects,
		Observed: []scene.Observation{{Text: c.String() + " is given " + e.String() + " by " + v.text, Quote: e.host, Ref: v.ref}},
		WrongIf:  "the container does not use that setting, or fails for another reason",
		Test:     scene.ListTest(ns, "services").DecidesBetween("no Service has that name and port", "one has"),
	}
	told := fmt.Sprintf("is told by %s to connect to %s", v.text, e)
	svc := serviceAt(s, ns, e)
	switch {
	case svc == nil && e.missingIn(s, c.Pod):
		n.Cause, n.Lack = "dependency-name-unresolved", lackOfService(s, ns, e)
		return n, told + noSuchService(s, ns, e)
	case svc != nil && e.port != 0 && svc.Object.Spec.ClusterIP != corev1.ClusterIPNone && len(svc.Object.Spec.Ports) > 0 && !servesPort(svc.Object, e.port):
		n.Cause = "dependency-refused"
		return n, fmt.Sprintf("%s, but Service %s serves port %s", told, svc.Object.Name, scene.DescribePorts(&svc.Object))
	}
	return scene.Finding{}, ""
}

// dependencyMisnamed finds workloads that are configured with an address which cannot be
// right, however well their Pods are: a name that is a slip away from that of a
// Service, or a port that the Service does not serve. Names that are merely not
// there may belong to what is optional.
func dependencyMisnamed(s *scene.Scene) []scene.Finding {
	var out []scene.Finding
	for _, ns := range s.PodNamespaces() {
		for w := range s.WorkloadsIn(ns) {
			if w.Wants == 0 {
				continue
			}
			pod := scene.Read[corev1.Pod]{Ref: w.Ref}
			pod.Object.Namespace, pod.Object.Name, pod.Object.Spec = ns, w.Object.Name, *w.Spec
			for _, spec := range w.Spec.Containers {
				c := scene.Container{Pod: &pod, Spec: spec, Status: corev1.ContainerStatus{Name: spec.Name}}
				out = append(out, findSlips(s, c, w.Object)...)
			}
		}
	}
	return out
}

func findSlips(s *scene.Scene, c scene.Container, mend nightcrier.Object) []scene.Finding {
	var out []scene.Finding
	for _, v := range settingsOf(s, c) {
		n, wrong := judgeAddress(s, c, v, mend)
		if wrong == "" {
			continue
		}
		e, _ := v.parseEndpoint()
		if n.Cause == "dependency-name-unresolved" && !slipOf(s, c.Pod.Object.Namespace, e) {
			continue
		}
		n.Rank = scene.RankFollows + 10
		n.Summary = fmt.Sprintf("%s of %s %s.", c.NameAfter("Container"), mend, wrong)
		out = append(out, n)
	}
	return out
}

// slipOf reports whether e differs from the name of a Service by a slip.
func slipOf(s *scene.Scene, ns string, e endpoint) bool {
	name, in, _ := e.inCluster(ns)
	for _, svc := range s.Services {
		if svc.Object.Namespace == in && len(name) >= 5 && text.CountEdits(name, svc.Object.Name) <= 2 {
			return true
		}
	}
	return false
}

var lineDate = scene.NewPattern(`\b(\d{4})[-/](\d\d)[-/](\d\d)[T ](\d\d:\d\d:\d\d)`)

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
var farSide = scene.NewPattern(`(?i)connection refused|no such host|name or service not known|temporary failure in name resolution|ECONNREFUSED|ENOTFOUND|EAI_AGAIN|i/o timeout|connect(ion)? timed out|ETIMEDOUT|no route to host|host is unreachable`)
