package network

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scene"
	"nightcrier.dev/nightcrier/internal/text"
)

var dnsRules = scene.Area{Name: "dns", SceneRules: []scene.SceneRule{dnsDown, dnsUpstreamAway, dnsServiceEmpty, dnsAnswersWrong, dnsPolicyWrong, externalNameWrong}, Causes: dnsCauses}

var dnsCauses = []scene.Cause{
	{ID: "cluster-dns-unhealthy", Category: "Network", Meaning: "the cluster's own DNS does not answer, or answers wrongly", Rank: scene.RankGround, Symptom: true},
	{ID: "dns-name-wrong", Category: "Network", Meaning: "a Service of type ExternalName leads to a name that does not exist", Rank: scene.RankStated + 3},
	{ID: "dns-policy-wrong", Category: "Network", Meaning: "Pods ask DNS servers that do not know the cluster's names", Rank: scene.RankStated + 3},
}

// servesDNS reports whether an object of the system namespace is the cluster's
// DNS, by the labels that distributions give it.
func servesDNS(m metav1.Object) bool {
	l := m.GetLabels()
	return m.GetNamespace() == scene.SystemNamespace &&
		(l["k8s-app"] == "kube-dns" || l["k8s-app"] == "coredns" || l["app.kubernetes.io/name"] == "coredns")
}

// dnsPods are the Pods of the cluster's DNS that have not ended.
func dnsPods(s *scene.Scene) []*scene.Read[corev1.Pod] {
	var out []*scene.Read[corev1.Pod]
	for i := range s.Pods {
		if p := &s.Pods[i]; servesDNS(&p.Object) && !scene.IsFinished(&p.Object) {
			out = append(out, p)
		}
	}
	return out
}

// workloadsNotResolving are the workloads whose logs say that names are not found.
func workloadsNotResolving(s *scene.Scene) []nightcrier.Object {
	var pods []*scene.Read[corev1.Pod]
	for _, l := range s.Logs {
		if p := scene.FindObject(s.Pods, l.Namespace, l.Pod); p != nil && unknownWords.MatchString(text.KeepBytes(l.Text, scene.MaxSetting)) && !servesDNS(&p.Object) {
			pods = append(pods, p)
		}
	}
	return s.WorkloadsAbove(pods)
}

// dnsDown finds a cluster's DNS of which no Pod is ready.
func dnsDown(s *scene.Scene) []scene.Finding {
	pods := dnsPods(s)
	if len(pods) == 0 {
		return dnsScaledAway(s)
	}
	if !slices.ContainsFunc(pods, s.IsLongUnready) || slices.ContainsFunc(pods, func(p *scene.Read[corev1.Pod]) bool { return scene.IsPodReady(&p.Object) }) {
		return nil
	}
	o := s.WorkloadsAbove(pods)[0]
	n := dnsFinding(s, o, scene.Observation{Text: "Pod " + pods[0].Object.Name + " of the cluster's DNS is not ready", Quote: "phase=" + string(pods[0].Object.Status.Phase), Ref: pods[0].Ref})
	n.Summary = fmt.Sprintf("The cluster's DNS does not answer: none of the %d Pods of %s is ready.", len(pods), o)
	n.Why = "" // that they are not ready is not why
	if line := dnsLog(s, pods); line != nil {
		n.Why = line.Quote
		n.Summary = strings.TrimSuffix(n.Summary, ".") + "; its log says: " + line.Quote
		n.Observed = append(n.Observed, *line)
	}
	return []scene.Finding{n}
}

// dnsScaledAway finds a cluster's DNS that is asked to run no Pods.
func dnsScaledAway(s *scene.Scene) []scene.Finding {
	for _, d := range s.Deployments {
		if r := d.Object.Spec.Replicas; servesDNS(&d.Object) && r != nil && *r == 0 {
			o := nightcrier.Object{Kind: "Deployment", Namespace: d.Object.Namespace, Name: d.Object.Name}
			n := dnsFinding(s, o, scene.Observation{Text: o.String() + ", the cluster's DNS, is scaled to zero", Quote: "replicas=0", Ref: d.Ref})
			n.Summary = fmt.Sprintf("The cluster's DNS does not answer: %s is scaled to zero.", o)
			return []scene.Finding{n}
		}
	}
	return nil
}

