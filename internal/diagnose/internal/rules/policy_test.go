package rules

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"nightcrier.dev/nightcrier/internal/diagnose/internal/scenetest"
)

func policyOf(name, spec string) string {
	return fmt.Sprintf(`{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {namespace: shop, name: %s}, spec: {%s}}`, name, spec)
}

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
		{"deny all", in, policyOf("p", "podSelector: {}"), true},
		{"deny all, to the other side", eg, policyOf("p", "podSelector: {}"), false},
		{"egress denied by type", eg, policyOf("p", "podSelector: {}, policyTypes: [Egress]"), true},
		{"egress of a policy with such rules", eg, policyOf("p", "podSelector: {}, egress: [{ports: [{port: 53}]}]"), true},
		{"types say only egress", in, policyOf("p", "podSelector: {}, policyTypes: [Egress]"), false},
		{"selects another Pod", in, policyOf("p", "podSelector: {matchLabels: {app: pay}}"), false},
		{"an empty rule allows all", in, policyOf("p", "podSelector: {}, ingress: [{}]"), false},
		{"another policy allows", in, scenetest.JoinDocs(policyOf("p", "podSelector: {}"), policyOf("q", "podSelector: {matchLabels: {app: cart}}, ingress: [{from: [{podSelector: {matchLabels: {app: web}}}]}]")), false},
		{"allows another Pod", in, policyOf("p", "podSelector: {}, ingress: [{from: [{podSelector: {matchLabels: {app: pay}}}]}]"), true},
		{"allows by expression", in, policyOf("p", "podSelector: {}, ingress: [{from: [{podSelector: {matchExpressions: [{key: app, operator: In, values: [web, x]}]}}]}]"), false},
		{"port", in, policyOf("p", "podSelector: {}, ingress: [{ports: [{port: 8080}]}]"), false},
		{"the Service's port is not the Pod's", in, policyOf("p", "podSelector: {}, ingress: [{ports: [{port: 80}]}]"), true},
		{"port by name", in, policyOf("p", "podSelector: {}, ingress: [{ports: [{port: http}]}]"), false},
		{"another port by name", in, policyOf("p", "podSelector: {}, ingress: [{ports: [{port: grpc}]}]"), true},
		{"port of another protocol", in, policyOf("p", "podSelector: {}, ingress: [{ports: [{port: 8080, protocol: UDP}]}]"), true},
		{"all ports of a protocol", in, policyOf("p", "podSelector: {}, ingress: [{ports: [{protocol: TCP}]}]"), false},
		{"within a range", in, policyOf("p", "podSelector: {}, ingress: [{ports: [{port: 8000, endPort: 8080}]}]"), false},
		{"outside a range", in, policyOf("p", "podSelector: {}, ingress: [{ports: [{port: 8000, endPort: 8079}]}]"), true},
		{"peer and port are both asked for", in, policyOf("p", "podSelector: {}, ingress: [{from: [{podSelector: {}}], ports: [{port: 1}]}]"), true},
		{"own namespace by its name", in, policyOf("p", "podSelector: {}, ingress: [{from: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: shop}}}]}]"), false},
		{"another namespace by its name", in, policyOf("p", "podSelector: {}, ingress: [{from: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: other}}}]}]"), true},
		{"a label that the namespace has", in, policyOf("p", "podSelector: {}, ingress: [{from: [{namespaceSelector: {matchLabels: {team: a}}}]}]"), false},
		{"a label that it has not", in, policyOf("p", "podSelector: {}, ingress: [{from: [{namespaceSelector: {matchLabels: {team: b}}}]}]"), true},
		{"namespace and Pod are both asked for", in, policyOf("p", "podSelector: {}, ingress: [{from: [{namespaceSelector: {}, podSelector: {matchLabels: {app: pay}}}]}]"), true},
		{"namespace or Pod", in, policyOf("p", "podSelector: {}, ingress: [{from: [{namespaceSelector: {}}, {podSelector: {matchLabels: {app: pay}}}]}]"), false},
		{"block", in, policyOf("p", "podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 10.0.0.0/24}}]}]"), false},
		{"another block", in, policyOf("p", "podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 10.1.0.0/24}}]}]"), true},
		{"except of a block", in, policyOf("p", "podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 10.0.0.0/24, except: [10.0.0.9/32]}}]}]"), true},
		{"egress to the Pod", eg, policyOf("p", "podSelector: {}, policyTypes: [Egress], egress: [{to: [{podSelector: {matchLabels: {app: cart}}}], ports: [{port: http}]}]"), false},
		{"of another namespace", in, strings.Replace(policyOf("p", "podSelector: {}"), "shop", "other", 1), false},
	}
	space := `{apiVersion: v1, kind: Namespace, metadata: {name: shop, labels: {team: a}}}`
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := scenetest.New(t, scenetest.JoinDocs(well("web", "app: web", "containers: [{name: app}]"), well("cart", "app: cart", app8080), space, c.policies))
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

