package network

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scene"
	"nightcrier.dev/nightcrier/internal/text"
)

var resolverRules = scene.Area{Name: "resolver", SceneRules: []scene.SceneRule{policyDeniesDNS, nodeCacheDown}}

// askedAt matches the DNS server that a client says that it asked.
var askedAt = scene.NewPattern(`(?i)lookup \S{1,253} on (\d{1,3}(?:\.\d{1,3}){3}):53|->(\d{1,3}(?:\.\d{1,3}){3}):53\b|no servers could be reached.{0,40}?(\d{1,3}(?:\.\d{1,3}){3})#53`)

// resolver is a DNS server as a policy sees it, and where it says that it is asked.
type resolver struct {
	party
	port end
	name string
	seen *scene.Observation // nil where it is only what everybody asks
	// cache is what runs on each node and answers at a link-local address.
	cache *scene.Read[appsv1.DaemonSet]
}

// nodeCacheWords match what caches DNS on each node.
var nodeCacheWords = scene.NewPattern(`(?i)node-?local-?dns|dns-node-cache`)

// nodeCache is the DaemonSet that caches DNS on each node, nil for none.
func nodeCache(s *scene.Scene) *scene.Read[appsv1.DaemonSet] {
	for i := range s.DaemonSets {
		d := &s.DaemonSets[i]
		if d.Object.Namespace != scene.SystemNamespace {
			continue
		}
		if nodeCacheWords.MatchString(d.Object.Name) || slices.ContainsFunc(d.Object.Spec.Template.Spec.Containers, func(c corev1.Container) bool { return nodeCacheWords.MatchString(c.Image) }) {
			return d
		}
	}
	return nil
}

// cacheAt is the Pod of the cache on a node; known is false where its Pods were not read.
func cacheAt(s *scene.Scene, d *scene.Read[appsv1.DaemonSet], node string) (p *scene.Read[corev1.Pod], known bool) {
	o := nightcrier.Object{Kind: "DaemonSet", Namespace: d.Object.Namespace, Name: d.Object.Name}
	for pod := range s.PodsBelow(o) {
		if pod.Object.Spec.NodeName == node && !scene.IsFinished(&pod.Object) {
			return pod, true
		}
	}
	return nil, s.Complete("Pod", o.Namespace)
}

// clusterDNS is the cluster's DNS as policies see it: its Pods, and the port that they listen
// on, which is not always the Service's.
func clusterDNS(s *scene.Scene) resolver {
	r := resolver{name: "the cluster's DNS", port: end{53, corev1.ProtocolUDP}, party: party{namespace: scene.SystemNamespace, labels: map[string]string{"k8s-app": "kube-dns"}}}
	for _, p := range dnsPods(s) {
		r.labels, r.spec, r.ips = p.Object.Labels, &p.Object.Spec, append(r.ips, p.Object.Status.PodIP)
	}
	svc := scene.FindObject(s.Services, scene.SystemNamespace, "kube-dns")
	if svc == nil || r.spec == nil {
		return r
	}
	for _, port := range svc.Object.Spec.Ports {
		if n := numberOf(port, r.spec); port.Port == 53 && protocolOrTCP(port.Protocol) == corev1.ProtocolUDP && n != 0 {
			r.port.number = n
		}
	}
	return r
}

// resolverOf is the DNS server that the Pods of a workload ask: the one that its log names,
// or its Pods' configuration, else the cluster's.
func resolverOf(s *scene.Scene, o nightcrier.Object, spec *corev1.PodSpec) resolver {
	at := func(ip string, seen scene.Observation) (resolver, bool) {
		addr, err := netip.ParseAddr(ip)
		if err != nil || !addr.IsLinkLocalUnicast() {
			return resolver{}, false
		}
		return resolver{name: "the DNS server at " + ip, port: end{53, corev1.ProtocolUDP}, party: party{address: true, ips: []string{ip}}, seen: &seen, cache: nodeCache(s)}, true
	}
	for _, l := range logsOf(s, o).Logs {
		for line := range strings.Lines(l.Text) {
			m := askedAt.FindStringSubmatch(text.KeepBytes(line, 4*scene.MaxQuote))
			if m == nil {
				continue
			}
			quote := strings.TrimSpace(text.KeepBytes(line, 4*scene.MaxQuote))
			if r, ok := at(m[1]+m[2]+m[3], scene.Observation{Text: "the log of Pod " + l.Pod + " names the DNS server that does not answer", Quote: text.CutMiddle(quote, scene.MaxQuote), Ref: l.Ref()}); ok {
				return r
			}
		}
	}
	if spec != nil && spec.DNSConfig != nil {
		for _, ip := range spec.DNSConfig.Nameservers {
			if r, ok := at(ip, scene.Observation{Text: "dnsConfig of " + o.String() + " names the DNS server " + ip, Quote: ip}); ok {
				r.seen = nil // the policy carries it
				return r
			}
		}
	}
	return clusterDNS(s)
}

// policyDeniesDNS finds workloads that a policy keeps from the DNS server that they ask, and
// whose logs say that names are not found.
func policyDeniesDNS(s *scene.Scene) []scene.Finding {
	if len(s.NetworkPolicies) == 0 && !slices.ContainsFunc(s.Others, isCiliumPolicy) {
		return nil
	}
	var out []scene.Finding
	var net *network
	for _, o := range workloadsNotResolving(s) {
		if net == nil {
			made := newNetwork(s)
			net = &made
		}
		if n, ok := net.deniedDNS(o); ok {
			out = joinFinding(out, n)
		}
	}
	return out
}

