package diagnose

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/collect"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scene"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scenetest"
)

// sound checks what every report owes its reader, whatever the input was.
func sound(t *testing.T, d Diagnosis, m *memory) {
	t.Helper()
	r := d.Report
	ids := map[string]bool{}
	for _, f := range r.Facts {
		ids[f.ID] = true
		if len(f.Evidence) != 1 || m.load(f.Evidence[0]) == "" || f.Text == "" || f.Source == "" || f.Check == "" {
			t.Errorf("fact without its evidence: %+v", f)
		}
	}
	if len(ids) != len(r.Facts) || len(ids) == 0 {
		t.Errorf("%d facts with %d ids", len(r.Facts), len(ids))
	}
	if len(r.Hypotheses) == 0 {
		t.Error("no hypothesis")
	}
	for _, h := range r.Hypotheses {
		for _, id := range h.For {
			if !ids[id] {
				t.Errorf("%s rests on %s, which is no fact", h.ID, id)
			}
		}
		if h.Statement == "" || h.Falsification.Outcome == "" {
			t.Errorf("incomplete hypothesis: %+v", h)
		}
		plainCommand(t, h.Falsification.Command)
	}
	if (r.RootCause != nil) != (r.Verdict == nightcrier.VerdictFault) {
		t.Errorf("verdict %s with root cause %+v", r.Verdict, r.RootCause)
	}
	inert(t, r)
}

// plainCommand checks that a command holds nothing that a shell would act on.
func plainCommand(t *testing.T, command string) {
	t.Helper()
	if command == "" {
		return
	}
	odd := func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune(" -./=", r)
	}
	if !strings.HasPrefix(command, "kubectl ") || strings.ContainsFunc(command, odd) || strings.Contains(command, "..") {
		t.Errorf("not a plain command: %q", command)
	}
}

// inert checks that no text of the report holds a control character or is long.
func inert(t *testing.T, r nightcrier.Report) {
	t.Helper()
	body, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var v any
	if err := json.Unmarshal(body, &v); err != nil {
		t.Fatal(err)
	}
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			for _, e := range v {
				walk(e)
			}
		case []any:
			for _, e := range v {
				walk(e)
			}
		case string:
			bad := func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) }
			if strings.ContainsFunc(v, bad) || len(v) > scene.MaxText+8 {
				t.Errorf("unclean text of %d bytes: %.200q", len(v), v)
			}
		}
	}
	walk(v)
}

func TestVerdicts(t *testing.T) {
	quiet := func(in *collect.Input) { in.Event.FaultType, in.Event.Context = "", "" }
	probeFailed := func(in *collect.Input) { in.Event.FaultType = nightcrier.FaultProbe }
	readyAfter := func(d time.Duration) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			scenetest.Ready(0)(p)
			start := scenetest.Now.Add(-2 * time.Hour)
			p.Status.ContainerStatuses[0].State.Running.StartedAt = metav1.NewTime(start)
			p.Status.Conditions[0].LastTransitionTime = metav1.NewTime(start.Add(d))
		}
	}
	cases := []struct {
		name    string
		pod     *corev1.Pod
		change  func(*collect.Input)
		verdict nightcrier.Verdict
	}{
		{"fault", scenetest.Pod(scenetest.Crashing(1, "Error", time.Second)), nil, nightcrier.VerdictFault},
		{"recovered", scenetest.Pod(scenetest.Crashing(1, "Error", time.Second), scenetest.Ready(time.Hour)), nil, nightcrier.VerdictRecovered},
		{"recovered from what only the event saw", scenetest.Pod(scenetest.Ready(0)), nil, nightcrier.VerdictRecovered},
		{"healthy", scenetest.Pod(scenetest.Ready(0)), quiet, nightcrier.VerdictHealthy},
		{"a probe failed at the start", scenetest.Pod(readyAfter(3 * time.Second)), probeFailed, nightcrier.VerdictHealthy},
		{"a probe failed after the start", scenetest.Pod(readyAfter(time.Hour)), probeFailed, nightcrier.VerdictRecovered},
		{"restarts tell of a fault", scenetest.Pod(scenetest.Crashing(1, "Error", time.Second), scenetest.Ready(time.Hour)), quiet, nightcrier.VerdictRecovered},
		{"undetermined", scenetest.Pod(), nil, nightcrier.VerdictUndetermined},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			in, m := input(newCluster(c.pod), scenetest.CartPod)
			if c.change != nil {
				c.change(&in)
			}
			d := run(t, in)
			sound(t, d, m)
			if d.Report.Verdict != c.verdict {
				t.Errorf("verdict %s, want %s", d.Report.Verdict, c.verdict)
			}
		})
	}
}

