package store_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/record/store"
	"nightcrier.dev/nightcrier/internal/record/store/storetest"
	"nightcrier.dev/nightcrier/internal/test/pgtest"
)

func TestMain(m *testing.M) {
	storetest.Child()
	os.Exit(m.Run())
}

// databases are those that the store runs on.
var databases = map[string]func(testing.TB) store.Options{
	"SQLite":     sqliteOptions,
	"PostgreSQL": func(tb testing.TB) store.Options { return store.Options{URL: pgtest.DSN(tb)} },
}

// sqliteOptions names a file whose path must be quoted with care.
func sqliteOptions(tb testing.TB) store.Options {
	dir := filepath.Join(tb.TempDir(), "a dir?")
	if err := os.Mkdir(dir, 0o700); err != nil {
		tb.Fatal(err)
	}
	return store.Options{Path: filepath.Join(dir, "night%20crier#.db")}
}

// onEach runs test on each database.
func onEach(t *testing.T, test func(*testing.T, store.Options)) {
	for name, fresh := range databases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, fresh(t))
		})
	}
}

func TestConformance(t *testing.T) {
	t.Parallel()
	for name, fresh := range databases {
		t.Run(name, func(t *testing.T) { storetest.Exercise(t, fresh) })
	}
}

func TestCrash(t *testing.T) {
	t.Parallel()
	for name, fresh := range databases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.ExerciseCrash(t, fresh)
		})
	}
}

func open(t *testing.T, o store.Options) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), o)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() {
		if err := errors.Join(s.Close(), s.Close()); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

func wantCode(t *testing.T, err error, code nightcrier.Code, words ...string) {
	t.Helper()
	if got := nightcrier.CodeOf(err); got != code {
		t.Errorf("error %v has code %q, want %q", err, got, code)
	}
	for _, word := range words {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("error %v does not say %q", err, word)
		}
	}
}

func TestOneOwner(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, o store.Options) {
		s := open(t, o)
		_, err := store.Open(t.Context(), o)
		wantCode(t, err, nightcrier.Conflict, fmt.Sprintf("pid %d ", os.Getpid()), "stop it first")
		if _, err := s.Accept(t.Context(), storetest.Event("prod", "cart"), storetest.Policy()); err != nil {
			t.Errorf("the owner after that: %v", err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		again := open(t, o)
		list, _, err := again.Incidents(t.Context(), store.IncidentFilter{})
		if err != nil || len(list) != 1 {
			t.Errorf("after reopening: %+v, %v", list, err)
		}
	})
}

func TestReadOnly(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, o store.Options) {
		_, err := store.OpenReadOnly(t.Context(), o)
		wantCode(t, err, nightcrier.NotFound, "nightcrier serve")
		s := open(t, o)
		d, err := s.Accept(t.Context(), storetest.Event("prod", "cart"), storetest.Policy())
		if err != nil {
			t.Fatal(err)
		}
		for _, when := range []string{"while it is owned", "when nobody owns it"} {
			r, err := store.OpenReadOnly(t.Context(), o)
			if err != nil {
				t.Fatalf("%s: %v", when, err)
			}
			if inc, err := r.Incident(t.Context(), d.Incident.ID); err != nil || inc.Cluster != "prod" {
				t.Errorf("%s: %+v, %v", when, inc, err)
			}
			_, err = r.Retry(t.Context(), d.Incident.ID, "")
			wantCode(t, err, nightcrier.Refused)
			if err := errors.Join(r.Close(), s.Close()); err != nil {
				t.Errorf("%s: %v", when, err)
			}
		}
	})
}

func TestPostgreSQLOwnerLost(t *testing.T) {
	t.Parallel()
	o := store.Options{URL: pgtest.DSN(t)}
	s := open(t, o)
	admin, err := pgx.Connect(t.Context(), o.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = admin.Close(context.Background()) }()
	const killHolder = `SELECT pg_terminate_backend(pid) FROM pg_locks JOIN pg_database d ON d.oid = database
		WHERE locktype = 'advisory' AND d.datname = current_database()`
	if _, err := admin.Exec(t.Context(), killHolder); err != nil {
		t.Fatal(err)
	}
	select {
	case <-s.Lost():
	case <-time.After(3 * time.Minute):
		t.Fatal("nobody says that the session is gone")
	}
	_, err = s.Accept(t.Context(), storetest.Event("prod", "cart"), storetest.Policy())
	wantCode(t, err, nightcrier.Unreachable, "start this process anew")
	next := open(t, o)
	if _, err := next.Accept(t.Context(), storetest.Event("prod", "cart"), storetest.Policy()); err != nil {
		t.Errorf("the next owner: %v", err)
	}
}