// deniedDNS judges the way of a workload to its DNS server. Resolvers ask over UDP, so that
// TCP alone is of no use.
func (s network) deniedDNS(o nightcrier.Object) (scene.Finding, bool) {
	from := s.parties[o]
	r := resolverOf(s.Scene, o, from.spec)
	line := logLineWith(logsOf(s.Scene, o), unknownWords)
	if line == nil || !s.cacheAnswers(o, r) {
		return scene.Finding{}, false
	}
	what := fmt.Sprintf("keeps %s from %s: it selects its Pods, and none of its egress rules allows port %d/UDP", o, r.name, r.port.number)
	if r.address {
		what += fmt.Sprintf(" of %s; rules for Pods do not cover it, as it is an address on the node", r.ips[0])
	}
	var n scene.Finding
	if udp := judgeConnection(s.Scene, networkingv1.PolicyTypeEgress, from, r.party, r.port); udp.denied {
		p := closestToDNS(udp.by)
		n = policyFinding(p, what+".")
		if tcp := judgeConnection(s.Scene, networkingv1.PolicyTypeEgress, from, r.party, end{r.port.number, corev1.ProtocolTCP}); !tcp.denied {
			n.Summary = strings.TrimSuffix(n.Summary, ".") + "; it allows TCP, which is asked only for long answers."
		}
	} else if p := ciliumDenies(s.Scene, from, r); p != nil {
		n = ciliumFinding(p, what+".")
	} else {
		return scene.Finding{}, false
	}
	n.Confidence, n.Affected = nightcrier.High, []nightcrier.Object{o}
	if r.address {
		n.Actions[0] = scene.Step{Action: fmt.Sprintf("Add to %s an egress rule to ipBlock %s/32, ports 53 UDP and TCP, beside the one for the cluster's DNS", n.Object, r.ips[0]), Do: scene.DoEdit, Outcome: "names resolve within seconds", Risk: "none: it is the cache on the node"}
		if n.Object.Kind == "CiliumNetworkPolicy" {
			n.Actions[0].Action = fmt.Sprintf("Add to %s an egress rule with toEntities [host] (or a CiliumLocalRedirectPolicy for the cache), port 53", n.Object)
		}
	} else {
		n.Actions[0] = scene.Step{Action: fmt.Sprintf("Add to %s an egress rule to the Pods of the cluster's DNS (namespace %s, k8s-app=kube-dns), port %d UDP and TCP", n.Object, scene.SystemNamespace, r.port.number), Do: scene.DoEdit, Outcome: "names resolve within seconds", Risk: "opens no more than DNS"}
	}
	if r.seen != nil {
		line = r.seen
	} else if r.address {
		n.Confidence = nightcrier.Medium
	}
	n.Summary = strings.TrimSuffix(n.Summary, ".") + "; its log says: " + line.Quote
	n.Observed = append(n.Observed, *line)
	if r.cache != nil {
		d := r.cache
		n.Observed = append(n.Observed, scene.Observation{Text: fmt.Sprintf("DaemonSet %s caches DNS on each node and is ready on %d of %d", d.Object.Name, d.Object.Status.NumberReady, d.Object.Status.DesiredNumberScheduled), Quote: d.Object.Name, Ref: d.Ref})
	}
	return n, true
}

// cacheAnswers reports whether nothing shows that the DNS cache on the nodes of a workload is
// itself down: then no policy need be why names do not resolve.
func (s network) cacheAnswers(o nightcrier.Object, r resolver) bool {
	if r.cache == nil {
		return true
	}
	for p := range s.PodsBelow(o) {
		if c, known := cacheAt(s.Scene, r.cache, p.Object.Spec.NodeName); known && (c == nil || !scene.IsPodReady(&c.Object)) {
			return false
		}
	}
	return true
}

// closestToDNS is the policy to mend: of those that select the Pods the one that has a rule
// about port 53, else the one that names them most closely.
func closestToDNS(by []*scene.Read[networkingv1.NetworkPolicy]) *scene.Read[networkingv1.NetworkPolicy] {
	for _, p := range by {
		for _, rule := range p.Object.Spec.Egress {
			if slices.ContainsFunc(rule.Ports, func(port networkingv1.NetworkPolicyPort) bool { return port.Port != nil && port.Port.IntValue() == 53 }) {
				return p
			}
		}
	}
	return by[0]
}

// nodeCacheDown finds nodes whose DNS cache does not run while Pods there ask it in vain.
func nodeCacheDown(s *scene.Scene) []scene.Finding {
	d := nodeCache(s)
	if d == nil {
		return nil
	}
	for _, o := range workloadsNotResolving(s) {
		r := resolverOf(s, o, nil)
		if !r.address {
			continue
		}
		for p := range s.PodsBelow(o) {
			node := p.Object.Spec.NodeName
			c, known := cacheAt(s, d, node)
			if !known || node == "" || c != nil && !s.IsLongUnready(c) {
				continue
			}
			n := dnsFinding(s, nightcrier.Object{Kind: "DaemonSet", Namespace: d.Object.Namespace, Name: d.Object.Name},
				scene.Observation{Text: "no Pod of DaemonSet " + d.Object.Name + ", which caches DNS on each node, is on node " + node, Quote: d.Object.Name, Ref: d.Ref})
			n.Summary = fmt.Sprintf("DNS does not answer on node %s: Pods there ask %s, and no Pod of %s runs there.", node, r.ips[0], n.Object)
			if c != nil {
				n.Observed[0] = scene.PodState(*c)
				n.Summary = fmt.Sprintf("DNS does not answer on node %s: Pods there ask %s, and Pod %s of %s is not ready there.", node, r.ips[0], c.Object.Name, n.Object)
			}
			n.Why, n.Observed, n.Affected = "", append(n.Observed, *r.seen), []nightcrier.Object{o}
			return []scene.Finding{n}
		}
	}
	return nil
}
