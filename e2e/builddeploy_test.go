package e2e

import (
	"encoding/json"
	"log/slog"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/app"
	"nightcrier.dev/nightcrier/internal/config"
	"nightcrier.dev/nightcrier/internal/fake/fakemodel"
	"nightcrier.dev/nightcrier/internal/oneshot"
	"nightcrier.dev/nightcrier/internal/test/kubetest"
)

const shopManifest = `apiVersion: v1
kind: ConfigMap
metadata: {name: shop-files}
data: {index.html: "<h1>a shop</h1>"}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: shop}
spec:
  replicas: 2
  selector: {matchLabels: {app: shop}}
  template:
    metadata: {labels: {app: shop}}
    spec:
      containers: [{name: web, image: nginxinc/nginx-unprivileged:1.27, volumeMounts: [{name: f, mountPath: /usr/share/nginx/html}]}]
      volumes: [{name: f, configMap: {name: shop-files}}]
---
apiVersion: v1
kind: Service
metadata: {name: shop}
spec: {selector: {app: shop}, ports: [{port: 80, targetPort: 8080}]}
`

// deployRules are what docs/deploy.md gives the server that deploys.
func deployRules() (rules []rbacv1.PolicyRule) {
	for group, resources := range map[string][]string{"": {"configmaps", "services"}, "apps": {"deployments", "statefulsets"}, "batch": {"jobs", "cronjobs"},
		"networking.k8s.io": {"ingresses"}, "autoscaling": {"horizontalpodautoscalers"}} {
		rules = append(rules, rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: []string{"get", "list", "create", "patch", "delete"}})
	}
	return append(rules, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get", "list"}},
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"persistentvolumeclaims"}, Verbs: []string{"list"}})
}

// deployServer serves a namespace of a real cluster to agents that deploy, over HTTP, with a
// credential of exactly what docs/deploy.md says, and returns it as a tool server.
func deployServer(t *testing.T, api *kubetest.Server, ns string) config.ToolServer {
	t.Helper()
	const token = "a-token-of-this-test"
	rules := deployRules()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- oneshot.ServeMCP(t.Context(), oneshot.MCPOptions{
			Config: &config.Config{WorkspaceRoot: t.TempDir()}, Logger: slog.New(slog.DiscardHandler), Kubeconfig: api.AccessIn(t, ns, rules...),
			Write: &oneshot.WritePolicy{Namespaces: []string{ns}}, Listener: l, Token: token, Ready: func() { close(served) },
		})
	}()
	select {
	case <-served:
	case err := <-ended:
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return config.ToolServer{Name: "k8s", URL: "http://" + l.Addr().String() + "/mcp", TokenEnv: "K8S_TOKEN", Variables: map[string]config.Secret{"K8S_TOKEN": config.NewSecret(token)},
		Tools: []string{"kubectl_apply", "kubectl_get", "kubectl_rollout_status"}, Writes: true, Timeout: 55 * time.Second}
}

// deployment plays the model of build-deploy: it does what the four skills say.
type deployment struct {
	t        *testing.T
	api      *kubetest.Server
	ns       string
	hands    hands
	manifest string
	again    chan struct{} // when not nil: closed when what failed may be tried again
}

func (d deployment) answer(r fakemodel.Request) fakemodel.Step {
	write := func(file, what string) fakemodel.Step {
		return fakemodel.Step{Tools: []fakemodel.ToolCall{toolCall(claudeCLI(d.t).Calls.Write(file, what))}}
	}
	use := func(tool string, args map[string]any) fakemodel.Step {
		i := slices.IndexFunc(r.Tools, func(name string) bool { return strings.HasSuffix(name, "k8s_"+tool) })
		if i < 0 {
			return fakemodel.Step{Text: "There is no " + tool + " among " + strings.Join(r.Tools, " ")}
		}
		return fakemodel.Step{Tools: []fakemodel.ToolCall{{Name: r.Tools[i], Input: args}}}
	}
	status := map[string]any{"kind": "Deployment", "name": "shop", "wait_seconds": 20}
	var script []func() fakemodel.Step
	switch {
	case strings.Contains(r.Text, "You do step generate "):
		script = []func() fakemodel.Step{func() fakemodel.Step { return write("output/index.html", "<h1>a shop</h1>") }}
	case strings.Contains(r.Text, "You do step build "):
		script = []func() fakemodel.Step{
			func() fakemodel.Step {
				return fakemodel.Step{Tools: []fakemodel.ToolCall{d.hands.read("context/steps/generate/index.html")}}
			},
			func() fakemodel.Step { return write("output/manifest.yaml", d.manifest) },
		}
	case strings.Contains(r.Text, "You do step deploy "):
		script = []func() fakemodel.Step{
			func() fakemodel.Step {
				return fakemodel.Step{Tools: []fakemodel.ToolCall{d.hands.read("context/steps/build/manifest.yaml")}}
			},
			func() fakemodel.Step { return use("kubectl_apply", map[string]any{"manifest": d.manifest}) },
			func() fakemodel.Step {
				if !d.runPods(r.Text) { // as the skill says: once more
					if d.again != nil {
						select {
						case <-d.again:
						case <-d.t.Context().Done():
						}
					}
					return use("kubectl_apply", map[string]any{"manifest": d.manifest})
				}
				return use("kubectl_rollout_status", status)
			},
			func() fakemodel.Step { d.runPods(r.Text); return use("kubectl_rollout_status", status) },
			func() fakemodel.Step {
				if !strings.Contains(r.Text, "ready: 2 of 2") {
					return fakemodel.Step{Text: "It does not run, and I have nothing to deliver."}
				}
				return write("output/result.json", `{"url": "http://shop.`+d.ns+`.svc:80/", "ready": true, "objects": ["Deployment shop: created"]}`)
			},
		}
	case strings.Contains(r.Text, "You do step verify "):
		if strings.Contains(r.Text, "You change something only with") {
			d.t.Error("the verifier is told that it may change something")
		}
		script = []func() fakemodel.Step{
			func() fakemodel.Step { return use("kubectl_rollout_status", status) },
			func() fakemodel.Step { return use("kubectl_apply", map[string]any{"manifest": d.manifest}) }, // which it has not
			func() fakemodel.Step { return fakemodel.Step{Text: "unused"} },
		}
		if r.Turn == 1 {
			if slices.ContainsFunc(r.Tools, func(name string) bool { return strings.HasSuffix(name, "kubectl_apply") }) {
				d.t.Errorf("the verifier is offered kubectl_apply: %v", r.Tools)
			}
			return write("output/result.json", `{"running": true, "url": "http://shop.`+d.ns+`.svc:80/", "seen": ["Deployment shop: ready: 2 of 2 available"]}`)
		}
	}
	if r.Turn < len(script) {
		return script[r.Turn]()
	}
	return fakemodel.Step{Text: "Done."}
}

