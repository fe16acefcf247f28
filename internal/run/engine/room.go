package engine

import (
	"context"
	"database/sql/driver"
	"errors"
	"io"
	"log/slog"
	"sync/atomic"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"nightcrier.dev/nightcrier"
)

// The library takes a full disk for a failure of the workflow, and ends it. So here, below the
// library, what it writes waits for room instead: a statement by itself, such as a checkpoint, and
// a transaction, such as the start of a branch, which SQLite rolls back as a whole. It is done once
// more, with what it did before: there is one connection, so nobody came between.

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

// patientConn repeats what found the disk full.
type patientConn struct {
	sqliteConn
	room *room
	tx   *patientTx // nil outside of one
}

// ExecContext implements driver.ExecerContext.
func (c *patientConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (res driver.Result, err error) {
	err = c.doStatement(ctx, func(ctx context.Context) (err error) {
		res, err = c.sqliteConn.ExecContext(ctx, query, args)
		return err
	})
	return res, err
}

// QueryContext implements driver.QueryerContext: a query may write, and return what.
func (c *patientConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (rows driver.Rows, err error) {
	again := false
	err = c.doStatement(ctx, func(ctx context.Context) (err error) {
		if again { // nobody reads the rows of what is done once more
			return c.drainQuery(ctx, query, args)
		}
		rows, err = c.sqliteConn.QueryContext(ctx, query, args)
		again = err == nil
		return err
	})
	return rows, err
}

func (c *patientConn) drainQuery(ctx context.Context, query string, args []driver.NamedValue) error {
	rows, err := c.sqliteConn.QueryContext(ctx, query, args)
	if err != nil {
		return err
	}
	values := make([]driver.Value, len(rows.Columns()))
	for err == nil {
		err = rows.Next(values)
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return errors.Join(err, rows.Close())
}

// doStatement does a statement, and notes it where it is a part of a transaction.
func (c *patientConn) doStatement(ctx context.Context, do func(context.Context) error) error {
	err := do(ctx)
	for err != nil && c.room.waitForRoom(ctx, err) {
		if err = nil; c.tx != nil {
			err = c.tx.redo(ctx)
		}
		if err == nil {
			err = do(ctx)
		}
	}
	if err == nil && c.tx != nil {
		c.tx.did = append(c.tx.did, do)
	}
	return err
}

// BeginTx implements driver.ConnBeginTx.
func (c *patientConn) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	tx, err := c.sqliteConn.BeginTx(ctx, o)
	if err != nil {
		return nil, err
	}
	c.tx = &patientTx{Tx: tx, conn: c, options: o}
	return c.tx, nil
}

// patientTx is a transaction, with what it did until now.
type patientTx struct {
	driver.Tx
	conn    *patientConn
	options driver.TxOptions
	did     []func(context.Context) error
}

// redo begins the transaction anew and does all that it did.
func (t *patientTx) redo(ctx context.Context) (err error) {
	_ = t.Tx.Rollback() // most often it is rolled back already
	if t.Tx, err = t.conn.sqliteConn.BeginTx(ctx, t.options); err != nil {
		return err
	}
	for _, do := range t.did {
		if err := do(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Commit implements driver.Tx. Most of what a transaction writes is written here.
func (t *patientTx) Commit() error {
	defer func() { t.conn.tx = nil }()
	err := t.Tx.Commit()
	for err != nil && t.conn.room.waitForRoom(context.Background(), err) {
		if err = t.redo(context.Background()); err == nil {
			err = t.Tx.Commit()
		}
	}
	return err
}

// Rollback implements driver.Tx.
func (t *patientTx) Rollback() error {
	t.conn.tx = nil
	return t.Tx.Rollback()
}
