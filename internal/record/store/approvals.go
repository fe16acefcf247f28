package store

import (
	"context"
	"database/sql"
	"errors"
	"strings"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/text"
)

// Bounds of an approval, in bytes.
const (
	maxPrompt    = 4 << 10
	maxArguments = 256 << 10
)

// A run that waits for people has given its lease back, and is parked; it returns when it was
// answered and wants one again.
const (
	parked    = 1
	returning = 2
)

// AskApproval has people asked, on behalf of an admitted run, and has the run wait. One of an id
// that was asked already is returned as it stands. A run that parks gives its lease back until
// all that it asked is answered.
func (s *Store) AskApproval(ctx context.Context, a nightcrier.Approval, park bool) (nightcrier.Approval, error) {
	if err := checkApproval(&a); err != nil {
		return a, err
	}
	err := s.writeTransaction(ctx, "ask for an approval", func(t *tx) error {
		known, err := scanApproval(t.queryRow(`SELECT doc FROM approvals WHERE id = ?`, a.ID))
		if err == nil {
			a = known
			return nil
		}
		if !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		run, err := t.runByID(a.RunID)
		if err != nil {
			return err
		}
		if run.Status != nightcrier.Admitted {
			return nightcrier.Errorf(nightcrier.Conflict, "run %s is %s, and asks nobody", run.ID, run.Status)
		}
		a.Status, a.AskedAt, a.Digest = nightcrier.ApprovalPending, t.now, a.ComputeDigest()
		if err := t.addApproval(a); err != nil {
			return err
		}
		t.wake = append(t.wake, run.ID)
		if !park {
			return nil
		}
		t.queueChanged = true // somebody else may have the lease now
		_, err = t.execStatement(`UPDATE runs SET parked = ? WHERE id = ? AND status = 'admitted'`, parked, run.ID)
		return err
	})
	return a, err
}

func checkApproval(a *nightcrier.Approval) error {
	switch {
	case a.ID == "" || a.RunID == "" || a.Step == "" || a.Kind == "" || a.Needed < 1:
		return nightcrier.Errorf(nightcrier.Invalid, "an approval needs an id, a run, a step, a kind, and how many have to agree")
	case len(a.Entitled()) < a.Needed:
		return nightcrier.Errorf(nightcrier.Conflict, "nobody can decide: %d have to agree, and there are %d who may beside who started the run", a.Needed, len(a.Entitled()))
	case len(a.Arguments) > maxArguments:
		return nightcrier.Errorf(nightcrier.Invalid, "the arguments have %d bytes; people are shown at most %d", len(a.Arguments), maxArguments)
	}
	a.Prompt = text.CutBytes(cleanText(a.Prompt), maxPrompt)
	a.ExpiresAt = truncateTime(a.ExpiresAt)
	return nil
}

func (t *tx) addApproval(a nightcrier.Approval) error {
	doc, err := encodeDoc(a)
	if err != nil {
		return err
	}
	_, err = t.execStatement(`INSERT INTO approvals (id, run_id, status, asked_at, doc) VALUES (?, ?, ?, ?, ?)`, a.ID, a.RunID, string(a.Status), toMicros(a.AskedAt), doc)
	return err
}

// saveApproval records how an approval stands, where it stood otherwise.
func (t *tx) saveApproval(a nightcrier.Approval, was nightcrier.ApprovalStatus) error {
	doc, err := encodeDoc(a)
	if err != nil {
		return err
	}
	n, err := t.execStatement(`UPDATE approvals SET status = ?, doc = ? WHERE id = ? AND status = ?`, string(a.Status), doc, a.ID, string(was))
	if err == nil && n != 1 {
		err = nightcrier.Errorf(nightcrier.Conflict, "approval %s is not %s any more", a.ID, was)
	}
	t.wake = append(t.wake, a.RunID)
	return err
}

// DecideApproval takes the decision of a person, at the present time. One that was taken already
// changes nothing.
func (s *Store) DecideApproval(ctx context.Context, id string, d nightcrier.Decision) (nightcrier.Approval, error) {
	d.Reason = text.CutBytes(cleanText(d.Reason), maxStepReason)
	return s.moveApproval(ctx, "decide an approval", id, func(t *tx, a *nightcrier.Approval) error {
		if len(d.Arguments) > maxArguments {
			return nightcrier.Errorf(nightcrier.Invalid, "arguments: they have %d bytes; at most %d are taken", len(d.Arguments), maxArguments)
		}
		run, err := t.runByID(a.RunID)
		if err == nil && (run.CancelRequested || run.Status != nightcrier.Admitted) && a.Status == nightcrier.ApprovalPending {
			err = nightcrier.Errorf(nightcrier.Conflict, "run %s has ended, or is being stopped: nothing is left to decide", run.ID)
		}
		if err != nil {
			return err
		}
		d.At = t.now
		return a.Decide(d)
	})
}

