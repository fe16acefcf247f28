package app

import (
	"context"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent"
	"nightcrier.dev/nightcrier/internal/agent/knowledge"
	"nightcrier.dev/nightcrier/internal/agent/skill"
	"nightcrier.dev/nightcrier/internal/guard/toolserver"
	"nightcrier.dev/nightcrier/internal/platform/review"
	"nightcrier.dev/nightcrier/internal/record/store"
	"nightcrier.dev/nightcrier/internal/run"
	"nightcrier.dev/nightcrier/internal/run/admit"
	"nightcrier.dev/nightcrier/internal/run/engine"
	"nightcrier.dev/nightcrier/internal/run/pipeline"
	"nightcrier.dev/nightcrier/internal/triage"
	"nightcrier.dev/nightcrier/internal/triage/runbook"
)

// openSkills reads the troubleshooter and, behind it, the skills that are installed
// beside it, and looks for the troubleshooter's script. All are read once: what
// changes on disk reaches no agent before the next start.
func (a *Investigator) openSkills() ([]*skill.Skill, error) {
	all, script, err := a.cfg.Skills.Find()
	if err != nil {
		return nil, err
	}
	for _, s := range all {
		for _, f := range s.Findings {
			if f.Level == skill.Warn {
				a.log.Warn("a skill is not used as it is: "+f.String(), "event", "skill_changed", "skill", s.Name)
			}
		}
		a.log.Debug("skill", "event", "skill", "skill", s.Name, "version", s.Version, "digest", s.Ref().Digest, "from", s.From)
	}
	a.triageScript = script
	a.skillLibrary, err = skill.Open(a.cfg.Skills.Options())
	return all, err
}

// openPipelines reads the pipelines, and what changes of them later. One with a fault is
// left out, and said.
func (a *Investigator) openPipelines() {
	a.pipelines = pipeline.Open(a.cfg.PipelinesDir, func(p pipeline.Problem) {
		a.log.Warn("a pipeline cannot be used: "+p.Text, "event", "pipeline_problem", "file", p.File, "line", p.Line)
	})
}

// memory is what people wrote, what is known of services, and what earlier incidents came to.
type memory struct {
	*store.Store
	*runbook.Library
	known *knowledge.Library
}

// For implements triage.Memory. What is known of the service that a workload is one of, stands behind the
// runbooks.
func (m memory) For(ctx context.Context, c runbook.Case) ([]nightcrier.Runbook, []error) {
	list, problems := m.Library.For(ctx, c)
	if s := m.known.OfWorkload(c.Names...); s != nil {
		list = append(list, nightcrier.Runbook{Title: "What is known of the service " + s.Name, Source: s.Dir, Text: s.Text()})
	}
	return list, problems
}

// openKnowledge is what is known of services and stages of work. It is read when it is needed.
func (a *Investigator) openKnowledge() *knowledge.Library {
	return &knowledge.Library{Repositories: a.cfg.Knowledge.Repositories, Skills: a.cfg.Knowledge.SkillLibrary, Warn: func(err error) {
		a.log.Warn("what is known of a service or a stage cannot be used", "event", "knowledge", "error", err)
	}}
}

// openRuns starts the engine; interrupted runs go on from here.
func (a *Investigator) openRuns(ctx context.Context) error {
	skills, err := a.openSkills()
	if err != nil {
		return err
	}
	a.skills = skills
	a.openPipelines()
	books, err := runbook.New(runbook.Options{Dir: a.cfg.Runbooks.Dir, AllowedHosts: a.cfg.Runbooks.AllowedHosts, Timeout: a.cfg.Runbooks.Timeout})
	if err != nil {
		return err
	}
	known := a.openKnowledge()
	investigation := &triage.Triage{Store: a.store, Clusters: a.access, Memory: memory{a.store, books, known}, Skill: skills[0], Include: skills[1:], Announce: a.announce}
	a.opt.Triage(investigation)
	cfg := run.Config{
		Store: a.store, Root: a.root, Workers: a.workers, Mask: a.masker, Supervisor: supervisor{a},
		BudgetDir: a.budgetDir(), Logger: a.log, Now: a.opt.Now, RetryPause: a.opt.RetryPause, Agents: a.cfg.MaxConcurrentAgents,
	}
	investigation.AddTo(&cfg)
	maps.Copy(cfg.Actions, a.newReviewer().Actions())
	cfg.Skills = run.SkillSteps{Copies: a.skillCopies(), Report: cfg.Skills, Knowledge: known}
	a.opt.Runs(&cfg)
	a.runner = run.New(cfg)
	o := engine.Options{PostgresURL: a.cfg.DatabaseURL.Reveal(), Logger: a.log}
	if o.PostgresURL == "" {
		o.SQLitePath = filepath.Join(a.root.Path(), engineFile)
	}
	e, err := engine.Open(ctx, o)
	if err != nil {
		return err
	}
	a.engine = e
	a.onStop("engine", func(ctx context.Context) error { return e.Stop(remainingTime(ctx)) })
	a.runner.Register(e)
	return e.Launch()
}

// newReviewer makes what reviews pull requests where GitHub is configured, and diffs anywhere.
func (a *Investigator) newReviewer() *review.Reviewer {
	r := &review.Reviewer{}
	if a.github != nil { // a nil client in an interface is not nil
		r.Reader, r.Writer = a.github, a.github
	}
	return r
}

func remainingTime(ctx context.Context) time.Duration {
	if deadline, ok := ctx.Deadline(); ok {
		return time.Until(deadline)
	}
	return stopTime
}

