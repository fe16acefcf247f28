package evidence

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/text"
)

func open(t *testing.T, dir string) *Recorder {
	t.Helper()
	r, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

func record(t *testing.T, r *Recorder, kind, source, body string) string {
	t.Helper()
	id, err := r.Record(kind, source, []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestRecordNumbersAndLoads(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "output", "evidence")
	r := open(t, dir)
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	r.Now = func() time.Time { return at }
	first := record(t, r, "object", "get pod", `{"a":1}`)
	second := record(t, r, "log", "logs", "hello")
	if first != "E1" || second != "E2" {
		t.Fatalf("ids %s %s", first, second)
	}
	body, err := r.Load("E2")
	if err != nil || string(body) != "hello" {
		t.Errorf("Load(E2) = %q, %v", body, err)
	}
	if items := r.Items(); len(items) != 2 || !items[0].At.Equal(at) || items[1].Bytes != 5 {
		t.Errorf("items %+v", items)
	}
}

func TestSameReadKeepsItsID(t *testing.T) {
	r := open(t, t.TempDir())
	id := record(t, r, "object", "get pod", "x")
	if again := record(t, r, "object", "get pod", "x"); again != id {
		t.Errorf("the same read got %s after %s", again, id)
	}
	if other := record(t, r, "object", "get node", "x"); other == id {
		t.Errorf("another source got the same id")
	}
}

func TestReopenContinues(t *testing.T) {
	dir := t.TempDir()
	r := open(t, dir)
	record(t, r, "object", "bad \xff source", "one")
	r.Close()
	r = open(t, dir)
	if id := record(t, r, "object", "bad \xff source", "one"); id != "E1" {
		t.Errorf("repeated after reopening: %s", id)
	}
	if id := record(t, r, "object", "b", "two"); id != "E2" {
		t.Errorf("next id %s", id)
	}
}

// A crash can tear the index at any byte of its last line.
func TestTornIndexIsCutOff(t *testing.T) {
	dir := t.TempDir()
	r := open(t, dir)
	record(t, r, "object", "a", "one")
	whole, err := os.ReadFile(filepath.Join(dir, indexName))
	if err != nil {
		t.Fatal(err)
	}
	record(t, r, "object", "b", "two")
	both, _ := os.ReadFile(filepath.Join(dir, indexName))
	r.Close()
	for n := len(whole); n < len(both); n++ {
		if err := os.WriteFile(filepath.Join(dir, indexName), both[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := Open(dir)
		if err != nil {
			t.Fatalf("torn at %d: %v", n, err)
		}
		if id := record(t, r, "object", "b", "two"); id != "E2" || len(r.Items()) != 2 {
			t.Fatalf("torn at %d: id %s, %d items", n, id, len(r.Items()))
		}
		r.Close()
	}
}

// What is left of a long torn line must not show behind a shorter one.
func TestTornIndexLeavesNothingBehind(t *testing.T) {
	dir := t.TempDir()
	long := `{"id":"E1","kind":"object","source":"` + strings.Repeat("x", MaxSource)
	if err := os.WriteFile(filepath.Join(dir, indexName), []byte(long), 0o600); err != nil {
		t.Fatal(err)
	}
	r := open(t, dir)
	record(t, r, "log", "a", "one")
	r.Close()
	r = open(t, dir)
	if id := record(t, r, "log", "b", "two"); id != "E2" {
		t.Errorf("next id %s", id)
	}
	r.Close()
	if r = open(t, dir); len(r.Items()) != 2 {
		t.Errorf("%d items", len(r.Items()))
	}
	index, err := os.ReadFile(filepath.Join(dir, indexName))
	if err != nil || strings.Contains(string(index), "xxx") {
		t.Errorf("the torn line is still there: %s, %v", index, err)
	}
}

func TestDamageIsNoticed(t *testing.T) {
	dir := t.TempDir()
	r := open(t, dir)
	id := record(t, r, "object", "a", "the truth")
	blob := filepath.Join(dir, r.Items()[0].SHA256+blobSuffix)
	if err := os.WriteFile(blob, []byte("another truth"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Load(id); nightcrier.CodeOf(err) != nightcrier.Internal || !strings.Contains(err.Error(), "changed") {
		t.Errorf("changed blob: %v", err)
	}
	if err := os.Remove(blob); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Load(id); nightcrier.CodeOf(err) != nightcrier.Internal {
		t.Errorf("missing blob: %v", err)
	}
	r.Close()
	index := filepath.Join(dir, indexName)
	if err := os.WriteFile(index, []byte("{\"id\":\"E7\"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir); err == nil {
		t.Error("an index that skips numbers was accepted")
	}
}

func TestLinkOutOfTheDirectoryIsNotFollowed(t *testing.T) {
	dir := t.TempDir()
	outside := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(outside, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := open(t, dir)
	id := record(t, r, "object", "a", "one")
	blob := filepath.Join(dir, r.Items()[0].SHA256+blobSuffix)
	if err := os.Remove(blob); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, blob); err != nil {
		t.Fatal(err)
	}
	if body, err := r.Load(id); err == nil {
		t.Errorf("Load followed a link: %q", body)
	}
}

func TestLoadOfUnknownIDs(t *testing.T) {
	r := open(t, t.TempDir())
	record(t, r, "object", "a", "one")
	for _, id := range []string{"", "E", "E0", "E2", "E01", "E+1", "e1", "1", "E1 ", "E-1", "../index.jsonl", "E99999999999999999999"} {
		if _, err := r.Load(id); nightcrier.CodeOf(err) != nightcrier.NotFound {
			t.Errorf("Load(%q): %v", id, err)
		}
	}
}

func TestBounds(t *testing.T) {
	r := open(t, t.TempDir())
	id := record(t, r, "log", "big", strings.Repeat("x", MaxBytes+1))
	body, err := r.Load(id)
	if err != nil || len(body) != MaxBytes || !r.Items()[0].Truncated {
		t.Errorf("kept %d bytes, truncated %v, %v", len(body), r.Items()[0].Truncated, err)
	}
	big := bytes.Repeat([]byte("y"), MaxBytes)
	for i := 0; ; i++ {
		big[0], big[1] = byte(i), byte(i>>8)
		if _, err = r.Record("log", "more", big); err != nil {
			break
		}
		if int64(i) > MaxTotal/MaxBytes {
			t.Fatal("the total is not bounded")
		}
	}
	if nightcrier.CodeOf(err) != nightcrier.Exhausted || !errors.Is(err, ErrFull) {
		t.Errorf("full: %v", err)
	}
	if _, err := r.Load("E1"); err != nil {
		t.Errorf("a full recorder lost what it had: %v", err)
	}
}

func TestConcurrentRecords(t *testing.T) {
	r := open(t, t.TempDir())
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			if _, err := r.Record("object", fmt.Sprint("source ", i%10), fmt.Append(nil, "body ", i%10)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := len(r.Items()); n != 10 {
		t.Errorf("%d items of 10 different reads", n)
	}
}

// A process that dies while it writes leaves half a blob that no line names.
func TestHalfABlobIsWrittenAgain(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, text.DigestOf([]byte("whole"))+blobSuffix), []byte("wh"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := open(t, dir)
	body, err := r.Load(record(t, r, "object", "a", "whole"))
	if err != nil || string(body) != "whole" {
		t.Errorf("loaded %q, %v", body, err)
	}
}