func TestPolicyDenies(t *testing.T) {
	shop := scenetest.JoinDocs(well("web", "app: web", "containers: [{name: app, env: [{name: CART, value: 'http://cart:80'}]}]"),
		well("cart", "app: cart", app8080), scenetest.ServiceOf("cart", "app: cart", scenetest.Port80))
	late := map[string]string{podNameOf("web"): "GET http://cart:80/items: dial tcp 10.96.0.7:80: i/o timeout\n"}
	ingress := `{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {namespace: shop, name: www}, spec: {rules: [{http: {paths: [{path: /, backend: {service: {name: cart, port: {number: 80}}}}]}}]}}`
	const found = "network-policy-denies NetworkPolicy p"
	checkScenes(t, []scenecase{
		{"deny all, and the client times out", scenetest.JoinDocs(shop, policyOf("p", "podSelector: {}")), late, []string{found}},
		{"allows another, and the client times out", scenetest.JoinDocs(shop, policyOf("p", "podSelector: {matchLabels: {app: cart}}, ingress: [{from: [{podSelector: {matchLabels: {app: cart}}}]}]")), late, []string{found}},
		{"egress, and the client times out", scenetest.JoinDocs(shop, policyOf("p", "podSelector: {matchLabels: {app: web}}, policyTypes: [Egress], egress: [{ports: [{port: 53, protocol: UDP}]}]")), late, []string{found}},
		{"the wrong port, and the client times out", scenetest.JoinDocs(shop, policyOf("p", "podSelector: {matchLabels: {app: cart}}, ingress: [{ports: [{port: 80}]}]")), late, []string{found}},
		{"the server is cut off", scenetest.JoinDocs(shop, policyOf("p", "podSelector: {matchLabels: {app: cart}}, policyTypes: [Ingress, Egress]")), nil, []string{found}},
		{"for Pods that nobody makes", scenetest.JoinDocs(shop, policyOf("p", "podSelector: {matchLabels: {app: cart}}, ingress: [{from: [{podSelector: {matchLabels: {app: wbe}}}]}]")), nil, []string{found}},
		{"an Ingress leads to a server that is cut off", scenetest.JoinDocs(well("cart", "app: cart", app8080), scenetest.ServiceOf("cart", "app: cart", scenetest.Port80), ingress, policyOf("p", "podSelector: {matchLabels: {app: cart}}")), nil, []string{found}},
		{"a Service that nobody may connect to", scenetest.JoinDocs(well("cart", "app: cart", app8080), scenetest.ServiceOf("cart", "app: cart", scenetest.Port80), policyOf("p", "podSelector: {matchLabels: {app: cart}}, policyTypes: [Ingress, Egress]")), nil, []string{found}},
		{"the policy that is closest is to blame", scenetest.JoinDocs(shop, policyOf("all", "podSelector: {}"), policyOf("p", "podSelector: {matchLabels: {app: cart}}")), late, []string{found}},

		{"deny all, and nobody complains", scenetest.JoinDocs(shop, policyOf("p", "podSelector: {}")), nil, nil},
		{"allowed, though the client times out", scenetest.JoinDocs(shop, policyOf("p", "podSelector: {}, ingress: [{from: [{podSelector: {}}]}]")), late, nil},
		{"meant for another client", scenetest.JoinDocs(shop, policyOf("p", "podSelector: {matchLabels: {app: cart}}, ingress: [{from: [{podSelector: {matchLabels: {app: cart}}}]}]")), nil, nil},
		{"a Pod that nobody needs to reach", scenetest.JoinDocs(well("cart", "app: cart", app8080), policyOf("p", "podSelector: {matchLabels: {app: cart}}")), nil, nil},
		{"a Service that only gives names", scenetest.JoinDocs(well("cart", "app: cart", app8080), strings.Replace(scenetest.ServiceOf("cart", "app: cart", scenetest.Port80), "10.96.0.7", "None", 1), policyOf("p", "podSelector: {matchLabels: {app: cart}}")), nil, nil},
		{"for debugging only, by Pods that come and go", scenetest.JoinDocs(well("cart", "app: cart", app8080), scenetest.ServiceOf("cart", "app: cart", scenetest.Port80), policyOf("p", "podSelector: {matchLabels: {app: cart}}, ingress: [{from: [{podSelector: {matchLabels: {role: debug}}}]}]")), nil, nil},
		{"the client times out on another", scenetest.JoinDocs(shop, policyOf("p", "podSelector: {}")), map[string]string{podNameOf("web"): "dial mycart:80: i/o timeout"}, nil},
		{"another Pod's log", scenetest.JoinDocs(shop, policyOf("p", "podSelector: {}")), map[string]string{podNameOf("cart"): "dial cart:80: i/o timeout"}, nil},
		{"refused, not denied", scenetest.JoinDocs(shop, policyOf("p", "podSelector: {}")), map[string]string{podNameOf("web"): "dial cart:80: connection refused"}, nil},
		{"the server is in the node's network", scenetest.JoinDocs(strings.ReplaceAll(shop, app8080, "hostNetwork: true, "+app8080), policyOf("p", "podSelector: {matchLabels: {app: cart}}")), late, nil},
		{"no policy", shop, late, nil},
	})
}

