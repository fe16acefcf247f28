package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"strings"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/text"
)

// Progress is what becomes known of a run while it goes on; zero fields change
// nothing.
type Progress struct {
	State             nightcrier.State
	Executor          string
	Workspace         string
	ContextIncomplete string
	Skills            []nightcrier.SkillRef
	// WaitsFor is what the run cannot go on without; one of no kind says that it goes on.
	WaitsFor *nightcrier.Wait
}

// Finish is how a run ended.
type Finish struct {
	RunID string
	// Outcome is the run's own. For a run about an incident it may be left to what Status
	// and FailureClass say.
	Outcome nightcrier.State
	// Status is the incident's final one, if the run is about one: resolved, failed or
	// agent_failed.
	Status nightcrier.IncidentStatus
	// Result is the agent step's; its exit code, signal and state are the incident's.
	Result nightcrier.AgentResult
	// FailureReason and FailureClass are those of Result when empty.
	FailureReason string
	FailureClass  nightcrier.FailureClass
	// CostUSD is what all of the run cost, that of Result when 0.
	CostUSD   float64
	RootCause string
	Artifacts []nightcrier.Artifact
	Skills    []nightcrier.SkillRef
	// ContextIncomplete, Executor and Workspace change nothing when empty.
	ContextIncomplete string
	Executor          string
	Workspace         string
	// Report is report.json; nil when there is none.
	Report []byte
	// Diagnosis is what the facts alone came to, nil when that is no fault: by it
	// the incident is recalled.
	Diagnosis *nightcrier.RootCause
	// Conclusion is what the report that is delivered comes to, nil when that is no
	// cause that another incident could have as well.
	Conclusion *nightcrier.RootCause
	// LookAgainAt is when the incident is to be investigated again, zero for never.
	LookAgainAt time.Time
}

// Run returns one run; NotFound when there is none.
func (s *Store) Run(ctx context.Context, id string) (nightcrier.Run, error) {
	run, err := s.readConn(ctx).runByID(id)
	return run, s.wrapError("read a run", err)
}

// Runs lists the runs of an incident, oldest first.
func (s *Store) Runs(ctx context.Context, incidentID string) ([]nightcrier.Run, error) {
	list, err := s.readConn(ctx).listRuns(`subject_kind = 'incident' AND subject_id = ? ORDER BY queued_at, id`, incidentID)
	return list, s.wrapError("list runs", err)
}

// RunFilter selects runs; zero fields select all.
type RunFilter struct {
	Pipeline    string
	SubjectKind nightcrier.SubjectKind
	SubjectID   string
	Status      nightcrier.RunStatus
	Key         string
	// TriggeredBy is who or what asked for it, Outcome how it ended.
	TriggeredBy string
	Outcome     nightcrier.State
	// Since leaves out what was queued before, Until what was queued at that time or later.
	Since, Until time.Time
	// Limit and Cursor are as those of an IncidentFilter.
	Limit  int
	Cursor string
}

// ListRuns lists runs, the newest first. The cursor of the next page is "" after the last.
func (s *Store) ListRuns(ctx context.Context, f RunFilter) ([]nightcrier.Run, string, error) {
	q := filter{terms: []string{"1 = 1"}}
	q.addEqual("pipeline", f.Pipeline)
	q.addEqual("subject_kind", string(f.SubjectKind))
	q.addEqual("subject_id", f.SubjectID)
	q.addEqual("status", string(f.Status))
	q.addEqual("run_key", f.Key)
	q.addEqual("triggered_by", f.TriggeredBy)
	q.addEqual("outcome", string(f.Outcome))
	if !f.Since.IsZero() {
		q.addTerm("queued_at >= ?", toMicros(f.Since))
	}
	if !f.Until.IsZero() {
		q.addTerm("queued_at < ?", toMicros(f.Until))
	}
	limit, err := q.addPage("queued_at", f.Limit, f.Cursor)
	if err != nil {
		return nil, "", err
	}
	list, err := s.readConn(ctx).listRuns(strings.Join(q.terms, " AND ")+` ORDER BY queued_at DESC, id DESC LIMIT ?`, append(q.args, limit+1)...)
	if err != nil || len(list) <= limit {
		return list, "", s.wrapError("list runs", err)
	}
	last := list[limit-1]
	return list[:limit], formatCursor(last.QueuedAt, last.ID), nil
}

