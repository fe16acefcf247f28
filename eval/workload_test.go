package eval

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// workload is the shorthand for a controller, what it made, and its Service.
type workload struct {
	// Workload is KIND/NAME: Deployment, StatefulSet, DaemonSet, Job, or Pod.
	Workload  string            `json:"workload"`
	Namespace string            `json:"namespace,omitempty"`
	Age       string            `json:"age,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"`
	revision
	// Replicas is what is asked for, by default the number of Pods.
	Replicas *int32 `json:"replicas,omitempty"`
	// Old is the revision before, when a rollout has not finished.
	Old *oldRevision `json:"old,omitempty"`
	// Port is the container's, 8080 by default; Service is false for none, or a
	// patch of it.
	Port    int32 `json:"port,omitempty"`
	Service any   `json:"service,omitempty"`
	// Patch changes the controller, its status too, at the end.
	Patch map[string]any `json:"patch,omitempty"`
	// Owner is KIND/NAME above a Job.
	Owner string `json:"owner,omitempty"`
	// Events are about the controller, SetEvents about the ReplicaSet.
	Events    []string `json:"events,omitempty"`
	SetEvents []string `json:"setEvents,omitempty"`
	// Rollout is done (the default without old), progressing or stalled.
	Rollout string `json:"rollout,omitempty"`
	// Failed is the reason why a Job failed, Message the condition's text.
	Failed  string `json:"failed,omitempty"`
	Message string `json:"message,omitempty"`

	kind, name string
	age        time.Duration
}

// revision is a Pod template and the Pods made from it.
type revision struct {
	Image     string            `json:"image,omitempty"`
	Env       map[string]string `json:"env,omitempty"`
	Container map[string]any    `json:"container,omitempty"` // patch of the main container
	Spec      map[string]any    `json:"spec,omitempty"`      // patch of the Pod's spec
	Pods      podList           `json:"pods,omitempty"`
	// Template patches the template's metadata.
	Template map[string]any `json:"template,omitempty"`
}

type oldRevision struct {
	revision
	Age string `json:"age,omitempty"`
	// Container and Spec replace those of the present revision, when given.
}

// podList is a number of healthy Pods, or a list of states.
type podList []podState

func (l *podList) UnmarshalJSON(raw []byte) error {
	var n int
	if json.Unmarshal(raw, &n) == nil {
		*l = make(podList, n)
		return nil
	}
	var list []podState
	if err := strict(raw, &list); err != nil {
		return err
	}
	*l = podList{}
	for _, st := range list {
		for range max(1, st.Count) {
			*l = append(*l, st)
		}
	}
	return nil
}

func strict(raw []byte, v any) error {
	d := json.NewDecoder(strings.NewReader(string(raw)))
	d.DisallowUnknownFields()
	return d.Decode(v)
}

// workload puts a shorthand's objects on the stage.
func (s *stage) workload(doc map[string]any) error {
	filled, err := moments(doc, s.fill)
	if err != nil {
		return err
	}
	var w workload
	if err := into(filled.(map[string]any), &w); err != nil {
		return err
	}
	w.kind, w.name = fields(w.Workload, "/")
	w.Namespace = cmp.Or(w.Namespace, s.Namespace)
	w.Image = cmp.Or(w.Image, "registry.example.com/"+w.Namespace+"/"+w.name+":1.4.2")
	if w.Port == 0 {
		w.Port = 8080
	}
	if w.age = s.age; w.Age != "" {
		if w.age, err = span(w.Age); err != nil {
			return err
		}
	}
	if w.Labels == nil {
		w.Labels = map[string]string{"app": w.name}
	}
	switch w.kind {
	case "Deployment":
		err = s.deployment(w)
	case "StatefulSet":
		err = s.statefulSet(w)
	case "DaemonSet":
		err = s.daemonSet(w)
	case "Job":
		err = s.job(w)
	case "Pod":
		err = s.pods(w, w.revision, maker{names: func(int) string { return w.name }}, w.age)
	default:
		err = fmt.Errorf("kind %s has no shorthand", w.kind)
	}
	if err != nil {
		return err
	}
	for _, line := range w.Events {
		if err := s.event(about{kind: w.kind, namespace: w.Namespace, name: w.name}, line); err != nil {
			return err
		}
	}
	return s.service(w)
}

