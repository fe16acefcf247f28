package network

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scene"
)

var policyRules = scene.Area{Name: "policy", SceneRules: []scene.SceneRule{policyDenies}, Causes: policyCauses}

var policyCauses = []scene.Cause{
	{ID: "network-policy-denies", Category: "Network", Meaning: "a NetworkPolicy denies a connection that a workload is configured to make", Rank: scene.RankStated + 4},
}

// party is one end of a connection, as network policies see it.
type party struct {
	namespace string
	labels    map[string]string
	spec      *corev1.PodSpec
	// ips are the addresses of its Pods, none when they are not known.
	ips []string
	// address is set where it is no Pod but an address, which only blocks of addresses cover.
	address bool
}

// network is a Scene as network policies see it: every workload a party.
type network struct {
	*scene.Scene
	makers  []scene.PodMaker
	parties map[nightcrier.Object]party
}

// newNetwork takes the labels of one Pod of each workload, to which admission may
// have added, before those of its template.
func newNetwork(s *scene.Scene) network {
	n := network{s, nil, map[nightcrier.Object]party{}}
	for _, ns := range s.PodNamespaces() {
		for w := range s.WorkloadsIn(ns) {
			n.makers = append(n.makers, w)
			n.parties[w.Object] = party{namespace: ns, labels: w.Labels, spec: w.Spec}
		}
	}
	for i := range s.Pods {
		p := &s.Pods[i].Object
		if scene.IsFinished(p) {
			continue
		}
		o := s.WorkloadAbove("Pod", p)
		who := n.parties[o]
		who.namespace, who.labels, who.spec = p.Namespace, p.Labels, &p.Spec
		if p.Status.PodIP != "" {
			who.ips = append(who.ips, p.Status.PodIP)
		}
		n.parties[o] = who
	}
	return n
}

// ruling is what the policies of one side of a connection come to.
type ruling struct {
	denied bool
	// by are the policies that select the party; none of their rules allows.
	by []*scene.Read[networkingv1.NetworkPolicy]
}

// end is the port that a connection leads to: in the Pods, not of the Service.
type end struct {
	number   int32
	protocol corev1.Protocol
}

// judgeConnection judges a connection between subject and other, as policies of the given
// direction that select subject do. What cannot be known for certain is allowed.
func judgeConnection(s *scene.Scene, direction networkingv1.PolicyType, subject, other party, to end) ruling {
	var r ruling
	if subject.spec != nil && subject.spec.HostNetwork {
		return r // policies do not hold for Pods in the node's network
	}
	for i := range s.NetworkPolicies {
		p := &s.NetworkPolicies[i]
		if p.Object.Namespace != subject.namespace || !slices.Contains(typesOf(&p.Object), direction) || !scene.MatchesSelector(&p.Object.Spec.PodSelector, subject.labels) {
			continue
		}
		if policyAllows(s, &p.Object, direction, subject, other, to) {
			return ruling{}
		}
		r.by = append(r.by, p)
	}
	r.denied = len(r.by) > 0
	// The policy that names the party most closely is the one to mend.
	slices.SortStableFunc(r.by, func(a, b *scene.Read[networkingv1.NetworkPolicy]) int {
		return cmp.Compare(closenessOf(&b.Object.Spec.PodSelector), closenessOf(&a.Object.Spec.PodSelector))
	})
	return r
}

func closenessOf(sel *metav1.LabelSelector) int {
	return len(sel.MatchLabels) + len(sel.MatchExpressions)
}

// typesOf are the directions that a policy rules: ingress, and egress where it
// has rules for it, unless it says so itself.
func typesOf(p *networkingv1.NetworkPolicy) []networkingv1.PolicyType {
	switch {
	case len(p.Spec.PolicyTypes) > 0:
		return p.Spec.PolicyTypes
	case len(p.Spec.Egress) > 0:
		return []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress}
	}
	return []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}
}

// policyAllows reports whether a rule of the policy lets the connection through.
func policyAllows(s *scene.Scene, p *networkingv1.NetworkPolicy, direction networkingv1.PolicyType, subject, other party, to end) bool {
	if direction == networkingv1.PolicyTypeIngress {
		return slices.ContainsFunc(p.Spec.Ingress, func(r networkingv1.NetworkPolicyIngressRule) bool {
			return letsPeer(s, p.Namespace, r.From, other) && letsPort(r.Ports, subject.spec, to)
		})
	}
	return slices.ContainsFunc(p.Spec.Egress, func(r networkingv1.NetworkPolicyEgressRule) bool {
		return letsPeer(s, p.Namespace, r.To, other) && letsPort(r.Ports, other.spec, to)
	})
}