// RunSum sums up the runs of one pipeline.
type RunSum struct {
	Pipeline string
	// Ended are those that were dropped, too.
	Runs, Ended, Succeeded int
	CostUSD                float64
	// Took is how long the ended ones took together, from their queueing on.
	Took time.Duration
}

// RunSums sums up all runs, by the name of their pipeline.
func (s *Store) RunSums(ctx context.Context) ([]RunSum, error) {
	var all []RunSum
	err := s.readConn(ctx).eachRow(func(rows *sql.Rows) error {
		var sum RunSum
		var micros int64
		err := rows.Scan(&sum.Pipeline, &sum.Runs, &sum.Ended, &sum.Succeeded, &sum.CostUSD, &micros)
		sum.Took = time.Duration(micros) * time.Microsecond
		all = append(all, sum)
		return err
	}, `SELECT pipeline, COUNT(*), SUM(CASE WHEN ended_at > 0 THEN 1 ELSE 0 END), SUM(CASE WHEN outcome = 'success' THEN 1 ELSE 0 END), SUM(cost_usd),
		CAST(SUM(CASE WHEN ended_at > 0 THEN ended_at - queued_at ELSE 0 END) AS BIGINT) FROM runs GROUP BY pipeline ORDER BY pipeline`)
	return all, s.wrapError("sum up the runs", err)
}

// BeginRun begins an admitted run: the incident that it is about, which is returned,
// becomes investigating, and the attempt is counted. A run about anything else changes
// nothing, as the same run begun again does.
func (s *Store) BeginRun(ctx context.Context, runID string) (nightcrier.Incident, error) {
	var inc nightcrier.Incident
	err := s.writeTransaction(ctx, "begin a run", func(t *tx) error {
		run, err := t.runByID(runID)
		if err != nil {
			return err
		}
		if run.Status != nightcrier.Admitted {
			return nightcrier.Errorf(nightcrier.Conflict, "run %s is %s, not admitted", run.ID, run.Status)
		}
		if run.IncidentID() == "" {
			return nil
		}
		inc, err = t.incidentByID(run.IncidentID())
		if err != nil || inc.Status == nightcrier.Investigating {
			return err
		}
		inc.StartedAt = t.now
		inc.Executor = run.Executor
		inc.Attempts++
		t.wake = append(t.wake, run.ID)
		return t.moveIncident(&inc, nightcrier.Investigating)
	})
	return inc, err
}

// NoteProgress records what became known of an admitted run, and returns the incident
// that it is about; of a run about anything else only the executor is kept. After the
// run's end it changes nothing.
func (s *Store) NoteProgress(ctx context.Context, runID string, p Progress) (nightcrier.Incident, error) {
	var inc nightcrier.Incident
	err := s.writeTransaction(ctx, "note the progress of a run", func(t *tx) error {
		run, err := t.runByID(runID)
		if err != nil {
			return err
		}
		if err := t.noteOwnProgress(run, p); err != nil || run.IncidentID() == "" {
			return err
		}
		inc, err = t.incidentByID(run.IncidentID())
		if err != nil || run.Status != nightcrier.Admitted || inc.RunID != runID {
			return err
		}
		setNonEmpty(&inc.State, p.State)
		setNonEmpty(&inc.Executor, p.Executor)
		setNonEmpty(&inc.Workspace, p.Workspace)
		setNonEmpty(&inc.ContextIncomplete, p.ContextIncomplete)
		if p.Skills != nil {
			inc.Skills = p.Skills
		}
		return t.saveIncident(&inc, inc.Status)
	})
	return inc, err
}

