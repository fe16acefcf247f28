package diagnose

import (
	"os"
	"strings"
	"testing"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scenetest"
	"nightcrier.dev/nightcrier/internal/ingest/dialect"
)

func heard(kind, faultType, context string) nightcrier.Event {
	r := nightcrier.Resource{Kind: kind, Namespace: "shop", Name: "cart-7d4b9c8f6d-x7k2p"}
	if kind == "Node" {
		r = nightcrier.Resource{Kind: "Node", Name: "n1"}
	}
	return nightcrier.Event{ID: "e1", Cluster: "prod-1", FaultType: faultType, Resource: r, Context: context, Severity: nightcrier.Critical}
}

// The contexts are what real senders wrote.
func TestWithoutACredential(t *testing.T) {
	legacy := heard("Pod", "CrashLoop", "Back-off restarting failed container app in pod crashy_default(ec4bfddc)")
	legacy.Logs = []nightcrier.ContainerLog{
		{Container: "app", Sample: "FATAL: cannot connect to database db:5432: connection refused\n"},
		{Container: "app", Previous: true, Sample: "unable to retrieve container logs for containerd://3551d4"},
	}
	cases := []struct {
		name  string
		event nightcrier.Event
		cause string
		says  string
	}{
		{"crash loop", heard("Pod", "CrashLoop", "Container entered CrashLoopBackOff state, restart count: 1, waiting message: back-off 10s restarting failed container=app pod=real-crashloop_faults(48c9810e), last exit code: 3, last reason: Error, termination message: FATAL: db refused"), "crash-on-start", "exit code 3"},
		{"OOM", heard("Pod", "PodCrash", "Container crashed with exit code 137, reason: OOMKilled, message: out of memory"), "oom-killed", "memory"},
		{"OOM in a loop", heard("Pod", "CrashLoop", "Container entered CrashLoopBackOff state, restart count: 1, waiting message: back-off 10s restarting failed container=app pod=x, last exit code: 137, last reason: OOMKilled"), "oom-killed", "memory"},
		{"legacy with its log", legacy, "dependency-refused", "connection refused"},
		{"image", heard("Pod", "ImagePull", `Failed to pull image "x:1": rpc error: code = NotFound desc = not found`), "image-not-found", "no such image"},
		{"image by its text", heard("Pod", "Failed", `Error: ErrImageNeverPull`), "image-not-present", "forbids pulling"},
		{"unschedulable", heard("Pod", "Unschedulable", "0/3 nodes are available: 3 Insufficient cpu."), "unschedulable-cpu", "CPU"},
		{"mount", heard("Pod", "FailedMount", `MountVolume.SetUp failed for volume "c" : configmap "conf" not found`), "missing-configmap", "ConfigMap"},
		{"job", heard("Job", "JobFailure", "Job failed, reason: BackoffLimitExceeded, message: Job has reached the specified backoff limit"), "job-backoff-limit", "failed"},
		{"OOM by its name", heard("Pod", "OOMKilled", "Memory cgroup out of memory"), "oom-killed", "memory"},
		{"evicted", heard("Pod", "Evicted", "The node was low on resource: memory."), "pod-evicted", "evicted"},
		{"start failure", heard("Pod", "StartFailure", `Error: secret "db" not found`), "missing-secret", "Secret"},
		{"command", heard("Pod", "StartFailure", `exec: "servr": executable file not found in $PATH`), "command-not-found", "command"},
		{"liveness", heard("Pod", "ProbeFailed", "Container app failed liveness probe, will be restarted"), "liveness-probe-failing", "probe"},
		{"readiness", heard("Pod", "ProbeFailed", "Readiness probe failed: HTTP probe failed with statuscode: 503"), "readiness-probe-failing", "503"},
		{"rollout", heard("Deployment", "DeploymentFailure", "Deployment rollout failed: ProgressDeadlineExceeded, message: x"), "rollout-stalled", "ProgressDeadlineExceeded"},
		{"quota", heard("ReplicaSet", "FailedCreate", `Error creating: pods "x" is forbidden: exceeded quota: compute`), "quota-exceeded", "quota"},
		{"job deadline", heard("Job", "JobFailure", "Job was active longer than specified deadline"), "job-deadline-exceeded", "deadline"},
		{"node pressure", heard("Node", "NodePressure", "Node has memory pressure"), "node-memory-pressure", "memory"},
		{"node", heard("Node", "NodeUnhealthy", "Node became unhealthy: Ready=False, reason: KubeletNotReady, message: PLEG is not healthy"), "node-runtime-down", "KubeletNotReady"},
		{"node unknown", heard("Node", "NodeUnhealthy", "Node became unhealthy: Ready=Unknown, reason: NodeStatusUnknown"), "node-unreachable", "NodeStatusUnknown"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			d, m := hearsay(t, c.event)
			r := d.Report
			if r.RootCause == nil || r.RootCause.Cause != c.cause || !strings.Contains(r.RootCause.Summary, c.says) {
				t.Fatalf("cause %+v", r.RootCause)
			}
			if r.RootCause.Confidence == nightcrier.High {
				t.Error("high confidence in what nobody checked")
			}
			if c.event.Resource.Kind == "Pod" && r.RootCause.Object.String() != "Deployment shop/cart" {
				t.Errorf("object %s", r.RootCause.Object)
			}
			for _, f := range r.Facts {
				if f.Check != nightcrier.Seen || f.Evidence[0] != "E1" {
					t.Errorf("more than the event is claimed: %+v", f)
				}
			}
			if len(m.bodies) != 1 || r.Usage.APIRequests != 0 || !strings.Contains(d.Incomplete, "no credential") || len(r.NotChecked) != 1 {
				t.Errorf("%d bodies, %d requests, incomplete %q", len(m.bodies), r.Usage.APIRequests, d.Incomplete)
			}
		})
	}
}

