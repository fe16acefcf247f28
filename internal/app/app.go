// Package app puts the parts together: Options → New / Start / Stop. It is the
// only package that sees all concrete types; commands and tests start it in
// their own process.
package app

import (
	"context"
	"log/slog"
	"path/filepath"
	"slices"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/config"
	"nightcrier.dev/nightcrier/internal/diagnose"
	"nightcrier.dev/nightcrier/internal/face/api"
	"nightcrier.dev/nightcrier/internal/face/telemetry"
	"nightcrier.dev/nightcrier/internal/face/ui"
	"nightcrier.dev/nightcrier/internal/ingest/mcp"
	"nightcrier.dev/nightcrier/internal/ingest/observe"
	"nightcrier.dev/nightcrier/internal/ingest/webhook"
	"nightcrier.dev/nightcrier/internal/record/store"
	"nightcrier.dev/nightcrier/internal/run"
	"nightcrier.dev/nightcrier/internal/sandbox/process"
	"nightcrier.dev/nightcrier/internal/triage"
)

// engineFile is the engine's SQLite file in the workspace root.
const engineFile = "engine.db"

// ClusterAccess is how one cluster is read: by diagnosis, and for owners.
type ClusterAccess interface {
	diagnose.Reader
	Owner(ctx context.Context, res nightcrier.Resource) (nightcrier.Resource, error)
}

// Options say what to run. Config, Logger and Version are required.
type Options struct {
	Config  *config.Config
	Logger  *slog.Logger
	Version string
	// WorkerCommand starts a worker when its directory is appended; by default
	// this executable with "worker".
	WorkerCommand []string
	// Masking, when set, learns how secrets are masked; the Logger masks by it.
	Masking *telemetry.Masking
	// Secrets are masked like those that the Config holds.
	Secrets []string
	// Reach says how a cluster is reached, nil for as it is configured; by default all are.
	Reach func(config.Cluster) Reach
	// SourceTimings and WatchTimings replace those of the fault sources, and
	// WatchPatience multiplies the detector's waiting times, for tests.
	SourceTimings mcp.Timings
	WatchTimings  observe.Timings
	WatchPatience float64
	Now           func() time.Time
	// Journaled and RetryPause are passed on to the runs; crash tests use them.
	Journaled  func(nightcrier.JournalEntry)
	RetryPause time.Duration
	// BudgetDir has the record of what is spent on models; empty is one in the workspace
	// root.
	BudgetDir string
	// Runs, Triage and Order change what runs work with, what investigations do, and what each
	// run is told to do; by default nothing. An investigation that is made again finds its record
	// so.
	Runs   func(*run.Config)
	Triage func(*triage.Triage)
	Order  func(run.Order) run.Order
	// Doctor looks whether the setup works, nil where nobody can tell.
	Doctor func(context.Context) []ui.Check
	// Record is the workspace that answers agents in the place of the tools of others,
	// metrics and logs, "" for none.
	Record string
}

// App is a running Nightcrier: an Investigator that is told of faults by the clusters' sources
// and asked by people. Start it once; Stop may be called at any time.
type App struct {
	*Investigator
	sources   []source
	schedules schedules
	hooks     *webhook.Hooks
	server    *api.Server
	page      *ui.UI // nil where none is served
	ready     chan struct{}
}

// New returns an App that has done nothing yet.
func New(o Options) (*App, error) {
	i, err := NewInvestigator(o)
	if err != nil {
		return nil, err
	}
	i.enforce = true
	return &App{Investigator: i, ready: make(chan struct{}), schedules: schedules{followed: map[[2]string]time.Time{}, complained: map[[2]string]string{}, gone: map[[2]string]time.Time{}}}, nil
}

// Start brings everything up, in the order in which the parts need each other, and returns
// when faults are taken. What was interrupted is resumed before anything new is admitted. A
// failed Start leaves nothing running.
func (a *App) Start(ctx context.Context) error {
	steps := slices.Concat([]step{{"limits of agents", a.divideGroups}}, a.Investigator.steps(), []step{
		{"preflight", a.startPreflight}, {"history", a.importPast}, {"webhooks", a.openWebhooks}, {"listeners", a.startServer}, {"sources", a.startSources}, {"schedules", a.startSchedules}, {"agent", a.lookAtAgent},
	})
	if err := a.startAll(ctx, steps); err != nil {
		return err
	}
	close(a.ready)
	a.tellReady("socket", filepath.Join(a.root.Path(), api.SocketName), "listen", a.server.Addr(), "health_listen", a.server.HealthAddr(), "webhook_listen", a.server.WebhookAddr(), "page_listen", a.server.PageAddr())
	return nil
}