func (a *Investigator) startAdmission(ctx context.Context) error {
	a.admitter = admit.New(admit.Config{
		Queue: a.store, Breaker: a.breaker, Total: a.cfg.MaxConcurrentAgents, PerKey: a.cfg.MaxConcurrentPerCluster,
		Expiry: a.cfg.Queue.Expiry, Start: a.startRun, Expired: a.noteDropped, Logger: a.log.With("component", "admission"),
	})
	a.onStop("admission", a.admitter.Stop)
	return a.admitter.Start(ctx)
}

// startRun freezes what a run is to do, and hands it to the engine.
func (a *Investigator) startRun(ctx context.Context, r nightcrier.Run) error {
	if a.engine.Active(r.ID) {
		return nil // it has waited for people, and goes on
	}
	if !r.AdmittedAt.IsZero() {
		a.metrics.Admitted(r.AdmittedAt.Sub(r.QueuedAt))
	}
	o, err := a.newOrder(ctx, r)
	if err != nil {
		return err
	}
	return a.engine.Start(run.Workflow, r.ID, a.opt.Order(o))
}

func (a *Investigator) newOrder(ctx context.Context, r nightcrier.Run) (run.Order, error) {
	ag, err := a.cfg.AgentFor(r.Executor)
	if err != nil {
		ag = a.cfg.Agent // queued under another configuration: its worker says what is missing
	}
	s := ag.Spec
	s.Executor, s.Shell, s.Preload = r.Executor, s.Shell && !agent.LacksKubectl(r.Executor), !a.cfg.Skills.DisableTriagePreload
	s.SkillsDir, s.TriageScript = a.cfg.Skills.ShownDir(), a.triageScript
	s.ToolServers, s.Budget = a.cfg.ToolServersOf(r.Cluster()), a.cfg.Budget.Limits()
	o := run.Order{RunID: r.ID, Subject: r.Subject, Deadline: r.Deadline, Agent: s, People: run.People(a.people())}
	if o.Pipeline, err = a.pipelines.Library().Freeze(r.Pipeline, a.resolverFor(r.Model)); err != nil {
		o.Pipeline = pipeline.Frozen{Version: pipeline.FrozenVersion, Definition: pipeline.Definition{Name: r.Pipeline}} // which can be read again
		o.Unready = err.Error()
		return o, nil
	}
	if err := a.checkApprovers(&o.Pipeline.Definition, o.Pipeline.Skills); err != nil {
		o.Unready = err.Error()
		return o, nil
	}
	if err := a.checkToolServers(o.Pipeline, r.Cluster()); err != nil {
		o.Unready = err.Error()
		return o, nil
	}
	if d := o.Pipeline.Definition.Deadline; d > 0 {
		if at := r.AdmittedAt.Add(d); o.Deadline.IsZero() || at.Before(o.Deadline) {
			o.Deadline = at
		}
	}
	if r.IncidentID() == "" {
		if o.Input, err = a.store.RunInput(ctx, r.ID); err != nil {
			return o, err
		}
	}
	if r.FromStep == "" {
		return o, nil
	}
	steps, err := a.store.Steps(ctx, r.ID)
	for _, step := range steps {
		if step.FromRun != "" {
			o.Delivered = append(o.Delivered, step)
		}
	}
	return o, err
}

// checkToolServers refuses a pipeline one of whose skills needs a tool server that is for other
// clusters than the run's, or one that writes where the run is about an incident: that only reads.
func (a *Investigator) checkToolServers(p pipeline.Frozen, cluster string) error {
	allowed := a.cfg.ToolServersOf(cluster)
	if cluster == "" {
		allowed = append(allowed, a.cfg.WritingServers()...)
	}
	for _, pin := range p.Skills {
		if pin.Agent == nil {
			continue
		}
		for _, s := range pin.Agent.ToolServers {
			if s.Writes && cluster != "" {
				return nightcrier.Errorf(nightcrier.Refused, "the skill %s uses the tool server %s, which writes, and a run about an incident only reads", pin.Name, s.Name)
			}
			if !slices.ContainsFunc(allowed, func(other toolserver.Server) bool { return other.Name == s.Name }) {
				return nightcrier.Errorf(nightcrier.Refused, "the skill %s needs the tool server %s, which is for incidents of some clusters, and this run is not about one of those", pin.Name, s.Name)
			}
		}
	}
	return nil
}

// ResolveSkill implements pipeline.Resolver.
func (a *Investigator) ResolveSkill(name string) (pipeline.SkillPin, error) {
	return a.resolverFor("").ResolveSkill(name)
}

// resolver pins skills, with a model in the place of their own unless that is "".
type resolver struct {
	*Investigator
	model string
}

func (a *Investigator) resolverFor(model string) pipeline.Resolver { return resolver{a, model} }

// ResolveSkill implements pipeline.Resolver. The troubleshooter is the one that was read at the
// start; another is pinned as it is now.
func (a resolver) ResolveSkill(name string) (pipeline.SkillPin, error) {
	if known := a.skills[0]; path.Base(name) == known.Name {
		return pipeline.SkillPin{Name: known.Name, Version: known.Version, Digest: known.Ref().Digest}, nil
	}
	return pipeline.Skills{Library: a.skillLibrary, Agent: a.agentOfSkill, Keep: a.skillCopies().Keep}.ResolveSkill(name)
}

func (a resolver) agentOfSkill(s *skill.Skill) (agent.Spec, error) {
	if a.model == "" {
		return a.cfg.AgentOfSkill(s)
	}
	with := *s
	with.Settings.Model, with.Settings.Fallbacks = a.model, nil // who names a model wants that one
	return a.cfg.AgentOfSkill(&with)
}

// skillCopies has the skills that runs were admitted with.
func (a *Investigator) skillCopies() skill.Copies {
	return skill.Copies{Dir: filepath.Join(a.root.Path(), "skills")}
}