// deployed is Deployment shop/cart with its ReplicaSet and these Pods.
func deployed(pods ...*corev1.Pod) *cluster {
	yes := true
	labels := map[string]string{"app": "cart"}
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cart", UID: "d1"},
		Spec:       appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}},
	}
	rs := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "cart-7d4b9c8f6d", CreationTimestamp: metav1.NewTime(scenetest.Now.Add(-30 * time.Minute)),
		Annotations:     map[string]string{"deployment.kubernetes.io/revision": "7"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: "cart", Controller: &yes}},
	}}
	objects := []metav1.Object{d, rs}
	for _, p := range pods {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: rs.Name, Controller: &yes}}
		p.Labels = map[string]string{"app": "cart", "pod-template-hash": "7d4b9c8f6d"}
		objects = append(objects, p)
	}
	return newCluster(objects...)
}

// wellDeployed is deployed, and the Deployment counts its Pods as ready.
func wellDeployed(pods ...*corev1.Pod) *cluster {
	c, n := deployed(pods...), int32(len(pods))
	d := c.objects["Deployment/shop/cart"].(*appsv1.Deployment)
	d.Status = appsv1.DeploymentStatus{Replicas: n, UpdatedReplicas: n, ReadyReplicas: n, AvailableReplicas: n}
	return c
}

func named(name string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Name = name } }

var deployCart = nightcrier.Object{Kind: "Deployment", Namespace: "shop", Name: "cart"}

func TestOwnerIsWhatIsMended(t *testing.T) {
	bad := func() *corev1.Pod { return scenetest.Pod(scenetest.Crashing(1, "Error", time.Second)) }
	target := func(kind, name string) nightcrier.Resource {
		return nightcrier.Resource{Kind: kind, Namespace: "shop", Name: name}
	}
	forbid := func(c *cluster, kinds ...string) *cluster {
		for _, k := range kinds {
			c.fail[k] = nightcrier.Errorf(nightcrier.Refused, "may not get %s", k)
		}
		return c
	}
	cases := []struct {
		name   string
		c      *cluster
		target nightcrier.Resource
	}{
		{"from the Pod", deployed(bad()), target("Pod", "cart")},
		{"from the ReplicaSet", deployed(bad()), target("ReplicaSet", "cart-7d4b9c8f6d")},
		{"from the Deployment", deployed(bad()), target("Deployment", "cart")},
		{"ReplicaSet not readable", forbid(deployed(bad()), "ReplicaSet"), target("Pod", "cart")},
		{"no workload readable", forbid(deployed(bad()), "ReplicaSet", "Deployment"), target("Pod", "cart")},
		{"the healthy Pod of a broken Deployment", deployed(bad(), scenetest.Pod(named("fine"), scenetest.Ready(0))), target("Deployment", "cart")},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			in, m := input(c.c, c.target)
			d := run(t, in)
			sound(t, d, m)
			if d.Report.RootCause == nil || d.Report.RootCause.Object != deployCart || d.Report.Target != deployCart {
				t.Errorf("cause %+v, target %v", d.Report.RootCause, d.Report.Target)
			}
		})
	}
}

