package rules

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scene"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scenetest"
)

// rulecase is one row of a rule's table: what the cluster holds, and the causes
// that all rules together find in it, the best first.
type rulecase struct {
	name   string
	facts  *scene.Facts
	causes []string
}

// check runs all rules, so that a row also shows what outranks what.
func check(t *testing.T, cases []rulecase) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			for _, f := range ApplyRules(c.facts) {
				got = append(got, f.Cause)
				scenetest.CheckFinding(t, f)
			}
			if !slices.Equal(got, c.causes) {
				t.Errorf("causes %v, want %v", got, c.causes)
			}
		})
	}
}

// withEvent adds an Event about Pod cart, seen so long ago.
func withEvent(f *scene.Facts, reason, message string, ago time.Duration) *scene.Facts {
	f.Events = append(f.Events, scene.Read[corev1.Event]{Object: corev1.Event{
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "shop", Name: "cart"},
		Type:           corev1.EventTypeWarning, Reason: reason, Message: message,
		LastTimestamp: metav1.NewTime(scenetest.Now.Add(-ago)),
	}, Ref: scene.Ref{Evidence: "E2", Source: "get events"}})
	return f
}

// seenTimes makes the last Event one that was seen so often.
func seenTimes(f *scene.Facts, n int32) *scene.Facts {
	f.Events[len(f.Events)-1].Object.Count = n
	return f
}

func ownedBy(f *scene.Facts, kind, name string) *scene.Facts {
	f.Owner = nightcrier.Resource{Kind: kind, Namespace: "shop", Name: name}
	return f
}

// often is ready with so many restarts, the last so long ago, and keeps how long
// its last run was.
func often(restarts int32, since time.Duration) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		st := &p.Status.ContainerStatuses[0]
		st.RestartCount = restarts
		end := st.LastTerminationState.Terminated
		ran := end.FinishedAt.Sub(end.StartedAt.Time)
		scenetest.Ready(since)(p)
		end.StartedAt = metav1.NewTime(end.FinishedAt.Add(-ran))
	}
}

func waiting(reason, message string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Phase = corev1.PodPending
		p.Status.ContainerStatuses[0].State.Waiting = &corev1.ContainerStateWaiting{Reason: reason, Message: message}
	}
}

func limits(request, limit string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources = corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(request)},
			Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(limit)},
		}
	}
}

func TestOutOfMemory(t *testing.T) {
	check(t, []rulecase{
		{"loop", scenetest.FactsOf(scenetest.Pod(scenetest.Crashing(137, "OOMKilled", time.Second))), []string{"oom-killed"}},
		{"loop with a limit", scenetest.FactsOf(scenetest.Pod(scenetest.Crashing(137, "OOMKilled", time.Second), limits("32Mi", "64Mi"))), []string{"oom-killed"}},
		{"up again for a minute", scenetest.FactsOf(scenetest.Pod(scenetest.Crashing(137, "OOMKilled", time.Hour), scenetest.Ready(time.Minute))), []string{"oom-killed"}},
		{"up again for five days", scenetest.FactsOf(scenetest.Pod(scenetest.Crashing(137, "OOMKilled", time.Hour), scenetest.Ready(5*24*time.Hour))), nil},
		{"before it began", scenetest.FactsOf(scenetest.Pod(scenetest.Crashing(128, "StartError", 0), limits("1Mi", "1Mi"), func(p *corev1.Pod) {
			p.Status.ContainerStatuses[0].LastTerminationState.Terminated.Message = "failed to create containerd task: OCI runtime create failed: runc create failed: unable to start container process: container init was OOM-killed (memory limit too low?): unknown"
		})), []string{"oom-killed"}},
		{"killed, but not for memory", scenetest.FactsOf(scenetest.Pod(scenetest.Crashing(137, "Error", time.Hour))), []string{"container-crash"}},
		{"in a Job that gave up", func() *scene.Facts {
			f := ownedBy(scenetest.FactsOf(scenetest.Pod(scenetest.Crashing(137, "OOMKilled", time.Second))), "Job", "migrate")
			f.Job = &scene.Read[batchv1.Job]{Object: failedWith("BackoffLimitExceeded"), Ref: scene.Ref{Evidence: "E3", Source: "get job"}}
			return f
		}(), []string{"oom-killed", "job-backoff-limit"}},
	})
	n := ApplyRules(scenetest.FactsOf(scenetest.Pod(scenetest.Crashing(137, "OOMKilled", time.Second), limits("32Mi", "64Mi"))))[0]
	if !strings.Contains(n.Summary, "64Mi") || !strings.Contains(n.Observed[1].Text, "requests 32Mi") {
		t.Errorf("the limit is not told: %+v", n)
	}
}

