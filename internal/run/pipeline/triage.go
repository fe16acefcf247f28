package pipeline

import (
	"errors"
	"fmt"
)

// lintTriage holds a pipeline that takes the place of the product's against what the
// product relies on: what is known is collected before an agent looks, one agent delivers
// the report, its facts are checked, and somebody is told; each once, always, and in this
// order.
func (r *reader) lintTriage() {
	const because = "incidents rely on collect, one skill with deliverable: report, check and notify, in this order"
	order := []string{ActionCollect, string(Report), ActionCheck, ActionNotify}
	next := 0
	for phase, s := range r.def.AllSteps() {
		role := s.Action
		if s.Deliverable != nil && s.Deliverable.Kind == Report {
			role = string(Report)
		}
		line := r.def.Lines[s.ID+".if"]
		switch {
		case role == "" && next == 0:
			r.addProblem(r.lines["name"], "", fmt.Errorf("the step %s comes before collect: %s", s.ID, because))
		case role == "":
		case next == len(order) || role != order[next]:
			r.addProblem(r.lines["name"], "", fmt.Errorf("the step %s is out of place: %s", s.ID, because))
			return
		case phase.Parallel:
			r.addProblem(r.lines["name"], "", fmt.Errorf("the step %s is in a parallel phase: put it into one of its own", s.ID))
			next++
		default:
			next++
		}
		if role != "" && s.If != "" {
			r.addProblem(line, "", fmt.Errorf("the step %s has an if: incidents rely on it: take the condition out", s.ID))
		}
	}
	if next < len(order) {
		r.addProblem(r.lines["name"], "", errors.New("lacks "+describeRole(order[next])+": "+because))
	}
}

func describeRole(role string) string {
	if role == string(Report) {
		return "a skill with deliverable: report"
	}
	return "action: " + role
}
