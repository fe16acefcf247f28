// Package store keeps the product's record: events, incidents, runs, journal,
// notifications, storms and breakers, on SQLite or PostgreSQL.
//
// One process owns a store. Its writes are one at a time, each a transaction
// that is on disk when the call returns: what a method has said is never lost,
// and what it was told twice is recorded once. State changes only through the
// named methods; each update applies only where the row still is what the
// method has read.
//
// The same statements run on both databases (? is rewritten to $n), proved by
// one conformance suite, storetest.
package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"embed"
	"errors"
	"io/fs"
	"log/slog"
	"strings"
	"time"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"

	"nightcrier.dev/nightcrier"
)

// Options say where the store is.
type Options struct {
	// URL of a PostgreSQL database, "" for SQLite.
	URL string
	// Path of the SQLite file; its directory must exist.
	Path   string
	Logger *slog.Logger
	// Now is the clock, time.Now by default.
	Now func() time.Time
}

// FileName is what the SQLite file in a workspace root is called.
const FileName = "nightcrier.db"

// Store is an open store. Its methods may be called concurrently.
type Store struct {
	w *sql.DB // the writer: one connection
	r *sql.DB // readers
	// postgres chooses between $n and ?; epoch is the fence of our ownership,
	// 0 where a file lock suffices or nothing is written.
	postgres bool
	readOnly bool
	epoch    int64
	owner    owner
	log      *slog.Logger
	now      func() time.Time
	queue    chan struct{}
	watch    *watchers
}

// owner is our exclusive hold on the store: a file lock or a session.
type owner interface {
	// lostSignal is closed when the hold has ended by itself.
	lostSignal() <-chan struct{}
	close() error
}