// runPods does what the controllers of a cluster would, once something is applied, and says whether
// it is.
func (d deployment) runPods(said string) bool {
	applied := strings.Contains(said, "Deployment "+d.ns+"/shop: created") || strings.Contains(said, "Deployment "+d.ns+"/shop: unchanged")
	if applied {
		d.api.UpdateStatus(d.t, &appsv1.Deployment{ObjectMeta: v1.ObjectMeta{Name: "shop", Namespace: d.ns},
			Status: appsv1.DeploymentStatus{ObservedGeneration: 100, Replicas: 2, UpdatedReplicas: 2, AvailableReplicas: 2, ReadyReplicas: 2}})
	}
	return applied
}

// runBuildDeploy runs the pipeline that is part of the product with the real claude CLI.
func runBuildDeploy(t *testing.T, manifest string) (nightcrier.Run, []nightcrier.Step, []unstructured.Unstructured, string) {
	t.Helper()
	claude, api := handsOf(claudeCLI(t)), kubetest.Start(t)
	ns := api.Namespace(t)
	m := fakemodel.New(t)
	s := claude.site(t, m, claude.deliver(oneFact)) // replaced below
	d := deployment{t, api, ns, claude, manifest, nil}
	m.MustAdd(t, claude.cli, fakemodel.Scenario{Answer: d.answer})
	server := deployServer(t, api, ns)
	a := s.app(func(o *app.Options) { o.Config.ToolServers = []config.ToolServer{server} })
	run, steps := s.callPipeline(a, "build-deploy", claude.executor, `{"description": "a page that says: a shop", "app": "shop"}`)
	there, err := api.Client.Resource(appsv1.SchemeGroupVersion.WithResource("deployments")).Namespace(ns).List(t.Context(), v1.ListOptions{})
	s.must(err)
	s.noKeyIn(s.root)
	return run, steps, there.Items, ns
}

// What is described is written, packed, applied to a real API server by the server that
// deploys, looked at by another agent, and its URL is told.
func TestBuildDeploy(t *testing.T) {
	t.Parallel()
	run, steps, there, ns := runBuildDeploy(t, shopManifest)
	for _, step := range steps {
		t.Logf("%s: %s %s %s", step.ID, step.State, step.Output, step.FailureReason)
	}
	if run.Outcome != nightcrier.StateSuccess || len(steps) != 4 {
		t.Fatalf("%s: %s", run.Outcome, run.FailureReason)
	}
	var last struct {
		Running bool
		URL     string
	}
	if err := json.Unmarshal(steps[3].Output, &last); err != nil || !last.Running || last.URL != "http://shop."+ns+".svc:80/" {
		t.Errorf("%s, %v", steps[3].Output, err)
	}
	if len(there) != 1 || there[0].GetLabels()["nightcrier.dev/deployed-by"] != "nightcrier-deploy" {
		t.Errorf("there are %v", there)
	}
}

// What the server refuses is not applied, and the run ends with that step.
func TestBuildDeployThatIsRefused(t *testing.T) {
	t.Parallel()
	run, steps, there, _ := runBuildDeploy(t, strings.Replace(shopManifest, "      containers:", "      hostNetwork: true\n      containers:", 1))
	if run.Outcome != nightcrier.StateFailed || len(there) != 0 {
		t.Errorf("%s, and there are %d Deployments", run.Outcome, len(there))
	}
	for _, step := range steps {
		t.Logf("%s: %s %s", step.ID, step.State, step.FailureReason)
		if step.ID == "verify" && step.State == nightcrier.StateSuccess {
			t.Errorf("it was verified: %s", step.Output)
		}
	}
}