// noteOwnProgress records what of it is kept with the run.
func (t *tx) noteOwnProgress(run nightcrier.Run, p Progress) error {
	t.wake = append(t.wake, run.ID)
	if p.WaitsFor != nil {
		_, err := t.execStatement(`UPDATE runs SET waits_for = ?, waits_text = ? WHERE id = ? AND status = 'admitted'`,
			string(p.WaitsFor.For), text.CutLine(p.WaitsFor.Text, maxRunName), run.ID)
		if err != nil {
			return err
		}
	}
	if p.Executor == "" || run.IncidentID() != "" {
		return nil
	}
	_, err := t.execStatement(`UPDATE runs SET executor = ? WHERE id = ? AND status = 'admitted'`, p.Executor, run.ID)
	return err
}

// FinishRun ends an admitted run: it gets its outcome, the incident that it is about its
// final status and report, and the lease is released. Call it only when the agent is
// verified gone. For a run that has ended it changes nothing.
func (s *Store) FinishRun(ctx context.Context, f Finish) error {
	return s.writeTransaction(ctx, "finish a run", func(t *tx) error {
		run, err := t.runByID(f.RunID)
		if err != nil || run.Status == nightcrier.Finished {
			return err
		}
		if run.Status != nightcrier.Admitted {
			return nightcrier.Errorf(nightcrier.Conflict, "run %s is %s, not admitted", run.ID, run.Status)
		}
		if run.IncidentID() != "" {
			if err := t.finishIncident(run, &f); err != nil {
				return err
			}
		}
		f.fillOutcome()
		if !f.Outcome.Terminal() {
			return nightcrier.Errorf(nightcrier.Invalid, "run %s cannot end with the outcome %q", run.ID, f.Outcome)
		}
		t.queueChanged = true
		t.wake = append(t.wake, run.ID)
		_, err = t.execStatement(`UPDATE runs SET status = 'finished', waits_for = '', waits_text = '', ended_at = ?, outcome = ?, failure_class = ?, failure_reason = ?, cost_usd = ?
			WHERE id = ? AND status = 'admitted'`, toMicros(t.now), string(f.Outcome), string(f.FailureClass), f.FailureReason, f.CostUSD, run.ID)
		return err
	})
}

// finishIncident closes the incident that a run is about.
func (t *tx) finishIncident(run nightcrier.Run, f *Finish) error {
	inc, err := t.incidentByID(run.IncidentID())
	if err != nil {
		return err
	}
	f.fillIncident(&inc)
	if f.Status.Open() {
		return nightcrier.Errorf(nightcrier.Invalid, "run %s cannot end with its incident %q", run.ID, f.Status)
	}
	if err := t.relateIncident(&inc, diagnosisHash(f.Conclusion)); err != nil {
		return err
	}
	if err := t.moveIncident(&inc, f.Status); err != nil {
		return err
	}
	_, err = t.execStatement(`UPDATE incidents SET report = ?, diagnosis = ?, look_again_at = ? WHERE id = ?`, f.Report, diagnosisHash(f.Diagnosis), toMicros(f.LookAgainAt), inc.ID)
	return err
}

// fillOutcome fills in what is not said of how the run itself ended.
func (f *Finish) fillOutcome() {
	f.FailureReason = cmp.Or(f.FailureReason, f.Result.FailureReason)
	f.FailureClass = cmp.Or(f.FailureClass, f.Result.FailureClass)
	f.CostUSD = cmp.Or(f.CostUSD, f.Result.Usage.CostUSD)
	switch {
	case f.Outcome != "" || f.Status == "":
	case f.Status == nightcrier.Resolved:
		f.Outcome = nightcrier.StateSuccess
	case f.FailureClass == nightcrier.FailTimeout:
		f.Outcome = nightcrier.StateTimeout
	case f.FailureClass == nightcrier.FailCancelled:
		f.Outcome = nightcrier.StateCancelled
	default:
		f.Outcome = nightcrier.StateFailed
	}
	if f.Outcome == nightcrier.StateSuccess {
		f.FailureReason, f.FailureClass = "", ""
	}
}

