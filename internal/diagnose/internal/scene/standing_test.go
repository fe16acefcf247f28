package scene_test

import (
	"fmt"
	"testing"
	"time"

	"nightcrier.dev/nightcrier/internal/diagnose/internal/scene"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scenetest"
)

// A workload is called well only where it has shown that it is, down where something
// says what is wrong, and coming up where nothing does either yet.
func TestStanding(t *testing.T) {
	at := func(ago time.Duration) string { return scenetest.Now.Add(-ago).Format(time.RFC3339) }
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
	names := map[scene.Standing]string{scene.StandsUnjudged: "unjudged", scene.StandsDown: "down", scene.StandsComingUp: "coming up", scene.StandsWell: "well"}
	for _, c := range []struct {
		name    string
		objects []string
		want    scene.Standing
	}{
		{"ready for an hour", []string{one, pod("a", time.Hour, node, ready(time.Hour))}, scene.StandsWell},
		{"ready for some seconds", []string{one, pod("a", time.Minute, node, ready(5*time.Second))}, scene.StandsComingUp},
		{"one of two for some seconds", []string{deploy(time.Hour, 1, 1, 2, 2, 2, ""), pod("a", time.Hour, node, ready(time.Hour)), pod("b", time.Hour, node, ready(5*time.Second))}, scene.StandsComingUp},
		{"its controller has not seen the last change", []string{deploy(time.Hour, 2, 1, 1, 1, 1, ""), pod("a", time.Hour, node, ready(time.Hour))}, scene.StandsUnjudged},
		{"its controller counts fewer", []string{deploy(time.Hour, 1, 1, 2, 2, 1, ""), pod("a", time.Hour, node, ready(time.Hour))}, scene.StandsUnjudged},
		{"new, being created", []string{notYet, pod("a", 20*time.Second, node, waiting("ContainerCreating"))}, scene.StandsComingUp},
		{"new, initializing", []string{notYet, pod("a", 20*time.Second, node, waiting("PodInitializing"))}, scene.StandsComingUp},
		{"created for long", []string{notYet, pod("a", 10*time.Minute, node, waiting("ContainerCreating"))}, scene.StandsDown},
		{"new, its ConfigMap is missing", []string{notYet, pod("a", 20*time.Second, node, waiting("CreateContainerConfigError"))}, scene.StandsDown},
		{"new, its image is missing", []string{notYet, pod("a", 20*time.Second, node, waiting("ErrImagePull"))}, scene.StandsDown},
		{"new, the runtime does not make it", []string{notYet, pod("a", 20*time.Second, node, waiting("CreateContainerError"))}, scene.StandsDown},
		{"new, for a reason that nobody knows", []string{notYet, pod("a", 20*time.Second, node, waiting("PlanetsMisaligned"))}, scene.StandsDown},
		{"new, no node fits", []string{notYet, pod("a", 20*time.Second, "", `phase: Pending, conditions: [{type: PodScheduled, status: "False", reason: Unschedulable, message: "0/1 nodes are available: 1 Insufficient cpu."}]`)}, scene.StandsDown},
		{"new, not placed yet", []string{notYet, pod("a", 20*time.Second, "", `phase: Pending`)}, scene.StandsComingUp},
		{"new, and failed already", []string{notYet, pod("a", 20*time.Second, node, `phase: Running, containerStatuses: [{name: app, restartCount: 1, state: {running: {}}, lastState: {terminated: {exitCode: 1}}}]`)}, scene.StandsDown},
		{"six new ones hide an old one that crashes", []string{deploy(time.Hour, 1, 1, 7, 7, 0, ""),
			pod("a", time.Second, node, waiting("ContainerCreating")), pod("b", time.Second, node, waiting("ContainerCreating")), pod("c", time.Second, node, waiting("ContainerCreating")),
			pod("d", time.Second, node, waiting("ContainerCreating")), pod("e", time.Second, node, waiting("ContainerCreating")), pod("f", time.Second, node, waiting("ContainerCreating")),
			pod("g", time.Hour, node, waiting("CrashLoopBackOff"))}, scene.StandsDown},
		{"no Pods", []string{deploy(time.Hour, 1, 1, 1, 0, 0, "")}, scene.StandsDown},
		{"no Pods, a moment after it was made", []string{deploy(3*time.Second, 1, 0, 1, 0, 0, "")}, scene.StandsComingUp},
		{"no Pods, and its controller says why", []string{deploy(3*time.Second, 1, 1, 1, 0, 0, `, conditions: [{type: ReplicaFailure, status: "True"}]`)}, scene.StandsDown},
		{"none wanted", []string{deploy(time.Hour, 1, 1, 0, 0, 0, "")}, scene.StandsWell},
		{"failed Pods of what was not read", []string{pod("a", time.Hour, node, `phase: Failed`)}, scene.StandsDown},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := scenetest.New(t, scenetest.JoinDocs(c.objects...)).AllWorkloads()[0]
			if got := f.JudgeStanding(); got != c.want {
				t.Errorf("%s, want %s", names[got], names[c.want])
			}
		})
	}
}