func TestCrash(t *testing.T) {
	init := func(p *corev1.Pod) {
		p.Spec.InitContainers, p.Spec.Containers = p.Spec.Containers, []corev1.Container{{Name: "web"}}
		p.Status.InitContainerStatuses, p.Status.ContainerStatuses = p.Status.ContainerStatuses, []corev1.ContainerStatus{{Name: "web"}}
	}
	message := func(text string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Status.ContainerStatuses[0].LastTerminationState.Terminated.Message = text
		}
	}
	between := func(p *corev1.Pod) {
		st := &p.Status.ContainerStatuses[0]
		st.State = corev1.ContainerState{Terminated: st.LastTerminationState.Terminated}
	}
	check(t, []rulecase{
		{"on start", scenetest.FactsOf(scenetest.Pod(scenetest.Crashing(1, "Error", time.Second))), []string{"crash-on-start"}},
		{"at the bound", scenetest.FactsOf(scenetest.Pod(scenetest.Crashing(1, "Error", time.Minute))), []string{"crash-on-start"}},
		{"after the bound", scenetest.FactsOf(scenetest.Pod(scenetest.Crashing(1, "Error", time.Minute+time.Second))), []string{"container-crash"}},
		{"init container", scenetest.FactsOf(scenetest.Pod(scenetest.Crashing(1, "Error", time.Second), init)), []string{"crash-on-start"}},
		{"recovered long ago", scenetest.FactsOf(scenetest.Pod(scenetest.Crashing(1, "Error", time.Second), scenetest.Ready(scene.SettleTime+time.Second))), nil},
		{"ready, but only just", scenetest.FactsOf(scenetest.Pod(scenetest.Crashing(1, "Error", time.Second), scenetest.Ready(scene.SettleTime-time.Second))), []string{"crash-on-start"}},
		{"never failed", scenetest.FactsOf(scenetest.Pod(scenetest.Ready(0))), nil},
		{"fails every two hours, up for three", scenetest.FactsOf(scenetest.Pod(scenetest.Crashing(1, "Error", 2*time.Hour), often(5, 3*time.Hour))), []string{"container-crash"}},
		{"failed every two hours, up for five", scenetest.FactsOf(scenetest.Pod(scenetest.Crashing(1, "Error", 2*time.Hour), often(5, 5*time.Hour))), nil},
		{"failed twice in months, up for an hour", scenetest.FactsOf(scenetest.Pod(scenetest.Crashing(1, "Error", 1000*time.Hour), often(2, time.Hour))), nil},
		{"failed every month, up for a day", scenetest.FactsOf(scenetest.Pod(scenetest.Crashing(1, "Error", 1000*time.Hour), often(5, 24*time.Hour))), nil},
		{"loop whose end is forgotten", scenetest.FactsOf(scenetest.Pod(waiting("CrashLoopBackOff", "back-off 5m0s"))), []string{"crash-on-start"}},
		{"command not found", scenetest.FactsOf(scenetest.Pod(scenetest.Crashing(127, "Error", 0))), []string{"command-not-found"}},
		{"runtime cannot start it", scenetest.FactsOf(scenetest.Pod(scenetest.Crashing(128, "StartError", 0), message(`exec: "servr": executable file not found in $PATH`))), []string{"command-not-found"}},
		{"runtime cannot start it for another reason", scenetest.FactsOf(scenetest.Pod(scenetest.Crashing(128, "StartError", 0), message("cgroup trouble"))), []string{"container-not-started"}},
		{"ends without an error", scenetest.FactsOf(scenetest.Pod(scenetest.Crashing(0, "Completed", time.Second))), []string{"main-process-exits"}},
		{"ends without an error, as a Job's may", ownedBy(scenetest.FactsOf(scenetest.Pod(scenetest.Crashing(0, "Completed", time.Second))), "Job", "x"), nil},
		{"ends without an error, seen between two starts", scenetest.FactsOf(scenetest.Pod(scenetest.Crashing(0, "Completed", time.Second), between)), []string{"main-process-exits"}},
		{"ended without an error once, after an hour", scenetest.FactsOf(scenetest.Pod(scenetest.Crashing(0, "Completed", time.Hour), often(1, time.Minute))), nil},
		{"evicted: it is told elsewhere", scenetest.FactsOf(scenetest.Pod(scenetest.Crashing(137, "Error", time.Hour), func(p *corev1.Pod) { p.Status.Reason = "NodeShutdown" })), nil},
		{"Pod of a Job that still tries", ownedBy(scenetest.FactsOf(scenetest.Pod(scenetest.Crashing(1, "Error", time.Second))), "Job", "x"), []string{"crash-on-start"}},
		{"two Pods of one owner", scenetest.FactsOf(scenetest.Pod(scenetest.Crashing(1, "Error", time.Second)), scenetest.Pod(scenetest.Crashing(1, "Error", time.Second))), []string{"crash-on-start"}},
	})
}

