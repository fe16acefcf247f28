package scene

import (
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/text"
)

// How long what has begun may take until it counts as a fault.
const (
	// BalancerLate is for a cloud to give a load balancer.
	BalancerLate = 10 * time.Minute
	// DeletionLate is for a deletion.
	DeletionLate = 10 * time.Minute
	// BlindFor is for an autoscaler that is new, or has new Pods, to get metrics.
	BlindFor = 3 * time.Minute
	// rolloutLate is for a step of a rollout, where the Deployment sets nothing else.
	rolloutLate = 10 * time.Minute
)

// Progress is something that was begun and has not come to its end: no fault yet, and
// nothing that is well.
type Progress struct {
	Object nightcrier.Object
	// Waits says what it waits for.
	Waits string
	// Since is when it began, Until from when on it counts as a fault.
	Since, Until time.Time
	Seen         Observation
}

// UnderWay lists what is in progress, as far as it is young enough to be no fault.
func (s *Scene) UnderWay() (all []Progress) {
	note := func(p Progress) {
		if !p.Since.IsZero() && s.Now.Before(p.Until) {
			all = append(all, p)
		}
	}
	for i := range s.Claims {
		note(s.claimUnderWay(&s.Claims[i]))
	}
	for i := range s.Services {
		note(s.balancerUnderWay(&s.Services[i]))
	}
	for i := range s.Jobs {
		note(s.jobUnderWay(&s.Jobs[i]))
	}
	for i := range s.Pods {
		note(s.nodeUnderWay(&s.Pods[i]))
	}
	for _, e := range s.Events {
		note(s.probeUnderWay(e))
	}
	for i := range s.Deployments {
		note(rolloutUnderWay(&s.Deployments[i]))
	}
	for i := range s.Autoscalers {
		h := &s.Autoscalers[i]
		if c, known := ScalerCondition(&h.Object, "ScalingActive"); known && c.Status == corev1.ConditionFalse && c.Reason != "ScalingDisabled" {
			note(Progress{
				Object: nightcrier.Object{Kind: "HorizontalPodAutoscaler", Namespace: h.Object.Namespace, Name: h.Object.Name}, Waits: "its first metrics",
				Since: h.Object.CreationTimestamp.Time, Until: h.Object.CreationTimestamp.Add(BlindFor),
				Seen: Observation{Text: "it has ScalingActive=False", Quote: c.Reason + ": " + c.Message, Ref: h.Ref},
			})
		}
	}
	for i := range s.Namespaces {
		note(deletionUnderWay("Namespace", &s.Namespaces[i].Object, s.Namespaces[i].Ref))
	}
	for i := range s.Claims {
		note(deletionUnderWay("PersistentVolumeClaim", &s.Claims[i].Object, s.Claims[i].Ref))
	}
	for i := range s.Pods {
		if p := &s.Pods[i].Object; p.DeletionTimestamp != nil && s.Now.After(p.DeletionTimestamp.Time) { // that is the end of its grace period
			note(deletionUnderWay("Pod", p, s.Pods[i].Ref))
		}
	}
	for i := range s.Others {
		note(deletionUnderWay(s.Others[i].Object.GetKind(), &s.Others[i].Object, s.Others[i].Ref))
	}
	return all
}

func (s *Scene) claimUnderWay(c *Read[corev1.PersistentVolumeClaim]) Progress {
	if c.Object.Status.Phase != corev1.ClaimPending {
		return Progress{}
	}
	p := Progress{
		Object: nightcrier.Object{Kind: "PersistentVolumeClaim", Namespace: c.Object.Namespace, Name: c.Object.Name}, Waits: "its volume",
		Since: c.Object.CreationTimestamp.Time, Until: c.Object.CreationTimestamp.Add(SettlingTime),
		Seen: Observation{Text: "the claim is Pending", Quote: "phase=Pending", Ref: c.Ref},
	}
	for e := range s.EventsAbout("PersistentVolumeClaim", c.Object.Namespace, c.Object.Name) {
		if e.Object.Reason == "WaitForFirstConsumer" {
			return Progress{} // that is how it should be, until a Pod uses it
		}
		p.Seen = ObserveEvent(e)
		break
	}
	return p
}

// jobLate is for a Job of an operator, where it sets no deadline itself.
const jobLate = time.Hour

