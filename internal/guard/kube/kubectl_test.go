package kube_test

import (
	"bufio"
	"context"
	"encoding/base64"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"

	"nightcrier.dev/nightcrier/internal/test/kubetest"
)

// canaries stand where secrets stand in real clusters.
var canaries = map[string]string{
	"environment":  "canary-env-7Hq2ZpLw9",
	"annotation":   "canary-ann-4Kx8VbTn2",
	"ConfigMap":    "canary-cfg-9Rm3YsQd6",
	"event":        "canary-evt-5Wc7JfHk1",
	"log":          "canary-log-8Nz4GtXp3",
	"Secret":       "canary-sec-2Lv6BqRm8",
	"Helm Secret":  "canary-hlm-6Dy9CkSf4",
	"Helm file":    "canary-hcm-3Pj5NwZx7",
	"manifest":     "canary-man-1Tg8MhVb5",
	"bytes":        "canary-bin-7Xs2KdLq9",
	"column":       "canary-col-4Fn6RvJw2",
	"status":       "canary-sta-8Qk3ZcTp5",
	"lastApplied2": "canary-la2-5Bm9XgYh1",
	"argument":     "canary-arg-3Ht7WzCv6",
	"flag":         "canary-flg-9Jw2PnSx4",
	"header":       "canary-hdr-6Vb1MkRt8",
	"command":      "canary-cmd-2Zx5YfGq7",
}

// scene is a namespace in which everything holds a secret.
type scene struct {
	server *kubetest.Server
	ns     string
	pod    *corev1.Pod
}

func setScene(t *testing.T, s *kubetest.Server) scene {
	t.Helper()
	ns := s.Namespace(t)
	sc := scene{server: s, ns: ns}
	_, rs := s.Deployment(t, ns, "cart")
	sc.pod = &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "cart-1", Namespace: ns, Labels: rs.Labels, Annotations: map[string]string{
			"kubectl.kubernetes.io/last-applied-configuration": `{"apiVersion":"v1","kind":"Pod","spec":{"containers":[{"name":"app","env":[{"name":"DB_PASSWORD","value":"` + canaries["annotation"] + `"}]}]}}`,
		}},
		Spec: corev1.PodSpec{NodeName: kubetest.NodeName, Containers: []corev1.Container{{
			Name: "app", Image: "registry.invalid/app:1",
			Args:    []string{"--password", canaries["argument"], "--db-password=" + canaries["flag"], "--verbose"},
			Command: []string{"sh", "-c", "DB_PASSWORD=" + canaries["command"] + " exec app"},
			LivenessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
				Port: intstr.FromInt32(80), HTTPHeaders: []corev1.HTTPHeader{{Name: "Authorization", Value: "Bearer " + canaries["header"]}},
			}}},
			Env: []corev1.EnvVar{{Name: "DB_PASSWORD", Value: canaries["environment"]}, {Name: "MODE", Value: "plain"}},
		}}},
	}
	s.Create(t, sc.pod)
	s.CrashLoop(t, sc.pod, 3, 4)
	s.SetLogs(sc.pod, false, "starting\nDB_PASSWORD="+canaries["log"]+"\nboom\n")
	s.Warn(t, sc.pod, "Failed", "cannot connect: postgres://app:"+canaries["event"]+"@db/cart refused")
	s.Create(t, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "settings", Namespace: ns},
		Data: map[string]string{
			"app.properties": "mode=plain\ndb.password=" + canaries["ConfigMap"] + "\n",
			"manifest.yaml":  "apiVersion: v1\nkind: Secret\nmetadata:\n  name: x\nstringData:\n  anything: " + canaries["manifest"] + "\n",
			"manifest.json":  `{"apiVersion":"v1","kind":"Secret","data":{"anything":"` + base64.StdEncoding.EncodeToString([]byte(canaries["lastApplied2"])) + `"}}`,
			"release":        gzipped(canaries["Helm file"]),
		},
		BinaryData: map[string][]byte{"store.jks": []byte(canaries["bytes"])},
	})
	s.Create(t, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "db", Namespace: ns, Annotations: map[string]string{
			"kubectl.kubernetes.io/last-applied-configuration": `{"apiVersion":"v1","kind":"Secret","stringData":{"anything":"` + canaries["Secret"] + `"}}`,
		}},
		StringData: map[string]string{"anything": canaries["Secret"], "user": canaries["Secret"] + "-user"},
	})
	s.Create(t, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "sh.helm.release.v1.cart.v1", Namespace: ns, Labels: map[string]string{"owner": "helm"}},
		Type:       "helm.sh/release.v1",
		Data:       map[string][]byte{"release": []byte(gzipped(canaries["Helm Secret"]))},
	})
	return sc
}

