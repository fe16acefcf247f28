package e2e

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/ingest/observe"
	"nightcrier.dev/nightcrier/internal/record/store"
	"nightcrier.dev/nightcrier/internal/test/kubetest"
)

// Times of a watch that a test can wait for. The detector's patience is with
// timestamps of whole seconds, so it cannot be much shorter.
const watchPatience = 0.05

func watchTimings() observe.Timings {
	return observe.Timings{BackoffMin: 20 * time.Millisecond, BackoffMax: 500 * time.Millisecond, Tick: 200 * time.Millisecond}
}

// ward is a real API server on which things go wrong, and what is known of them.
type ward struct {
	*site
	t    *testing.T
	kube *kubetest.Server
	ns   string
	pods map[string]*corev1.Pod // by Deployment
}

func newWard(t *testing.T) *ward {
	kube := kubetest.Isolated(t) // the whole cluster is watched
	s := newSite(t, "")
	s.clusters = nil
	s.env["NIGHTCRIER_STORM_FINGERPRINTS"] = "100"
	s.env["NIGHTCRIER_MAX_CONCURRENT_PER_CLUSTER"] = "5"
	return &ward{site: s, t: t, kube: kube, ns: kube.Namespace(t), pods: map[string]*corev1.Pod{}}
}

// serve starts the product in a process of its own, watching the API server.
func (w *ward) serve(kubeconfig string) *server {
	w.Helper()
	return w.site.serve(func(o *order) { o.Watched = map[string]string{"real": kubeconfig} }).ready()
}

// deploy makes a Deployment with one Pod that runs.
func (w *ward) deploy(name string) *corev1.Pod {
	w.Helper()
	_, rs := w.kube.Deployment(w.t, w.ns, name)
	pod := w.kube.Pod(w.t, w.ns, rs.Name+"-x2k9q", rs)
	w.kube.Running(w.t, pod)
	w.pods[name] = pod
	return pod
}

func (w *ward) heal(name string) {
	w.Helper()
	w.kube.Running(w.t, w.pods[name])
}

// available makes a Deployment whose controller says whether enough Pods serve.
func (w *ward) available(d *appsv1.Deployment, is bool) {
	w.Helper()
	status, count := corev1.ConditionFalse, int32(0)
	if is {
		status, count = corev1.ConditionTrue, 1
	}
	now := metav1.Now()
	d.Status = appsv1.DeploymentStatus{ObservedGeneration: d.Generation, Replicas: 1, UpdatedReplicas: 1, ReadyReplicas: count, AvailableReplicas: count,
		UnavailableReplicas: 1 - count, Conditions: []appsv1.DeploymentCondition{
			{Type: appsv1.DeploymentAvailable, Status: status, Reason: "MinimumReplicasUnavailable", LastTransitionTime: now, LastUpdateTime: now},
			{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: "NewReplicaSetAvailable", LastTransitionTime: now, LastUpdateTime: now},
		}}
	w.kube.UpdateStatus(w.t, d)
}

// failedJob is a Job that has given up.
func (w *ward) failedJob(name string) *batchv1.Job {
	w.Helper()
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: name}, Spec: batchv1.JobSpec{
		Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever,
			Containers: []corev1.Container{{Name: "app", Image: "registry.invalid/app:1"}}}}}}
	w.kube.Create(w.t, job)
	now := metav1.Now()
	failed := func(kind batchv1.JobConditionType) batchv1.JobCondition {
		return batchv1.JobCondition{Type: kind, Status: corev1.ConditionTrue, Reason: batchv1.JobReasonBackoffLimitExceeded,
			Message: "Job has reached the specified backoff limit", LastTransitionTime: now, LastProbeTime: now}
	}
	job.Status = batchv1.JobStatus{StartTime: &now, Failed: 7, Conditions: []batchv1.JobCondition{failed(batchv1.JobFailureTarget), failed(batchv1.JobFailed)}}
	w.kube.UpdateStatus(w.t, job)
	return job
}

