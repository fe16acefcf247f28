package diagnose

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scene"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scenetest"
)

// stuckAlike are Deployments of these names with one Pod each that does not start.
// {name} stands for the name in what is given: the Pod's spec, its status, more fields
// of the Deployment's status, and an Event about the Pod, "" for none.
type stuckAlike struct {
	spec, status, made, event string
	objects                   string
}

func (k stuckAlike) docs(names ...string) string {
	var all []string
	for _, name := range names {
		d := `{apiVersion: apps/v1, kind: Deployment, metadata: {namespace: shop, name: {name}, creationTimestamp: "2026-03-01T10:00:00Z"}, spec: {replicas: 1, selector: {matchLabels: {app: {name}}}, template: {metadata: {labels: {app: {name}}}, spec: {` + k.spec + `}}}, status: {observedGeneration: 1, ` + k.made + `}}`
		all = append(all, strings.ReplaceAll(d, "{name}", name))
		if k.status != "" {
			p := `{apiVersion: v1, kind: Pod, metadata: {namespace: shop, name: {name}-5d4f8c7b9d-x2x4z, creationTimestamp: "2026-03-01T11:59:30Z", labels: {app: {name}, pod-template-hash: 5d4f8c7b9d}, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: {name}-5d4f8c7b9d, uid: u, controller: true}]}, spec: {` + k.spec + `}, status: {` + k.status + `}}`
			all = append(all, strings.ReplaceAll(p, "{name}", name))
		}
		if k.event != "" {
			e := `{apiVersion: v1, kind: Event, metadata: {namespace: shop, name: {name}.e}, type: Warning, ` + k.event + `, involvedObject: {kind: Pod, namespace: shop, name: {name}-5d4f8c7b9d-x2x4z}, lastTimestamp: "2026-03-01T11:59:50Z"}`
			all = append(all, strings.ReplaceAll(e, "{name}", name))
		}
	}
	if k.objects != "" {
		all = append(all, k.objects)
	}
	return scenetest.JoinDocs(all...)
}

const (
	made   = "replicas: 1, unavailableReplicas: 1"
	onNode = "nodeName: n1, "
)

func statusWaits(reason, message string) string {
	return fmt.Sprintf(`phase: Pending, containerStatuses: [{name: app, ready: false, state: {waiting: {reason: %s, message: %q}}}]`, reason, message)
}