func TestImageNotPulled(t *testing.T) {
	pulling := func() *scene.Facts {
		return scenetest.FactsOf(scenetest.Pod(waiting("ImagePullBackOff", `Back-off pulling image "registry.invalid/cart:7"`)))
	}
	says := func(message string) *scene.Facts { return withEvent(pulling(), "Failed", message, time.Minute) }
	const pull = `Failed to pull image "registry.invalid/cart:7": rpc error: code = `
	check(t, []rulecase{
		{"no such tag", says(pull + `NotFound desc = failed to resolve reference: registry.invalid/cart:7: not found`), []string{"image-not-found"}},
		{"manifest unknown", says(pull + "Unknown desc = manifest unknown"), []string{"image-not-found"}},
		{"denied", says(pull + "Unknown desc = pull access denied, repository does not exist or may require authorization"), []string{"image-pull-unauthorized"}},
		{"401", says(pull + "Unknown desc = 401 Unauthorized"), []string{"image-pull-unauthorized"}},
		{"secret missing", withEvent(says(pull+"Unknown desc = 401 Unauthorized"), "FailedToRetrieveImagePullSecret", "Unable to retrieve some image pull secrets (regcred); attempting to pull the image may not succeed.", time.Minute), []string{"image-pull-secret-missing"}},
		{"secret missing, yet not needed", withEvent(says(pull+"NotFound desc = not found"), "FailedToRetrieveImagePullSecret", "Unable to retrieve some image pull secrets (regcred)", time.Minute), []string{"image-not-found"}},
		{"no such host", says(pull + "Unknown desc = dial tcp: lookup registry.invalid: no such host"), []string{"image-registry-unreachable"}},
		{"certificate", says(pull + "Unknown desc = x509: certificate signed by unknown authority"), []string{"image-registry-unreachable"}},
		{"rate limit", says(pull + "ResourceExhausted desc = toomanyrequests: You have reached your pull rate limit"), []string{"image-pull-rate-limited"}},
		{"another container's image", withEvent(pulling(), "Failed", `Failed to pull image "registry.invalid/other:1": rpc error: code = NotFound desc = not found`, time.Minute), []string{"image-pull-failed"}},
		{"nobody says why", pulling(), []string{"image-pull-failed"}},
		{"bad name", scenetest.FactsOf(scenetest.Pod(waiting("InvalidImageName", "couldn't parse image name"))), []string{"image-name-invalid"}},
		{"never pulled", scenetest.FactsOf(scenetest.Pod(waiting("ErrImageNeverPull", `Container image "cart:7" is not present with pull policy of Never`))), []string{"image-not-present"}},
		{"waits for something else", scenetest.FactsOf(scenetest.Pod(waiting("ContainerCreating", ""))), nil},
		{"pulled since", withEvent(scenetest.FactsOf(scenetest.Pod(scenetest.Ready(0))), "Failed", pull+"not found", time.Minute), nil},
	})
}

