package rules

import (
	"fmt"
	"strings"
	"testing"

	"nightcrier.dev/nightcrier/internal/diagnose/internal/scenetest"
)

func TestIngress(t *testing.T) {
	shop := scenetest.JoinDocs(scenetest.WellPods("cart", "app: cart", scenetest.App8080), scenetest.ServiceOf("cart", "app: cart", "{name: web, port: 80, targetPort: 8080}"))
	class := `{apiVersion: networking.k8s.io/v1, kind: IngressClass, metadata: {name: nginx}}`
	ingress := func(spec, backend string) string {
		return fmt.Sprintf(`{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {namespace: shop, name: web, creationTimestamp: %q}, spec: {%s rules: [{host: shop.example.com, http: {paths: [{path: /, pathType: Prefix, backend: {%s}}]}}]}}`, scenetest.LongName, spec, backend)
	}
	to := func(name, port string) string { return fmt.Sprintf("service: {name: %s, port: {%s}}", name, port) }
	good := to("cart", "number: 80")
	secret := `{apiVersion: v1, kind: Secret, metadata: {namespace: shop, name: tls}, type: kubernetes.io/tls}`
	const missing, port, noClass, noSecret = "ingress-backend-missing Ingress web", "ingress-backend-port Ingress web", "ingress-class-missing Ingress web", "ingress-tls-secret-missing Ingress web"
	checkScenes(t, []scenecase{
		{"no such Service", scenetest.JoinDocs(shop, ingress("", to("crat", "number: 80"))), nil, []string{missing}},
		{"no such Service by default", scenetest.JoinDocs(shop, ingress("defaultBackend: {service: {name: gone, port: {number: 80}}},", good)), nil, []string{missing}},
		{"no such port", scenetest.JoinDocs(shop, ingress("", to("cart", "number: 8080"))), nil, []string{port}},
		{"no port of that name", scenetest.JoinDocs(shop, ingress("", to("cart", "name: http"))), nil, []string{port}},
		{"no such class", scenetest.JoinDocs(shop, class, ingress("ingressClassName: ngnix,", good)), nil, []string{noClass}},
		{"no class at all", scenetest.JoinDocs(shop, ingress("ingressClassName: nginx,", good)), nil, []string{noClass}},
		{"no certificate", scenetest.JoinDocs(shop, ingress("tls: [{hosts: [a], secretName: tls}],", good)), nil, []string{noSecret}},

		{"all is there", scenetest.JoinDocs(shop, class, secret, ingress("ingressClassName: nginx, tls: [{hosts: [a], secretName: tls}],", good)), nil, nil},
		{"the port by its name", scenetest.JoinDocs(shop, ingress("", to("cart", "name: web"))), nil, nil},
		{"a resource as backend", scenetest.JoinDocs(shop, ingress("", "resource: {kind: Bucket, name: b}")), nil, nil},
		{"an annotation in place of a Service", scenetest.JoinDocs(shop, ingress("", to("ssl-redirect", "name: use-annotation"))), nil, nil},
		{"served without its class", scenetest.JoinDocs(shop, strings.TrimSuffix(ingress("ingressClassName: old,", good), "}")+", status: {loadBalancer: {ingress: [{ip: 192.0.2.1}]}}}"), nil, nil},
		{"its certificate is being issued", scenetest.JoinDocs(shop, strings.ReplaceAll(ingress("tls: [{hosts: [a], secretName: tls}],", good), scenetest.LongName, scenetest.Short)), nil, nil},
		{"the default certificate", scenetest.JoinDocs(shop, ingress("tls: [{hosts: [a]}],", good)), nil, nil},
	}, "IngressClass", "Secret")

	denied := scenecase{manifests: scenetest.JoinDocs(shop, ingress("ingressClassName: gone, tls: [{hosts: [a], secretName: tls}],", to("crat", "number: 80")))}.scene(t)
	denied = scenetest.Unlisted(denied)
	checkScene(t, denied)
}
