package network

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scene"
	"nightcrier.dev/nightcrier/internal/text"
)

var serviceRules = scene.Area{Name: "service", Rules: []scene.Rule{balancerOfTargetPending},
	SceneRules: []scene.SceneRule{selectorMismatch, podsNotReady, portMismatch, headlessMisuse, balancerPending}, Causes: serviceCauses}

var serviceCauses = []scene.Cause{
	{ID: "headless-service-misuse", Category: "Network", Meaning: "a client connects to the port of a headless Service, which maps no ports, while its Pods serve another", Rank: scene.RankStated},
	{ID: "service-load-balancer-pending", Category: "Service", Meaning: "a Service of type LoadBalancer is given no address", Rank: scene.RankFollows + 5, Symptom: true},
	{ID: "service-pods-not-ready", Category: "Service", Meaning: "a Service selects Pods, none of which is ready", Rank: scene.RankFollows, Symptom: true},
	{ID: "service-port-name-mismatch", Category: "Service", Meaning: "a Service's target port is a name that no container of its Pods declares", Rank: scene.RankStated + 4},
	{ID: "service-protocol-mismatch", Category: "Service", Meaning: "a Service forwards one protocol to a port that its Pods serve with another", Rank: scene.RankStated + 3},
	{ID: "service-selector-mismatch", Category: "Service", Meaning: "a Service selects no Pod, though a workload is evidently meant", Rank: scene.RankStated + 5},
	{ID: "service-target-port-mismatch", Category: "Service", Meaning: "a Service forwards to a port that its Pods do not serve, while they serve another", Rank: scene.RankStated + 3},
}

// endpointsTest is the test of what stands behind a Service.
func endpointsTest(svc *corev1.Service, ifTrue, ifFalse string) nightcrier.Falsification {
	return scene.NewTest(svc.Namespace, svc.Name, []string{"kubectl", "get", "endpointslices", "-l", "kubernetes.io/service-name=" + svc.Name, "-o", "yaml"}).
		DecidesBetween(ifTrue, ifFalse)
}

// selectorMismatch finds Services that select nothing, though a workload is
// evidently meant.
func selectorMismatch(s *scene.Scene) []scene.Finding {
	var out []scene.Finding
	for i := range s.Services {
		svc := &s.Services[i]
		if !scene.HasSelector(&svc.Object) || !selectsNothing(s, &svc.Object) {
			continue
		}
		if m, ok := workloadMeantBy(s, &svc.Object); ok {
			out = append(out, wrongSelector(s, svc, m))
		}
	}
	return out
}

// selectsNothing reports whether it is certain that neither a Pod nor the
// template of a workload matches.
func selectsNothing(s *scene.Scene, svc *corev1.Service) bool {
	ready, known := s.ReadyEndpoints(svc)
	if ready > 0 || !known && !s.Complete("Pod", svc.Namespace) || len(s.PodsBehind(svc)) > 0 {
		return false
	}
	sel := labels.SelectorFromSet(svc.Spec.Selector)
	for w := range s.WorkloadsIn(svc.Namespace) {
		if sel.Matches(labels.Set(w.Labels)) {
			return false
		}
	}
	return true
}

// likeness is a workload that a Service may be meant for.
type likeness struct {
	scene.PodMaker
	// named is set when the two bear one name.
	named bool
	// equal is the part of the selector that agrees, differ the keys that do not.
	equal  map[string]string
	differ []string
}

// workloadMeantBy returns the one workload that a Service without Pods is meant for. A
// Service whose likeness has another Service already is a variant that is not
// in use, a canary or a replica, unless it bears the workload's own name.
func workloadMeantBy(s *scene.Scene, svc *corev1.Service) (likeness, bool) {
	var best []likeness
	for w := range s.WorkloadsIn(svc.Namespace) {
		l := likenessOf(svc, w)
		switch {
		case l.Object.Kind == "Job" || l.Object.Kind == "CronJob" || w.Wants == 0:
		case l.named:
			return l, true
		case l.looksLikeSlip(svc) && !isServed(s, w):
			best = append(best, l)
		}
	}
	slices.SortStableFunc(best, func(a, b likeness) int { return cmp.Compare(len(b.equal), len(a.equal)) })
	if len(best) == 0 || len(best) > 1 && len(best[0].equal) == len(best[1].equal) {
		return likeness{}, false
	}
	return best[0], tellsApart(s, best[0], svc.Namespace)
}

