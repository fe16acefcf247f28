package diagnose

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/compose"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scene"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scenetest"
)

// What would refute a cause lowers its confidence where it is there, stands against it, and
// is asked about first; its near miss does nothing.
func TestWhatSpeaksAgainstACause(t *testing.T) {
	const waits = `{apiVersion: v1, kind: Pod, metadata: {namespace: shop, name: web-5d4f8c7b9d-a1a1a, creationTimestamp: "2026-03-01T11:50:00Z", labels: {app: web, pod-template-hash: 5d4f8c7b9d}, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web-5d4f8c7b9d, uid: u, controller: true}]}, spec: {nodeName: n2, containers: [{name: app, image: "r.invalid/web:2"}]}, status: {phase: Pending, containerStatuses: [{name: app, ready: false, image: "r.invalid/web:2", state: {waiting: {reason: ImagePullBackOff, message: "failed to pull: 403 Forbidden: authorization failed"}}}]}}`
	web := `{apiVersion: apps/v1, kind: Deployment, metadata: {namespace: shop, name: web, creationTimestamp: "2026-02-01T10:00:00Z"}, spec: {replicas: 2, selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, spec: {containers: [{name: app, image: "r.invalid/web:2"}]}}}, status: {replicas: 2, readyReplicas: 1, updatedReplicas: 2}}`
	runs := func(image, node string) string {
		return fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {namespace: shop, name: web-5d4f8c7b9d-b2b2b, creationTimestamp: "2026-03-01T11:40:00Z", labels: {app: web, pod-template-hash: 5d4f8c7b9d}, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web-5d4f8c7b9d, uid: u, controller: true}]}, spec: {nodeName: %s, containers: [{name: app, image: %q}]}, status: {phase: Running, conditions: [{type: Ready, status: "True", lastTransitionTime: "2026-03-01T11:41:00Z"}], containerStatuses: [{name: app, ready: true, state: {running: {startedAt: "2026-03-01T11:41:00Z"}}}]}}`, node, image)
	}
	ended := func(ready string, restarts int) string {
		return scenetest.JoinDocs(strings.Replace(strings.Replace(web, "replicas: 2, selector", "replicas: 1, selector", 1), "replicas: 2, readyReplicas", "replicas: 1, readyReplicas", 1),
			fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {namespace: shop, name: web-5d4f8c7b9d-c3c3c, creationTimestamp: "2026-03-01T10:00:00Z", labels: {app: web, pod-template-hash: 5d4f8c7b9d}, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web-5d4f8c7b9d, uid: u, controller: true}]}, spec: {nodeName: n1, containers: [{name: app, image: "r.invalid/web:2", resources: {limits: {memory: 64Mi}}}]}, status: {phase: Running, conditions: [{type: Ready, status: %q, lastTransitionTime: "2026-03-01T11:59:35Z"}], containerStatuses: [{name: app, ready: %s, restartCount: %d, state: {running: {startedAt: "2026-03-01T11:59:20Z"}}, lastState: {terminated: {exitCode: 137, reason: OOMKilled, startedAt: "2026-03-01T10:00:00Z", finishedAt: "2026-03-01T11:59:10Z"}}}]}}`, strings.ToUpper(ready[:1])+ready[1:], ready, restarts))
	}
	for name, c := range map[string]struct {
		docs, cause string
		want        nightcrier.Confidence
		first       string // of the steps
	}{
		"another node runs the image":         {scenetest.JoinDocs(web, waits, strings.NewReplacer("web-5d4f", "api-5d4f", "app: web", "app: api").Replace(runs("r.invalid/web:2", "n1"))), "image-pull-unauthorized", nightcrier.Medium, "Find out what node n2 lacks that node n1 has"},
		"another node runs another image":     {scenetest.JoinDocs(web, waits, runs("r.invalid/web:1", "n1")), "image-pull-unauthorized", nightcrier.High, ""},
		"it is ready again after two ends":    {ended("true", 2), "oom-killed", nightcrier.Medium, "Look again at 12:09:10 UTC"},
		"it is ready between many ends":       {ended("true", 7), "oom-killed", nightcrier.High, ""},
		"it has ended twice and is not ready": {ended("false", 2), "oom-killed", nightcrier.High, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := judged(t, c.docs, nightcrier.Resource{Kind: scene.NamespaceKind, Name: "shop"}, nightcrier.Event{})
			if r.RootCause == nil || r.RootCause.Cause != c.cause || r.RootCause.Confidence != c.want {
				t.Fatalf("%s, cause %+v", r.Verdict, r.RootCause)
			}
			against := c.first != ""
			if got := len(r.Hypotheses[0].Against) > 0; got != against || strings.HasPrefix(r.Actions[0].Action, c.first) != true {
				t.Errorf("against it %v, first step %q", r.Hypotheses[0].Against, r.Actions[0].Action)
			}
			if looks := strings.HasPrefix(c.first, "Look again"); looks == r.LookAgainAt.IsZero() {
				t.Errorf("look again at %s", r.LookAgainAt)
			}
		})
	}
}