// letsPeer reports whether a rule is for other: for anybody when it names nobody.
func letsPeer(s *scene.Scene, ns string, peers []networkingv1.NetworkPolicyPeer, other party) bool {
	if len(peers) == 0 {
		return true
	}
	hosted := other.spec != nil && other.spec.HostNetwork
	return slices.ContainsFunc(peers, func(p networkingv1.NetworkPolicyPeer) bool {
		switch {
		case other.address:
			return p.IPBlock != nil && inBlock(p.IPBlock, other.ips)
		case p.IPBlock != nil:
			return hosted || inBlock(p.IPBlock, other.ips)
		case hosted: // plugins differ on whether selectors hold for it
			return true
		case p.NamespaceSelector == nil && other.namespace != ns:
			return false
		case p.NamespaceSelector != nil && !maybeNamespace(s, p.NamespaceSelector, other.namespace):
			return false
		}
		return p.PodSelector == nil || scene.MatchesSelector(p.PodSelector, other.labels)
	})
}

// maybeNamespace reports whether a namespace has the labels asked for. Of one
// that was not read only its own name is known, which it bears as a label.
func maybeNamespace(s *scene.Scene, sel *metav1.LabelSelector, ns string) bool {
	if n := scene.FindObject(s.Namespaces, "", ns); n != nil {
		set := labels.Merge(n.Object.Labels, labels.Set{corev1.LabelMetadataName: ns})
		return scene.MatchesSelector(sel, set)
	}
	name, ok := sel.MatchLabels[corev1.LabelMetadataName]
	if ok && name != ns {
		return false
	}
	for _, e := range sel.MatchExpressions {
		if e.Key == corev1.LabelMetadataName && e.Operator == metav1.LabelSelectorOpIn && !slices.Contains(e.Values, ns) {
			return false
		}
	}
	return true
}

// inBlock reports whether any of the addresses is in the block, or none is known.
func inBlock(b *networkingv1.IPBlock, ips []string) bool {
	block, err := netip.ParsePrefix(b.CIDR)
	if err != nil || len(ips) == 0 {
		return true
	}
	return slices.ContainsFunc(ips, func(s string) bool {
		ip, err := netip.ParseAddr(s)
		return err != nil || block.Contains(ip) && !slices.ContainsFunc(b.Except, func(e string) bool {
			except, err := netip.ParsePrefix(e)
			return err == nil && except.Contains(ip)
		})
	})
}

// letsPort reports whether a rule is for the port: for all when it names none. A
// port's name is that of a port of the Pods that are connected to.
func letsPort(ports []networkingv1.NetworkPolicyPort, server *corev1.PodSpec, to end) bool {
	if len(ports) == 0 {
		return true
	}
	return slices.ContainsFunc(ports, func(p networkingv1.NetworkPolicyPort) bool {
		by := corev1.ProtocolTCP
		if p.Protocol != nil {
			by = *p.Protocol
		}
		switch {
		case by != to.protocol:
			return false
		case p.Port == nil:
			return true
		case p.Port.Type == intstr.String:
			return server == nil || numberOf(corev1.ServicePort{TargetPort: *p.Port, Protocol: by}, server) == to.number
		case p.EndPort != nil:
			return p.Port.IntVal <= to.number && to.number <= *p.EndPort
		}
		return p.Port.IntVal == to.number
	})
}

// policyDenies finds connections that a workload is configured to make and that
// a policy denies, where something shows that they were not meant to be denied:
// a client that times out, or a policy that leaves a server no client at all.
func policyDenies(s *scene.Scene) []scene.Finding {
	if len(s.NetworkPolicies) == 0 {
		return nil
	}
	var out []scene.Finding
	net, all := newNetwork(s), s.AllClients()
	for i := range s.Services {
		svc := &s.Services[i].Object
		server, ok := net.serverOf(svc)
		if !ok {
			continue
		}
		for _, c := range scene.ClientsOf(svc, all) {
			if c.Object == server.Object {
				continue
			}
			if n, ok := net.deniedTo(svc, server, c); ok {
				out = joinFinding(out, n)
			}
		}
		if n, ok := net.closedService(svc, server); ok {
			out = joinFinding(out, n)
		}
	}
	return out
}

