package deploy_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"

	"go.yaml.in/yaml/v4"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/cluster/kube"
	"nightcrier.dev/nightcrier/internal/guard/deploy"
	"nightcrier.dev/nightcrier/internal/mask"
	"nightcrier.dev/nightcrier/internal/test/kubetest"
)

// documentedRules are the rules of the Role in docs/deploy.md.
func documentedRules(t *testing.T) (rules []rbacv1.PolicyRule) {
	t.Helper()
	page, err := os.ReadFile("../../../docs/deploy.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(page, -1) {
		for _, doc := range bytes.Split(block[1], []byte("\n---\n")) {
			var role struct {
				Kind  string
				Rules []struct {
					APIGroups        []string `yaml:"apiGroups"`
					Resources, Verbs []string
				}
			}
			if err := yaml.Unmarshal(doc, &role); err != nil || role.Kind != "Role" {
				continue
			}
			for _, r := range role.Rules {
				rules = append(rules, rbacv1.PolicyRule{APIGroups: r.APIGroups, Resources: r.Resources, Verbs: r.Verbs})
			}
			return rules
		}
	}
	t.Fatal("docs/deploy.md has no Role")
	return nil
}

// bench is a server's tools on a real API server, with the documented credential.
type bench struct {
	api   *kubetest.Server
	ns    string
	cfg   deploy.Config
	set   *deploy.Set
	tools map[string]deploy.Tool

	mu     sync.Mutex
	writes []deploy.Write
	// refuse fails the n-th record from now on, counted from 1.
	refuse int
}

func newBench(t *testing.T, change ...func(*deploy.Policy)) *bench {
	t.Helper()
	b := &bench{api: kubetest.Start(t), tools: map[string]deploy.Tool{}}
	b.ns = b.api.Namespace(t)
	c, err := kube.Dial(b.api.AccessIn(t, b.ns, documentedRules(t)...), "", 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	p := deploy.Policy{Namespaces: []string{b.ns}}
	for _, f := range change {
		f(&p)
	}
	b.cfg = deploy.Config{Policy: p, Cluster: "test", Client: c, Mask: mask.New([]byte("key"), "hunter2-hunter2").Bytes, Record: b.record, Poll: 1}
	b.restart(t)
	return b
}

// restart is a new process with the same credential.
func (b *bench) restart(t *testing.T) {
	t.Helper()
	set, err := deploy.Open(t.Context(), b.cfg)
	if err != nil {
		t.Fatal(err)
	}
	b.set = set
	for _, tool := range set.Tools() {
		b.tools[tool.Name] = tool
	}
}

var errKilled = errors.New("killed")

func (b *bench) record(w deploy.Write) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.refuse--; b.refuse == 0 {
		return errKilled
	}
	b.writes = append(b.writes, w)
	return nil
}

func (b *bench) call(ctx context.Context, tool string, args map[string]any) (string, any, error) {
	raw, err := json.Marshal(args)
	if err != nil {
		return "", nil, err
	}
	a, err := b.tools[tool].Params.Read(raw)
	if err != nil {
		return "", nil, err
	}
	return b.tools[tool].Do(ctx, a)
}

func (b *bench) must(t *testing.T, tool string, args map[string]any) string {
	t.Helper()
	said, _, err := b.call(t.Context(), tool, args)
	if err != nil {
		t.Fatalf("%s: %v", tool, err)
	}
	return said
}

func (b *bench) apply(manifest string) (string, error) {
	said, _, err := b.call(context.Background(), "kubectl_apply", map[string]any{"manifest": manifest})
	return said, err
}

