package collect

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scene"
	"nightcrier.dev/nightcrier/internal/text"
)

// Bounds of the logs that are read: of what fails, of the target, of one whole namespace,
// of others; and of what runs.
const (
	maxLogs         = 6
	maxWholeLogs    = 16
	maxOtherLogs    = 4
	maxRunning      = 4 // Pods of the target
	maxWholeRunning = 16
	maxOtherRunning = 6
)

// maxTold is how much of an event's own words is looked through for the names of
// workloads, in bytes.
const maxTold = 16 << 10

// readRunningLogs reads the logs of what runs and may still be where the trouble is: of the
// target, of what it leads to and what it needs; of a whole namespace those that
// something points at, the most suspicious first.
func (c *Collector) readRunningLogs(ctx context.Context, f *scene.Facts) error {
	own, others, most := c.runningSuspects(f)
	pods := runningPods(own, maxRunning)
	pods = append(pods, runningPods(others, 1)...)
	if err := c.readTogether(ctx, c.logLooks(c.runningLogs(pods, most))...); err != nil {
		return err
	}
	for _, l := range c.Scene.Logs {
		if p := scene.FindObject(c.Scene.Pods, l.Namespace, l.Pod); p != nil && (c.Scene.WorkloadAbove("Pod", &p.Object) == f.Mend() || l.Pod == f.Target.Name) {
			f.Logs = append(f.Logs, l)
		}
	}
	return nil
}

// runningSuspects are the workloads whose running Pods are looked at: the target and what
// it leads to, and others that may be behind it, the most suspicious first.
func (c *Collector) runningSuspects(f *scene.Facts) (own, others []*scene.Facts, most int) {
	all := c.Scene.AllWorkloads()
	g := scene.DrawGraph(c.Scene)
	scores := map[*scene.Facts]int{}
	if f.IsWholeTarget() {
		clients := map[nightcrier.Object]int{}
		for _, w := range all {
			for o, way := range g.ReachFrom(w.Mend(), scene.BySetting) {
				clients[o]++
				if way.Hold == scene.ByComplaint {
					clients[o] += 4
				}
			}
		}
		for _, w := range all {
			if scores[w] = c.suspicionOf(w) + min(clients[w.Mend()], 8); scores[w] > 0 || w.Owner.Namespace != scene.SystemNamespace {
				others = append(others, w)
			}
		}
		slices.SortStableFunc(others, func(a, b *scene.Facts) int { return cmp.Compare(scores[b], scores[a]) })
		return nil, others, maxWholeRunning
	}
	leads, needs := g.ReachFrom(f.Mend(), scene.ByMake), g.ReachFrom(f.Mend(), scene.BySetting)
	for _, w := range all {
		_, made := leads[w.Mend()]
		_, needed := needs[w.Mend()]
		switch {
		case w.Mend() == f.Mend(), made:
			own = append(own, w)
			c.Scene.Concern(w.Mend())
		case needed:
			others = append(others, w)
		}
	}
	return own, others, maxRunning + maxOtherRunning
}

// suspicionOf tells how much points at a workload that may well be well.
func (c *Collector) suspicionOf(f *scene.Facts) (score int) {
	if strings.Contains(text.KeepBytes(c.in.Event.Context, maxTold), f.Owner.Name) {
		score += 10
	}
	for _, e := range f.Events {
		if e.Object.Type == corev1.EventTypeWarning && f.IsFresh(e) {
			score += 6
			break
		}
	}
	for container := range f.AllContainers() {
		if end := container.LastTermination(); end != nil && end.ExitCode != 0 && f.Now.Sub(end.FinishedAt.Time) < recently {
			score += 4
			break
		}
	}
	if f.ReplicaSet != nil && f.Now.Sub(f.ReplicaSet.Object.CreationTimestamp.Time) < recently {
		score += 3
	}
	return score
}

// recently is how long ago a restart or a rollout makes one suspicious.
const recently = 2 * time.Hour

// runningPods are the Pods of workloads that run, the newest first, most of each.
func runningPods(all []*scene.Facts, most int) (pods []scene.Read[corev1.Pod]) {
	for _, f := range all {
		n := 0
		for p := range f.AllPods() {
			if p.Object.Status.Phase == corev1.PodRunning && n < most {
				pods, n = append(pods, *p), n+1
			}
		}
	}
	return pods
}

// runningLogs are the logs of running containers that were not read yet, at most so many.
func (c *Collector) runningLogs(pods []scene.Read[corev1.Pod], most int) (logs []logOf) {
	for i := range pods {
		for _, ct := range scene.PodContainers(&pods[i]) {
			had := slices.ContainsFunc(c.Scene.Logs, func(l scene.LogExcerpt) bool {
				return l.Namespace == pods[i].Object.Namespace && l.Pod == pods[i].Object.Name && l.Container == ct.Status.Name && !l.Previous
			})
			if !had && ct.Status.State.Running != nil && len(logs) < most {
				logs = append(logs, logOf{ct, false})
			}
		}
	}
	return logs
}

