package store

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"nightcrier.dev/nightcrier"
)

// Counts is the store in numbers.
type Counts struct {
	Incidents map[nightcrier.IncidentStatus]int `json:"incidents"`
	// Queued runs wait, Leases are held; OldestQueuedAt is zero for an empty queue.
	Queued         int       `json:"queued"`
	OldestQueuedAt time.Time `json:"oldestQueuedAt,omitzero"`
	Leases         int       `json:"leases"`
	// LeasesByKey counts the leases of each cluster that has any.
	LeasesByKey   map[string]int             `json:"leasesByKey"`
	Events        map[nightcrier.Outcome]int `json:"events"`
	Suppressed    map[nightcrier.Reason]int  `json:"suppressed"`
	Dropped       map[nightcrier.Reason]int  `json:"dropped"`
	Notifications map[NotificationState]int  `json:"notifications"`
}

// Counts counts what is stored.
func (s *Store) Counts(ctx context.Context) (Counts, error) {
	c := s.readConn(ctx)
	var n Counts
	var oldest sql.NullInt64
	err := c.queryRow(`SELECT COUNT(*), MIN(queued_at) FROM runs WHERE status = 'queued'`).Scan(&n.Queued, &oldest)
	n.OldestQueuedAt = fromMicros(oldest.Int64)
	n.Incidents = countByName[nightcrier.IncidentStatus](c, &err, `SELECT status, COUNT(*) FROM incidents GROUP BY status`)
	n.LeasesByKey = countByName[string](c, &err, `SELECT run_key, COUNT(*) FROM runs WHERE status = 'admitted' GROUP BY run_key`)
	n.Events = countByName[nightcrier.Outcome](c, &err, `SELECT outcome, COUNT(*) FROM events GROUP BY outcome`)
	n.Suppressed = countByName[nightcrier.Reason](c, &err, `SELECT reason, COUNT(*) FROM events WHERE outcome = 'suppressed' GROUP BY reason`)
	n.Dropped = countByName[nightcrier.Reason](c, &err, `SELECT reason, COUNT(*) FROM runs WHERE status = 'dropped' GROUP BY reason`)
	n.Notifications = countByName[NotificationState](c, &err, `SELECT state, COUNT(*) FROM notifications GROUP BY state`)
	for _, leases := range n.LeasesByKey {
		n.Leases += leases
	}
	return n, s.wrapError("count what is stored", err)
}

// countByName reads name → count, adding a failure to *fault.
func countByName[K ~string](c conn, fault *error, query string) map[K]int {
	m := map[K]int{}
	err := c.eachRow(func(rows *sql.Rows) error {
		var name K
		var n int
		err := rows.Scan(&name, &n)
		m[name] = n
		return err
	}, query)
	*fault = errors.Join(*fault, err)
	return m
}
