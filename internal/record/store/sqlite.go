package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/portable"
)

// sqliteReaders is how many reads may go on at once beside the writer.
const sqliteReaders = 4

func (s *Store) openSQLite(ctx context.Context, o Options) error {
	if o.Path == "" {
		return nightcrier.Errorf(nightcrier.Invalid, "store: neither a database URL nor a path is given")
	}
	lock, err := lockFile(ctx, o.Path+".lock", truncateTime(s.now()))
	if err != nil {
		return s.wrapError("take ownership of "+o.Path, err)
	}
	s.owner = lock
	if err := makePrivate(o.Path); err != nil {
		return s.wrapError("open "+o.Path, err)
	}
	// immediate: a transaction that would write later never loses the race for it.
	s.w, err = sqliteHandle(o.Path, "_txlock=immediate")
	if err != nil {
		return s.wrapError("open "+o.Path, err)
	}
	s.w.SetMaxOpenConns(1)
	if err := s.migrateSchema(ctx, s.w); err != nil {
		return s.wrapError("set up "+o.Path, err)
	}
	return s.sqliteReaders(o.Path)
}

func (s *Store) readSQLite(ctx context.Context, o Options) error {
	if _, err := os.Stat(o.Path); errors.Is(err, fs.ErrNotExist) {
		return nightcrier.Errorf(nightcrier.NotFound, "there is no store at %s; start `nightcrier serve` once, or check workspace_root", o.Path)
	} else if err != nil {
		return s.wrapError("open "+o.Path, err)
	}
	if err := s.sqliteReaders(o.Path); err != nil {
		return err
	}
	return s.wrapError("read "+o.Path, s.checkSchema(ctx, s.r))
}

func (s *Store) sqliteReaders(path string) error {
	db, err := sqliteHandle(path, "_query_only=1")
	if err != nil {
		return s.wrapError("open "+path, err)
	}
	db.SetMaxOpenConns(sqliteReaders)
	s.r = db
	return nil
}

// sqliteHandle opens path with the settings that all our connections share:
// readers never wait for the writer, and a commit is on disk when it returns.
func sqliteHandle(path, options string) (*sql.DB, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	u := url.URL{Scheme: "file", OmitHost: true, Path: abs}
	return sql.Open("sqlite", u.String()+"?mode=rw&_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)"+
		"&_pragma=synchronous(FULL)&_pragma=foreign_keys(1)&"+options)
}

// makePrivate creates the file for its owner alone; SQLite gives the files
// beside it the same mode.
func makePrivate(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(f.Chmod(0o600), f.Close())
}

// isMissingTable reports whether a query failed because its table is not there.
func isMissingTable(err error) bool {
	return strings.Contains(err.Error(), "no such table") || strings.Contains(err.Error(), "SQLSTATE 42P01")
}

// fileLock owns a SQLite store: the kernel drops it with the process, however
// that ends. The file itself stays.
type fileLock struct{ f *os.File }

// A process that was being started when the last owner ended has its files, and with
// them its lock, until it runs its own program.
const (
	lockPatience = time.Second
	lockLook     = 10 * time.Millisecond
)

// lockFile locks path for this process and writes who we are into it.
func lockFile(ctx context.Context, path string, now time.Time) (*fileLock, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	err = acquireFileLock(ctx, f)
	if errors.Is(err, portable.ErrLocked) {
		holder, _ := io.ReadAll(io.LimitReader(f, 256)) // best effort: it only serves the message
		return nil, errors.Join(heldBy(string(holder)), f.Close())
	}
	if err == nil {
		err = signLock(f, now)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
	}
	return &fileLock{f: f}, nil
}

func acquireFileLock(ctx context.Context, f *os.File) error {
	for end := time.Now().Add(lockPatience); ; {
		err := portable.TryLock(f)
		if !errors.Is(err, portable.ErrLocked) || time.Now().After(end) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(lockLook):
		}
	}
}

func signLock(f *os.File, now time.Time) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.WriteAt([]byte(describeProcess(now)+"\n"), 0)
	return err
}

// describeProcess names this process for those who find the store taken.
func describeProcess(now time.Time) string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	return fmt.Sprintf("pid %d on %s since %s", os.Getpid(), host, now.UTC().Format(time.RFC3339))
}

func heldBy(holder string) error {
	holder = strings.TrimSpace(cleanText(holder))
	if holder == "" {
		holder = "another process"
	}
	return nightcrier.Errorf(nightcrier.Conflict, "%s owns this store; ask it with the nightcrier commands, or stop it first", holder)
}

func (l *fileLock) lostSignal() <-chan struct{} { return nil }

func (l *fileLock) close() error {
	if err := l.f.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}
