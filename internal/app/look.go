package app

import (
	"context"
	"errors"
	"sync"

	"nightcrier.dev/nightcrier/internal/guard/kept"
	"nightcrier.dev/nightcrier/internal/record/journal"
	"nightcrier.dev/nightcrier/internal/record/replay"
	"nightcrier.dev/nightcrier/internal/record/replay/tape"
	"nightcrier.dev/nightcrier/internal/run"
)

// Look opens a cluster for a step of a run, and keeps what the step asks and is answered in
// the run's workspace.
func (c *clusters) Look(l run.Look) (run.View, error) {
	rec, err := kept.Begin(l.Workspace, l.RunID, l.Step, c.version, l.Mask)
	if err != nil {
		return run.View{}, err
	}
	asked := &requests{tell: l.Audit}
	view, err := kept.Through(rec.Take, kept.Cluster{
		Reader: c.reader(l.Cluster, l.Mask, asked.audit), Sources: c.newSources(l.Cluster, l.Mask, asked.audit), Now: c.reachOf(l.Cluster).Now(),
	})
	return run.View{Cluster: view, Close: func() error { return errors.Join(asked.keep(rec.Take), rec.Close()) }}, err
}

// requests are those that the questions of a step came to.
type requests struct {
	tell func(context.Context, journal.Request) error

	mu  sync.Mutex
	all []journal.Request
}

func (r *requests) audit(ctx context.Context, q journal.Request) error {
	r.mu.Lock()
	r.all = append(r.all, q)
	r.mu.Unlock()
	return r.tell(ctx, q)
}

func (r *requests) keep(take tape.Take) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return take(replay.Requests, &r.all, func() error { return nil })
}
