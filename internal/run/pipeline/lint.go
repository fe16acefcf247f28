package pipeline

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"nightcrier.dev/nightcrier/internal/agent/skill"
)

// lintTrigger holds the keys of a trigger against its type.
func (r *reader) lintTrigger(t Trigger, n *yaml.Node, path string) {
	switch {
	case t.Type == "":
		if n.Kind == yaml.MappingNode && r.lines[joinPath(path, "type")] == 0 {
			r.addProblem(n.Line, path, errors.New("lacks type: write incident, github_pr, webhook, cron or manual"))
		}
		return
	case len(t.Actions) > 0 && t.Type != OnGitHubPR:
		r.addProblem(r.lines[path+".actions"], path+".actions", fmt.Errorf("belongs to %s, not to %s: take it out", OnGitHubPR, t.Type))
	case len(t.Repositories)+len(t.Branches) > 0 && t.Type != OnGitHubPR:
		r.addProblem(n.Line, path, fmt.Errorf("repositories and branches belong to %s, not to %s: take them out", OnGitHubPR, t.Type))
	case t.Type != OnCron && t.Cron+t.TimeZone != "":
		r.addProblem(n.Line, path, fmt.Errorf("schedule and timezone belong to %s, not to %s: take them out", OnCron, t.Type))
	}
	if t.Type != OnCron {
		return
	}
	if _, err := ParseSchedule(t.Cron, t.TimeZone); err != nil {
		line, at := r.lines[path+".schedule"], path+".schedule"
		if line == 0 {
			line, at = n.Line, path
		}
		r.addProblem(line, at, err)
	}
}

// lintDefinition holds what was read of the keys against each other, and completes it.
func (r *reader) lintDefinition() {
	d := r.def
	d.Lines["name"] = r.lines["name"]
	r.lintTop(d)
	if d.Concurrency.Key == "" && d.Concurrency.Policy != "" {
		r.addProblem(r.lines["concurrency"], "concurrency", errors.New("lacks key: write an expression for what may not run twice at once, such as input.repository"))
	} else if d.Concurrency.Key != "" {
		if d.Concurrency.Policy == "" {
			d.Concurrency.Policy = Queue
		}
		r.lintExpression("concurrency.key", "concurrency.key", d.Concurrency.Key, nil)
	}
	l := &linter{reader: r, ids: map[string]string{}, agents: map[string]string{}, phases: map[string]bool{}}
	for i := range d.Phases {
		l.lintPhase(&d.Phases[i], i)
	}
	l.lintSteps()
	l.lintNotifications()
	if d.Name == Triage {
		r.lintTriage()
	}
}

func (r *reader) lintTop(d *Definition) {
	if r.lines["name"] == 0 {
		r.addProblem(1, "name", errors.New("is missing: write the name by which it is called"))
	}
	steps, phases := r.lines["steps"], r.lines["phases"]
	switch {
	case steps > 0 && phases > 0:
		r.addProblem(max(steps, phases), "steps", errors.New("is given beside phases: keep one"))
	case steps+phases == 0:
		r.addProblem(1, "steps", errors.New("is missing: write a list of skills or actions below it"))
	}
	if on, trigger := r.lines["on"], r.lines["trigger"]; on > 0 && trigger > 0 {
		r.addProblem(max(on, trigger), "trigger", errors.New("is given beside on, which is the same: keep one"))
	}
	given := map[string]string{}
	for _, from := range slices.Sorted(maps.Keys(d.InputMapping)) {
		to := d.InputMapping[from]
		if other := given[to]; other != "" {
			r.addProblem(r.lines["input_mapping."+from], "input_mapping."+from, fmt.Errorf("gives %s, which %s gives too: keep one", to, other))
		}
		given[to] = from
	}
}

// linter walks the steps.
type linter struct {
	*reader
	// ids and agents say at which path a name was given, phases which came before.
	ids, agents map[string]string
	phases      map[string]bool
}

// pathOf is the path of a phase; steps that are written without are at the top.
func (l *linter) pathOf(i int) string {
	if l.lines["phases"] == 0 {
		return ""
	}
	return fmt.Sprintf("phases[%d]", i)
}

func (l *linter) lintPhase(p *Phase, i int) {
	at := l.pathOf(i)
	if at != "" {
		l.lintPhaseName(p, at)
	}
	for j := range p.Steps {
		path := joinPath(at, fmt.Sprintf("steps[%d]", j))
		l.completeStep(&p.Steps[j], path)
		l.lintFailure(&p.Steps[j], path)
	}
}

