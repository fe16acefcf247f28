package diagnose_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/cluster/kube"
	"nightcrier.dev/nightcrier/internal/cluster/preflight"
	"nightcrier.dev/nightcrier/internal/diagnose"
	"nightcrier.dev/nightcrier/internal/record/evidence"
	"nightcrier.dev/nightcrier/internal/test/kubetest"
	"nightcrier.dev/nightcrier/internal/triage/report"
)

// world is a namespace of a real API server and a reader of it.
type world struct {
	*kubetest.Server
	ns     string
	reader reader
	now    func() time.Time // nil for that of the machine
}

// reader reads the world over its API.
type reader struct{ *kube.Client }

func (r reader) Permissions(ctx context.Context, ns string) (map[string]any, error) {
	known, err := preflight.Check(ctx, r.Client, "test", ns, time.Time{})
	return known.Permissions(), err
}

func newWorld(t *testing.T) *world {
	t.Helper()
	s := kubetest.Start(t)
	c, err := kube.Dial(s.ReadOnly(t), "", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return &world{Server: s, ns: s.Namespace(t), reader: reader{c}}
}

// diagnose diagnoses a fault of kind/name and checks that each fact's evidence
// can be looked up.
func (w *world) diagnose(t *testing.T, kind, name string) diagnose.Diagnosis {
	t.Helper()
	target := nightcrier.Resource{Kind: kind, Namespace: w.ns, Name: name}
	if kind == "Node" {
		target.Namespace = ""
	}
	ev, err := evidence.Open(filepath.Join(t.TempDir(), "evidence"))
	if err != nil {
		t.Fatal(err)
	}
	defer ev.Close()
	d, err := diagnose.Run(t.Context(), diagnose.Input{
		Incident: &nightcrier.Incident{ID: nightcrier.NewID(), Cluster: "test", Resource: target, Severity: nightcrier.Critical},
		Event:    nightcrier.Event{ID: "e1", Cluster: "test", FaultType: nightcrier.FaultPodNotReady, Resource: target, Context: "something is wrong"},
		Reader:   w.reader, Evidence: ev, Now: w.now,
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range d.Report.Facts {
		body, err := ev.Load(f.Evidence[0])
		if err != nil || len(body) == 0 {
			t.Errorf("%s %q: evidence %v: %v", f.ID, f.Text, f.Evidence, err)
		}
		if strings.Contains(string(body), "fieldsV1") {
			t.Errorf("%s was recorded with the fields that each manager has", f.Evidence[0])
		}
	}
	acceptable(t, d.Report, ev)
	return d
}

// acceptable checks that the report contract takes our own report as it is:
// complete when rendered, and each fact found again in its evidence.
func acceptable(t *testing.T, r nightcrier.Report, ev *evidence.Recorder) {
	t.Helper()
	md := report.Render(&r, report.Detail{})
	back, problems := report.Parse(md)
	if problems = append(problems, report.Validate(md, &back)...); len(problems) > 0 {
		t.Errorf("the rendered report has problems: %v", problems)
	}
	report.Check(&r, func(id string) (report.Recorded, bool) {
		body, err := ev.Load(id)
		return report.Recorded{Body: body}, err == nil
	})
	for _, f := range r.Facts {
		if f.Check == nightcrier.Unseen {
			t.Errorf("%s is not found in its evidence: %q, quote %q", f.ID, f.Text, f.Quote)
		}
	}
}

// later is when what a test has just made has stood for long enough to be judged.
func later() time.Time { return time.Now().Add(3 * time.Minute) }

// runs makes the Pod of a Deployment run well, and the Deployment count it.
func (w *world) runs(t *testing.T, p *corev1.Pod) {
	t.Helper()
	w.Running(t, p)
	w.UpdateStatus(t, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Labels["app"]},
		Status:     appsv1.DeploymentStatus{ObservedGeneration: 1, Replicas: 1, UpdatedReplicas: 1, ReadyReplicas: 1, AvailableReplicas: 1},
	})
}

// deployed makes a Deployment and one Pod of it.
func (w *world) deployed(t *testing.T, name string) *corev1.Pod {
	t.Helper()
	_, rs := w.Deployment(t, w.ns, name)
	return w.Pod(t, w.ns, rs.Name+"-x7k2p", rs)
}

func (w *world) failedJob(t *testing.T, name string) {
	t.Helper()
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: name},
		Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever,
			Containers:    []corev1.Container{{Name: "app", Image: "registry.invalid/app:1"}},
		}}},
	}
	w.Create(t, job)
	started, message := metav1.Now(), "Job has reached the specified backoff limit"
	condition := func(kind batchv1.JobConditionType) batchv1.JobCondition {
		return batchv1.JobCondition{
			Type: kind, Status: corev1.ConditionTrue, Reason: batchv1.JobReasonBackoffLimitExceeded, Message: message,
			LastTransitionTime: started, LastProbeTime: started,
		}
	}
	job.Status = batchv1.JobStatus{StartTime: &started, Failed: 1, Conditions: []batchv1.JobCondition{condition(batchv1.JobFailureTarget), condition(batchv1.JobFailed)}}
	w.UpdateStatus(t, job)
}

