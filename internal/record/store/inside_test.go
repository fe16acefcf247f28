package store

import (
	"errors"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"nightcrier.dev/nightcrier"
)

func openTemp(t *testing.T) (*Store, Options) {
	t.Helper()
	o := Options{Path: filepath.Join(t.TempDir(), "n.db")}
	s, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, o
}

func testEvent() nightcrier.Event {
	return nightcrier.Event{ID: nightcrier.NewID(), Cluster: "c", Fingerprint: nightcrier.NewID(), Raw: make([]byte, 8<<10)}
}

// A full disk is said as such, loses nothing that was promised, and is over when
// there is room again.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	s, _ := openTemp(t)
	p := AcceptPolicy{Pipeline: "p"}
	var pages int
	if err := s.w.QueryRow(`PRAGMA max_page_count = 70`).Scan(&pages); err != nil || pages != 70 {
		t.Fatalf("limit of %d pages, %v", pages, err)
	}
	stored := 0
	var err error
	for range 100 {
		if _, err = s.Accept(t.Context(), testEvent(), p); err != nil {
			break
		}
		stored++
	}
	if nightcrier.CodeOf(err) != nightcrier.Exhausted || !errors.Is(err, syscall.ENOSPC) || stored == 0 {
		t.Fatalf("after %d events: %v", stored, err)
	}
	if n, err := s.Counts(t.Context()); err != nil || n.Events[nightcrier.Opened] != stored || n.Queued != stored {
		t.Errorf("%+v, %v, want %d events", n, err, stored)
	}
	if err := s.w.QueryRow(`PRAGMA max_page_count = 100000`).Scan(&pages); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Accept(t.Context(), testEvent(), p); err != nil {
		t.Errorf("with room again: %v", err)
	}
}

// A process that the last owner was just starting keeps its lock for a moment.
func TestLockIsWaitedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "lock")
		last, err := lockFile(t.Context(), path, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		child, err := syscall.Dup(int(last.f.Fd()))
		if err != nil {
			t.Fatal(err)
		}
		if err := last.close(); err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(5*lockLook, func() { syscall.Close(child) })
		next, err := lockFile(t.Context(), path, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if err := next.close(); err != nil {
			t.Error(err)
		}
	})
}

func TestNewerSchema(t *testing.T) {
	t.Parallel()
	s, o := openTemp(t)
	if _, err := s.w.Exec(`INSERT INTO ` + schemaTable + ` (version_id, is_applied) VALUES (999, 1)`); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenReadOnly(t.Context(), o); nightcrier.CodeOf(err) != nightcrier.Conflict {
		t.Errorf("reading a newer schema: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), o); nightcrier.CodeOf(err) != nightcrier.Conflict {
		t.Errorf("opening a newer schema: %v", err)
	}
}

// The pragmas that durability rests on hold on the connection that writes.
func TestDurable(t *testing.T) {
	t.Parallel()
	s, _ := openTemp(t)
	for pragma, want := range map[string]string{"journal_mode": "wal", "synchronous": "2", "foreign_keys": "1", "busy_timeout": "10000"} {
		var got string
		if err := s.w.QueryRow(`PRAGMA ` + pragma).Scan(&got); err != nil || got != want {
			t.Errorf("%s is %q, %v, want %q", pragma, got, err, want)
		}
	}
	if _, err := s.r.Exec(`DELETE FROM events`); err == nil {
		t.Error("the readers' side can write")
	}
}

func TestGuardedUpdates(t *testing.T) {
	t.Parallel()
	s, _ := openTemp(t)
	d, err := s.Accept(t.Context(), testEvent(), AcceptPolicy{Pipeline: "p"})
	if err != nil {
		t.Fatal(err)
	}
	err = s.writeTransaction(t.Context(), "test", func(tx *tx) error {
		inc := d.Incident
		return tx.saveIncident(&inc, nightcrier.Resolved) // the row is pending
	})
	if nightcrier.CodeOf(err) != nightcrier.Conflict {
		t.Errorf("an update of what has changed meanwhile: %v", err)
	}
	err = s.writeTransaction(t.Context(), "test", func(tx *tx) error {
		return tx.addIncident(&nightcrier.Incident{ID: "other", Fingerprint: d.Incident.Fingerprint, Status: nightcrier.Pending}, "")
	})
	if err == nil {
		t.Error("two open incidents of one fingerprint")
	}
}

func TestRebind(t *testing.T) {
	t.Parallel()
	c := conn{postgres: true}
	if got := c.rebindQuery(`a = ? AND b = ?`); got != `a = $1 AND b = $2` {
		t.Errorf("rebound to %q", got)
	}
}

func FuzzCursor(f *testing.F) {
	for _, seed := range []string{"", ".", "1.a", "9223372036854775808.x", "-1.\x00"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		at, id, err := parseCursor(s)
		if err != nil {
			if nightcrier.CodeOf(err) != nightcrier.Invalid {
				t.Errorf("%q: %v", s, err)
			}
			return
		}
		if again, sameID, err := parseCursor(formatInt(int(at)) + "." + id); err != nil || again != at || sameID != id {
			t.Errorf("%q does not survive: %d %q %v", s, again, sameID, err)
		}
	})
}
