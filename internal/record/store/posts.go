package store

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"nightcrier.dev/nightcrier"
)

// What is written where people work is kept beside the messages to them, of this channel.
const (
	postChannel = "github"
	postKind    = "post"
)

// BeginPost records the intent to write something of a key, and returns when one was begun before
// of which nobody knows whether it arrived; zero where there is none.
func (s *Store) BeginPost(ctx context.Context, key string) (earlier time.Time, err error) {
	err = s.writeTransaction(ctx, "record the intent to write", func(t *tx) error {
		var state NotificationState
		var begun int64
		err := t.queryRow(`SELECT state, created_at FROM notifications WHERE key = ?`, key).Scan(&state, &begun)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			return t.insertNotification(Notification{ID: nightcrier.NewID(), Key: key, Channel: postChannel, Kind: postKind, State: NotificationPending, CreatedAt: t.now}, ``)
		case err != nil:
			return err
		case state == NotificationPending || state == NotificationUnknown:
			earlier = fromMicros(begun)
			return nil
		}
		_, err = t.execStatement(`UPDATE notifications SET state = ?, detail = '', created_at = ?, ended_at = 0 WHERE key = ?`, string(NotificationPending), toMicros(t.now), key)
		return err
	})
	return earlier, err
}

// EndPost records that what was intended is there, or surely is not.
func (s *Store) EndPost(ctx context.Context, key string, there bool, detail string) error {
	state := NotificationSent
	if !there {
		state = NotificationFailed
	}
	return s.EndNotification(ctx, key, state, detail)
}