// upstreamAway matches what CoreDNS says of a server that it forwards to and that does not
// answer.
var upstreamAway = scene.NewPattern(`plugin/errors: \d+ (\S{1,253}) \w+: (?:read|dial|write) (?:udp|tcp)\d? (?:\S+->)?(\S{1,45}:\d{1,5}): .{0,60}(?:i/o timeout|refused|no route|unreachable)`)

// dnsUpstreamAway finds a cluster's DNS that runs, and forwards what lies outside of the
// cluster to a server that does not answer.
func dnsUpstreamAway(s *scene.Scene) []scene.Finding {
	pods := dnsPods(s)
	for _, l := range s.Logs {
		if !slices.ContainsFunc(pods, func(p *scene.Read[corev1.Pod]) bool {
			return p.Object.Name == l.Pod && p.Object.Namespace == l.Namespace
		}) {
			continue
		}
		said := upstreamAway.FindAllStringSubmatch(l.Text, scene.RecentLines)
		if len(said) < 3 {
			continue
		}
		last := said[len(said)-1]
		o := s.WorkloadsAbove(pods)[0]
		n := dnsFinding(s, o, scene.Observation{Text: "the log of Pod " + l.Pod + " of the cluster's DNS says so", Quote: text.CutMiddle(last[0], scene.MaxQuote), Ref: l.Ref()})
		n.Summary = fmt.Sprintf("The cluster's DNS (%s) forwards names outside of the cluster, such as %s, to %s, which does not answer.", o, strings.TrimSuffix(last[1], "."), last[2])
		n.WrongIf = "that server was away for a moment and answers now"
		host, _, _ := strings.Cut(last[2], ":")
		for _, cm := range s.ConfigMaps {
			if cm.Object.Namespace != o.Namespace || !strings.Contains(cm.Object.Data["Corefile"], host) {
				continue
			}
			n.Object = nightcrier.Object{Kind: "ConfigMap", Namespace: cm.Object.Namespace, Name: cm.Object.Name}
			n.Affected = append(n.Affected, o)
			n.Observed = append(n.Observed, scene.Observation{Text: n.Object.String() + " forwards to " + host, Quote: host, Ref: cm.Ref})
			n.Actions = []scene.Step{{Action: "Correct the servers that forward names in the Corefile of " + n.Object.String() + ", or bring " + last[2] + " back", Do: scene.DoEdit, Outcome: "names outside of the cluster resolve again", Risk: "a wrong configuration takes DNS from the whole cluster"}}
		}
		return []scene.Finding{n}
	}
	return nil
}

// dnsLog is the line by which the DNS server says why it ended.
func dnsLog(s *scene.Scene, pods []*scene.Read[corev1.Pod]) *scene.Observation {
	for _, l := range s.Logs {
		if !slices.ContainsFunc(pods, func(p *scene.Read[corev1.Pod]) bool {
			return p.Object.Name == l.Pod && p.Object.Namespace == l.Namespace
		}) {
			continue
		}
		if line := scene.ErrorLine(l.Text); corefileWords.MatchString(line) {
			return &scene.Observation{Text: "the log of Pod " + l.Pod + " says why", Quote: text.CutMiddle(line, scene.MaxQuote), Ref: l.Ref()}
		}
	}
	return nil
}

var corefileWords = scene.NewPattern(`(?i)Corefile|plugin/|unknown directive|error during parsing|loop|listen (tcp|udp)|fatal|error`)

func dnsFinding(s *scene.Scene, o nightcrier.Object, seen scene.Observation) scene.Finding {
	return scene.Finding{
		Cause: "cluster-dns-unhealthy", Object: o, Confidence: nightcrier.High,
		Observed: []scene.Observation{seen}, Why: seen.Quote,
		WrongIf: "names are resolved by another server, such as a cache on each node",
		Test: scene.GetTest(o.Namespace, strings.ToLower(o.Kind), o.Name).
			DecidesBetween("it is as described", "it has changed since"),
		Affected: workloadsNotResolving(s),
		Actions: []scene.Step{
			{Action: "Mend " + o.String() + " first: nothing that connects by name works without it", Outcome: "names resolve again, and clients recover by themselves", Risk: "a wrong configuration takes DNS from the whole cluster"},
		},
	}
}

