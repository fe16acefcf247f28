package store

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/text"
)

// MaxRunInput is how much a run may be called with, in bytes; maxRunName bounds what names
// it, and maxRunTitle what people read of its subject, which is cut.
const (
	MaxRunInput = 1 << 20
	maxRunName  = 512
	maxRunTitle = 256
)

// QueuePolicy says what a new run does to earlier ones of the same pipeline and key.
type QueuePolicy string

// The policies.
const (
	// QueueBehind waits for them.
	QueueBehind QueuePolicy = "queue"
	// CancelPrevious drops those that wait, and asks the one under way to stop.
	CancelPrevious QueuePolicy = "cancel-previous"
)

// NewRun is a run to be queued, about anything but an incident: an event or a retry
// queues those.
type NewRun struct {
	// ID, where it is known before, makes the call the same when it is made twice; "" makes
	// one.
	ID string
	// Call is the digest of the call that asks for it, "" where none may be made twice: the same
	// ID with another one is a conflict.
	Call     string
	Subject  nightcrier.Subject
	Pipeline string
	// Key is what may not run twice at once; "" shares with nothing.
	Key         string
	Executor    string
	Model       string
	Severity    nightcrier.Severity
	Deadline    time.Time
	TriggeredBy string
	// Input is JSON, at most MaxRunInput; nil for none.
	Input json.RawMessage
	// Policy is QueueBehind when empty. QueueMax is how many runs may wait; 0 sets no limit.
	Policy   QueuePolicy
	QueueMax int
	// Slots is how many runs may have the key at once, which then is one of as many; 0 is one.
	Slots int
	// Rates bound how often it may be queued.
	Rates []Rate
}

// Rate bounds how often something may be started within a minute: runs of some pipelines together, but for
// those about incidents.
type Rate struct {
	Of        string // for people
	PerMinute int
	Pipelines []string
}

// Enqueued is what became of a new run.
type Enqueued struct {
	// Run is as it stands now: dropped where the queue had no room for it.
	Run nightcrier.Run
	// Dropped are the runs that will not happen because of it, maybe itself; Stopping is
	// the one under way that was asked to stop.
	Dropped  []nightcrier.Run
	Stopping []nightcrier.Run
	// Repeated: the run was queued before, and nothing was changed.
	Repeated bool
}

// EnqueueRun queues a run.
func (s *Store) EnqueueRun(ctx context.Context, n NewRun) (Enqueued, error) {
	if err := n.check(); err != nil {
		return Enqueued{}, err
	}
	var e Enqueued
	err := s.writeTransaction(ctx, "queue a run", func(t *tx) (err error) {
		e, err = t.enqueueRun(n)
		return err
	})
	return e, err
}

// CalledRun returns the run that was queued by the same call before; NotFound when there is none, and
// Conflict when another call has its ID.
func (s *Store) CalledRun(ctx context.Context, n NewRun) (nightcrier.Run, error) {
	run, err := s.readConn(ctx).calledRun(n.ID, n.Call)
	if errors.Is(err, sql.ErrNoRows) {
		err = notFound("run", n.ID)
	}
	return run, s.wrapError("read a run", err)
}

func (c conn) calledRun(id, call string) (nightcrier.Run, error) {
	run, err := scanRun(c.queryRow(`SELECT `+runColumns+` FROM runs WHERE id = ?`, id))
	if err != nil || call == "" {
		return run, err
	}
	var was string
	if err := c.queryRow(`SELECT call_digest FROM runs WHERE id = ?`, id).Scan(&was); err != nil {
		return run, err
	}
	if was != call {
		return nightcrier.Run{}, nightcrier.Errorf(nightcrier.Conflict, "run %s was started by another request with the same idempotency key: send what was sent then, or another key", id)
	}
	return run, nil
}

// RunInput returns what a run was called with, nil for nothing.
func (s *Store) RunInput(ctx context.Context, id string) (json.RawMessage, error) {
	input, err := s.readConn(ctx).runInput(id)
	return input, s.wrapError("read the input of a run", err)
}

func (c conn) runInput(id string) (input json.RawMessage, err error) {
	err = c.queryRow(`SELECT input FROM runs WHERE id = ?`, id).Scan((*[]byte)(&input))
	return input, orNotFound(err, "run", id)
}

