package app

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent"
	"nightcrier.dev/nightcrier/internal/agent/skill"
	"nightcrier.dev/nightcrier/internal/config"
	"nightcrier.dev/nightcrier/internal/face/api"
	"nightcrier.dev/nightcrier/internal/face/telemetry"
	"nightcrier.dev/nightcrier/internal/ingest/intake"
	"nightcrier.dev/nightcrier/internal/ingest/mcp"
	"nightcrier.dev/nightcrier/internal/record/store"
	"nightcrier.dev/nightcrier/internal/retry"
	"nightcrier.dev/nightcrier/internal/run"
	"nightcrier.dev/nightcrier/internal/run/admit"
	"nightcrier.dev/nightcrier/internal/run/engine"
	"nightcrier.dev/nightcrier/internal/triage/report"
	"nightcrier.dev/nightcrier/internal/triage/runbook"
)

// openClusters makes the clusters' credentials usable.
func (a *Investigator) openClusters(context.Context) error {
	a.access = newClusters(a.cfg.Clusters, a.opt, a.masker, a.enforce)
	return nil
}

// openSkills reads the troubleshooter and, behind it, the skills that are installed
// beside it, and looks for the troubleshooter's script. All are read once: what
// changes on disk reaches no agent before the next start.
func (a *Investigator) openSkills() ([]*skill.Skill, error) {
	all, script, err := a.cfg.Skills.Find()
	if err != nil {
		return nil, err
	}
	for _, s := range all {
		for _, note := range s.Notes {
			a.log.Warn("a skill is not used as it is: "+note, "event", "skill_changed", "skill", s.Name)
		}
		a.log.Debug("skill", "event", "skill", "skill", s.Name, "version", s.Version, "digest", s.Ref().Digest, "from", s.From)
	}
	a.triageScript = script
	return all, nil
}

// memory is what people wrote, and what earlier incidents came to.
type memory struct {
	*store.Store
	*runbook.Library
}

// openRuns starts the engine; interrupted runs go on from here.
func (a *Investigator) openRuns(ctx context.Context) error {
	skills, err := a.openSkills()
	if err != nil {
		return err
	}
	books, err := runbook.New(runbook.Options{Dir: a.cfg.Runbooks.Dir, AllowedHosts: a.cfg.Runbooks.AllowedHosts, Timeout: a.cfg.Runbooks.Timeout})
	if err != nil {
		return err
	}
	cfg := run.Config{
		Store: a.store, Root: a.root, Workers: a.workers, Clusters: a.access, Memory: memory{a.store, books}, Skill: skills[0], Include: skills[1:], Mask: a.masker,
		Announce: announcer{a}, Afford: a.checkBudget, BudgetDir: a.budgetDir(), Spent: a.spentBy, Learn: a.reportToBreaker, Ended: a.noteEnded, Logger: a.log, Now: a.opt.Now, Journaled: a.opt.Journaled, RetryPause: a.opt.RetryPause,
	}
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
	e.Register(run.Workflow, a.runner.Investigate)
	return e.Launch()
}

func remainingTime(ctx context.Context) time.Duration {
	if deadline, ok := ctx.Deadline(); ok {
		return time.Until(deadline)
	}
	return stopTime
}

func (a *Investigator) openIntake(context.Context) error {
	a.intake = intake.New(intake.Config{
		Store: a.store, Owners: a.access, Namespaces: a.access.namespacesOf, Threshold: a.cfg.SeverityThreshold, Policy: a.acceptPolicy(), Mask: a.access.Mask, MaskLog: a.access.MaskLog,
		Logger: a.log, Metrics: a.noteDecision, Now: a.opt.Now,
	})
	return nil
}

func (a *Investigator) acceptPolicy() store.AcceptPolicy {
	return store.AcceptPolicy{
		DedupeWindow: a.cfg.DedupeWindow, QueueMax: a.cfg.Queue.Max, Pipeline: run.Pipeline, Executor: a.cfg.Agent.Executor,
		Storm: store.StormPolicy{
			Fingerprints: a.cfg.Storm.Fingerprints, Within: a.cfg.Storm.Within, Investigate: a.cfg.Storm.Investigate, Quiet: a.cfg.Storm.Quiet,
		},
	}
}

func (a *Investigator) startAdmission(ctx context.Context) error {
	a.admitter = admit.New(admit.Config{
		Queue: a.store, Breaker: a.breaker, Total: a.cfg.MaxConcurrentAgents, PerKey: a.cfg.MaxConcurrentPerCluster,
		Expiry: a.cfg.Queue.Expiry, Start: a.startRun, Expired: a.noteDropped, Logger: a.log.With("component", "admission"),
	})
	a.onStop("admission", a.admitter.Stop)
	return a.admitter.Start(ctx)
}

// startRun freezes the configuration of a run and hands it to the engine.
func (a *Investigator) startRun(_ context.Context, r nightcrier.Run) error {
	if !r.AdmittedAt.IsZero() {
		a.metrics.Admitted(r.AdmittedAt.Sub(r.QueuedAt))
	}
	return a.engine.Start(run.Workflow, r.ID, a.opt.Order(a.newOrder(r)))
}

func (a *Investigator) newOrder(r nightcrier.Run) run.Order {
	ag, err := a.cfg.AgentFor(r.Executor)
	if err != nil {
		ag = a.cfg.Agent // queued under another configuration: its worker says what is missing
	}
	s := ag.Spec
	s.Executor, s.Shell, s.Preload = r.Executor, s.Shell && !agent.LacksKubectl(r.Executor), !a.cfg.Skills.DisableTriagePreload
	s.SkillsDir, s.TriageScript = a.cfg.Skills.ShownDir(), a.triageScript
	s.ToolServers, s.Budget = a.cfg.ToolServersOf(r.Key), a.cfg.Budget.Limits()
	return run.Order{RunID: r.ID, IncidentID: r.IncidentID, Agent: s}
}