func TestChangeAndBlastRadius(t *testing.T) {
	c := deployed(scenetest.Pod(scenetest.Crashing(1, "Error", time.Second)), scenetest.Pod(named("cart-2"), scenetest.Crashing(1, "Error", time.Second)), scenetest.Pod(named("cart-3"), scenetest.Ready(0)))
	in, m := input(c, scenetest.CartPod)
	in.Incident.Timestamp = scenetest.Now.Add(-20 * time.Minute)
	d := run(t, in)
	sound(t, d, m)
	r := d.Report
	if r.Severity != "P1" || r.Impact != "Namespace" || r.BlastRadius["notReadyPods"] != 2 || r.BlastRadius["pods"] != 3 {
		t.Errorf("%s %s %v", r.Severity, r.Impact, r.BlastRadius)
	}
	if len(r.Changes) != 1 || !strings.Contains(r.Changes[0].What, "revision 7") || !strings.HasPrefix(r.Changes[0].Correlation, "10m0s before") {
		t.Errorf("changes %+v", r.Changes)
	}
	want := []string{"Pod/cart", "Pod/cart-2", "Deployment/cart"}
	for _, w := range want {
		if !slices.ContainsFunc(d.ClusterInfo.InvolvedResources, func(r nightcrier.Resource) bool { return r.Kind+"/"+r.Name == w }) {
			t.Errorf("%s is not among %v", w, d.ClusterInfo.InvolvedResources)
		}
	}
}

// What is still in its first revision cannot be rolled back, and a Namespace's
// trouble began when its workload's Pods did.
func TestAWorkloadThatWasNeverChanged(t *testing.T) {
	undo := func(r nightcrier.Report) bool {
		return slices.ContainsFunc(r.Actions, func(a nightcrier.Action) bool { return strings.HasPrefix(a.Action, "Roll back") })
	}
	for revision, want := range map[string]bool{"1": false, "7": true} {
		c := deployed(scenetest.Pod(scenetest.Crashing(1, "Error", time.Second), func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(scenetest.Now.Add(-10 * time.Minute))}}
		}))
		c.objects["Namespace//shop"] = &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
		c.objects["Deployment/shop/cart"].(*appsv1.Deployment).Annotations = map[string]string{"deployment.kubernetes.io/revision": revision}
		for _, target := range []nightcrier.Resource{scenetest.CartPod, {Kind: "Namespace", Name: "shop"}} {
			in, m := input(c, target)
			in.Incident.Timestamp = scenetest.Now
			got := run(t, in)
			sound(t, got, m)
			if undo(got.Report) != want {
				t.Errorf("revision %s, %s: %+v", revision, target, got.Report.Actions)
			}
			if len(got.Report.Changes) != 1 || !strings.HasPrefix(got.Report.Changes[0].Correlation, "20m0s before") {
				t.Errorf("%s: %+v", target, got.Report.Changes)
			}
		}
	}
}

func TestNodeTellsWhomItHurts(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Status: corev1.NodeStatus{
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, Reason: "NodeStatusUnknown"}},
	}}
	other := scenetest.Pod(named("web"), scenetest.Ready(0))
	other.Namespace = "front"
	in, m := input(newCluster(node, scenetest.Pod(), other), nightcrier.Resource{Kind: "Node", Name: "n1"})
	d := run(t, in)
	sound(t, d, m)
	r := d.Report
	if r.RootCause == nil || r.RootCause.Cause != "node-unreachable" || r.Impact != "Multi-Namespace" || r.Severity != "P1" {
		t.Errorf("cause %+v, impact %s, severity %s", r.RootCause, r.Impact, r.Severity)
	}
	if got := r.BlastRadius["namespaces"]; !slices.Equal(got.([]string), []string{"front", "shop"}) || r.BlastRadius["pods"] != 2 {
		t.Errorf("blast radius %v", r.BlastRadius)
	}
	if !slices.Contains(m.sources, "kubectl get pods -A --field-selector spec.nodeName=n1 -o json") {
		t.Errorf("reads %q", m.sources)
	}
}

// Who reports a workload as a warning may not know that nothing is left of it.
func TestAnOutageIsUrgent(t *testing.T) {
	broken := scenetest.Pod(scenetest.Crashing(1, "Error", time.Second))
	for want, c := range map[string]*cluster{
		"P2": deployed(broken), "P4": deployed(broken, scenetest.Pod(named("cart-2"), scenetest.Ready(0))),
	} {
		in, _ := input(c, scenetest.CartPod)
		in.Incident.Severity = nightcrier.Warning
		if r := run(t, in).Report; r.Severity != want {
			t.Errorf("%v: %s, want %s", r.BlastRadius, r.Severity, want)
		}
	}
}