// dnsServiceEmpty finds a Service of the cluster's DNS that selects none of its
// Pods.
func dnsServiceEmpty(s *scene.Scene) []scene.Finding {
	pods := dnsPods(s)
	for i := range s.Services {
		svc := &s.Services[i]
		if svc.Object.Namespace != scene.SystemNamespace || svc.Object.Name != "kube-dns" || len(pods) == 0 || !scene.HasSelector(&svc.Object) || !selectsNothing(s, &svc.Object) {
			continue
		}
		n := dnsFinding(s, scene.ServiceObject(&svc.Object), scene.Observation{Text: "the Service of the cluster's DNS selects none of its Pods", Quote: "kube-dns", Ref: svc.Ref})
		n.Summary = fmt.Sprintf("The cluster's DNS does not answer: the selector of %s matches none of the Pods of %s.", n.Object, s.WorkloadsAbove(pods)[0])
		n.Behind = s.WorkloadsAbove(pods)
		return []scene.Finding{n}
	}
	return nil
}

// Blocks of a Corefile that refuse names.
var (
	templateBlock = scene.NewPattern(`(?s)\btemplate[ \t]+(\w+)[ \t]+(\w+)([^{\n]{0,300})\{(.{0,1000}?)\n\s*\}`)
	refusingCode  = scene.NewPattern(`\brcode\s+(NXDOMAIN|SERVFAIL|REFUSED)\b`)
	templateMatch = scene.NewPattern(`\bmatch\s+"?([^\s"]{1,300})"?`)
	// clusterName is a pattern that ends in the cluster's domain; more behind it
	// is the common way to spare searches in a cloud's domain.
	clusterName = scene.NewPattern(`cluster\\{0,2}\.local(?:\\{0,2}\.)?\)?\$?$`)
	kubePlugin  = scene.NewPattern(`(?m)^\s*(kubernetes|import)\b`)
)

// dnsAnswersWrong finds a configuration of CoreDNS that refuses the cluster's
// own names, or does not know them.
func dnsAnswersWrong(s *scene.Scene) []scene.Finding {
	var out []scene.Finding
	for i := range s.ConfigMaps {
		cm := &s.ConfigMaps[i]
		core := cm.Object.Data["Corefile"]
		if cm.Object.Namespace != scene.SystemNamespace || core == "" || !strings.Contains(cm.Object.Name, "coredns") {
			continue
		}
		core = text.KeepBytes(core, scene.MaxSetting)
		o := nightcrier.Object{Kind: "ConfigMap", Namespace: cm.Object.Namespace, Name: cm.Object.Name}
		if !kubePlugin.MatchString(core) {
			n := dnsFinding(s, o, scene.Observation{Text: "the Corefile in " + o.String() + " has no kubernetes block", Quote: "Corefile", Ref: cm.Ref})
			n.Summary = fmt.Sprintf("The cluster's DNS does not know the cluster's names: the Corefile in %s has no kubernetes block.", o)
			out = append(out, n)
		}
		for _, block := range templateBlock.FindAllStringSubmatch(core, 16) {
			if n, ok := refusesNames(s, o, block, cm.Ref); ok {
				out = append(out, n)
			}
		}
	}
	return out
}

func refusesNames(s *scene.Scene, o nightcrier.Object, block []string, ref scene.Ref) (scene.Finding, bool) {
	code := refusingCode.FindStringSubmatch(block[4])
	if code == nil || block[2] == "AAAA" {
		return scene.Finding{}, false
	}
	pattern, zone := ".*", strings.TrimSpace(block[3])
	if m := templateMatch.FindStringSubmatch(block[4]); m != nil {
		pattern = m[1]
	}
	own := clusterName.MatchString(pattern) || clusterName.MatchString(zone)
	if !own || strings.Count(pattern, "local") > 1 {
		return scene.Finding{}, false
	}
	n := dnsFinding(s, o, scene.Observation{Text: "the Corefile in " + o.String() + " answers " + code[1] + " for names of the cluster", Quote: "rcode " + code[1], Ref: ref})
	n.Summary = fmt.Sprintf("The cluster's DNS answers %s for names that match %s: a template in the Corefile of %s says so.", code[1], text.CutMiddle(strings.TrimSpace(zone+" "+pattern), scene.MaxQuote), o)
	n.Affected = append(n.Affected, servicesWithClients(s, pattern)...)
	return n, true
}

