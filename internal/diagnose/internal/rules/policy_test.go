package rules

import (
	"strings"
	"testing"

	"nightcrier.dev/nightcrier/internal/diagnose/internal/scenetest"
)

func TestPolicyDenies(t *testing.T) {
	shop := scenetest.JoinDocs(scenetest.WellPods("web", "app: web", "containers: [{name: app, env: [{name: CART, value: 'http://cart:80'}]}]"),
		scenetest.WellPods("cart", "app: cart", scenetest.App8080), scenetest.ServiceOf("cart", "app: cart", scenetest.Port80))
	late := map[string]string{scenetest.PodNameOf("web"): "GET http://cart:80/items: dial tcp 10.96.0.7:80: i/o timeout\n"}
	ingress := `{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {namespace: shop, name: www}, spec: {rules: [{http: {paths: [{path: /, backend: {service: {name: cart, port: {number: 80}}}}]}}]}}`
	const found = "network-policy-denies NetworkPolicy p"
	checkScenes(t, []scenecase{
		{"deny all, and the client times out", scenetest.JoinDocs(shop, scenetest.PolicyOf("p", "podSelector: {}")), late, []string{found}},
		{"allows another, and the client times out", scenetest.JoinDocs(shop, scenetest.PolicyOf("p", "podSelector: {matchLabels: {app: cart}}, ingress: [{from: [{podSelector: {matchLabels: {app: cart}}}]}]")), late, []string{found}},
		{"egress, and the client times out", scenetest.JoinDocs(shop, scenetest.PolicyOf("p", "podSelector: {matchLabels: {app: web}}, policyTypes: [Egress], egress: [{ports: [{port: 53, protocol: UDP}]}]")), late, []string{found}},
		{"the wrong port, and the client times out", scenetest.JoinDocs(shop, scenetest.PolicyOf("p", "podSelector: {matchLabels: {app: cart}}, ingress: [{ports: [{port: 80}]}]")), late, []string{found}},
		{"the server is cut off", scenetest.JoinDocs(shop, scenetest.PolicyOf("p", "podSelector: {matchLabels: {app: cart}}, policyTypes: [Ingress, Egress]")), nil, []string{found}},
		{"for Pods that nobody makes", scenetest.JoinDocs(shop, scenetest.PolicyOf("p", "podSelector: {matchLabels: {app: cart}}, ingress: [{from: [{podSelector: {matchLabels: {app: wbe}}}]}]")), nil, []string{found}},
		{"an Ingress leads to a server that is cut off", scenetest.JoinDocs(scenetest.WellPods("cart", "app: cart", scenetest.App8080), scenetest.ServiceOf("cart", "app: cart", scenetest.Port80), ingress, scenetest.PolicyOf("p", "podSelector: {matchLabels: {app: cart}}")), nil, []string{found}},
		{"a Service that nobody may connect to", scenetest.JoinDocs(scenetest.WellPods("cart", "app: cart", scenetest.App8080), scenetest.ServiceOf("cart", "app: cart", scenetest.Port80), scenetest.PolicyOf("p", "podSelector: {matchLabels: {app: cart}}, policyTypes: [Ingress, Egress]")), nil, []string{found}},
		{"the policy that is closest is to blame", scenetest.JoinDocs(shop, scenetest.PolicyOf("all", "podSelector: {}"), scenetest.PolicyOf("p", "podSelector: {matchLabels: {app: cart}}")), late, []string{found}},

		{"deny all, and nobody complains", scenetest.JoinDocs(shop, scenetest.PolicyOf("p", "podSelector: {}")), nil, nil},
		{"allowed, though the client times out", scenetest.JoinDocs(shop, scenetest.PolicyOf("p", "podSelector: {}, ingress: [{from: [{podSelector: {}}]}]")), late, nil},
		{"meant for another client", scenetest.JoinDocs(shop, scenetest.PolicyOf("p", "podSelector: {matchLabels: {app: cart}}, ingress: [{from: [{podSelector: {matchLabels: {app: cart}}}]}]")), nil, nil},
		{"a Pod that nobody needs to reach", scenetest.JoinDocs(scenetest.WellPods("cart", "app: cart", scenetest.App8080), scenetest.PolicyOf("p", "podSelector: {matchLabels: {app: cart}}")), nil, nil},
		{"a Service that only gives names", scenetest.JoinDocs(scenetest.WellPods("cart", "app: cart", scenetest.App8080), strings.Replace(scenetest.ServiceOf("cart", "app: cart", scenetest.Port80), "10.96.0.7", "None", 1), scenetest.PolicyOf("p", "podSelector: {matchLabels: {app: cart}}")), nil, nil},
		{"for debugging only, by Pods that come and go", scenetest.JoinDocs(scenetest.WellPods("cart", "app: cart", scenetest.App8080), scenetest.ServiceOf("cart", "app: cart", scenetest.Port80), scenetest.PolicyOf("p", "podSelector: {matchLabels: {app: cart}}, ingress: [{from: [{podSelector: {matchLabels: {role: debug}}}]}]")), nil, nil},
		{"the client times out on another", scenetest.JoinDocs(shop, scenetest.PolicyOf("p", "podSelector: {}")), map[string]string{scenetest.PodNameOf("web"): "dial mycart:80: i/o timeout"}, nil},
		{"another Pod's log", scenetest.JoinDocs(shop, scenetest.PolicyOf("p", "podSelector: {}")), map[string]string{scenetest.PodNameOf("cart"): "dial cart:80: i/o timeout"}, nil},
		{"refused, not denied", scenetest.JoinDocs(shop, scenetest.PolicyOf("p", "podSelector: {}")), map[string]string{scenetest.PodNameOf("web"): "dial cart:80: connection refused"}, nil},
		{"the server is in the node's network", scenetest.JoinDocs(strings.ReplaceAll(shop, scenetest.App8080, "hostNetwork: true, "+scenetest.App8080), scenetest.PolicyOf("p", "podSelector: {matchLabels: {app: cart}}")), late, nil},
		{"no policy", shop, late, nil},
	})
}