// Preview returns the incident as it will be once the run has ended at a time.
func (f Finish) Preview(inc nightcrier.Incident, at time.Time) nightcrier.Incident {
	f.fillIncident(&inc)
	inc.Status, inc.CompletedAt = f.Status, at.UTC()
	return inc
}

// fillIncident writes the outcome into the incident.
func (f *Finish) fillIncident(inc *nightcrier.Incident) {
	inc.ExitCode, inc.Signal = f.Result.ExitCode, f.Result.Signal
	inc.FailureReason, inc.FailureClass = f.Result.FailureReason, f.Result.FailureClass
	setNonEmpty(&inc.State, f.Result.State)
	setNonEmpty(&inc.FailureReason, f.FailureReason)
	setNonEmpty(&inc.FailureClass, f.FailureClass)
	if f.Status == nightcrier.Resolved {
		inc.FailureReason, inc.FailureClass = "", ""
	}
	inc.RootCause, inc.Artifacts = f.RootCause, f.Artifacts
	if f.Skills != nil {
		inc.Skills = f.Skills
	}
	setNonEmpty(&inc.ContextIncomplete, f.ContextIncomplete)
	setNonEmpty(&inc.Executor, f.Executor)
	setNonEmpty(&inc.Workspace, f.Workspace)
}

// RequestCancel asks the incident's run to stop, as RequestCancelRun does.
func (s *Store) RequestCancel(ctx context.Context, incidentID, cause string) (nightcrier.Run, error) {
	var run nightcrier.Run
	err := s.writeTransaction(ctx, "cancel an incident", func(t *tx) error {
		inc, err := t.incidentByID(incidentID)
		if err != nil {
			return err
		}
		if run, err = t.runByID(inc.RunID); err != nil {
			return err
		}
		if !run.Status.Open() {
			return nightcrier.Errorf(nightcrier.Conflict, "incident %s is %s; there is nothing to cancel", inc.ID, inc.Status)
		}
		run, err = t.cancelRun(run, nightcrier.Cancelled, cause)
		return err
	})
	return run, err
}

// RequestCancelRun asks a run to stop. A queued one is dropped at once; an admitted one
// is flagged, and ends when its agent is gone. Asking again changes nothing; a run that
// has ended is a Conflict.
func (s *Store) RequestCancelRun(ctx context.Context, runID, cause string) (nightcrier.Run, error) {
	var run nightcrier.Run
	err := s.writeTransaction(ctx, "cancel a run", func(t *tx) (err error) {
		if run, err = t.runByID(runID); err != nil {
			return err
		}
		if !run.Status.Open() {
			return nightcrier.Errorf(nightcrier.Conflict, "run %s is %s; there is nothing to cancel", run.ID, run.Status)
		}
		run, err = t.cancelRun(run, nightcrier.Cancelled, cause)
		return err
	})
	return run, err
}

// cancelRun asks an open run to stop.
func (t *tx) cancelRun(run nightcrier.Run, reason nightcrier.Reason, cause string) (nightcrier.Run, error) {
	cause = cmp.Or(cause, "cancelled")
	if run.Status == nightcrier.Queued {
		return t.dropRun(run, ending{status: nightcrier.Failed, reason: reason, why: "cancelled: " + cause, class: nightcrier.FailCancelled, cause: cause})
	}
	if run.CancelRequested {
		return run, nil
	}
	run.CancelRequested, run.Cause = true, cause
	t.wake = append(t.wake, run.ID)
	_, err := t.execStatement(`UPDATE runs SET cancel_requested = 1, cause = ? WHERE id = ? AND status = 'admitted'`, cause, run.ID)
	return run, err
}

// CancelRequested reports whether the run was asked to stop, and by whom.
func (s *Store) CancelRequested(ctx context.Context, runID string) (bool, string, error) {
	run, err := s.Run(ctx, runID)
	return run.CancelRequested, run.Cause, err
}

