package rules

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scene"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scenetest"
)

// inSystem moves an object to the namespace of the cluster's own parts.
func inSystem(doc string) string {
	return strings.ReplaceAll(doc, "namespace: shop", "namespace: kube-system")
}

func TestClusterDNS(t *testing.T) {
	coredns := func(ready bool) string {
		return inSystem(scenetest.JoinDocs(scenetest.DeploymentOf("coredns", "k8s-app: kube-dns", "containers: [{name: app}]"), scenetest.PodOf("coredns", "k8s-app: kube-dns", "containers: [{name: app}]", ready)))
	}
	service := inSystem(strings.Replace(scenetest.ServiceOf("kube-dns", "k8s-app: kube-dns", "{port: 53, protocol: UDP}"), "shop", "kube-system", 1))
	corefile := func(block string) string {
		return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {namespace: kube-system, name: coredns}\ndata:\n  Corefile: |\n    .:53 {\n        errors\n%s        forward . /etc/resolv.conf\n    }\n", block)
	}
	const kube = "        kubernetes cluster.local in-addr.arpa ip6.arpa {\n            pods insecure\n        }\n"
	template := func(head, match, code string) string {
		return corefile(kube + "        template " + head + " {\n            match \"" + match + "\"\n            rcode " + code + "\n            fallthrough\n        }\n")
	}
	const down, wrong = "cluster-dns-unhealthy Deployment coredns", "cluster-dns-unhealthy ConfigMap coredns"
	const behind = "service-pods-not-ready Service kube-dns"
	checkScenes(t, []scenecase{
		{"no Pod is ready", scenetest.JoinDocs(coredns(false), service), nil, []string{down, behind}},
		{"its Service selects nothing", scenetest.JoinDocs(coredns(true), strings.Replace(service, "selector: {k8s-app: kube-dns}", "selector: {k8s-app: dns}", 1)), nil, []string{"cluster-dns-unhealthy Service kube-dns"}},
		{"the Corefile refuses a Service", scenetest.JoinDocs(coredns(true), template("IN A shop.svc.cluster.local", `^cart\\.shop\\.svc\\.cluster\\.local\\.$`, "NXDOMAIN")), nil, []string{wrong}},
		{"the Corefile refuses all of them", scenetest.JoinDocs(coredns(true), template("ANY ANY svc.cluster.local", ".*", "NXDOMAIN")), nil, []string{wrong}},
		{"by a pattern alone", scenetest.JoinDocs(coredns(true), template("IN ANY", `.*\.svc\.cluster\.local\.`, "SERVFAIL")), nil, []string{wrong}},
		{"the Corefile does not know the cluster", scenetest.JoinDocs(coredns(true), corefile("")), nil, []string{wrong}},

		{"well", scenetest.JoinDocs(coredns(true), service, corefile(kube)), nil, nil},
		{"one of two is starting", scenetest.JoinDocs(coredns(true), strings.ReplaceAll(inSystem(scenetest.PodOf("coredns", "k8s-app: kube-dns", "containers: [{name: app}]", false)), "x7k2p", "y7k2p"), service), nil, nil},
		{"no addresses of version 6", scenetest.JoinDocs(coredns(true), template("IN AAAA", `.*\.cluster\.local\.`, "NXDOMAIN")), nil, nil},
		{"spares searches in a cloud's domain", scenetest.JoinDocs(coredns(true), template("ANY ANY", `.*\.svc\.cluster\.local\.eu-central-1\.compute\.internal\.`, "NXDOMAIN")), nil, nil},
		{"spares searches of a name already whole", scenetest.JoinDocs(coredns(true), template("ANY ANY", `cluster\.local\.svc\.cluster\.local\.$`, "NXDOMAIN")), nil, nil},
		{"answers", scenetest.JoinDocs(coredns(true), template("IN A shop.svc.cluster.local", ".*", "NOERROR")), nil, nil},
		{"somebody's own CoreDNS", scenetest.JoinDocs(coredns(true), strings.Replace(corefile(""), "kube-system", "shop", 1)), nil, nil},
	})

	away := scenecase{manifests: strings.Replace(strings.Replace(inSystem(scenetest.DeploymentOf("coredns", "k8s-app: kube-dns", "containers: []")), "{namespace: kube-system,", "{namespace: kube-system, labels: {k8s-app: kube-dns},", 1), "replicas: 1", "replicas: 0", 1)}
	checkScene(t, away.scene(t), down)

	loop := scenecase{manifests: coredns(false)}.scene(t)
	loop.Logs = []scene.LogExcerpt{{Namespace: "kube-system", Pod: scenetest.PodNameOf("coredns"), Container: "app", Evidence: "E9", Text: "[FATAL] plugin/loop: Loop (127.0.0.1:35953 -> :53) detected for zone \".\"\n"}}
	if n := ApplySceneRules(loop)[0]; !strings.Contains(n.Summary, "plugin/loop: Loop") {
		t.Errorf("its log is not told: %q", n.Summary)
	}
	shop := scenetest.JoinDocs(scenetest.WellPods("web", "app: web", "containers: [{name: app, env: [{name: CART, value: 'cart:80'}]}]"), scenetest.WellPods("cart", "app: cart", scenetest.App8080), scenetest.ServiceOf("cart", "app: cart", scenetest.Port80))
	n := ApplySceneRules(scenecase{manifests: scenetest.JoinDocs(coredns(true), shop, template("IN A shop.svc.cluster.local", `^cart\\.shop\\.svc\\.cluster\\.local\\.$`, "NXDOMAIN"))}.scene(t))[0]
	for _, o := range []nightcrier.Object{{Kind: "Service", Namespace: "shop", Name: "cart"}, {Kind: "Deployment", Namespace: "shop", Name: "web"}} {
		if !slices.Contains(n.Affected, o) {
			t.Errorf("%v is not among those affected: %v", o, n.Affected)
		}
	}
}

