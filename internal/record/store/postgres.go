package store

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"nightcrier.dev/nightcrier"
)

const (
	// postgresReaders is how many reads may go on at once beside the writer.
	postgresReaders = 8
	// ownerKey is the advisory lock of a store, one in each database.
	ownerKey = 0x6e69676874637279
	// ownerPing is how often the session that holds the lock proves it is alive.
	ownerPing    = 10 * time.Second
	ownerTimeout = 5 * time.Second
	// ownerPatience is how long a new owner waits for the old one's session to end.
	ownerPatience = 2 * time.Second
)

func (s *Store) openPostgres(ctx context.Context, o Options) error {
	cfg, err := postgresConfig(o.URL)
	if err != nil {
		return err
	}
	hold, err := takeSession(ctx, cfg, s.log)
	if err != nil {
		return s.wrapError("take ownership of the PostgreSQL database", err)
	}
	s.owner = hold
	s.w = stdlib.OpenDB(*cfg)
	s.w.SetMaxOpenConns(1)
	s.r = stdlib.OpenDB(*cfg)
	s.r.SetMaxOpenConns(postgresReaders)
	if err := s.migrateSchema(ctx, s.w); err != nil {
		return s.wrapError("set up the PostgreSQL database", err)
	}
	return s.wrapError("take ownership of the PostgreSQL database", s.nextEpoch(ctx))
}

func (s *Store) readPostgres(ctx context.Context, o Options) error {
	cfg, err := postgresConfig(o.URL)
	if err != nil {
		return err
	}
	cfg.RuntimeParams["default_transaction_read_only"] = "on"
	s.r = stdlib.OpenDB(*cfg)
	s.r.SetMaxOpenConns(postgresReaders)
	return s.wrapError("read the PostgreSQL database", s.checkSchema(ctx, s.r))
}

func postgresConfig(url string) (*pgx.ConnConfig, error) {
	cfg, err := pgx.ParseConfig(url)
	if err != nil || !strings.HasPrefix(url, "postgres://") && !strings.HasPrefix(url, "postgresql://") {
		// The cause may quote the URL, and with it the password.
		return nil, nightcrier.Errorf(nightcrier.Invalid, "database_url is not a PostgreSQL URL like postgres://user:password@host:5432/database")
	}
	cfg.RuntimeParams["application_name"] = "nightcrier"
	if cfg.ConnectTimeout == 0 {
		cfg.ConnectTimeout = 10 * time.Second
	}
	return cfg, nil
}

// nextEpoch records the new owner. Whoever wrote under an older epoch is fenced
// off by it.
func (s *Store) nextEpoch(ctx context.Context) error {
	now := s.now()
	c := conn{ctx: ctx, db: s.w, postgres: true}
	return c.queryRow(`INSERT INTO ownership (id, epoch, holder, since) VALUES (1, 1, ?, ?)
		ON CONFLICT (id) DO UPDATE SET epoch = ownership.epoch + 1, holder = excluded.holder, since = excluded.since
		RETURNING epoch`, describeProcess(now), toMicros(now)).Scan(&s.epoch)
}

// session owns a PostgreSQL store by an advisory lock on a connection of its own.
type session struct {
	conn   *pgx.Conn
	stop   context.CancelFunc
	gone   chan struct{}
	done   chan struct{}
	closed sync.Once
	err    error
}

func takeSession(ctx context.Context, cfg *pgx.ConnConfig, log *slog.Logger) (*session, error) {
	own := cfg.Copy()
	// The server notices soon when our machine has died.
	own.RuntimeParams["tcp_keepalives_idle"] = "10"
	own.RuntimeParams["tcp_keepalives_interval"] = "5"
	own.RuntimeParams["tcp_keepalives_count"] = "3"
	c, err := pgx.ConnectConfig(ctx, own)
	if err != nil {
		return nil, err
	}
	if err := takeLock(ctx, c); err != nil {
		return nil, errors.Join(err, c.Close(ctx))
	}
	watch, stop := context.WithCancel(context.WithoutCancel(ctx))
	h := &session{conn: c, stop: stop, gone: make(chan struct{}), done: make(chan struct{})}
	go h.guardSession(watch, log)
	return h, nil
}

// takeLock takes the lock, waiting a moment for the session of an owner that has
// just died.
func takeLock(ctx context.Context, c *pgx.Conn) error {
	deadline := time.After(ownerPatience)
	for {
		var held bool
		err := c.QueryRow(ctx, `SELECT pg_try_advisory_lock($1)`, int64(ownerKey)).Scan(&held)
		if err != nil || held {
			return err
		}
		select {
		case <-time.After(ownerPatience / 20):
		case <-deadline:
			return heldBy(postgresHolder(ctx, c))
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// postgresHolder reads who owns the store, "" when that cannot be known.
func postgresHolder(ctx context.Context, c *pgx.Conn) string {
	var holder string
	err := c.QueryRow(ctx, `SELECT holder FROM ownership WHERE id = 1`).Scan(&holder)
	if err != nil && !errors.Is(err, sql.ErrNoRows) && !isMissingTable(err) {
		return ""
	}
	return holder
}

// guardSession watches the session until it ends. A connection that breaks is noticed
// at once, one that goes silent by the next ping.
func (h *session) guardSession(ctx context.Context, log *slog.Logger) {
	defer close(h.done)
	for {
		wait, cancel := context.WithTimeout(ctx, ownerPing)
		_, err := h.conn.WaitForNotification(wait)
		cancel()
		if wait.Err() != nil && ctx.Err() == nil {
			err = h.pingSession(ctx)
		}
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			log.Error("the session that owns the PostgreSQL store is lost; nothing is written any more", "error", err)
			close(h.gone)
			return
		}
	}
}

func (h *session) pingSession(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, ownerTimeout)
	defer cancel()
	return h.conn.Ping(ctx)
}

func (h *session) lostSignal() <-chan struct{} { return h.gone }

func (h *session) close() error {
	h.closed.Do(func() {
		h.stop()
		<-h.done
		ctx, cancel := context.WithTimeout(context.Background(), ownerTimeout)
		defer cancel()
		if !h.conn.IsClosed() {
			h.err = h.conn.Close(ctx)
		}
	})
	return h.err
}
