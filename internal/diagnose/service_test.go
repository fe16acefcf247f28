package diagnose

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
)

// scenecase is one row of a scene's table: objects as YAML, logs of Pods in
// namespace shop, and the findings as "cause Kind name", the best first.
type scenecase struct {
	name      string
	manifests string
	logs      map[string]string
	want      []string
}

func checkScenes(t *testing.T, cases []scenecase, complete ...string) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			checkScene(t, c.scene(t, complete...), c.want...)
		})
	}
}

func (c scenecase) scene(t *testing.T, complete ...string) *Scene {
	t.Helper()
	s := sceneOf(t, c.manifests, complete...)
	for pod, text := range c.logs {
		s.Logs = append(s.Logs, LogExcerpt{Namespace: "shop", Pod: pod, Container: "app", Evidence: "E9", Text: text})
	}
	return s
}

// docs joins YAML documents.
func docs(all ...string) string { return strings.Join(all, "\n---\n") }

// long and short are how long ago things were made.
var long, short = now.Add(-time.Hour).Format(time.RFC3339), now.Add(-time.Minute).Format(time.RFC3339)

// deploymentOf is a Deployment called name whose Pods have labels, with more of
// its Pod's spec.
func deploymentOf(name, labels, spec string) string {
	return fmt.Sprintf(`{apiVersion: apps/v1, kind: Deployment, metadata: {namespace: shop, name: %[1]s, creationTimestamp: %[4]q}, spec: {replicas: 1, selector: {matchLabels: {%[2]s}}, template: {metadata: {labels: {%[2]s}}, spec: {%[3]s}}}}`, name, labels, spec, long)
}

