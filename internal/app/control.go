package app

import (
	"context"
	"encoding/json"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/run/pipeline"
	texts "nightcrier.dev/nightcrier/internal/text"
	"nightcrier.dev/nightcrier/internal/triage/report"
)

// Cancel asks an incident's run to stop. The answer says what was recorded; the
// incident ends when the agent is gone.
func (a *Investigator) Cancel(ctx context.Context, incidentID, cause string) (nightcrier.Run, error) {
	r, err := a.store.RequestCancel(ctx, incidentID, cause)
	if err == nil {
		a.passCancel(ctx, r)
	}
	return r, err
}

// CancelRun is Cancel for a run about anything.
func (a *Investigator) CancelRun(ctx context.Context, runID, cause string) (nightcrier.Run, error) {
	r, err := a.store.RequestCancelRun(ctx, runID, cause)
	if err == nil {
		a.passCancel(ctx, r)
	}
	return r, err
}

// RetryRun queues a run that has ended anew, from a step on unless that is "".
func (a *Investigator) RetryRun(ctx context.Context, runID, fromStep string) (nightcrier.Run, error) {
	return a.store.RetryRun(ctx, runID, fromStep)
}

// passCancel tells whom it concerns that a run was asked to stop.
func (a *Investigator) passCancel(ctx context.Context, r nightcrier.Run) {
	if r.Status == nightcrier.Admitted {
		a.runner.Cancel(r.ID)
		return
	}
	a.noteDropped(ctx, []nightcrier.Run{r})
}

// Retry queues another investigation of a finished incident. An empty executor
// is the configured one.
func (a *Investigator) Retry(ctx context.Context, incidentID, executor string) (nightcrier.Run, error) {
	agent, err := a.cfg.AgentFor(executor)
	if err != nil {
		return nightcrier.Run{}, err
	}
	return a.store.Retry(ctx, incidentID, agent.Executor)
}

// Note adds what somebody noted about an incident; secrets in it are masked.
func (a *Investigator) Note(ctx context.Context, incidentID, by, text string) (nightcrier.Note, error) {
	mask := a.masker.String
	n, err := nightcrier.NewNote(texts.MaskClean(by, mask, texts.FoldLine), texts.MaskClean(text, mask, texts.DropHidden), time.Now())
	if err != nil {
		return n, err
	}
	return n, a.store.AddNote(ctx, incidentID, n)
}

// MarkCleared takes in that a person says that the fault of an incident is over, and notes it.
func (a *Investigator) MarkCleared(ctx context.Context, incidentID, by string) (nightcrier.Incident, error) {
	inc, err := a.store.MarkCleared(ctx, incidentID)
	if err != nil {
		return inc, err
	}
	if _, err := a.Note(ctx, incidentID, by, "Marked as over."); nightcrier.CodeOf(err) != nightcrier.Conflict { // there may be as many as are kept
		return inc, err
	}
	return inc, nil
}

// noteDropped reports runs that ended without ever being admitted.
func (a *Investigator) noteDropped(ctx context.Context, runs []nightcrier.Run) {
	for _, r := range runs {
		a.log.Warn("run was dropped", "component", "admission", "event", "run_dropped", "incident_id", r.IncidentID(), "run", r.ID, "pipeline", r.Pipeline, "cluster", r.Cluster(), "reason", r.Reason)
		a.housekeeper.runLater(func(ctx context.Context) error { return a.tellDropped(ctx, r) })
		if inc, err := a.store.Incident(ctx, r.IncidentID()); err == nil {
			a.metrics.IncidentClosed(inc.Cluster, inc.Status)
		}
	}
}

// tellDropped tells people of a run that never began, as its pipeline wishes now; and of an incident
// that waited too long, unless it is investigated again.
func (a *Investigator) tellDropped(ctx context.Context, r nightcrier.Run) error {
	if r.Reason == nightcrier.QueueExpired && r.IncidentID() != "" {
		inc, err := a.store.Incident(ctx, r.IncidentID())
		if err == nil && inc.RunID == r.ID { // else it is again what it was before
			err = a.announce(ctx, inc, nil, r.ID)
		}
		if err != nil {
			return err
		}
	}
	found, err := a.pipelines.Library().Find(r.Pipeline)
	if err != nil {
		return nil // its file is gone, and what it wished with it
	}
	return a.tellRun(ctx, r, pipeline.Frozen{Definition: found.Definition})
}

// AwaitEnd waits until an incident has ended, and shows each state of it that it sees
// before. When ctx is done first its run is cancelled and awaited: who waits leaves nothing
// running.
func (a *Investigator) AwaitEnd(ctx context.Context, id string, see func(nightcrier.Incident)) (nightcrier.Incident, error) {
	done := ctx.Done()
	clean := context.WithoutCancel(ctx)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		inc, err := a.store.Incident(clean, id)
		if err != nil || !inc.Status.Open() {
			return inc, err
		}
		see(inc)
		select {
		case <-done:
			done = nil
			if _, err := a.Cancel(clean, id, "interrupted"); err != nil && nightcrier.CodeOf(err) != nightcrier.Conflict {
				return inc, err
			}
		case <-tick.C:
		}
	}
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
