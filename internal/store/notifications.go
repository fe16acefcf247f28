package store

import (
	"context"
	"database/sql"
	"time"

	"nightcrier.dev/nightcrier"
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
)

// Notification is one message to people, recorded before it is sent.
type Notification struct {
	ID         string `json:"id"`
	IncidentID string `json:"incidentId,omitempty"`
	RunID      string `json:"runId,omitempty"`
	Channel    string `json:"channel"`
	Kind       string `json:"kind"`
	// Key is unique: a second message of the same key is never begun.
	Key       string            `json:"key"`
	Digest    string            `json:"digest,omitempty"`
	State     NotificationState `json:"state"`
	Detail    string            `json:"detail,omitempty"`
	CreatedAt time.Time         `json:"createdAt"`
	EndedAt   time.Time         `json:"endedAt,omitzero"`
}

// BeginNotification records the intent to send n. For a key that is known it
// records nothing and returns that message's state, with fresh false.
func (s *Store) BeginNotification(ctx context.Context, n Notification) (prev NotificationState, fresh bool, err error) {
	if n.Key == "" {
		return "", false, nightcrier.Errorf(nightcrier.Invalid, "store: a notification needs a key")
	}
	if n.ID == "" {
		n.ID = nightcrier.NewID()
	}
	err = s.write(ctx, "record the intent to notify", func(t *tx) error {
		added, err := t.exec(`INSERT INTO notifications (`+notificationColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, '', ?, 0)
			ON CONFLICT (key) DO NOTHING`,
			n.Key, n.ID, n.IncidentID, n.RunID, n.Channel, n.Kind, n.Digest,
			string(NotificationPending), stamp(t.now))
		if err != nil || added == 1 {
			fresh = added == 1
			return err
		}
		return t.row(`SELECT state FROM notifications WHERE key = ?`, n.Key).Scan(&prev)
	})
	return prev, fresh, err
}

// EndNotification records the result of a message: sent, failed or unknown. What
// was sent stays sent (Conflict); the same result again changes nothing.
func (s *Store) EndNotification(ctx context.Context, key string, state NotificationState, detail string) error {
	if state != NotificationSent && state != NotificationFailed && state != NotificationUnknown {
		return nightcrier.Errorf(nightcrier.Invalid, "store: %q is no result of a notification", state)
	}
	return s.write(ctx, "record the result of a notification", func(t *tx) error {
		n, err := t.exec(`UPDATE notifications SET state = ?, detail = ?, ended_at = ? WHERE key = ? AND state <> 'sent'`,
			string(state), detail, stamp(t.now), key)
		if err != nil || n == 1 {
			return err
		}
		var have NotificationState
		err = t.row(`SELECT state FROM notifications WHERE key = ?`, key).Scan(&have)
		if err = orNotFound(err, "notification", key); err != nil || have == state {
			return err
		}
		return nightcrier.Errorf(nightcrier.Conflict, "notification %s was sent; it cannot become %s", clip(key, 64), state)
	})
}

// Notifications lists the messages about an incident, oldest first.
func (s *Store) Notifications(ctx context.Context, incidentID string) ([]Notification, error) {
	list, err := s.read(ctx).notifications(`incident_id = ? ORDER BY created_at, id`, incidentID)
	return list, s.fail("list notifications", err)
}

// PendingNotifications lists the intents that have no result, oldest first:
// after a crash nobody knows whether they were sent.
func (s *Store) PendingNotifications(ctx context.Context) ([]Notification, error) {
	list, err := s.read(ctx).notifications(`state = 'pending' ORDER BY created_at, id`)
	return list, s.fail("list pending notifications", err)
}

const notificationColumns = `key, id, incident_id, run_id, channel, kind, digest, state, detail, created_at, ended_at`

func (c conn) notifications(where string, args ...any) ([]Notification, error) {
	list := []Notification{}
	err := c.each(func(rows *sql.Rows) error {
		var n Notification
		var created, ended int64
		err := rows.Scan(&n.Key, &n.ID, &n.IncidentID, &n.RunID, &n.Channel, &n.Kind, &n.Digest, &n.State, &n.Detail, &created, &ended)
		n.CreatedAt, n.EndedAt = unstamp(created), unstamp(ended)
		list = append(list, n)
		return err
	}, `SELECT `+notificationColumns+` FROM notifications WHERE `+where, args...)
	return list, err
}