// check refuses what cannot be queued; the error names the field.
func (n *NewRun) check() error {
	for field, value := range map[string]string{
		"id": n.ID, "subject's id": n.Subject.ID, "pipeline": n.Pipeline, "key": n.Key, "executor": n.Executor, "model": n.Model, "triggeredBy": n.TriggeredBy,
	} {
		if len(value) > maxRunName {
			return nightcrier.Errorf(nightcrier.Invalid, "a run's %s has %d bytes; at most %d are taken", field, len(value), maxRunName)
		}
	}
	switch {
	case n.ID != "" && !nightcrier.ValidID(n.ID):
		return nightcrier.Errorf(nightcrier.Invalid, "a run's id is a UUID, not %.64q", n.ID)
	case n.Pipeline == "":
		return nightcrier.Errorf(nightcrier.Invalid, "a run needs a pipeline")
	case n.Subject.Kind == nightcrier.SubjectIncident:
		return nightcrier.Errorf(nightcrier.Invalid, "a run about an incident is queued by an event, or by a retry of the incident")
	case !slices.Contains(nightcrier.SubjectKinds(), n.Subject.Kind), n.Subject.ID == "":
		return nightcrier.Errorf(nightcrier.Invalid, "a run's subject needs an id and a kind, one of %q", nightcrier.SubjectKinds())
	case n.Policy != "" && n.Policy != QueueBehind && n.Policy != CancelPrevious:
		return nightcrier.Errorf(nightcrier.Invalid, "a run's policy is %s or %s, not %.64q", QueueBehind, CancelPrevious, n.Policy)
	case n.Policy == CancelPrevious && n.Key == "":
		return nightcrier.Errorf(nightcrier.Invalid, "the policy %s needs a key that the earlier runs have as well", CancelPrevious)
	case len(n.Input) > MaxRunInput:
		return nightcrier.Errorf(nightcrier.Invalid, "a run's input has %d bytes; at most %d are taken: hand over where it is", len(n.Input), MaxRunInput)
	case n.Input != nil && !json.Valid(n.Input):
		return nightcrier.Errorf(nightcrier.Invalid, "a run's input is no JSON")
	}
	return nil
}

func (t *tx) enqueueRun(n NewRun) (Enqueued, error) {
	id := cmp.Or(n.ID, nightcrier.NewID())
	known, err := t.calledRun(id, n.Call)
	if !errors.Is(err, sql.ErrNoRows) {
		return Enqueued{Run: known, Repeated: true}, err
	}
	for _, r := range n.Rates {
		if err := t.checkRate(r); err != nil {
			return Enqueued{}, err
		}
	}
	if n.Slots > 1 {
		if n.Key, err = t.chooseSlot(n.Key, n.Slots); err != nil {
			return Enqueued{}, err
		}
	}
	n.Subject.Title = text.CutLine(n.Subject.Title, maxRunTitle)
	run := nightcrier.Run{
		ID: id, Subject: n.Subject, Pipeline: n.Pipeline, Key: cmp.Or(n.Key, id), Executor: n.Executor, Model: n.Model, Severity: n.Severity,
		Status: nightcrier.Queued, QueuedAt: t.now, Deadline: truncateTime(n.Deadline), TriggeredBy: n.TriggeredBy,
	}
	var e Enqueued
	if n.Policy == CancelPrevious {
		if err := t.supersedeRuns(&e, run, nightcrier.Queued); err != nil {
			return e, err
		}
	}
	if err := t.addRun(run, "", n.Input); err != nil {
		return e, err
	}
	if _, err := t.execStatement(`UPDATE runs SET call_digest = ? WHERE id = ?`, n.Call, id); err != nil {
		return e, err
	}
	full, err := t.limitQueue(n.QueueMax)
	if err != nil {
		return e, err
	}
	e.Dropped = append(e.Dropped, full...)
	t.queueChanged = true
	if e.Run, err = t.runByID(id); err != nil || n.Policy != CancelPrevious || e.Run.Status == nightcrier.Dropped {
		return e, err // what is under way is not stopped for a run that will not happen
	}
	return e, t.supersedeRuns(&e, run, nightcrier.Admitted)
}

// checkRate refuses what was started as often as it may be.
func (t *tx) checkRate(r Rate) error {
	if len(r.Pipelines) == 0 || r.PerMinute < 1 {
		return nil
	}
	args := []any{toMicros(t.now.Add(-time.Minute))}
	for _, name := range r.Pipelines {
		args = append(args, name)
	}
	var oldest int64
	err := t.queryRow(`SELECT queued_at FROM runs WHERE queued_at > ? AND subject_kind <> 'incident' AND status <> 'dropped'
		AND pipeline IN (?`+strings.Repeat(", ?", len(r.Pipelines)-1)+`) ORDER BY queued_at DESC LIMIT 1 OFFSET ?`, append(args, r.PerMinute-1)...).Scan(&oldest)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	again := fromMicros(oldest).Add(time.Minute)
	return nightcrier.Errorf(nightcrier.Conflict, "%s may be started %s a minute, and was: it may be again in %s, at %s",
		r.Of, text.CountNoun(r.PerMinute, "time"), max(again.Sub(t.now), 0).Round(time.Second), again.UTC().Format(time.RFC3339))
}