// jobUnderWay is a Job that an operator has made for something that is not there yet, such as
// a copy of a database, and that runs without a failure. What comes by a schedule is no news.
func (s *Scene) jobUnderWay(j *Read[batchv1.Job]) Progress {
	up := ControllerOf(&j.Object)
	if st := j.Object.Status; up.IsZero() || up.Kind == "CronJob" || st.Active == 0 || st.Failed > 0 || st.StartTime == nil {
		return Progress{}
	}
	late := jobLate
	if n := j.Object.Spec.ActiveDeadlineSeconds; n != nil {
		late = time.Duration(*n) * time.Second
	}
	p := Progress{
		Object: nightcrier.Object{Kind: "Job", Namespace: j.Object.Namespace, Name: j.Object.Name}, Waits: "its end, for " + up.Kind + " " + up.Name,
		Since: j.Object.Status.StartTime.Time, Until: j.Object.Status.StartTime.Add(late),
		Seen: Observation{Text: "it runs, and no try has failed", Quote: fmt.Sprintf("active=%d", j.Object.Status.Active), Ref: j.Ref},
	}
	for _, l := range s.Logs {
		pod := FindObject(s.Pods, l.Namespace, l.Pod)
		if line := LastLine(l.Text); pod != nil && line != "" && ControllerOf(&pod.Object).Name == j.Object.Name && pod.Object.Namespace == j.Object.Namespace {
			p.Seen = Observation{Text: "its log says how far it is", Quote: text.CutMiddle(line, MaxQuote), Ref: Ref{Evidence: l.Evidence, Source: l.Source}}
		}
	}
	return p
}

// nodeUnderWay is a node that is being added for a Pod.
func (s *Scene) nodeUnderWay(p *Read[corev1.Pod]) Progress {
	if SchedulerMessage(&p.Object) == "" || p.Object.DeletionTimestamp != nil {
		return Progress{}
	}
	w := Progress{Object: s.WorkloadAbove("Pod", &p.Object), Waits: "a node that is being added for Pod " + p.Object.Name}
	if u := s.nodeLaunched(p); u != nil {
		w.Waits = OtherObject(&u.Object).String() + ", which is launched, to register its node for Pod " + p.Object.Name
		w.Since, w.Seen = u.Object.GetCreationTimestamp().Time, Observation{Text: OtherObject(&u.Object).String() + " is launched and has not registered yet", Quote: "Launched", Ref: u.Ref}
	}
	for e := range s.EventsAbout("Pod", p.Object.Namespace, p.Object.Name) {
		if w.Since.IsZero() && nodeOrdered.MatchString(e.Object.Reason) {
			w.Since, w.Seen = EventLastSeen(&e.Object), ObserveEvent(e)
		}
	}
	w.Until = p.Object.CreationTimestamp.Add(nodeComes)
	return w
}

// probeFailure matches how a kubelet says that a probe has failed.
var probeFailure = NewPattern(`^(Liveness|Readiness|Startup) probe (?:failed|errored)`)

// probeUnderWay is a probe that has just failed, and may do so as often as is allowed before
// anything comes of it.
func (s *Scene) probeUnderWay(e Read[corev1.Event]) Progress {
	m := probeFailure.FindStringSubmatch(e.Object.Message)
	at := EventLastSeen(&e.Object)
	if m == nil || e.Object.Reason != "Unhealthy" || e.Object.InvolvedObject.Kind != "Pod" || s.Now.Sub(at) > time.Minute {
		return Progress{}
	}
	pod := FindObject(s.Pods, e.Object.InvolvedObject.Namespace, e.Object.InvolvedObject.Name)
	if pod == nil || !IsPodReady(&pod.Object) || pod.Object.DeletionTimestamp != nil {
		return Progress{}
	}
	for _, c := range PodContainers(pod) {
		spec := map[string]*corev1.Probe{"Liveness": c.Spec.LivenessProbe, "Readiness": c.Spec.ReadinessProbe, "Startup": c.Spec.StartupProbe}[m[1]]
		if path := e.Object.InvolvedObject.FieldPath; spec == nil || path != "" && !strings.Contains(path, "{"+c.Status.Name+"}") {
			continue
		}
		return Progress{
			Object: s.WorkloadAbove("Pod", &pod.Object), Waits: "the " + strings.ToLower(m[1]) + " probe of " + c.String() + " to succeed again",
			Since: at, Until: at.Add(ProbeSilence(spec)), Seen: ObserveEvent(e),
		}
	}
	return Progress{}
}