func TestTargetThatIsGone(t *testing.T) {
	owner := nightcrier.Resource{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "shop", Name: "cart"}
	gone := nightcrier.Resource{Kind: "Pod", Namespace: "shop", Name: "cart-7d4b9c8f6d-old22"}
	cases := []struct {
		name    string
		c       *cluster
		verdict nightcrier.Verdict
	}{
		{"its successor fails too", deployed(scenetest.Pod(scenetest.Crashing(1, "Error", time.Second))), nightcrier.VerdictFault},
		{"its successor is well", wellDeployed(scenetest.Pod(scenetest.Ready(0))), nightcrier.VerdictRecovered},
		{"nobody counts its successor", deployed(scenetest.Pod(scenetest.Ready(0))), nightcrier.VerdictUndetermined},
		{"nothing is left", newCluster(namespace("shop")), nightcrier.VerdictUndetermined},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			in, m := input(c.c, gone)
			in.Incident.Owner = owner
			d := run(t, in)
			sound(t, d, m)
			if d.Report.Verdict != c.verdict {
				t.Errorf("verdict %s, want %s", d.Report.Verdict, c.verdict)
			}
			if !slices.ContainsFunc(d.Report.NotChecked, func(n nightcrier.NotChecked) bool { return strings.Contains(n.Why, "does not exist") }) {
				t.Errorf("nobody says that it is gone: %+v", d.Report.NotChecked)
			}
		})
	}
}

func TestObjectOfAnotherKind(t *testing.T) {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "data"}}
	in, m := input(newCluster(claim), nightcrier.Resource{Kind: "PersistentVolumeClaim", Namespace: "shop", Name: "data"})
	d := run(t, in)
	sound(t, d, m)
	if d.Report.Verdict != nightcrier.VerdictUndetermined || d.Report.Category != "Storage" {
		t.Errorf("verdict %s, category %s", d.Report.Verdict, d.Report.Category)
	}
	if !slices.Contains(m.sources, "kubectl get persistentvolumeclaim data -n shop -o json") {
		t.Errorf("the claim was not read: %q", m.sources)
	}
}

func TestNodeThatIsAwayIsAskedForOneLog(t *testing.T) {
	p := scenetest.Pod(scenetest.Crashing(1, "Error", time.Second))
	in, m := input(nodeAway{newCluster(p), new(int)}, scenetest.CartPod)
	d := run(t, in)
	sound(t, d, m)
	if n := *in.Reader.(nodeAway).asked; n != 1 {
		t.Errorf("asked %d times", n)
	}
	if d.Report.RootCause == nil || !strings.Contains(d.Incomplete, "no route to host") {
		t.Errorf("cause %+v, incomplete %q", d.Report.RootCause, d.Incomplete)
	}
}

// closed is a Reader whose credential may read nothing.
type closed struct{ *cluster }

func (closed) Get(context.Context, nightcrier.Resource) ([]byte, error) {
	return nil, nightcrier.Errorf(nightcrier.Refused, "may not get")
}

func (closed) List(context.Context, string, string, string, string, int) ([]byte, error) {
	return nil, nightcrier.Errorf(nightcrier.Refused, "may not list")
}

// nodeAway is a Reader whose nodes do not answer for logs.
type nodeAway struct {
	*cluster
	asked *int
}

func (n nodeAway) Logs(context.Context, string, string, string, bool, int64, int64) ([]byte, error) {
	*n.asked++
	return nil, nightcrier.Errorf(nightcrier.Unreachable, "answered 500: no route to host")
}

