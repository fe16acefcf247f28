package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"time"

	"nightcrier.dev/nightcrier"
)

// AcceptPolicy is what decides about an event that passed the filters.
type AcceptPolicy struct {
	// DedupeWindow is how long after the last event of a closed incident its
	// fault is still the same one.
	DedupeWindow time.Duration
	Storm        StormPolicy
	// QueueMax is how many runs may wait; 0 sets no limit.
	QueueMax int
	// Pipeline and Executor are those of a new run.
	Pipeline string
	Executor string
}

// Decision is what became of an event.
type Decision struct {
	EventID string
	// Cluster is the event's; it is set even where there is no incident.
	Cluster string
	Outcome nightcrier.Outcome
	Reason  nightcrier.Reason
	Detail  string
	// Incident and Run are those that the event belongs to, as they stand after
	// it; zero when it belongs to none.
	Incident nightcrier.Incident
	Run      nightcrier.Run
	// NewIncident: the event opened the incident.
	NewIncident bool
	// SeverityRose: the event is more severe than all before it in the incident,
	// which had been Was.
	SeverityRose bool
	Was          nightcrier.Severity
	// StormStarted is set by the event that began a storm, for the one message.
	StormStarted *Storm
	// Dropped are the runs that will not happen because of this event, maybe its
	// own among them.
	Dropped []nightcrier.Run
	// Repeated: the event was decided before, and this is that decision.
	Repeated bool
}

// Accept decides about an event in one transaction: it joins the open incident
// of its fingerprint, or one that was closed less than the dedupe window ago
// (then it is suppressed), or a closed one whose fault is known to have gone on,
// or opens a new incident with a queued run. Storms and the queue's bound are
// applied to what it opened. An event that says that the fault is over joins the
// newest incident of its fingerprint, and opens none. An event id that was accepted
// before gets the decision of then, and is counted.
//
// An incident that ev opens gets the id ev.IncidentID, unless that is empty.
func (s *Store) Accept(ctx context.Context, ev nightcrier.Event, p AcceptPolicy) (Decision, error) {
	for field, value := range map[string]string{"id": ev.ID, "cluster": ev.Cluster, "fingerprint": ev.Fingerprint, "(policy) pipeline": p.Pipeline} {
		if value == "" {
			return Decision{}, nightcrier.Errorf(nightcrier.Invalid, "store: accept an event: its %s is empty", field)
		}
	}
	var d Decision
	err := s.writeTransaction(ctx, "accept an event", func(t *tx) error {
		ev.ReceivedAt = receivedAt(ev, t.now)
		known, found, err := t.decisionFor(ev.ID)
		for err == nil && found && isForsaken(known, ev, p) {
			ev.ID = nightcrier.DerivedID(ev.ID, known.Incident.ID)
			known, found, err = t.decisionFor(ev.ID)
		}
		switch {
		case err != nil:
		case found:
			d, err = t.countRedelivery(known, ev.ReceivedAt)
		default:
			d, err = t.acceptEvent(ev, p)
		}
		return err
	})
	return d, err
}

// isForsaken reports whether an event that is delivered again belongs to an incident
// that was closed without anybody looking at it: the fault is still reported, so
// it gets another chance once the dedupe window is over.
func isForsaken(known Decision, ev nightcrier.Event, p AcceptPolicy) bool {
	inc := known.Incident
	return inc.ID != "" && !inc.Status.Open() && inc.StartedAt.IsZero() && !inc.Storm && !ev.Cleared &&
		ev.ReceivedAt.Sub(inc.LastEventAt) >= p.DedupeWindow
}

func (t *tx) acceptEvent(ev nightcrier.Event, p AcceptPolicy) (Decision, error) {
	last, found, err := t.latestIncident(ev.Fingerprint)
	if err != nil {
		return Decision{}, err
	}
	var d Decision
	switch {
	case ev.Cleared:
		d, err = t.clearIncident(last, found, ev)
	case found && last.Status.Open():
		d, err = t.joinIncident(last, ev)
	case found && ev.ReceivedAt.Sub(last.LastEventAt) < p.DedupeWindow:
		d, err = t.suppressRecent(last, ev)
	case found && continuesFault(last, ev):
		d, err = t.resumeIncident(last, ev)
	default:
		d, err = t.openIncident(last, ev, p)
	}
	if err != nil {
		return Decision{}, err
	}
	if err := t.noteFiring(d.Incident.ID, ev); err != nil {
		return Decision{}, err
	}
	d.EventID, d.Cluster = ev.ID, ev.Cluster
	ev.Outcome, ev.Reason, ev.Detail, ev.IncidentID = d.Outcome, d.Reason, d.Detail, d.Incident.ID
	return d, t.addEvent(ev, verdictOf(d))
}

