package eval

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"k8s.io/apimachinery/pkg/api/resource"
)

// podState says what became of one Pod.
type podState struct {
	Count int `json:"count,omitempty"`
	// Is is healthy (the default), crashing, terminated, waiting, creating, unready,
	// running, pending, unscheduled, succeeded, failed, evicted.
	Is string `json:"is,omitempty"`
	// In is the container in question, the main one by default.
	In   string `json:"in,omitempty"`
	Age  string `json:"age,omitempty"`
	Node string `json:"node,omitempty"`
	// Exit, Reason, Text, Ran and Ended describe the last end of the container;
	// Restarts is how often it was started again.
	Exit     *int32 `json:"exit,omitempty"`
	Reason   string `json:"reason,omitempty"`
	Text     string `json:"text,omitempty"` // message of the state, of the condition, or of the Pod
	Ran      string `json:"ran,omitempty"`
	Ended    string `json:"ended,omitempty"`
	Restarts int32  `json:"restarts,omitempty"`
	// Log and Previous are what the container wrote; of a crashing one Log is both.
	Log      string `json:"log,omitempty"`
	Previous string `json:"previous,omitempty"`
	// Events are about the Pod.
	Events []string `json:"events,omitempty"`
	// Quiet leaves out the events that every Pod has.
	Quiet bool `json:"quiet,omitempty"`
	// Deleted is how long ago its deletion was asked for.
	Deleted string `json:"deleted,omitempty"`
	// Patch changes the Pod at the end; others are states of further containers.
	Patch  map[string]any      `json:"patch,omitempty"`
	Others map[string]podState `json:"others,omitempty"`
}

// healthyStates are those of Pods that are ready.
func (p podState) ready() bool { return p.Is == "" || p.Is == "healthy" }

func readyPods(l podList) (n int32) {
	for _, p := range l {
		if p.ready() && p.Deleted == "" {
			n++
		}
	}
	return n
}

// maker is what makes the Pods: their names, labels and owner.
type maker struct {
	key    string
	owner  metav1.Object
	labels map[string]string
	names  func(int) string
	claims []string // of a StatefulSet
}

// pods makes the Pods of a revision.
func (s *stage) pods(w workload, r revision, m maker, age time.Duration) error {
	if m.labels == nil {
		m.labels = w.Labels
	}
	m.key = cmp.Or(m.key, w.name)
	for i, st := range r.Pods {
		if err := s.pod(w, r, m, i, st, age); err != nil {
			return fmt.Errorf("pod %d: %w", i, err)
		}
	}
	return nil
}

func (s *stage) pod(w workload, r revision, m maker, i int, st podState, age time.Duration) (err error) {
	t, err := w.template(r)
	if err != nil {
		return err
	}
	if st.Age != "" {
		if age, err = span(st.Age); err != nil {
			return err
		}
	}
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: m.names(i), Namespace: w.Namespace, Labels: clone(m.labels), Annotations: t.Annotations, CreationTimestamp: at(age)},
		Spec:       t.Spec,
	}
	for k, v := range t.Labels {
		p.Labels[k] = v
	}
	s.claimed(p, w, m, i)
	if m.owner != nil {
		yes := true
		kind := map[bool]string{true: "ReplicaSet", false: w.kind}[w.kind == "Deployment"]
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: apiVersionOf(kind), Kind: kind, Name: m.owner.GetName(),
			UID: uidOf(kind, w.Namespace, m.owner.GetName()), Controller: &yes, BlockOwnerDeletion: &yes}}
	}
	s.names[fmt.Sprintf("pod %s %d", m.key, i)] = p.Name
	if st.Is != "unscheduled" && st.Is != "pending" {
		p.Spec.NodeName = st.Node
		if p.Spec.NodeName == "" && len(s.nodes) > 0 {
			p.Spec.NodeName = s.nodes[i%len(s.nodes)]
		}
		if p.Spec.NodeName == "" {
			p.Spec.NodeName = "worker-1"
		}
	}
	ip := fmt.Sprintf("10.244.%d.%d", 1+number(20, w.Namespace, p.Name), 2+number(250, p.Name))
	s.names[fmt.Sprintf("ip %s %d", m.key, i)] = ip
	if p.Status, err = s.status(p, st, age, ip); err != nil {
		return err
	}
	if st.Patch != nil {
		if err := patched(p, st.Patch); err != nil {
			return err
		}
	}
	if err := s.typed(p); err != nil {
		return err
	}
	if st.Deleted != "" {
		s.objects[len(s.objects)-1].Object[keyDeleted] = st.Deleted
	}
	return s.said(p, st, age)
}