func TestPostgreSQLFence(t *testing.T) {
	t.Parallel()
	o := store.Options{URL: pgtest.DSN(t)}
	s := open(t, o)
	admin, err := pgx.Connect(t.Context(), o.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = admin.Close(context.Background()) }()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, o)
	var epoch int
	if err := admin.QueryRow(t.Context(), `SELECT epoch FROM ownership`).Scan(&epoch); err != nil || epoch != 2 {
		t.Errorf("the second owner has epoch %d, %v", epoch, err)
	}
	if _, err := admin.Exec(t.Context(), `UPDATE ownership SET epoch = epoch + 1`); err != nil { // as a third would
		t.Fatal(err)
	}
	_, err = s.Accept(t.Context(), storetest.Event("prod", "cart"), storetest.Policy())
	wantCode(t, err, nightcrier.Conflict, "taken the store over")
	if _, _, err := s.Incidents(t.Context(), store.IncidentFilter{}); err != nil {
		t.Errorf("reading goes on: %v", err)
	}
}

// A process that has lost the store and the one that has taken it over fire the same tick:
// one run is queued.
func TestPostgreSQLTickOnce(t *testing.T) {
	t.Parallel()
	o := store.Options{URL: pgtest.DSN(t)}
	old := open(t, o)
	sched, err := old.FollowSchedule(t.Context(), "report", "nightly")
	if err != nil {
		t.Fatal(err)
	}
	admin, err := pgx.Connect(t.Context(), o.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = admin.Close(context.Background()) }()
	const killHolder = `SELECT pg_terminate_backend(pid) FROM pg_locks JOIN pg_database d ON d.oid = database
		WHERE locktype = 'advisory' AND d.datname = current_database()`
	if _, err := admin.Exec(t.Context(), killHolder); err != nil {
		t.Fatal(err)
	}
	next := open(t, o)
	tick := []time.Time{sched.LastTick.Add(time.Second)}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if _, err := old.FireSchedule(t.Context(), "report", "nightly", tick, store.NewRun{}); err == nil {
				t.Error("who has lost the store wrote to it")
			}
		})
		wg.Go(func() {
			if _, err := next.FireSchedule(t.Context(), "report", "nightly", tick, store.NewRun{}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n, err := next.Counts(t.Context()); err != nil || n.Queued != 1 {
		t.Errorf("%d runs are queued, %v", n.Queued, err)
	}
}

func TestPostgreSQLRefuses(t *testing.T) {
	t.Parallel()
	const secret = "s3cr3t-passw0rd"
	for url, code := range map[string]nightcrier.Code{
		"postgres://u:" + secret + "@127.0.0.1:1/db":           nightcrier.Unreachable,
		"postgres://u:" + secret + "@127.0.0.1:99999999/db":    nightcrier.Invalid,
		"postgres://u:" + secret + "@[::1/db?sslmode=disable":  nightcrier.Invalid,
		"mysql://u:" + secret + "@127.0.0.1/db?sslmode=banana": nightcrier.Invalid,
	} {
		_, err := store.Open(t.Context(), store.Options{URL: url})
		wantCode(t, err, code)
		_, readErr := store.OpenReadOnly(t.Context(), store.Options{URL: url})
		wantCode(t, readErr, code)
		if err := errors.Join(err, readErr); err != nil && strings.Contains(err.Error(), secret) {
			t.Errorf("the password stands in %q", err)
		}
	}
}

func TestSQLiteRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte(strings.Repeat("no database at all ", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, code := range map[string]nightcrier.Code{
		"":                                    nightcrier.Invalid,
		filepath.Join(dir, "missing", "n.db"): nightcrier.Unreachable,
		filepath.Join(file, "n.db"):           nightcrier.Unreachable,
		dir:                                   nightcrier.Unreachable,
		file:                                  nightcrier.Unreachable,
	} {
		_, err := store.Open(t.Context(), store.Options{Path: path})
		wantCode(t, err, code, path)
	}
}

func TestSQLiteIsPrivate(t *testing.T) {
	t.Parallel()
	o := sqliteOptions(t)
	open(t, o)
	files, err := os.ReadDir(filepath.Dir(o.Path))
	if err != nil || len(files) < 2 {
		t.Fatalf("files %v, %v", files, err)
	}
	for _, f := range files {
		if info, err := f.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v, %v", f.Name(), info.Mode(), err)
		}
	}
}