// latestIncident returns the open incident of a fingerprint, else its newest one.
func (t *tx) latestIncident(fingerprint string) (nightcrier.Incident, bool, error) {
	for _, which := range []string{
		` AND status IN ('pending', 'investigating')`,
		` ORDER BY created_at DESC, id DESC LIMIT 1`,
	} {
		inc, err := scanIncident(t.queryRow(`SELECT doc FROM incidents WHERE fingerprint = ?`+which, fingerprint))
		if !errors.Is(err, sql.ErrNoRows) {
			return inc, err == nil, err
		}
	}
	return nightcrier.Incident{}, false, nil
}

// joinIncident adds the event to an open incident.
func (t *tx) joinIncident(inc nightcrier.Incident, ev nightcrier.Event) (Decision, error) {
	d := Decision{Outcome: nightcrier.Joined}
	if ev.FaultID != "" && ev.FaultID == inc.FaultID {
		d.Reason = nightcrier.Duplicate
	}
	noteEvent(&inc, ev.ID, ev.ReceivedAt)
	d.Was = inc.Severity
	d.SeverityRose = raiseSeverity(&inc, ev.Severity)
	noteSeenBy(&inc, ev.Source)
	return d, t.settleIncident(&d, inc)
}

// suppressRecent records an event of a fault that was dealt with a moment ago.
func (t *tx) suppressRecent(inc nightcrier.Incident, ev nightcrier.Event) (Decision, error) {
	d := Decision{Outcome: nightcrier.Suppressed, Reason: nightcrier.DedupeWindow}
	d.Detail = "incident " + inc.ID + " of the same fault ended a moment ago (" + string(inc.Status) + ")"
	noteEvent(&inc, ev.ID, windowFrom(inc, ev.ReceivedAt))
	d.Was = inc.Severity
	d.SeverityRose = raiseSeverity(&inc, ev.Severity)
	noteSeenBy(&inc, ev.Source)
	return d, t.settleIncident(&d, inc)
}

// countRedelivery counts an event that was delivered before, in its row and in its incident.
func (t *tx) countRedelivery(known Decision, at time.Time) (Decision, error) {
	known.Repeated = true
	if err := t.countRepeat(known.EventID, at); err != nil || known.Incident.ID == "" {
		return known, err
	}
	inc := &known.Incident
	inc.EventCount++
	inc.LastEventAt = windowFrom(*inc, at)
	return known, t.saveIncident(inc, inc.Status)
}

// windowFrom is when the dedupe window of an incident starts, reported at a time.
// It moves on, unless nobody has looked at the fault: what the queue had no room
// for is not put off for ever by being reported again.
func windowFrom(inc nightcrier.Incident, at time.Time) time.Time {
	if !inc.Status.Open() && inc.StartedAt.IsZero() && !inc.Storm || at.Before(inc.LastEventAt) {
		return inc.LastEventAt
	}
	return at
}

func raiseSeverity(inc *nightcrier.Incident, s nightcrier.Severity) bool {
	if s <= inc.Severity {
		return false
	}
	inc.Severity = s
	return true
}

// openIncident makes a new incident with a queued run, then applies limitStorm and
// limitQueue.
func (t *tx) openIncident(previous nightcrier.Incident, ev nightcrier.Event, p AcceptPolicy) (Decision, error) {
	d := Decision{Outcome: nightcrier.Opened, NewIncident: true}
	if err := t.supersedeIncident(previous); err != nil {
		return d, err
	}
	inc := newIncident(ev, previous.ID)
	inc.Executor = p.Executor
	storm, err := t.stormFor(&inc, p.Storm)
	if err != nil {
		return d, err
	}
	run := newRun(&inc, p.Pipeline, p.Executor, ev.ReceivedAt)
	if err := t.addIncident(&inc, storm.ID); err != nil {
		return d, err
	}
	if err := t.addRun(run, storm.ID, nil); err != nil {
		return d, err
	}
	if storm.ID != "" {
		if d.Dropped, err = t.limitStorm(storm, p.Storm.Investigate); err != nil {
			return d, err
		}
	}
	full, err := t.limitQueue(p.QueueMax)
	if err != nil {
		return d, err
	}
	d.Dropped = append(d.Dropped, full...)
	if storm.fresh {
		d.StormStarted = &storm.Storm
	}
	t.queueChanged = true
	return d, t.rereadDecision(&d, inc.ID, run.ID)
}

