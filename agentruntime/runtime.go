package agentruntime

import (
	"context"
	"log/slog"
	"maps"
	"math"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent/worker"
	"nightcrier.dev/nightcrier/internal/app"
	"nightcrier.dev/nightcrier/internal/config"
)

// Options say how a Runtime works.
type Options struct {
	// WorkspaceRoot is the directory of the workspaces and of the record.
	WorkspaceRoot string
	// Settings are keys of the configuration file by their path, for example
	// "agent.executor": "claude-code". Nothing is read from the environment.
	Settings map[string]string
	// ModelAPIKey is the key of the agent's model, of the provider that
	// "agent.provider" names or the executor usually has; no agent ever sees it.
	ModelAPIKey string
	// Kubeconfigs are the credentials by which clusters are looked at, by the
	// cluster's name. Incidents of other clusters are investigated from what
	// their event says.
	Kubeconfigs map[string]string
	// Logger is told what happens; nil discards it.
	Logger *slog.Logger
	// WorkerCommand starts a worker when the path of its directory is appended.
	// Nil means the running program, which must have called [Main].
	WorkerCommand []string
}

// Runtime implements [AgentRuntime]. It may be used concurrently.
type Runtime struct {
	app *app.Investigator

	mu      sync.Mutex
	running map[string]bool // by incident id
}

var _ AgentRuntime = (*Runtime)(nil)

// The words by which a program is started as a worker, as the first process of a
// sandbox, and as the judge of an agent's commands. They are no part of the program's own command line.
const (
	workerStage = "nightcrier-worker"
	initStage   = "sandbox-init"
	hookStage   = worker.HookCommand
)

// mainCalled says that the process can be started as a worker.
var mainCalled atomic.Bool

// Main makes the program able to be a worker. Call it first in main: in a process
// that was started as a worker it does not return.
func Main() {
	mainCalled.Store(true)
	switch {
	case len(os.Args) == 3 && os.Args[1] == workerStage:
		os.Exit(worker.Main(context.Background(), os.Args[2], os.Stdin, os.Stderr))
	case len(os.Args) > 1 && os.Args[1] == initStage:
		os.Exit(worker.InitMain(os.Args[2:]))
	case len(os.Args) > 1 && os.Args[1] == hookStage:
		os.Exit(worker.HookMain(os.Args[2:]))
	}
}

// New opens a Runtime, which first goes on with what an earlier one was
// interrupted in. Its errors name the setting that is wrong.
func New(o Options) (*Runtime, error) {
	if o.WorkspaceRoot == "" {
		return nil, nightcrier.Errorf(nightcrier.Invalid, "Options.WorkspaceRoot is empty: name a directory")
	}
	cfg, err := o.newConfig()
	if err != nil {
		return nil, err
	}
	command, err := o.workerCommand(cfg.Agent.Executor)
	if err != nil {
		return nil, err
	}
	log := o.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	a, err := app.NewInvestigator(app.Options{Config: cfg, Logger: log, Version: "agentruntime", WorkerCommand: command})
	if err != nil {
		return nil, err
	}
	if err := a.Start(context.Background()); err != nil {
		return nil, err
	}
	return &Runtime{app: a, running: map[string]bool{}}, nil
}

// newConfig returns the product's configuration without what belongs to a server: the
// caller decides what is investigated, so nothing is filtered or held back.
func (o Options) newConfig() (*config.Config, error) {
	flags := map[string]string{"workspace_root": o.WorkspaceRoot}
	maps.Copy(flags, o.Settings)
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME")}
	if o.ModelAPIKey != "" {
		env = append(env, "NIGHTCRIER_AGENT_API_KEY="+o.ModelAPIKey)
	}
	cfg, _, err := config.Load(config.Options{Env: env, Flags: flags})
	if err != nil {
		return nil, err
	}
	cfg.SeverityThreshold, cfg.DedupeWindow, cfg.Storm.Fingerprints = nightcrier.Info, 0, math.MaxInt32
	for name, kubeconfig := range o.Kubeconfigs {
		cfg.Clusters = append(cfg.Clusters, config.Cluster{Name: name, Kubeconfig: kubeconfig})
	}
	return cfg, nil
}

