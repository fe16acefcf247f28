package engine

import (
	"context"
	"database/sql/driver"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"nightcrier.dev/nightcrier"
)

// The library takes a full disk for a failure of the workflow, and ends it. A
// checkpoint is one statement outside of a transaction, so here, below the
// library, such statements wait for room instead. Whatever else finds the disk
// full fails and is tried again by its caller.

// room says until when statements may wait for it.
type room struct {
	log *slog.Logger
	// over is nil until the engine is open: opening it never waits.
	over atomic.Pointer[<-chan struct{}]
}

// roomPause is the time between two attempts.
const roomPause = 250 * time.Millisecond

// allowWaiting lets statements wait until done is closed.
func (r *room) allowWaiting(done <-chan struct{}) { r.over.Store(&done) }

// waitForRoom reports whether the statement that failed with err is to be tried again.
func (r *room) waitForRoom(ctx context.Context, err error) bool {
	over := r.over.Load()
	var failed *sqlite.Error
	if over == nil || !errors.As(err, &failed) || failed.Code()&0xff != sqlite3.SQLITE_FULL {
		return false
	}
	r.log.Warn("a checkpoint waits for room on the disk", "event", "checkpoint_waits", "error", err)
	select {
	case <-time.After(roomPause):
		return true
	case <-*over:
	case <-ctx.Done():
	}
	return false
}

// connector opens connections that wait for room.
type connector struct {
	sqlite driver.Driver
	dsn    string
	room   *room
}

// Connect implements driver.Connector.
func (c connector) Connect(context.Context) (driver.Conn, error) {
	conn, err := c.sqlite.Open(c.dsn)
	if err != nil {
		return nil, err
	}
	full, ok := conn.(sqliteConn)
	if !ok {
		return nil, errors.Join(nightcrier.Errorf(nightcrier.Internal, "engine: the SQLite driver lacks methods that it is known to have"), conn.Close())
	}
	return &patientConn{sqliteConn: full, room: c.room}, nil
}

// Driver implements driver.Connector.
func (c connector) Driver() driver.Driver { return c.sqlite }

// sqliteConn is what database/sql uses of the driver's connections.
type sqliteConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.Pinger
	driver.SessionResetter
	driver.Validator
}

// patientConn repeats a statement that found the disk full, unless it is part of
// a transaction, which SQLite may have rolled back.
type patientConn struct {
	sqliteConn
	room *room
	inTx bool
}

// ExecContext implements driver.ExecerContext.
func (c *patientConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	for {
		res, err := c.sqliteConn.ExecContext(ctx, query, args)
		if err == nil || c.inTx || !c.room.waitForRoom(ctx, err) {
			return res, err
		}
	}
}

// BeginTx implements driver.ConnBeginTx.
func (c *patientConn) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	tx, err := c.sqliteConn.BeginTx(ctx, o)
	if err != nil {
		return nil, err
	}
	c.inTx = true
	return patientTx{tx, c}, nil
}

// patientTx says when the transaction is over.
type patientTx struct {
	driver.Tx
	conn *patientConn
}

// Commit implements driver.Tx.
func (t patientTx) Commit() error {
	t.conn.inTx = false
	return t.Tx.Commit()
}

// Rollback implements driver.Tx.
func (t patientTx) Rollback() error {
	t.conn.inTx = false
	return t.Tx.Rollback()
}