func (w workload) meta() metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: w.name, Namespace: w.Namespace, Labels: w.Labels, CreationTimestamp: at(w.age), Generation: 1}
}

func (w workload) selector() *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: w.Labels}
}

// template makes the Pod template of a revision.
func (w workload) template(r revision) (corev1.PodTemplateSpec, error) {
	c := corev1.Container{
		Name: w.name, Image: r.Image, ImagePullPolicy: corev1.PullIfNotPresent,
		Ports: []corev1.ContainerPort{{ContainerPort: w.Port, Protocol: corev1.ProtocolTCP}},
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{"cpu": quantity("100m"), "memory": quantity("128Mi")},
			Limits:   corev1.ResourceList{"memory": quantity("256Mi")},
		},
	}
	if w.kind == "Job" {
		c.Ports = nil
	}
	for _, name := range sortedKeys(r.Env) {
		c.Env = append(c.Env, corev1.EnvVar{Name: name, Value: r.Env[name]})
	}
	spec := corev1.PodSpec{Containers: []corev1.Container{c}, ServiceAccountName: "default", RestartPolicy: corev1.RestartPolicyAlways}
	if w.kind == "Job" {
		spec.RestartPolicy = corev1.RestartPolicyNever
	}
	if r.Container != nil {
		patch := map[string]any{"name": w.name}
		for k, v := range r.Container {
			patch[k] = v
		}
		if err := patched(&spec, map[string]any{"containers": []any{patch}}); err != nil {
			return corev1.PodTemplateSpec{}, err
		}
	}
	if r.Spec != nil {
		if err := patched(&spec, r.Spec); err != nil {
			return corev1.PodTemplateSpec{}, err
		}
	}
	t := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: clone(w.Labels)}, Spec: spec}
	if r.Template != nil {
		if err := patched(&t, map[string]any{"metadata": r.Template}); err != nil {
			return t, err
		}
	}
	return t, nil
}

// patched merges a patch into a typed object.
func patched[T any](obj *T, patch map[string]any) error {
	raw, err := json.Marshal(obj)
	if err != nil {
		return err
	}
	base, err := document(raw)
	if err != nil {
		return err
	}
	merged, err := json.Marshal(merge(base, patch))
	if err != nil {
		return err
	}
	var zero T
	*obj = zero
	return strict(merged, obj)
}

// merge is what kubectl apply makes of a patch, as far as cases need it: lists
// whose items have a name or a type are merged by it, other lists replaced; null
// removes.
func merge(base, patch any) any {
	switch patch := patch.(type) {
	case map[string]any:
		have, ok := base.(map[string]any)
		if !ok {
			have = map[string]any{}
		}
		for k, v := range patch {
			if v == nil {
				delete(have, k)
				continue
			}
			have[k] = merge(have[k], v)
		}
		return have
	case []any:
		have, _ := base.([]any)
		for _, by := range []string{"name", "type"} {
			if keyed(have, by) && keyed(patch, by) {
				return mergeBy(have, patch, by)
			}
		}
	}
	return patch
}

func keyed(list []any, by string) bool {
	for _, each := range list {
		if m, ok := each.(map[string]any); !ok || m[by] == nil {
			return false
		}
	}
	return len(list) > 0
}

func mergeBy(have, patch []any, by string) []any {
	for _, each := range patch {
		i := slices.IndexFunc(have, func(h any) bool { return h.(map[string]any)[by] == each.(map[string]any)[by] })
		if i < 0 {
			have = append(have, each)
			continue
		}
		have[i] = merge(have[i], each)
	}
	return have
}

