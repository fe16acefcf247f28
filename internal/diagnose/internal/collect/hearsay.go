package collect

import (
	"cmp"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scene"
	"nightcrier.dev/nightcrier/internal/text"
)

// What senders put into an event's context.
var (
	saysExit     = scene.NewPattern(`exit code:? (\d{1,3})\b`)
	saysReason   = scene.NewPattern(`(?:last )?reason: (\w{1,60})`)
	saysRestarts = scene.NewPattern(`restart count: (\d{1,6})\b`)
	saysTimes    = scene.NewPattern(`, seen (\d{1,6}) times?$`)
	saysMessage  = scene.NewPattern(`(?s)(?:termination |, )message: (.*)$`)
)

// maxHeard is how much of an event's context is read, in bytes.
const maxHeard = 4096

// fillFromEvent fills f from the event alone, as if the cluster had said what its sender
// claims, so that the same rules apply. The facts are marked as hearsay: they
// are only as good as the sender.
func fillFromEvent(f *scene.Facts, e nightcrier.Event, ref scene.Ref) {
	f.Hearsay = true
	said := text.KeepBytes(e.Context, maxHeard)
	f.Events = append(f.Events, scene.Read[corev1.Event]{Object: heardEvent(f.Target, e, said), Ref: ref})
	switch f.Target.Kind {
	case "Pod":
		f.Pods = []scene.Read[corev1.Pod]{{Object: heardPod(f.Target, e, said), Ref: ref}}
		f.Logs = heardLogs(f.Target, e, ref)
	case "Deployment":
		f.Deployment = &scene.Read[appsv1.Deployment]{Object: heardDeployment(f.Target, e, said), Ref: ref}
	case "Job":
		f.Job = &scene.Read[batchv1.Job]{Object: heardJob(f.Target, said), Ref: ref}
	case "Node":
		f.Nodes = []scene.Read[corev1.Node]{{Object: heardNode(f.Target, e, said), Ref: ref}}
	}
}

func metaOf(r nightcrier.Resource) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: r.Namespace, Name: r.Name}
}

// eventReasons are the reasons of the cluster's own Events that rules look for,
// by what the sender calls the fault.
var eventReasons = map[string]string{
	nightcrier.FaultCreate:        "FailedCreate",
	nightcrier.FaultMount:         "FailedMount",
	nightcrier.FaultImagePull:     "Failed",
	nightcrier.FaultProbe:         "Unhealthy",
	nightcrier.FaultUnschedulable: "FailedScheduling",
}

// heardEvent is the claim as an Event of the cluster.
func heardEvent(r nightcrier.Resource, e nightcrier.Event, text string) corev1.Event {
	reason := cmp.Or(eventReasons[e.FaultType], e.FaultType)
	if scene.KilledByProbePattern.MatchString(text) {
		reason = "Killing"
	}
	count := int32(1)
	if m := saysTimes.FindStringSubmatch(text); m != nil {
		n, _ := strconv.ParseInt(m[1], 10, 32)
		count = int32(n)
	}
	return corev1.Event{
		Count:          count,
		InvolvedObject: corev1.ObjectReference{Kind: r.Kind, Namespace: r.Namespace, Name: r.Name},
		Type:           corev1.EventTypeWarning, Reason: reason, Message: strings.TrimPrefix(text, reason+": "),
		LastTimestamp: metav1.NewTime(e.OccurredAt),
	}
}

// podClaims are what an event can say of a Pod: by what the sender calls the
// fault, or by the words it uses.
var podClaims = []struct {
	faultType string
	words     *scene.Pattern
	apply     func(p *corev1.Pod, text string)
}{
	{nightcrier.FaultCrashLoop, scene.NewPattern(`CrashLoopBackOff|Back-off restarting failed container`), makeWaiting("CrashLoopBackOff")},
	{nightcrier.FaultImagePull, scene.ImageTroublePattern, makeWaiting("ImagePullBackOff")},
	{"", scene.MissingConfigPattern, makeWaiting("CreateContainerConfigError")},
	{"", scene.NotExecutablePattern, makeEnded(128, "StartError")},
	{nightcrier.FaultOOMKilled, scene.NewPattern(`\bOOMKilled\b`), makeEnded(137, "OOMKilled")},
	{nightcrier.FaultEvicted, scene.NewPattern(`^The node was low on resource`), func(p *corev1.Pod, text string) {
		p.Status.Reason, p.Status.Message = "Evicted", text
	}},
}

func makeWaiting(reason string) func(*corev1.Pod, string) {
	return func(p *corev1.Pod, text string) {
		p.Status.ContainerStatuses[0].State.Waiting = &corev1.ContainerStateWaiting{Reason: reason, Message: text}
	}
}

// makeEnded tells how the container ended, unless the text has told an exit code.
func makeEnded(code int32, reason string) func(*corev1.Pod, string) {
	return func(p *corev1.Pod, text string) {
		if st := &p.Status.ContainerStatuses[0]; st.LastTerminationState.Terminated == nil {
			st.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason, Message: text}
		}
	}
}