// A cordon that was forgotten long ago is the cause all the same where only the closed nodes
// would fit; where most do not fit for another reason, something else has changed.
func TestAnOldCordonIsWeighedByTheOthers(t *testing.T) {
	for said, want := range map[string]nightcrier.Confidence{
		"0/2 nodes are available: 2 node(s) were unschedulable.":                        nightcrier.High,
		"0/3 nodes are available: 1 Insufficient memory, 2 node(s) were unschedulable.": nightcrier.High,
		"0/4 nodes are available: 2 node(s) were unschedulable, 2 Insufficient memory.": nightcrier.Medium,
	} {
		n := scene.Finding{Cause: "unschedulable-cordoned", Object: nightcrier.Object{Kind: "Pod", Namespace: "shop", Name: "web"}, Confidence: nightcrier.High, Summary: "s"}
		docs := scenetest.JoinDocs(`{apiVersion: v1, kind: Node, metadata: {name: n1}, spec: {unschedulable: true, taints: [{key: node.kubernetes.io/unschedulable, effect: NoSchedule, timeAdded: "2026-02-20T12:00:00Z"}]}}`,
			`{apiVersion: v1, kind: Pod, metadata: {namespace: shop, name: web, creationTimestamp: "2026-03-01T11:00:00Z"}, spec: {containers: [{name: app}]}, status: {phase: Pending, conditions: [{type: PodScheduled, status: "False", message: "`+said+`"}]}}`)
		f := &scene.Facts{Now: scenetest.Now, Scene: scenetest.New(t, docs), Target: scenetest.CartPod, Owner: scenetest.CartPod}
		in := compose.Case{Incident: &nightcrier.Incident{Severity: nightcrier.Warning, Timestamp: scenetest.Now}, Mask: func(s string) string { return s }}
		r := compose.AssembleReport(in, f, compose.Compose(f, []scene.Finding{n}, nil), nil, nil)
		if r.RootCause == nil || r.RootCause.Confidence != want || (len(r.Hypotheses[0].Against) > 0) != (want == nightcrier.Medium) {
			t.Errorf("%s: %+v, against it %v", said, r.RootCause, r.Hypotheses[0].Against)
		}
	}
}

// What ended long before the fault is said to have begun, and has run since, is not certain
// to be it.
func TestRestartsOlderThanTheFault(t *testing.T) {
	often := func(p *corev1.Pod) {
		scenetest.Crashing(1, "Error", 2*time.Hour)(p)
		scenetest.Ready(90 * time.Minute)(p)
		st := &p.Status.ContainerStatuses[0]
		st.RestartCount = 9
		st.LastTerminationState.Terminated.Message = "panic: index out of range" // without a word it would not be told what it was
		st.LastTerminationState.Terminated.StartedAt = metav1.NewTime(st.LastTerminationState.Terminated.FinishedAt.Add(-2 * time.Hour))
	}
	for name, c := range map[string]struct {
		began   time.Time
		against bool
	}{
		"the fault began since": {scenetest.Now.Add(-10 * time.Minute), true},
		"it began with the end": {scenetest.Now.Add(-90 * time.Minute), false},
		"nobody says when":      {time.Time{}, false},
	} {
		in, m := input(newCluster(scenetest.Pod(often)), scenetest.CartPod)
		in.Event.OccurredAt, in.Event.FaultType = c.began, "PodNotHealthy"
		d := run(t, in)
		sound(t, d, m)
		r := d.Report
		if r.RootCause == nil || r.RootCause.Cause != "container-crash" || strings.HasPrefix(r.Actions[0].Action, "Find out what is wrong with Pod shop/cart at present") != c.against || (len(r.Hypotheses[0].Against) > 0) != c.against {
			t.Errorf("%s: %s, %+v, against it %v", name, r.Verdict, r.RootCause, r.Hypotheses[0].Against)
		}
	}
}