func (l *linter) lintPhaseName(p *Phase, at string) {
	line := l.lineBelow(at)
	switch {
	case p.Name == "" && l.lines[at+".name"] == 0:
		l.addProblem(line, at, errors.New("lacks name: write one"))
	case p.Name != "" && l.phases[p.Name]:
		l.addProblem(l.lines[at+".name"], at+".name", fmt.Errorf("is %s, as an earlier phase is: each has a name of its own", quoteValue(p.Name)))
	}
	if p.FanInFrom != "" && !l.phases[p.FanInFrom] {
		earlier := slices.Sorted(maps.Keys(l.phases))
		l.addProblem(l.lines[at+".fan_in_from"], at+".fan_in_from", fmt.Errorf("is %s, which is no earlier phase: %s", quoteValue(p.FanInFrom), suggestOr(p.FanInFrom, earlier, "earlier are ")))
	}
	if l.lines[at+".steps"] == 0 {
		l.addProblem(line, at, errors.New("lacks steps: write a list of skills or actions"))
	}
	l.phases[p.Name] = true
}

// lineBelow is the first line of what is written below a path.
func (r *reader) lineBelow(path string) int {
	first := 0
	for at, line := range r.lines {
		if strings.HasPrefix(at, path+".") && (first == 0 || line < first) {
			first = line
		}
	}
	return first
}

// completeStep gives a step the names that it was not given.
func (l *linter) completeStep(s *Step, path string) {
	line := l.lines[path]
	has := func(key string) bool { return l.lines[path+"."+key] > 0 }
	switch {
	case has("approval") && (has("skill") || has("action")):
		l.addProblem(line, path, errors.New("has an approval beside what is to be done: make the approval a step before it"))
		s.Action = ""
	case has("approval"):
	case has("skill") && has("action"):
		l.addProblem(line, path, errors.New("has a skill and an action: make two steps of it"))
	case !has("skill") && !has("action"):
		l.addProblem(line, path, fmt.Errorf("lacks skill: write the skill that an agent uses, such as dev/deployer, an approval, or an action: %s", strings.Join(Actions(), ", ")))
	}
	if s.Skill == "" && s.Action == "" {
		return
	}
	own := strings.NewReplacer("/", "-", ".", "-").Replace(s.Skill + s.Action)
	if s.ID == "" {
		s.ID = orOther(s.AgentID, own)
	}
	if s.Action != "" { // no agent has that name
		own = s.ID
	}
	s.AgentID = orOther(s.AgentID, own)
	for key, given := range map[string]struct {
		name  string
		taken map[string]string
	}{"id": {s.ID, l.ids}, "agent_id": {s.AgentID, l.agents}} {
		other := given.taken[given.name]
		switch {
		case other == "":
			given.taken[given.name] = path
		case has(key):
			l.addProblem(l.lines[path+"."+key], path+"."+key, fmt.Errorf("is %s, as that of %s is: give one of them another", quoteValue(given.name), other))
		case key == "id" || has("id"):
			l.addProblem(line, path, fmt.Errorf("uses %s, as %s does: give one of them an id and an agent_id", s.Uses(), other))
		}
	}
}