// pending is a Pod without a node, of which the scheduler says message.
func pending(message string) *corev1.Pod {
	return scenetest.Pod(func(p *corev1.Pod) {
		p.Spec.NodeName, p.Status.Phase, p.Status.ContainerStatuses = "", corev1.PodPending, nil
		p.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: message,
		}}
	})
}

func TestUnschedulable(t *testing.T) {
	says := func(message string) *scene.Facts { return scenetest.FactsOf(pending(message)) }
	check(t, []rulecase{
		{"cpu", says("0/3 nodes are available: 3 Insufficient cpu. preemption: 0/3 nodes are available: 3 No preemption victims found for incoming pod."), []string{"unschedulable-cpu"}},
		{"memory", says("0/1 nodes are available: 1 Insufficient memory."), []string{"unschedulable-memory"}},
		{"another resource", says("0/1 nodes are available: 1 Insufficient nvidia.com/gpu."), []string{"unschedulable-resource"}},
		{"taint", says("0/2 nodes are available: 2 node(s) had untolerated taint {dedicated: gpu}."), []string{"unschedulable-taint"}},
		{"the control plane's taint is not the cause", says("0/4 nodes are available: 1 node(s) had untolerated taint {node-role.kubernetes.io/control-plane: }, 3 Insufficient cpu."), []string{"unschedulable-cpu", "unschedulable-taint"}},
		{"what rules out most nodes comes first", says("0/4 nodes are available: 1 Insufficient cpu, 3 node(s) had untolerated taint {team: ml}."), []string{"unschedulable-taint", "unschedulable-cpu"}},
		{"the nodes that are chosen are full", says("0/4 nodes are available: 1 Insufficient cpu, 3 node(s) didn't match Pod's node affinity/selector."), []string{"unschedulable-cpu", "unschedulable-selector"}},
		{"selector", says("0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector."), []string{"unschedulable-selector"}},
		{"anti-affinity", says("0/3 nodes are available: 3 node(s) didn't match pod anti-affinity rules."), []string{"unschedulable-affinity"}},
		{"spread", says("0/3 nodes are available: 3 node(s) didn't match pod topology spread constraints."), []string{"unschedulable-spread"}},
		{"no nodes", says("no nodes available to schedule pods"), []string{"unschedulable-no-nodes"}},
		{"no nodes at all", says("0/0 nodes are available: waiting."), []string{"unschedulable-no-nodes"}},
		{"cordoned", says("0/2 nodes are available: 2 node(s) were unschedulable."), []string{"unschedulable-cordoned"}},
		{"claim", says(`0/1 nodes are available: persistentvolumeclaim "data" not found.`), []string{"unschedulable-volume"}},
		{"unbound claim", says("0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims."), []string{"unschedulable-volume"}},
		{"too many", says("0/1 nodes are available: 1 Too many pods."), []string{"unschedulable-pod-limit"}},
		{"port", says("0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports."), []string{"unschedulable-port"}},
		{"unknown words", says("0/1 nodes are available: 1 node(s) were in a bad mood."), []string{"unschedulable-other"}},
		{"only the event tells", withEvent(scenetest.FactsOf(scenetest.Pod(func(p *corev1.Pod) { p.Spec.NodeName = "" })), "FailedScheduling", "0/1 nodes are available: 1 Insufficient cpu.", time.Minute), []string{"unschedulable-cpu"}},
		{"scheduled since", withEvent(scenetest.FactsOf(scenetest.Pod(scenetest.Ready(0))), "FailedScheduling", "0/1 nodes are available: 1 Insufficient cpu.", time.Minute), nil},
		{"pending without a word", says(""), nil},
	})
}