// looksLikeSlip reports whether the labels that differ look like slips: a value spelt
// almost alike, or, beside labels that agree, one that the workload does not have
// at all. Other values are those of another workload, which may not be deployed.
func (l likeness) looksLikeSlip(svc *corev1.Service) bool {
	near := len(l.equal) > 0
	for _, k := range l.differ {
		has, ok := l.Labels[k]
		if !ok {
			continue
		}
		asks := svc.Spec.Selector[k]
		if text.CountEdits(has, asks)*3 > len(has) && !strings.HasPrefix(asks, has+"-") && !strings.HasPrefix(has, asks+"-") {
			return false
		}
		near = true
	}
	return near
}

// tellsApart reports whether the labels that agree are those of one workload
// only, rather than of a whole application.
func tellsApart(s *scene.Scene, l likeness, ns string) bool {
	set := labels.Set(l.equal)
	if len(set) == 0 { // what the slips would have been
		set = labels.Set{}
		for _, k := range l.differ {
			if v, ok := l.Labels[k]; ok {
				set[k] = v
			}
		}
	}
	sel := labels.SelectorFromSet(set)
	for w := range s.WorkloadsIn(ns) {
		if w.Object != l.Object && sel.Matches(labels.Set(w.Labels)) {
			return false
		}
	}
	return true
}

func likenessOf(svc *corev1.Service, w scene.PodMaker) likeness {
	l := likeness{PodMaker: w, equal: map[string]string{}}
	for _, k := range slices.Sorted(maps.Keys(svc.Spec.Selector)) {
		if v, ok := w.Labels[k]; ok && v == svc.Spec.Selector[k] {
			l.equal[k] = v
		} else {
			l.differ = append(l.differ, k)
		}
	}
	l.named = bareName(svc.Name) == bareName(w.Object.Name)
	return l
}

// bareName is a name without the endings that people give to Services.
func bareName(s string) string {
	for _, end := range []string{"-service", "-svc", "-headless", "-external", "-internal", "-lb", "-nodeport", "-deployment", "-deploy", "-statefulset"} {
		s = strings.TrimSuffix(s, end)
	}
	return versionEnd.ReplaceAllString(s, "")
}

// versionEnd is the end of the name of one version of a workload.
var versionEnd = scene.NewPattern(`-v\d{1,3}$`)

// isServed reports whether any Service selects what w makes.
func isServed(s *scene.Scene, w scene.PodMaker) bool {
	return slices.ContainsFunc(s.Services, func(o scene.Read[corev1.Service]) bool {
		return o.Object.Namespace == w.Object.Namespace && scene.HasSelector(&o.Object) &&
			labels.SelectorFromSet(o.Object.Spec.Selector).Matches(labels.Set(w.Labels))
	})
}

func wrongSelector(s *scene.Scene, svc *scene.Read[corev1.Service], m likeness) scene.Finding {
	var asks, has []string
	for _, k := range m.differ {
		asks = append(asks, k+"="+svc.Object.Spec.Selector[k])
		if v, ok := m.Labels[k]; ok {
			has = append(has, k+"="+v)
		} else {
			has = append(has, "no label "+k)
		}
	}
	o := scene.ServiceObject(&svc.Object)
	n := scene.Finding{
		Cause: "service-selector-mismatch", Object: o, Confidence: nightcrier.Medium,
		Summary: fmt.Sprintf("%s selects no Pod: its selector asks for %s, and the Pods of %s have %s.",
			o, text.CutMiddle(strings.Join(asks, ", "), scene.MaxQuote), m.Object, text.CutLine(strings.Join(has, ", "), scene.MaxQuote)),
		Observed: []scene.Observation{
			{Text: o.String() + " selects " + strings.Join(asks, ", ") + ", which no Pod has", Quote: asks[0], Ref: svc.Ref},
			{Text: "the Pods of " + m.Object.String() + " have " + strings.Join(has, ", "), Quote: has[0], Ref: m.Ref},
		},
		WrongIf: "the Service is meant for a workload that is not deployed",
		Test:    endpointsTest(&svc.Object, "no endpoint is listed", "ready endpoints are listed"),
		Behind:  []nightcrier.Object{m.Object},
		Actions: []scene.Step{
			{Action: "Correct the selector of " + o.String() + " to the labels of " + m.Object.String(), Do: scene.DoEdit, Outcome: "its Pods become endpoints at once", Risk: "traffic reaches them at once"},
		},
	}
	if m.named {
		n.Confidence = nightcrier.High
	}
	return n
}

