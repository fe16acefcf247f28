package app

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/record/store"
)

// How often the housekeeper looks after what.
const (
	stormEvery   = 2 * time.Second
	lookEvery    = 2 * time.Second
	measureEvery = time.Minute
	sweepEvery   = 10 * time.Minute
)

// housekeeper does what no request waits for: storms, retention, measurements,
// and messages that intake must not be held up by.
type housekeeper struct {
	log *slog.Logger
	ctx context.Context
	wg  sync.WaitGroup
}

// runLater runs a task in the background; Stop waits for it.
func (h *housekeeper) runLater(task func(context.Context) error) {
	h.wg.Go(func() {
		if err := task(h.ctx); err != nil && h.ctx.Err() == nil {
			h.log.Warn("background task failed", "component", "housekeeping", "event", "task_failed", "error", err)
		}
	})
}

// runEvery runs a task now and then until the housekeeper stops.
func (h *housekeeper) runEvery(d time.Duration, task func(context.Context) error) {
	h.runLater(func(ctx context.Context) error {
		tick := time.NewTicker(d)
		defer tick.Stop()
		for {
			if err := task(ctx); err != nil && ctx.Err() == nil {
				h.log.Warn("housekeeping failed", "component", "housekeeping", "event", "task_failed", "error", err)
			}
			select {
			case <-ctx.Done():
				return nil
			case <-tick.C:
			}
		}
	})
}

func (a *Investigator) startHousekeeping(context.Context) error {
	a.housekeeper.runLater(a.tellDroppedBefore)
	a.housekeeper.runEvery(stormEvery, a.tendStorms)
	a.housekeeper.runEvery(overEvery, a.tellOver)
	a.housekeeper.runEvery(lookEvery, a.lookAgain)
	a.housekeeper.runEvery(measureEvery, a.refreshMetrics)
	a.housekeeper.runEvery(sweepEvery, a.sweepRemains)
	a.housekeeper.runEvery(sweepEvery, a.spending.tidyLedger)
	return nil
}

// How far back it is looked for dropped runs that nobody was told of, and at how many at most.
const (
	dropMemory  = time.Hour
	mostDropped = 1000
)

// tellDroppedBefore tells of the runs that an earlier process dropped, as far as it died before it
// had told. The outbox knows of which it had.
func (a *Investigator) tellDroppedBefore(ctx context.Context) error {
	list, _, err := a.store.ListRuns(ctx, store.RunFilter{Status: nightcrier.Dropped, Limit: mostDropped})
	for _, r := range list {
		if a.opt.Now().Sub(r.EndedAt) < dropMemory {
			err = errors.Join(err, a.tellDropped(ctx, r))
		}
	}
	return err
}

// newHousekeeper is made before anything can ask it for something.
func (a *Investigator) newHousekeeper(ctx context.Context) error {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	a.housekeeper = &housekeeper{log: a.log, ctx: ctx}
	a.onStop("housekeeping", func(ctx context.Context) error {
		cancel()
		done := make(chan struct{})
		go func() { a.housekeeper.wg.Wait(); close(done) }()
		select {
		case <-done:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	return nil
}

// tendStorms tells of new storms and ends quiet ones.
func (a *Investigator) tendStorms(ctx context.Context) error {
	if err := a.tellStorms(ctx); err != nil {
		return err
	}
	ended, err := a.store.EndStorms(ctx, a.cfg.Storm.Quiet)
	for _, s := range ended {
		a.log.Info("storm is over", "component", "intake", "event", "storm_ended", "cluster", s.Cluster, "incidents", s.Incidents)
	}
	return err
}

// lookAgain has investigated again what was in progress, or had just recovered, when its report was
// made, once the time has come that it names.
func (a *Investigator) lookAgain(ctx context.Context) error {
	queued, err := a.store.RetryDue(ctx)
	for _, r := range queued {
		a.log.Info("incident is looked at again", "component", "housekeeping", "event", "look_again", "incident_id", r.IncidentID(), "run", r.ID)
	}
	return err
}

// refreshMetrics refreshes the metrics that are too dear for every scrape.
func (a *Investigator) refreshMetrics(ctx context.Context) error {
	now := a.masker.Count()
	a.metrics.Masked(int(now - a.masked))
	a.masked = now
	return errors.Join(a.measureProcesses(ctx), a.measureWorkspaces(ctx))
}

func (a *Investigator) measureWorkspaces(ctx context.Context) error {
	sizes := map[string]int64{}
	list, _, err := a.store.Incidents(ctx, store.IncidentFilter{Since: a.opt.Now().Add(-max(a.cfg.Retention, 24*time.Hour)), Limit: measureMost})
	if err != nil {
		return err
	}
	for _, inc := range list {
		ws, err := a.root.Open(inc.ID)
		if err != nil {
			continue
		}
		n, err := ws.Size()
		_ = ws.Close()
		if err == nil {
			sizes[inc.Cluster] += n
		}
	}
	a.metrics.WorkspaceSizes(sizes)
	return nil
}

// measureMost bounds how many workspaces one measurement walks.
const measureMost = 1000

// sweepRemains ends what dead workers left, and removes what the retention no longer covers. A
// process that will not end does not keep what is old on the disk.
func (a *Investigator) sweepRemains(ctx context.Context) error {
	return errors.Join(a.sweepWorkers(ctx), a.applyRetention(ctx))
}

// applyRetention removes what the retention no longer covers: workspaces, checkpoints, and events
// that led nowhere.
func (a *Investigator) applyRetention(ctx context.Context) error {
	if _, err := a.engine.Prune(a.opt.Now().Add(-linger)); err != nil {
		return err
	}
	if a.cfg.Retention == 0 {
		return nil
	}
	now := a.opt.Now()
	removed, freed, err := a.root.Sweep(ctx, now, a.cfg.Retention, func(id string) bool { return a.isKept(ctx, id) })
	if len(removed) > 0 {
		a.log.Info("workspaces removed", "component", "housekeeping", "event", "retention", "count", len(removed), "bytes", freed)
	}
	if err != nil {
		return err
	}
	_, err = a.store.Prune(ctx, now.Add(-a.cfg.Retention))
	return err
}

// isKept says whether a workspace must stay whatever its age.
func (a *Investigator) isKept(ctx context.Context, id string) bool {
	inc, err := a.store.Incident(ctx, id)
	open := inc.Status.Open()
	if nightcrier.CodeOf(err) == nightcrier.NotFound { // a run about anything else has a workspace of its own
		var r nightcrier.Run
		r, err = a.store.Run(ctx, id)
		open = r.Status.Open()
	}
	return err == nil && open || err != nil && nightcrier.CodeOf(err) != nightcrier.NotFound
}

// linger is how long a finished run's checkpoints and what its workers keep stay for a look.
const linger = time.Hour
