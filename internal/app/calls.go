package app

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"path"
	"slices"
	"strings"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/config"
	"nightcrier.dev/nightcrier/internal/face/api"
	"nightcrier.dev/nightcrier/internal/record/store"
	"nightcrier.dev/nightcrier/internal/run/pipeline"
	texts "nightcrier.dev/nightcrier/internal/text"
)

// StartRun queues a run of a pipeline that somebody calls, or returns the one that the same call queued
// before. What it does is frozen when it is admitted.
func (a *Investigator) StartRun(ctx context.Context, c api.Call) (nightcrier.Run, error) {
	n := a.newCall(c)
	if n.Call != "" {
		if run, err := a.store.CalledRun(ctx, n); nightcrier.CodeOf(err) != nightcrier.NotFound {
			return run, err
		}
	}
	if err := a.completeRun(ctx, &n); err != nil {
		return nightcrier.Run{}, err
	}
	e, err := a.store.EnqueueRun(ctx, n)
	a.tellEnqueued(ctx, e)
	return e.Run, err
}

// CheckCall implements api.Skills.
func (a *Investigator) CheckCall(ctx context.Context, c api.Call) error {
	n := a.newCall(c)
	return a.completeRun(ctx, &n)
}

// newCall is the run that a call asks for. One with a key has an id of its own by that, so that it is the same
// when it is made again; the key itself is kept nowhere.
func (a *Investigator) newCall(c api.Call) store.NewRun {
	id, call := nightcrier.NewID(), ""
	if c.Key != "" {
		id, call = nightcrier.DerivedID("call", c.Key), digestCall(c)
	}
	if c.Skill != "" {
		c.Pipeline = nightcrier.SkillPrefix + a.skillLibrary.Qualify(c.Skill)
	}
	by := texts.MaskClean(c.By, a.masker.String, texts.FoldLine)
	n := store.NewRun{
		ID: id, Call: call, Subject: nightcrier.Subject{Kind: nightcrier.SubjectCall, ID: id, Title: by}, Pipeline: c.Pipeline,
		Model: c.Model, Severity: c.Priority, TriggeredBy: by, Input: c.Input,
	}
	if c.Deadline > 0 {
		n.Deadline = a.opt.Now().Add(c.Deadline)
	}
	return n
}

// digestCall is the digest of all that a call asks for, its input without the space that means nothing.
func digestCall(c api.Call) string {
	var input bytes.Buffer
	if json.Compact(&input, c.Input) != nil {
		input.Write(c.Input) // it is refused for that
	}
	return nightcrier.DerivedID(c.Pipeline, c.Skill, c.Model, input.String(), c.By, c.Priority.String(), c.Deadline.String())
}

// completeRun adds to a run that is to be queued what its pipeline says, and refuses one that
// could never end well.
func (a *Investigator) completeRun(ctx context.Context, n *store.NewRun) error {
	found, err := a.pipelines.Library().Find(n.Pipeline)
	if err != nil {
		return err
	}
	resolver := a.resolverFor(n.Model)
	if of, ok := strings.CutPrefix(n.Pipeline, nightcrier.SkillPrefix); ok {
		if _, err := resolver.ResolveSkill(of); err != nil {
			return err
		}
	}
	pins, lacks := found.PinSkills(resolver)
	if lacks != "" {
		return nightcrier.Errorf(nightcrier.Conflict, "pipeline %s cannot run: %s", n.Pipeline, lacks)
	}
	if err := a.checkApprovers(&found.Definition, pins); err != nil {
		return err
	}
	if step := needsIncident(found.Definition); step != "" {
		return nightcrier.Errorf(nightcrier.Conflict, "pipeline %s cannot be called: its step %s is for an incident, and faults open those; `nightcrier triage` looks into an object that you name", n.Pipeline, step)
	}
	input, err := found.ReadInput(n.Input)
	if err != nil {
		return err
	}
	if n.Key, err = found.EvalKey(ctx, pipeline.Scope{Input: input, Subject: n.Subject}); err != nil {
		return err
	}
	a.boundRun(n, pins)
	n.Policy, n.QueueMax, n.Executor = store.QueuePolicy(found.Concurrency.Policy), a.cfg.Queue.Max, a.firstExecutor(&found.Definition)
	if len(n.Input) > 0 {
		n.Input, err = json.Marshal(n.Input)
	}
	return err
}

// firstExecutor is who does the first step that an agent does; where there is none, our rules do all.
func (a *Investigator) firstExecutor(d *pipeline.Definition) string {
	for _, name := range d.SkillNames() {
		if pin, err := a.ResolveSkill(name); err == nil && pin.Agent != nil {
			return pin.Agent.Executor
		}
	}
	return config.Builtin
}

// boundRun has the limits that skills have of their own count for a run. One of a skill alone has a key: so
// many as may be at once are under way, and the others wait.
func (a *Investigator) boundRun(n *store.NewRun, pins map[string]pipeline.SkillPin) {
	for _, name := range slices.Sorted(maps.Keys(pins)) {
		pin := pins[name]
		if of, ok := strings.CutPrefix(n.Pipeline, nightcrier.SkillPrefix); ok && of == name && pin.AtOnce > 0 {
			n.Key, n.Slots = n.Pipeline, pin.AtOnce
		}
		if pin.PerMinute == 0 {
			continue
		}
		rate := store.Rate{Of: "the skill " + name, PerMinute: pin.PerMinute, Pipelines: []string{n.Pipeline, nightcrier.SkillPrefix + a.skillLibrary.Qualify(name)}}
		for _, e := range a.pipelines.Library().List() {
			if slices.ContainsFunc(e.SkillNames(), func(used string) bool { return path.Base(used) == pin.Name }) {
				rate.Pipelines = append(rate.Pipelines, e.Name)
			}
		}
		n.Rates = append(n.Rates, rate)
	}
}

// needsIncident names a step that only a run about an incident can do, "" for none.
func needsIncident(d pipeline.Definition) string {
	for _, s := range d.AllSteps() {
		if s.NeedsIncident() {
			return s.ID
		}
	}
	return ""
}

// tellEnqueued lets the runs know that a new one took the place of.
func (a *Investigator) tellEnqueued(ctx context.Context, e store.Enqueued) {
	a.noteDropped(ctx, e.Dropped)
	for _, r := range e.Stopping {
		a.passCancel(ctx, r)
	}
}