// What real servers sent, through the parser of payloads.
func TestCapturedPayloads(t *testing.T) {
	const dir = "../ingest/dialect/testdata/mcp-"
	cases := []struct{ file, cause string }{
		{"current.notification.faults.CrashLoop.real-crashloop", "crash-on-start"},
		{"current.notification.faults.CrashLoop.synth", "oom-killed"},
		{"current.notification.faults.PodCrash.synth", "oom-killed"},
		{"current.notification.faults.DeploymentFailure.real-deploy", "rollout-stalled"},
		{"current.notification.faults.JobFailure.real-job", "job-backoff-limit"},
		{"current.notification.events.BackOff.real-crashloop", "crash-on-start"},
		{"current.notification.events.BackoffLimitExceeded.real-job", "job-backoff-limit"},
		{"current.notification.events.ErrImageNeverPull.real-imagepull", "image-not-present"},
		{"current.notification.events.Failed.real-imagepull", "image-not-present"},
		{"legacy.notification.faults.BackOff.crashy", "dependency-refused"},
		{"legacy.notification.faults.BackOff.real-crashloop", "dependency-refused"},
		{"legacy.notification.faults.ErrImageNeverPull.real-deploy", "image-not-present"},
		{"legacy.notification.faults.Failed.real-deploy", "image-not-present"},
		{"legacy.notification.resource-faults.CrashLoop.synth", "oom-killed"},
	}
	for _, c := range cases {
		t.Run(c.file, func(t *testing.T) {
			raw, err := os.ReadFile(dir + c.file + ".json")
			if err != nil {
				t.Fatal(err)
			}
			e, err := dialect.Parse(raw)
			if err != nil {
				t.Fatal(err)
			}
			d, _ := hearsay(t, e)
			if r := d.Report.RootCause; r == nil || r.Cause != c.cause {
				t.Errorf("cause %+v, want %s; fault type %s, context %q", r, c.cause, e.FaultType, e.Context)
			}
		})
	}
}

func hearsay(t *testing.T, e nightcrier.Event) (Diagnosis, *memory) {
	t.Helper()
	owner := e.Resource
	if owner.Kind == "Pod" {
		owner = nightcrier.Resource{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "shop", Name: "cart"}
	}
	in, m := input(nil, e.Resource)
	in.Reader, in.Event, in.Incident.Owner = nil, e, owner
	d := run(t, in)
	sound(t, d, m)
	return d, m
}

func TestEventThatSaysNothing(t *testing.T) {
	d, _ := hearsay(t, heard("Pod", "Mystery", "something is odd"))
	if d.Report.Verdict != nightcrier.VerdictUndetermined || len(d.Report.Actions) != 1 {
		t.Errorf("verdict %s, actions %+v", d.Report.Verdict, d.Report.Actions)
	}
}

func FuzzHearsay(f *testing.F) {
	f.Add("Pod", "CrashLoop", "last exit code: 137, last reason: OOMKilled", "app")
	f.Add("Node", "NodeUnhealthy", "Ready=Unknown, reason: x, message: ", "")
	f.Add("Job", scenetest.HostileText, scenetest.HostileText, scenetest.HostileText)
	f.Add("Pod", "", strings.Repeat("0/3 nodes are available: ", 1000), "\xff\xfe")
	f.Fuzz(func(t *testing.T, kind, faultType, context, container string) {
		e := heard("Pod", faultType, context)
		e.Resource.Kind, e.Container = kind, container
		e.Logs = []nightcrier.ContainerLog{{Container: container, Sample: context}}
		hearsay(t, e)
	})
}