// Retry queues a new run of a closed incident, with another executor unless that
// is "". A storm does not drop it: a person has asked for it.
func (s *Store) Retry(ctx context.Context, incidentID, executor string) (nightcrier.Run, error) {
	var run nightcrier.Run
	err := s.writeTransaction(ctx, "retry an incident", func(t *tx) error {
		inc, err := t.incidentByID(incidentID)
		if err != nil {
			return err
		}
		old, err := t.runByID(inc.RunID)
		if err != nil {
			return err
		}
		setNonEmpty(&old.Executor, executor)
		run, err = t.retryIncident(&inc, old)
		return err
	})
	return run, err
}

// Bounds of looking again: how many runs an incident has by then at most, and how many incidents
// are taken at once.
const (
	mostLooks = 5
	dueAtOnce = 20
)

// RetryDue queues a new run of each closed incident whose report said that the question is to be
// asked again by now, once for each time that it said so. An incident whose fault is open again in
// another one, or that has been looked at often, is left as it is.
func (s *Store) RetryDue(ctx context.Context) ([]nightcrier.Run, error) {
	var queued []nightcrier.Run
	err := s.writeTransaction(ctx, "look again", func(t *tx) error {
		queued = nil
		var due []nightcrier.Incident
		err := t.eachRow(func(rows *sql.Rows) error {
			inc, err := scanIncident(rows)
			due = append(due, inc)
			return err
		}, `SELECT doc FROM incidents WHERE look_again_at > 0 AND look_again_at <= ? AND status NOT IN ('pending', 'investigating') ORDER BY look_again_at, id LIMIT ?`, toMicros(t.now), dueAtOnce)
		if err != nil {
			return err
		}
		for _, inc := range due {
			if _, err := t.execStatement(`UPDATE incidents SET look_again_at = 0 WHERE id = ?`, inc.ID); err != nil {
				return err
			}
			runs, err := t.listRuns(`subject_kind = 'incident' AND subject_id = ? ORDER BY queued_at, id`, inc.ID)
			if err != nil {
				return err
			}
			if t.noneOpen(inc.Fingerprint) != nil || len(runs) == 0 || len(runs) >= mostLooks {
				continue
			}
			run, err := t.retryIncident(&inc, runs[len(runs)-1])
			if err != nil {
				return err
			}
			queued = append(queued, run)
		}
		return nil
	})
	return queued, err
}

// retryIncident queues a new run of a closed incident, after the example of an old one.
func (t *tx) retryIncident(inc *nightcrier.Incident, old nightcrier.Run) (nightcrier.Run, error) {
	if inc.Status.Open() {
		return old, nightcrier.Errorf(nightcrier.Conflict, "incident %s is %s; cancel it first, or wait for its end", inc.ID, inc.Status)
	}
	if err := t.noneOpen(inc.Fingerprint); err != nil {
		return old, err
	}
	if _, err := t.execStatement(`UPDATE incidents SET before_retry = CASE WHEN status = 'resolved' THEN doc ELSE '' END WHERE id = ?`, inc.ID); err != nil {
		return old, err
	}
	run := newRun(inc, old.Pipeline, old.Executor, t.now)
	run.RetryOf = old.ID
	forgetOutcome(inc, old.Executor)
	if err := t.moveIncident(inc, nightcrier.Pending); err != nil {
		return old, err
	}
	t.queueChanged = true
	return run, t.addRun(run, "", nil)
}

// forgetOutcome forgets how the incident's last run ended.
func forgetOutcome(inc *nightcrier.Incident, executor string) {
	var zero nightcrier.Incident
	inc.Executor, inc.State = executor, ""
	inc.StartedAt, inc.CompletedAt = zero.StartedAt, zero.CompletedAt
	inc.ExitCode, inc.Signal = nil, ""
	inc.FailureReason, inc.FailureClass, inc.ContextIncomplete = "", "", ""
	inc.RootCause, inc.Artifacts = "", nil
}