// Open takes ownership of the store and brings its schema up to date. A store
// that another process owns is a Conflict error that says who holds it; one
// written by a newer version is a Conflict as well.
func Open(ctx context.Context, o Options) (*Store, error) {
	s := newStore(o)
	open := s.openSQLite
	if s.postgres {
		open = s.openPostgres
	}
	if err := open(ctx, o); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// OpenReadOnly opens a store to look at, without owning it: its writing methods
// fail with Refused. It never creates or changes anything; a missing store is
// NotFound, a schema of another version a Conflict.
func OpenReadOnly(ctx context.Context, o Options) (*Store, error) {
	s := newStore(o)
	s.readOnly = true
	open := s.readSQLite
	if s.postgres {
		open = s.readPostgres
	}
	if err := open(ctx, o); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func newStore(o Options) *Store {
	s := &Store{
		postgres: o.URL != "", log: o.Logger, now: o.Now,
		queue: make(chan struct{}, 1), watch: newWatchers(),
	}
	if s.now == nil {
		s.now = time.Now
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	return s
}

// Close gives the ownership up and closes the database. Calling it twice is
// harmless.
func (s *Store) Close() error {
	var errs []error
	for _, db := range []*sql.DB{s.r, s.w} {
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	if s.owner != nil {
		errs = append(errs, s.owner.close())
	}
	return errors.Join(errs...)
}

// Lost is closed when the ownership ended by itself: the PostgreSQL session
// that held it is gone, and another process may take over. Every write fails
// from then on; the process should stop and start anew.
func (s *Store) Lost() <-chan struct{} {
	if s.owner == nil {
		return nil
	}
	return s.owner.lostSignal()
}

// QueueChanged tells that admission may find something: a run was queued, or a
// lease released. It holds one wake-up; there must be one receiver.
func (s *Store) QueueChanged() <-chan struct{} { return s.queue }

func (s *Store) wakeQueue() {
	select {
	case s.queue <- struct{}{}:
	default:
	}
}

// tx is one write transaction.
type tx struct {
	conn
	now time.Time
	// queueChanged and wake are told to the waiting once the work is committed.
	queueChanged bool
	wake         []string
}

// writeTransaction runs fn in one transaction, as the only writer.
func (s *Store) writeTransaction(ctx context.Context, doing string, fn func(*tx) error) error {
	if s.readOnly {
		return nightcrier.Errorf(nightcrier.Refused, "store: %s: the store is open for reading only", doing)
	}
	return s.writeOn(ctx, s.w, doing, fn)
}

// beginner begins transactions.
type beginner interface {
	BeginTx(ctx context.Context, o *sql.TxOptions) (*sql.Tx, error)
}

func (s *Store) writeOn(ctx context.Context, on beginner, doing string, fn func(*tx) error) error {
	sqlTx, err := on.BeginTx(ctx, nil)
	if err != nil {
		return s.wrapError(doing, err)
	}
	defer func() { _ = sqlTx.Rollback() }() // after a commit it does nothing
	t := &tx{conn: conn{ctx: ctx, db: sqlTx, postgres: s.postgres}, now: truncateTime(s.now())}
	if err := s.fenceWriter(t); err != nil {
		return s.wrapError(doing, err)
	}
	if err := fn(t); err != nil {
		return s.wrapError(doing, err)
	}
	if err := sqlTx.Commit(); err != nil {
		return s.wrapError(doing, err)
	}
	if t.queueChanged {
		s.wakeQueue()
	}
	s.watch.wakeWatchers(t.wake)
	return nil
}

// writeSoon is writeTransaction for what its writer can write again: nobody waits until it is on
// disk. The next transaction that is waited for has it there too.
func (s *Store) writeSoon(ctx context.Context, doing string, fn func(*tx) error) (err error) {
	if s.postgres {
		return s.writeTransaction(ctx, doing, func(t *tx) error {
			if _, err := t.execStatement(`SET LOCAL synchronous_commit TO OFF`); err != nil {
				return err
			}
			return fn(t)
		})
	}
	if s.readOnly {
		return s.writeTransaction(ctx, doing, fn) // it says so
	}
	c, err := s.w.Conn(ctx)
	if err != nil {
		return s.wrapError(doing, err)
	}
	defer func() { err = errors.Join(err, s.wrapError(doing, c.Close())) }()
	if _, err := c.ExecContext(ctx, `PRAGMA synchronous = NORMAL`); err != nil {
		return s.wrapError(doing, err)
	}
	defer func() {
		if _, failed := c.ExecContext(context.WithoutCancel(ctx), `PRAGMA synchronous = FULL`); failed != nil {
			_ = c.Raw(func(any) error { return driver.ErrBadConn }) // a new one is as it must be
		}
	}()
	return s.writeOn(ctx, c, doing, fn)
}

// fenceWriter makes t the only writer on PostgreSQL and proves that the store is
// still ours: the row is locked until t ends, and a new owner has changed it.
func (s *Store) fenceWriter(t *tx) error {
	if s.epoch == 0 {
		return nil
	}
	select {
	case <-s.owner.lostSignal():
		return nightcrier.Errorf(nightcrier.Unreachable, "the session that owned the store is lost; start this process anew")
	default:
	}
	var epoch int64
	err := t.queryRow(`SELECT epoch FROM ownership WHERE id = 1 AND epoch = ? FOR UPDATE`, s.epoch).Scan(&epoch)
	if errors.Is(err, sql.ErrNoRows) {
		return nightcrier.Errorf(nightcrier.Conflict, "another process has taken the store over; stop this one")
	}
	return err
}

// readConn gives the readers' side of the store.
func (s *Store) readConn(ctx context.Context) conn {
	return conn{ctx: ctx, db: s.r, postgres: s.postgres}
}

// conn runs portable statements on a transaction or a pool. Text from outside
// never makes one fail: see cleanText.
type conn struct {
	ctx context.Context
	db  interface {
		ExecContext(context.Context, string, ...any) (sql.Result, error)
		QueryContext(context.Context, string, ...any) (*sql.Rows, error)
		QueryRowContext(context.Context, string, ...any) *sql.Row
	}
	postgres bool
}

func (c conn) queryRow(query string, args ...any) *sql.Row {
	return c.db.QueryRowContext(c.ctx, c.rebindQuery(query), cleanArgs(args)...)
}

// execStatement returns how many rows were changed.
func (c conn) execStatement(query string, args ...any) (int64, error) {
	res, err := c.db.ExecContext(c.ctx, c.rebindQuery(query), cleanArgs(args)...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// eachRow calls scan for every row of the answer.
func (c conn) eachRow(scan func(*sql.Rows) error, query string, args ...any) error {
	rows, err := c.db.QueryContext(c.ctx, c.rebindQuery(query), cleanArgs(args)...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// rebindQuery writes ? as $1, $2, … for PostgreSQL. No statement of ours has a
// question mark in a literal.
func (c conn) rebindQuery(query string) string {
	if !c.postgres {
		return query
	}
	var b strings.Builder
	n := 0
	for part := range strings.SplitSeq(query, "?") {
		if n > 0 {
			b.WriteByte('$')
			b.WriteString(formatInt(n))
		}
		b.WriteString(part)
		n++
	}
	return b.String()
}

//go:embed migrations/*.sql
var migrations embed.FS

// schemaTable remembers which migrations were applied.
const schemaTable = "nightcrier_schema"

// migrateSchema brings the schema up to date; one of a newer version is left alone.
func (s *Store) migrateSchema(ctx context.Context, db *sql.DB) error {
	p, err := s.newMigrator(db)
	if err != nil {
		return err
	}
	have, want, err := p.GetVersions(ctx)
	if err != nil {
		return err
	}
	if have > want {
		return newerSchema(have, want)
	}
	_, err = p.Up(ctx)
	return err
}

// checkSchema refuses a schema of any other version, for a reader who may not
// migrate.
func (s *Store) checkSchema(ctx context.Context, db *sql.DB) error {
	p, err := s.newMigrator(db)
	if err != nil {
		return err
	}
	want := int64(len(p.ListSources()))
	var have int64
	err = db.QueryRowContext(ctx, `SELECT COALESCE(MAX(version_id), 0) FROM `+schemaTable).Scan(&have)
	switch {
	case err != nil && isMissingTable(err):
		return nightcrier.Errorf(nightcrier.NotFound, "the database holds no incidents of nightcrier yet; start `nightcrier serve` once")
	case err != nil:
		return err
	case have > want:
		return newerSchema(have, want)
	case have < want:
		return nightcrier.Errorf(nightcrier.Conflict, "the store has schema %d, this version reads %d; start `nightcrier serve` once to update it", have, want)
	}
	return nil
}

func newerSchema(have, want int64) error {
	return nightcrier.Errorf(nightcrier.Conflict, "the store has schema %d, this version knows %d: it was written by a newer nightcrier; use that one", have, want)
}

func (s *Store) newMigrator(db *sql.DB) (*goose.Provider, error) {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return nil, err
	}
	dialect := goose.DialectSQLite3
	if s.postgres {
		dialect = goose.DialectPostgres
	}
	table, err := database.NewStore(dialect, schemaTable)
	if err != nil {
		return nil, err
	}
	return goose.NewProvider("", db, files, goose.WithStore(table), goose.WithDisableGlobalRegistry(true))
}

// Counts is the store in numbers.
type Counts struct {
	Incidents map[nightcrier.IncidentStatus]int `json:"incidents"`
	// Queued runs wait, Leases are held; OldestQueuedAt is zero for an empty queue.
	Queued         int       `json:"queued"`
	OldestQueuedAt time.Time `json:"oldestQueuedAt,omitzero"`
	Leases         int       `json:"leases"`
	// LeasesByCluster counts those of runs about incidents, for each cluster that has any.
	LeasesByCluster map[string]int             `json:"leasesByCluster"`
	Events          map[nightcrier.Outcome]int `json:"events"`
	Suppressed      map[nightcrier.Reason]int  `json:"suppressed"`
	Dropped         map[nightcrier.Reason]int  `json:"dropped"`
	Notifications   map[NotificationState]int  `json:"notifications"`
}

// Counts counts what is stored.
func (s *Store) Counts(ctx context.Context) (Counts, error) {
	c := s.readConn(ctx)
	var n Counts
	var oldest sql.NullInt64
	err := c.queryRow(`SELECT COUNT(*), MIN(queued_at) FROM runs WHERE status = 'queued'`).Scan(&n.Queued, &oldest)
	n.OldestQueuedAt = fromMicros(oldest.Int64)
	n.Incidents = countByName[nightcrier.IncidentStatus](c, &err, `SELECT status, COUNT(*) FROM incidents GROUP BY status`)
	err = errors.Join(err, c.queryRow(`SELECT COUNT(*) FROM runs WHERE status = 'admitted' AND parked = 0`).Scan(&n.Leases))
	n.LeasesByCluster = countByName[string](c, &err, `SELECT run_key, COUNT(*) FROM runs WHERE status = 'admitted' AND parked = 0 AND subject_kind = 'incident' GROUP BY run_key`)
	n.Events = countByName[nightcrier.Outcome](c, &err, `SELECT outcome, COUNT(*) FROM events GROUP BY outcome`)
	n.Suppressed = countByName[nightcrier.Reason](c, &err, `SELECT reason, COUNT(*) FROM events WHERE outcome = 'suppressed' GROUP BY reason`)
	n.Dropped = countByName[nightcrier.Reason](c, &err, `SELECT reason, COUNT(*) FROM runs WHERE status = 'dropped' GROUP BY reason`)
	n.Notifications = countByName[NotificationState](c, &err, `SELECT state, COUNT(*) FROM notifications GROUP BY state`)
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
