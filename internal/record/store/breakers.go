package store

import (
	"context"
	"database/sql"
	"time"
)

// BreakerState is what is remembered of an executor's circuit breaker.
type BreakerState struct {
	Executor string `json:"executor"`
	// Failures counts the failures in a row that say the executor is unusable.
	Failures int  `json:"failures"`
	Open     bool `json:"open"`
	// Since is when it last opened or closed.
	Since     time.Time `json:"since,omitzero"`
	LastError string    `json:"lastError,omitempty"`
}

// SaveBreaker records the state of an executor's breaker.
func (s *Store) SaveBreaker(ctx context.Context, b BreakerState) error {
	return s.writeTransaction(ctx, "record a breaker", func(t *tx) error {
		_, err := t.execStatement(`INSERT INTO breakers (executor, failures, open, since, last_error) VALUES (?, ?, ?, ?, ?)
			ON CONFLICT (executor) DO UPDATE SET failures = excluded.failures, open = excluded.open,
				since = excluded.since, last_error = excluded.last_error`,
			b.Executor, b.Failures, boolToInt(b.Open), toMicros(b.Since), b.LastError)
		return err
	})
}

// Breakers lists the recorded breakers by executor.
func (s *Store) Breakers(ctx context.Context) ([]BreakerState, error) {
	list := []BreakerState{}
	err := s.readConn(ctx).eachRow(func(rows *sql.Rows) error {
		var b BreakerState
		var since int64
		var open int
		err := rows.Scan(&b.Executor, &b.Failures, &open, &since, &b.LastError)
		b.Open, b.Since = open != 0, fromMicros(since)
		list = append(list, b)
		return err
	}, `SELECT executor, failures, open, since, last_error FROM breakers ORDER BY executor`)
	return list, s.wrapError("list breakers", err)
}