func TestUnschedulableComparesWithTheLargestNode(t *testing.T) {
	p := pending("0/2 nodes are available: 2 Insufficient cpu.")
	p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("64")}
	f := scenetest.FactsOf(p)
	for _, cpu := range []string{"4", "8"} {
		f.Nodes = append(f.Nodes, scene.Read[corev1.Node]{Object: corev1.Node{Status: corev1.NodeStatus{
			Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)},
			Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		}}, Ref: scene.Ref{Evidence: "E3", Source: "get nodes"}})
	}
	n := ApplyRules(f)[0]
	if got := n.Observed[1].Text; !strings.Contains(got, "requests 64 of cpu; the largest node can give 8, so it can never fit") {
		t.Errorf("%q", got)
	}
}

func failedWith(reason string) batchv1.Job {
	return batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "migrate"},
		Status: batchv1.JobStatus{Conditions: []batchv1.JobCondition{{
			Type: batchv1.JobFailed, Status: corev1.ConditionTrue, Reason: reason, Message: "Job has failed",
		}}},
	}
}

func TestJobFailed(t *testing.T) {
	job := func(j batchv1.Job, pods ...*corev1.Pod) *scene.Facts {
		f := ownedBy(scenetest.FactsOf(pods...), "Job", "migrate")
		f.Job = &scene.Read[batchv1.Job]{Object: j, Ref: scene.Ref{Evidence: "E3", Source: "get job"}}
		return f
	}
	endedBy := func(code int32) *corev1.Pod {
		return scenetest.Pod(func(p *corev1.Pod) {
			p.Status.Phase = corev1.PodFailed
			p.Status.ContainerStatuses[0].State.Terminated = &corev1.ContainerStateTerminated{ExitCode: code, Reason: "Error"}
		})
	}
	ended := endedBy(42)
	check(t, []rulecase{
		{"backoff limit", job(failedWith("BackoffLimitExceeded")), []string{"job-backoff-limit"}},
		{"deadline", job(failedWith("DeadlineExceeded")), []string{"job-deadline-exceeded"}},
		{"another reason", job(failedWith("Whatever")), []string{"job-failed"}},
		{"policy", job(failedWith("PodFailurePolicy"), ended), []string{"job-pod-failure-policy", "crash-on-start"}},
		{"deadline, ended by it", job(failedWith("DeadlineExceeded"), endedBy(143)), []string{"job-deadline-exceeded"}},
		{"deadline, failing before", job(failedWith("DeadlineExceeded"), endedBy(1)), []string{"crash-on-start", "job-deadline-exceeded"}},
		{"with the Pod that failed", job(failedWith("BackoffLimitExceeded"), ended), []string{"crash-on-start", "job-backoff-limit"}},
		{"because of its image", job(failedWith("DeadlineExceeded"), scenetest.Pod(waiting("ErrImageNeverPull", "is not present with pull policy of Never"))), []string{"image-not-present", "job-deadline-exceeded"}},
		{"still running", job(batchv1.Job{}), nil},
	})
	n := foundOf(ApplyRules(job(failedWith("BackoffLimitExceeded"), ended)), "job-backoff-limit")[0]
	if !strings.Contains(n.Summary, "exit code 42") {
		t.Errorf("the exit code is not told: %q", n.Summary)
	}
}

