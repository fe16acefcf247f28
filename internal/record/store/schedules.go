package store

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strconv"
	"time"

	"nightcrier.dev/nightcrier"
)

// Schedule is how far the ticks of a pipeline's trigger were considered.
type Schedule struct {
	Pipeline string `json:"pipeline"`
	Trigger  string `json:"trigger"`
	// LastTick is the newest one that was, or when the schedule was first seen.
	LastTick time.Time `json:"lastTick"`
	// Missed counts those that did not run because nobody looked in time.
	Missed int `json:"missed"`
}

// Tick is one moment of a schedule that was considered.
type Tick struct {
	At time.Time `json:"at"`
	// RunID is the run that it queued, "" where it was missed.
	RunID string `json:"runId,omitempty"`
}

// FollowSchedule returns how far a schedule was considered. One that is new begins now: what
// was before is nobody's. Where the clock was put back it goes on from now, too; the ticks that
// were considered already stay so, and none runs twice.
func (s *Store) FollowSchedule(ctx context.Context, pipeline, trigger string) (Schedule, error) {
	if pipeline == "" || trigger == "" {
		return Schedule{}, nightcrier.Errorf(nightcrier.Invalid, "a schedule needs a pipeline and a trigger")
	}
	var sched Schedule
	err := s.writeTransaction(ctx, "follow a schedule", func(t *tx) (err error) {
		if _, err = t.execStatement(`INSERT INTO schedules (pipeline, trigger_name, last_tick, missed) VALUES (?, ?, ?, 0)
			ON CONFLICT (pipeline, trigger_name) DO UPDATE SET last_tick = excluded.last_tick WHERE schedules.last_tick > excluded.last_tick`,
			pipeline, trigger, toMicros(t.now)); err != nil {
			return err
		}
		sched, err = t.scheduleOf(pipeline, trigger)
		return err
	})
	return sched, err
}

// LeaveSchedule ends that a schedule is followed. Followed again it is new; of its ticks that were
// considered none runs again.
func (s *Store) LeaveSchedule(ctx context.Context, pipeline, trigger string) error {
	return s.writeTransaction(ctx, "leave a schedule", func(t *tx) error {
		_, err := t.execStatement(`DELETE FROM schedules WHERE pipeline = ? AND trigger_name = ?`, pipeline, trigger)
		return err
	})
}

// FireSchedule considers the ticks of a schedule that is followed: of those that were not
// yet, the newest queues n, and the others are recorded as missed, all in one transaction.
// Its id, its subject and who triggered it are the tick's. It may be called again with the
// same ticks, also by another process: what was considered changes nothing, and is Repeated.
func (s *Store) FireSchedule(ctx context.Context, pipeline, trigger string, ticks []time.Time, n NewRun) (Enqueued, error) {
	var e Enqueued
	if len(ticks) == 0 {
		return e, nil
	}
	due := slices.SortedFunc(slices.Values(ticks), time.Time.Compare)
	newest := truncateTime(due[len(due)-1])
	n.ID = nightcrier.DerivedID("tick", pipeline, trigger, strconv.FormatInt(toMicros(newest), 10))
	n.Pipeline, n.TriggeredBy = pipeline, "schedule"
	n.Subject = nightcrier.Subject{Kind: nightcrier.SubjectSchedule, ID: trigger, Title: newest.Format(time.RFC3339)}
	if err := n.check(); err != nil {
		return e, err
	}
	err := s.writeTransaction(ctx, "fire a schedule", func(t *tx) error {
		sched, err := t.scheduleOf(pipeline, trigger)
		if err != nil {
			return err
		}
		considered, err := t.ticksBetween(pipeline, trigger, due[0], newest)
		if err != nil {
			return err
		}
		fresh := slices.DeleteFunc(slices.Clone(due), func(at time.Time) bool {
			at = truncateTime(at)
			return !at.After(sched.LastTick) || considered[toMicros(at)]
		})
		fresh = slices.CompactFunc(fresh, time.Time.Equal)
		if considered[toMicros(newest)] || len(fresh) == 0 {
			e.Repeated = true
			return nil
		}
		if e, err = t.enqueueRun(n); err != nil {
			return err
		}
		return t.recordTicks(pipeline, trigger, fresh, n.ID)
	})
	return e, err
}

// ticksBetween are the ticks of a schedule that were considered in a time, both ends among them.
func (t *tx) ticksBetween(pipeline, trigger string, first, last time.Time) (map[int64]bool, error) {
	found := map[int64]bool{}
	err := t.eachRow(func(rows *sql.Rows) error {
		var at int64
		err := rows.Scan(&at)
		found[at] = true
		return err
	}, `SELECT at FROM schedule_ticks WHERE pipeline = ? AND trigger_name = ? AND at BETWEEN ? AND ?`, pipeline, trigger, toMicros(first), toMicros(last))
	return found, err
}

// recordTicks records ticks of which the last has queued a run.
func (t *tx) recordTicks(pipeline, trigger string, due []time.Time, runID string) error {
	last := len(due) - 1
	for i, at := range due {
		by := ""
		if i == last {
			by = runID
		}
		if _, err := t.execStatement(`INSERT INTO schedule_ticks (pipeline, trigger_name, at, run_id) VALUES (?, ?, ?, ?)`,
			pipeline, trigger, toMicros(at), by); err != nil {
			return err
		}
	}
	_, err := t.execStatement(`UPDATE schedules SET last_tick = ?, missed = missed + ? WHERE pipeline = ? AND trigger_name = ?`,
		toMicros(due[last]), last, pipeline, trigger)
	return err
}

// Schedules lists the schedules that were ever followed.
func (s *Store) Schedules(ctx context.Context) ([]Schedule, error) {
	list := []Schedule{}
	err := s.readConn(ctx).eachRow(func(rows *sql.Rows) error {
		sched, err := scanSchedule(rows)
		list = append(list, sched)
		return err
	}, `SELECT pipeline, trigger_name, last_tick, missed FROM schedules ORDER BY pipeline, trigger_name`)
	return list, s.wrapError("list schedules", err)
}

// Ticks lists the ticks of a schedule that were considered, the newest first; at most
// limit, 1000 when that is 0.
func (s *Store) Ticks(ctx context.Context, pipeline, trigger string, limit int) ([]Tick, error) {
	if limit <= 0 {
		limit = maxPageSize
	}
	list := []Tick{}
	err := s.readConn(ctx).eachRow(func(rows *sql.Rows) error {
		var tick Tick
		var at int64
		err := rows.Scan(&at, &tick.RunID)
		tick.At = fromMicros(at)
		list = append(list, tick)
		return err
	}, `SELECT at, run_id FROM schedule_ticks WHERE pipeline = ? AND trigger_name = ? ORDER BY at DESC LIMIT ?`, pipeline, trigger, limit)
	return list, s.wrapError("list the ticks of a schedule", err)
}

func scanSchedule(row interface{ Scan(...any) error }) (Schedule, error) {
	var sched Schedule
	var last int64
	err := row.Scan(&sched.Pipeline, &sched.Trigger, &last, &sched.Missed)
	sched.LastTick = fromMicros(last)
	return sched, err
}

func (c conn) scheduleOf(pipeline, trigger string) (Schedule, error) {
	sched, err := scanSchedule(c.queryRow(`SELECT pipeline, trigger_name, last_tick, missed FROM schedules WHERE pipeline = ? AND trigger_name = ?`, pipeline, trigger))
	if errors.Is(err, sql.ErrNoRows) {
		return sched, nightcrier.Errorf(nightcrier.Conflict, "the schedule %s of pipeline %s is not followed", trigger, pipeline)
	}
	return sched, err
}
