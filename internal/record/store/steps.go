package store

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/text"
)

// MaxStepOutput is how much JSON a step may deliver, in bytes; MaxStepArtifacts is how many
// files.
const (
	MaxStepOutput    = 256 << 10
	MaxStepArtifacts = 200
)

// maxStepReason is how much is kept of why a step failed or was skipped, in bytes.
const maxStepReason = 4 << 10

// SaveSteps records how attempts of steps of an admitted run stand, all or none. It may be called
// again with what is known already: an attempt never goes back to an earlier state, and
// one that has ended cannot end otherwise, which is a Conflict. After the run's end none
// comes up any more; those that are there may still end.
//
// A failure of the power may take it back, until anything else is written.
func (s *Store) SaveSteps(ctx context.Context, steps ...nightcrier.Step) error {
	for i := range steps {
		if err := checkStep(&steps[i]); err != nil {
			return err
		}
	}
	return s.writeSoon(ctx, "record steps", func(t *tx) error {
		var run nightcrier.Run
		for _, step := range steps {
			if run.ID != step.RunID {
				var err error
				if run, err = t.runByID(step.RunID); err != nil {
					return err
				}
			}
			if run.Status == nightcrier.Queued {
				return nightcrier.Errorf(nightcrier.Conflict, "run %s is queued, and has no steps yet", run.ID)
			}
			if err := t.saveStep(step, run.Status == nightcrier.Admitted); err != nil {
				return err
			}
		}
		return nil
	})
}

// saveStep records one attempt, which may be new.
func (t *tx) saveStep(step nightcrier.Step, mayBegin bool) error {
	known, err := scanStep(t.queryRow(`SELECT doc FROM steps WHERE run_id = ? AND step = ? AND attempt = ?`, step.RunID, step.ID, step.Attempt))
	switch {
	case errors.Is(err, sql.ErrNoRows) && mayBegin:
		return t.addStep(step)
	case errors.Is(err, sql.ErrNoRows):
		return nil
	case err != nil || step.State.EarlierThan(known.State) || known.Ended() && !step.Ended():
		return err
	case known.Ended() && (known.State != step.State || known.Skipped != step.Skipped):
		return nightcrier.Errorf(nightcrier.Conflict, "step %s#%d of run %s has ended as %s and cannot become %s", step.ID, step.Attempt, step.RunID, known.State, step.State)
	}
	return t.updateStep(step)
}

// Steps lists the attempts of a run's steps, in the order that they came up.
func (s *Store) Steps(ctx context.Context, runID string) ([]nightcrier.Step, error) {
	list, err := s.readConn(ctx).listSteps(runID)
	return list, s.wrapError("list the steps of a run", err)
}

func checkStep(s *nightcrier.Step) error {
	name := text.CutBytes(s.ID, 64)
	switch {
	case s.RunID == "" || s.ID == "" || s.Attempt < 1 || s.State == "":
		return nightcrier.Errorf(nightcrier.Invalid, "a step needs a run, an id, a state, and an attempt from 1 on")
	case len(s.ID) > maxRunName || len(s.Phase) > maxRunName || len(s.Uses) > maxRunName:
		return nightcrier.Errorf(nightcrier.Invalid, "step %s: its id, phase and what it uses have at most %d bytes each", name, maxRunName)
	case len(s.Output) > MaxStepOutput:
		return nightcrier.Errorf(nightcrier.Invalid, "step %s: its output has %d bytes; at most %d are kept: leave what is longer as an artifact", name, len(s.Output), MaxStepOutput)
	case s.Output != nil && !json.Valid(s.Output):
		return nightcrier.Errorf(nightcrier.Invalid, "step %s: its output is no JSON", name)
	case len(s.Artifacts) > MaxStepArtifacts:
		return nightcrier.Errorf(nightcrier.Invalid, "step %s: it left %d artifacts; at most %d are kept", name, len(s.Artifacts), MaxStepArtifacts)
	}
	for _, a := range s.Artifacts {
		if !filepath.IsLocal(a.Path) || len(a.Path) > maxStepReason || a.SHA256 == "" {
			return nightcrier.Errorf(nightcrier.Invalid, "step %s: the artifact %.128q needs a path inside the workspace, and a digest", name, a.Path)
		}
	}
	s.FailureReason, s.Skipped = text.CutBytes(s.FailureReason, maxStepReason), text.CutBytes(s.Skipped, maxStepReason)
	s.StartedAt, s.EndedAt = truncateTime(s.StartedAt), truncateTime(s.EndedAt)
	return nil
}