func TestNode(t *testing.T) {
	node := func(target string, conditions ...corev1.NodeCondition) *scene.Facts {
		f := ownedBy(scenetest.FactsOf(), "Node", "n1")
		f.Owner.Namespace = ""
		f.Target = nightcrier.Resource{Kind: target, Name: "n1"}
		f.Nodes = []scene.Read[corev1.Node]{{Object: corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Status: corev1.NodeStatus{Conditions: conditions},
		}, Ref: scene.Ref{Evidence: "E1", Source: "get node"}}}
		return f
	}
	is := func(kind corev1.NodeConditionType, status corev1.ConditionStatus) corev1.NodeCondition {
		return corev1.NodeCondition{Type: kind, Status: status, Reason: "KubeletNotReady", Message: "node is shutting down"}
	}
	check(t, []rulecase{
		{"not ready", node("Node", is(corev1.NodeReady, corev1.ConditionFalse)), []string{"node-not-ready"}},
		{"unknown", node("Node", is(corev1.NodeReady, corev1.ConditionUnknown)), []string{"node-unreachable"}},
		{"ready", node("Node", is(corev1.NodeReady, corev1.ConditionTrue)), nil},
		{"disk", node("Node", is(corev1.NodeReady, corev1.ConditionTrue), is(corev1.NodeDiskPressure, corev1.ConditionTrue)), []string{"node-disk-pressure"}},
		{"not ready because of memory", node("Node", is(corev1.NodeMemoryPressure, corev1.ConditionTrue), is(corev1.NodeReady, corev1.ConditionFalse)), []string{"node-not-ready", "node-memory-pressure"}},
		{"a node that no Pod here is on", node("Pod", is(corev1.NodeReady, corev1.ConditionFalse)), nil},
	})
	below := scenetest.FactsOf(scenetest.Pod())
	below.Nodes = node("Node", is(corev1.NodeReady, corev1.ConditionUnknown)).Nodes
	got := ApplyRules(below)
	if len(got) != 1 || got[0].Object != (nightcrier.Object{Kind: "Node", Name: "n1"}) {
		t.Errorf("a Pod on a lost node: %+v", got)
	}
}

func TestEvicted(t *testing.T) {
	evicted := scenetest.Pod(func(p *corev1.Pod) {
		p.Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Message: "The node was low on resource: memory."}
	})
	ended := scenetest.Pod(func(p *corev1.Pod) { p.Status = corev1.PodStatus{Phase: corev1.PodSucceeded} })
	const outgrown = `Usage of EmptyDir volume "data" exceeds the limit "1Mi".`
	check(t, []rulecase{
		{"evicted", scenetest.FactsOf(evicted), []string{"pod-evicted"}},
		{"only an Event says so", withEvent(scenetest.FactsOf(ended), "Evicted", outgrown, time.Minute), []string{"pod-evicted"}},
		{"long ago", withEvent(scenetest.FactsOf(ended), "Evicted", outgrown, scene.FreshFor), nil},
	})
}

func TestConfigMissing(t *testing.T) {
	const failed = `MountVolume.SetUp failed for volume "conf" : `
	check(t, []rulecase{
		{"config map", scenetest.FactsOf(scenetest.Pod(waiting("CreateContainerConfigError", `configmap "cart-conf" not found`))), []string{"missing-configmap"}},
		{"secret", scenetest.FactsOf(scenetest.Pod(waiting("CreateContainerConfigError", `secret "db" not found`))), []string{"missing-secret"}},
		{"key", scenetest.FactsOf(scenetest.Pod(waiting("CreateContainerConfigError", `couldn't find key URL in ConfigMap shop/cart-conf`))), []string{"missing-config-key"}},
		{"volume of a config map", withEvent(scenetest.FactsOf(scenetest.Pod(waiting("ContainerCreating", ""))), "FailedMount", failed+`configmap "cart-conf" not found`, time.Minute), []string{"missing-configmap"}},
		{"volume", withEvent(scenetest.FactsOf(scenetest.Pod(waiting("ContainerCreating", ""))), "FailedMount", failed+"rpc error: code = Internal", time.Minute), []string{"mount-failed"}},
		{"an old complaint", withEvent(scenetest.FactsOf(scenetest.Pod(waiting("ContainerCreating", ""))), "FailedMount", failed+"x", scene.FreshFor), nil},
		{"mounted since", withEvent(scenetest.FactsOf(scenetest.Pod(scenetest.Ready(0))), "FailedMount", failed+"x", time.Minute), nil},
	})
}