// claimed mounts the claims of a StatefulSet's Pod.
func (s *stage) claimed(p *corev1.Pod, w workload, m maker, i int) {
	for _, claim := range m.claims {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: claim, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: fmt.Sprintf("%s-%s-%d", claim, w.name, i)},
		}})
	}
}

// said puts a Pod's logs and events on the stage.
func (s *stage) said(p *corev1.Pod, st podState, age time.Duration) error {
	of := about{kind: "Pod", namespace: p.Namespace, name: p.Name, host: p.Spec.NodeName}
	main := p.Spec.Containers[0]
	in := cmp.Or(st.In, main.Name)
	path := p.Namespace + "/" + p.Name + "/" + in
	if st.Log != "" {
		s.log(path, st.Log)
		if st.Is == "crashing" && st.Previous == "" {
			s.log(path+".previous", st.Log)
		}
	}
	if st.Previous != "" {
		s.log(path+".previous", st.Previous)
	}
	for name, other := range st.Others {
		if other.Log != "" {
			s.log(p.Namespace+"/"+p.Name+"/"+name, other.Log)
		}
	}
	var lines []string
	if !st.Quiet && p.Spec.NodeName != "" && age <= time.Hour {
		lines = append(lines, fmt.Sprintf("Normal Scheduled %ds: Successfully assigned %s/%s to %s", int(age.Seconds()), p.Namespace, p.Name, p.Spec.NodeName))
		if running(st) {
			lines = append(lines, started(main.Image, main.Name, age)...)
		}
	}
	if st.Is == "crashing" && len(st.Events) == 0 && !st.Quiet {
		lines = append(lines, fmt.Sprintf("Warning BackOff x%d %ds..%ds: Back-off restarting failed container {container} in pod {pod}_{ns}({uid})",
			5*max(1, st.Restarts), int(min(age, 50*time.Minute).Seconds())-5, 12))
	}
	for _, line := range append(lines, st.Events...) {
		line = strings.NewReplacer("{pod}", p.Name, "{ns}", p.Namespace, "{container}", in, "{image}", main.Image,
			"{node}", p.Spec.NodeName, "{uid}", string(uidOf("Pod", p.Namespace, p.Name))).Replace(line)
		each := of
		if !slices.ContainsFunc([]string{" Scheduled ", " FailedScheduling ", " FailedMount ", " FailedAttachVolume ", " Evicted ", " FailedCreatePodSandBox "},
			func(reason string) bool { return strings.Contains(line, reason) }) {
			each.fieldPath = "spec.containers{" + in + "}"
		}
		if err := s.event(each, line); err != nil {
			return err
		}
	}
	return nil
}

func running(st podState) bool {
	return st.ready() || st.Is == "crashing" || st.Is == "unready" || st.Is == "terminated"
}