func TestPolicyDeniesDNS(t *testing.T) {
	web := well("web", "app: web", "containers: [{name: app}]")
	blind := map[string]string{podNameOf("web"): "lookup cart on 10.96.0.10:53: read udp: i/o timeout\n"}
	const found = "network-policy-denies NetworkPolicy p"
	egress := func(rules string) string {
		return policyOf("p", "podSelector: {matchLabels: {app: web}}, policyTypes: [Egress], egress: ["+rules+"]")
	}
	checkScenes(t, []scenecase{
		{"all", scenetest.JoinDocs(web, egress("")), blind, []string{found}},
		{"all but its own namespace", scenetest.JoinDocs(web, egress("{to: [{podSelector: {}}]}")), blind, []string{found}},
		{"no complaint", scenetest.JoinDocs(web, egress("")), nil, nil},
		{"port 53 to anybody", scenetest.JoinDocs(web, egress("{ports: [{port: 53, protocol: UDP}]}")), blind, nil},
		{"only by TCP", scenetest.JoinDocs(web, egress("{ports: [{port: 53}]}")), blind, nil},
		{"to the DNS by its labels", scenetest.JoinDocs(web, egress("{to: [{namespaceSelector: {}, podSelector: {matchLabels: {k8s-app: kube-dns}}}]}")), blind, nil},
		{"to a namespace whose labels are not known", scenetest.JoinDocs(web, egress("{to: [{namespaceSelector: {matchLabels: {name: kube-system}}}]}")), blind, nil},
		{"to a block that may hold it", scenetest.JoinDocs(web, egress("{to: [{ipBlock: {cidr: 10.0.0.0/8}}]}")), blind, nil},
		{"ingress only", scenetest.JoinDocs(web, policyOf("p", "podSelector: {}")), blind, nil},
	})
}