func TestRolloutStalled(t *testing.T) {
	stalled := func(pods ...*corev1.Pod) *scene.Facts {
		f := scenetest.FactsOf(pods...)
		f.Deployment = &scene.Read[appsv1.Deployment]{Object: appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cart"},
			Status: appsv1.DeploymentStatus{Conditions: []appsv1.DeploymentCondition{{
				Type: appsv1.DeploymentProgressing, Status: corev1.ConditionFalse, Reason: "ProgressDeadlineExceeded", Message: "has timed out progressing",
			}}},
		}, Ref: scene.Ref{Evidence: "E3", Source: "get deployment"}}
		return f
	}
	progressing := stalled()
	progressing.Deployment.Object.Status.Conditions[0].Status = corev1.ConditionTrue
	check(t, []rulecase{
		{"its Pods do not say why", stalled(scenetest.Pod()), []string{"rollout-stalled"}},
		{"its Pods say why", stalled(scenetest.Pod(waiting("ErrImageNeverPull", "is not present"))), []string{"image-not-present", "rollout-stalled"}},
		{"progressing", progressing, nil},
	})
}

func TestPodsRefused(t *testing.T) {
	const quota = `pods "cart-x" is forbidden: exceeded quota: compute, requested: cpu=2, used: cpu=8, limited: cpu=8`
	deployment := func(status corev1.ConditionStatus, message string) *scene.Facts {
		f := scenetest.FactsOf()
		f.Deployment = &scene.Read[appsv1.Deployment]{Object: appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cart"},
			Status: appsv1.DeploymentStatus{Conditions: []appsv1.DeploymentCondition{{
				Type: appsv1.DeploymentReplicaFailure, Status: status, Reason: "FailedCreate", Message: message,
			}}},
		}, Ref: scene.Ref{Evidence: "E3", Source: "get deployment"}}
		return f
	}
	check(t, []rulecase{
		{"quota", deployment(corev1.ConditionTrue, quota), []string{"quota-exceeded"}},
		{"admission", deployment(corev1.ConditionTrue, `admission webhook "policy" denied the request`), []string{"admission-webhook-refused"}},
		{"quota of a StatefulSet", withEvent(ownedBy(scenetest.FactsOf(), "StatefulSet", "cart"), "FailedCreate", quota, time.Minute), []string{"quota-exceeded"}},
		{"an old complaint", withEvent(ownedBy(scenetest.FactsOf(), "StatefulSet", "cart"), "FailedCreate", quota, scene.FreshFor), nil},
		{"over, says the Deployment", withEvent(deployment(corev1.ConditionFalse, quota), "FailedCreate", quota, time.Minute), nil},
	})
}

