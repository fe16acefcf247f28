package pgtest_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"nightcrier.dev/nightcrier/internal/test/pgtest"
)

func connect(t *testing.T, dsn string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

func TestDatabasesAreFreshAndApart(t *testing.T) {
	first, second := connect(t, pgtest.DSN(t)), connect(t, pgtest.DSN(t))
	if _, err := first.Exec(t.Context(), "CREATE TABLE incident (id int)"); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]struct {
		conn *pgx.Conn
		sees bool
	}{"first": {first, true}, "second": {second, false}} {
		var sees bool
		if err := want.conn.QueryRow(t.Context(), "SELECT to_regclass('incident') IS NOT NULL").Scan(&sees); err != nil {
			t.Fatal(err)
		}
		if sees != want.sees {
			t.Errorf("%s database sees the table: %v, want %v", name, sees, want.sees)
		}
	}
}

func TestDatabaseIsDroppedThoughConnected(t *testing.T) {
	var dsn string
	t.Run("user", func(t *testing.T) {
		dsn = pgtest.DSN(t)
		conn, err := pgx.Connect(t.Context(), dsn)
		if err != nil {
			t.Fatal(err)
		}
		_ = conn // left open on purpose
	})
	if dsn == "" {
		t.SkipNow() // the subtest said why
	}
	if conn, err := pgx.Connect(t.Context(), dsn); err == nil {
		conn.Close(t.Context())
		t.Error("the database is still there after its test")
	}
}
