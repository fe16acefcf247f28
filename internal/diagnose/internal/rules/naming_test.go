package rules

import (
	"fmt"
	"testing"

	"nightcrier.dev/nightcrier/internal/diagnose/internal/scenetest"
)

func TestNamedPartMissing(t *testing.T) {
	web := scenetest.JoinDocs(scenetest.WellPods("web", "app: web", scenetest.App8080),
		`{apiVersion: v1, kind: Service, metadata: {namespace: shop, name: web, labels: {app: web}}, spec: {clusterIP: 10.96.0.9, selector: {app: web}, ports: [{name: http, port: 80, targetPort: 8080}]}}`)
	monitor := func(endpoints, more string) string {
		return scenetest.JoinDocs(web, fmt.Sprintf(`{apiVersion: monitoring.coreos.com/v1, kind: ServiceMonitor, metadata: {namespace: shop, name: web}, spec: {selector: {matchLabels: {app: web}}, %s endpoints: [%s]}}`, more, endpoints))
	}
	route := func(port string) string {
		return scenetest.JoinDocs(web, fmt.Sprintf(`{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {namespace: shop, name: web}, spec: {rules: [{backendRefs: [{name: web, port: %s}]}]}}`, port))
	}
	mesh := func(subset, weight, host string) string {
		return scenetest.JoinDocs(web,
			fmt.Sprintf(`{apiVersion: networking.istio.io/v1, kind: VirtualService, metadata: {namespace: shop, name: web}, spec: {http: [{route: [{destination: {host: web, subset: %s}, weight: %s}]}]}}`, subset, weight),
			fmt.Sprintf(`{apiVersion: networking.istio.io/v1, kind: DestinationRule, metadata: {namespace: shop, name: web}, spec: {host: %s, subsets: [{name: v2}]}}`, host))
	}
	hook := func(port string) string {
		return scenetest.JoinDocs(web, fmt.Sprintf(`{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingWebhookConfiguration, metadata: {name: m}, webhooks: [{name: m.example.com, clientConfig: {service: {namespace: shop, name: web%s}}}]}`, port))
	}
	found := func(o string) []string { return []string{"named-part-missing " + o} }
	checkScenes(t, []scenecase{
		{"a port that is there", monitor("{port: http}", ""), nil, nil},
		{"a port that is gone", monitor("{port: metrics}", ""), nil, found("ServiceMonitor web")},
		{"a port by its number", monitor("{targetPort: 9090}", ""), nil, nil},
		{"Services of another namespace", monitor("{port: metrics}", "namespaceSelector: {matchNames: [other]},"), nil, nil},
		{"a route to a port that is there", route("80"), nil, nil},
		{"a route to a port that is gone", route("8080"), nil, found("HTTPRoute web")},
		{"a subset that is there", mesh("v2", "100", "web.shop.svc.cluster.local"), nil, nil},
		{"a subset that is gone", mesh("v1", "100", "web.shop.svc.cluster.local"), nil, found("VirtualService web")},
		{"a subset that nothing is sent to", mesh("v1", "0", "web"), nil, nil},
		{"a rule for another host", mesh("v1", "100", "other"), nil, nil},
		{"a webhook on the port that it has", hook(", port: 80"), nil, nil},
		{"a webhook on the port that is usual and that it has not", hook(""), nil, found("MutatingWebhookConfiguration m")},
	})
}