const webApp = `
apiVersion: v1
kind: ConfigMap
metadata: {name: web-files, labels: {app: web}}
data:
  index.html: <h1>hello</h1>
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  creationTimestamp: null
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      securityContext: {runAsNonRoot: true, runAsUser: 101, seccompProfile: {type: RuntimeDefault}}
      containers:
        - name: web
          image: nginx:1.27
          ports: [{containerPort: 8080}]
          readinessProbe: {httpGet: {path: /, port: 8080}}
          securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
          volumeMounts: [{name: html, mountPath: /usr/share/nginx/html/index.html, subPath: index.html}]
      volumes: [{name: html, configMap: {name: web-files}}]
status: {}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  selector: {app: web}
  ports: [{port: 80, targetPort: 8080}]
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: web}
spec:
  rules:
    - host: web.apps.example.com
      http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  minReplicas: 2
  maxReplicas: 4
  metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 80}}}]
`

func exampleHosts(p *deploy.Policy) { p.Hosts = []string{"*.apps.example.com"} }

// An application is applied with the documented Role, the same call changes nothing, a
// changed manifest changes what changed, and everything is on record.
func TestApplicationIsDeployed(t *testing.T) {
	b := newBench(t, exampleHosts)
	dry := b.must(t, "kubectl_apply", map[string]any{"manifest": webApp, "dry_run": true})
	if strings.Count(dry, ": created") != 5 || !strings.Contains(dry, "nothing was changed") || len(b.writes) != 0 {
		t.Fatalf("a dry run says %s and writes %v", dry, b.writes)
	}
	said, err := b.apply(webApp)
	if err != nil || strings.Count(said, ": created") != 5 || !strings.Contains(said, "http://web.apps.example.com/") {
		t.Fatalf("%s, %v", said, err)
	}
	if len(b.writes) != 10 || b.writes[0].Outcome != "" || b.writes[1].Outcome != "created" || b.writes[1].UID == "" || b.writes[0].SHA256 == "" {
		t.Errorf("recorded %+v", b.writes)
	}
	if said, err = b.apply(webApp); err != nil || strings.Count(said, ": unchanged") != 5 || len(b.writes) != 10 {
		t.Errorf("again: %s, %v, %d records", said, err, len(b.writes))
	}
	if said, err = b.apply(strings.Replace(webApp, "hello", "bye", 1)); err != nil || strings.Count(said, ": unchanged") != 4 || !strings.Contains(said, "web-files: changed") {
		t.Errorf("changed: %s, %v", said, err)
	}
	if got := b.must(t, "kubectl_get", map[string]any{"resource": "deploy", "name": "web"}); !strings.Contains(got, "automountServiceAccountToken: false") || strings.Contains(got, "managedFields") {
		t.Errorf("get says %s", got)
	}
	status := b.must(t, "kubectl_rollout_status", map[string]any{"kind": "Deployment", "name": "web", "wait_seconds": 0})
	if !strings.Contains(status, "under way") {
		t.Errorf("the rollout is %s", status)
	}
	b.finishRollout(t, "web")
	if status = b.must(t, "kubectl_rollout_status", map[string]any{"kind": "Deployment", "name": "web"}); !strings.Contains(status, "ready: 2 of 2") {
		t.Errorf("the rollout is %s", status)
	}
	for range 2 {
		if said := b.must(t, "kubectl_delete", map[string]any{"kind": "ConfigMap", "name": "web-files"}); !strings.Contains(said, "deleted") && !strings.Contains(said, "not there") {
			t.Errorf("delete says %s", said)
		}
	}
}

func (b *bench) configMaps() dynamic.ResourceInterface {
	return b.api.Client.Resource(corev1.SchemeGroupVersion.WithResource("configmaps")).Namespace(b.ns)
}

// finishRollout does what the controllers would.
func (b *bench) finishRollout(t *testing.T, name string) {
	t.Helper()
	b.api.UpdateStatus(t, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: b.ns},
		Status: appsv1.DeploymentStatus{ObservedGeneration: 100, Replicas: 2, UpdatedReplicas: 2, AvailableReplicas: 2, ReadyReplicas: 2}})
}