// addStep stores an attempt that is new; one of a new step goes behind all others.
func (t *tx) addStep(s nightcrier.Step) error {
	doc, err := encodeDoc(s)
	if err != nil {
		return err
	}
	t.wake = append(t.wake, s.RunID)
	_, err = t.execStatement(`INSERT INTO steps (run_id, step, attempt, position, doc) VALUES (?, ?, ?, COALESCE(
		(SELECT MAX(position) FROM steps WHERE run_id = ? AND step = ?), (SELECT MAX(position) + 1 FROM steps WHERE run_id = ?), 1), ?)`,
		s.RunID, s.ID, s.Attempt, s.RunID, s.ID, s.RunID, doc)
	return err
}

func (t *tx) updateStep(s nightcrier.Step) error {
	doc, err := encodeDoc(s)
	if err != nil {
		return err
	}
	n, err := t.execStatement(`UPDATE steps SET doc = ? WHERE run_id = ? AND step = ? AND attempt = ? AND doc <> ?`, doc, s.RunID, s.ID, s.Attempt, doc)
	if n > 0 {
		t.wake = append(t.wake, s.RunID)
	}
	return err
}

func scanStep(row interface{ Scan(...any) error }) (nightcrier.Step, error) {
	var doc string
	var s nightcrier.Step
	if err := row.Scan(&doc); err != nil {
		return s, err
	}
	return s, decodeDoc(doc, &s)
}

func (c conn) listSteps(runID string) ([]nightcrier.Step, error) {
	list := []nightcrier.Step{}
	err := c.eachRow(func(rows *sql.Rows) error {
		s, err := scanStep(rows)
		list = append(list, s)
		return err
	}, `SELECT doc FROM steps WHERE run_id = ? ORDER BY position, attempt`, runID)
	return list, err
}

// stepsBefore lists the last attempts of the steps before the one that a retry of the run
// shall begin at. Where that one was begun, the run had taken what was before as it was.
func (c conn) stepsBefore(runID, from string) ([]nightcrier.Step, error) {
	all, err := c.listSteps(runID)
	if err != nil {
		return nil, err
	}
	before := nightcrier.LastAttempts(all)
	at := slices.IndexFunc(before, func(s nightcrier.Step) bool { return s.ID == from })
	if at < 0 {
		var names []string
		for _, s := range before {
			names = append(names, s.ID)
		}
		return nil, nightcrier.Errorf(nightcrier.Invalid, "run %s never came to a step %.64q; it came to %s", runID, from, cmp.Or(strings.Join(names, ", "), "none"))
	}
	before = before[:at]
	begun := slices.ContainsFunc(all, func(s nightcrier.Step) bool { return s.ID == from && !s.StartedAt.IsZero() })
	for _, s := range before {
		if !s.Delivered() && (!begun || !s.Ended()) {
			return nil, nightcrier.Errorf(nightcrier.Conflict, "step %s of run %s comes after %s, which delivered nothing (%s); retry from %s", from, runID, s.ID, s.State, s.ID)
		}
	}
	return before, nil
}

// adoptSteps gives a run what the steps of an earlier one delivered.
func (t *tx) adoptSteps(runID string, done []nightcrier.Step) error {
	for _, s := range done {
		if s.FromRun == "" {
			s.FromRun = s.RunID
		}
		s.RunID, s.Usage = runID, nightcrier.Usage{}
		if err := t.addStep(s); err != nil {
			return err
		}
	}
	return nil
}