// status is what the kubelet, or the scheduler, would have written.
func (s *stage) status(p *corev1.Pod, st podState, age time.Duration, ip string) (corev1.PodStatus, error) {
	out := corev1.PodStatus{Phase: corev1.PodRunning, QOSClass: corev1.PodQOSBurstable}
	if st.Is == "pending" { // nobody has looked at it
		out.Phase = corev1.PodPending
		return out, nil
	}
	if st.Is == "unscheduled" {
		out.Phase = corev1.PodPending
		out.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
			Reason: cmp.Or(st.Reason, corev1.PodReasonUnschedulable), Message: st.Text, LastTransitionTime: at(age)}}
		return out, nil
	}
	begun := at(age)
	out.StartTime, out.HostIP = &begun, "192.168.10.11"
	if st.Is == "evicted" {
		out.Phase, out.Reason, out.Message = corev1.PodFailed, cmp.Or(st.Reason, "Evicted"), st.Text
		out.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue,
			Reason: "TerminationByKubelet", Message: st.Text, LastTransitionTime: at(age / 2)}}
		return out, nil
	}
	out.HostIPs = []corev1.HostIP{{IP: out.HostIP}}
	out.PodIP, out.PodIPs = ip, []corev1.PodIP{{IP: ip}}
	if err := s.containers(p, st, age, &out); err != nil {
		return out, err
	}
	switch st.Is {
	case "succeeded":
		out.Phase = corev1.PodSucceeded
	case "failed":
		out.Phase = corev1.PodFailed
	case "waiting", "creating":
		if st.Restarts == 0 {
			out.Phase = corev1.PodPending
		}
	}
	s.conditions(p, st, age, &out)
	return out, nil
}

// containers writes the statuses of all containers.
func (s *stage) containers(p *corev1.Pod, st podState, age time.Duration, out *corev1.PodStatus) error {
	main := p.Spec.Containers[0].Name
	in := cmp.Or(st.In, main)
	blocked := false // by an init container
	for _, c := range p.Spec.InitContainers {
		sidecar := c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
		each, ok := st.Others[c.Name]
		switch {
		case c.Name == in:
			each = st
		case ok:
		case blocked || st.Is == "creating" && st.In == "":
			each = podState{Is: "waiting", Reason: "PodInitializing"}
		case sidecar:
			each = podState{}
		default:
			each = podState{Is: "succeeded"}
		}
		cs, err := containerStatus(c, each, age)
		if err != nil {
			return err
		}
		if each.Is == "succeeded" {
			cs.Ready = true
		}
		out.InitContainerStatuses = append(out.InitContainerStatuses, cs)
		if c.Name == in && !sidecar {
			blocked = true
			out.Phase = corev1.PodPending
		}
	}
	for _, c := range p.Spec.Containers {
		each, ok := st.Others[c.Name]
		switch {
		case c.Name == in:
			each = st
		case ok:
		case blocked:
			each = podState{Is: "waiting", Reason: "PodInitializing"}
		case st.Is == "creating":
			each = podState{Is: "creating"}
		case st.Is == "succeeded" || st.Is == "failed":
			each = podState{Is: "succeeded"}
		}
		cs, err := containerStatus(c, each, age)
		if err != nil {
			return err
		}
		out.ContainerStatuses = append(out.ContainerStatuses, cs)
	}
	return nil
}

// containerStatus is the status of one container.
func containerStatus(c corev1.Container, st podState, age time.Duration) (corev1.ContainerStatus, error) {
	cs := corev1.ContainerStatus{Name: c.Name, Image: c.Image, RestartCount: st.Restarts}
	id := "containerd://" + strings.ReplaceAll(string(uidOf("container", c.Name, c.Image)), "-", "") + "aabbccdd00112233"
	up, no := true, false
	began := age - min(age/2, 4*time.Second)
	var last *corev1.ContainerStateTerminated
	if st.Exit != nil || st.Is == "crashing" || st.Is == "terminated" || st.Is == "failed" || st.Is == "succeeded" || st.Restarts > 0 {
		var err error
		if last, err = ended(st, age); err != nil {
			return cs, err
		}
		last.ContainerID = id
	}
	switch st.Is {
	case "", "healthy", "unready", "running":
		cs.Ready, cs.Started = st.ready(), &up
		if last != nil {
			cs.LastTerminationState.Terminated = last
			began = captured.Sub(last.FinishedAt.Time) - time.Second
		}
		cs.State.Running = &corev1.ContainerStateRunning{StartedAt: at(began)}
		if st.Is == "running" { // before its startup probe succeeded
			cs.Started = &no
		}
	case "crashing":
		cs.Started, cs.LastTerminationState.Terminated = &no, last
		cs.State.Waiting = &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff",
			Message: "back-off 5m0s restarting failed container=" + c.Name}
		cs.RestartCount = max(1, st.Restarts)
	case "terminated", "failed", "succeeded":
		cs.Started, cs.State.Terminated = &no, last
	case "creating":
		cs.Started, cs.State.Waiting = &no, &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}
		return cs, nil
	case "waiting":
		cs.Started, cs.State.Waiting = &no, &corev1.ContainerStateWaiting{Reason: st.Reason, Message: st.Text}
		if last == nil {
			return cs, nil
		}
		cs.LastTerminationState.Terminated = last
	default:
		return cs, fmt.Errorf("a container cannot be %q", st.Is)
	}
	cs.ContainerID, cs.ImageID = id, strings.SplitN(c.Image, ":", 2)[0]+"@sha256:"+strings.Repeat("0a1b2c3d", 8)
	return cs, nil
}