// kubectl runs a kubectl against a guard, in a home of its own.
type kubectl struct {
	t    *testing.T
	path string
	g    *guarded
	home string
}

func (k kubectl) run(args ...string) (string, error) {
	k.t.Helper()
	ctx, cancel := context.WithTimeout(k.t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, k.path, args...)
	cmd.Env = []string{"HOME=" + k.home, "KUBECONFIG=" + k.g.kubeconfig, "PATH=" + os.Getenv("PATH")}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// versions are the kubectls that the guard serves.
var versions = map[string]func(testing.TB) string{"present": kubetest.Kubectl, "1.32": kubetest.OldKubectl}

func TestKubectl(t *testing.T) {
	s := kubetest.Isolated(t)
	sc := setScene(t, s)
	installCustom(t, s, sc.ns)
	for version, find := range versions {
		t.Run(version, func(t *testing.T) {
			g := inFront(t, s)
			k := kubectl{t: t, path: find(t), g: g, home: t.TempDir()}
			var said strings.Builder
			for _, c := range commands {
				args := strings.Fields(strings.ReplaceAll(c.args, "NS", sc.ns))
				out, err := k.run(args...)
				said.WriteString(out)
				if (err != nil) != c.fails {
					t.Errorf("kubectl %s: %v\n%s", c.args, err, out)
				}
				for _, want := range c.want {
					if !strings.Contains(out, want) {
						t.Errorf("kubectl %s does not say %q:\n%.3000s", c.args, want, out)
					}
				}
			}
			for where, canary := range canaries {
				for _, text := range []string{canary, base64.StdEncoding.EncodeToString([]byte(canary))} {
					if strings.Contains(said.String(), text) {
						t.Errorf("the canary of the %s reached kubectl", where)
					}
					if strings.Contains(g.written(t), text) {
						t.Errorf("the canary of the %s was written down", where)
					}
				}
			}
		})
	}
}

// commands are what agents run, with what must be in the output.
var commands = []struct {
	args  string
	want  []string
	fails bool
}{
	{args: "get pods -n NS", want: []string{"NAME", "READY", "cart-1", "CrashLoopBackOff", "Warning: evidence E"}},
	{args: "get pods -A -o wide", want: []string{"cart-1", kubetest.NodeName}},
	{args: "get pod cart-1 -n NS -o yaml", want: []string{"name: DB_PASSWORD", "‹secret:", "value: plain"}},
	{args: "get pod cart-1 -n NS -o json", want: []string{`"restartCount": 4`}},
	{args: "get pods -n NS -l app=cart", want: []string{"cart-1"}},
	{args: "get pods -n NS --field-selector=status.phase=Running --sort-by=.metadata.name", want: []string{"cart-1"}},
	{args: "get pods -n NS -o jsonpath={.items[0].status.containerStatuses[0].lastState.terminated.exitCode}", want: []string{"3"}},
	{args: "get all -n NS", want: []string{"deployment.apps/cart", "pod/cart-1"}},
	{args: "get deploy,rs -n NS", want: []string{"deployment.apps/cart", "replicaset.apps/cart"}},
	{args: "get nodes -o wide", want: []string{kubetest.NodeName}},
	{args: "get namespaces", want: []string{"NAME"}},
	{args: "get secrets -n NS", want: []string{"db", "Opaque", "2", "sh.helm.release.v1.cart.v1"}},
	{args: "get secret db -n NS -o yaml", want: []string{"kind: Secret", "guard.nightcrier.dev/data: withheld", "anything,user"}},
	{args: "get secrets -n NS -o yaml", want: []string{"kind: List", "kind: Secret"}},
	{args: "get secret db -n NS --show-managed-fields -o json", want: []string{`"kind": "Secret"`}},
	{args: "describe secret db -n NS", want: []string{"Name:", "withheld"}},
	{args: "get configmap settings -n NS -o yaml", want: []string{"mode=plain", "‹secret:"}},
	{args: "describe configmap settings -n NS", want: []string{"mode=plain"}},
	{args: "describe pod cart-1 -n NS", want: []string{"Exit Code:", "3", "Failed", "‹secret:"}},
	{args: "describe deployment cart -n NS", want: []string{"Replicas:"}},
	{args: "describe node " + kubetest.NodeName, want: []string{"Conditions:", "cart-1"}},
	{args: "logs cart-1 -n NS", want: []string{"starting", "boom", "DB_PASSWORD=‹secret:"}},
	{args: "logs cart-1 -n NS --tail=1 -c app", want: []string{"boom"}},
	{args: "logs -n NS -l app=cart --timestamps=false", want: []string{"boom"}},
	{args: "logs cart-1 -n NS -f", want: []string{"boom", "‹secret:"}},
	{args: "logs cart-1 -n NS --previous", want: []string{"previous terminated container"}, fails: true},
	{args: "events -n NS", want: []string{"Failed", "cannot connect"}},
	{args: "get events -n NS --sort-by=.lastTimestamp", want: []string{"Failed"}},
	{args: "explain pod.spec.containers.resources", want: []string{"limits", "DESCRIPTION"}},
	{args: "explain deployment --recursive", want: []string{"replicas"}},
	{args: "api-resources", want: []string{"deployments", "widgets"}},
	{args: "api-resources --namespaced=false", want: []string{"nodes"}},
	{args: "api-versions", want: []string{"apps/v1", "metrics.k8s.io/v1beta1"}},
	{args: "version", want: []string{"Server Version: v1.36"}},
	{args: "top pods -n NS", want: []string{"cart-1", "250m"}},
	{args: "top nodes", want: []string{kubetest.NodeName}},
	{args: "auth can-i get pods -n NS", want: []string{"yes"}},
	{args: "auth can-i list secrets -n NS", want: []string{"yes"}},
	{args: "auth can-i delete pods -n NS", want: []string{"no", "reads only"}, fails: true},
	{args: "auth can-i create pods --subresource=exec -n NS", want: []string{"no"}, fails: true},
	{args: "auth can-i get pods --subresource=exec -n NS", want: []string{"no", "exec"}, fails: true},
	{args: "auth can-i get pods --subresource=log -n NS", want: []string{"yes"}},
	{args: "auth can-i get /version", want: []string{"yes"}},
	{args: "auth can-i get /metrics", want: []string{"no"}, fails: true},
	{args: "auth can-i --list -n NS", want: []string{"pods/log", "[get list watch]"}},
	{args: "auth whoami", want: []string{"nightcrier:guard"}},
	{args: "get widgets -n NS", want: []string{"w1", "ready", "‹secret:"}},
	{args: "get widget w1 -n NS -o yaml", want: []string{"color: blue", "‹secret:"}},
	{args: "get deployment cart -n NS --subresource=status -o yaml", want: []string{"kind: Deployment"}},
	{args: "get deployment cart -n NS --subresource=scale", want: []string{"cart"}},
	{args: "wait --for=condition=PodScheduled=false pod/cart-1 -n NS --timeout=1s", want: []string{"timed out"}, fails: true},
	{args: "wait --for=jsonpath={.status.phase}=Running pod/cart-1 -n NS --timeout=20s", want: []string{"condition met"}},
	{args: "rollout history deployment/cart -n NS", want: []string{"REVISION"}},
	{args: "get --raw /readyz", want: []string{"ok"}},
	{args: "get pod nothere -n NS", want: []string{"NotFound"}, fails: true},
	{args: "get pods --chunk-size=1 -A", want: []string{"cart-1"}},

	{args: "delete pod cart-1 -n NS", want: []string{"Forbidden", "nightcrier guard", "reads only"}, fails: true},
	{args: "exec cart-1 -n NS -- id", want: []string{"nightcrier guard", "read its log instead"}, fails: true},
	{args: "port-forward pod/cart-1 -n NS 0:80", want: []string{"nightcrier guard"}, fails: true},
	{args: "attach cart-1 -n NS", want: []string{"nightcrier guard"}, fails: true},
	{args: "create token default -n NS", want: []string{"nightcrier guard", "token hands out credentials"}, fails: true},
	{args: "scale deployment cart -n NS --replicas=0", want: []string{"Forbidden"}, fails: true},
	{args: "get pods -n NS --as=system:admin", want: []string{"Forbidden", "does not act as somebody else"}, fails: true},
	{args: "debug cart-1 -n NS --image=busybox", want: []string{"Forbidden"}, fails: true},
	{args: "get --raw /api/v1/nodes/" + kubetest.NodeName + "/proxy/logs", want: []string{"Forbidden"}, fails: true},
}

// installCustom makes a kind of our own with a secret in its columns, and the
// metrics of a Pod and a node: the real metrics server is an aggregated API, here
// its kinds are custom resources of the same group, names and fields.
func installCustom(t *testing.T, s *kubetest.Server, ns string) {
	t.Helper()
	define(t, s, "example.com", "v1", "widgets", "Widget", "Namespaced",
		map[string]any{"name": "State", "type": "string", "jsonPath": ".status.state"},
		map[string]any{"name": "Password", "type": "string", "jsonPath": ".spec.password"})
	define(t, s, "metrics.k8s.io", "v1beta1", "pods", "PodMetrics", "Namespaced")
	define(t, s, "metrics.k8s.io", "v1beta1", "nodes", "NodeMetrics", "Cluster")
	make1 := func(gv, resource, kind, namespace, name string, fields map[string]any) {
		t.Helper()
		obj := map[string]any{"apiVersion": gv, "kind": kind, "metadata": map[string]any{"name": name}}
		for k, v := range fields {
			obj[k] = v
		}
		create(t, s, gv, resource, namespace, obj)
	}
	usage := map[string]any{"cpu": "250m", "memory": "64Mi"}
	when := map[string]any{"timestamp": "2026-01-02T03:04:05Z", "window": "15s"}
	make1("example.com/v1", "widgets", "Widget", ns, "w1", map[string]any{
		"spec":   map[string]any{"color": "blue", "password": canaries["column"]},
		"status": map[string]any{"state": "ready", "apiKey": canaries["status"]},
	})
	make1("metrics.k8s.io/v1beta1", "pods", "PodMetrics", ns, "cart-1", map[string]any{
		"timestamp": when["timestamp"], "window": "15s", "containers": []any{map[string]any{"name": "app", "usage": usage}},
	})
	make1("metrics.k8s.io/v1beta1", "nodes", "NodeMetrics", "", kubetest.NodeName, map[string]any{
		"timestamp": when["timestamp"], "window": "15s", "usage": usage,
	})
}

func define(t *testing.T, s *kubetest.Server, group, version, plural, kind, scope string, columns ...any) {
	t.Helper()
	name := plural + "." + group
	create(t, s, "apiextensions.k8s.io/v1", "customresourcedefinitions", "", map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": name, "annotations": map[string]any{"api-approved.kubernetes.io": "unapproved, a test"}},
		"spec": map[string]any{
			"group": group, "scope": scope,
			"names": map[string]any{"plural": plural, "singular": strings.ToLower(kind), "kind": kind},
			"versions": []any{map[string]any{
				"name": version, "served": true, "storage": true, "additionalPrinterColumns": columns,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
			}},
		},
	})
	crds := s.Client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	await(t, name+" is served", func() bool {
		crd, err := crds.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		conditions, _, _ := unstructured.NestedSlice(crd.Object, "status", "conditions")
		for _, c := range conditions {
			if c := c.(map[string]any); c["type"] == "Established" && c["status"] == "True" {
				_, err := s.Client.Resource(schema.GroupVersionResource{Group: group, Version: version, Resource: plural}).List(t.Context(), metav1.ListOptions{})
				return err == nil
			}
		}
		return false
	})
}

