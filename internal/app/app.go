// Package app puts the parts together: Options → New / Start / Stop. It is the
// only package that sees all concrete types; commands and tests start it in
// their own process.
package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent/worker"
	"nightcrier.dev/nightcrier/internal/cluster/kube"
	"nightcrier.dev/nightcrier/internal/cluster/snapshot"
	"nightcrier.dev/nightcrier/internal/config"
	"nightcrier.dev/nightcrier/internal/diagnose"
	"nightcrier.dev/nightcrier/internal/face/api"
	"nightcrier.dev/nightcrier/internal/face/notify"
	"nightcrier.dev/nightcrier/internal/face/telemetry"
	"nightcrier.dev/nightcrier/internal/ingest/intake"
	"nightcrier.dev/nightcrier/internal/ingest/mcp"
	"nightcrier.dev/nightcrier/internal/ingest/observe"
	"nightcrier.dev/nightcrier/internal/ingest/webhook"
	"nightcrier.dev/nightcrier/internal/mask"
	"nightcrier.dev/nightcrier/internal/record/store"
	"nightcrier.dev/nightcrier/internal/record/workspace"
	"nightcrier.dev/nightcrier/internal/run"
	"nightcrier.dev/nightcrier/internal/run/admit"
	"nightcrier.dev/nightcrier/internal/run/engine"
	"nightcrier.dev/nightcrier/internal/sandbox/process"
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
	// Workers replaces the processes that agents run in; tests of hundreds of
	// agents use it.
	Workers Workers
	// Access replaces the clusters' credentials; the demo reads scenarios by it.
	Access func(cluster string) ClusterAccess
	// Client, when set, reads every cluster in place of its configured credential.
	Client *kube.Client
	// SourceTimings and WatchTimings replace those of the fault sources, and
	// WatchPatience multiplies the detector's waiting times, for tests.
	SourceTimings mcp.Timings
	WatchTimings  observe.Timings
	WatchPatience float64
	// Offline starts no listeners: one-shot commands.
	Offline bool
	Now     func() time.Time
	// Snapshots stand in the place of live clusters, by the names that the Config
	// has for these.
	Snapshots map[string]*snapshot.Snapshot
	// Journaled and RetryPause are passed on to the runs; crash tests use them.
	Journaled  func(nightcrier.JournalEntry)
	RetryPause time.Duration
	// BudgetDir has the record of what is spent on models; empty is one in the workspace
	// root.
	BudgetDir string
	// Replays is the record of the investigation that is made again, nil for new ones.
	Replays *Stage
}

// App is a running Nightcrier. Start it once; Stop may be called at any time.
type App struct {
	opt Options
	cfg *config.Config
	log *slog.Logger

	metrics  *telemetry.Metrics
	root     *workspace.Root
	store    *store.Store
	masker   *mask.Masker
	maskKey  []byte
	access   *clusters
	notifier *notify.Notifier
	breaker  *admit.Breaker
	engine   *engine.Engine
	runner   *run.Runner
	workers  Workers
	// triageScript is that of the skill, "" for none.
	triageScript string
	intake       *intake.Intake
	admitter     *admit.Admitter
	sources      []source
	hooks        *webhook.Hooks
	server       *api.Server
	keeper       *housekeeper
	spending     *spending
	masked       int64 // values masked when last measured; the housekeeper's

	ready   chan struct{}
	stopped sync.Once
	stack   []closer
}

// source is where faults come from, one per cluster and kind.
type source interface {
	Start(context.Context) error
	Stop(context.Context) error
	Status() nightcrier.SourceStatus
}

// closer undoes one step of Start.
type closer struct {
	name string
	stop func(context.Context) error
}

// stopTime bounds each part's stop.
const stopTime = 15 * time.Second

// New returns an App that has done nothing yet.
func New(o Options) (*App, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	var err error
	if o.WorkerCommand, err = worker.ChooseCommand(o.WorkerCommand); err != nil {
		return nil, err
	}
	return &App{opt: o, cfg: o.Config, log: o.Logger, metrics: telemetry.NewMetrics(o.Version), ready: make(chan struct{})}, nil
}

