package scene

import (
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// IsOwnerKnown reports whether what the Pods belong to was read, or, where only its own
// operator knows how many it wants, all of its Pods: one Pod says nothing of the others.
func (f *Facts) IsOwnerKnown() bool {
	switch f.Owner.Kind {
	case "Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job":
		_, known := f.CountReplicas()
		return known
	}
	return f.Owner == f.Target || f.Scene.Listed("Pod", f.Owner.Namespace)
}

// IsMakerShown reports whether more than its name tells that the owner made the Pod that
// the Facts are about: the ReplicaSet that stands between them, or another Pod of the same
// making. A StatefulSet's Pods have no other names.
func (f *Facts) IsMakerShown() bool {
	if f.Owner == f.Target {
		return false
	}
	if f.Owner.Kind == "StatefulSet" {
		rest, ok := strings.CutPrefix(f.Target.Name, f.Owner.Name+"-")
		return ok && rest != "" && strings.Trim(rest, "0123456789") == ""
	}
	base := cutLastPart(f.Target.Name)
	made := func(kind string, obj metav1.Object) bool { return f.Scene.WorkloadAbove(kind, obj) == f.Mend() }
	return slices.ContainsFunc(f.Scene.ReplicaSets, func(rs Read[appsv1.ReplicaSet]) bool {
		return rs.Object.Namespace == f.Target.Namespace && rs.Object.Name == base && made("ReplicaSet", &rs.Object)
	}) || slices.ContainsFunc(f.Scene.Pods, func(p Read[corev1.Pod]) bool {
		return p.Object.Namespace == f.Target.Namespace && cutLastPart(p.Object.Name) == base && made("Pod", &p.Object)
	})
}

func cutLastPart(name string) string { return name[:max(0, strings.LastIndexByte(name, '-'))] }

// LaterSuccess is the newest run of what made a failed Job, where it came after that one and
// is complete: the failure is history then. nil where the newest run has not succeeded.
func (f *Facts) LaterSuccess() *Read[batchv1.Job] {
	if f.Job == nil || FindJobCondition(f.Job.Object, batchv1.JobFailed) == nil {
		return nil
	}
	maker := ControllerOf(&f.Job.Object)
	newest := f.Job
	for i := range f.Scene.Jobs {
		j := &f.Scene.Jobs[i]
		ended := FindJobCondition(j.Object, batchv1.JobComplete) != nil || FindJobCondition(j.Object, batchv1.JobFailed) != nil
		if ended && !maker.IsZero() && j.Object.Namespace == f.Job.Object.Namespace && ControllerOf(&j.Object) == maker && j.Object.CreationTimestamp.After(newest.Object.CreationTimestamp.Time) {
			newest = j
		}
	}
	if FindJobCondition(newest.Object, batchv1.JobComplete) == nil {
		return nil
	}
	return newest
}

// ObserveSuccess is what shows that a Job is complete.
func ObserveSuccess(j *Read[batchv1.Job]) Observation {
	c := FindJobCondition(j.Object, batchv1.JobComplete)
	return Observation{
		Text:  fmt.Sprintf("Job %s of %s, a later run, is complete since %s", j.Object.Name, ControllerOf(&j.Object).Name, c.LastTransitionTime.UTC().Format(time.RFC3339)),
		Quote: "type=Complete", Ref: j.Ref,
	}
}

// JobFailedForGood reports whether the Pods belong to a Job that has given up.
func (f *Facts) JobFailedForGood() bool {
	return f.Job != nil && FindJobCondition(f.Job.Object, batchv1.JobFailed) != nil
}

// FindJobCondition is a condition of a Job that holds, nil when it does not.
func FindJobCondition(j batchv1.Job, kind batchv1.JobConditionType) *batchv1.JobCondition {
	for i, c := range j.Status.Conditions {
		if c.Type == kind && c.Status == corev1.ConditionTrue {
			return &j.Status.Conditions[i]
		}
	}
	return nil
}

// IsOfJob reports whether the Pods belong to a Job, which is expected to end.
func (f *Facts) IsOfJob() bool {
	return f.Job != nil || f.Owner.Kind == "Job" || f.Owner.Kind == "CronJob"
}

// JobWorks reports whether the Job is at its first try, and that one runs.
func (f *Facts) JobWorks() bool {
	st := f.Job.Object.Status
	return st.Active > 0 && st.Failed == 0 && len(f.Pods) > 0 &&
		!slices.ContainsFunc(f.Pods, func(p Read[corev1.Pod]) bool { return !IsPodWell(&p, f.Now) })
}

// Standing is how a workload stands, as far as the cluster shows it.
type Standing int

const (
	// StandsUnjudged: nothing shows that it is well, nor that it is not.
	StandsUnjudged Standing = iota
	// StandsDown: something of it is wrong or missing.
	StandsDown
	// StandsComingUp: what is not there yet has only begun, and nothing speaks against it.
	StandsComingUp
	// StandsWell: it has all that it wants, and has had it for a while.
	StandsWell
)

const (
	// startingFor is how long a Pod that has not failed may take to become ready before
	// that counts as anything.
	startingFor = 2 * time.Minute
	// steadyFor is how long a Pod must have been ready to show that all is well: most
	// that cannot run fail within their first seconds.
	steadyFor = 30 * time.Second
)

// IsWell reports whether the workload has shown that it is as it should be.
func (f *Facts) IsWell() bool { return f.JudgeStanding() == StandsWell }

// LacksPods reports whether a controller has made fewer Pods than are wished for.
func (f *Facts) LacksPods() bool {
	r, known := f.CountReplicas()
	return known && r.counted && r.Made < r.Want
}

// JudgeStanding judges a workload by what its controller counts and by every Pod that was
// read of it.
func (f *Facts) JudgeStanding() Standing {
	job := f.IsOfJob() && f.Job != nil
	switch {
	case f.Owner.Kind == "CronJob" && f.Job == nil:
		return StandsWell
	case job && f.LaterSuccess() != nil:
		return StandsWell
	case job && f.JobFailedForGood():
		return StandsDown
	case job && FindJobCondition(f.Job.Object, batchv1.JobComplete) != nil:
		return StandsWell
	}
	r, known := f.CountReplicas()
	if !job && f.Replicas.Total == 0 && known && r.Want == 0 {
		return StandsWell
	}
	if !job && known && (f.Replicas.Total == 0 || f.LacksPods()) {
		if f.Now.Sub(r.since) < startingFor && !r.refused {
			return StandsComingUp
		}
		return StandsDown
	}
	of := f.podsStand()
	if of == StandsWell && known && !(r.current && r.isWell()) {
		return StandsUnjudged
	}
	return of
}

// podsStand is how the Pods stand, as the worst of them does.
func (f *Facts) podsStand() Standing {
	all := f.all
	if all == nil {
		for i := range f.Pods {
			all = append(all, &f.Pods[i])
		}
	}
	worst := StandsUnjudged
	for _, p := range all {
		if f.leftOver(&p.Object) || isReplaced(&p.Object) && f.Replicas.Total > 0 {
			continue
		}
		of := f.podStands(p)
		if of == StandsDown {
			return StandsDown
		}
		if worst == StandsUnjudged || of < worst {
			worst = of
		}
	}
	return worst
}

func (f *Facts) podStands(p *Read[corev1.Pod]) Standing {
	switch {
	case IsPodWell(p, f.Now) && f.isSteady(&p.Object):
		return StandsWell
	case IsPodWell(p, f.Now), f.isStarting(p):
		return StandsComingUp
	}
	return StandsDown
}

// isSteady reports whether a Pod has been ready for a while, or has completed.
func (f *Facts) isSteady(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || f.Now.Sub(PodReadyAt(p)) >= steadyFor
}

// isStarting reports whether a Pod is new and nothing has kept it from starting so far: it
// has not failed, and waits for nothing but to be placed and made.
func (f *Facts) isStarting(p *Read[corev1.Pod]) bool {
	if f.Now.Sub(p.Object.CreationTimestamp.Time) > startingFor || p.Object.Status.Phase == corev1.PodFailed {
		return false
	}
	if SchedulerMessage(&p.Object) != "" && !f.IsNodeComing(p) {
		return false
	}
	for _, c := range PodContainers(p) {
		end := c.LastTermination()
		reason, _ := c.WaitingReason()
		if c.Status.RestartCount > 0 || end != nil && end.ExitCode != 0 || !slices.Contains(startReasons, reason) {
			return false
		}
	}
	return true
}

// startReasons are what a container waits for that only starts; any other reason
// names what keeps it.
var startReasons = []string{"", "ContainerCreating", "PodInitializing"}