func TestDNSPolicy(t *testing.T) {
	caller := func(spec string) string {
		return scenetest.JoinDocs(scenetest.WellPods("web", "app: web", spec+", containers: [{name: app, env: [{name: CART, value: 'http://cart:80'}]}]"),
			scenetest.WellPods("cart", "app: cart", scenetest.App8080), scenetest.ServiceOf("cart", "app: cart", scenetest.Port80))
	}
	cluster := inSystem(strings.Replace(scenetest.ServiceOf("kube-dns", "", "{port: 53}"), "10.96.0.7", "10.96.0.10", 1))
	blind := map[string]string{scenetest.PodNameOf("web"): "dial tcp: lookup cart: no such host; GET http://cart:80/ failed\n"}
	const found = "dns-policy-wrong Deployment web"
	const public = "dnsPolicy: None, dnsConfig: {nameservers: [8.8.8.8]}"
	checkScenes(t, []scenecase{
		{"a public server", scenetest.JoinDocs(cluster, caller(public)), nil, []string{found}},
		{"a public server, and its log says so", scenetest.JoinDocs(cluster, caller(public)), blind, []string{found}},
		{"a private server that does not know it", scenetest.JoinDocs(cluster, caller("dnsPolicy: None, dnsConfig: {nameservers: [10.0.0.53]}")), blind, []string{found}},
		{"the node's servers", scenetest.JoinDocs(cluster, caller("dnsPolicy: Default")), blind, []string{found}},
		{"the node's network", scenetest.JoinDocs(cluster, caller("hostNetwork: true")), blind, []string{found}},

		{"the cluster's server", scenetest.JoinDocs(cluster, caller("dnsPolicy: None, dnsConfig: {nameservers: [10.96.0.10]}")), blind, nil},
		{"a cache on the node", scenetest.JoinDocs(cluster, caller("dnsPolicy: None, dnsConfig: {nameservers: [169.254.20.10]}")), nil, nil},
		{"a private server that may forward", scenetest.JoinDocs(cluster, caller("dnsPolicy: None, dnsConfig: {nameservers: [10.0.0.53]}")), nil, nil},
		{"the node's servers, and no complaint", scenetest.JoinDocs(cluster, caller("dnsPolicy: Default")), nil, nil},
		{"the node's network, and no complaint", scenetest.JoinDocs(cluster, caller("hostNetwork: true")), nil, nil},
		{"the node's network with the cluster's servers", scenetest.JoinDocs(cluster, caller("hostNetwork: true, dnsPolicy: ClusterFirstWithHostNet")), blind, nil},
		{"the usual policy", scenetest.JoinDocs(cluster, caller("dnsPolicy: ClusterFirst")), blind, nil},
		{"a public server for one that needs no other", scenetest.JoinDocs(cluster, scenetest.WellPods("web", "app: web", public+", containers: [{name: app}]")), nil, nil},
	})
}

