package app

import (
	"context"
	"encoding/json"
	"strings"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/config"
	"nightcrier.dev/nightcrier/internal/face/api"
	"nightcrier.dev/nightcrier/internal/record/store"
	"nightcrier.dev/nightcrier/internal/run/pipeline"
	texts "nightcrier.dev/nightcrier/internal/text"
)

// StartRun queues a run of a pipeline that somebody calls. What it does is frozen when it is
// admitted.
func (a *Investigator) StartRun(ctx context.Context, c api.Call) (nightcrier.Run, error) {
	if c.Skill != "" {
		c.Pipeline = pipeline.SkillPrefix + c.Skill
	}
	id, by := nightcrier.NewID(), texts.MaskClean(c.By, a.masker.String, texts.FoldLine)
	n := store.NewRun{
		ID: id, Subject: nightcrier.Subject{Kind: nightcrier.SubjectCall, ID: id, Title: by}, Pipeline: c.Pipeline,
		Severity: c.Priority, TriggeredBy: by, Input: c.Input,
	}
	if c.Deadline > 0 {
		n.Deadline = a.opt.Now().Add(c.Deadline)
	}
	if err := a.completeRun(ctx, &n); err != nil {
		return nightcrier.Run{}, err
	}
	e, err := a.store.EnqueueRun(ctx, n)
	a.tellEnqueued(ctx, e)
	return e.Run, err
}

// completeRun adds to a run that is to be queued what its pipeline says, and refuses one that
// could never end well.
func (a *Investigator) completeRun(ctx context.Context, n *store.NewRun) error {
	found, err := a.pipelines.Library().Find(n.Pipeline)
	if err != nil {
		return err
	}
	if of, ok := strings.CutPrefix(n.Pipeline, pipeline.SkillPrefix); ok {
		if _, err := a.ResolveSkill(of); err != nil {
			return err
		}
	}
	if lacks := found.Lacks(a); lacks != "" {
		return nightcrier.Errorf(nightcrier.Conflict, "pipeline %s cannot run: %s", n.Pipeline, lacks)
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

// needsIncident names a step that only a run about an incident can do, "" for none.
func needsIncident(d pipeline.Definition) string {
	for _, s := range d.AllSteps() {
		if s.Action != "" && s.Action != pipeline.ActionHealth || s.Deliverable != nil && s.Deliverable.Kind == pipeline.Report {
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