func (a *App) startSources(ctx context.Context) error {
	transport := mcp.NewTransport()
	shared := mcp.Config{Gate: retry.NewGate(sourceGate), Transport: transport}
	lists := retry.NewGate(snapshotGate)
	for _, c := range a.cfg.Clusters {
		if c.MCP.Endpoint != "" {
			a.sources = append(a.sources, mcp.New(a.sourceConfig(c, shared), a.deliverToIntake))
		}
		if c.Watch {
			a.sources = append(a.sources, a.newWatch(c, lists))
		}
	}
	a.onStop("sources", func(ctx context.Context) error {
		defer transport.CloseIdleConnections()
		return a.stopSources(ctx)
	})
	for _, s := range a.sources {
		if err := s.Start(ctx); err != nil {
			return err
		}
	}
	return nil
}

// deliverToIntake hands what a source received to intake.
func (a *Investigator) deliverToIntake(ctx context.Context, d nightcrier.Delivery) error {
	_, err := a.Deliver(ctx, d)
	return err
}

// sourceGate is how many sources connect at once.
const sourceGate = 16

// sourceConfig completes what all sources share with what is a cluster's own.
func (a *App) sourceConfig(c config.Cluster, cfg mcp.Config) mcp.Config {
	cfg.Cluster, cfg.Labels, cfg.Endpoint, cfg.Mode, cfg.APIKey = c.Name, c.Labels, c.MCP.Endpoint, c.MCP.Mode, c.MCP.APIKey.Reveal
	cfg.Logger, cfg.Now, cfg.Timings = a.log.With("component", "source"), a.opt.Now, a.opt.SourceTimings
	return cfg
}

// stopSources says goodbye to all servers at once: each may take seconds.
func (a *App) stopSources(ctx context.Context) error {
	errs := make(chan error, len(a.sources))
	for _, s := range a.sources {
		go func() { errs <- s.Stop(ctx) }()
	}
	var all error
	for range a.sources {
		all = errors.Join(all, <-errs)
	}
	return all
}

// Deliver takes one payload in and returns when it is stored and decided.
func (a *Investigator) Deliver(ctx context.Context, d nightcrier.Delivery) (store.Decision, error) {
	start := time.Now()
	dec, err := a.intake.Deliver(ctx, d)
	if err != nil {
		a.metrics.EventNotStored(d.Cluster, nightcrier.CodeOf(err))
		return dec, err
	}
	a.metrics.EventStored(time.Since(start))
	return dec, nil
}

func (a *App) startServer(ctx context.Context) error {
	a.metrics.WatchState(a.metricsState)
	h := api.New(api.Options{
		Version: a.opt.Version, Incidents: a.store, Events: a.store, Journal: a.store, Control: a, Clusters: a, Webhooks: a.hooks.Local(), Ready: a.isReady,
		Metrics: a.metrics.Handler(), Markdown: a.ReportMarkdown, Logger: a.log.With("component", "api"), Now: a.opt.Now,
	})
	at := listenersOf(a.cfg)
	at.API, at.Webhooks, at.Logger = h, a.hooks.Public(), a.log.With("component", "api")
	a.server = api.NewServer(at)
	a.onStop("listeners", a.server.Stop)
	return a.server.Start(ctx)
}

// listenersOf are where a server is found.
func listenersOf(cfg *config.Config) api.ServerConfig {
	return api.ServerConfig{Listen: cfg.Listen, HealthListen: cfg.HealthListen, WebhookListen: cfg.WebhookListen, Socket: filepath.Join(cfg.WorkspaceRoot, api.SocketName)}
}

func (a *App) isReady(ctx context.Context) error {
	select {
	case <-a.ready:
	default:
		return nightcrier.Errorf(nightcrier.Unreachable, "still starting")
	}
	_, err := a.store.Counts(ctx)
	return err
}

// metricsState is what the metrics show at each scrape.
func (a *App) metricsState(ctx context.Context) (telemetry.State, error) {
	c, err := a.store.Counts(ctx)
	if err != nil {
		return telemetry.State{}, err
	}
	spent, err := a.spentToday()
	if err != nil {
		spent = nil // runs say so, and there is more to see
	}
	return telemetry.State{Spent: spent, Queued: c.Queued, Leased: c.Leases, Active: c.LeasesByKey, Incidents: c.Incidents, Sources: a.Statuses()}, nil
}

// ReportMarkdown returns the report for people: what the reporting step wrote, or made anew
// from report.json when the workspace is gone.
func (a *Investigator) ReportMarkdown(_ context.Context, inc nightcrier.Incident, raw []byte) ([]byte, error) {
	if ws, err := a.root.Open(inc.ID); err == nil {
		defer ws.Close()
		if md, err := ws.ReadFile("output/final-report.md"); err == nil {
			return report.MarkOver(report.MarkCause(md, &inc), &inc), nil
		}
	}
	var rep nightcrier.Report
	if err := json.Unmarshal(raw, &rep); err != nil {
		return nil, nightcrier.Errorf(nightcrier.Internal, "decode the report of %s: %w", inc.ID, err)
	}
	return report.MarkCause(report.Final(&rep, report.Detail{Incident: &inc, Now: a.opt.Now()}), &inc), nil
}