// chooseSlot is the key of the slot that the fewest open runs have.
func (t *tx) chooseSlot(key string, slots int) (best string, err error) {
	least := -1
	for i := 1; i <= slots && least != 0; i++ {
		slot, open := fmt.Sprintf("%s#%d", key, i), 0
		if err := t.queryRow(`SELECT COUNT(*) FROM runs WHERE run_key = ? AND subject_kind <> 'incident' AND status IN ('queued', 'admitted')`, slot).Scan(&open); err != nil {
			return "", err
		}
		if least < 0 || open < least {
			best, least = slot, open
		}
	}
	return best, nil
}

// supersedeRuns drops the runs of the pipeline and key of next that are queued, or asks the one that
// is admitted to stop.
func (t *tx) supersedeRuns(e *Enqueued, next nightcrier.Run, which nightcrier.RunStatus) error {
	earlier, err := t.listRuns(`run_key = ? AND pipeline = ? AND subject_kind <> 'incident' AND status = ? ORDER BY queued_at, id`, next.Key, next.Pipeline, string(which))
	for _, run := range earlier {
		if err != nil {
			break
		}
		run, err = t.cancelRun(run, nightcrier.Superseded, "run "+next.ID+" took its place")
		if run.Status == nightcrier.Dropped {
			e.Dropped = append(e.Dropped, run)
		} else {
			e.Stopping = append(e.Stopping, run)
		}
	}
	return err
}

// RetryRun queues a run that has ended anew, with the same input. An incident that it is
// about becomes pending again; of its runs only the newest can be retried, since the
// workspace has what that one left. With a step to begin at, the new run has what the steps
// before it delivered; it is Invalid where the run never came to the step, a Conflict
// where a step before it delivered nothing.
func (s *Store) RetryRun(ctx context.Context, id, fromStep string) (nightcrier.Run, error) {
	var run nightcrier.Run
	err := s.writeTransaction(ctx, "retry a run", func(t *tx) error {
		old, err := t.runByID(id)
		if err != nil {
			return err
		}
		if old.Status.Open() {
			return nightcrier.Errorf(nightcrier.Conflict, "run %s is %s; cancel it first, or wait for its end", old.ID, old.Status)
		}
		var done []nightcrier.Step
		if fromStep != "" {
			if done, err = t.stepsBefore(old.ID, fromStep); err != nil {
				return err
			}
		}
		if old.IncidentID() == "" {
			run, err = t.repeatRun(old)
		} else {
			run, err = t.retryIncidentOf(old)
		}
		if err != nil || fromStep == "" {
			return err
		}
		run.FromStep = fromStep
		if _, err := t.execStatement(`UPDATE runs SET from_step = ? WHERE id = ?`, fromStep, run.ID); err != nil {
			return err
		}
		return t.adoptSteps(run.ID, done)
	})
	return run, err
}

func (t *tx) retryIncidentOf(old nightcrier.Run) (nightcrier.Run, error) {
	inc, err := t.incidentByID(old.IncidentID())
	if err == nil && inc.RunID != old.ID {
		err = nightcrier.Errorf(nightcrier.Conflict, "run %s is not the newest of incident %s, whose workspace is that of run %s; retry that one", old.ID, inc.ID, inc.RunID)
	}
	if err != nil {
		return old, err
	}
	return t.retryIncident(&inc, old)
}

// repeatRun queues a run about anything but an incident once more. Its deadline is as far
// away as it was then.
func (t *tx) repeatRun(old nightcrier.Run) (nightcrier.Run, error) {
	input, err := t.runInput(old.ID)
	if err != nil {
		return old, err
	}
	run := nightcrier.Run{
		ID: nightcrier.NewID(), Subject: old.Subject, Pipeline: old.Pipeline, Key: old.Key, Executor: old.Executor, Model: old.Model, Severity: old.Severity,
		Status: nightcrier.Queued, QueuedAt: t.now, RetryOf: old.ID, TriggeredBy: old.TriggeredBy,
	}
	if run.Key == old.ID { // it shared with nothing
		run.Key = run.ID
	}
	if !old.Deadline.IsZero() {
		run.Deadline = t.now.Add(old.Deadline.Sub(old.QueuedAt))
	}
	t.queueChanged = true
	return run, t.addRun(run, "", input)
}
