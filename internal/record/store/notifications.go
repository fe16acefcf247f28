package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/text"
)

// NotificationState is what is known about a message.
type NotificationState string

// The states of a notification.
const (
	// NotificationPending: the intent is recorded, the result is not.
	NotificationPending NotificationState = "pending"
	NotificationSent    NotificationState = "sent"
	NotificationFailed  NotificationState = "failed"
	// NotificationUnknown: it may have been delivered, nobody can tell.
	NotificationUnknown NotificationState = "unknown"
	// NotificationSuppressed: it was not sent, for a reason.
	NotificationSuppressed NotificationState = "suppressed"
)

// The kinds of messages that are sent or not by what was told before.
const (
	OutcomeTold = "outcome"
	RiseTold    = "severity_rose"
	OverTold    = "over"
)

// Unsaid is why a message is not sent.
type Unsaid string

// The reasons.
const (
	// SameOutcome: another run of the incident came to what was told already.
	SameOutcome Unsaid = "same_outcome"
	// SameCause: another incident of the same cause was told, and is no less severe.
	SameCause Unsaid = "same_cause"
	// NotTold: nothing was told yet of the incident that this would go on with.
	NotTold Unsaid = "not_told"
	// ToldAlready: an earlier message says so.
	ToldAlready Unsaid = "told_already"
)

// Notification is one message to people, recorded before it is sent.
type Notification struct {
	ID         string `json:"id"`
	IncidentID string `json:"incidentId,omitempty"`
	RunID      string `json:"runId,omitempty"`
	Channel    string `json:"channel"`
	Kind       string `json:"kind"`
	// Key is unique: a second message of the same key is never begun.
	Key    string `json:"key"`
	Digest string `json:"digest,omitempty"`
	// Severity is what it says of its incident, Gist what it comes to: two outcomes
	// with one gist tell the same.
	Severity nightcrier.Severity `json:"-"`
	Gist     string              `json:"-"`
	State    NotificationState   `json:"state"`
	// Reason is why it is suppressed.
	Reason    Unsaid    `json:"reason,omitempty"`
	Detail    string    `json:"detail,omitempty"`
	CreatedAt time.Time `json:"createdAt"`
	EndedAt   time.Time `json:"endedAt,omitzero"`
}

// Begun is what became of the intent to send a message.
type Begun struct {
	// Fresh: it is to be sent now. Otherwise State is what is known of the message of
	// this key, and Reason why it is suppressed.
	Fresh  bool
	State  NotificationState
	Reason Unsaid
	// New is set when the message was not known before.
	New bool
	// Unsettled: what makes it needless is a message that is still being sent. Ask again.
	Unsettled bool
}

// BeginNotification records the intent to send n, unless its key is known, or people
// were told already what makes it needless, or were not told what it goes on with: such
// a message is recorded as suppressed. It may be begun again, and is judged anew.
func (s *Store) BeginNotification(ctx context.Context, n Notification) (Begun, error) {
	if n.Key == "" {
		return Begun{}, nightcrier.Errorf(nightcrier.Invalid, "store: a notification needs a key")
	}
	if n.ID == "" {
		n.ID = nightcrier.NewID()
	}
	var b Begun
	err := s.writeTransaction(ctx, "record the intent to notify", func(t *tx) error {
		err := t.queryRow(`SELECT state, reason FROM notifications WHERE key = ?`, n.Key).Scan(&b.State, &b.Reason)
		b.New = errors.Is(err, sql.ErrNoRows)
		if !b.New && (err != nil || b.State != NotificationSuppressed) {
			return err
		}
		reason, err := t.whyUnsaid(n)
		if err == nil && reason == SameCause {
			b.Unsettled, err = t.isUnsettled(n)
		}
		if err != nil || !b.New && reason == b.Reason {
			return err
		}
		b.State, b.Reason, b.Fresh = NotificationSuppressed, reason, reason == ""
		n.EndedAt = t.now
		if b.Fresh {
			b.State, n.EndedAt = NotificationPending, time.Time{}
		}
		n.State, n.Reason, n.Detail, n.CreatedAt = b.State, b.Reason, "", t.now
		return t.insertNotification(n, ` ON CONFLICT (key) DO UPDATE SET state = excluded.state, reason = excluded.reason, severity = excluded.severity,
			gist = excluded.gist, digest = excluded.digest, ended_at = excluded.ended_at`)
	})
	return b, err
}