// divideGroups makes room for the control groups of agents in the server's own. Without them
// their memory is watched.
func (a *App) divideGroups(context.Context) error {
	if err := process.Divide(); err != nil && a.cfg.Agent.Executor != config.Builtin {
		a.log.Warn("the kernel does not bound the memory of agents here, it is watched", "error", err)
	}
	return nil
}

// startPreflight has the server ask what each credential may do, in the background.
func (a *App) startPreflight(context.Context) error {
	a.access.gate.Start()
	a.onStop("preflight", a.access.gate.Stop)
	return nil
}

// Addr is where the API listens, for tests that listen on port 0.
func (a *App) Addr() string { return a.server.Addr() }

func (a *App) startServer(ctx context.Context) error {
	a.metrics.WatchState(a.metricsState)
	h := api.New(api.Options{
		Version: a.opt.Version, Incidents: a.store, Events: a.store, Runs: a.store, Limits: a.admitter.Limits, Control: a, Clusters: a, Pipelines: a.listPipelines, Skills: a, Start: a.StartRun, Triggers: a.Triggers, Webhooks: a.hooks.Local(), Ready: a.isReady,
		Metrics: a.metrics.Handler(), Markdown: a.ReportMarkdown, Mask: a.masker.String, Logger: a.log.With("component", "api"), Now: a.opt.Now,
	})
	listeners := api.ServerConfig{
		API: h, Listen: a.cfg.Listen, HealthListen: a.cfg.HealthListen, WebhookListen: a.cfg.WebhookListen, Webhooks: a.hooks.Public(),
		Socket: filepath.Join(a.cfg.WorkspaceRoot, api.SocketName), Logger: a.log.With("component", "api"),
	}
	if a.cfg.Page.Listen != "" {
		page, err := a.newPage()
		if err != nil {
			return err
		}
		a.page, listeners.PageListen, listeners.Page = page, a.cfg.Page.Listen, page
	}
	a.server = api.NewServer(listeners)
	a.onStop("listeners", a.server.Stop)
	return a.server.Start(ctx)
}

func (a *App) listPipelines() []api.Pipeline {
	var list []api.Pipeline
	for _, e := range a.pipelines.Library().List() {
		list = append(list, api.Pipeline{Name: e.Name, Description: e.Description, Steps: e.CountSteps()})
	}
	return list
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
	waits, err := a.countWaits(ctx)
	if err != nil {
		return telemetry.State{}, err
	}
	return telemetry.State{Spent: spent, Waits: waits, Queued: c.Queued, Leased: c.Leases, Active: c.LeasesByCluster, Incidents: c.Incidents, Sources: a.Statuses()}, nil
}

// countWaits counts what the runs wait for that are under way, or were queued last.
func (a *App) countWaits(ctx context.Context) (map[nightcrier.WaitKind]int, error) {
	leased, err := a.store.LeasedRuns(ctx)
	if err != nil {
		return nil, err
	}
	queued, _, err := a.store.ListRuns(ctx, store.RunFilter{Status: nightcrier.Queued})
	if err != nil {
		return nil, err
	}
	limits, waits := a.admitter.Limits(), map[nightcrier.WaitKind]int{}
	for _, r := range append(queued, leased...) {
		if w := limits.WaitOf(r, leased); w != nil {
			waits[w.For]++
		}
	}
	return waits, nil
}

// Statuses tells where each cluster's sources stand.
func (a *App) Statuses() []nightcrier.SourceStatus {
	list := make([]nightcrier.SourceStatus, 0, len(a.sources))
	for _, s := range a.sources {
		st := s.Status()
		access := a.access.gate.Access(st.Cluster)
		st.Access = &access
		list = append(list, st)
	}
	for _, st := range a.hooks.Statuses() {
		if st.Cluster != webhook.AnyCluster {
			access := a.access.gate.Access(st.Cluster)
			st.Access = &access
		}
		list = append(list, st)
	}
	return list
}
