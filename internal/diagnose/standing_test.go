package diagnose

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
)

// A workload is called well only where it has shown that it is, down where something
// says what is wrong, and coming up where nothing does either yet.
func TestStanding(t *testing.T) {
	at := func(ago time.Duration) string { return now.Add(-ago).Format(time.RFC3339) }
	deploy := func(age time.Duration, generation, observed, want, made, ready int, more string) string {
		return fmt.Sprintf(`{apiVersion: apps/v1, kind: Deployment, metadata: {namespace: shop, name: cart, generation: %d, creationTimestamp: %q}, spec: {replicas: %d, selector: {matchLabels: {app: cart}}, template: {metadata: {labels: {app: cart}}, spec: {containers: [{name: app}]}}}, status: {observedGeneration: %d, replicas: %d, readyReplicas: %d%s}}`,
			generation, at(age), want, observed, made, ready, more)
	}
	pod := func(name string, age time.Duration, spec, status string) string {
		return fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {namespace: shop, name: cart-5d4f8c7b9d-%s, creationTimestamp: %q, labels: {app: cart, pod-template-hash: 5d4f8c7b9d}, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: cart-5d4f8c7b9d, uid: u, controller: true}]}, spec: {%scontainers: [{name: app}]}, status: {%s}}`, name, at(age), spec, status)
	}
	ready := func(since time.Duration) string {
		return fmt.Sprintf(`phase: Running, conditions: [{type: Ready, status: "True", lastTransitionTime: %q}], containerStatuses: [{name: app, ready: true, state: {running: {startedAt: %q}}}]`, at(since), at(since))
	}
	waiting := func(reason string) string {
		return fmt.Sprintf(`phase: Pending, containerStatuses: [{name: app, state: {waiting: {reason: %s}}}]`, reason)
	}
	const node = "nodeName: n1, "
	one := deploy(time.Hour, 1, 1, 1, 1, 1, "")
	notYet := deploy(time.Hour, 1, 1, 1, 1, 0, "")
	names := map[standing]string{standsUnjudged: "unjudged", standsDown: "down", standsComingUp: "coming up", standsWell: "well"}
	for _, c := range []struct {
		name    string
		objects []string
		want    standing
	}{
		{"ready for an hour", []string{one, pod("a", time.Hour, node, ready(time.Hour))}, standsWell},
		{"ready for some seconds", []string{one, pod("a", time.Minute, node, ready(5*time.Second))}, standsComingUp},
		{"one of two for some seconds", []string{deploy(time.Hour, 1, 1, 2, 2, 2, ""), pod("a", time.Hour, node, ready(time.Hour)), pod("b", time.Hour, node, ready(5*time.Second))}, standsComingUp},
		{"its controller has not seen the last change", []string{deploy(time.Hour, 2, 1, 1, 1, 1, ""), pod("a", time.Hour, node, ready(time.Hour))}, standsUnjudged},
		{"its controller counts fewer", []string{deploy(time.Hour, 1, 1, 2, 2, 1, ""), pod("a", time.Hour, node, ready(time.Hour))}, standsUnjudged},
		{"new, being created", []string{notYet, pod("a", 20*time.Second, node, waiting("ContainerCreating"))}, standsComingUp},
		{"new, initializing", []string{notYet, pod("a", 20*time.Second, node, waiting("PodInitializing"))}, standsComingUp},
		{"created for long", []string{notYet, pod("a", 10*time.Minute, node, waiting("ContainerCreating"))}, standsDown},
		{"new, its ConfigMap is missing", []string{notYet, pod("a", 20*time.Second, node, waiting("CreateContainerConfigError"))}, standsDown},
		{"new, its image is missing", []string{notYet, pod("a", 20*time.Second, node, waiting("ErrImagePull"))}, standsDown},
		{"new, the runtime does not make it", []string{notYet, pod("a", 20*time.Second, node, waiting("CreateContainerError"))}, standsDown},
		{"new, for a reason that nobody knows", []string{notYet, pod("a", 20*time.Second, node, waiting("PlanetsMisaligned"))}, standsDown},
		{"new, no node fits", []string{notYet, pod("a", 20*time.Second, "", `phase: Pending, conditions: [{type: PodScheduled, status: "False", reason: Unschedulable, message: "0/1 nodes are available: 1 Insufficient cpu."}]`)}, standsDown},
		{"new, not placed yet", []string{notYet, pod("a", 20*time.Second, "", `phase: Pending`)}, standsComingUp},
		{"new, and failed already", []string{notYet, pod("a", 20*time.Second, node, `phase: Running, containerStatuses: [{name: app, restartCount: 1, state: {running: {}}, lastState: {terminated: {exitCode: 1}}}]`)}, standsDown},
		{"six new ones hide an old one that crashes", []string{deploy(time.Hour, 1, 1, 7, 7, 0, ""),
			pod("a", time.Second, node, waiting("ContainerCreating")), pod("b", time.Second, node, waiting("ContainerCreating")), pod("c", time.Second, node, waiting("ContainerCreating")),
			pod("d", time.Second, node, waiting("ContainerCreating")), pod("e", time.Second, node, waiting("ContainerCreating")), pod("f", time.Second, node, waiting("ContainerCreating")),
			pod("g", time.Hour, node, waiting("CrashLoopBackOff"))}, standsDown},
		{"no Pods", []string{deploy(time.Hour, 1, 1, 1, 0, 0, "")}, standsDown},
		{"no Pods, a moment after it was made", []string{deploy(3*time.Second, 1, 0, 1, 0, 0, "")}, standsComingUp},
		{"no Pods, and its controller says why", []string{deploy(3*time.Second, 1, 1, 1, 0, 0, `, conditions: [{type: ReplicaFailure, status: "True"}]`)}, standsDown},
		{"none wanted", []string{deploy(time.Hour, 1, 1, 0, 0, 0, "")}, standsWell},
		{"failed Pods of what was not read", []string{pod("a", time.Hour, node, `phase: Failed`)}, standsDown},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := sceneOf(t, docs(c.objects...)).allWorkloads()[0]
			if got := f.judgeStanding(); got != c.want {
				t.Errorf("%s, want %s", names[got], names[c.want])
			}
		})
	}
}

// Beside a fault only what has shown that it is well is called unaffected.
func TestWhoIsUnaffected(t *testing.T) {
	crash := stuckAlike{spec: onNode + "containers: [{name: app}]", status: statusWaits("CrashLoopBackOff", "back-off 5m0s"), made: made}
	starts := stuckAlike{spec: onNode + "containers: [{name: app}]", status: statusWaits("ContainerCreating", ""), made: made}
	stuck := stuckAlike{spec: onNode + "containers: [{name: app, envFrom: [{configMapRef: {name: conf}}]}]", status: statusWaits("CreateContainerConfigError", `configmap "conf" not found`), made: made}
	all := []string{crash.docs("broken"), starts.docs("young"), stuck.docs("a", "b"), workloadNamed("fine", "{name: A, value: b}", "")}
	r := nightcrier.Resource{Kind: namespaceKind, Name: "shop"}
	f := &Facts{Now: now, Scene: sceneOf(t, docs(all...)), Target: r, Owner: r, ownerRead: true}
	found := explainFacts(f)
	scope := assembleReport(Case{Incident: &nightcrier.Incident{}, Mask: func(s string) string { return s }}, f, found, nil, nil).Scope
	for _, c := range []struct {
		word string
		got  []nightcrier.Object
		want string
	}{
		{"affected", scope.Affected, "ConfigMap conf, Deployment a, Deployment b, Deployment broken"},
		{"suspected", scope.Suspected, ""},
		{"unaffected", scope.Unaffected, "Deployment fine"},
		{"coming up", scope.ComingUp, "Deployment young"},
	} {
		var names []string
		for _, o := range c.got {
			names = append(names, o.Kind+" "+o.Name)
		}
		slices.Sort(names)
		if got := strings.Join(names, ", "); got != c.want {
			t.Errorf("%s: %s, want %s", c.word, got, c.want)
		}
	}
}

// What has only begun is not called well, and what else there is does not hide it.
func TestOnlyComingUpIsNotHealthy(t *testing.T) {
	starts := stuckAlike{spec: onNode + "containers: [{name: app}]", status: statusWaits("ContainerCreating", ""), made: made}
	r := nightcrier.Resource{Kind: namespaceKind, Name: "shop"}
	f := &Facts{Now: now, Scene: sceneOf(t, docs(starts.docs("young"), workloadNamed("fine", "{name: A, value: b}", ""))), Target: r, Owner: r, ownerRead: true}
	rep := assembleReport(Case{Incident: &nightcrier.Incident{}, Mask: func(s string) string { return s }}, f, explainFacts(f), nil, nil)
	if rep.Verdict != nightcrier.VerdictUndetermined || !strings.Contains(rep.Hypotheses[0].Statement, "Deployment shop/young is coming up") || !strings.Contains(rep.Actions[0].Action, "Look again") {
		t.Errorf("verdict %s, %q, %+v", rep.Verdict, rep.Hypotheses[0].Statement, rep.Actions)
	}
}