func (o Options) workerCommand(executor string) ([]string, error) {
	if len(o.WorkerCommand) > 0 {
		return o.WorkerCommand, nil
	}
	if !mainCalled.Load() && executor != config.Builtin {
		return nil, nightcrier.Errorf(nightcrier.Invalid, "this program cannot be started as a worker: call agentruntime.Main first in its main function, or set Options.WorkerCommand")
	}
	exe, err := os.Executable()
	if err != nil {
		return nil, nightcrier.Errorf(nightcrier.Internal, "find our own executable: %w", err)
	}
	return []string{exe, workerStage}, nil
}

// Close takes no more work and gives the directory free. Agents that run go on;
// the next Runtime on the directory takes their results.
func (r *Runtime) Close() error { return r.app.Stop(context.Background()) }

// RunAgent implements [AgentRuntime]. An agent that fails is no error here: the
// result says so. When ctx is done first, the agent is ended, and the result
// comes together with the error of ctx. An id that is no UUID is refused, and so
// is one that was investigated before.
//
// Investigations of one cluster follow each other.
func (r *Runtime) RunAgent(ctx context.Context, incident *Incident) (*AgentResult, error) {
	d, err := incident.newDelivery()
	if err != nil {
		return nil, err
	}
	if err := r.claimIncident(incident.ID); err != nil {
		return nil, err
	}
	defer r.releaseIncident(incident.ID)
	if err := r.openIncident(ctx, d); err != nil {
		return nil, err
	}
	inc, err := r.app.AwaitEnd(ctx, incident.ID, func(nightcrier.Incident) {})
	if err != nil {
		return nil, err
	}
	return translateResult(inc), ctx.Err()
}

// claimIncident claims an incident's id.
func (r *Runtime) claimIncident(id string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, err := r.app.Store().Incident(context.Background(), id)
	switch {
	case r.running[id] || err == nil:
		return nightcrier.Errorf(nightcrier.Conflict, "incident %s was given to RunAgent before", id)
	case nightcrier.CodeOf(err) != nightcrier.NotFound:
		return err
	}
	r.running[id] = true
	return nil
}

func (r *Runtime) releaseIncident(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.running, id)
}

// openIncident opens the incident. While another one of the same fault is open it waits:
// two agents never look for the same cause at once.
func (r *Runtime) openIncident(ctx context.Context, d nightcrier.Delivery) error {
	for {
		dec, err := r.app.Deliver(ctx, d)
		switch {
		case err != nil:
			return err
		case dec.Incident.ID == d.IncidentID:
			return nil
		case dec.Incident.ID == "":
			return nightcrier.Errorf(nightcrier.Invalid, "incident %s: its event is %s: %s", d.IncidentID, dec.Reason, dec.Detail)
		}
		if err := r.awaitOther(ctx, dec.Incident.ID); err != nil {
			return err
		}
	}
}

// awaitOther waits for the end of an incident that somebody else runs.
func (r *Runtime) awaitOther(ctx context.Context, id string) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		inc, err := r.app.Store().Incident(ctx, id)
		if err != nil || !inc.Status.Open() {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// GetStatus implements [AgentRuntime]. It is a NotFound error of this module for
// an id that RunAgent was never given. What ended can be asked for until its
// workspace is removed, by default after 72 hours.
func (r *Runtime) GetStatus(incidentID string) (*AgentStatus, error) {
	p, err := r.Status(incidentID)
	if err != nil {
		return nil, err
	}
	return &p.Status, nil
}

// Status is GetStatus with what else is known.
func (r *Runtime) Status(incidentID string) (*Progress, error) {
	if err := nightcrier.CheckID(incidentID); err != nil {
		return nil, err
	}
	inc, err := r.app.Store().Incident(context.Background(), incidentID)
	if err != nil {
		return nil, err
	}
	p := &Progress{Status: translateStatus(inc), StartTime: inc.StartedAt, WorkspaceDir: inc.Workspace}
	if end := inc.CompletedAt; !inc.StartedAt.IsZero() {
		if end.IsZero() {
			end = time.Now()
		}
		p.Duration = end.Sub(inc.StartedAt)
	}
	return p, nil
}

// Cancel implements [AgentRuntime]. It is a Conflict error of this module when
// the investigation has ended.
func (r *Runtime) Cancel(incidentID string) error {
	if err := nightcrier.CheckID(incidentID); err != nil {
		return err
	}
	_, err := r.app.Cancel(context.Background(), incidentID, "cancelled by the calling program")
	return err
}