// Whatever several workloads lack alike is one fault, of the thing that they lack; what
// one of them lacks is its own.
func TestWhatSeveralLackIsOneRoot(t *testing.T) {
	const env = "containers: [{name: app, image: 'r.invalid/a:1', env: [{name: X, valueFrom: {%s: {name: %s, key: %s}}}]}]"
	const plain = "containers: [{name: app, image: 'r.invalid/a:1'}]"
	refused := func(said string) string {
		return fmt.Sprintf(`replicas: 0, conditions: [{type: ReplicaFailure, status: "True", reason: FailedCreate, message: %q}]`, said)
	}
	unplaced := func(said string) string {
		return fmt.Sprintf(`phase: Pending, conditions: [{type: PodScheduled, status: "False", reason: Unschedulable, message: %q}]`, said)
	}
	cases := []struct {
		name  string
		stuck stuckAlike
		root  string // of two
		first string // the first step, for two
		alone string // the first step, for one; "" where that says nothing of what it lacks
	}{
		{"ConfigMap", stuckAlike{spec: onNode + fmt.Sprintf(env, "configMapKeyRef", "conf", "DB_URL"), status: statusWaits("CreateContainerConfigError", `configmap "conf" not found`), made: made},
			"missing-configmap ConfigMap conf", "Create ConfigMap conf with key DB_URL in namespace shop, or correct the reference in", "Create ConfigMap conf with key DB_URL in namespace shop, or correct the reference in Deployment shop/a"},
		{"key of a ConfigMap", stuckAlike{spec: onNode + fmt.Sprintf(env, "configMapKeyRef", "conf", "DB_URL"), status: statusWaits("CreateContainerConfigError", `couldn't find key DB_URL in ConfigMap shop/conf`), made: made},
			"missing-config-key ConfigMap conf", "Add key DB_URL to ConfigMap conf in namespace shop", "Add key DB_URL to ConfigMap conf in namespace shop"},
		{"several keys", stuckAlike{spec: onNode + fmt.Sprintf(env, "configMapKeyRef", "conf", "{name}_URL"), status: statusWaits("CreateContainerConfigError", `couldn't find key {name}_URL in ConfigMap shop/conf`), made: made},
			"missing-config-key ConfigMap conf", "Add keys a_URL, b_URL to ConfigMap conf", "Add key a_URL to"},
		{"Secret", stuckAlike{spec: onNode + fmt.Sprintf(env, "secretKeyRef", "db", "password"), status: statusWaits("CreateContainerConfigError", `secret "db" not found`), made: made},
			"missing-secret Secret db", "Create Secret db with key password in namespace shop", "Create Secret db with key password in namespace shop"},
		{"nobody says it", stuckAlike{spec: onNode + fmt.Sprintf(env, "secretKeyRef", "db", "password"), status: statusWaits("CreateContainerConfigError", ""), made: made, objects: `{apiVersion: v1, kind: Secret, metadata: {namespace: shop, name: other}}`},
			"missing-secret Secret db", "Create Secret db with key password in namespace shop", "Create Secret db with key password"},
		{"volume", stuckAlike{spec: onNode + "volumes: [{name: v, configMap: {name: conf}}], " + plain, status: statusWaits("ContainerCreating", ""), made: made, event: `reason: FailedMount, message: 'MountVolume.SetUp failed for volume "v" : configmap "conf" not found'`},
			"missing-configmap ConfigMap conf", "Create ConfigMap conf in namespace shop", "Create ConfigMap conf in namespace shop"},
		{"item of a volume", stuckAlike{spec: onNode + "volumes: [{name: v, secret: {secretName: tls, items: [{key: tls.crt, path: c}]}}], " + plain, status: statusWaits("ContainerCreating", ""), made: made, event: `reason: FailedMount, message: 'MountVolume.SetUp failed for volume "v" : references non-existent secret key: tls.crt'`},
			"missing-config-key Secret tls", "Add key tls.crt to Secret tls in namespace shop", "Add key tls.crt to Secret tls"},
		{"ServiceAccount", stuckAlike{spec: "serviceAccountName: robot, " + plain, made: refused(`pods "x" is forbidden: error looking up service account shop/robot: serviceaccount "robot" not found`)},
			"serviceaccount-missing ServiceAccount robot", "Create ServiceAccount robot in namespace shop", "Create ServiceAccount robot in namespace shop, or correct the reference in Deployment shop/a"},
		{"PriorityClass", stuckAlike{spec: plain, made: refused(`pods "x" is forbidden: no PriorityClass with name urgent was found`)},
			"priority-class-missing PriorityClass urgent", "Create PriorityClass urgent, or", "Create PriorityClass urgent, or"},
		{"RuntimeClass", stuckAlike{spec: plain, made: refused(`pods "x" is forbidden: pod rejected: RuntimeClass "gvisor" not found`)},
			"pod-creation-refused RuntimeClass gvisor", "Create RuntimeClass gvisor, or", "Create RuntimeClass gvisor"},
		{"quota", stuckAlike{spec: plain, made: refused(`pods "x" is forbidden: exceeded quota: compute, requested: pods=1, used: pods=9, limited: pods=9`)},
			"quota-exceeded ResourceQuota compute", "Raise quota compute of namespace shop", "Raise quota compute of namespace shop, or let Deployment shop/a ask for less"},
		{"claim", stuckAlike{spec: "volumes: [{name: v, persistentVolumeClaim: {claimName: data}}], " + plain, status: unplaced(`0/3 nodes are available: persistentvolumeclaim "data" not found. preemption: 0/3 nodes are available.`), made: made},
			"unschedulable-volume PersistentVolumeClaim data", "Create PersistentVolumeClaim data in namespace shop", "Create PersistentVolumeClaim data in namespace shop"},
		{"pull secret", stuckAlike{spec: onNode + plain, status: statusWaits("ImagePullBackOff", `Back-off pulling image "r.invalid/a:1": 401 Unauthorized`), made: made, event: `reason: FailedToRetrieveImagePullSecret, message: 'Unable to retrieve some image pull secrets (regcred); attempting to pull the image may not succeed.'`},
			"image-pull-secret-missing Secret regcred", "Create Secret regcred in namespace shop", "Create Secret regcred in namespace shop"},
		{"registry", stuckAlike{spec: onNode + plain, status: statusWaits("ImagePullBackOff", `failed to pull image "r.invalid/a:1": dial tcp: lookup r.invalid: no such host`), made: made},
			"image-registry-unreachable Host r.invalid", "Check from inside the cluster that r.invalid answers", ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			for _, target := range []nightcrier.Object{scenetest.InShop(scene.NamespaceKind, ""), scenetest.InShop("Deployment", "b")} {
				f := inNamespace(scenetest.New(t, c.stuck.docs("a", "b")), target)
				got := explainFacts(f)
				if len(got.Findings) == 0 || scenetest.Headline(got.Findings[0]) != c.root {
					t.Fatalf("%s: the root is %+v, want %s", target, got.Findings, c.root)
				}
				n := got.Findings[0]
				scenetest.CheckFinding(t, n)
				if !strings.HasPrefix(n.Actions[0].Action, c.first) || !strings.Contains(n.Summary, "2 workloads wait for it: Deployment shop/a, Deployment shop/b") {
					t.Errorf("%s: %q, first %q", target, n.Summary, n.Actions[0].Action)
				}
				for _, name := range []string{"a", "b"} {
					if !slices.Contains(got.Affected, scenetest.InShop("Deployment", name)) {
						t.Errorf("%s: %s is not among those affected: %v", target, name, got.Affected)
					}
					if !slices.ContainsFunc(got.Consequences, func(c nightcrier.Consequence) bool {
						return c.Object == scenetest.InShop("Deployment", name) && c.Because == n.Object && c.Statement != "" && c.Statement != n.Summary
					}) {
						t.Errorf("%s: it is not told that %s waits for it: %+v", target, name, got.Consequences)
					}
				}
				if len(got.Findings) > 1 {
					t.Errorf("%s: beside it stands %s", target, scenetest.Headline(got.Findings[1]))
				}
			}
			alone := explainFacts(inNamespace(scenetest.New(t, c.stuck.docs("a")), scenetest.InShop(scene.NamespaceKind, ""))).Findings[0]
			if alone.Object != scenetest.InShop("Deployment", "a") || !strings.HasPrefix(alone.Actions[0].Action, c.alone) {
				t.Errorf("of one alone: %s, first %q", scenetest.Headline(alone), alone.Actions[0].Action)
			}
		})
	}
}