// What ends between any two records is finished by the same call, and nothing is made twice.
func TestKilledAnywhere(t *testing.T) {
	for n := 1; n <= 10; n++ {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			b := newBench(t, exampleHosts)
			b.refuse = n
			if said, err := b.apply(webApp); err == nil {
				t.Fatalf("it says %s", said)
			}
			before := uids(b.writes)
			b.restart(t)
			if said, err := b.apply(webApp); err != nil {
				t.Fatalf("%s, %v", said, err)
			}
			for name, uid := range before {
				if after := uids(b.writes)[name]; after != uid {
					t.Errorf("%s was %s and is %s", name, uid, after)
				}
			}
			if said, err := b.apply(webApp); err != nil || strings.Count(said, ": unchanged") != 5 {
				t.Errorf("%s, %v", said, err)
			}
		})
	}
}

func uids(all []deploy.Write) map[string]string {
	m := map[string]string{}
	for _, w := range all {
		if w.UID != "" {
			m[w.Kind+" "+w.Name] = w.UID
		}
	}
	return m
}

// What others made is neither changed nor deleted nor shown, whatever label it carries.
func TestOthersAreLeftAlone(t *testing.T) {
	b := newBench(t, exampleHosts)
	b.api.Create(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "plain", Namespace: b.ns}, Data: map[string]string{"a": "theirs"}})
	b.api.Create(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "marked", Namespace: b.ns, Labels: map[string]string{deploy.Mark: deploy.Manager}}, Data: map[string]string{"a": "theirs"}})
	b.api.Create(t, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "payments", Namespace: b.ns}, Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "payments"}, Ports: []corev1.ServicePort{{Port: 80}}}})
	b.api.Create(t, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "leads-nowhere", Namespace: b.ns}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}})
	for _, name := range []string{"plain", "marked"} {
		if said, err := b.apply("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + "}\ndata: {a: ours}"); nightcrier.CodeOf(err) != nightcrier.Refused {
			t.Errorf("apply %s: %s, %v", name, said, err)
		}
		if said, _, err := b.call(t.Context(), "kubectl_delete", map[string]any{"kind": "cm", "name": name}); nightcrier.CodeOf(err) != nightcrier.Refused {
			t.Errorf("delete %s: %s, %v", name, said, err)
		}
	}
	if said, _, err := b.call(t.Context(), "kubectl_get", map[string]any{"resource": "configmaps", "name": "plain"}); nightcrier.CodeOf(err) != nightcrier.Refused {
		t.Errorf("get: %s, %v", said, err)
	}
	if said, err := b.apply(podOf("web", "payments", "")); nightcrier.CodeOf(err) != nightcrier.Refused || !strings.Contains(err.Error(), "payments") {
		t.Errorf("traffic of others: %s, %v", said, err)
	}
	if said, err := b.apply(ingress("{rules: [{host: a.apps.example.com, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: payments, port: {number: 80}}}}]}}]}")); nightcrier.CodeOf(err) != nightcrier.Refused || !strings.Contains(err.Error(), "payments") {
		t.Errorf("a way to others: %s, %v", said, err)
	}
	if len(b.writes) != 0 {
		t.Errorf("recorded %v", b.writes)
	}
	if said, err := b.apply(podOf("web", "web", "")); err != nil {
		t.Errorf("beside Services that lead elsewhere: %s, %v", said, err)
	}
}

