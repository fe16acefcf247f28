package store

import (
	"context"
	"database/sql"
	"slices"
	"strings"
	"time"

	"nightcrier.dev/nightcrier"
)

// follower is the source that keeps track of each fault it reported: it says
// when one is over, and after every restart what is still there. Its word on a
// condition counts more than that of others, which may miss the end of a fault.
const follower = "watch"

// alerter is the source whose alerts end one by one: a fault of several is over
// when the last of them is.
const alerter = "webhook"

// noteSeenBy notes that a source says the fault is there.
func noteSeenBy(inc *nightcrier.Incident, source string) {
	inc.Condition = nightcrier.ConditionActive
	inc.ClearedAt = time.Time{}
	if source != "" && !slices.Contains(inc.SeenBy, source) {
		inc.SeenBy = append(inc.SeenBy, source)
	}
}

// continuesFault reports whether ev says of a closed incident's fault that it is
// still there: nobody said it was over, so it is the same one, however long ago
// it was last reported. A fault that got worse, or that nobody has looked at, is
// worth another incident.
func continuesFault(inc nightcrier.Incident, ev nightcrier.Event) bool {
	looked := !inc.StartedAt.IsZero() || inc.Storm
	return ev.Source == follower && inc.Condition == nightcrier.ConditionActive && slices.Contains(inc.SeenBy, follower) &&
		looked && ev.Severity <= inc.Severity
}

// resumeIncident joins such an event.
func (t *tx) resumeIncident(inc nightcrier.Incident, ev nightcrier.Event) (Decision, error) {
	d, err := t.joinIncident(inc, ev)
	d.Reason, d.Detail = nightcrier.StillActive, "the fault of incident "+inc.ID+" was not over"
	return d, err
}

// clearIncident takes in that a fault is over. It opens nothing and starts nothing; a
// run that still waits goes behind those whose faults are there.
func (t *tx) clearIncident(inc nightcrier.Incident, found bool, ev nightcrier.Event) (Decision, error) {
	late, err := t.late(inc.ID, ev)
	if err != nil {
		return Decision{}, err
	}
	if late {
		return Decision{Outcome: nightcrier.Suppressed, Reason: nightcrier.NothingToClear, Detail: "what ended was reported again since, in incident " + inc.ID}, nil
	}
	fires, err := t.anotherFires(inc.ID, ev)
	if err != nil {
		return Decision{}, err
	}
	if !found || inc.Condition == nightcrier.ConditionCleared {
		return Decision{Outcome: nightcrier.Suppressed, Reason: nightcrier.NothingToClear, Detail: whyNothing(inc, found)}, nil
	}
	d := Decision{Outcome: nightcrier.Joined, Was: inc.Severity}
	if fires {
		d.Detail = "another alert of the fault still fires"
	} else if ev.Source != follower && slices.Contains(inc.SeenBy, follower) {
		inc.SeenBy = slices.DeleteFunc(inc.SeenBy, func(s string) bool { return s == ev.Source })
		d.Detail = follower + " still sees the fault"
	} else if ev.Source != follower && len(inc.SeenBy) > 0 && !slices.Contains(inc.SeenBy, ev.Source) {
		d.Detail = ev.Source + " never said that the fault was there; " + strings.Join(inc.SeenBy, " and ") + " did"
	} else {
		inc.SeenBy, inc.Condition, inc.ClearedAt = nil, nightcrier.ConditionCleared, ev.ReceivedAt
	}
	noteEvent(&inc, ev.ID, windowFrom(inc, ev.ReceivedAt))
	return d, t.settleIncident(&d, inc)
}

// noteFiring keeps in mind what a source reported of an incident, and when it says that it
// began. The follower needs no keeping: what it says is in order.
func (t *tx) noteFiring(incidentID string, ev nightcrier.Event) error {
	if ev.Source == follower || ev.Cleared || incidentID == "" {
		return nil
	}
	_, err := t.execStatement(`INSERT INTO alerts (incident_id, fault_id, source, occurred_at) VALUES (?, ?, ?, ?)
		ON CONFLICT (incident_id, fault_id, source) DO UPDATE SET occurred_at = excluded.occurred_at WHERE alerts.occurred_at < excluded.occurred_at`,
		incidentID, ev.FaultID, ev.Source, toMicros(ev.OccurredAt))
	return err
}

// late reports whether an end is that of something that its source has reported again
// since: it was held up on its way.
func (t *tx) late(incidentID string, ended nightcrier.Event) (late bool, err error) {
	if ended.OccurredAt.IsZero() {
		return false, nil
	}
	return late, t.queryRow(`SELECT EXISTS (SELECT 1 FROM alerts WHERE incident_id = ? AND fault_id = ? AND source = ? AND occurred_at > ?)`,
		incidentID, ended.FaultID, ended.Source, toMicros(ended.OccurredAt)).Scan(&late)
}

// anotherFires reports whether an alert of the incident still fires beside the one
// that ended.
func (t *tx) anotherFires(incidentID string, ended nightcrier.Event) (fires bool, err error) {
	if ended.Source == follower {
		return false, nil
	}
	if _, err := t.execStatement(`DELETE FROM alerts WHERE incident_id = ? AND fault_id = ? AND source = ?`, incidentID, ended.FaultID, ended.Source); err != nil || ended.Source != alerter {
		return false, err
	}
	return fires, t.queryRow(`SELECT EXISTS (SELECT 1 FROM alerts WHERE incident_id = ? AND source = ?)`, incidentID, alerter).Scan(&fires)
}