// rereadDecision puts the rows as they stand now into the decision.
func (c conn) rereadDecision(d *Decision, incidentID, runID string) (err error) {
	if d.Incident, err = c.incidentByID(incidentID); err != nil {
		return err
	}
	d.Run, err = c.runByID(runID)
	return err
}

func newIncident(ev nightcrier.Event, previous string) nightcrier.Incident {
	inc := nightcrier.Incident{
		ID: cmp.Or(ev.IncidentID, nightcrier.NewID()), EventID: ev.ID, FaultID: ev.FaultID, Fingerprint: ev.Fingerprint,
		Status:  nightcrier.Pending,
		Cluster: ev.Cluster, Resource: ev.Resource, Owner: ev.Owner, Class: ev.Class, FaultType: ev.FaultType,
		Severity: ev.Severity, Context: ev.Context, Timestamp: truncateTime(ev.OccurredAt), CreatedAt: ev.ReceivedAt,
		PreviousID: previous,
	}
	noteSeenBy(&inc, ev.Source)
	noteEvent(&inc, ev.ID, ev.ReceivedAt)
	return inc
}

func newRun(inc *nightcrier.Incident, pipeline, executor string, at time.Time) nightcrier.Run {
	run := nightcrier.Run{
		ID: nightcrier.NewID(), Subject: nightcrier.Subject{Kind: nightcrier.SubjectIncident, ID: inc.ID},
		Pipeline: pipeline, Key: inc.Cluster, Executor: executor, Severity: inc.Severity, Status: nightcrier.Queued, QueuedAt: at,
	}
	inc.RunID = run.ID
	return run
}

// verdictOf keeps what an event's row needs to give the decision again.
func verdictOf(d Decision) verdict {
	v := verdict{RunID: d.Run.ID, Rose: d.SeverityRose, Was: d.Was}
	if d.StormStarted != nil {
		v.StormID = d.StormStarted.ID
	}
	for _, run := range d.Dropped {
		v.Dropped = append(v.Dropped, run.ID)
	}
	return v
}

// recallDecision rebuilds the decision of an event; incident and runs are as they stand
// now.
func (c conn) recallDecision(ev nightcrier.Event, v verdict) (Decision, error) {
	d := Decision{
		EventID: ev.ID, Cluster: ev.Cluster, Outcome: ev.Outcome, Reason: ev.Reason, Detail: ev.Detail,
		NewIncident: ev.Outcome == nightcrier.Opened, SeverityRose: v.Rose, Was: v.Was,
	}
	if ev.IncidentID == "" {
		return d, nil
	}
	if err := c.rereadDecision(&d, ev.IncidentID, v.RunID); err != nil {
		return d, err
	}
	for _, id := range v.Dropped {
		run, err := c.runByID(id)
		if err != nil {
			return d, err
		}
		d.Dropped = append(d.Dropped, run)
	}
	if v.StormID == "" {
		return d, nil
	}
	storm, err := c.stormByID(v.StormID)
	d.StormStarted = &storm
	return d, err
}

// Adopt takes over a run that is under way elsewhere, or was: its incident, the
// event that opened it, and its lease. The run goes on when the store's owner starts.
// It is a Conflict when the store knows one of them.
func (s *Store) Adopt(ctx context.Context, inc nightcrier.Incident, ev nightcrier.Event, run nightcrier.Run) error {
	if inc.Status != nightcrier.Investigating || inc.RunID != run.ID || run.IncidentID() != inc.ID || inc.EventID != ev.ID {
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
		if err := t.addRun(run, "", nil); err != nil {
			return err
		}
		t.queueChanged = true
		_, err := t.execStatement(`UPDATE runs SET status = 'admitted', admitted_at = ? WHERE id = ?`, toMicros(run.AdmittedAt), run.ID)
		return err
	})
}