// closedService finds a Service whose Pods' policies let nobody in, though it can only
// be meant for somebody: an Ingress leads to it, or it has an address and the
// policies have no rule at all.
func (s network) closedService(svc *corev1.Service, server scene.PodMaker) (scene.Finding, bool) {
	// A party of no namespace is one that only a rule for anybody allows.
	r := judgeConnection(s.Scene, networkingv1.PolicyTypeIngress, s.parties[server.Object], party{}, end{})
	if !r.denied || !s.cutOff(r, networkingv1.PolicyTypeIngress) {
		return scene.Finding{}, false
	}
	n := policyFinding(r.by[0], fmt.Sprintf("lets nobody connect to %s: it selects the Pods of %s and has no rule for anybody.", scene.ServiceObject(svc), server.Object))
	n.Behind = []nightcrier.Object{scene.ServiceObject(svc), server.Object}
	i := slices.IndexFunc(s.Ingresses, func(ing scene.Read[networkingv1.Ingress]) bool {
		return ing.Object.Namespace == svc.Namespace && slices.ContainsFunc(routesOf(&ing.Object), func(r route) bool { return r.backend.Name == svc.Name })
	})
	if i >= 0 {
		o := ingressObject(&s.Ingresses[i].Object)
		n.Observed = append(n.Observed, scene.Observation{Text: o.String() + " leads to " + scene.ServiceObject(svc).String(), Quote: svc.Name, Ref: s.Ingresses[i].Ref})
		n.Behind = append(n.Behind, o)
		return n, true
	}
	ruled := slices.ContainsFunc(r.by, func(p *scene.Read[networkingv1.NetworkPolicy]) bool { return len(p.Object.Spec.Ingress) > 0 })
	return n, !ruled && svc.Spec.ClusterIP != corev1.ClusterIPNone
}

// serverOf is the workload behind a Service.
func (s network) serverOf(svc *corev1.Service) (scene.PodMaker, bool) {
	if scene.HasSelector(svc) {
		sel := labels.SelectorFromSet(svc.Spec.Selector)
		for _, w := range s.makers {
			if w.Object.Namespace == svc.Namespace && w.Wants > 0 && sel.Matches(labels.Set(w.Labels)) {
				return w, true
			}
		}
	}
	return scene.PodMaker{}, false
}

// deniedTo judges the connection of one client to one Service, on both sides.
func (s network) deniedTo(svc *corev1.Service, server scene.PodMaker, c scene.Client) (scene.Finding, bool) {
	from, to := s.parties[c.Object], s.parties[server.Object]
	for _, port := range svc.Spec.Ports {
		number := numberOf(port, to.spec)
		if c.Port != 0 && c.Port != port.Port && c.Port != number || number == 0 {
			continue
		}
		e := end{number, protocolOrTCP(port.Protocol)}
		if r := judgeConnection(s.Scene, networkingv1.PolicyTypeIngress, to, from, e); r.denied {
			return s.denialFinding(svc, server, c, e, r, networkingv1.PolicyTypeIngress)
		}
		if r := judgeConnection(s.Scene, networkingv1.PolicyTypeEgress, from, to, e); r.denied {
			return s.denialFinding(svc, server, c, e, r, networkingv1.PolicyTypeEgress)
		}
		if c.Port == 0 {
			break // the first port is the one that is meant
		}
	}
	return scene.Finding{}, false
}

// denialFinding is the finding, if there is a sign that the policy is not meant so.
func (s network) denialFinding(svc *corev1.Service, server scene.PodMaker, c scene.Client, e end, r ruling, direction networkingv1.PolicyType) (scene.Finding, bool) {
	line := timesOut(s.Scene, c.Object, svc)
	subject := server.Object
	if direction == networkingv1.PolicyTypeEgress {
		subject = c.Object
	}
	if line == nil && !s.cutOff(r, direction) {
		return scene.Finding{}, false
	}
	n := policyFinding(r.by[0], fmt.Sprintf("denies the connection of %s to port %d of %s (%s): it selects the Pods of %s, and none of its %s rules allows it.",
		c.Object, e.number, server.Object, scene.ServiceObject(svc), subject, strings.ToLower(string(direction))))
	n.Observed = append(n.Observed, scene.Observation{Text: c.Text + " names " + scene.ServiceObject(svc).String(), Quote: c.Quote, Ref: c.Ref})
	n.Affected, n.Behind = []nightcrier.Object{c.Object}, []nightcrier.Object{scene.ServiceObject(svc), server.Object}
	if line != nil {
		n.Confidence, n.Observed = nightcrier.High, append(n.Observed, *line)
	}
	return n, true
}