func TestFaultsOfARealServer(t *testing.T) {
	w := newWorld(t)
	cases := []struct {
		name   string
		make   func(t *testing.T) (kind, name string)
		cause  string
		object string

		confidence nightcrier.Confidence
	}{
		{"crash loop", func(t *testing.T) (string, string) {
			p := w.deployed(t, "crashing")
			w.CrashLoop(t, p, 3, 5)
			w.SetLogs(p, true, "starting\nFATAL: no database at db:5432\n")
			w.Warn(t, p, "BackOff", "Back-off restarting failed container")
			return "Pod", p.Name
		}, "crash-on-start", "Deployment/crashing", nightcrier.High},
		{"OOM", func(t *testing.T) (string, string) {
			p := w.deployed(t, "hungry")
			w.OOMKill(t, p, 2)
			return "Pod", p.Name
		}, "oom-killed", "Deployment/hungry", nightcrier.High},
		{"image", func(t *testing.T) (string, string) {
			p := w.deployed(t, "typo")
			w.ImagePullBackOff(t, p)
			w.Warn(t, p, "Failed", `Failed to pull image "registry.invalid/app:1": rpc error: code = NotFound desc = not found`)
			return "Pod", p.Name
		}, "image-not-found", "Deployment/typo", nightcrier.High},
		{"the same from the Deployment", func(*testing.T) (string, string) {
			return "Deployment", "typo"
		}, "image-not-found", "Deployment/typo", nightcrier.High},
		{"unschedulable", func(t *testing.T) (string, string) {
			_, rs := w.Deployment(t, w.ns, "large")
			p := w.Unschedulable(t, w.ns, rs.Name+"-x7k2p", rs, "0/3 nodes are available: 3 Insufficient cpu. preemption: 0/3 nodes are available.")
			return "Pod", p.Name
		}, "unschedulable-cpu", "Deployment/large", nightcrier.High},
		{"Pod without an owner", func(t *testing.T) (string, string) {
			p := w.Pod(t, w.ns, "alone", nil)
			w.CrashLoop(t, p, 1, 1)
			return "Pod", p.Name
		}, "crash-on-start", "Pod/alone", nightcrier.Medium},
		{"job", func(t *testing.T) (string, string) {
			w.failedJob(t, "migrate")
			return "Job", "migrate"
		}, "job-backoff-limit", "Job/migrate", nightcrier.Medium},
		{"node", func(t *testing.T) (string, string) {
			n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: w.ns + "-node"}}
			w.Create(t, n)
			n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionFalse, Reason: "KubeletNotReady", Message: "PLEG is not healthy"}}
			w.UpdateStatus(t, n)
			return "Node", n.Name
		}, "node-runtime-down", "Node/" + w.ns + "-node", nightcrier.High},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			kind, name := c.make(t)
			r := w.diagnose(t, kind, name).Report
			if r.Verdict != nightcrier.VerdictFault || r.RootCause == nil {
				t.Fatalf("verdict %s, not checked %+v, facts %+v", r.Verdict, r.NotChecked, r.Facts)
			}
			if o := r.RootCause.Object; r.RootCause.Cause != c.cause || o.Kind+"/"+o.Name != c.object {
				t.Errorf("cause %s of %s, want %s of %s", r.RootCause.Cause, o, c.cause, c.object)
			}
			if c.name == "crash loop" && !strings.Contains(r.RootCause.Summary, "FATAL: no database at db:5432") {
				t.Errorf("the log is not quoted: %q, not checked %+v", r.RootCause.Summary, r.NotChecked)
			}
			if r.CheckedShare != 1 || r.Facts[0].Check != nightcrier.Verified || r.RootCause.Confidence != c.confidence {
				t.Errorf("share %v, first fact %+v, cause %+v", r.CheckedShare, r.Facts[0], r.RootCause)
			}
			if r.Usage.APIRequests > 30 { // no more than the kubectl calls that gather the same
				t.Errorf("%d reads", r.Usage.APIRequests)
			}
		})
	}
}

func TestMemoryLimitOfARealPod(t *testing.T) {
	w := newWorld(t)
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: "hungry"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "app", Image: "registry.invalid/app:1",
			Env:       []corev1.EnvVar{{Name: "API_TOKEN", Value: "hunter2"}},
			Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")}},
		}}},
	}
	w.Create(t, p)
	w.OOMKill(t, p, 2)
	d := w.diagnose(t, "Pod", "hungry")
	if s := d.Report.RootCause.Summary; !strings.Contains(s, "64Mi") {
		t.Errorf("summary %q", s)
	}
	if d.Permissions["canWrite"] != "no" || d.Permissions["canListPods"] != true {
		t.Errorf("permissions %v", d.Permissions)
	}
}

func TestHealthOfARealServer(t *testing.T) {
	w := newWorld(t)
	p := w.deployed(t, "fine")
	w.runs(t, p)
	w.now = later
	d := w.diagnose(t, "Pod", p.Name)
	if d.Report.Verdict != nightcrier.VerdictRecovered || d.Report.RootCause != nil || len(d.Report.Hypotheses) == 0 {
		t.Errorf("verdict %s, cause %+v", d.Report.Verdict, d.Report.RootCause)
	}
	gone := w.diagnose(t, "Pod", "never-was")
	if gone.Report.RootCause != nil {
		t.Errorf("a Pod that does not exist has cause %+v", gone.Report.RootCause)
	}
	w.ns = "of-another-cluster"
	for _, kind := range []string{"Pod", "Deployment", "PersistentVolumeClaim"} {
		if r := w.diagnose(t, kind, "never-was").Report; r.Verdict != nightcrier.VerdictUndetermined || r.RootCause != nil {
			t.Errorf("a %s in a namespace that does not exist: %s, cause %+v", kind, r.Verdict, r.RootCause)
		}
	}
}