func (s *stage) deployment(w workload) error {
	t, err := w.template(w.revision)
	if err != nil {
		return err
	}
	d := &appsv1.Deployment{ObjectMeta: w.meta()}
	d.Annotations = map[string]string{"deployment.kubernetes.io/revision": "1"}
	want := int32(len(w.Pods))
	newAge := w.age
	if w.Old != nil {
		d.Annotations["deployment.kubernetes.io/revision"] = "2"
		d.Generation = 2
		if err := s.oldSet(w, &want); err != nil {
			return err
		}
		newAge = s.age
		if w.Age == "" || newAge >= w.age {
			newAge = 20 * time.Minute
		}
		for _, p := range w.Pods {
			if p.Age != "" {
				if newAge, err = span(p.Age); err != nil {
					return err
				}
			}
		}
	}
	if w.Replicas != nil {
		want = *w.Replicas
	}
	d.Spec = appsv1.DeploymentSpec{Replicas: &want, Selector: w.selector(), Template: t}
	rs, err := s.replicaSet(w, w.revision, d.Annotations["deployment.kubernetes.io/revision"], newAge)
	if err != nil {
		return err
	}
	ready, updated := readyPods(w.Pods), int32(len(w.Pods))
	total := updated
	if w.Old != nil {
		ready += readyPods(w.Old.Pods)
		total += int32(len(w.Old.Pods))
	}
	d.Status = appsv1.DeploymentStatus{
		ObservedGeneration: d.Generation, Replicas: total, UpdatedReplicas: updated, ReadyReplicas: ready, AvailableReplicas: ready,
		UnavailableReplicas: max(0, max(want, total)-ready),
		Conditions:          deploymentConditions(w, want, ready, newAge, rs),
	}
	if w.Patch != nil {
		if err := patched(d, w.Patch); err != nil {
			return err
		}
	}
	return s.typed(d)
}

func deploymentConditions(w workload, want, ready int32, newAge time.Duration, rs string) []appsv1.DeploymentCondition {
	since := at(min(w.age, 3*time.Minute))
	available := appsv1.DeploymentCondition{
		Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue, Reason: "MinimumReplicasAvailable",
		Message: "Deployment has minimum availability.", LastUpdateTime: at(w.age), LastTransitionTime: at(w.age),
	}
	if ready < want-want/4 {
		available.Status, available.Reason = corev1.ConditionFalse, "MinimumReplicasUnavailable"
		available.Message = "Deployment does not have minimum availability."
		available.LastUpdateTime, available.LastTransitionTime = since, since
	}
	progress := appsv1.DeploymentCondition{
		Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: "NewReplicaSetAvailable",
		Message:        fmt.Sprintf("ReplicaSet %q has successfully progressed.", rs),
		LastUpdateTime: at(newAge), LastTransitionTime: at(w.age),
	}
	rollout := w.Rollout
	if rollout == "" && w.Old != nil {
		if rollout = "progressing"; newAge > 10*time.Minute {
			rollout = "stalled"
		}
	}
	switch rollout {
	case "stalled":
		progress.Status, progress.Reason = corev1.ConditionFalse, "ProgressDeadlineExceeded"
		progress.Message = fmt.Sprintf("ReplicaSet %q has timed out progressing.", rs)
		progress.LastUpdateTime, progress.LastTransitionTime = at(newAge-10*time.Minute), at(newAge-10*time.Minute)
	case "progressing":
		progress.Reason, progress.Message = "ReplicaSetUpdated", fmt.Sprintf("ReplicaSet %q is progressing.", rs)
	}
	return []appsv1.DeploymentCondition{available, progress}
}

// oldSet makes the ReplicaSet of the revision before.
func (s *stage) oldSet(w workload, want *int32) error {
	old := w.Old.revision
	old.Image = cmp.Or(old.Image, w.Image)
	if n := int32(len(old.Pods)); n > *want {
		*want = n
	}
	_, err := s.replicaSet(w, old, "1", w.age)
	return err
}