func whyNothing(inc nightcrier.Incident, found bool) string {
	if !found {
		return "no incident is known of this fault"
	}
	return "incident " + inc.ID + " of this fault was over already"
}

// MarkCleared takes in that a person says that a fault is over; Conflict where that is
// known. A source that sees the fault again says so, as after any end.
func (s *Store) MarkCleared(ctx context.Context, incidentID string) (inc nightcrier.Incident, err error) {
	return inc, s.writeTransaction(ctx, "mark an incident as over", func(t *tx) error {
		if inc, err = t.incidentByID(incidentID); err != nil {
			return err
		}
		if inc.Condition == nightcrier.ConditionCleared {
			return nightcrier.Errorf(nightcrier.Conflict, "the fault of incident %s is over already", incidentID)
		}
		inc.SeenBy, inc.Condition, inc.ClearedAt = nil, nightcrier.ConditionCleared, t.now
		return t.settleIncident(&Decision{}, inc)
	})
}

// supersedeIncident ends the following of an earlier incident whose fault goes on in a
// new one. Who was not told yet that it was over will not be: it is back.
func (t *tx) supersedeIncident(inc nightcrier.Incident) error {
	if _, err := t.execStatement(`UPDATE incidents SET over_at = ? WHERE id = ? AND over_at = 0`, toMicros(t.now), inc.ID); err != nil {
		return err
	}
	if inc.Condition != nightcrier.ConditionActive {
		return nil
	}
	inc.Condition, inc.SeenBy = nightcrier.ConditionUnknown, nil
	return t.saveIncident(&inc, inc.Status)
}

// settleIncident stores an incident that an event changed, and gives its waiting run
// the place that it now deserves.
func (t *tx) settleIncident(d *Decision, inc nightcrier.Incident) error {
	if err := t.saveIncident(&inc, inc.Status); err != nil {
		return err
	}
	run, err := t.runByID(inc.RunID)
	if err != nil {
		return err
	}
	d.Incident, d.Run = inc, run
	priority := inc.Severity
	if inc.Condition == nightcrier.ConditionCleared {
		priority = nightcrier.Info
	}
	if run.Status != nightcrier.Queued || run.Severity == priority {
		return nil
	}
	d.Run.Severity = priority
	t.queueChanged = true
	_, err = t.execStatement(`UPDATE runs SET severity = ? WHERE id = ? AND status = 'queued'`, int(priority), run.ID)
	return err
}

// Followed lists the incidents of a cluster whose fault its watch source said is
// there, and has not said is over.
func (s *Store) Followed(ctx context.Context, cluster string) ([]nightcrier.Incident, error) {
	var list []nightcrier.Incident
	err := s.readConn(ctx).eachRow(func(rows *sql.Rows) error {
		inc, err := scanIncident(rows)
		if err == nil && inc.Condition == nightcrier.ConditionActive && slices.Contains(inc.SeenBy, follower) {
			list = append(list, inc)
		}
		return err
	}, `SELECT doc FROM incidents WHERE cluster = ? AND doc LIKE '%"seenBy":%' ORDER BY created_at, id`, cluster)
	return list, s.wrapError("list the incidents that are followed", err)
}

// maxOver is how many incidents one look returns.
const maxOver = 100

// Over lists the closed incidents whose fault was over for quiet, and with it those of
// all others that came to the same cause, and of which nobody was told that yet; the
// longest over first. Within quiet a fault that comes back is the same one.
func (s *Store) Over(ctx context.Context, quiet time.Duration) ([]nightcrier.Incident, error) {
	list := []nightcrier.Incident{}
	before := toMicros(truncateTime(s.now()).Add(-quiet))
	err := s.readConn(ctx).eachRow(func(rows *sql.Rows) error {
		inc, err := scanIncident(rows)
		list = append(list, inc)
		return err
	}, `SELECT i.doc FROM incidents i WHERE i.cleared_at > 0 AND i.over_at = 0 AND i.cleared_at <= ? AND i.last_event_at <= ?
		AND i.status NOT IN ('pending', 'investigating')
		AND NOT EXISTS (SELECT 1 FROM incidents r WHERE r.id = i.caused_by AND (r.condition = 'active' OR r.cleared_at > ?))
		AND NOT EXISTS (SELECT 1 FROM incidents o WHERE o.caused_by <> '' AND o.caused_by = CASE WHEN i.caused_by <> '' THEN i.caused_by ELSE i.id END
			AND o.id <> i.id AND (o.condition = 'active' OR o.cleared_at > ?))
		ORDER BY i.cleared_at, i.id LIMIT ?`, before, before, before, before, maxOver)
	return list, s.wrapError("list the incidents that are over", err)
}

// NoteOver records that people were told, or need not be told, that the fault of an
// incident is over.
func (s *Store) NoteOver(ctx context.Context, incidentID string) error {
	return s.writeTransaction(ctx, "note that a fault is over", func(t *tx) error {
		_, err := t.execStatement(`UPDATE incidents SET over_at = ? WHERE id = ? AND over_at = 0`, toMicros(t.now), incidentID)
		return err
	})
}