func (w *ward) nodeReady(is bool) {
	w.Helper()
	status, reason := corev1.ConditionTrue, "KubeletReady"
	if !is {
		status, reason = corev1.ConditionFalse, "KubeletNotReady"
	}
	node := w.kube.Node(w.t)
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status, Reason: reason,
		LastTransitionTime: metav1.Now(), LastHeartbeatTime: metav1.Now()}}
	w.kube.UpdateStatus(w.t, node)
}

// known are the fingerprints of all incidents with their conditions, without
// the part that they share. An incident that is there twice is an error.
func (w *ward) known() map[string]nightcrier.Condition {
	w.Helper()
	got := map[string]nightcrier.Condition{}
	w.look(func(st *store.Store) {
		for _, inc := range w.incidents(st) {
			name := fmt.Sprintf("%s/%s %s", inc.Owner.Kind, inc.Owner.Name, inc.Class)
			if _, again := got[name]; again {
				w.Fatalf("%s has two incidents", name)
			}
			got[name] = inc.Condition
		}
	})
	return got
}

// await waits until these are the incidents, each investigated, in these
// conditions.
func (w *ward) await(want map[string]nightcrier.Condition) {
	w.Helper()
	w.eventually(func() string {
		if got := w.known(); !maps.Equal(got, want) {
			return fmt.Sprintf("incidents %v, want %v", got, want)
		}
		return ""
	})
	w.ended()
}

// On a real API server each fault opens one incident, at the workload that a
// person would mend, and is over when it is healed. Neither a killed nor a
// restarted server tells anything twice, or misses what happened meanwhile.
func TestWatch(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	kube, kubeconfig := w.kube, w.kube.ReadOnly(t)
	active, cleared := nightcrier.ConditionActive, nightcrier.ConditionCleared

	// What is broken at the start, and what is not.
	kube.CrashLoop(t, w.deploy("crash"), 7, 4)
	kube.ImagePullBackOff(t, w.deploy("pull"))
	w.deploy("whole")
	v := w.serve(kubeconfig)
	want := map[string]nightcrier.Condition{"Deployment/crash workload": active, "Deployment/pull workload": active}
	w.await(want)

	// What breaks while it is watched.
	w.nodeReady(false)
	kube.OOMKill(t, w.deploy("oom"), 3)
	d, rs := kube.Deployment(t, w.ns, "stuck")
	stuck := kube.Unschedulable(t, w.ns, rs.Name+"-aaaaa", rs, "0/3 nodes are available: 3 Insufficient cpu.")
	w.available(d, true)
	down, _ := kube.Deployment(t, w.ns, "down")
	w.available(down, false)
	job := w.failedJob("report")
	for _, name := range []string{"Deployment/oom workload", "Deployment/stuck scheduling", "Deployment/down workload", "Job/report job", "Node/" + kubetest.NodeName + " node"} {
		want[name] = active
	}
	w.await(want)
	v.kill()

	// While nobody watches one fault heals, another begins; the rest goes on.
	w.heal("oom")
	kube.CrashLoop(t, w.deploy("later"), 1, 9)
	v = w.serve(kubeconfig)
	want["Deployment/oom workload"], want["Deployment/later workload"] = cleared, active
	w.await(want)

	// All heal, each in its way.
	for _, name := range []string{"crash", "pull", "later"} {
		w.heal(name)
	}
	kube.Delete(t, stuck)
	kube.Delete(t, job)
	w.available(down, true)
	w.nodeReady(true)
	for name := range want {
		want[name] = cleared
	}
	w.await(want)
	v.term()

	// A healthy cluster is no news.
	v = w.serve(kubeconfig)
	time.Sleep(2 * time.Second) // nothing must happen in it
	w.await(want)
	v.term()
	w.look(func(st *store.Store) {
		for _, inc := range w.incidents(st) {
			if inc.Status != nightcrier.Resolved || !slices.Equal(inc.SeenBy, nil) || inc.ClearedAt.IsZero() || inc.Owner.Namespace != w.ns && inc.Owner.Kind != "Node" {
				t.Errorf("incident %+v", inc)
			}
			told := 2 // its begin and its end, over three servers
			if inc.Owner.Name == "oom" {
				told = 3 // it was out of memory, and then in a loop
			}
			if inc.EventCount != told {
				t.Errorf("%s was told in %d events, want %d", inc.Fingerprint, inc.EventCount, told)
			}
		}
	})
}