// restoreResolved makes an incident whose retry will not happen what it was before: it has its report still.
// It is false for one that was not resolved then.
func (t *tx) restoreResolved(inc *nightcrier.Incident) (bool, error) {
	var doc string
	if err := t.queryRow(`SELECT before_retry FROM incidents WHERE id = ?`, inc.ID).Scan(&doc); err != nil || doc == "" {
		return false, err
	}
	var before nightcrier.Incident
	if err := decodeDoc(doc, &before); err != nil {
		return false, err
	}
	inc.RunID, inc.Executor, inc.State = before.RunID, before.Executor, before.State
	inc.StartedAt, inc.CompletedAt = before.StartedAt, before.CompletedAt
	inc.ExitCode, inc.Signal = before.ExitCode, before.Signal
	inc.ContextIncomplete, inc.RootCause, inc.Artifacts = before.ContextIncomplete, before.RootCause, before.Artifacts
	from := inc.Status
	inc.Status = before.Status // no move: what was moved is taken back
	return true, t.saveIncident(inc, from)
}

// noneOpen refuses a second open incident of one fault.
func (t *tx) noneOpen(fingerprint string) error {
	other, found, err := t.latestIncident(fingerprint)
	if err == nil && found && other.Status.Open() {
		err = nightcrier.Errorf(nightcrier.Conflict, "incident %s of the same fault is %s already", other.ID, other.Status)
	}
	return err
}

// setNonEmpty overwrites *to unless v is zero.
func setNonEmpty[T ~string](to *T, v T) {
	if v != "" {
		*to = v
	}
}

const runColumns = `id, subject_kind, subject_id, subject_title, pipeline, run_key, executor, model, severity, status, reason,
	outcome, failure_class, failure_reason, cost_usd, queued_at, admitted_at, ended_at, deadline,
	retry_of, from_step, triggered_by, cancel_requested, cause, waits_for, waits_text`

func scanRun(row interface{ Scan(...any) error }) (nightcrier.Run, error) {
	var r nightcrier.Run
	var queued, admitted, ended, deadline int64
	var cancel int
	var wait nightcrier.Wait
	err := row.Scan(&r.ID, &r.Subject.Kind, &r.Subject.ID, &r.Subject.Title, &r.Pipeline, &r.Key, &r.Executor, &r.Model, &r.Severity, &r.Status, &r.Reason,
		&r.Outcome, &r.FailureClass, &r.FailureReason, &r.CostUSD, &queued, &admitted, &ended, &deadline,
		&r.RetryOf, &r.FromStep, &r.TriggeredBy, &cancel, &r.Cause, &wait.For, &wait.Text)
	r.QueuedAt, r.AdmittedAt, r.EndedAt, r.Deadline = fromMicros(queued), fromMicros(admitted), fromMicros(ended), fromMicros(deadline)
	r.CancelRequested = cancel != 0
	if wait.For != "" {
		r.WaitsFor = &wait
	}
	return r, err
}

func (c conn) runByID(id string) (nightcrier.Run, error) {
	run, err := scanRun(c.queryRow(`SELECT `+runColumns+` FROM runs WHERE id = ?`, id))
	return run, orNotFound(err, "run", id)
}

func (c conn) listRuns(where string, args ...any) ([]nightcrier.Run, error) {
	list := []nightcrier.Run{}
	err := c.eachRow(func(rows *sql.Rows) error {
		run, err := scanRun(rows)
		list = append(list, run)
		return err
	}, `SELECT `+runColumns+` FROM runs WHERE `+where, args...)
	return list, err
}

// addRun stores a queued run; stormID is "" for one that no storm may drop.
func (t *tx) addRun(r nightcrier.Run, stormID string, input []byte) error {
	if r.Status != nightcrier.Queued {
		return errors.New("a new run is queued")
	}
	_, err := t.execStatement(`INSERT INTO runs (`+runColumns+`, storm_id, input)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 'queued', '', '', '', '', 0, ?, 0, 0, ?, ?, ?, ?, 0, '', '', '', ?, ?)`,
		r.ID, string(r.Subject.Kind), r.Subject.ID, r.Subject.Title, r.Pipeline, r.Key, r.Executor, r.Model, int(r.Severity),
		toMicros(r.QueuedAt), toMicros(r.Deadline), r.RetryOf, r.FromStep, r.TriggeredBy, stormID, input)
	return err
}