// podsNotReady finds Services all of whose Pods are unready, which follows from
// what ails the Pods.
func podsNotReady(s *scene.Scene) []scene.Finding {
	var out []scene.Finding
	for i := range s.Services {
		svc := &s.Services[i]
		pods := s.PodsBehind(&svc.Object)
		ready, _ := s.ReadyEndpoints(&svc.Object)
		if len(pods) == 0 || ready > 0 || svc.Object.Spec.PublishNotReadyAddresses || !slices.ContainsFunc(pods, s.IsLongUnready) ||
			slices.ContainsFunc(pods, func(p *scene.Read[corev1.Pod]) bool { return scene.IsPodReady(&p.Object) }) {
			continue
		}
		o, behind := scene.ServiceObject(&svc.Object), s.WorkloadsAbove(pods)
		out = append(out, scene.Finding{
			Cause: "service-pods-not-ready", Object: o, Confidence: nightcrier.Medium, Weight: len(pods), DependsOn: behind,
			Summary: fmt.Sprintf("%s has no ready endpoint: none of the Pods of %s that it selects is ready (0 of %d).", o, behind[0], len(pods)),
			Observed: []scene.Observation{{
				Text:  "Pod " + pods[0].Object.Name + " that " + o.String() + " selects is not ready",
				Quote: "phase=" + string(pods[0].Object.Status.Phase), Ref: pods[0].Ref,
			}},
			WrongIf: "a Pod has become ready since",
			Test:    endpointsTest(&svc.Object, "every endpoint has ready: false, or there is none", "an endpoint is ready"),
			Actions: []scene.Step{{Action: "Mend " + behind[0].String() + ", whose Pods are not ready", Outcome: "the Service has endpoints again", Risk: "none for the Service"}},
		})
	}
	return out
}

// portMismatch finds ports of Services that lead to a port which none of their
// Pods serves.
func portMismatch(s *scene.Scene) []scene.Finding {
	var out []scene.Finding
	for i := range s.Services {
		svc := &s.Services[i]
		pods := s.PodsBehind(&svc.Object)
		if len(pods) == 0 {
			continue
		}
		for _, port := range svc.Object.Spec.Ports {
			n, ok := scene.Finding{}, false
			switch target := targetOf(port); {
			case target.Type == intstr.String:
				n, ok = portNameMissing(s, svc, port, target.StrVal, pods)
			case target.IntVal > 0:
				n, ok = portNotServed(s, svc, port, target.IntVal, pods)
			}
			if ok {
				out = append(out, n)
			}
		}
	}
	return out
}

// targetOf is where a port of a Service leads: to its own number by default.
func targetOf(p corev1.ServicePort) intstr.IntOrString {
	if p.TargetPort == (intstr.IntOrString{}) {
		return intstr.FromInt32(p.Port)
	}
	return p.TargetPort
}

func protocolOrTCP(p corev1.Protocol) corev1.Protocol { return cmp.Or(p, corev1.ProtocolTCP) }

// meshProxies are the sidecars whose ports are not the application's.
var meshProxies = []string{"istio-proxy", "linkerd-proxy", "envoy-sidecar", "kuma-sidecar"}

// declaredPorts returns the ports that a Pod's containers declare, those of sidecars
// that start as init containers with them.
func declaredPorts(spec *corev1.PodSpec) []corev1.ContainerPort {
	var out []corev1.ContainerPort
	for _, c := range spec.InitContainers {
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways && !slices.Contains(meshProxies, c.Name) {
			out = append(out, c.Ports...)
		}
	}
	for _, c := range spec.Containers {
		if !slices.Contains(meshProxies, c.Name) {
			out = append(out, c.Ports...)
		}
	}
	return out
}