func TestStartRefused(t *testing.T) {
	const tooLow = "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: container init was OOM-killed (memory limit too low?): unknown"
	sandbox := "Failed to create pod sandbox: plugin type=\"bridge\" failed: no IP addresses available"
	check(t, []rulecase{
		{"command", scenetest.FactsOf(scenetest.Pod(waiting("RunContainerError", `exec: "servr": executable file not found in $PATH`))), []string{"command-not-found"}},
		{"something else", scenetest.FactsOf(scenetest.Pod(waiting("CreateContainerError", "container name is reserved"))), []string{"container-not-started"}},
		{"configuration nobody knows", scenetest.FactsOf(scenetest.Pod(waiting("CreateContainerConfigError", "who knows"))), []string{"container-not-started"}},
		{"hook", withEvent(scenetest.FactsOf(scenetest.Pod(scenetest.Crashing(0, "Completed", 0))), "FailedPostStartHook", "PostStartHook failed", time.Minute), []string{"container-not-started", "main-process-exits"}},
		{"hook that failed once", withEvent(scenetest.FactsOf(scenetest.Pod(scenetest.Ready(0))), "FailedPostStartHook", "PostStartHook failed", time.Minute), nil},
		{"sandbox", withEvent(scenetest.FactsOf(scenetest.Pod(waiting("ContainerCreating", ""))), "FailedCreatePodSandBox", sandbox, time.Minute), []string{"pod-sandbox-failed"}},
		{"sandbox, for want of memory", withEvent(scenetest.FactsOf(scenetest.Pod(waiting("ContainerCreating", ""), limits("1Mi", "1Mi"))), "FailedCreatePodSandBox", tooLow, time.Minute), []string{"oom-killed"}},
		{"container, for want of memory", scenetest.FactsOf(scenetest.Pod(waiting("RunContainerError", tooLow), limits("4Mi", "4Mi"))), []string{"oom-killed"}},
		{"once for want of memory, made since", withEvent(scenetest.FactsOf(scenetest.Pod(scenetest.Ready(0))), "FailedCreatePodSandBox", tooLow, time.Minute), nil},
		{"sandbox made since", withEvent(scenetest.FactsOf(scenetest.Pod(scenetest.Ready(0))), "FailedCreatePodSandBox", sandbox, time.Minute), nil},
		{"an old complaint", withEvent(scenetest.FactsOf(scenetest.Pod(waiting("ContainerCreating", ""))), "FailedCreatePodSandBox", sandbox, scene.FreshFor), nil},
	})
}

func TestVolumeMissing(t *testing.T) {
	claim := func(kind, reason string, ago time.Duration) *scene.Facts {
		f := ownedBy(withEvent(scenetest.FactsOf(), reason, `storageclass.storage.k8s.io "fast" not found`, ago), kind, "cart")
		f.Target = f.Owner
		f.Events[0].Object.InvolvedObject.Kind = kind
		return f
	}
	check(t, []rulecase{
		{"no such class", claim("PersistentVolumeClaim", "ProvisioningFailed", time.Minute), []string{"volume-not-provisioned"}},
		{"waits for its first consumer", claim("PersistentVolumeClaim", "WaitForFirstConsumer", time.Minute), nil},
		{"an old complaint", claim("PersistentVolumeClaim", "ProvisioningFailed", scene.FreshFor), nil},
		{"of something else", claim("StatefulSet", "ProvisioningFailed", time.Minute), nil},
	})
}

// Of objects of a kind that no rule knows nothing is found.
func TestUnknownKindsHaveNoCauses(t *testing.T) {
	checkScene(t, scenetest.New(t, `{apiVersion: v1, kind: Service, metadata: {namespace: shop, name: cart}}
---
{apiVersion: example.com/v1, kind: Widget, metadata: {namespace: shop, name: w}}`))
}

func TestCausesArePublishedInOrder(t *testing.T) {
	kebab := regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`)
	categories := []string{"Pod", "Service", "Storage", "Node", "Network", "Helm", "Cluster"}
	list := Causes()
	for i, c := range list {
		if !kebab.MatchString(c.ID) || c.Meaning == "" || c.Rank == 0 || !slices.Contains(categories, c.Category) {
			t.Errorf("%+v", c)
		}
		if i > 0 && list[i-1].ID >= c.ID {
			t.Errorf("%s stands after %s: looking causes up needs their order", c.ID, list[i-1].ID)
		}
	}
	list[0].ID = "changed"
	if Causes()[0].ID == "changed" {
		t.Error("Causes hands out its own list")
	}
}