// ended is how a container ended last.
func ended(st podState, age time.Duration) (*corev1.ContainerStateTerminated, error) {
	ago, ran := 2*time.Minute, 3*time.Second
	var err error
	if st.Ended != "" {
		if ago, err = span(st.Ended); err != nil {
			return nil, err
		}
	} else if ago > age/2 {
		ago = age / 2
	}
	if st.Ran != "" {
		if ran, err = span(st.Ran); err != nil {
			return nil, err
		}
	}
	code := int32(0)
	switch {
	case st.Exit != nil:
		code = *st.Exit
	case st.Is != "succeeded":
		code = 1
	}
	t := &corev1.ContainerStateTerminated{ExitCode: code, FinishedAt: at(ago), StartedAt: at(ago + ran), Reason: "Error"}
	if code == 0 {
		t.Reason = "Completed"
	}
	if st.Is != "waiting" {
		t.Reason = cmp.Or(st.Reason, t.Reason)
		t.Message = st.Text
	}
	return t, nil
}

// conditions follow from the containers.
func (s *stage) conditions(p *corev1.Pod, st podState, age time.Duration, out *corev1.PodStatus) {
	add := func(kind corev1.PodConditionType, ok bool, reason, message string, since time.Duration) {
		c := corev1.PodCondition{Type: kind, Status: corev1.ConditionFalse, Reason: reason, Message: message, LastTransitionTime: at(since)}
		if ok {
			c.Status, c.Reason, c.Message = corev1.ConditionTrue, "", ""
		}
		out.Conditions = append(out.Conditions, c)
	}
	var notReady, notInitialized []string
	for _, c := range out.InitContainerStatuses {
		if !c.Ready {
			notInitialized = append(notInitialized, c.Name)
		}
	}
	for _, c := range out.ContainerStatuses {
		if !c.Ready {
			notReady = append(notReady, c.Name)
		}
	}
	reason, text := "ContainersNotReady", "containers with unready status: ["+strings.Join(notReady, " ")+"]"
	if st.Is == "succeeded" {
		reason, text = "PodCompleted", ""
	}
	since := min(age, 4*time.Minute)
	if len(notReady) == 0 {
		if since = age - min(age/2, 8*time.Second); st.Restarts > 0 {
			if e, err := ended(st, age); err == nil {
				since = captured.Sub(e.FinishedAt.Time) - time.Second
			}
		}
	}
	add(corev1.PodReadyToStartContainers, st.Is != "creating", "", "", age)
	add(corev1.PodInitialized, len(notInitialized) == 0, "ContainersNotInitialized",
		"containers with incomplete status: ["+strings.Join(notInitialized, " ")+"]", age)
	add(corev1.PodReady, len(notReady) == 0, reason, text, since)
	add(corev1.ContainersReady, len(notReady) == 0, reason, text, since)
	add(corev1.PodScheduled, true, "", "", age)
}

func quantity(s string) resource.Quantity { return resource.MustParse(s) }

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func clone(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return maps.Clone(m)
}