func TestExternalName(t *testing.T) {
	to := func(host string) string {
		return scenetest.JoinDocs(scenetest.WellPods("web", "app: web", scenetest.App8080), fmt.Sprintf(`{apiVersion: v1, kind: Service, metadata: {namespace: shop, name: db}, spec: {type: ExternalName, externalName: %q}}`, host))
	}
	const found = "dns-name-wrong Service db"
	checkScenes(t, []scenecase{
		{"an address", to("192.0.2.7"), nil, []string{found}},
		{"a Service that is not there", to("pg.shop.svc.cluster.local"), nil, []string{found}},
		{"a client says so", to("db.example.com"), map[string]string{scenetest.PodNameOf("web"): `could not translate host name "db" to address: Name or service not known`}, []string{found}},
		{"a host outside", to("db.example.com"), nil, nil},
		{"a Service", scenetest.JoinDocs(to("cart.shop.svc.cluster.local"), scenetest.WellPods("cart", "app: cart", scenetest.App8080), scenetest.ServiceOf("cart", "app: cart", scenetest.Port80)), nil, nil},
		{"a client has trouble with another", to("db.example.com"), map[string]string{scenetest.PodNameOf("web"): "lookup mydb: no such host"}, nil},
	})
	partial := scenecase{manifests: to("pg.other.svc.cluster.local")}.scene(t)
	partial = scenetest.Unlisted(partial)
	checkScene(t, partial)
}

// A DNS server whose upstream does not answer says so each time; one that stumbled did once.
func TestDNSUpstreamAway(t *testing.T) {
	const line = "[ERROR] plugin/errors: 2 api.example.com. A: read udp 10.244.1.4:40288->10.20.0.253:53: i/o timeout\n"
	for often, want := range map[int]string{5: "ConfigMap", 1: ""} {
		s := scenetest.New(t, scenetest.JoinDocs(
			`{apiVersion: v1, kind: Pod, metadata: {namespace: kube-system, name: coredns-1, labels: {k8s-app: kube-dns}}, status: {phase: Running, conditions: [{type: Ready, status: "True", lastTransitionTime: "2026-03-01T10:00:00Z"}]}}`,
			`{apiVersion: v1, kind: ConfigMap, metadata: {namespace: kube-system, name: coredns}, data: {Corefile: ".:53 { forward . 10.20.0.253 }"}}`))
		s.Logs = []scene.LogExcerpt{{Namespace: "kube-system", Pod: "coredns-1", Container: "coredns", Evidence: "E1", Text: strings.Repeat(line, often)}}
		got := ""
		for _, n := range foundOf(ApplySceneRules(s), "cluster-dns-unhealthy") {
			scenetest.CheckFinding(t, n)
			if strings.Contains(n.Summary, "forwards names outside") {
				got = n.Object.Kind
			}
		}
		if got != want {
			t.Errorf("%d times: %q, want %q", often, got, want)
		}
	}
}
