package store

import (
	"context"

	"nightcrier.dev/nightcrier"
)

// Adopt takes over a run that is under way elsewhere, or was: its incident, the
// event that opened it, and its lease. The run goes on when the store's owner starts.
// It is a Conflict when the store knows one of them.
func (s *Store) Adopt(ctx context.Context, inc nightcrier.Incident, ev nightcrier.Event, run nightcrier.Run) error {
	if inc.Status != nightcrier.Investigating || inc.RunID != run.ID || run.IncidentID != inc.ID || inc.EventID != ev.ID {
		return nightcrier.Errorf(nightcrier.Invalid, "store: adopt run %s: it, its incident and its event do not belong together, or it is not under way", run.ID)
	}
	ev.Outcome, ev.IncidentID = nightcrier.Opened, inc.ID
	return s.writeTransaction(ctx, "adopt a run", func(t *tx) error {
		if _, found, err := t.decisionFor(ev.ID); err != nil || found {
			if found {
				err = nightcrier.Errorf(nightcrier.Conflict, "event %s is known", ev.ID)
			}
			return err
		}
		if err := t.addIncident(&inc, ""); err != nil {
			return err
		}
		if err := t.addEvent(ev, verdict{RunID: run.ID}); err != nil {
			return err
		}
		run.Status = nightcrier.Queued
		if err := t.addRun(run, ""); err != nil {
			return err
		}
		t.queueChanged = true
		_, err := t.execStatement(`UPDATE runs SET status = 'admitted', admitted_at = ? WHERE id = ?`, toMicros(run.AdmittedAt), run.ID)
		return err
	})
}
