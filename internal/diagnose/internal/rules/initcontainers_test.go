package rules

import (
	"slices"
	"strings"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scene"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scenetest"
)

// factsOf are the facts about Deployment cart, from all Pods of a Scene.
func factsOf(s *scene.Scene) *scene.Facts {
	f := scenetest.FactsOf()
	f.Scene, f.Pods, f.Events, f.Logs = s, s.Pods, s.Events, s.Logs
	return f
}

const waitingInit = `
apiVersion: v1
kind: Pod
metadata: {namespace: shop, name: cart, creationTimestamp: "2026-03-01T11:00:00Z"}
spec:
  nodeName: n1
  initContainers: [{name: wait, image: busybox, command: [sh, -c, "COMMAND"]}]
  containers: [{name: app, image: cart}]
status:
  phase: Pending
  initContainerStatuses: [{name: wait, ready: false, state: {running: {startedAt: "STARTED"}}}]
  containerStatuses: [{name: app, ready: false, state: {waiting: {reason: PodInitializing}}}]
---
{apiVersion: v1, kind: Service, metadata: {namespace: shop, name: db}, spec: {clusterIP: 10.0.0.9, ports: [{port: 5432}]}}`

func initFacts(t *testing.T, command string, ago time.Duration) *scene.Facts {
	return factsOf(scenetest.New(t, strings.NewReplacer("COMMAND", command, "STARTED", scenetest.Now.Add(-ago).Format(time.RFC3339)).Replace(waitingInit)))
}

func TestInitStuck(t *testing.T) {
	const wait = "until nc -z db 5432; do echo waiting; sleep 2; done"
	check(t, []rulecase{
		{"waits", initFacts(t, wait, 5*time.Minute), []string{"init-container-stuck"}},
		{"waits since a minute", initFacts(t, wait, time.Minute), nil},
		{"works since 5 minutes", initFacts(t, "migrate up", 5*time.Minute), nil},
		{"works since an hour", initFacts(t, "migrate up", time.Hour), []string{"init-container-stuck"}},
	})
	n := ApplyRules(initFacts(t, wait, 5*time.Minute))[0]
	if want := (nightcrier.Object{Kind: "Service", Namespace: "shop", Name: "db"}); !slices.Contains(n.DependsOn, want) {
		t.Errorf("it waits for the Service, but depends on %v", n.DependsOn)
	}
	n = ApplyRules(initFacts(t, "until nc -z dbb 5432; do sleep 2; done", 5*time.Minute))[0]
	if !strings.Contains(n.Summary, "there is no Service dbb") || !strings.Contains(n.Summary, "db is meant?") {
		t.Errorf("%q", n.Summary)
	}
}

const twoContainers = `
apiVersion: v1
kind: Pod
metadata: {namespace: shop, name: cart, creationTimestamp: "2026-03-01T11:00:00Z"}
spec:
  nodeName: n1
  containers: [{name: app, image: cart}, {name: SECOND, image: x, readinessProbe: {tcpSocket: {port: 15021}}}]
status:
  phase: Running
  containerStatuses:
  - {name: app, ready: FIRST, state: {running: {startedAt: "2026-03-01T11:00:00Z"}}}
  - {name: SECOND, ready: false, state: {running: {startedAt: "2026-03-01T11:00:00Z"}}}`

func TestSidecarNotReady(t *testing.T) {
	of := func(first, second string) *scene.Facts {
		return factsOf(scenetest.New(t, strings.NewReplacer("FIRST", first, "SECOND", second).Replace(twoContainers)))
	}
	native := factsOf(scenetest.New(t, `
apiVersion: v1
kind: Pod
metadata: {namespace: shop, name: cart, creationTimestamp: "2026-03-01T11:00:00Z"}
spec:
  nodeName: n1
  initContainers: [{name: mesh, image: x, restartPolicy: Always}]
  containers: [{name: app, image: cart}]
status:
  phase: Running
  initContainerStatuses: [{name: mesh, ready: false, started: true, state: {running: {startedAt: "2026-03-01T11:00:00Z"}}}]
  containerStatuses: [{name: app, ready: true, state: {running: {startedAt: "2026-03-01T11:00:00Z"}}}]`))
	check(t, []rulecase{
		{"by its name", of("true", "istio-proxy"), []string{"sidecar-not-ready", "readiness-probe-failing"}},
		{"native", native, []string{"sidecar-not-ready"}},
		{"both are not", of("false", "istio-proxy"), []string{"readiness-probe-failing"}},
		{"two that are equal", of("true", "web"), []string{"readiness-probe-failing"}},
	})
}

func TestSidecarBlocksJob(t *testing.T) {
	of := func(first, second string) *scene.Facts {
		return ownedBy(factsOf(scenetest.New(t, strings.NewReplacer("FIRST", first, "SECOND", second).Replace(`
apiVersion: v1
kind: Pod
metadata: {namespace: shop, name: cart, creationTimestamp: "2026-03-01T11:00:00Z"}
spec: {nodeName: n1, containers: [{name: work, image: cart}, {name: istio-proxy, image: x}]}
status:
  phase: Running
  containerStatuses:
  - {name: work, ready: false, state: FIRST}
  - {name: istio-proxy, ready: true, state: SECOND}`))), "Job", "migrate")
	}
	const done, recent = `{terminated: {exitCode: 0, reason: Completed, startedAt: "2026-03-01T11:00:00Z", finishedAt: "2026-03-01T11:10:00Z"}}`, `{terminated: {exitCode: 0, finishedAt: "2026-03-01T11:59:50Z"}}`
	const runs = `{running: {startedAt: "2026-03-01T11:00:00Z"}}`
	check(t, []rulecase{
		{"done, the sidecar runs", of(done, runs), []string{"sidecar-blocks-job"}},
		{"done just now", of(recent, runs), nil},
		{"at work", of(runs, runs), nil},
		{"all done", of(done, done), nil},
		{"not of a Job", ownedBy(of(done, runs), "Deployment", "cart"), nil},
	})
}