func portNameMissing(s *scene.Scene, svc *scene.Read[corev1.Service], port corev1.ServicePort, name string, pods []*scene.Read[corev1.Pod]) (scene.Finding, bool) {
	var has []string
	var other *corev1.ContainerPort
	for _, p := range pods {
		for _, d := range declaredPorts(&p.Object.Spec) {
			switch {
			case d.Name == name && protocolOrTCP(d.Protocol) == protocolOrTCP(port.Protocol):
				return scene.Finding{}, false
			case d.Name == name:
				other = &d
			case !slices.Contains(has, d.Name):
				has = append(has, d.Name)
			}
		}
	}
	if other != nil {
		return wrongProtocol(s, svc, port, *other, pods), true
	}
	named := slices.DeleteFunc(has, func(n string) bool { return n == "" })
	declares := "declare no port by name"
	if len(named) > 0 {
		declares = "declare " + strings.Join(named, ", ")
	}
	n := portFinding(s, "service-port-name-mismatch", svc, port, pods)
	n.Confidence = nightcrier.High
	n.Summary = fmt.Sprintf("%s forwards port %d to the target port named %s, and the containers of %s %s.",
		n.Object, port.Port, text.CutMiddle(name, scene.MaxQuote), n.Behind[0], text.CutLine(declares, scene.MaxQuote))
	n.Observed[0].Quote = name
	return n, true
}

// portNotServed judges a target port by its number. What containers declare only
// informs, so it takes more than a port that nobody declared: another one that
// they do serve, which no Service leads to, and no mention of this one.
func portNotServed(s *scene.Scene, svc *scene.Read[corev1.Service], port corev1.ServicePort, target int32, pods []*scene.Read[corev1.Pod]) (scene.Finding, bool) {
	for _, p := range pods {
		for _, d := range declaredPorts(&p.Object.Spec) {
			if d.ContainerPort != target {
				continue
			}
			if protocolOrTCP(d.Protocol) == protocolOrTCP(port.Protocol) || leadsTo(s, svc.Object.Namespace, pods, target, d.Protocol) || declaresBoth(&p.Object.Spec, port, target) {
				return scene.Finding{}, false
			}
			return wrongProtocol(s, svc, port, d, pods), true
		}
	}
	served, sure := servedInstead(s, svc, port, pods)
	if served.port == 0 || mentionsPort(s, pods, target) {
		return scene.Finding{}, false
	}
	n := portFinding(s, "service-target-port-mismatch", svc, port, pods)
	n.Confidence = nightcrier.Medium
	if sure || complaintAbout(s, &svc.Object, refusedWords) != nil {
		n.Confidence = nightcrier.High
	}
	n.Summary = fmt.Sprintf("%s forwards port %d to target port %d, which no container of %s serves; %s.", n.Object, port.Port, target, n.Behind[0], served.Text)
	n.Observed[0].Quote = fmt.Sprintf("targetPort=%d", target)
	n.Observed = append(n.Observed, served.Observation)
	if line := complaintAbout(s, &svc.Object, refusedWords); line != nil {
		n.Observed = append(n.Observed, *line)
	}
	return n, true
}

func declaresBoth(spec *corev1.PodSpec, port corev1.ServicePort, target int32) bool {
	return slices.ContainsFunc(declaredPorts(spec), func(d corev1.ContainerPort) bool {
		return d.ContainerPort == target && protocolOrTCP(d.Protocol) == protocolOrTCP(port.Protocol)
	})
}

// portFinding is what findings about a Service's port have in common.
func portFinding(s *scene.Scene, cause string, svc *scene.Read[corev1.Service], port corev1.ServicePort, pods []*scene.Read[corev1.Pod]) scene.Finding {
	o, behind, target := scene.ServiceObject(&svc.Object), s.WorkloadsAbove(pods), targetOf(port)
	return scene.Finding{
		Cause: cause, Object: o, Behind: behind,
		Observed: []scene.Observation{{
			Text: fmt.Sprintf("%s forwards port %d/%s to target port %s", o, port.Port, protocolOrTCP(port.Protocol), target.String()),
			Ref:  svc.Ref,
		}},
		WrongIf: "the process listens there without its container saying so",
		Test: scene.GetTest(svc.Object.Namespace, "service", svc.Object.Name).
			DecidesBetween("targetPort is none that the containers serve", "targetPort is a port that the containers serve"),
		Actions: []scene.Step{
			{Action: "Correct the target port of " + o.String() + " to the one that " + behind[0].String() + " serves", Do: scene.DoEdit, Outcome: "connections reach the containers", Risk: "none while they fail anyway"},
			{Action: "Or make " + behind[0].String() + " serve the port that the Service leads to", Outcome: "connections reach the containers", Risk: "needs a new rollout"},
		},
	}
}