// replicaSet makes a revision's ReplicaSet and its Pods, and returns its name.
func (s *stage) replicaSet(w workload, r revision, number string, age time.Duration) (string, error) {
	t, err := w.template(r)
	if err != nil {
		return "", err
	}
	hash := suffix(10, w.Namespace, w.name, number, r.Image)
	name := w.name + "-" + hash
	t.Labels[appsv1.DefaultDeploymentUniqueLabelKey] = hash
	want := int32(len(r.Pods))
	if w.Replicas != nil && w.Old == nil {
		want = *w.Replicas
	}
	yes := true
	rs := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: w.Namespace, Labels: t.Labels, CreationTimestamp: at(age), Generation: 1,
			Annotations: map[string]string{"deployment.kubernetes.io/revision": number, "deployment.kubernetes.io/desired-replicas": fmt.Sprint(want)},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: w.name,
				UID: uidOf("Deployment", w.Namespace, w.name), Controller: &yes, BlockOwnerDeletion: &yes}},
		},
		Spec: appsv1.ReplicaSetSpec{Replicas: &want, Selector: &metav1.LabelSelector{MatchLabels: t.Labels}, Template: t},
		Status: appsv1.ReplicaSetStatus{
			Replicas: int32(len(r.Pods)), FullyLabeledReplicas: int32(len(r.Pods)), ReadyReplicas: readyPods(r.Pods),
			AvailableReplicas: readyPods(r.Pods), ObservedGeneration: 1,
		},
	}
	if err := s.typed(rs); err != nil {
		return "", err
	}
	key := w.name
	if number == "1" && w.Old != nil {
		key += "-old"
	}
	s.names["rs "+key] = name
	if number == "2" || w.Old == nil {
		for _, line := range w.SetEvents {
			if err := s.event(about{kind: "ReplicaSet", namespace: w.Namespace, name: name}, line); err != nil {
				return "", err
			}
		}
	}
	m := maker{key: key, owner: rs, labels: t.Labels, names: func(i int) string { return name + "-" + suffix(5, name, i) }}
	return name, s.pods(w, r, m, age)
}

func (s *stage) statefulSet(w workload) error {
	t, err := w.template(w.revision)
	if err != nil {
		return err
	}
	hash := w.name + "-" + suffix(10, w.Namespace, w.name)
	t.Labels[appsv1.ControllerRevisionHashLabelKey] = hash
	want := int32(len(w.Pods))
	if w.Replicas != nil {
		want = *w.Replicas
	}
	ready := readyPods(w.Pods)
	set := &appsv1.StatefulSet{ObjectMeta: w.meta(), Spec: appsv1.StatefulSetSpec{
		Replicas: &want, Selector: w.selector(), ServiceName: w.name, Template: t,
	}, Status: appsv1.StatefulSetStatus{
		ObservedGeneration: 1, Replicas: int32(len(w.Pods)), ReadyReplicas: ready, CurrentReplicas: int32(len(w.Pods)),
		UpdatedReplicas: int32(len(w.Pods)), AvailableReplicas: ready, CurrentRevision: hash, UpdateRevision: hash,
	}}
	if w.Patch != nil {
		if err := patched(set, w.Patch); err != nil {
			return err
		}
	}
	if err := s.typed(set); err != nil {
		return err
	}
	m := maker{owner: set, labels: t.Labels, names: func(i int) string { return fmt.Sprintf("%s-%d", w.name, i) }}
	for _, claim := range set.Spec.VolumeClaimTemplates {
		m.claims = append(m.claims, claim.Name)
	}
	return s.pods(w, w.revision, m, w.age)
}

func (s *stage) daemonSet(w workload) error {
	t, err := w.template(w.revision)
	if err != nil {
		return err
	}
	n, ready := int32(len(w.Pods)), readyPods(w.Pods)
	set := &appsv1.DaemonSet{ObjectMeta: w.meta(), Spec: appsv1.DaemonSetSpec{Selector: w.selector(), Template: t}, Status: appsv1.DaemonSetStatus{
		ObservedGeneration: 1, DesiredNumberScheduled: n, CurrentNumberScheduled: n, UpdatedNumberScheduled: n,
		NumberReady: ready, NumberAvailable: ready, NumberUnavailable: n - ready,
	}}
	if w.Patch != nil {
		if err := patched(set, w.Patch); err != nil {
			return err
		}
	}
	if err := s.typed(set); err != nil {
		return err
	}
	t.Labels["controller-revision-hash"] = suffix(10, w.name)
	m := maker{owner: set, labels: t.Labels, names: func(i int) string { return w.name + "-" + suffix(5, w.name, i) }}
	return s.pods(w, w.revision, m, w.age)
}