// failingPods are the Pods of the workloads that are not well, those of which nothing is
// left first.
func failingPods(all []*scene.Facts) []scene.Read[corev1.Pod] {
	all = slices.DeleteFunc(slices.Clone(all), func(f *scene.Facts) bool { return f.JudgeStanding() != scene.StandsDown })
	slices.SortStableFunc(all, func(a, b *scene.Facts) int { return outOf(b) - outOf(a) })
	var pods []scene.Read[corev1.Pod]
	for _, f := range all {
		for _, p := range f.Pods[:min(1, len(f.Pods))] {
			if !scene.IsPodWell(&p, f.Now) {
				pods = append(pods, p)
			}
		}
	}
	return pods
}

func outOf(f *scene.Facts) int {
	if f.Replicas.Ready == 0 {
		return 1
	}
	return 0
}

// readOthersLogs reads the logs of failing workloads that the target needs, and of those
// that need it: they tell what else the fault touches.
func (c *Collector) readOthersLogs(ctx context.Context, f *scene.Facts) error {
	g := scene.DrawGraph(c.Scene)
	needs := g.ReachFrom(f.Mend(), scene.BySetting)
	var needed, needing []*scene.Facts
	for _, o := range c.Scene.AllWorkloads() {
		_, below := needs[o.Mend()]
		_, above := g.ReachFrom(o.Mend(), scene.BySetting)[f.Mend()]
		switch {
		case o.Mend() == f.Mend():
		case below:
			needed = append(needed, o)
		case above:
			needing = append(needing, o)
		}
	}
	if err := c.readLogs(ctx, failingPods(needed), maxOtherLogs); err != nil {
		return err
	}
	return c.readLogs(ctx, failingPods(needing), maxOtherLogs)
}

// readLogs reads the logs of the containers that are not well, of their previous
// instance too where there is one. Each node is asked for one log first: one that
// is away would be waited for with every further one.
func (c *Collector) readLogs(ctx context.Context, pods []scene.Read[corev1.Pod], most int) error {
	var first, rest []logOf
	asked := map[string]bool{}
	for i := range pods {
		for _, ct := range scene.PodContainers(&pods[i]) {
			if ct.LastTermination() == nil && ct.Status.Ready || neverStarted(ct) || len(first)+len(rest) >= most {
				continue
			}
			logs := []logOf{{ct, false}}
			if ct.Status.RestartCount > 0 {
				logs = []logOf{{ct, true}, {ct, false}}
			}
			if node := pods[i].Object.Spec.NodeName; !asked[node] {
				asked[node] = true
				first, logs = append(first, logs[0]), logs[1:]
			}
			rest = append(rest, logs...)
		}
	}
	if err := c.readTogether(ctx, c.logLooks(first)...); err != nil {
		return err
	}
	return c.readTogether(ctx, c.logLooks(rest)...)
}

// logOf is a log to read.
type logOf struct {
	scene.Container
	previous bool
}

// logLooks are the reads of logs whose nodes have not failed to answer.
func (c *Collector) logLooks(logs []logOf) (looks []look) {
	for _, l := range logs {
		if p := &l.Pod.Object; !c.logless[p.Spec.NodeName] {
			looks = append(looks, c.lookAtLog(p, l.Status.Name, l.previous))
		}
	}
	return looks
}

// neverStarted reports whether a container cannot have written anything.
func neverStarted(c scene.Container) bool {
	return c.Status.State.Running == nil && c.LastTermination() == nil && c.Status.RestartCount == 0
}

// Bounds of one container's log.
const (
	logLines = 100
	logBytes = 64 << 10
)

// lookAtLog returns the look that reads the end of a container's log. A log that does not
// exist, as before the first start, is no excerpt and nothing missed.
func (c *Collector) lookAtLog(pod *corev1.Pod, container string, previous bool) look {
	source := fmt.Sprintf("kubectl logs %s -c %s -n %s --tail=%d", pod.Name, container, pod.Namespace, logLines)
	if previous {
		source += " --previous"
	}
	return look{
		source: source,
		ask: func(ctx context.Context) ([]byte, error) {
			return c.in.Reader.Logs(ctx, pod.Namespace, pod.Name, container, previous, logLines, logBytes)
		},
		take: func(body []byte) error {
			if len(body) == 0 {
				return nil
			}
			if scene.LostLogPattern.Match(body) {
				c.NoteMissed(source, string(body))
				return nil
			}
			ref, err := c.recordBody("log", source, body)
			c.Scene.Logs = append(c.Scene.Logs, scene.LogExcerpt{
				Namespace: pod.Namespace, Pod: pod.Name, Container: container, Previous: previous,
				Evidence: ref.Evidence, Text: c.in.Mask(string(body)),
			})
			return err
		},
		fail: func(err error) error {
			switch nightcrier.CodeOf(err) {
			case nightcrier.NotFound, nightcrier.Invalid: // there is none, says the kubelet
				return nil
			case nightcrier.Unreachable: // the API server answers 5xx when the node is away, not the cluster
				c.logless[pod.Spec.NodeName] = true
				c.unanswered.Store(0)
				c.NoteMissed(source, err.Error())
				return nil
			}
			return c.noteFailure(source, err)
		},
	}
}
