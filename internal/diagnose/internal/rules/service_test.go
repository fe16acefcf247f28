package rules

import (
	"fmt"
	"strings"
	"testing"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scene"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scenetest"
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

func (c scenecase) scene(t *testing.T, complete ...string) *scene.Scene {
	t.Helper()
	s := scenetest.New(t, c.manifests, complete...)
	for pod, text := range c.logs {
		s.Logs = append(s.Logs, scene.LogExcerpt{Namespace: "shop", Pod: pod, Container: "app", Evidence: "E9", Text: text})
	}
	return s
}

func TestServiceSelector(t *testing.T) {
	const found = "service-selector-mismatch Service cart"
	checkScenes(t, []scenecase{
		{"one value differs", scenetest.JoinDocs(scenetest.WellPods("cart", "app: cart", scenetest.App8080), scenetest.ServiceOf("cart", "app: cartt", scenetest.Port80)), nil, []string{found}},
		{"one label too many", scenetest.JoinDocs(scenetest.WellPods("cart", "app: cart", scenetest.App8080), scenetest.ServiceOf("cart", "app: cart, tier: web", scenetest.Port80)), nil, []string{found}},
		{"the key differs", scenetest.JoinDocs(scenetest.WellPods("cart", "app: cart", scenetest.App8080), scenetest.ServiceOf("cart", "app.kubernetes.io/name: cart", scenetest.Port80)), nil, []string{found}},
		{"named with an ending", scenetest.JoinDocs(scenetest.WellPods("cart", "app: cart", scenetest.App8080), scenetest.ServiceOf("cart-svc", "app: x", scenetest.Port80)), nil, []string{"service-selector-mismatch Service cart-svc"}},
		{"another Service serves it well", scenetest.JoinDocs(scenetest.WellPods("cart", "app: cart", scenetest.App8080), scenetest.ServiceOf("cart-external", "app: cart", scenetest.Port80), scenetest.ServiceOf("cart", "app: crat", scenetest.Port80)), nil, []string{found}},
		{"only labels are near", scenetest.JoinDocs(scenetest.WellPods("server", "app: cart, tier: backend", scenetest.App8080), scenetest.ServiceOf("cart", "app: cart, tier: bakcend", scenetest.Port80)), nil, []string{found}},
		{"only labels are near, and one is too many", scenetest.JoinDocs(scenetest.WellPods("server", "app: cart", scenetest.App8080), scenetest.ServiceOf("cart", "app: cart, tier: back", scenetest.Port80)), nil, []string{found}},
		{"no Pods were made either", scenetest.JoinDocs(scenetest.DeploymentOf("cart", "app: cart", scenetest.App8080), scenetest.ServiceOf("cart", "app: x", scenetest.Port80), scenetest.PodOf("other", "app: other", scenetest.App8080, true)), nil, []string{found}},

		{"it matches", scenetest.JoinDocs(scenetest.WellPods("cart", "app: cart", scenetest.App8080), scenetest.ServiceOf("cart", "app: cart", scenetest.Port80)), nil, nil},
		{"Pods are not made yet", scenetest.JoinDocs(scenetest.DeploymentOf("cart", "app: cart", scenetest.App8080), scenetest.PodOf("other", "app: other", scenetest.App8080, true), scenetest.ServiceOf("cart", "app: cart", scenetest.Port80)), nil, nil},
		{"a canary that is not deployed", scenetest.JoinDocs(scenetest.WellPods("cart", "app: cart, track: stable", scenetest.App8080), scenetest.ServiceOf("cart", "app: cart", scenetest.Port80), scenetest.ServiceOf("cart-canary", "app: cart, track: canary", scenetest.Port80)), nil, nil},
		{"meant for another part, which is not deployed", scenetest.JoinDocs(scenetest.WellPods("vttablet", "app: vitess, component: vttablet", scenetest.App8080), scenetest.ServiceOf("vtgate", "app: vitess, component: vtgate", scenetest.Port80)), nil, nil},
		{"nothing like it", scenetest.JoinDocs(scenetest.WellPods("cart", "app: cart", scenetest.App8080), scenetest.ServiceOf("cart", "app: cart", scenetest.Port80), scenetest.ServiceOf("search", "app: search", scenetest.Port80)), nil, nil},
		{"labels of the whole application", scenetest.JoinDocs(scenetest.WellPods("cart", "app: shop, part: cart", scenetest.App8080), scenetest.WellPods("pay", "app: shop, part: pay", scenetest.App8080), scenetest.ServiceOf("search", "app: shop, part: search", scenetest.Port80)), nil, nil},
		{"without a selector", scenetest.JoinDocs(scenetest.WellPods("cart", "app: cart", scenetest.App8080), scenetest.ServiceOf("cart", "", scenetest.Port80)), nil, nil},
		{"scaled to zero", scenetest.JoinDocs(strings.Replace(scenetest.DeploymentOf("cart", "app: cart", scenetest.App8080), "replicas: 1", "replicas: 0", 1), scenetest.PodOf("x", "app: x", scenetest.App8080, true), scenetest.ServiceOf("cart", "app: cart", scenetest.Port80)), nil, []string{"scaled-to-zero Deployment cart"}},
		{"its endpoints are ready", scenetest.JoinDocs(scenetest.WellPods("cart", "app: cart", scenetest.App8080), scenetest.ServiceOf("cart", "app: x", scenetest.Port80),
			`{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {namespace: shop, name: cart-1, labels: {kubernetes.io/service-name: cart}}, endpoints: [{addresses: [10.0.0.1], conditions: {ready: true}}]}`), nil, nil},
	})
	partial := scenecase{manifests: scenetest.JoinDocs(scenetest.WellPods("cart", "app: cart", scenetest.App8080), scenetest.ServiceOf("cart", "app: x", scenetest.Port80))}.scene(t)
	partial = scenetest.Unlisted(partial)
	checkScene(t, partial)

	n := ApplySceneRules(scenecase{manifests: scenetest.JoinDocs(scenetest.WellPods("cart", "app: cart", scenetest.App8080), scenetest.ServiceOf("cart", "app: cartt", scenetest.Port80))}.scene(t))[0]
	if n.Confidence != nightcrier.High || !strings.Contains(n.Summary, "asks for app=cartt, and the Pods of Deployment shop/cart have app=cart") {
		t.Errorf("%s %q", n.Confidence, n.Summary)
	}
}

func TestServicePodsNotReady(t *testing.T) {
	young := strings.ReplaceAll(scenetest.PodOf("cart", "app: cart", scenetest.App8080, false), scenetest.LongName, scenetest.Short)
	checkScenes(t, []scenecase{
		{"none is ready", scenetest.JoinDocs(scenetest.PodOf("cart", "app: cart", scenetest.App8080, false), scenetest.ServiceOf("cart", "app: cart", scenetest.Port80)), nil, []string{"service-pods-not-ready Service cart"}},
		{"one is ready", scenetest.JoinDocs(scenetest.PodOf("cart", "app: cart", scenetest.App8080, false), strings.ReplaceAll(scenetest.PodOf("cart", "app: cart", scenetest.App8080, true), "x7k2p", "y7k2p"), scenetest.ServiceOf("cart", "app: cart", scenetest.Port80)), nil, nil},
		{"starting", scenetest.JoinDocs(young, scenetest.ServiceOf("cart", "app: cart", scenetest.Port80)), nil, nil},
		{"only ended ones", scenetest.JoinDocs(strings.Replace(scenetest.PodOf("cart", "app: cart", scenetest.App8080, false), "phase: Running", "phase: Failed", 1), scenetest.ServiceOf("cart", "app: cart", scenetest.Port80)), nil, nil},
		{"unready ones are wanted", scenetest.JoinDocs(scenetest.PodOf("cart", "app: cart", scenetest.App8080, false), strings.Replace(scenetest.ServiceOf("cart", "app: cart", scenetest.Port80), "spec: {", "spec: {publishNotReadyAddresses: true, ", 1)), nil, nil},
	})
	n := ApplySceneRules(scenecase{manifests: scenetest.JoinDocs(scenetest.PodOf("cart", "app: cart", scenetest.App8080, false), scenetest.ServiceOf("cart", "app: cart", scenetest.Port80))}.scene(t))[0]
	if len(n.DependsOn) != 1 || n.DependsOn[0] != (nightcrier.Object{Kind: "Deployment", Namespace: "shop", Name: "cart"}) {
		t.Errorf("depends on %v", n.DependsOn)
	}
}

func TestServicePorts(t *testing.T) {
	const number, name, proto = "service-target-port-mismatch Service cart", "service-port-name-mismatch Service cart", "service-protocol-mismatch Service cart"
	to := func(ports, spec string) string {
		return scenetest.JoinDocs(scenetest.WellPods("cart", "app: cart", spec), scenetest.ServiceOf("cart", "app: cart", ports))
	}
	silent := "containers: [{name: app}]"
	probed := "containers: [{name: app, readinessProbe: {tcpSocket: {port: 8080}}}]"
	checkScenes(t, []scenecase{
		{"a number that nobody declares", to("{port: 80, targetPort: 9999}", scenetest.App8080), nil, []string{number}},
		{"by default its own", to("{port: 80}", scenetest.App8080), nil, []string{number}},
		{"only a probe tells", to("{port: 80, targetPort: 9999}", probed), nil, []string{number}},
		{"only the log tells", to("{port: 80, targetPort: 9999}", silent), map[string]string{scenetest.PodNameOf("cart"): "up\nINFO Server listening on port 8080\n"}, []string{number}},
		{"another Service leads there by the same port", scenetest.JoinDocs(to("{port: 80, targetPort: 9999}", scenetest.App8080), scenetest.ServiceOf("cart-external", "app: cart", scenetest.Port80)), nil, []string{number}},
		{"the port of several that bears the name", to("{name: http, port: 80, targetPort: 9999}, {name: grpc, port: 90, targetPort: 9090}", "containers: [{name: app, ports: [{containerPort: 8080, name: http}, {containerPort: 9090}]}]"), nil, []string{number}},
		{"another host's variable has the number", to("{port: 80, targetPort: 9999}", "containers: [{name: app, env: [{name: PAY, value: 'pay:9999'}], ports: [{containerPort: 8080}]}]"), nil, []string{number}},

		{"declared", to(scenetest.Port80, scenetest.App8080), nil, nil},
		{"a probe asks it", to("{port: 80, targetPort: 9999}", "containers: [{name: app, ports: [{containerPort: 80}], readinessProbe: {httpGet: {port: 9999}}}]"), nil, nil},
		{"a variable names it", to("{port: 80, targetPort: 9999}", "containers: [{name: app, ports: [{containerPort: 8080}], env: [{name: PORT, value: '9999'}]}]"), nil, nil},
		{"an argument names it", to("{port: 80, targetPort: 9999}", "containers: [{name: app, ports: [{containerPort: 8080}], args: ['--listen=:9999']}]"), nil, nil},
		{"its log names it", to("{port: 80, targetPort: 9999}", scenetest.App8080), map[string]string{scenetest.PodNameOf("cart"): "Listening on 0.0.0.0:9999"}, nil},
		{"its ConfigMap names it", scenetest.JoinDocs(to("{port: 80, targetPort: 9999}", "containers: [{name: app, ports: [{containerPort: 8080}], envFrom: [{configMapRef: {name: conf}}]}]"), `{apiVersion: v1, kind: ConfigMap, metadata: {namespace: shop, name: conf}, data: {PORT: "9999"}}`), nil, nil},
		{"nobody declares anything", to("{port: 80, targetPort: 9999}", silent), nil, nil},
		{"a Service of its own for undeclared metrics", scenetest.JoinDocs(to(scenetest.Port80, scenetest.App8080), scenetest.ServiceOf("cart-metrics", "app: cart", "{port: 9100}")), nil, nil},
		{"one of several, undeclared", to(scenetest.Port80+", {name: metrics, port: 9100}", scenetest.App8080), nil, nil},
		{"a sidecar declares it", to("{port: 80, targetPort: 9999}", "initContainers: [{name: side, restartPolicy: Always, ports: [{containerPort: 9999}]}], containers: [{name: app, ports: [{containerPort: 8080}]}]"), nil, nil},

		{"a name that nobody declares", to("{port: 80, targetPort: web}", scenetest.App8080), nil, []string{name}},
		{"a name, and no names at all", to("{port: 80, targetPort: web}", silent), nil, []string{name}},
		{"the name is declared", to("{port: 80, targetPort: http}", scenetest.App8080), nil, nil},
		{"the name is declared for another protocol", to("{port: 80, targetPort: http, protocol: UDP}", scenetest.App8080), nil, []string{proto}},

		{"UDP where TCP is served", to("{port: 80, targetPort: 8080, protocol: UDP}", scenetest.App8080), nil, []string{proto}},
		{"both, where one is declared", to("{name: a, port: 80, targetPort: 8080, protocol: UDP}, {name: b, port: 80, targetPort: 8080}", scenetest.App8080), nil, nil},
		{"both, and both are declared", to("{name: a, port: 53, protocol: UDP}, {name: b, port: 53}", "containers: [{name: app, ports: [{containerPort: 53, protocol: UDP}, {containerPort: 53}]}]"), nil, nil},
	})
}

func TestHeadlessService(t *testing.T) {
	none := func(ports string) string {
		return strings.Replace(scenetest.ServiceOf("db", "app: db", ports), "10.96.0.7", "None", 1)
	}
	caller := func(address string) string {
		return scenetest.WellPods("cart", "app: cart", "containers: [{name: app, env: [{name: DB, value: '"+address+"'}]}]")
	}
	db := scenetest.WellPods("db", "app: db", "containers: [{name: app, ports: [{containerPort: 5432}]}]")
	const found = "headless-service-misuse Service db"
	checkScenes(t, []scenecase{
		{"by its short name", scenetest.JoinDocs(caller("db:80"), db, none("{port: 80, targetPort: 5432}")), nil, []string{found}},
		{"by a URL of its full name", scenetest.JoinDocs(caller("postgres://u@db.shop.svc.cluster.local:80/x"), db, none("{port: 80, targetPort: 5432}")), nil, []string{found}},
		{"by a Pod's name", scenetest.JoinDocs(caller("db-0.db.shop.svc:80"), db, none("{port: 80, targetPort: 5432}")), nil, []string{found}},
		{"by the Pods' port", scenetest.JoinDocs(caller("db:5432"), db, none("{port: 80, targetPort: 5432}")), nil, nil},
		{"ports are equal", scenetest.JoinDocs(caller("db:5432"), db, none("{port: 5432}")), nil, nil},
		{"not headless", scenetest.JoinDocs(caller("db:80"), db, scenetest.ServiceOf("db", "app: db", "{port: 80, targetPort: 5432}")), nil, nil},
		{"of another namespace", scenetest.JoinDocs(caller("db.other:80"), db, none("{port: 80, targetPort: 5432}")), nil, nil},
		{"another host that ends alike", scenetest.JoinDocs(caller("mydb:80"), db, none("{port: 80, targetPort: 5432}")), nil, nil},
	})
}

func TestLoadBalancerPending(t *testing.T) {
	balancer := func(name, status string) string {
		return strings.Replace(strings.TrimSuffix(scenetest.ServiceOf(name, "app: cart", scenetest.Port80), "}"), "spec: {", "spec: {type: LoadBalancer, ", 1) + ", status: {" + status + "}}"
	}
	const given = "loadBalancer: {ingress: [{ip: 192.0.2.1}]}"
	failed := func(at string) string {
		return fmt.Sprintf(`{apiVersion: v1, kind: Event, metadata: {namespace: shop, name: e}, involvedObject: {kind: Service, namespace: shop, name: web}, reason: SyncLoadBalancerFailed, message: "Error syncing load balancer: quota exceeded", lastTimestamp: %q}`, at)
	}
	pods := scenetest.WellPods("cart", "app: cart", scenetest.App8080)
	const found = "service-load-balancer-pending Service web"
	checkScenes(t, []scenecase{
		{"the cloud says why", scenetest.JoinDocs(pods, balancer("web", ""), failed(scenetest.Short)), nil, []string{found}},
		{"others have theirs", scenetest.JoinDocs(pods, balancer("web", ""), balancer("api", given)), nil, []string{found}},
		{"nobody makes any", scenetest.JoinDocs(pods, balancer("web", "")), nil, nil},
		{"it said so long ago", scenetest.JoinDocs(pods, balancer("web", ""), failed(scenetest.LongName)), nil, nil},
		{"given", scenetest.JoinDocs(pods, balancer("web", given), failed(scenetest.Short)), nil, nil},
	})
	s := scenecase{manifests: scenetest.JoinDocs(pods, balancer("web", ""))}.scene(t)
	f := &scene.Facts{Now: scenetest.Now, Scene: s, Target: nightcrier.Resource{Kind: "Service", Namespace: "shop", Name: "web"}}
	if got := ApplyRules(f); len(got) != 1 || got[0].Cause != "service-load-balancer-pending" {
		t.Errorf("asked about the Service itself: %+v", got)
	}
}