func wrongProtocol(s *scene.Scene, svc *scene.Read[corev1.Service], port corev1.ServicePort, d corev1.ContainerPort, pods []*scene.Read[corev1.Pod]) scene.Finding {
	n := portFinding(s, "service-protocol-mismatch", svc, port, pods)
	n.Confidence = nightcrier.High
	n.Summary = fmt.Sprintf("%s forwards %s to port %d, which the containers of %s serve by %s.",
		n.Object, protocolOrTCP(port.Protocol), d.ContainerPort, n.Behind[0], protocolOrTCP(d.Protocol))
	n.Observed[0].Quote = fmt.Sprintf("protocol=%s", protocolOrTCP(port.Protocol))
	return n
}

// leadsTo reports whether another port of any Service of these Pods leads to a
// number by a protocol.
func leadsTo(s *scene.Scene, ns string, pods []*scene.Read[corev1.Pod], number int32, by corev1.Protocol) bool {
	return portTo(s, ns, pods, number, by) != nil
}

func portTo(s *scene.Scene, ns string, pods []*scene.Read[corev1.Pod], number int32, by corev1.Protocol) *corev1.ServicePort {
	for i := range s.Services {
		svc := &s.Services[i].Object
		if svc.Namespace != ns || !scene.HasSelector(svc) || !labels.SelectorFromSet(svc.Spec.Selector).Matches(labels.Set(pods[0].Object.Labels)) {
			continue
		}
		for j, p := range svc.Spec.Ports {
			if protocolOrTCP(p.Protocol) == protocolOrTCP(by) && numberOf(p, &pods[0].Object.Spec) == number {
				return &svc.Spec.Ports[j]
			}
		}
	}
	return nil
}

// numberOf is the number that a Service's port has in a Pod, 0 for none.
func numberOf(p corev1.ServicePort, spec *corev1.PodSpec) int32 {
	target := targetOf(p)
	if target.Type == intstr.Int {
		return target.IntVal
	}
	for _, d := range declaredPorts(spec) {
		if d.Name == target.StrVal && protocolOrTCP(d.Protocol) == protocolOrTCP(p.Protocol) {
			return d.ContainerPort
		}
	}
	return 0
}

// servedPort is a port that Pods serve, and how that is known.
type servedPort struct {
	port int32
	scene.Observation
}

// servedInstead is a port of the Pods that the Service is evidently meant to
// lead to; sure when more than a declaration says so.
func servedInstead(s *scene.Scene, svc *scene.Read[corev1.Service], port corev1.ServicePort, pods []*scene.Read[corev1.Pod]) (served servedPort, sure bool) {
	free := func(number int32) bool {
		other := portTo(s, svc.Object.Namespace, pods, number, port.Protocol)
		return other == nil || other.Port == port.Port
	}
	only := len(svc.Object.Spec.Ports) == 1
	declares := 0
	for _, d := range declaredPorts(&pods[0].Object.Spec) {
		if protocolOrTCP(d.Protocol) != protocolOrTCP(port.Protocol) {
			continue
		}
		declares++
		kin := only || d.ContainerPort == port.Port || d.Name != "" && d.Name == port.Name
		if free(d.ContainerPort) && kin && (served.port == 0 || d.ContainerPort == port.Port) {
			served = servedPort{d.ContainerPort, scene.Observation{
				Text: fmt.Sprintf("they declare port %d", d.ContainerPort), Quote: fmt.Sprintf("containerPort=%d", d.ContainerPort), Ref: pods[0].Ref,
			}}
		}
	}
	sure = served.port != 0 && (declares == 1 && served.port == port.Port || listensOn(s, pods, served.port))
	if declares == 0 && only && protocolOrTCP(port.Protocol) == corev1.ProtocolTCP {
		served = heardListening(s, pods)
		sure = served.port != 0
	}
	if declares == 0 && !sure && only && free(port.Port) {
		served = configuredPort(s, pods, port.Port)
	}
	return served, sure
}

// configuredPort is a port that the Pods' own settings name, as that of a Service
// whose target port is none of theirs.
func configuredPort(s *scene.Scene, pods []*scene.Read[corev1.Pod], port int32) servedPort {
	if !mentionsPort(s, pods, port) {
		return servedPort{}
	}
	return servedPort{port, scene.Observation{
		Text: fmt.Sprintf("their settings name port %d", port), Quote: strconv.Itoa(int(port)), Ref: pods[0].Ref,
	}}
}

