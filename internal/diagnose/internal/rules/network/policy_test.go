package network

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"nightcrier.dev/nightcrier/internal/diagnose/internal/scenetest"
)

// Policies are judged as Kubernetes defines them, for a connection from Pod web
// of namespace shop to port 8080, called http, of Pod cart there.
func TestPolicySemantics(t *testing.T) {
	const in, eg = networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress
	cases := []struct {
		name      string
		direction networkingv1.PolicyType
		policies  string
		denied    bool
	}{
		{"deny all", in, scenetest.PolicyOf("p", "podSelector: {}"), true},
		{"deny all, to the other side", eg, scenetest.PolicyOf("p", "podSelector: {}"), false},
		{"egress denied by type", eg, scenetest.PolicyOf("p", "podSelector: {}, policyTypes: [Egress]"), true},
		{"egress of a policy with such rules", eg, scenetest.PolicyOf("p", "podSelector: {}, egress: [{ports: [{port: 53}]}]"), true},
		{"types say only egress", in, scenetest.PolicyOf("p", "podSelector: {}, policyTypes: [Egress]"), false},
		{"selects another Pod", in, scenetest.PolicyOf("p", "podSelector: {matchLabels: {app: pay}}"), false},
		{"an empty rule allows all", in, scenetest.PolicyOf("p", "podSelector: {}, ingress: [{}]"), false},
		{"another policy allows", in, scenetest.JoinDocs(scenetest.PolicyOf("p", "podSelector: {}"), scenetest.PolicyOf("q", "podSelector: {matchLabels: {app: cart}}, ingress: [{from: [{podSelector: {matchLabels: {app: web}}}]}]")), false},
		{"allows another Pod", in, scenetest.PolicyOf("p", "podSelector: {}, ingress: [{from: [{podSelector: {matchLabels: {app: pay}}}]}]"), true},
		{"allows by expression", in, scenetest.PolicyOf("p", "podSelector: {}, ingress: [{from: [{podSelector: {matchExpressions: [{key: app, operator: In, values: [web, x]}]}}]}]"), false},
		{"port", in, scenetest.PolicyOf("p", "podSelector: {}, ingress: [{ports: [{port: 8080}]}]"), false},
		{"the Service's port is not the Pod's", in, scenetest.PolicyOf("p", "podSelector: {}, ingress: [{ports: [{port: 80}]}]"), true},
		{"port by name", in, scenetest.PolicyOf("p", "podSelector: {}, ingress: [{ports: [{port: http}]}]"), false},
		{"another port by name", in, scenetest.PolicyOf("p", "podSelector: {}, ingress: [{ports: [{port: grpc}]}]"), true},
		{"port of another protocol", in, scenetest.PolicyOf("p", "podSelector: {}, ingress: [{ports: [{port: 8080, protocol: UDP}]}]"), true},
		{"all ports of a protocol", in, scenetest.PolicyOf("p", "podSelector: {}, ingress: [{ports: [{protocol: TCP}]}]"), false},
		{"within a range", in, scenetest.PolicyOf("p", "podSelector: {}, ingress: [{ports: [{port: 8000, endPort: 8080}]}]"), false},
		{"outside a range", in, scenetest.PolicyOf("p", "podSelector: {}, ingress: [{ports: [{port: 8000, endPort: 8079}]}]"), true},
		{"peer and port are both asked for", in, scenetest.PolicyOf("p", "podSelector: {}, ingress: [{from: [{podSelector: {}}], ports: [{port: 1}]}]"), true},
		{"own namespace by its name", in, scenetest.PolicyOf("p", "podSelector: {}, ingress: [{from: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: shop}}}]}]"), false},
		{"another namespace by its name", in, scenetest.PolicyOf("p", "podSelector: {}, ingress: [{from: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: other}}}]}]"), true},
		{"a label that the namespace has", in, scenetest.PolicyOf("p", "podSelector: {}, ingress: [{from: [{namespaceSelector: {matchLabels: {team: a}}}]}]"), false},
		{"a label that it has not", in, scenetest.PolicyOf("p", "podSelector: {}, ingress: [{from: [{namespaceSelector: {matchLabels: {team: b}}}]}]"), true},
		{"namespace and Pod are both asked for", in, scenetest.PolicyOf("p", "podSelector: {}, ingress: [{from: [{namespaceSelector: {}, podSelector: {matchLabels: {app: pay}}}]}]"), true},
		{"namespace or Pod", in, scenetest.PolicyOf("p", "podSelector: {}, ingress: [{from: [{namespaceSelector: {}}, {podSelector: {matchLabels: {app: pay}}}]}]"), false},
		{"block", in, scenetest.PolicyOf("p", "podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 10.0.0.0/24}}]}]"), false},
		{"another block", in, scenetest.PolicyOf("p", "podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 10.1.0.0/24}}]}]"), true},
		{"except of a block", in, scenetest.PolicyOf("p", "podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 10.0.0.0/24, except: [10.0.0.9/32]}}]}]"), true},
		{"egress to the Pod", eg, scenetest.PolicyOf("p", "podSelector: {}, policyTypes: [Egress], egress: [{to: [{podSelector: {matchLabels: {app: cart}}}], ports: [{port: http}]}]"), false},
		{"of another namespace", in, strings.Replace(scenetest.PolicyOf("p", "podSelector: {}"), "shop", "other", 1), false},
	}
	space := `{apiVersion: v1, kind: Namespace, metadata: {name: shop, labels: {team: a}}}`
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := scenetest.New(t, scenetest.JoinDocs(scenetest.WellPods("web", "app: web", "containers: [{name: app}]"), scenetest.WellPods("cart", "app: cart", scenetest.App8080), space, c.policies))
			parties := map[string]party{}
			for o, who := range newNetwork(s).parties {
				parties[o.Name] = who
			}
			subject, other := parties["cart"], parties["web"]
			if c.direction == eg {
				subject, other = other, subject
			}
			if r := judgeConnection(s, c.direction, subject, other, end{8080, corev1.ProtocolTCP}); r.denied != c.denied {
				t.Errorf("denied %t", r.denied)
			}
		})
	}
}