// A host is that of the namespace whose Ingress had it first: another one, also of the same manifest, gets no part
// of its traffic.
func TestAHostIsOfOneNamespace(t *testing.T) {
	b := newBench(t, exampleHosts)
	second := b.api.Namespace(t)
	for _, resource := range []string{"roles", "rolebindings"} {
		all := b.api.Client.Resource(rbacv1.SchemeGroupVersion.WithResource(resource))
		list, err := all.Namespace(b.ns).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range list.Items {
			one.SetNamespace(second)
			one.SetResourceVersion("")
			if _, err := all.Namespace(second).Create(t.Context(), &one, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	b.cfg.Policy.Namespaces = append(b.cfg.Policy.Namespaces, second)
	b.restart(t)
	site := func(ns, name, host string) string {
		return fmt.Sprintf(`
apiVersion: v1
kind: Service
metadata: {name: %[2]s, namespace: %[1]s}
spec: {selector: {app: %[2]s}, ports: [{port: 80}]}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: %[2]s, namespace: %[1]s}
spec: {rules: [{host: %[3]s.apps.example.com, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: %[2]s, port: {number: 80}}}}]}}]}
`, ns, name, host)
	}
	for _, step := range []struct{ manifest, refused string }{
		{site(b.ns, "a", "shop"), ""},
		{site(second, "a", "shop"), "shop.apps.example.com is that of the Ingress " + b.ns + "/a"},
		{site(b.ns, "b", "shop"), ""}, // another path of the same site
		{site(second, "c", "blog"), ""},
		{site(b.ns, "d", "new") + "---" + site(second, "d", "new"), "new.apps.example.com is that of the Ingress"},
		{site(b.ns, "a", "shop"), ""},
	} {
		said, err := b.apply(step.manifest)
		if step.refused == "" && err != nil || step.refused != "" && (nightcrier.CodeOf(err) != nightcrier.Refused || !strings.Contains(err.Error(), step.refused)) {
			t.Errorf("%s: %s, %v", step.manifest, said, err)
		}
	}
}

// Whoever writes objects as our field manager, but does not apply them, makes them his own.
func TestObjectsOfANamesake(t *testing.T) {
	b := newBench(t)
	theirs := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "c", "labels": map[string]any{deploy.Mark: deploy.Manager}}}}
	if _, err := b.configMaps().Create(t.Context(), theirs, metav1.CreateOptions{FieldManager: deploy.Manager}); err != nil {
		t.Fatal(err)
	}
	if err := b.deleteOurs(); nightcrier.CodeOf(err) != nightcrier.Refused {
		t.Errorf("deleted: %v", err)
	}
}

// A field that somebody else has set since then is a conflict that names it.
func TestConflictsAreSaid(t *testing.T) {
	b := newBench(t)
	if said, err := b.apply("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {a: ours}"); err != nil {
		t.Fatal(said, err)
	}
	change := []byte(`{"data":{"a":"theirs"}}`)
	if _, err := b.configMaps().Patch(t.Context(), "c", types.MergePatchType, change, metav1.PatchOptions{FieldManager: "somebody"}); err != nil {
		t.Fatal(err)
	}
	said, err := b.apply("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {a: ours, b: hunter2-hunter2}")
	if nightcrier.CodeOf(err) != nightcrier.Conflict || !strings.Contains(err.Error(), "somebody") || !strings.Contains(err.Error(), ".data.a") {
		t.Errorf("%s, %v", said, err)
	}
}

// An object that others make between the look and the write is given back.
func TestAMomentLater(t *testing.T) {
	b := newBench(t)
	b.meanwhile(t, "apply", func() {
		b.api.Create(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: b.ns}, Data: map[string]string{"b": "theirs"}})
	})
	if said, err := b.apply("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {a: ours}"); nightcrier.CodeOf(err) != nightcrier.Conflict {
		t.Fatalf("%s, %v", said, err)
	}
	b.isTheirs(t)
}

// What others put in the place of an object is neither changed nor deleted, and what they take
// away is deleted all the same.
func TestWhatOthersReplacedMeanwhile(t *testing.T) {
	ours := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {a: ours}"
	for name, c := range map[string]struct {
		verb string
		gone bool // and nothing is there in its place
		do   func(*bench) error
		code nightcrier.Code
	}{
		"changed":          {"apply", false, func(b *bench) error { _, err := b.apply(strings.Replace(ours, "ours", "changed", 1)); return err }, nightcrier.Invalid},
		"deleted":          {"delete", false, (*bench).deleteOurs, nightcrier.Conflict},
		"deleted and gone": {"delete", true, (*bench).deleteOurs, ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			if said, err := b.apply(ours); err != nil {
				t.Fatal(said, err)
			}
			b.meanwhile(t, c.verb, func() {
				if err := b.configMaps().Delete(t.Context(), "c", metav1.DeleteOptions{}); err != nil {
					t.Error(err)
				}
				if !c.gone {
					b.api.Create(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: b.ns}, Data: map[string]string{"b": "theirs"}})
				}
			})
			if err := c.do(b); nightcrier.CodeOf(err) != c.code {
				t.Errorf("%v, want %q", err, c.code)
			}
			if !c.gone {
				b.isTheirs(t)
			}
		})
	}
}