// A Job at its first try is not over, and nothing is wrong with it either; after a
// try that failed nobody can tell yet.
func TestJobThatRuns(t *testing.T) {
	for failed, want := range map[int32]nightcrier.Verdict{0: nightcrier.VerdictHealthy, 1: nightcrier.VerdictUndetermined} {
		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "migrate"},
			Spec:   batchv1.JobSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"job-name": "migrate"}}},
			Status: batchv1.JobStatus{Active: 1, Failed: failed}}
		p := scenetest.Pod(scenetest.Ready(time.Hour))
		p.Labels = job.Spec.Selector.MatchLabels
		yes := true
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: "migrate", Controller: &yes}}
		in, m := input(newCluster(job, p), nightcrier.Resource{Kind: "Job", Namespace: "shop", Name: "migrate"})
		in.Event.FaultType = nightcrier.Asked
		d := run(t, in)
		sound(t, d, m)
		if d.Report.Verdict != want {
			t.Errorf("after %d failures the verdict is %s", failed, d.Report.Verdict)
		}
	}
}

func TestJobThatCompletedSince(t *testing.T) {
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "migrate"},
		Status:     batchv1.JobStatus{Conditions: []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}},
	}
	in, m := input(newCluster(job), nightcrier.Resource{Kind: "Job", Namespace: "shop", Name: "migrate"})
	d := run(t, in)
	sound(t, d, m)
	if d.Report.Verdict != nightcrier.VerdictRecovered {
		t.Errorf("verdict %s", d.Report.Verdict)
	}
}

func TestWhatCannotBeReadIsSaid(t *testing.T) {
	away := nightcrier.Errorf(nightcrier.Unreachable, "cluster at 127.0.0.1:1 cannot be reached")
	t.Run("cluster away", func(t *testing.T) {
		c := newCluster()
		c.fail["Permissions"] = away
		in, m := input(c, scenetest.CartPod)
		d := run(t, in)
		sound(t, d, m)
		if d.Report.Usage.APIRequests != 1 {
			t.Errorf("%d requests to a cluster that is away", d.Report.Usage.APIRequests)
		}
		if n := d.Report.NotChecked[0]; n.What != nightcrier.TheCluster || !strings.HasPrefix(n.Why, "it did not answer: ") {
			t.Errorf("not checked %+v", n)
		}
		if !strings.Contains(d.Incomplete, "cannot be reached") || d.Report.RootCause.Confidence == nightcrier.High {
			t.Errorf("incomplete %q, cause %+v", d.Incomplete, d.Report.RootCause)
		}
	})
	t.Run("events forbidden", func(t *testing.T) {
		c := newCluster(scenetest.Pod(scenetest.Crashing(1, "Error", time.Second)))
		c.fail["Event"] = nightcrier.Errorf(nightcrier.Refused, "may not list events")
		in, m := input(c, scenetest.CartPod)
		d := run(t, in)
		sound(t, d, m)
		if d.Report.RootCause == nil || !strings.Contains(d.Incomplete, "events: the credential may not") || len(d.Report.NotChecked) != 2 || !strings.HasPrefix(d.Report.NotChecked[1].What, "why Pod shop/cart") {
			t.Errorf("incomplete %q, not checked %+v", d.Incomplete, d.Report.NotChecked)
		}
	})
	t.Run("everything forbidden", func(t *testing.T) {
		in, m := input(newCluster(), scenetest.CartPod)
		in.Reader = closed{newCluster()}
		d := run(t, in)
		sound(t, d, m)
		if n := d.Report.NotChecked[0]; n.What != nightcrier.TheCluster || !strings.HasPrefix(n.Why, "the credential may read nothing") {
			t.Errorf("not checked %+v", d.Report.NotChecked)
		}
	})
	t.Run("pod forbidden", func(t *testing.T) {
		c := newCluster()
		c.fail["Pod"] = nightcrier.Errorf(nightcrier.Refused, "may not get pods")
		in, m := input(c, scenetest.CartPod)
		d := run(t, in)
		sound(t, d, m)
		if d.Report.RootCause == nil || d.Report.RootCause.Cause != "crash-on-start" || d.Report.RootCause.Confidence != nightcrier.Low {
			t.Errorf("cause %+v", d.Report.RootCause)
		}
	})
}

