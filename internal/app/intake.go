package app

import (
	"context"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/ingest/intake"
	"nightcrier.dev/nightcrier/internal/record/store"
	"nightcrier.dev/nightcrier/internal/run/pipeline"
)

func (a *Investigator) openIntake(context.Context) error {
	a.intake = intake.New(intake.Config{
		Store: a.store, Owners: a.access, Namespaces: a.access.namespacesOf, Threshold: a.cfg.SeverityThreshold, Policy: a.acceptPolicy(), Mask: a.access.Mask, MaskLog: a.access.MaskLog,
		Logger: a.log, Metrics: a.noteDecision, Now: a.opt.Now,
	})
	return nil
}

func (a *Investigator) acceptPolicy() store.AcceptPolicy {
	return store.AcceptPolicy{
		DedupeWindow: a.cfg.DedupeWindow, QueueMax: a.cfg.Queue.Max, Pipeline: pipeline.Triage, Executor: a.cfg.Agent.Executor,
		Storm: store.StormPolicy{
			Fingerprints: a.cfg.Storm.Fingerprints, Within: a.cfg.Storm.Within, Investigate: a.cfg.Storm.Investigate, Quiet: a.cfg.Storm.Quiet,
		},
	}
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

// noteDecision counts each decision of intake, and tells people of what cannot wait.
func (a *Investigator) noteDecision(d store.Decision) {
	if d.Repeated {
		a.metrics.EventRepeated(d.Cluster)
		return
	}
	a.metrics.EventDecided(d.Cluster, d.Outcome, d.Reason)
	if d.StormStarted != nil {
		a.metrics.StormStarted(d.StormStarted.Cluster)
	}
	a.noteDropped(context.Background(), d.Dropped)
	if d.SeverityRose {
		a.housekeeper.runLater(func(ctx context.Context) error { return a.tellRise(ctx, d) })
	}
}