// meanwhile has something done just before the first write of that verb.
func (b *bench) meanwhile(t *testing.T, verb string, do func()) {
	t.Helper()
	done := false
	b.cfg.Record = func(w deploy.Write) error {
		if w.Verb == verb && w.Outcome == "" && !done {
			done = true
			do()
		}
		return b.record(w)
	}
	b.restart(t)
}

func (b *bench) deleteOurs() error {
	_, _, err := b.call(context.Background(), "kubectl_delete", map[string]any{"kind": "ConfigMap", "name": "c"})
	return err
}

// isTheirs holds that the ConfigMap c is as others made it.
func (b *bench) isTheirs(t *testing.T) {
	t.Helper()
	c, err := b.configMaps().Get(t.Context(), "c", metav1.GetOptions{})
	if err != nil || fmt.Sprint(c.Object["data"]) != "map[b:theirs]" || len(c.GetLabels()) != 0 {
		t.Errorf("%+v, %v", c, err)
	}
}

// Of a write to which the API server gives no answer the record does not say that it was not made.
func TestNoAnswerIsUnknown(t *testing.T) {
	b := newBench(t)
	ctx, stop := context.WithCancel(t.Context())
	b.cfg.Record = func(w deploy.Write) error { stop(); return b.record(w) }
	b.restart(t)
	said, _, err := b.call(ctx, "kubectl_apply", map[string]any{"manifest": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {a: ours}"})
	if err == nil || len(b.writes) != 2 || !strings.HasPrefix(b.writes[1].Outcome, "unknown: ") {
		t.Errorf("%s, %v; recorded %+v", said, err, b.writes)
	}
}

// Credentials that can do more than the tools need are refused, with what to do.
func TestCredentialsThatAreRefused(t *testing.T) {
	api := kubetest.Start(t)
	ns := api.Namespace(t)
	need := documentedRules(t)
	rule := func(group, resource string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
	}
	for name, kubeconfig := range map[string]string{
		"cluster-admin":       api.AccessFor(t, rule("*", "*", "*")),
		"all of a namespace":  api.AccessIn(t, ns, rule("*", "*", "*")),
		"in every namespace":  api.AccessFor(t, need...),
		"reads Secrets":       api.AccessIn(t, ns, append(need[:len(need):len(need)], rule("", "secrets", "get"))...),
		"makes Secrets":       api.AccessIn(t, ns, append(need[:len(need):len(need)], rule("", "secrets", "create"))...),
		"runs commands":       api.AccessIn(t, ns, append(need[:len(need):len(need)], rule("", "pods/exec", "create"))...),
		"grants rights":       api.AccessIn(t, ns, append(need[:len(need):len(need)], rule(rbacv1.GroupName, "rolebindings", "create"))...),
		"makes tokens":        api.AccessIn(t, ns, append(need[:len(need):len(need)], rule("", "serviceaccounts/token", "create"))...),
		"starts Pods itself":  api.AccessIn(t, ns, append(need[:len(need):len(need)], rule("", "pods", "create"))...),
		"impersonates anyone": api.AccessFor(t, rule("", "users", "impersonate")),
	} {
		c, err := kube.Dial(kubeconfig, "", 0)
		if err != nil {
			t.Fatal(err)
		}
		_, err = deploy.Open(t.Context(), deploy.Config{Policy: deploy.Policy{Namespaces: []string{ns}}, Cluster: "test", Client: c, Mask: bytes.Clone, Record: func(deploy.Write) error { return nil }})
		if nightcrier.CodeOf(err) != nightcrier.Refused || !strings.Contains(err.Error(), "docs/deploy.md") {
			t.Errorf("%s: %v", name, err)
		}
		c.Close()
	}
}