func TestEventsAloneDoNotSpeakForAPodThatMayNotBeRead(t *testing.T) {
	event := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: "shop", Name: "cart.1"},
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "shop", Name: "cart"},
		Type:           corev1.EventTypeWarning, Reason: "Pulled", Message: "pulled", LastTimestamp: metav1.NewTime(scenetest.Now),
	}
	c := newCluster(event)
	c.fail["Pod"] = nightcrier.Errorf(nightcrier.Refused, "may not get pods")
	in, m := input(c, scenetest.CartPod)
	d := run(t, in)
	sound(t, d, m)
	if d.Report.RootCause == nil || d.Report.RootCause.Cause != "crash-on-start" {
		t.Errorf("what the event says was not used: %+v", d.Report.RootCause)
	}
}

func TestStatefulSetIsReadByItsSelector(t *testing.T) {
	labels := map[string]string{"app": "db"}
	set := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db"},
		Spec:       appsv1.StatefulSetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}},
	}
	in, m := input(newCluster(set, scenetest.Pod(scenetest.Crashing(1, "Error", time.Second), func(p *corev1.Pod) { p.Labels = labels })), nightcrier.Resource{Kind: "StatefulSet", Namespace: "shop", Name: "db"})
	d := run(t, in)
	sound(t, d, m)
	if r := d.Report.RootCause; r == nil || r.Cause != "crash-on-start" || r.Object.String() != "StatefulSet shop/db" {
		t.Errorf("cause %+v", r)
	}
}

func TestRunEndsWithItsContextAndItsEvidence(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("the server stops")
	in, _ := input(leaving{newCluster(scenetest.Pod()), func() { cancel(cause) }}, scenetest.CartPod)
	if _, err := Run(ctx, in); !errors.Is(err, cause) {
		t.Errorf("cancelled: %v", err)
	}
	full := nightcrier.Errorf(nightcrier.Exhausted, "evidence is full")
	in, _ = input(newCluster(scenetest.Pod()), scenetest.CartPod)
	in.Evidence = refuses{full}
	if _, err := Run(t.Context(), in); nightcrier.CodeOf(err) != nightcrier.Exhausted && !errors.Is(err, full) {
		t.Errorf("evidence full: %v", err)
	}
}

// leaving is a Reader during whose first read the caller leaves.
type leaving struct {
	*cluster
	leave func()
}

func (l leaving) Permissions(ctx context.Context, _ string) (map[string]any, error) {
	l.leave()
	return nil, ctx.Err()
}

type refuses struct{ err error }

func (r refuses) Record(string, string, []byte) (string, error) { return "", r.err }

func TestSecretsAreNotRecorded(t *testing.T) {
	p := scenetest.Pod(scenetest.Crashing(1, "Error", time.Second), func(p *corev1.Pod) {
		p.Annotations = map[string]string{corev1.LastAppliedConfigAnnotation: `{"env":"hunter2"}`}
		p.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}
		p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "DB_PASSWORD", Value: "hunter2"}, {Name: "MODE", Value: "fast"}}
		p.Status.ContainerStatuses[0].LastTerminationState.Terminated.Message = "cannot log in with hunter3"
	})
	c := newCluster(p)
	c.logs["cart/app/true"] = "fatal: login with hunter3 failed"
	in, m := input(c, scenetest.CartPod)
	in.Event.Context = "password was hunter3"
	in.Mask = func(s string) string { return strings.ReplaceAll(s, "hunter3", "‹secret:3f9a›") }
	d := run(t, in)
	sound(t, d, m)
	report, _ := json.Marshal(d)
	everything := strings.Join(m.bodies, "\n") + string(report)
	for _, leak := range []string{"hunter2", "hunter3", "managedFields"} {
		if strings.Contains(everything, leak) {
			t.Errorf("%s got through", leak)
		}
	}
	if !strings.Contains(everything, "fast") || !strings.Contains(d.Report.RootCause.Summary, "‹secret:3f9a›") {
		t.Errorf("too much was taken out: %s", d.Report.RootCause.Summary)
	}
}