func (s *stage) job(w workload) error {
	t, err := w.template(w.revision)
	if err != nil {
		return err
	}
	one, limit, no := int32(1), int32(6), false
	j := &batchv1.Job{ObjectMeta: w.meta(), Spec: batchv1.JobSpec{Parallelism: &one, Completions: &one, BackoffLimit: &limit, Suspend: &no, Template: t}}
	start := at(w.age)
	j.Status.StartTime = &start
	for _, p := range w.Pods {
		switch p.Is {
		case "succeeded":
			j.Status.Succeeded++
		case "failed", "evicted":
			j.Status.Failed++
		default:
			j.Status.Active++
		}
	}
	ready, none := readyPods(w.Pods), int32(0)
	j.Status.Ready = &ready
	cond := func(kind batchv1.JobConditionType, reason, message string) {
		j.Status.Conditions = append(j.Status.Conditions, batchv1.JobCondition{Type: kind, Status: corev1.ConditionTrue,
			Reason: reason, Message: message, LastProbeTime: at(w.age / 2), LastTransitionTime: at(w.age / 2)})
	}
	switch {
	case w.Failed != "":
		j.Status.Active, j.Status.Ready = 0, &none
		cond(batchv1.JobFailureTarget, w.Failed, w.Message)
		cond(batchv1.JobFailed, w.Failed, w.Message)
	case j.Status.Succeeded >= *j.Spec.Completions:
		done := at(w.age / 2)
		j.Status.CompletionTime = &done
		cond(batchv1.JobSuccessCriteriaMet, "CompletionsReached", "Reached expected number of succeeded pods")
		cond(batchv1.JobComplete, "CompletionsReached", "Reached expected number of succeeded pods")
	}
	if w.Patch != nil {
		if err := patched(j, w.Patch); err != nil {
			return err
		}
	}
	// The API server makes selector and labels from the UID, so the Pods carry
	// both the labels of the template and those of the Job.
	labels := clone(w.Labels)
	labels["batch.kubernetes.io/job-name"], labels["job-name"] = w.name, w.name
	labels["batch.kubernetes.io/controller-uid"] = string(uidOf("Job", w.Namespace, w.name))
	m := maker{owner: j, labels: labels, names: func(i int) string { return w.name + "-" + suffix(5, w.name, i) }}
	if err := s.typed(j); err != nil {
		return err
	}
	if w.Owner != "" {
		kind, name := fields(w.Owner, "/")
		s.own(s.objects[len(s.objects)-1], kind, name)
	}
	return s.pods(w, w.revision, m, w.age)
}

// service makes the Service in front of a workload.
func (s *stage) service(w workload) error {
	patch, given := w.Service.(map[string]any)
	wanted := given || w.Service == true || w.Service == nil && (w.kind == "Deployment" || w.kind == "StatefulSet")
	if !wanted {
		return nil
	}
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: w.name, Namespace: w.Namespace, Labels: w.Labels, CreationTimestamp: at(w.age)},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, Selector: w.Labels, Ports: []corev1.ServicePort{
			{Name: "http", Port: 80, TargetPort: intstr.FromInt32(w.Port), Protocol: corev1.ProtocolTCP},
		}}}
	if w.kind == "StatefulSet" {
		svc.Spec.ClusterIP = corev1.ClusterIPNone
		svc.Spec.Ports[0].Port = w.Port
	}
	if given {
		if spec, ok := patch["spec"].(map[string]any); ok && spec["ports"] != nil {
			svc.Spec.Ports = nil // a list of ports replaces ours
		}
		if spec, ok := patch["spec"].(map[string]any); ok && spec["selector"] != nil {
			svc.Spec.Selector = nil
		}
		if err := patched(svc, patch); err != nil {
			return err
		}
	}
	return s.typed(svc)
}