// Start brings everything up, in the order in which the parts need each other,
// and returns when faults are taken. What was interrupted is resumed before
// anything new is admitted. A failed Start leaves nothing running.
func (a *App) Start(ctx context.Context) error {
	steps := []struct {
		name string
		fn   func(context.Context) error
	}{
		{"limits of agents", a.divideGroups},
		{"workspace root", a.openRoot},
		{"store", a.openStore},
		{"housekeeping", a.newKeeper},
		{"notifications", a.openNotifier},
		{"circuit breakers", a.openBreaker},
		{"clusters", a.openClusters},
		{"budget", a.openBudget},
		{"workers", a.openWorkers},
		{"runs", a.openRuns},
		{"intake", a.openIntake},
		{"webhooks", a.openWebhooks},
		{"admission", a.startAdmission},
		{"retention", a.startKeeper},
		{"listeners", a.startServer},
		{"sources", a.startSources},
		{"agent", a.lookAtAgent},
	}
	for _, s := range steps {
		if err := s.fn(ctx); err != nil {
			err = nightcrier.Errorf(nightcrier.CodeOf(err), "start %s: %w", s.name, err)
			return errors.Join(err, a.Stop(context.WithoutCancel(ctx)))
		}
	}
	close(a.ready)
	a.tellReady()
	return nil
}

// divideGroups makes room for the control groups of agents in the server's own. Without them
// their memory is watched.
func (a *App) divideGroups(context.Context) error {
	if a.opt.Offline { // the process may be somebody else's
		return nil
	}
	if err := process.Divide(); err != nil && a.cfg.Agent.Executor != config.Builtin {
		a.log.Warn("the kernel does not bound the memory of agents here, it is watched", "error", err)
	}
	return nil
}

// tellReady logs what runs, and where it is found.
func (a *App) tellReady() {
	log := a.log.With("version", a.opt.Version, "workspace_root", a.root.Path(), "clusters", len(a.cfg.Clusters), "executor", a.cfg.Agent.Executor)
	if a.server != nil {
		log = log.With("socket", filepath.Join(a.root.Path(), api.SocketName), "listen", a.server.Addr(), "health_listen", a.server.HealthAddr(), "webhook_listen", a.server.WebhookAddr())
	}
	log.Info("ready", "component", "app", "event", "ready")
}

// Stop takes no more work, leaves the workers working, and closes everything in
// the reverse order. It may be called twice and after a failed Start.
func (a *App) Stop(ctx context.Context) (err error) {
	a.stopped.Do(func() {
		for i := len(a.stack) - 1; i >= 0; i-- {
			c := a.stack[i]
			bounded, cancel := context.WithTimeout(ctx, stopTime)
			if e := c.stop(bounded); e != nil {
				err = errors.Join(err, fmt.Errorf("stop %s: %w", c.name, e))
			}
			cancel()
		}
	})
	return err
}

// onStop registers how to undo what was just started.
func (a *App) onStop(name string, stop func(context.Context) error) {
	a.stack = append(a.stack, closer{name, stop})
}

// Lost is closed when the store belongs to somebody else now; the process must
// end. Valid after Start.
func (a *App) Lost() <-chan struct{} { return a.store.Lost() }

// Addr is where the API listens, for tests that listen on port 0.
func (a *App) Addr() string { return a.server.Addr() }

// Store gives the record to one-shot commands and tests.
func (a *App) Store() *store.Store { return a.store }

func (a *App) openRoot(context.Context) error {
	root, err := workspace.OpenRoot(a.cfg.WorkspaceRoot)
	if err != nil {
		return err
	}
	a.root = root
	a.onStop("workspace root", func(context.Context) error { return root.Close() })
	key, err := root.MaskKey()
	if err != nil {
		return err
	}
	a.maskKey, a.masker = key, mask.New(key, a.allSecrets()...)
	if a.opt.Masking != nil {
		a.opt.Masking.Set(a.masker.String)
	}
	return nil
}

// allSecrets are the values that must not appear anywhere.
func (a *App) allSecrets() []string { return append(a.cfg.Secrets(), a.opt.Secrets...) }

func (a *App) openStore(ctx context.Context) error {
	st, err := store.Open(ctx, store.Options{
		URL: a.cfg.DatabaseURL.Reveal(), Path: filepath.Join(a.root.Path(), store.FileName), Logger: a.log, Now: a.opt.Now,
	})
	if err != nil {
		return err
	}
	a.store = st
	a.onStop("store", func(context.Context) error { return st.Close() })
	return nil
}

func (a *App) openBreaker(ctx context.Context) (err error) {
	a.breaker, err = admit.OpenBreaker(ctx, a.store, a.opt.Now)
	return err
}
