package pipeline

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent"
	"nightcrier.dev/nightcrier/internal/agent/skill"
)

// FrozenVersion is the version of what this program writes. It reads all up to it.
const FrozenVersion = 1

// Frozen is all that an execution needs to know of its pipeline. It is made when a run is
// admitted and kept with it: neither a file that changes nor a server that is upgraded
// changes a run that has begun.
type Frozen struct {
	Version    int        `json:"version"`
	Definition Definition `json:"definition"`
	// Digest is that of the file.
	Digest string `json:"digest"`
	// Skills are those of the steps, by the name in the step.
	Skills map[string]SkillPin `json:"skills,omitempty"`
}

// SkillPin is a skill as it was when the run was admitted.
type SkillPin struct {
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
	Digest  string `json:"digest"`
	// Agent is how its agent is started and bounded, nil where that is as for investigations. What
	// may be spent in a run is no part of it; BudgetUSD bounds one execution.
	Agent     *agent.Spec `json:"agent,omitempty"`
	BudgetUSD float64     `json:"budget_usd,omitempty"`
	// PerMinute is how often it may be started within a minute, AtOnce how many runs of it alone may be
	// under way; 0 is no limit.
	PerMinute int `json:"per_minute,omitempty"`
	AtOnce    int `json:"at_once,omitempty"`
	// Approval is what people are asked before its agent begins, "" where nobody is.
	Approval string `json:"approval,omitempty"`
	// Deliverable is what it leaves where the step does not say.
	Deliverable *Deliverable `json:"deliverable,omitempty"`
	// Notifications say who is told when a run has ended in which it was used.
	Notifications []skill.Notification `json:"notifications,omitempty"`
}

// Resolver finds what a pipeline names.
type Resolver interface {
	ResolveSkill(name string) (SkillPin, error)
}

// Skills resolves skills where they are configured.
type Skills struct {
	*skill.Library
	// Agent says how the agent of a skill is started and bounded; its error says in a line why
	// that cannot be.
	Agent func(*skill.Skill) (agent.Spec, error)
	// Keep keeps a copy of what is pinned, nil where nothing is going to be executed.
	Keep func(*skill.Skill) error
}

// ResolveSkill pins a skill as it is now, if it can be executed.
func (s Skills) ResolveSkill(name string) (SkillPin, error) {
	found, err := s.Find(name)
	if err != nil {
		return SkillPin{}, err
	}
	pin, err := s.Pin(found)
	if err != nil || s.Keep == nil || pin.Agent == nil {
		return pin, err
	}
	return pin, s.Keep(found)
}

// Pin says how a skill is executed; its error says in a line why it cannot be.
func (s Skills) Pin(found *skill.Skill) (SkillPin, error) {
	pin := SkillPin{Name: found.Name, Version: found.Version, Digest: found.Ref().Digest}
	if found.Name == skill.Troubleshooter {
		return pin, nil
	}
	if err := found.CheckRunnable(); err != nil {
		return SkillPin{}, err
	}
	spec, err := s.Agent(found)
	if err != nil {
		return SkillPin{}, err
	}
	pin.Agent, pin.BudgetUSD, pin.Notifications = &spec, found.Settings.BudgetUSD, found.Settings.Notifications
	pin.Approval = found.Settings.Approval
	pin.PerMinute, pin.AtOnce = found.Settings.PerMinute, found.Settings.AtOnce
	switch d := found.Settings.Deliver; {
	case d == nil:
	case d.Report != "":
		return SkillPin{}, nightcrier.Errorf(nightcrier.Refused, "the skill %s cannot be executed: its deliver.report is for %s alone", found.FullName(), skill.Troubleshooter)
	case d.Schema != nil:
		pin.Deliverable = &Deliverable{Kind: Schema, Schema: d.Schema}
	default:
		pin.Deliverable = &Deliverable{Kind: Files, Files: d.Files}
		for _, pattern := range d.Files {
			if err := checkPattern(pattern); err != nil {
				return SkillPin{}, nightcrier.Errorf(nightcrier.Invalid, "the skill %s cannot be executed: deliver: files: %.100q %w", found.FullName(), pattern, err)
			}
		}
	}
	return pin, nil
}