func (t *tx) insertNotification(n Notification, known string) error {
	_, err := t.execStatement(`INSERT INTO notifications (`+notificationColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`+known,
		n.Key, n.ID, n.IncidentID, n.RunID, n.Channel, n.Kind, n.Digest, int(n.Severity), n.Gist, string(n.State), string(n.Reason), n.Detail, toMicros(n.CreatedAt), toMicros(n.EndedAt))
	return err
}

// againMark stands in the key of a message that somebody has sent again, before the id of
// the one that may not have arrived.
const againMark = "/again/"

// told selects the messages that people have, or may have, of a channel.
const told = ` FROM notifications n WHERE n.channel = ? AND n.state IN ('pending', 'sent', 'unknown')`

// whyUnsaid says why n is not to be sent, "" where nothing speaks against it.
func (t *tx) whyUnsaid(n Notification) (Unsaid, error) {
	switch n.Kind {
	case OutcomeTold:
		return t.outcomeTold(n)
	case RiseTold, OverTold:
		return t.goesOn(n)
	}
	return "", nil
}

// outcomeTold compares an outcome with what was told last of its incident, and with
// what was told of others that came to the same cause. A message of which nobody knows
// whether it arrived makes none needless: one too many is better than none.
func (t *tx) outcomeTold(n Notification) (Unsaid, error) {
	var gist string
	var state NotificationState
	err := t.queryRow(`SELECT n.gist, n.state`+told+` AND n.incident_id = ? AND n.kind = ? ORDER BY n.created_at DESC, n.id DESC LIMIT 1`,
		n.Channel, n.IncidentID, OutcomeTold).Scan(&gist, &state)
	switch {
	case err == nil && gist == n.Gist && state != NotificationUnknown:
		return SameOutcome, nil
	case err == nil:
		return "", nil // it came to something else than before
	case !errors.Is(err, sql.ErrNoRows):
		return "", err
	}
	others, err := t.sameCause(n, `'pending', 'sent'`)
	if err == nil && others > 0 {
		return SameCause, nil
	}
	return "", err
}

// isUnsettled reports whether no message of the same cause has arrived yet.
func (t *tx) isUnsettled(n Notification) (bool, error) {
	arrived, err := t.sameCause(n, `'sent'`)
	return arrived == 0, err
}

// sameCause counts the outcomes of other incidents of the same cause in these states. What
// was told before a retry came to something else says nothing of the cause.
func (t *tx) sameCause(n Notification, states string) (others int, err error) {
	inc, err := t.incidentByID(n.IncidentID)
	if nightcrier.CodeOf(err) == nightcrier.NotFound {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	root := cmp.Or(inc.CausedBy, inc.ID)
	err = t.queryRow(`SELECT COUNT(*) FROM notifications n WHERE n.channel = ? AND n.state IN (`+states+`) AND n.kind = ? AND n.severity >= ? AND n.incident_id <> ?
		AND n.incident_id IN (SELECT id FROM incidents WHERE id = ? OR caused_by = ?)
		AND n.gist = (SELECT l.gist FROM notifications l WHERE l.channel = n.channel AND l.kind = n.kind AND l.incident_id = n.incident_id
			ORDER BY l.created_at DESC, l.id DESC LIMIT 1)`,
		n.Channel, OutcomeTold, int(n.Severity), n.IncidentID, root, root).Scan(&others)
	return others, err
}

// goesOn judges a message that goes on with what was told of its incident: it says
// nothing to who has not heard of it.
func (t *tx) goesOn(n Notification) (Unsaid, error) {
	var worst sql.NullInt64
	err := t.queryRow(`SELECT MAX(n.severity)`+told+` AND n.incident_id = ? AND n.kind IN (?, ?)`, n.Channel, n.IncidentID, OutcomeTold, RiseTold).Scan(&worst)
	switch {
	case err != nil:
		return "", err
	case !worst.Valid:
		return NotTold, nil
	case n.Kind == RiseTold && worst.Int64 >= int64(n.Severity):
		return ToldAlready, nil
	}
	return "", nil
}

// EndNotification records the result of a message: sent, failed or unknown. What
// was sent stays sent (Conflict); the same result again changes nothing.
func (s *Store) EndNotification(ctx context.Context, key string, state NotificationState, detail string) error {
	if state != NotificationSent && state != NotificationFailed && state != NotificationUnknown {
		return nightcrier.Errorf(nightcrier.Invalid, "store: %q is no result of a notification", state)
	}
	return s.writeTransaction(ctx, "record the result of a notification", func(t *tx) error {
		n, err := t.execStatement(`UPDATE notifications SET state = ?, detail = ?, ended_at = ? WHERE key = ? AND state <> 'sent'`,
			string(state), detail, toMicros(t.now), key)
		if err != nil || n == 1 {
			return err
		}
		var have NotificationState
		err = t.queryRow(`SELECT state FROM notifications WHERE key = ?`, key).Scan(&have)
		if err = orNotFound(err, "notification", key); err != nil || have == state {
			return err
		}
		return nightcrier.Errorf(nightcrier.Conflict, "notification %s was sent; it cannot become %s", text.CutBytes(key, 64), state)
	})
}

// about selects the messages about an incident, or about a run that has ended.
const about = `(incident_id = ? OR incident_id = '' AND run_id = ?)`

// RenewNotifications begins anew, because somebody asks for it, what was last to be told of
// an incident, or of a run, by each channel and of each kind and surely failed, or may not have arrived.
// It is Conflict where there is no such message. What is returned is to be sent now.
func (s *Store) RenewNotifications(ctx context.Context, id string) ([]Notification, error) {
	var anew []Notification
	err := s.writeTransaction(ctx, "send notifications again", func(t *tx) error {
		anew = nil
		all, err := t.listNotifications(about+` ORDER BY created_at, id`, id, id)
		if err != nil {
			return err
		}
		for i, n := range all {
			last := !slices.ContainsFunc(all[i+1:], func(later Notification) bool { return later.Channel == n.Channel && later.Kind == n.Kind })
			if !last || n.State != NotificationUnknown && n.State != NotificationFailed {
				continue
			}
			first, _, _ := strings.Cut(n.Key, againMark)
			n.Key, n.ID = first+againMark+n.ID, nightcrier.NewID()
			n.State, n.Detail, n.CreatedAt, n.EndedAt = NotificationPending, "", t.now, time.Time{}
			if err := t.insertNotification(n, ``); err != nil {
				return err
			}
			anew = append(anew, n)
		}
		if len(anew) == 0 {
			return nightcrier.Errorf(nightcrier.Conflict, "of %s no message failed or is in doubt: what was to be told has arrived, or is being sent", id)
		}
		return nil
	})
	return anew, err
}

// Notifications lists the messages about an incident, or about a run that has ended, oldest first.
func (s *Store) Notifications(ctx context.Context, id string) ([]Notification, error) {
	list, err := s.readConn(ctx).listNotifications(about+` ORDER BY created_at, id`, id, id)
	return list, s.wrapError("list notifications", err)
}

// PendingNotifications lists the intents that have no result, oldest first:
// after a crash nobody knows whether they were sent.
func (s *Store) PendingNotifications(ctx context.Context) ([]Notification, error) {
	list, err := s.readConn(ctx).listNotifications(`state = 'pending' ORDER BY created_at, id`)
	return list, s.wrapError("list pending notifications", err)
}

const notificationColumns = `key, id, incident_id, run_id, channel, kind, digest, severity, gist, state, reason, detail, created_at, ended_at`

func (c conn) listNotifications(where string, args ...any) ([]Notification, error) {
	list := []Notification{}
	err := c.eachRow(func(rows *sql.Rows) error {
		var n Notification
		var created, ended int64
		err := rows.Scan(&n.Key, &n.ID, &n.IncidentID, &n.RunID, &n.Channel, &n.Kind, &n.Digest, &n.Severity, &n.Gist, &n.State, &n.Reason, &n.Detail, &created, &ended)
		n.CreatedAt, n.EndedAt = fromMicros(created), fromMicros(ended)
		list = append(list, n)
		return err
	}, `SELECT `+notificationColumns+` FROM notifications WHERE `+where, args...)
	return list, err
}