// policyFinding is what findings about a policy have in common.
func policyFinding(p *scene.Read[networkingv1.NetworkPolicy], summary string) scene.Finding {
	o := nightcrier.Object{Kind: "NetworkPolicy", Namespace: p.Object.Namespace, Name: p.Object.Name}
	return scene.Finding{
		Cause: "network-policy-denies", Object: o, Confidence: nightcrier.Medium, Summary: o.String() + " " + summary,
		Observed: []scene.Observation{{Text: o.String() + " " + summary, Quote: p.Object.Name, Ref: p.Ref}},
		WrongIf:  "the cluster's network does not enforce policies, or the connection is meant to be denied",
		Test:     scene.GetTest(o.Namespace, "networkpolicy", o.Name).DecidesBetween("no rule names the client and the port", "a rule names them"),
		Actions: []scene.Step{
			{Action: "Allow the connection by a rule in " + o.String() + " or in a policy beside it", Do: scene.DoEdit, Outcome: "the client connects within seconds", Risk: "opens the server to what the rule names"},
			{Action: "Or remove the policy, if it came by mistake", Outcome: "the connection is allowed unless another policy denies it", Risk: "everything that it protected is open"},
		},
	}
}

// timesOut is a line of the client's own log that says that the Service does not
// answer.
func timesOut(s *scene.Scene, o nightcrier.Object, svc *corev1.Service) *scene.Observation {
	return complaintAbout(logsOf(s, o), svc, timeoutWords)
}

// cutOff reports whether the policies are no general denial, made to be opened
// rule by rule, but single out a workload and leave it nobody: a policy that
// names it has no rule of the direction, or only rules for Pods that do not
// exist.
func (s network) cutOff(r ruling, direction networkingv1.PolicyType) bool {
	if closenessOf(&r.by[0].Object.Spec.PodSelector) == 0 {
		return false
	}
	return !slices.ContainsFunc(r.by, func(p *scene.Read[networkingv1.NetworkPolicy]) bool { return s.letsAnybody(&p.Object, direction) })
}

func (s network) letsAnybody(p *networkingv1.NetworkPolicy, direction networkingv1.PolicyType) bool {
	anybody := func(peers []networkingv1.NetworkPolicyPeer) bool {
		return len(peers) == 0 || slices.ContainsFunc(peers, func(peer networkingv1.NetworkPolicyPeer) bool {
			return peer.PodSelector == nil || peer.NamespaceSelector != nil || s.existsLike(p.Namespace, peer.PodSelector)
		})
	}
	if direction == networkingv1.PolicyTypeIngress {
		return slices.ContainsFunc(p.Spec.Ingress, func(r networkingv1.NetworkPolicyIngressRule) bool { return anybody(r.From) })
	}
	return slices.ContainsFunc(p.Spec.Egress, func(r networkingv1.NetworkPolicyEgressRule) bool { return anybody(r.To) })
}

// existsLike reports whether a workload of ns has the labels, or may have.
func (s network) existsLike(ns string, sel *metav1.LabelSelector) bool {
	for o, who := range s.parties {
		if o.Namespace == ns && scene.MatchesSelector(sel, who.labels) {
			return true
		}
	}
	return !s.Complete("Pod", ns)
}

// logsOf is a Scene of only the logs of o's Pods.
func logsOf(s *scene.Scene, o nightcrier.Object) *scene.Scene {
	own := &scene.Scene{Now: s.Now}
	for _, l := range s.Logs {
		if p := scene.FindObject(s.Pods, l.Namespace, l.Pod); p != nil && s.WorkloadAbove("Pod", &p.Object) == o {
			own.Logs = append(own.Logs, l)
		}
	}
	return own
}

// joinFinding adds a finding, or what it explains to the one of the same object.
func joinFinding(all []scene.Finding, n scene.Finding) []scene.Finding {
	i := slices.IndexFunc(all, func(o scene.Finding) bool { return o.Cause == n.Cause && o.Object == n.Object })
	if i < 0 {
		return append(all, n)
	}
	if all[i].Confidence != nightcrier.High && n.Confidence == nightcrier.High {
		all[i], n = n, all[i]
	}
	all[i].Affected = scene.UniteObjects(all[i].Affected, n.Affected)
	all[i].Behind = scene.UniteObjects(all[i].Behind, n.Behind)
	return all
}