// Freeze makes a pipeline ready for a run. When skills are missing, it names all of them; what is
// returned beside says who is to hear of it.
func (l *Library) Freeze(name string, r Resolver) (Frozen, error) {
	e, err := l.Find(name)
	if err != nil {
		return Frozen{}, err
	}
	pins, lacks := e.PinSkills(r)
	if lacks != "" { // whatever it is, it is not there to be used
		err := nightcrier.Errorf(nightcrier.NotFound, "pipeline %s cannot run: %s", name, lacks)
		return Frozen{Version: FrozenVersion, Definition: e.Definition, Digest: e.Digest}, err
	}
	return Frozen{Version: FrozenVersion, Definition: e.Definition, Digest: e.Digest, Skills: pins}, nil
}

// PinSkills pins its skills, by the name in their steps, and says in one line what is missing to run
// it, "" when nothing is.
func (e *Entry) PinSkills(r Resolver) (pins map[string]SkillPin, lacks string) {
	pins = map[string]SkillPin{}
	var missing, said []string
	for _, name := range e.SkillNames() {
		pin, err := r.ResolveSkill(name)
		switch {
		case err == nil:
			pins[name] = pin
		case nightcrier.CodeOf(err) == nightcrier.NotFound:
			missing = append(missing, name)
		default:
			said = append(said, err.Error())
		}
	}
	if len(missing) > 0 {
		said = append(said, fmt.Sprintf("there is no skill %s: put %s/SKILL.md below a directory that skills.sources or skills.cache_dir names", strings.Join(missing, ", "), missing[0]))
	}
	for _, step := range e.AllSteps() {
		if pin, ok := pins[step.Skill]; ok {
			if wrong := whyUnfit(step, pin); wrong != "" {
				said = append(said, "step "+step.ID+": "+wrong)
			}
		}
	}
	return pins, strings.Join(said, "; ")
}

// whyUnfit says why a skill cannot do a step, "" when it can.
func whyUnfit(step *Step, pin SkillPin) string {
	d := step.Deliverable
	if d == nil {
		d = pin.Deliverable
	}
	switch {
	case step.DeliversReport() && pin.Agent != nil:
		return fmt.Sprintf("the skill %s delivers no report: %s does", pin.Name, skill.Troubleshooter)
	case pin.Name == skill.Troubleshooter && !step.DeliversReport():
		return fmt.Sprintf("the skill %s investigates an incident: give the step deliverable: report", pin.Name)
	case d != nil && d.Kind == Files && pin.Agent != nil:
		if who, err := agent.For(pin.Agent.Executor); err == nil && who.AnswersOnly {
			return fmt.Sprintf("the executor %s can write no files", who.Name)
		}
	}
	return ""
}

// UnmarshalJSON reads what MarshalJSON wrote, and nothing else: what this program does not
// know of is something that it would not do.
func (f *Frozen) UnmarshalJSON(data []byte) error {
	var version struct {
		Version int `json:"version"`
	}
	if err := json.Unmarshal(data, &version); err != nil {
		return nightcrier.Errorf(nightcrier.Invalid, "the frozen pipeline cannot be read: %w", err)
	}
	if version.Version < 1 || version.Version > FrozenVersion {
		return nightcrier.Errorf(nightcrier.Invalid, "the frozen pipeline has version %d, and this program reads 1 to %d: let the version finish it that began it", version.Version, FrozenVersion)
	}
	type plain Frozen
	in := json.NewDecoder(bytes.NewReader(data))
	in.DisallowUnknownFields()
	var read plain
	if err := in.Decode(&read); err != nil {
		field := strings.TrimPrefix(err.Error(), "json: unknown field ")
		if field != err.Error() {
			return nightcrier.Errorf(nightcrier.Invalid, "the frozen pipeline has the field %s, which this program does not know: let the version finish it that began it", field)
		}
		return nightcrier.Errorf(nightcrier.Invalid, "the frozen pipeline cannot be read: %w", err)
	}
	*f = Frozen(read)
	return nil
}