func TestPolicyDeniesDNS(t *testing.T) {
	web := scenetest.WellPods("web", "app: web", "containers: [{name: app}]")
	blind := map[string]string{scenetest.PodNameOf("web"): "lookup cart on 10.96.0.10:53: read udp: i/o timeout\n"}
	const found = "network-policy-denies NetworkPolicy p"
	egress := func(rules string) string {
		return scenetest.PolicyOf("p", "podSelector: {matchLabels: {app: web}}, policyTypes: [Egress], egress: ["+rules+"]")
	}
	cached := map[string]string{scenetest.PodNameOf("web"): "lookup cart on 169.254.20.10:53: read udp 10.1.0.5:4711->169.254.20.10:53: i/o timeout\n"}
	const toDNS = "{to: [{namespaceSelector: {}, podSelector: {matchLabels: {k8s-app: kube-dns}}}]}"
	cilium := func(rule string) string {
		return "{apiVersion: cilium.io/v2, kind: CiliumNetworkPolicy, metadata: {namespace: shop, name: p}, spec: {endpointSelector: {matchLabels: {app: web}}, egress: [" + rule + "]}}"
	}
	checkScenes(t, []scenecase{
		{"all", scenetest.JoinDocs(web, egress("")), blind, []string{found}},
		{"all but its own namespace", scenetest.JoinDocs(web, egress("{to: [{podSelector: {}}]}")), blind, []string{found}},
		{"no complaint", scenetest.JoinDocs(web, egress("")), nil, nil},
		{"port 53 to anybody", scenetest.JoinDocs(web, egress("{ports: [{port: 53, protocol: UDP}]}")), blind, nil},
		{"only by TCP, and resolvers ask by UDP", scenetest.JoinDocs(web, egress("{ports: [{port: 53}]}")), blind, []string{found}},
		{"Pods of the DNS, and it asks the cache on its node", scenetest.JoinDocs(web, egress(toDNS)), cached, []string{found}},
		{"the cache by its address", scenetest.JoinDocs(web, egress("{to: [{ipBlock: {cidr: 169.254.0.0/16}}]}, "+toDNS)), cached, nil},
		{"anybody on port 53, the cache too", scenetest.JoinDocs(web, egress("{ports: [{port: 53, protocol: UDP}]}")), cached, nil},
		{"Cilium: Pods of the DNS, and it asks the cache", scenetest.JoinDocs(web, cilium("{toEndpoints: [{matchLabels: {'k8s:k8s-app': kube-dns, 'k8s:io.kubernetes.pod.namespace': kube-system}}]}")), cached, []string{"network-policy-denies CiliumNetworkPolicy p"}},
		{"Cilium: Pods of the DNS, which it asks", scenetest.JoinDocs(web, cilium("{toEndpoints: [{matchLabels: {'k8s:k8s-app': kube-dns, 'k8s:io.kubernetes.pod.namespace': kube-system}}]}")), blind, nil},
		{"Cilium: the node", scenetest.JoinDocs(web, cilium("{toEntities: [host], toPorts: [{ports: [{port: '53', protocol: UDP}]}]}")), cached, nil},
		{"Cilium: the node, by TCP", scenetest.JoinDocs(web, cilium("{toEntities: [host], toPorts: [{ports: [{port: '53', protocol: TCP}]}]}")), cached, []string{"network-policy-denies CiliumNetworkPolicy p"}},
		{"Cilium: what we do not know", scenetest.JoinDocs(web, cilium("{toNodes: [{}]}")), cached, nil},
		{"to the DNS by its labels", scenetest.JoinDocs(web, egress("{to: [{namespaceSelector: {}, podSelector: {matchLabels: {k8s-app: kube-dns}}}]}")), blind, nil},
		{"to a namespace whose labels are not known", scenetest.JoinDocs(web, egress("{to: [{namespaceSelector: {matchLabels: {name: kube-system}}}]}")), blind, nil},
		{"to a block that may hold it", scenetest.JoinDocs(web, egress("{to: [{ipBlock: {cidr: 10.0.0.0/8}}]}")), blind, nil},
		{"ingress only", scenetest.JoinDocs(web, scenetest.PolicyOf("p", "podSelector: {}")), blind, nil},
	})
}
