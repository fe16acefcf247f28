package app

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent/backend"
	backendprocess "nightcrier.dev/nightcrier/internal/agent/backend/process"
	"nightcrier.dev/nightcrier/internal/config"
	"nightcrier.dev/nightcrier/internal/guard/data"
)

// WorkersDir, below the workspace root, is where workers that are processes keep what is theirs.
const WorkersDir = ".workers"

// WorkersOwner is the owner of a server's workers: their backend serves one workspace root.
const WorkersOwner = "server"

// workers asks a backend for this server's workers, with the credentials that are no part of a
// run's order.
type workers struct {
	backend.Backend
	cfg *config.Config
	// secrets are those that all workers are handed.
	secrets backend.Secrets
	// sources are what may be asked of a cluster's metrics and logs.
	sources func(cluster string) *data.Access
	// record is the workspace that answers in the place of tools and sources, "" for none.
	record string
}

// newBackend is where the configuration has agents run.
func newBackend(cfg *config.Config, command []string) backend.Backend {
	return backendprocess.Backend{Dir: filepath.Join(cfg.WorkspaceRoot, WorkersDir), Command: command}
}

func (a *Investigator) openWorkers(context.Context) error {
	a.workers = workers{
		Backend: newBackend(a.cfg, a.opt.WorkerCommand), cfg: a.cfg, record: a.opt.Record,
		secrets: backend.Secrets{MaskKey: a.maskKey, MaskValues: a.allSecrets()}, sources: a.access.sourcesFor,
	}
	return nil
}

// Launch implements run.Workers.
func (w workers) Launch(ctx context.Context, spec backend.Spec, cluster *backend.Credential, learned []byte) (backend.Handle, error) {
	secrets := w.secrets
	secrets.Learned = learned
	secrets.Cluster, secrets.Sources = cluster, w.sources(spec.Cluster)
	secrets.ModelAPIKey = w.cfg.ModelKey(cmp.Or(spec.Provider, nightcrier.Anthropic)).Reveal()
	secrets.Variables = w.cfg.VariablesOf(spec.ToolServers)
	spec.Owner, spec.Record = WorkersOwner, w.record
	return w.Backend.Launch(ctx, spec, secrets)
}

// List implements run.Workers.
func (w workers) List(ctx context.Context) ([]backend.Owned, error) {
	return w.Backend.List(ctx, WorkersOwner)
}

// StopWorkers asks every worker of this server to end its agent, and returns when
// none is left or ctx is done: the second SIGTERM. It needs nothing that Stop has
// closed; the next server records how the runs ended.
func (a *Investigator) StopWorkers(ctx context.Context, cause string) error {
	all, asked := newBackend(a.cfg, a.opt.WorkerCommand), map[backend.Handle]bool{}
	for {
		list, err := all.List(ctx, WorkersOwner)
		if err != nil {
			return err
		}
		alive := 0
		for _, w := range list {
			if !w.Alive {
				continue
			}
			alive++
			if !asked[w.Handle] && all.Cancel(ctx, w.Handle, cause) == nil {
				asked[w.Handle] = true
			}
		}
		if alive == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return nightcrier.Errorf(nightcrier.Interrupted, "%d agents are still ending", alive)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// measureProcesses counts what runs for the workers.
func (a *Investigator) measureProcesses(ctx context.Context) error {
	leased, err := a.store.LeasedRuns(ctx)
	if err != nil {
		return err
	}
	list, err := a.workers.List(ctx)
	if err != nil {
		return err
	}
	count := map[string]int{}
	for _, r := range leased {
		for _, w := range list {
			if w.RunID == r.ID {
				count[r.Cluster()] += w.Processes
			}
		}
	}
	a.metrics.AgentProcesses(count)
	return nil
}

// sweepWorkers ends and forgets the workers of runs that have ended, or that nobody knows: what a
// dead one left running at once, the rest when there was time for a look. Those of a run that goes
// on are its own to follow.
func (a *Investigator) sweepWorkers(ctx context.Context) error {
	list, err := a.workers.List(ctx)
	for _, w := range list {
		if w.Alive || a.engine.Active(w.RunID) {
			continue
		}
		r, lookErr := a.store.Run(ctx, w.RunID)
		unknown := nightcrier.CodeOf(lookErr) == nightcrier.NotFound
		if lookErr != nil && !unknown {
			return errors.Join(err, lookErr)
		}
		ended := unknown || r.Status == nightcrier.Finished
		if !ended || w.Processes == 0 && !unknown && a.opt.Now().Sub(r.EndedAt) < linger {
			continue
		}
		if w.Processes > 0 {
			a.log.Warn("what a dead worker left is ended", "component", "housekeeping", "event", "orphans_ended", "run_id", w.RunID, "attempt", w.Attempt, "sandboxes", w.Processes)
		}
		err = errors.Join(err, a.workers.Destroy(ctx, w.Handle))
	}
	return err
}