func orOther(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// lintFailure completes what follows a failure, and holds the keys of actions against them.
func (l *linter) lintFailure(s *Step, path string) {
	line := func(key string) int { return l.lines[path+"."+key] }
	switch {
	case s.OnFailure == "" && s.Required:
		s.OnFailure = Stop
	case s.OnFailure == "":
		s.OnFailure = Continue
	case s.OnFailure == Continue && line("required") == 0:
		s.Required = false
	case s.OnFailure == Stop && !s.Required, s.OnFailure == Continue && s.Required:
		l.addProblem(line("on_failure"), path+".on_failure", fmt.Errorf("is %s, and required is %t: take one of them out", s.OnFailure, s.Required))
	}
	switch {
	case s.Retries > 0 && s.OnFailure != Retry:
		l.addProblem(line("retries"), path+".retries", errors.New("belongs to on_failure: retry, which is not given"))
	case s.OnFailure == Retry && line("retries") == 0:
		s.Retries = 1
	}
	if s.Action == "" {
		return
	}
	for _, key := range []string{"deliverable", "budget"} {
		if line(key) > 0 {
			l.addProblem(line(key), path+"."+key, errors.New("belongs to a skill, not to an action: take it out"))
		}
	}
	if s.Approval != nil {
		l.lintApproval(s, path)
	}
}

// lintApproval holds the keys of an approval against each other.
func (l *linter) lintApproval(s *Step, path string) {
	line := func(key string) int { return l.lines[path+"."+key] }
	switch a := s.Approval; {
	case line("approval.prompt") == 0:
		l.addProblem(line("approval"), path+".approval", errors.New("lacks prompt: write an expression for what people are asked, such as '\"Deploy \" + input.app'"))
	case len(a.Approvers) > 0 && a.Needed > len(a.Approvers):
		l.addProblem(line("approval.needed"), path+".approval.needed", fmt.Errorf("is %d, and approvers has %d: nobody could agree to it", a.Needed, len(a.Approvers)))
	}
	if s.OnFailure == Retry {
		l.addProblem(line("on_failure"), path+".on_failure", errors.New("is retry, and people are asked once: write stop or continue"))
	}
	if line("timeout") > 0 {
		l.addProblem(line("timeout"), path+".timeout", errors.New("is for what works: write approval.expires, or nothing to wait for ever"))
	}
}

// lintSteps compiles the expressions of the steps: each may name what was before it.
func (l *linter) lintSteps() {
	place := map[string]string{} // of every step, by its id
	for i := range l.def.Phases {
		for j, s := range l.def.Phases[i].Steps {
			place[s.ID] = joinPath(l.pathOf(i), fmt.Sprintf("steps[%d]", j))
		}
	}
	before := &known{place: place, done: map[string]bool{}}
	for i := range l.def.Phases {
		p := &l.def.Phases[i]
		for j := range p.Steps {
			s := &p.Steps[j]
			path := place[s.ID]
			if path != joinPath(l.pathOf(i), fmt.Sprintf("steps[%d]", j)) {
				continue // its name is another's, or it has none
			}
			if s.If != "" {
				l.lintExpression(path+".if", s.ID+".if", s.If, before)
			}
			if s.Approval != nil && s.Approval.Prompt != "" {
				l.lintExpression(path+".approval.prompt", s.ID+promptName, s.Approval.Prompt, before)
			}
			for _, name := range slices.Sorted(maps.Keys(s.With)) {
				l.lintExpression(path+".with."+name, s.ID+".with."+name, s.With[name], before)
			}
			if !p.Parallel {
				before.done[s.ID] = true
			}
		}
		for _, s := range p.Steps {
			before.done[s.ID] = true
		}
	}
}

// lintNotifications compiles the expressions of the notifications, which may name any step.
func (l *linter) lintNotifications() {
	all := &known{place: l.ids, done: map[string]bool{}}
	for id := range l.ids {
		all.done[id] = true
	}
	for i, n := range l.def.Notifications {
		path := fmt.Sprintf("notifications[%d]", i)
		if n.Channel == "" && l.lines[path+".channel"] == 0 {
			l.addProblem(l.lines[path], path, fmt.Errorf("lacks channel: write %s", strings.Join(skill.Channels(), " or ")))
		}
		for key, source := range map[string]string{".if": n.If, ".text": n.Text} {
			if source != "" {
				l.lintExpression(path+key, path+key, source, all)
			}
		}
	}
}

// known is which steps there are, and which of them are done.
type known struct {
	place map[string]string
	done  map[string]bool
}

// lintExpression compiles an expression; before is nil where no step can be named. Its
// line is kept under its name.
func (r *reader) lintExpression(path, name, source string, before *known) {
	line := r.lines[path]
	r.def.Lines[name] = line
	e, err := compileAs(name, source)
	if err != nil {
		r.addProblem(line, path, err)
		return
	}
	for _, id := range e.EntriesOf("steps") {
		switch {
		case before == nil || before.done[id]:
		case before.place[id] != "":
			r.addProblem(line, path, fmt.Errorf("names the step %s (%s), which is not done by then: name one that comes before it", id, before.place[id]))
		default:
			done := slices.DeleteFunc(slices.Sorted(maps.Keys(before.done)), func(id string) bool { return id == "" }) // a step with a mistake may have none
			r.addProblem(line, path, fmt.Errorf("names the step %s, which there is not: %s", quoteValue(id), suggestOr(id, done, "before it are ")))
		}
	}
}
