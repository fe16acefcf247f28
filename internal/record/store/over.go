package store

import (
	"context"
	"database/sql"
	"time"

	"nightcrier.dev/nightcrier"
)

// maxOver is how many incidents one look returns.
const maxOver = 100

// Over lists the closed incidents whose fault was over for quiet, and with it those of
// all others that came to the same cause, and of which nobody was told that yet; the
// longest over first. Within quiet a fault that comes back is the same one.
func (s *Store) Over(ctx context.Context, quiet time.Duration) ([]nightcrier.Incident, error) {
	list := []nightcrier.Incident{}
	before := toMicros(truncateTime(s.now()).Add(-quiet))
	err := s.readConn(ctx).eachRow(func(rows *sql.Rows) error {
		inc, err := scanIncident(rows)
		list = append(list, inc)
		return err
	}, `SELECT i.doc FROM incidents i WHERE i.cleared_at > 0 AND i.over_at = 0 AND i.cleared_at <= ? AND i.last_event_at <= ?
		AND i.status NOT IN ('pending', 'investigating')
		AND NOT EXISTS (SELECT 1 FROM incidents r WHERE r.id = i.caused_by AND (r.condition = 'active' OR r.cleared_at > ?))
		AND NOT EXISTS (SELECT 1 FROM incidents o WHERE o.caused_by <> '' AND o.caused_by = CASE WHEN i.caused_by <> '' THEN i.caused_by ELSE i.id END
			AND o.id <> i.id AND (o.condition = 'active' OR o.cleared_at > ?))
		ORDER BY i.cleared_at, i.id LIMIT ?`, before, before, before, before, maxOver)
	return list, s.wrapError("list the incidents that are over", err)
}

// NoteOver records that people were told, or need not be told, that the fault of an
// incident is over.
func (s *Store) NoteOver(ctx context.Context, incidentID string) error {
	return s.writeTransaction(ctx, "note that a fault is over", func(t *tx) error {
		_, err := t.execStatement(`UPDATE incidents SET over_at = ? WHERE id = ? AND over_at = 0`, toMicros(t.now), incidentID)
		return err
	})
}