// listensOn reports whether a probe that succeeds, or the log, shows that the Pods
// serve a port.
func listensOn(s *scene.Scene, pods []*scene.Read[corev1.Pod], port int32) bool {
	return slices.Contains(probedPorts(pods[0]), port) && scene.IsPodReady(&pods[0].Object) || heardListening(s, pods).port == port
}

// heardListening is the port that the Pods serve by a probe that succeeds or by
// their own words, none if it is not one alone.
func heardListening(s *scene.Scene, pods []*scene.Read[corev1.Pod]) servedPort {
	if probed := probedPorts(pods[0]); len(probed) == 1 && scene.IsPodReady(&pods[0].Object) {
		return servedPort{probed[0], scene.Observation{Text: fmt.Sprintf("its probe succeeds on port %d", probed[0]), Quote: fmt.Sprintf("port=%d", probed[0]), Ref: pods[0].Ref}}
	}
	var heard servedPort
	for _, l := range s.Logs {
		if l.Namespace != pods[0].Object.Namespace || !slices.ContainsFunc(pods, func(p *scene.Read[corev1.Pod]) bool { return p.Object.Name == l.Pod }) {
			continue
		}
		for line := range strings.Lines(l.Text) {
			line = text.KeepBytes(line, 4*scene.MaxQuote)
			if !strings.ContainsAny(line, "0123456789") {
				continue
			}
			m := scene.ListeningPattern.FindStringSubmatch(line)
			if m == nil {
				continue
			}
			port, _ := strconv.ParseInt(m[1], 10, 32)
			if heard.port != 0 && heard.port != int32(port) {
				return servedPort{}
			}
			heard = servedPort{int32(port), scene.Observation{Text: fmt.Sprintf("they say that they listen on port %d", port), Quote: text.CutMiddle(line, scene.MaxQuote), Ref: l.Ref()}}
		}
	}
	return heard
}

// probedPorts are the numbers of the ports that a Pod's probes ask.
func probedPorts(p *scene.Read[corev1.Pod]) []int32 {
	var out []int32
	for _, c := range p.Object.Spec.Containers {
		for _, pr := range []*corev1.Probe{c.ReadinessProbe, c.LivenessProbe, c.StartupProbe} {
			var port intstr.IntOrString
			switch {
			case pr == nil:
				continue
			case pr.HTTPGet != nil:
				port = pr.HTTPGet.Port
			case pr.TCPSocket != nil:
				port = pr.TCPSocket.Port
			case pr.GRPC != nil:
				port = intstr.FromInt32(pr.GRPC.Port)
			}
			if number := numberOf(corev1.ServicePort{TargetPort: port}, &p.Object.Spec); number != 0 && !slices.Contains(out, number) {
				out = append(out, number)
			}
		}
	}
	return out
}

// mentionsPort reports whether anything in the Pods' own configuration, probes or
// logs names a port as theirs, so that they may serve it undeclared.
func mentionsPort(s *scene.Scene, pods []*scene.Read[corev1.Pod], port int32) bool {
	if slices.Contains(probedPorts(pods[0]), port) || heardListening(s, pods).port == port {
		return true
	}
	number := strconv.Itoa(int(port))
	own := scene.NewPattern(`(?:^|[^\w.:-]|\b(?:0\.0\.0\.0|localhost|127\.0\.0\.1):|[\]*"'=,\s]:|^:)` + number + `(?:$|[^\w.])`)
	w := scene.PodMaker{Object: s.WorkloadAbove("Pod", &pods[0].Object), Spec: &pods[0].Object.Spec, Ref: pods[0].Ref}
	for _, v := range s.SettingsOfMaker(w) {
		if said := text.KeepBytes(v.Quote, scene.MaxSetting); strings.Contains(said, number) && own.MatchString(said) {
			return true
		}
	}
	return false
}

