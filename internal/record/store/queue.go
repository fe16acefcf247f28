package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"nightcrier.dev/nightcrier"
)

// Limits bound what runs at once.
type Limits struct {
	// Total is how many leases there may be, PerKey how many investigations of incidents
	// on one key, their cluster. The keys of anything else are others, whatever they are
	// called, and it is alone on its key: who names one keeps no incident waiting.
	Total  int
	PerKey int
	// Closed are executors that get no work now.
	Closed []string
}

// AdmitNext gives a lease to the most severe, then oldest, queued run that the
// limits allow, and returns it; nil when there is none. The choice and the lease
// are one statement of the store's only writer, so no two callers can overlap.
func (s *Store) AdmitNext(ctx context.Context, l Limits) (*nightcrier.Run, error) {
	if l.Total <= 0 || l.PerKey <= 0 {
		return nil, nightcrier.Errorf(nightcrier.Invalid, "store: admit a run: limits of %d in all and %d a cluster admit nothing", l.Total, l.PerKey)
	}
	var admitted *nightcrier.Run
	err := s.writeTransaction(ctx, "admit a run", func(t *tx) error {
		open, args := "", []any{toMicros(t.now), l.PerKey}
		if len(l.Closed) > 0 {
			open = ` AND executor NOT IN (?` + strings.Repeat(", ?", len(l.Closed)-1) + `)`
			for _, executor := range l.Closed {
				args = append(args, executor)
			}
		}
		run, err := scanRun(t.queryRow(`UPDATE runs SET status = 'admitted', admitted_at = ? WHERE status = 'queued' AND id = (
			SELECT id FROM runs WHERE status = 'queued'
				AND ((subject_kind = 'incident' AND run_key NOT IN (
						SELECT run_key FROM runs WHERE status = 'admitted' AND subject_kind = 'incident' GROUP BY run_key HAVING COUNT(*) >= ?))
					OR (subject_kind <> 'incident' AND run_key NOT IN (
						SELECT run_key FROM runs WHERE status = 'admitted' AND subject_kind <> 'incident')))`+open+`
				AND (SELECT COUNT(*) FROM runs WHERE status = 'admitted') < ?
			ORDER BY severity DESC, queued_at, id LIMIT 1)
			RETURNING `+runColumns, append(args, l.Total)...))
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		admitted = &run
		t.wake = append(t.wake, run.ID)
		return err
	})
	if err != nil {
		return nil, err
	}
	return admitted, nil
}

// LeasedRuns lists the runs that hold a lease, in the order of admission: at
// start they are resumed before anything is admitted.
func (s *Store) LeasedRuns(ctx context.Context) ([]nightcrier.Run, error) {
	list, err := s.readConn(ctx).listRuns(`status = 'admitted' ORDER BY admitted_at, id`)
	return list, s.wrapError("list the leased runs", err)
}

// ExpireQueued drops the runs that have waited longer than olderThan, 0 for any time,
// or past their deadline; their incidents end as failed.
func (s *Store) ExpireQueued(ctx context.Context, olderThan time.Duration) ([]nightcrier.Run, error) {
	var dropped []nightcrier.Run
	err := s.writeTransaction(ctx, "expire queued runs", func(t *tx) error {
		late, err := t.listRuns(`status = 'queued' AND deadline > 0 AND deadline <= ? ORDER BY queued_at, id`, toMicros(t.now))
		if err == nil {
			dropped, err = t.dropAll(late, nightcrier.DeadlinePassed, "it still waited in the queue at its deadline")
		}
		if err != nil || olderThan <= 0 {
			return err
		}
		late, err = t.listRuns(`status = 'queued' AND queued_at < ? ORDER BY queued_at, id`, toMicros(t.now.Add(-olderThan)))
		if err != nil {
			return err
		}
		old, err := t.dropAll(late, nightcrier.QueueExpired, fmt.Sprintf("it waited in the queue for more than %s", olderThan))
		dropped = append(dropped, old...)
		return err
	})
	return dropped, err
}

// limitQueue drops the least severe, among equals the newest, queued runs until
// at most limit wait.
func (t *tx) limitQueue(limit int) ([]nightcrier.Run, error) {
	if limit <= 0 {
		return nil, nil
	}
	var waiting int
	if err := t.queryRow(`SELECT COUNT(*) FROM runs WHERE status = 'queued'`).Scan(&waiting); err != nil || waiting <= limit {
		return nil, err
	}
	over, err := t.listRuns(`status = 'queued' ORDER BY severity, queued_at DESC, id DESC LIMIT ?`, waiting-limit)
	if err != nil {
		return nil, err
	}
	why := fmt.Sprintf("the queue held its maximum of %d runs, all of them at least as severe", limit)
	return t.dropAll(over, nightcrier.QueueFull, why)
}