// heardPod is a Pod whose one container is in the state that the event tells.
func heardPod(r nightcrier.Resource, e nightcrier.Event, text string) corev1.Pod {
	st := corev1.ContainerStatus{Name: e.Container}
	if st.Name == "" && len(e.Logs) > 0 {
		st.Name = e.Logs[0].Container
	}
	if m := saysRestarts.FindStringSubmatch(text); m != nil {
		n, _ := strconv.ParseInt(m[1], 10, 32)
		st.RestartCount = int32(n)
	}
	st.LastTerminationState.Terminated = heardEnd(text)
	p := corev1.Pod{ObjectMeta: metaOf(r), Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{st}}}
	for _, c := range podClaims {
		if c.faultType != "" && c.faultType == e.FaultType || c.words.MatchString(text) {
			c.apply(&p, text)
		}
	}
	return p
}

// heardEnd reads how a container ended, nil when the text does not say.
func heardEnd(text string) *corev1.ContainerStateTerminated {
	m := saysExit.FindStringSubmatch(text)
	if m == nil {
		return nil
	}
	code, _ := strconv.ParseInt(m[1], 10, 32)
	_, message, _ := strings.Cut(text, "termination message: ")
	return &corev1.ContainerStateTerminated{ExitCode: int32(code), Reason: heardReason(text), Message: message}
}

func heardReason(text string) string {
	if m := saysReason.FindStringSubmatch(text); m != nil {
		return m[1]
	}
	return ""
}

func heardLogs(r nightcrier.Resource, e nightcrier.Event, ref scene.Ref) []scene.LogExcerpt {
	var out []scene.LogExcerpt
	for _, l := range e.Logs {
		if l.Sample == "" || scene.LostLogPattern.MatchString(l.Sample) {
			continue
		}
		out = append(out, scene.LogExcerpt{
			Namespace: r.Namespace, Pod: r.Name, Container: l.Container, Previous: l.Previous,
			Evidence: ref.Evidence, Text: text.KeepBytes(l.Sample, logBytes),
		})
	}
	return out
}

func heardDeployment(r nightcrier.Resource, e nightcrier.Event, text string) appsv1.Deployment {
	d := appsv1.Deployment{ObjectMeta: metaOf(r)}
	if e.FaultType == nightcrier.FaultDeployment {
		d.Status.Conditions = []appsv1.DeploymentCondition{{
			Type: appsv1.DeploymentProgressing, Status: corev1.ConditionFalse, Reason: heardRollout(text), Message: text,
		}}
	}
	return d
}

func heardRollout(text string) string {
	if strings.Contains(text, "ProgressDeadlineExceeded") {
		return "ProgressDeadlineExceeded"
	}
	return heardReason(text)
}

// heardJob is a failed Job; its reason may be told by its message alone.
func heardJob(r nightcrier.Resource, text string) batchv1.Job {
	failed := batchv1.JobCondition{Type: batchv1.JobFailed, Status: corev1.ConditionTrue, Reason: heardReason(text), Message: text}
	switch {
	case strings.Contains(text, "specified backoff limit"):
		failed.Reason = batchv1.JobReasonBackoffLimitExceeded
	case strings.Contains(text, "longer than specified deadline"):
		failed.Reason = batchv1.JobReasonDeadlineExceeded
	}
	return batchv1.Job{ObjectMeta: metaOf(r), Status: batchv1.JobStatus{Conditions: []batchv1.JobCondition{failed}}}
}

// heardNode is a node that is not ready, or one that is short of what the text
// names.
func heardNode(r nightcrier.Resource, e nightcrier.Event, text string) corev1.Node {
	ready := corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: heardReason(text), Message: text}
	switch {
	case strings.Contains(text, "Ready=Unknown"):
		ready.Status = corev1.ConditionUnknown
	case e.FaultType == nightcrier.FaultNodeUnhealthy, strings.Contains(text, "Ready=False"):
		ready.Status = corev1.ConditionFalse
	}
	if m := saysMessage.FindStringSubmatch(text); m != nil {
		ready.Message = m[1]
	}
	n := corev1.Node{ObjectMeta: metaOf(r), Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{ready}}}
	if e.FaultType == nightcrier.FaultNodePressure {
		n.Status.Conditions = append(n.Status.Conditions, heardPressure(text))
	}
	return n
}

func heardPressure(text string) corev1.NodeCondition {
	c := corev1.NodeCondition{Type: corev1.NodeDiskPressure, Status: corev1.ConditionTrue, Message: text}
	switch lower := strings.ToLower(text); {
	case strings.Contains(lower, "memory"):
		c.Type = corev1.NodeMemoryPressure
	case strings.Contains(lower, "pid"):
		c.Type = corev1.NodePIDPressure
	}
	return c
}