// What clients say about a server: that nobody listens, that nobody answers,
// that its name is not known.
var (
	refusedWords = scene.NewPattern(`(?i)connection refused|ECONNREFUSED|actively refused|Connect call failed|failed to connect|can't connect|could not connect|upstream connect error|no route to host|host unreachable`)
	timeoutWords = scene.NewPattern(`(?i)i/o timeout|timed? ?out|ETIMEDOUT|deadline ?exceeded|SocketTimeout|ConnectTimeout|no route to host|EHOSTUNREACH|network is unreachable|operation not permitted|upstream request timeout|reset reason: connection timeout`)
	unknownWords = scene.NewPattern(`(?i)no such host|ENOTFOUND|EAI_AGAIN|name or service not known|temporary failure in name resolution|name does not resolve|unknown ?host|server misbehaving|could not resolve|getaddrinfo|NXDOMAIN|lookup [^\n]{1,200} i/o timeout|could not translate host name|nodename nor servname|host not found`)
)

// complaintAbout returns a line of a log in which a client of the Service says one of
// words about it, nil if none does.
func complaintAbout(s *scene.Scene, svc *corev1.Service, words *scene.Pattern) *scene.Observation {
	about := func(line string) bool {
		for _, host := range []string{svc.Name + ":", svc.Name + ".", "//" + svc.Name, `"` + svc.Name + `"`, "'" + svc.Name + "'", " " + svc.Name + " "} {
			if i := strings.Index(line, host); i >= 0 && (i == 0 || !wordByte(line[i-1])) {
				return true
			}
		}
		ip := svc.Spec.ClusterIP
		return ip != "" && ip != corev1.ClusterIPNone && strings.Contains(line, ip+":")
	}
	for _, l := range s.Logs {
		for line := range strings.Lines(l.Text) {
			line = text.KeepBytes(line, 4*scene.MaxQuote)
			if about(line) && words.MatchString(line) {
				return &scene.Observation{Text: "the log of Pod " + l.Pod + " complains about " + scene.ServiceObject(svc).String(), Quote: text.CutMiddle(line, scene.MaxQuote), Ref: l.Ref()}
			}
		}
	}
	return nil
}

// logLineWith is a line of any log that has one of words, nil if none has.
func logLineWith(s *scene.Scene, words *scene.Pattern) *scene.Observation {
	for _, l := range s.Logs {
		for line := range strings.Lines(l.Text) {
			if line = text.KeepBytes(line, 4*scene.MaxQuote); words.MatchString(line) {
				return &scene.Observation{Text: "the log of Pod " + l.Pod + " says so", Quote: text.CutMiddle(line, scene.MaxQuote), Ref: l.Ref()}
			}
		}
	}
	return nil
}

func wordByte(b byte) bool {
	return b == '-' || b == '_' || b == '.' || b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z'
}

// headlessMisuse finds clients that connect to the port of a headless Service
// while its Pods serve another: its name leads to the Pods themselves, and no
// port is mapped on the way.
func headlessMisuse(s *scene.Scene) []scene.Finding {
	var out []scene.Finding
	var all []scene.Client
	for i := range s.Services {
		svc := &s.Services[i]
		pods := s.PodsBehind(&svc.Object)
		if svc.Object.Spec.ClusterIP != corev1.ClusterIPNone || len(pods) == 0 {
			continue
		}
		for _, port := range svc.Object.Spec.Ports {
			number := numberOf(port, &pods[0].Object.Spec)
			if number == 0 || number == port.Port || mentionsPort(s, pods, port.Port) || declaresBoth(&pods[0].Object.Spec, port, port.Port) {
				continue
			}
			if all == nil {
				all = s.AllClients()
			}
			for _, c := range scene.ClientsOf(&svc.Object, all) {
				if c.Port == port.Port {
					out = append(out, headlessFinding(s, svc, c, port, number, pods))
					break
				}
			}
		}
	}
	return out
}

