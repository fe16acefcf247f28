package compose

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scene"
)

// maxWarnings is how many Events are told that no rule spoke of.
const maxWarnings = 3

// addContext adds facts that no rule tested but that a reader wants to know: the
// state of the Pods, the newest warnings, and what the event claimed.
func (a *assembler) addContext() {
	if !a.f.Hearsay {
		for _, p := range a.f.Pods {
			a.addFact(scene.PodState(p), nightcrier.Seen)
			a.formerEnds(&p)
		}
		a.addThrottling()
		a.addNeighbours()
		a.addWarnings()
	}
	a.addAbsence()
	if a.in.Event.FaultType != nightcrier.Asked || len(a.r.Facts) == 0 { // that somebody asked is no news
		a.addClaim()
	}
}

// maxNeighbours is how many Pods of a namespace are told that no rule spoke of.
const maxNeighbours = 4

// addNeighbours tells the state of Pods of a whole namespace: of those that are not
// well, and when all are, of some.
func (a *assembler) addNeighbours() {
	if !a.f.IsWholeTarget() {
		return
	}
	told := 0
	for _, well := range []bool{false, true} {
		for _, f := range a.f.Others {
			if f.IsWell() != well || len(f.Pods) == 0 || told >= maxNeighbours || well && told > 1 {
				continue
			}
			told++
			a.addFact(scene.PodState(f.Pods[0]), nightcrier.Seen)
		}
	}
}

// formerEnds tells how containers ended that are well again.
func (a *assembler) formerEnds(p *scene.Read[corev1.Pod]) {
	for _, c := range scene.PodContainers(p) {
		if end := c.LastTermination(); end != nil && c.HasRecovered(a.f.Now) {
			a.addFact(c.ObserveEnd(end), nightcrier.Seen)
		}
	}
}

func (a *assembler) addWarnings() {
	told := map[string]bool{}
	for _, e := range a.f.Events {
		o := scene.ObserveEvent(e)
		if e.Object.Type != corev1.EventTypeWarning || !a.f.IsFresh(e) || told[o.Text] || len(told) >= maxWarnings {
			continue
		}
		told[o.Text] = true
		a.addFact(o, nightcrier.Seen)
	}
}

// addClaim adds what the event's sender said, which is evidence of the claim alone.
func (a *assembler) addClaim() {
	e := a.in.Event
	if e.FaultType == "" && e.Context == "" {
		return
	}
	a.addFact(scene.Observation{
		Text:  fmt.Sprintf("the event reported %s of %s", e.FaultType, e.Resource),
		Quote: e.Context, Ref: a.f.ClaimRef,
	}, nightcrier.Seen)
}

// muchThrottled is from which share of its periods on a throttled CPU is told.
const muchThrottled = 0.25

// addThrottling tells which containers are held up by their CPU limit: slow probes and
// slow starts may come from it, so it is a fact and no cause.
func (a *assembler) addThrottling() {
	for _, f := range append([]*scene.Facts{a.f}, a.f.Others...) {
		for c := range f.FailingContainers() {
			m, points := f.MeasuredOf(c, func(m scene.Measured) []scene.Point { return m.Throttled })
			if len(points) == 0 {
				continue
			}
			last := points[len(points)-1]
			if last.Value < muchThrottled || last.Value > 1.01 {
				continue
			}
			a.addFact(scene.Observation{
				Text:  fmt.Sprintf("the CPU of %s is throttled in %.0f %% of its periods (limit %s)", c, 100*last.Value, c.Spec.Resources.Limits.Cpu()),
				Quote: last.Text, Ref: m.Ref,
			}, nightcrier.Seen)
		}
	}
}