// inNamespace is what a diagnosis of target, or of all of namespace shop, begins with.
func inNamespace(s *scene.Scene, target nightcrier.Object) *scene.Facts {
	if target.Kind == scene.NamespaceKind {
		r := nightcrier.Resource{Kind: scene.NamespaceKind, Name: "shop"}
		return &scene.Facts{Now: s.Now, Scene: s, Target: r, Owner: r, OwnerRead: true}
	}
	f := s.NewFacts(target, "")
	for _, o := range s.AllWorkloads() {
		if o.Mend() == target {
			f = o
		}
	}
	f.AskedAbout = true
	return f
}

// Each lacks something else: these are two faults.
func TestWhatDiffersIsNotOneRoot(t *testing.T) {
	k := stuckAlike{spec: onNode + "containers: [{name: app, envFrom: [{configMapRef: {name: conf-{name}}}]}]", status: statusWaits("CreateContainerConfigError", `configmap "conf-{name}" not found`), made: made}
	got := explainFacts(inNamespace(scenetest.New(t, k.docs("a", "b")), scenetest.InShop(scene.NamespaceKind, "")))
	if len(got.Findings) != 2 || got.Findings[0].Object.Kind != "Deployment" || got.Findings[1].Object.Kind != "Deployment" {
		t.Errorf("findings %+v", got.Findings)
	}
}

// Clients of a Service that does not exist, or of a host outside of the cluster, are
// victims of one fault; where a Service of a name like it exists, each has slipped.
func TestADependencyThatIsAwayIsOneRoot(t *testing.T) {
	crash := stuckAlike{
		spec: onNode + "containers: [{name: app}]", made: made,
		status: `phase: Running, containerStatuses: [{name: app, ready: false, restartCount: 5, state: {waiting: {reason: CrashLoopBackOff}}, lastState: {terminated: {exitCode: 1, startedAt: "2026-03-01T11:59:40Z", finishedAt: "2026-03-01T11:59:41Z"}}}]`,
	}
	for name, c := range map[string]struct{ log, objects, root string }{
		"no Service": {"FATAL: dial tcp: lookup ledger on 10.96.0.10:53: no such host", "", "dependency-name-unresolved Service ledger"},
		"a slip":     {"FATAL: dial tcp: lookup ledgr on 10.96.0.10:53: no such host", scenetest.ServiceOf("ledger", "app: ledger", scenetest.Port80), "dependency-name-unresolved Deployment a"},
		"outside":    {"FATAL: dial tcp: connect to db.corp.example.com:5432: connection refused", "", "dependency-refused Host db.corp.example.com:5432"},
	} {
		t.Run(name, func(t *testing.T) {
			crash.objects = c.objects
			s := scenetest.New(t, crash.docs("a", "b", "c"), "Service")
			for _, w := range []string{"a", "b", "c"} {
				s.Logs = append(s.Logs, scene.LogExcerpt{Namespace: "shop", Pod: w + "-5d4f8c7b9d-x2x4z", Container: "app", Previous: true, Evidence: "E9", Text: c.log})
			}
			got := explainFacts(inNamespace(s, scenetest.InShop(scene.NamespaceKind, "")))
			if len(got.Findings) == 0 || scenetest.Headline(got.Findings[0]) != c.root {
				t.Errorf("the root is %+v, want %s", got.Findings, c.root)
			}
		})
	}
}
