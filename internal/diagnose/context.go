package diagnose

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"nightcrier.dev/nightcrier"
)

// maxWarnings is how many Events are told that no rule spoke of.
const maxWarnings = 3

// addContext adds facts that no rule tested but that a reader wants to know: the
// state of the Pods, the newest warnings, and what the event claimed.
func (a *assembler) addContext() {
	if !a.f.Hearsay {
		for _, p := range a.f.Pods {
			a.addFact(podState(p), nightcrier.Seen)
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
	if !a.f.isWholeTarget() {
		return
	}
	told := 0
	for _, well := range []bool{false, true} {
		for _, f := range a.f.others {
			if f.isWell() != well || len(f.Pods) == 0 || told >= maxNeighbours || well && told > 1 {
				continue
			}
			told++
			a.addFact(podState(f.Pods[0]), nightcrier.Seen)
		}
	}
}

func podState(p Read[corev1.Pod]) Observation {
	var restarts int32
	for _, c := range podContainers(&p) {
		restarts += c.status.RestartCount
	}
	ready := "not ready"
	if podReady(&p.Object) {
		ready = "ready"
	}
	text := fmt.Sprintf("Pod %s is %s in phase %s, restart count %d", p.Object.Name, ready, p.Object.Status.Phase, restarts)
	if p.Object.Spec.NodeName != "" {
		text += ", on node " + p.Object.Spec.NodeName
	}
	return Observation{Text: text, Quote: "phase=" + string(p.Object.Status.Phase), Ref: p.Ref}
}

// formerEnds tells how containers ended that are well again.
func (a *assembler) formerEnds(p *Read[corev1.Pod]) {
	for _, c := range podContainers(p) {
		if end := c.lastEnd(); end != nil && c.hasRecovered(a.f.Now) {
			a.addFact(c.sawEnd(end), nightcrier.Seen)
		}
	}
}

func (a *assembler) addWarnings() {
	told := map[string]bool{}
	for _, e := range a.f.Events {
		o := sawEvent(e)
		if e.Object.Type != corev1.EventTypeWarning || !a.f.isFresh(e) || told[o.Text] || len(told) >= maxWarnings {
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
	a.addFact(Observation{
		Text:  fmt.Sprintf("the event reported %s of %s", e.FaultType, e.Resource),
		Quote: e.Context, Ref: a.f.claimRef,
	}, nightcrier.Seen)
}
