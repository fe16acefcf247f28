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
	"nightcrier.dev/nightcrier/internal/agent/skill"
	"nightcrier.dev/nightcrier/internal/agent/worker"
	"nightcrier.dev/nightcrier/internal/config"
	"nightcrier.dev/nightcrier/internal/face/notify"
	"nightcrier.dev/nightcrier/internal/face/telemetry"
	"nightcrier.dev/nightcrier/internal/ingest/intake"
	"nightcrier.dev/nightcrier/internal/mask"
	"nightcrier.dev/nightcrier/internal/platform/github"
	"nightcrier.dev/nightcrier/internal/record/store"
	"nightcrier.dev/nightcrier/internal/record/workspace"
	"nightcrier.dev/nightcrier/internal/run"
	"nightcrier.dev/nightcrier/internal/run/admit"
	"nightcrier.dev/nightcrier/internal/run/engine"
	"nightcrier.dev/nightcrier/internal/run/pipeline"
	"nightcrier.dev/nightcrier/internal/triage"
)

// Investigator takes faults in and has them investigated. It has no address and follows no
// source: who has found a fault hands it over. Start it once; Stop may be called at any time.
type Investigator struct {
	opt Options
	cfg *config.Config
	log *slog.Logger
	// enforce refuses agents a credential that can write.
	enforce bool

	metrics  *telemetry.Metrics
	root     *workspace.Root
	store    *store.Store
	masker   *mask.Masker
	maskKey  []byte
	access   *clusters
	notifier *notify.Notifier
	// github speaks with GitHub, nil where it is not configured.
	github    *github.Client
	breaker   *admit.Breaker
	engine    *engine.Engine
	runner    *run.Runner
	workers   workers
	pipelines *pipeline.Live
	skills    []*skill.Skill
	// skillLibrary has the skills of other pipelines.
	skillLibrary *skill.Library
	// triageScript is that of the skill, "" for none.
	triageScript string
	intake       *intake.Intake
	admitter     *admit.Admitter
	housekeeper  *housekeeper
	spending     *spending
	masked       int64 // values masked when last measured; the housekeeper's

	stopped sync.Once
	stack   []closer
}

// closer undoes one step of Start.
type closer struct {
	name string
	stop func(context.Context) error
}

// stopTime bounds each part's stop.
const stopTime = 15 * time.Second

// step is one of those by which something is started.
type step struct {
	name string
	do   func(context.Context) error
}

// NewInvestigator returns one that has done nothing yet.
func NewInvestigator(o Options) (*Investigator, error) {
	var err error
	if o.WorkerCommand, err = worker.ChooseCommand(o.WorkerCommand); err != nil {
		return nil, err
	}
	o.setDefaults()
	return &Investigator{opt: o, cfg: o.Config, log: o.Logger, metrics: telemetry.NewMetrics(o.Version)}, nil
}

// setDefaults fills in what is not handed over.
func (o *Options) setDefaults() {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Masking == nil {
		o.Masking = &telemetry.Masking{}
	}
	if o.Reach == nil {
		o.Reach = func(config.Cluster) Reach { return nil }
	}
	if o.Runs == nil {
		o.Runs = func(*run.Config) {}
	}
	if o.Triage == nil {
		o.Triage = func(*triage.Triage) {}
	}
	if o.Order == nil {
		o.Order = func(as run.Order) run.Order { return as }
	}
}

// Start is that of an App, without what only a server has.
func (a *Investigator) Start(ctx context.Context) error {
	if err := a.startAll(ctx, a.steps()); err != nil {
		return err
	}
	a.tellReady()
	return nil
}

// steps bring it up, in the order in which the parts need each other.
func (a *Investigator) steps() []step {
	return []step{
		{"workspace root", a.openRoot}, {"store", a.openStore}, {"housekeeping", a.newHousekeeper}, {"notifications", a.openNotifier}, {"GitHub", a.openGitHub},
		{"circuit breakers", a.openBreaker}, {"clusters", a.openClusters}, {"budget", a.openBudget}, {"workers", a.openWorkers}, {"runs", a.openRuns}, {"intake", a.openIntake},
		{"admission", a.startAdmission}, {"retention", a.startHousekeeping},
	}
}

// startAll does the steps; where one fails, what was started is stopped.
func (a *Investigator) startAll(ctx context.Context, steps []step) error {
	for _, s := range steps {
		if err := s.do(ctx); err != nil {
			err = nightcrier.Errorf(nightcrier.CodeOf(err), "start %s: %w", s.name, err)
			return errors.Join(err, a.Stop(context.WithoutCancel(ctx)))
		}
	}
	return nil
}

// tellReady logs what runs, and where it is found.
func (a *Investigator) tellReady(where ...any) {
	a.log.With("version", a.opt.Version, "workspace_root", a.root.Path(), "clusters", len(a.cfg.Clusters), "executor", a.cfg.Agent.Executor).
		With(where...).Info("ready", "component", "app", "event", "ready")
}

// Stop takes no more work, leaves the workers working, and closes everything in
// the reverse order. It may be called twice and after a failed Start.
func (a *Investigator) Stop(ctx context.Context) (err error) {
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
func (a *Investigator) onStop(name string, stop func(context.Context) error) {
	a.stack = append(a.stack, closer{name, stop})
}

// Lost is closed when the store belongs to somebody else now; the process must
// end. Valid after Start.
func (a *Investigator) Lost() <-chan struct{} { return a.store.Lost() }

// Store gives the record to one-shot commands and tests.
func (a *Investigator) Store() *store.Store { return a.store }

func (a *Investigator) openRoot(context.Context) error {
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
	a.opt.Masking.Set(a.masker.String)
	return nil
}

// allSecrets are the values that must not appear anywhere.
func (a *Investigator) allSecrets() []string { return append(a.cfg.Secrets(), a.opt.Secrets...) }

func (a *Investigator) openStore(ctx context.Context) error {
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

func (a *Investigator) openBreaker(ctx context.Context) (err error) {
	a.breaker, err = admit.OpenBreaker(ctx, a.store, a.opt.Now)
	return err
}

// openClusters makes the clusters' credentials usable.
func (a *Investigator) openClusters(context.Context) error {
	a.access = newClusters(a.cfg.Clusters, a.opt, a.masker, a.enforce)
	return nil
}