// podOf is a running Pod of Deployment name, ready or not.
func podOf(name, labels, spec string, ready bool) string {
	return fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {namespace: shop, name: %[1]s-7d4b9c8f6d-x7k2p, creationTimestamp: %[5]q, labels: {%[2]s, pod-template-hash: 7d4b9c8f6d}, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: %[1]s-7d4b9c8f6d, controller: true, uid: u}]}, spec: {%[3]s}, status: {phase: Running, podIP: 10.0.0.9, conditions: [{type: Ready, status: %[6]q}], containerStatuses: [{name: app, ready: %[4]t, state: {running: {startedAt: %[5]q}}}]}}`,
		name, labels, spec, ready, long, map[bool]string{true: "True", false: "False"}[ready])
}

// podNameOf is the name of the Pod that podOf makes.
func podNameOf(name string) string { return name + "-7d4b9c8f6d-x7k2p" }

func serviceOf(name, selector, ports string) string {
	return fmt.Sprintf(`{apiVersion: v1, kind: Service, metadata: {namespace: shop, name: %s, creationTimestamp: %q}, spec: {clusterIP: 10.96.0.7, selector: {%s}, ports: [%s]}}`, name, long, selector, ports)
}

const (
	port80  = "{port: 80, targetPort: 8080}"
	app8080 = "containers: [{name: app, ports: [{containerPort: 8080, name: http}]}]"
)

// well is Deployment name with its ready Pod.
func well(name, labels, spec string) string {
	return docs(deploymentOf(name, labels, spec), podOf(name, labels, spec, true))
}

func TestServiceSelector(t *testing.T) {
	const found = "service-selector-mismatch Service cart"
	checkScenes(t, []scenecase{
		{"one value differs", docs(well("cart", "app: cart", app8080), serviceOf("cart", "app: cartt", port80)), nil, []string{found}},
		{"one label too many", docs(well("cart", "app: cart", app8080), serviceOf("cart", "app: cart, tier: web", port80)), nil, []string{found}},
		{"the key differs", docs(well("cart", "app: cart", app8080), serviceOf("cart", "app.kubernetes.io/name: cart", port80)), nil, []string{found}},
		{"named with an ending", docs(well("cart", "app: cart", app8080), serviceOf("cart-svc", "app: x", port80)), nil, []string{"service-selector-mismatch Service cart-svc"}},
		{"another Service serves it well", docs(well("cart", "app: cart", app8080), serviceOf("cart-external", "app: cart", port80), serviceOf("cart", "app: crat", port80)), nil, []string{found}},
		{"only labels are near", docs(well("server", "app: cart, tier: backend", app8080), serviceOf("cart", "app: cart, tier: bakcend", port80)), nil, []string{found}},
		{"only labels are near, and one is too many", docs(well("server", "app: cart", app8080), serviceOf("cart", "app: cart, tier: back", port80)), nil, []string{found}},
		{"no Pods were made either", docs(deploymentOf("cart", "app: cart", app8080), serviceOf("cart", "app: x", port80), podOf("other", "app: other", app8080, true)), nil, []string{found}},

		{"it matches", docs(well("cart", "app: cart", app8080), serviceOf("cart", "app: cart", port80)), nil, nil},
		{"Pods are not made yet", docs(deploymentOf("cart", "app: cart", app8080), podOf("other", "app: other", app8080, true), serviceOf("cart", "app: cart", port80)), nil, nil},
		{"a canary that is not deployed", docs(well("cart", "app: cart, track: stable", app8080), serviceOf("cart", "app: cart", port80), serviceOf("cart-canary", "app: cart, track: canary", port80)), nil, nil},
		{"meant for another part, which is not deployed", docs(well("vttablet", "app: vitess, component: vttablet", app8080), serviceOf("vtgate", "app: vitess, component: vtgate", port80)), nil, nil},
		{"nothing like it", docs(well("cart", "app: cart", app8080), serviceOf("cart", "app: cart", port80), serviceOf("search", "app: search", port80)), nil, nil},
		{"labels of the whole application", docs(well("cart", "app: shop, part: cart", app8080), well("pay", "app: shop, part: pay", app8080), serviceOf("search", "app: shop, part: search", port80)), nil, nil},
		{"without a selector", docs(well("cart", "app: cart", app8080), serviceOf("cart", "", port80)), nil, nil},
		{"scaled to zero", docs(strings.Replace(deploymentOf("cart", "app: cart", app8080), "replicas: 1", "replicas: 0", 1), podOf("x", "app: x", app8080, true), serviceOf("cart", "app: cart", port80)), nil, []string{"scaled-to-zero Deployment cart"}},
		{"its endpoints are ready", docs(well("cart", "app: cart", app8080), serviceOf("cart", "app: x", port80),
			`{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {namespace: shop, name: cart-1, labels: {kubernetes.io/service-name: cart}}, endpoints: [{addresses: [10.0.0.1], conditions: {ready: true}}]}`), nil, nil},
	})
	partial := scenecase{manifests: docs(well("cart", "app: cart", app8080), serviceOf("cart", "app: x", port80))}.scene(t)
	partial = unlisted(partial)
	checkScene(t, partial)

	n := applyScene(scenecase{manifests: docs(well("cart", "app: cart", app8080), serviceOf("cart", "app: cartt", port80))}.scene(t))[0]
	if n.Confidence != nightcrier.High || !strings.Contains(n.Summary, "asks for app=cartt, and the Pods of Deployment shop/cart have app=cart") {
		t.Errorf("%s %q", n.Confidence, n.Summary)
	}
}

func TestServicePodsNotReady(t *testing.T) {
	young := strings.ReplaceAll(podOf("cart", "app: cart", app8080, false), long, short)
	checkScenes(t, []scenecase{
		{"none is ready", docs(podOf("cart", "app: cart", app8080, false), serviceOf("cart", "app: cart", port80)), nil, []string{"service-pods-not-ready Service cart"}},
		{"one is ready", docs(podOf("cart", "app: cart", app8080, false), strings.ReplaceAll(podOf("cart", "app: cart", app8080, true), "x7k2p", "y7k2p"), serviceOf("cart", "app: cart", port80)), nil, nil},
		{"starting", docs(young, serviceOf("cart", "app: cart", port80)), nil, nil},
		{"only ended ones", docs(strings.Replace(podOf("cart", "app: cart", app8080, false), "phase: Running", "phase: Failed", 1), serviceOf("cart", "app: cart", port80)), nil, nil},
		{"unready ones are wanted", docs(podOf("cart", "app: cart", app8080, false), strings.Replace(serviceOf("cart", "app: cart", port80), "spec: {", "spec: {publishNotReadyAddresses: true, ", 1)), nil, nil},
	})
	n := applyScene(scenecase{manifests: docs(podOf("cart", "app: cart", app8080, false), serviceOf("cart", "app: cart", port80))}.scene(t))[0]
	if len(n.DependsOn) != 1 || n.DependsOn[0] != (nightcrier.Object{Kind: "Deployment", Namespace: "shop", Name: "cart"}) {
		t.Errorf("depends on %v", n.DependsOn)
	}
}

func TestServicePorts(t *testing.T) {
	const number, name, proto = "service-target-port-mismatch Service cart", "service-port-name-mismatch Service cart", "service-protocol-mismatch Service cart"
	to := func(ports, spec string) string {
		return docs(well("cart", "app: cart", spec), serviceOf("cart", "app: cart", ports))
	}
	silent := "containers: [{name: app}]"
	probed := "containers: [{name: app, readinessProbe: {tcpSocket: {port: 8080}}}]"
	checkScenes(t, []scenecase{
		{"a number that nobody declares", to("{port: 80, targetPort: 9999}", app8080), nil, []string{number}},
		{"by default its own", to("{port: 80}", app8080), nil, []string{number}},
		{"only a probe tells", to("{port: 80, targetPort: 9999}", probed), nil, []string{number}},
		{"only the log tells", to("{port: 80, targetPort: 9999}", silent), map[string]string{podNameOf("cart"): "up\nINFO Server listening on port 8080\n"}, []string{number}},
		{"another Service leads there by the same port", docs(to("{port: 80, targetPort: 9999}", app8080), serviceOf("cart-external", "app: cart", port80)), nil, []string{number}},
		{"the port of several that bears the name", to("{name: http, port: 80, targetPort: 9999}, {name: grpc, port: 90, targetPort: 9090}", "containers: [{name: app, ports: [{containerPort: 8080, name: http}, {containerPort: 9090}]}]"), nil, []string{number}},
		{"another host's variable has the number", to("{port: 80, targetPort: 9999}", "containers: [{name: app, env: [{name: PAY, value: 'pay:9999'}], ports: [{containerPort: 8080}]}]"), nil, []string{number}},

		{"declared", to(port80, app8080), nil, nil},
		{"a probe asks it", to("{port: 80, targetPort: 9999}", "containers: [{name: app, ports: [{containerPort: 80}], readinessProbe: {httpGet: {port: 9999}}}]"), nil, nil},
		{"a variable names it", to("{port: 80, targetPort: 9999}", "containers: [{name: app, ports: [{containerPort: 8080}], env: [{name: PORT, value: '9999'}]}]"), nil, nil},
		{"an argument names it", to("{port: 80, targetPort: 9999}", "containers: [{name: app, ports: [{containerPort: 8080}], args: ['--listen=:9999']}]"), nil, nil},
		{"its log names it", to("{port: 80, targetPort: 9999}", app8080), map[string]string{podNameOf("cart"): "Listening on 0.0.0.0:9999"}, nil},
		{"its ConfigMap names it", docs(to("{port: 80, targetPort: 9999}", "containers: [{name: app, ports: [{containerPort: 8080}], envFrom: [{configMapRef: {name: conf}}]}]"), `{apiVersion: v1, kind: ConfigMap, metadata: {namespace: shop, name: conf}, data: {PORT: "9999"}}`), nil, nil},
		{"nobody declares anything", to("{port: 80, targetPort: 9999}", silent), nil, nil},
		{"a Service of its own for undeclared metrics", docs(to(port80, app8080), serviceOf("cart-metrics", "app: cart", "{port: 9100}")), nil, nil},
		{"one of several, undeclared", to(port80+", {name: metrics, port: 9100}", app8080), nil, nil},
		{"a sidecar declares it", to("{port: 80, targetPort: 9999}", "initContainers: [{name: side, restartPolicy: Always, ports: [{containerPort: 9999}]}], containers: [{name: app, ports: [{containerPort: 8080}]}]"), nil, nil},

		{"a name that nobody declares", to("{port: 80, targetPort: web}", app8080), nil, []string{name}},
		{"a name, and no names at all", to("{port: 80, targetPort: web}", silent), nil, []string{name}},
		{"the name is declared", to("{port: 80, targetPort: http}", app8080), nil, nil},
		{"the name is declared for another protocol", to("{port: 80, targetPort: http, protocol: UDP}", app8080), nil, []string{proto}},

		{"UDP where TCP is served", to("{port: 80, targetPort: 8080, protocol: UDP}", app8080), nil, []string{proto}},
		{"both, where one is declared", to("{name: a, port: 80, targetPort: 8080, protocol: UDP}, {name: b, port: 80, targetPort: 8080}", app8080), nil, nil},
		{"both, and both are declared", to("{name: a, port: 53, protocol: UDP}, {name: b, port: 53}", "containers: [{name: app, ports: [{containerPort: 53, protocol: UDP}, {containerPort: 53}]}]"), nil, nil},
	})
}

func TestHeadlessService(t *testing.T) {
	none := func(ports string) string {
		return strings.Replace(serviceOf("db", "app: db", ports), "10.96.0.7", "None", 1)
	}
	caller := func(address string) string {
		return well("cart", "app: cart", "containers: [{name: app, env: [{name: DB, value: '"+address+"'}]}]")
	}
	db := well("db", "app: db", "containers: [{name: app, ports: [{containerPort: 5432}]}]")
	const found = "headless-service-misuse Service db"
	checkScenes(t, []scenecase{
		{"by its short name", docs(caller("db:80"), db, none("{port: 80, targetPort: 5432}")), nil, []string{found}},
		{"by a URL of its full name", docs(caller("postgres://u@db.shop.svc.cluster.local:80/x"), db, none("{port: 80, targetPort: 5432}")), nil, []string{found}},
		{"by a Pod's name", docs(caller("db-0.db.shop.svc:80"), db, none("{port: 80, targetPort: 5432}")), nil, []string{found}},
		{"by the Pods' port", docs(caller("db:5432"), db, none("{port: 80, targetPort: 5432}")), nil, nil},
		{"ports are equal", docs(caller("db:5432"), db, none("{port: 5432}")), nil, nil},
		{"not headless", docs(caller("db:80"), db, serviceOf("db", "app: db", "{port: 80, targetPort: 5432}")), nil, nil},
		{"of another namespace", docs(caller("db.other:80"), db, none("{port: 80, targetPort: 5432}")), nil, nil},
		{"another host that ends alike", docs(caller("mydb:80"), db, none("{port: 80, targetPort: 5432}")), nil, nil},
	})
}

func TestLoadBalancerPending(t *testing.T) {
	balancer := func(name, status string) string {
		return strings.Replace(strings.TrimSuffix(serviceOf(name, "app: cart", port80), "}"), "spec: {", "spec: {type: LoadBalancer, ", 1) + ", status: {" + status + "}}"
	}
	const given = "loadBalancer: {ingress: [{ip: 192.0.2.1}]}"
	failed := func(at string) string {
		return fmt.Sprintf(`{apiVersion: v1, kind: Event, metadata: {namespace: shop, name: e}, involvedObject: {kind: Service, namespace: shop, name: web}, reason: SyncLoadBalancerFailed, message: "Error syncing load balancer: quota exceeded", lastTimestamp: %q}`, at)
	}
	pods := well("cart", "app: cart", app8080)
	const found = "service-load-balancer-pending Service web"
	checkScenes(t, []scenecase{
		{"the cloud says why", docs(pods, balancer("web", ""), failed(short)), nil, []string{found}},
		{"others have theirs", docs(pods, balancer("web", ""), balancer("api", given)), nil, []string{found}},
		{"nobody makes any", docs(pods, balancer("web", "")), nil, nil},
		{"it said so long ago", docs(pods, balancer("web", ""), failed(long)), nil, nil},
		{"given", docs(pods, balancer("web", given), failed(short)), nil, nil},
	})
	s := scenecase{manifests: docs(pods, balancer("web", ""))}.scene(t)
	f := &Facts{Now: now, Scene: s, Target: nightcrier.Resource{Kind: "Service", Namespace: "shop", Name: "web"}}
	if got := applyRules(f); len(got) != 1 || got[0].Cause != "service-load-balancer-pending" {
		t.Errorf("asked about the Service itself: %+v", got)
	}
}
