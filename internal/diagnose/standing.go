package diagnose

import (
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// standing is how a workload stands, as far as the cluster shows it.
type standing int

const (
	// standsUnjudged: nothing shows that it is well, nor that it is not.
	standsUnjudged standing = iota
	// standsDown: something of it is wrong or missing.
	standsDown
	// standsComingUp: what is not there yet has only begun, and nothing speaks against it.
	standsComingUp
	// standsWell: it has all that it wants, and has had it for a while.
	standsWell
)

const (
	// startingFor is how long a Pod that has not failed may take to become ready before
	// that counts as anything.
	startingFor = 2 * time.Minute
	// steadyFor is how long a Pod must have been ready to show that all is well: most
	// that cannot run fail within their first seconds.
	steadyFor = 30 * time.Second
)

// isWell reports whether the workload has shown that it is as it should be.
func (f *Facts) isWell() bool { return f.judgeStanding() == standsWell }

// lacksPods reports whether a controller has made fewer Pods than are wished for.
func (f *Facts) lacksPods() bool {
	r, known := f.countReplicas()
	return known && r.counted && r.made < r.want
}

// judgeStanding judges a workload by what its controller counts and by every Pod that was
// read of it.
func (f *Facts) judgeStanding() standing {
	job := f.ofJob() && f.Job != nil
	switch {
	case f.Owner.Kind == "CronJob" && f.Job == nil:
		return standsWell
	case job && f.jobFailedForGood():
		return standsDown
	case job && jobCondition(f.Job.Object, batchv1.JobComplete) != nil:
		return standsWell
	}
	r, known := f.countReplicas()
	if !job && f.Replicas.Total == 0 && known && r.want == 0 {
		return standsWell
	}
	if !job && known && (f.Replicas.Total == 0 || f.lacksPods()) {
		if f.Now.Sub(r.since) < startingFor && !r.refused {
			return standsComingUp
		}
		return standsDown
	}
	of := f.podsStand()
	if of == standsWell && known && !(r.current && r.isWell()) {
		return standsUnjudged
	}
	return of
}

// podsStand is how the Pods stand, as the worst of them does.
func (f *Facts) podsStand() standing {
	all := f.all
	if all == nil {
		for i := range f.Pods {
			all = append(all, &f.Pods[i])
		}
	}
	worst := standsUnjudged
	for _, p := range all {
		if f.leftOver(&p.Object) || isReplaced(&p.Object) && f.Replicas.Total > 0 {
			continue
		}
		of := f.podStands(p)
		if of == standsDown {
			return standsDown
		}
		if worst == standsUnjudged || of < worst {
			worst = of
		}
	}
	return worst
}

func (f *Facts) podStands(p *Read[corev1.Pod]) standing {
	switch {
	case podWell(p, f.Now) && f.isSteady(&p.Object):
		return standsWell
	case podWell(p, f.Now), f.isStarting(p):
		return standsComingUp
	}
	return standsDown
}

// isSteady reports whether a Pod has been ready for a while, or has completed.
func (f *Facts) isSteady(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || f.Now.Sub(readyAt(p)) >= steadyFor
}

// isStarting reports whether a Pod is new and nothing has kept it from starting so far: it
// has not failed, and waits for nothing but to be placed and made.
func (f *Facts) isStarting(p *Read[corev1.Pod]) bool {
	if f.Now.Sub(p.Object.CreationTimestamp.Time) > startingFor || p.Object.Status.Phase == corev1.PodFailed {
		return false
	}
	if pendingOn(&p.Object) != "" && !f.isNodeComing(p) {
		return false
	}
	for _, c := range podContainers(p) {
		end := c.lastEnd()
		reason, _ := c.waitingReason()
		if c.status.RestartCount > 0 || end != nil && end.ExitCode != 0 || !slices.Contains(startReasons, reason) {
			return false
		}
	}
	return true
}

// startReasons are what a container waits for that only starts; any other reason
// names what keeps it.
var startReasons = []string{"", "ContainerCreating", "PodInitializing"}