// dropAll drops queued runs that nobody has cancelled. Those of a storm have not failed:
// they are told in another way.
func (t *tx) dropAll(list []nightcrier.Run, reason nightcrier.Reason, why string) ([]nightcrier.Run, error) {
	status := nightcrier.Failed
	if reason == nightcrier.StormListed {
		status = nightcrier.Listed
	}
	var dropped []nightcrier.Run
	for _, run := range list {
		again, notDone := "runs retry "+run.ID, "not executed: "
		if run.IncidentID() != "" {
			again, notDone = "incidents retry "+run.IncidentID(), "not investigated: "
		}
		run, err := t.dropRun(run, ending{status: status, reason: reason, why: notDone + why + "; `nightcrier " + again + "` queues it again"})
		if err != nil {
			return dropped, err
		}
		dropped = append(dropped, run)
	}
	return dropped, nil
}

// ending says why a run that never began has ended.
type ending struct {
	// status is that of its incident from now on, if it is about one.
	status nightcrier.IncidentStatus
	reason nightcrier.Reason
	why    string
	class  nightcrier.FailureClass
	cause  string
}

// dropRun ends a queued run, and its incident with it, if it is about one: that fails, unless it was resolved
// and only to be looked at again.
func (t *tx) dropRun(run nightcrier.Run, end ending) (nightcrier.Run, error) {
	run.Status, run.Reason, run.EndedAt = nightcrier.Dropped, end.reason, t.now
	run.CancelRequested, run.Cause = end.cause != "", end.cause
	run.FailureReason, run.FailureClass = end.why, end.class
	n, err := t.execStatement(`UPDATE runs SET status = ?, reason = ?, failure_reason = ?, failure_class = ?, ended_at = ?, cancel_requested = ?, cause = ? WHERE id = ? AND status = 'queued'`,
		string(run.Status), string(run.Reason), run.FailureReason, string(run.FailureClass), toMicros(run.EndedAt), boolToInt(run.CancelRequested), run.Cause, run.ID)
	if err == nil && n != 1 {
		err = nightcrier.Errorf(nightcrier.Conflict, "run %s is no longer queued", run.ID)
	}
	if err != nil {
		return run, err
	}
	t.queueChanged = true
	t.wake = append(t.wake, run.ID)
	if run.IncidentID() == "" {
		return run, nil
	}
	inc, err := t.incidentByID(run.IncidentID())
	if err != nil {
		return run, err
	}
	if restored, err := t.restoreResolved(&inc); err != nil || restored {
		return run, err
	}
	inc.FailureReason, inc.FailureClass = end.why, end.class
	return run, t.moveIncident(&inc, end.status)
}

// BreakerState is what is remembered of an executor's circuit breaker.
type BreakerState struct {
	Executor string `json:"executor"`
	// Failures counts the failures in a row that say the executor is unusable.
	Failures int  `json:"failures"`
	Open     bool `json:"open"`
	// Since is when it last opened or closed.
	Since     time.Time `json:"since,omitzero"`
	LastError string    `json:"lastError,omitempty"`
}

// SaveBreaker records the state of an executor's breaker.
func (s *Store) SaveBreaker(ctx context.Context, b BreakerState) error {
	return s.writeTransaction(ctx, "record a breaker", func(t *tx) error {
		_, err := t.execStatement(`INSERT INTO breakers (executor, failures, open, since, last_error) VALUES (?, ?, ?, ?, ?)
			ON CONFLICT (executor) DO UPDATE SET failures = excluded.failures, open = excluded.open,
				since = excluded.since, last_error = excluded.last_error`,
			b.Executor, b.Failures, boolToInt(b.Open), toMicros(b.Since), b.LastError)
		return err
	})
}

// Breakers lists the recorded breakers by executor.
func (s *Store) Breakers(ctx context.Context) ([]BreakerState, error) {
	list := []BreakerState{}
	err := s.readConn(ctx).eachRow(func(rows *sql.Rows) error {
		var b BreakerState
		var since int64
		var open int
		err := rows.Scan(&b.Executor, &b.Failures, &open, &since, &b.LastError)
		b.Open, b.Since = open != 0, fromMicros(since)
		list = append(list, b)
		return err
	}, `SELECT executor, failures, open, since, last_error FROM breakers ORDER BY executor`)
	return list, s.wrapError("list breakers", err)
}
