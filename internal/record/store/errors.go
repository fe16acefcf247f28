package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/text"
)

// wrapError gives an error of the database its code and says what was being done.
// An error that has a code keeps it; one that tells a caller of a mistake speaks
// for itself.
func (s *Store) wrapError(doing string, err error) error {
	var known *nightcrier.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &known) && callers[known.Code]:
		return err
	case known != nil:
		return &nightcrier.Error{Code: known.Code, Text: "store: " + doing, Err: err}
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return &nightcrier.Error{Code: nightcrier.Interrupted, Text: "store: " + doing, Err: err}
	}
	code, hint := classifyError(err)
	if noRoom(err) {
		err = roomError{err}
	}
	text := "store: " + doing
	if hint != "" {
		text += ": " + hint
	}
	return &nightcrier.Error{Code: code, Text: text, Err: err}
}

// callers are the codes of errors that are not the store's.
var callers = map[nightcrier.Code]bool{nightcrier.NotFound: true, nightcrier.Conflict: true, nightcrier.Invalid: true, nightcrier.NoReport: true}

// classifyError says what kind of failure an error of a database is, and what to do.
func classifyError(err error) (nightcrier.Code, string) {
	var lite *sqlite.Error
	var pg *pgconn.PgError
	var connect *pgconn.ConnectError
	var netErr net.Error
	switch {
	case errors.As(err, &lite):
		return classifySQLite(lite.Code())
	case errors.As(err, &pg):
		return classifyPostgres(pg.Code)
	case errors.As(err, &connect), errors.As(err, &netErr), errors.Is(err, sql.ErrConnDone):
		return nightcrier.Unreachable, "PostgreSQL does not answer; check database_url and the server"
	case errors.Is(err, fs.ErrPermission):
		return nightcrier.Unreachable, "not permitted; check the owner of the directory"
	case errors.Is(err, fs.ErrNotExist):
		return nightcrier.Unreachable, "the directory does not exist"
	}
	return nightcrier.Internal, ""
}

// noRoom says whether a database has no room on its disk.
func noRoom(err error) bool {
	var lite *sqlite.Error
	var pg *pgconn.PgError
	return errors.As(err, &lite) && lite.Code()&0xff == sqlite3.SQLITE_FULL || errors.As(err, &pg) && pg.Code == "53100"
}

// roomError is the error of a database without room: errors.Is finds ENOSPC in it, as in
// that of a file.
type roomError struct{ error }

// Is reports whether target is what the system says of a full disk.
func (roomError) Is(target error) bool { return target == syscall.ENOSPC }

// Unwrap returns the database's error.
func (e roomError) Unwrap() error { return e.error }

func classifySQLite(code int) (nightcrier.Code, string) {
	switch code & 0xff {
	case sqlite3.SQLITE_INTERRUPT:
		return nightcrier.Interrupted, ""
	case sqlite3.SQLITE_FULL:
		return nightcrier.Exhausted, "the disk is full; free space and nothing is lost"
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_IOERR:
		return nightcrier.Unreachable, "the file cannot be read or written; check the disk, the directory and its owner"
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return nightcrier.Unreachable, "the file stays locked by another program"
	case sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT:
		return nightcrier.Unreachable, "the file is damaged or no SQLite database; move it away or restore it"
	}
	return nightcrier.Internal, ""
}

func classifyPostgres(state string) (nightcrier.Code, string) {
	switch {
	case state == "57014": // the statement was cancelled
		return nightcrier.Interrupted, ""
	case strings.HasPrefix(state, "53"), strings.HasPrefix(state, "54"):
		return nightcrier.Exhausted, "PostgreSQL has reached a limit"
	case strings.HasPrefix(state, "28"), state == "42501", state == "3D000":
		return nightcrier.Unreachable, "PostgreSQL denies access; check user, password and database of database_url"
	case strings.HasPrefix(state, "08"), strings.HasPrefix(state, "57"), strings.HasPrefix(state, "58"), state == "25006":
		return nightcrier.Unreachable, "PostgreSQL does not serve writes now"
	}
	return nightcrier.Internal, ""
}

// notFound is the error for a row that is not there.
func notFound(what, id string) error {
	return nightcrier.Errorf(nightcrier.NotFound, "no %s %q", what, text.CutBytes(id, 64))
}

// orNotFound replaces "no rows" by an error that names what is missing.
func orNotFound(err error, what, id string) error {
	if errors.Is(err, sql.ErrNoRows) {
		return notFound(what, id)
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", what, text.CutBytes(id, 64), err)
	}
	return nil
}