func (s *Scene) balancerUnderWay(svc *Read[corev1.Service]) Progress {
	o := &svc.Object
	if o.Spec.Type != corev1.ServiceTypeLoadBalancer || len(o.Status.LoadBalancer.Ingress) > 0 || o.DeletionTimestamp != nil {
		return Progress{}
	}
	p := Progress{
		Object: ServiceObject(o), Waits: "the address of a load balancer", Since: o.CreationTimestamp.Time, Until: o.CreationTimestamp.Add(BalancerLate),
		Seen: Observation{Text: "it is of type LoadBalancer and has no address", Quote: "type=LoadBalancer", Ref: svc.Ref},
	}
	for e := range s.EventsAbout("Service", o.Namespace, o.Name) {
		p.Seen = ObserveEvent(e)
		break
	}
	return p
}

// rolloutUnderWay is a rollout that gets on: its deadline begins anew with each step.
func rolloutUnderWay(d *Read[appsv1.Deployment]) Progress {
	want, st := ReplicasOrOne(d.Object.Spec.Replicas), d.Object.Status
	if d.Object.Spec.Paused || st.ObservedGeneration == 0 || st.UpdatedReplicas >= want && st.Replicas <= st.UpdatedReplicas && st.AvailableReplicas >= want {
		return Progress{}
	}
	for _, c := range st.Conditions {
		if c.Type != appsv1.DeploymentProgressing || c.Status != corev1.ConditionTrue || c.Reason == "NewReplicaSetAvailable" {
			continue
		}
		late := rolloutLate
		if n := d.Object.Spec.ProgressDeadlineSeconds; n != nil {
			late = time.Duration(*n) * time.Second
		}
		return Progress{
			Object: nightcrier.Object{Kind: "Deployment", Namespace: d.Object.Namespace, Name: d.Object.Name},
			Waits:  fmt.Sprintf("its new Pods: %d of %d are made, %d available", st.UpdatedReplicas, want, st.AvailableReplicas),
			Since:  c.LastUpdateTime.Time, Until: c.LastUpdateTime.Add(late),
			Seen: Observation{Text: "its rollout gets on", Quote: c.Reason + ": " + c.Message, Ref: d.Ref},
		}
	}
	return Progress{}
}

func deletionUnderWay(kind string, o metav1.Object, ref Ref) Progress {
	at := o.GetDeletionTimestamp()
	if at == nil {
		return Progress{}
	}
	p := Progress{
		Object: nightcrier.Object{Kind: kind, Namespace: o.GetNamespace(), Name: o.GetName()}, Waits: "its deletion", Since: at.Time, Until: at.Add(DeletionLate),
		Seen: Observation{Text: "it has a deletion timestamp and is still there", Quote: at.UTC().Format(time.RFC3339), Ref: ref},
	}
	if f := o.GetFinalizers(); len(f) > 0 {
		p.Waits = "its finalizers " + strings.Join(f, ", ")
	}
	return p
}

// ComesUp is how a workload that only starts is in progress.
func (f *Facts) ComesUp() Progress {
	p := Progress{Object: f.Mend(), Waits: "its Pods to get ready", Seen: Observation{Text: f.Mend().String() + " has been made", Ref: f.ClaimRef}}
	begun := func(at time.Time, seen Observation) {
		if at.After(p.Since) {
			p.Since, p.Seen = at, seen
		}
	}
	if r, known := f.CountReplicas(); known {
		begun(r.since, Observation{Text: fmt.Sprintf("%s has %d of %d Pods", f.Mend(), r.Made, r.Want), Quote: fmt.Sprintf("replicas=%d", r.Made), Ref: r.Ref})
	}
	p.Until = p.Since.Add(startingFor)
	for i := range f.Pods {
		pod := &f.Pods[i]
		at, seen := pod.Object.CreationTimestamp.Time, PodState(*pod)
		if IsPodReady(&pod.Object) {
			at = PodReadyAt(&pod.Object)
		}
		begun(at, seen)
		for _, c := range PodContainers(pod) {
			if allows := at.Add(max(startingFor, ProbeAllowance(c.Spec.StartupProbe))); allows.After(p.Until) {
				p.Until = allows
			}
		}
	}
	return p
}