func headlessFinding(s *scene.Scene, svc *scene.Read[corev1.Service], c scene.Client, port corev1.ServicePort, number int32, pods []*scene.Read[corev1.Pod]) scene.Finding {
	o := scene.ServiceObject(&svc.Object)
	n := scene.Finding{
		Cause: "headless-service-misuse", Object: o, Confidence: nightcrier.Medium,
		Summary: fmt.Sprintf("%s connects to port %d of the headless %s, whose Pods serve %d: a headless Service (clusterIP: None) maps no ports.", c.Object, port.Port, o, number),
		Observed: []scene.Observation{
			{Text: c.Text + " names the port of a headless Service", Quote: c.Quote, Ref: c.Ref},
			{Text: fmt.Sprintf("%s is headless and forwards port %d to %d", o, port.Port, number), Quote: "clusterIP=None", Ref: svc.Ref},
		},
		WrongIf:  "the Pods listen on the Service's port too",
		Test:     scene.GetTest(svc.Object.Namespace, "service", svc.Object.Name).DecidesBetween("clusterIP is None and port differs from targetPort", "it has a cluster IP, or the two are equal"),
		Affected: []nightcrier.Object{c.Object},
		Behind:   s.WorkloadsAbove(pods),
		Actions: []scene.Step{
			{Action: fmt.Sprintf("Let %s connect to port %d", c.Object, number), Outcome: "it reaches the Pods", Risk: "needs a rollout of the client"},
			{Action: "Or give clients a Service with a cluster IP", Outcome: "the port is mapped", Risk: "the cluster IP of a Service cannot be changed: it takes a new one"},
		},
	}
	if line := complaintAbout(s, &svc.Object, refusedWords); line != nil {
		n.Confidence = nightcrier.High
		n.Observed = append(n.Observed, *line)
	}
	return n
}

// balancerPending finds Services of type LoadBalancer without an address, where
// the cluster says that making one failed, or gave others theirs. Alone it is
// nothing: many clusters have nobody who would make one.
func balancerPending(s *scene.Scene) []scene.Finding {
	var out []scene.Finding
	gives := slices.ContainsFunc(s.Services, func(o scene.Read[corev1.Service]) bool { return len(o.Object.Status.LoadBalancer.Ingress) > 0 })
	for i := range s.Services {
		svc := &s.Services[i]
		if !withoutBalancer(&svc.Object) {
			continue
		}
		said := balancerFailed(s, &svc.Object)
		if said == nil && (!gives || s.Now.Sub(svc.Object.CreationTimestamp.Time) < scene.BalancerLate) {
			continue
		}
		out = append(out, noBalancer(svc, said))
	}
	return out
}

func withoutBalancer(svc *corev1.Service) bool {
	return svc.Spec.Type == corev1.ServiceTypeLoadBalancer && len(svc.Status.LoadBalancer.Ingress) == 0 && svc.DeletionTimestamp == nil
}

func balancerFailed(s *scene.Scene, svc *corev1.Service) *scene.Observation {
	for e := range s.EventsAbout("Service", svc.Namespace, svc.Name) {
		if slices.Contains([]string{"SyncLoadBalancerFailed", "AllocationFailed", "CreatingLoadBalancerFailed"}, e.Object.Reason) && s.IsFresh(e) {
			said := scene.ObserveEvent(e)
			return &said
		}
	}
	return nil
}

func noBalancer(svc *scene.Read[corev1.Service], said *scene.Observation) scene.Finding {
	o := scene.ServiceObject(&svc.Object)
	n := scene.Finding{
		Cause: "service-load-balancer-pending", Object: o, Confidence: nightcrier.Medium,
		Summary:  fmt.Sprintf("%s has been given no load balancer address.", o),
		Observed: []scene.Observation{{Text: o.String() + " is of type LoadBalancer and has no address", Quote: "type=LoadBalancer", Ref: svc.Ref}},
		WrongIf:  "nobody reaches it from outside, or the address is on its way",
		Test:     scene.GetTest(svc.Object.Namespace, "service", svc.Object.Name).DecidesBetween("status.loadBalancer is empty", "it has an address"),
		Actions:  []scene.Step{{Action: "Look at the controller that makes load balancers: its log, quota and address pool", Outcome: "names why there is none", Risk: "none: read only"}},
	}
	if said != nil {
		n.Summary = strings.TrimSuffix(n.Summary, ".") + ": " + text.CutMiddle(said.Quote, scene.MaxQuote)
		n.Observed = append(n.Observed, *said)
	}
	return n
}

// balancerOfTargetPending is asked about the Service itself, which makes its
// missing address worth telling.
func balancerOfTargetPending(f *scene.Facts) []scene.Finding {
	if f.Target.Kind != "Service" || f.Hearsay {
		return nil
	}
	svc := scene.FindObject(f.Scene.Services, f.Target.Namespace, f.Target.Name)
	if svc == nil || !withoutBalancer(&svc.Object) || f.Now.Sub(svc.Object.CreationTimestamp.Time) < scene.BalancerLate {
		return nil
	}
	return []scene.Finding{noBalancer(svc, nil)}
}