// servicesWithClients are the Services whose names match the pattern, and their clients.
func servicesWithClients(s *scene.Scene, pattern string) []nightcrier.Object {
	re, err := regexp.Compile(strings.ReplaceAll(pattern, `\\`, `\`))
	if err != nil {
		return nil
	}
	var out []nightcrier.Object
	all := s.AllClients()
	for _, svc := range s.Services {
		if !re.MatchString(svc.Object.Name + "." + svc.Object.Namespace + ".svc.cluster.local.") {
			continue
		}
		out = append(out, scene.ServiceObject(&svc.Object))
		for _, c := range scene.ClientsOf(&svc.Object, all) {
			if !slices.Contains(out, c.Object) {
				out = append(out, c.Object)
			}
		}
	}
	return out
}

// dnsPolicyWrong finds workloads that connect to Services by name, but ask DNS
// servers which do not know them.
func dnsPolicyWrong(s *scene.Scene) []scene.Finding {
	var out []scene.Finding
	var all []scene.Client
	for _, ns := range s.PodNamespaces() {
		for w := range s.WorkloadsIn(ns) {
			why, sure := wrongResolver(s, w)
			if why.Text == "" {
				continue
			}
			if all == nil {
				all = s.AllClients()
			}
			if n, ok := blindTo(s, w, why, sure, all); ok {
				out = append(out, n)
			}
		}
	}
	return out
}

// wrongResolver says why a workload's Pods may not resolve the cluster's names;
// sure when that needs no symptom.
func wrongResolver(s *scene.Scene, w scene.PodMaker) (why scene.Observation, sure bool) {
	switch policy := w.Spec.DNSPolicy; {
	case policy == corev1.DNSNone && w.Spec.DNSConfig != nil:
		servers := w.Spec.DNSConfig.Nameservers
		if len(servers) == 0 || slices.ContainsFunc(servers, func(ip string) bool { return maybeClusterDNS(s, ip) }) {
			return scene.Observation{}, false
		}
		return scene.Observation{Text: fmt.Sprintf("dnsPolicy is None and asks only %s", strings.Join(servers, ", ")), Quote: servers[0], Ref: w.Ref}, !slices.ContainsFunc(servers, privateAddress)
	case policy == corev1.DNSDefault:
		return scene.Observation{Text: "dnsPolicy is Default, which asks the node's DNS servers", Quote: "dnsPolicy=Default", Ref: w.Ref}, false
	case w.Spec.HostNetwork && (policy == corev1.DNSClusterFirst || policy == ""):
		return scene.Observation{Text: "hostNetwork with dnsPolicy ClusterFirst asks the node's DNS servers; it needs ClusterFirstWithHostNet", Quote: "hostNetwork=true", Ref: w.Ref}, false
	}
	return scene.Observation{}, false
}

// maybeClusterDNS reports whether a nameserver is the cluster's, or a cache on
// the node.
func maybeClusterDNS(s *scene.Scene, server string) bool {
	ip, err := netip.ParseAddr(server)
	if err != nil || ip.IsLinkLocalUnicast() || ip.IsLoopback() {
		return true
	}
	known := false
	for _, svc := range s.Services {
		if svc.Object.Namespace == scene.SystemNamespace && (svc.Object.Name == "kube-dns" || servesDNS(&svc.Object)) {
			known = true
			if slices.Contains(append(svc.Object.Spec.ClusterIPs, svc.Object.Spec.ClusterIP), server) {
				return true
			}
		}
	}
	return !known && ip.IsPrivate()
}

func privateAddress(server string) bool {
	ip, err := netip.ParseAddr(server)
	return err == nil && ip.IsPrivate()
}

// blindTo is the finding that w cannot resolve a Service that it is configured
// to connect to: where its resolver cannot know it, or its log says so.
func blindTo(s *scene.Scene, w scene.PodMaker, why scene.Observation, sure bool, all []scene.Client) (scene.Finding, bool) {
	for i := range s.Services {
		svc := &s.Services[i].Object
		k := slices.IndexFunc(scene.ClientsOf(svc, all), func(c scene.Client) bool { return c.Object == w.Object })
		if k < 0 {
			continue
		}
		line := complaintAbout(logsOf(s, w.Object), svc, unknownWords)
		if line == nil && !sure {
			continue
		}
		c := scene.ClientsOf(svc, all)[k]
		n := scene.Finding{
			Cause: "dns-policy-wrong", Object: w.Object, Confidence: nightcrier.Medium,
			Summary:  fmt.Sprintf("%s cannot resolve %s, which it connects to: %s.", w.Object, text.CutMiddle(c.Host, scene.MaxQuote), text.CutLine(why.Text, scene.MaxQuote)),
			Observed: []scene.Observation{why, {Text: c.Text + " names a Service of the cluster", Quote: c.Quote, Ref: c.Ref}},
			WrongIf:  "those servers forward the cluster's names to its DNS",
			Test: scene.GetTest(w.Object.Namespace, strings.ToLower(w.Object.Kind), w.Object.Name).
				DecidesBetween("its Pods do not ask the cluster's DNS", "dnsPolicy is ClusterFirst, or ClusterFirstWithHostNet with hostNetwork"),
			Actions: []scene.Step{
				{Action: "Set dnsPolicy of " + w.Object.String() + " to ClusterFirst, with hostNetwork to ClusterFirstWithHostNet", Do: scene.DoEdit, Outcome: "its Pods resolve the cluster's names", Risk: "needs a new rollout"},
			},
		}
		if line != nil {
			n.Confidence, n.Observed = nightcrier.High, append(n.Observed, *line)
		}
		return n, true
	}
	return scene.Finding{}, false
}

// externalNameWrong finds Services that lead to a name which cannot exist, or of
// which clients say that it does not.
func externalNameWrong(s *scene.Scene) []scene.Finding {
	var out []scene.Finding
	for i := range s.Services {
		svc := &s.Services[i]
		if svc.Object.Spec.Type != corev1.ServiceTypeExternalName {
			continue
		}
		host := svc.Object.Spec.ExternalName
		o := scene.ServiceObject(&svc.Object)
		n := scene.Finding{
			Cause: "dns-name-wrong", Object: o, Confidence: nightcrier.High,
			Observed: []scene.Observation{{Text: o.String() + " leads to the name " + host, Quote: host, Ref: svc.Ref}},
			WrongIf:  "clients resolve the name elsewhere",
			Test:     scene.GetTest(o.Namespace, "service", o.Name).DecidesBetween("externalName is not the name of a host that exists", "externalName is a name that resolves"),
			Actions:  []scene.Step{{Action: "Correct externalName of " + o.String(), Do: scene.DoEdit, Outcome: "clients resolve the new name once the old answer expires", Risk: "requests go to that host"}},
		}
		why := whyNoHost(s, host)
		line := complaintAbout(s, &svc.Object, unknownWords)
		if line == nil {
			line = complaintAbout(s, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: host}}, unknownWords)
		}
		switch {
		case why == "" && line == nil:
			continue
		case line != nil:
			n.Observed = append(n.Observed, *line)
			if why == "" {
				why, n.Confidence = "clients say that it does not resolve", nightcrier.Medium
			}
		}
		n.Summary = fmt.Sprintf("%s leads to %s: %s.", o, text.CutMiddle(host, scene.MaxQuote), why)
		out = append(out, n)
	}
	return out
}

// whyNoHost says why a name cannot exist, "" when it may.
func whyNoHost(s *scene.Scene, host string) string {
	if _, err := netip.ParseAddr(host); err == nil {
		return "an address is no name, and DNS does not resolve it"
	}
	parts := strings.Split(strings.TrimSuffix(host, "."), ".")
	if len(parts) < 3 || parts[2] != "svc" || !s.Complete("Service", parts[1]) || scene.FindObject(s.Services, parts[1], parts[0]) != nil {
		return ""
	}
	return "there is no Service " + parts[0] + " in namespace " + parts[1]
}