func create(t *testing.T, s *kubetest.Server, gv, resource, namespace string, obj map[string]any) {
	t.Helper()
	parsed, err := schema.ParseGroupVersion(gv)
	if err != nil {
		t.Fatal(err)
	}
	client := s.Client.Resource(parsed.WithResource(resource))
	u := &unstructured.Unstructured{Object: obj}
	if namespace != "" {
		_, err = client.Namespace(namespace).Create(t.Context(), u, metav1.CreateOptions{})
	} else {
		_, err = client.Create(t.Context(), u, metav1.CreateOptions{})
	}
	if err != nil {
		t.Fatalf("create %s: %v", resource, err)
	}
}

// await polls a real server.
func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	deadline := time.After(3 * time.Minute)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("waited too long until %s", what)
		}
	}
}

func TestKubectlWatches(t *testing.T) {
	s := kubetest.Start(t)
	sc := setScene(t, s)
	for version, find := range versions {
		t.Run(version, func(t *testing.T) {
			g := inFront(t, s)
			args := []string{"get", "pods", "-n", sc.ns, "-w"} // a table
			if version == "present" {
				args = append(args, "-o", "json")
			}
			cmd := exec.CommandContext(t.Context(), find(t), args...)
			cmd.Env = []string{"HOME=" + t.TempDir(), "KUBECONFIG=" + g.kubeconfig}
			out, err := os.Create(filepath.Join(t.TempDir(), "out"))
			if err != nil {
				t.Fatal(err)
			}
			cmd.Stdout, cmd.Stderr = out, out
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			watching := func() bool {
				for _, r := range g.audited() {
					if r.Verb == "watch" {
						return true
					}
				}
				return false
			}
			await(t, "kubectl watches", watching)
			name := "late-" + strings.ReplaceAll(version, ".", "")
			s.Pod(t, sc.ns, name, nil)
			said := func() string {
				text, err := os.ReadFile(out.Name())
				if err != nil {
					t.Fatal(err)
				}
				return string(text)
			}
			await(t, "kubectl shows the new Pod", func() bool { return strings.Contains(said(), name) })
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait()
			await(t, "the watch is evidence", func() bool {
				last := g.outcome(t)
				return last.Verb == "watch" && last.Done && last.Evidence != ""
			})
			if text := said() + g.written(t); strings.Contains(text, canaries["environment"]) || strings.Contains(text, canaries["annotation"]) {
				t.Error("a canary came through the watch")
			}
			if !strings.Contains(g.written(t), name) {
				t.Error("the evidence of the watch does not hold the new Pod")
			}
		})
	}
}

// TestSecretsWatched: a watch of Secrets tells of names, and a watch that begins
// with all that is there works too.
func TestSecretsWatched(t *testing.T) {
	s := kubetest.Start(t)
	sc := setScene(t, s)
	g := inFront(t, s)
	for accept, kind := range map[string]string{"application/json": "Secret", "application/json;as=Table;v=v1;g=meta.k8s.io": "Table"} {
		resp := g.ask(t, "/api/v1/namespaces/"+sc.ns+"/secrets?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true", "Accept", accept)
		lines := bufio.NewScanner(resp.Body)
		var said strings.Builder
		for lines.Scan() && !strings.Contains(lines.Text(), `"BOOKMARK"`) {
			said.WriteString(lines.Text() + "\n")
		}
		resp.Body.Close()
		all := said.String()
		if !strings.Contains(all, `"name":"db"`) || !strings.Contains(all, `"kind":"`+kind+`"`) || strings.Contains(all, `"ERROR"`) {
			t.Errorf("the watch says %s", all)
		}
		for where, canary := range canaries {
			if strings.Contains(all, canary) || strings.Contains(all, base64.StdEncoding.EncodeToString([]byte(canary))) {
				t.Errorf("the canary of the %s is in it", where)
			}
		}
	}
}