// ExpireApproval ends that an approval can be decided, where its time is over; it returns it as it
// stands.
func (s *Store) ExpireApproval(ctx context.Context, id string) (nightcrier.Approval, error) {
	return s.moveApproval(ctx, "expire an approval", id, func(t *tx, a *nightcrier.Approval) error {
		if a.Status == nightcrier.ApprovalPending && !a.ExpiresAt.IsZero() && !t.now.Before(a.ExpiresAt) {
			a.Status, a.DecidedAt = nightcrier.ApprovalExpired, t.now
		}
		return nil
	})
}

// NoteApprovalUse records what became of a call that was approved. What is known to have ended
// stays.
func (s *Store) NoteApprovalUse(ctx context.Context, id string, use nightcrier.ApprovalUse) (nightcrier.Approval, error) {
	return s.moveApproval(ctx, "note the use of an approval", id, func(_ *tx, a *nightcrier.Approval) error {
		if a.Status != nightcrier.ApprovalGranted {
			return nightcrier.Errorf(nightcrier.Conflict, "approval %s is %s, and nothing follows of it", a.ID, a.Status)
		}
		if a.Use == "" || a.Use == nightcrier.UseBegun {
			a.Use = use
		}
		return nil
	})
}

// moveApproval changes an approval. Its run wants its lease back when nothing that it asked is
// pending any more.
func (s *Store) moveApproval(ctx context.Context, doing, id string, move func(*tx, *nightcrier.Approval) error) (nightcrier.Approval, error) {
	var a nightcrier.Approval
	err := s.writeTransaction(ctx, doing, func(t *tx) (err error) {
		if a, err = t.approvalByID(id); err != nil {
			return err
		}
		was := a.Status
		if err := move(t, &a); err != nil {
			return err
		}
		if err := t.saveApproval(a, was); err != nil || was == a.Status {
			return err
		}
		t.queueChanged = true
		_, err = t.execStatement(`UPDATE runs SET parked = ? WHERE id = ? AND status = 'admitted' AND parked = ?
			AND NOT EXISTS (SELECT 1 FROM approvals WHERE run_id = runs.id AND status = 'pending')`, returning, a.RunID, parked)
		return err
	})
	return a, err
}

// withdrawApprovals has nobody asked any more on behalf of a run that ends.
func (t *tx) withdrawApprovals(runID string) error {
	list, err := t.listApprovals(`run_id = ? AND status = 'pending'`, runID)
	for _, a := range list {
		if err == nil {
			a.Status, a.DecidedAt = nightcrier.ApprovalWithdrawn, t.now
			err = t.saveApproval(a, nightcrier.ApprovalPending)
		}
	}
	return err
}

// Approval returns one approval; NotFound when there is none.
func (s *Store) Approval(ctx context.Context, id string) (nightcrier.Approval, error) {
	a, err := s.readConn(ctx).approvalByID(id)
	return a, s.wrapError("read an approval", err)
}

// ApprovalFilter selects approvals; zero fields select all.
type ApprovalFilter struct {
	RunID  string
	Status nightcrier.ApprovalStatus
	// Limit and Cursor are as those of an IncidentFilter.
	Limit  int
	Cursor string
}

// Approvals lists what was asked, the newest first, and returns the cursor of the next page.
func (s *Store) Approvals(ctx context.Context, f ApprovalFilter) ([]nightcrier.Approval, string, error) {
	q := filter{terms: []string{"1 = 1"}}
	q.addEqual("run_id", f.RunID)
	q.addEqual("status", string(f.Status))
	limit, err := q.addPage("asked_at", f.Limit, f.Cursor)
	if err != nil {
		return nil, "", err
	}
	list, err := s.readConn(ctx).listApprovals(strings.Join(q.terms, " AND ")+` ORDER BY asked_at DESC, id DESC LIMIT ?`, append(q.args, limit+1)...)
	if err != nil || len(list) <= limit {
		return list, "", s.wrapError("list approvals", err)
	}
	last := list[limit-1]
	return list[:limit], formatCursor(last.AskedAt, last.ID), nil
}

func (c conn) approvalByID(id string) (nightcrier.Approval, error) {
	a, err := scanApproval(c.queryRow(`SELECT doc FROM approvals WHERE id = ?`, id))
	return a, orNotFound(err, "approval", id)
}

func (c conn) listApprovals(where string, args ...any) ([]nightcrier.Approval, error) {
	list := []nightcrier.Approval{}
	err := c.eachRow(func(rows *sql.Rows) error {
		a, err := scanApproval(rows)
		list = append(list, a)
		return err
	}, `SELECT doc FROM approvals WHERE `+where, args...)
	return list, err
}

func scanApproval(row interface{ Scan(...any) error }) (nightcrier.Approval, error) {
	var doc string
	var a nightcrier.Approval
	if err := row.Scan(&doc); err != nil {
		return a, err
	}
	return a, decodeDoc(doc, &a)
}
