package mcpserver

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
)

// list asks for what is behind index, as the SDK does.
func (r *replay) list(t *testing.T, session, stream string, index int) ([]string, error) {
	t.Helper()
	var got []string
	for data, err := range r.After(t.Context(), session, stream, index) {
		if err != nil {
			return got, err
		}
		got = append(got, string(data))
	}
	return got, nil
}

// clock is a time that a test sets.
type clock struct{ time.Time }

func (c *clock) now() time.Time { return c.Time }

func newTestReplay(gap func(string)) (*replay, *clock) {
	c := &clock{time.Unix(1000, 0)}
	return newReplay(gap, c.now), c
}

func filled(t *testing.T, n int, gap func(string)) (*replay, *clock) {
	t.Helper()
	r, c := newTestReplay(gap)
	if err := r.Open(t.Context(), "s", ""); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if err := r.Append(t.Context(), "s", "", []byte(fmt.Sprint("m", i))); err != nil {
			t.Fatal(err)
		}
	}
	return r, c
}

func noGap(t *testing.T) func(string) {
	return func(id string) { t.Errorf("session %s was told of a gap", id) }
}

func TestReplay(t *testing.T) {
	for _, c := range []struct {
		name        string
		sent, index int
		after       time.Duration
		want        string
	}{
		{"the first time", -1, -1, 0, "m0 m1 m2 m3"},
		{"anew: what was not written", 1, -1, time.Minute, "m2 m3"},
		{"anew, when all was written", 3, -1, time.Minute, ""},
		{"anew at once: what was written may not have arrived", 3, -1, time.Second, "m0 m1 m2 m3"},
		{"with an id: what is behind it, written or not", 3, 1, time.Minute, "m2 m3"},
		{"with the last id", 3, 3, 0, ""},
		{"with an id that is none yet", 3, 99, 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, clock := filled(t, 4, noGap(t))
			if c.sent >= 0 {
				r.noteWritten("s", c.sent)
			}
			clock.Time = clock.Add(c.after)
			got, err := r.list(t, "s", "", c.index)
			if err != nil || strings.Join(got, " ") != c.want {
				t.Errorf("%v, %v", got, err)
			}
		})
	}
}

// A stream that is opened anew is numbered anew, as the SDK numbers it.
func TestReplayAnewIsNumberedAnew(t *testing.T) {
	r, clock := filled(t, 4, noGap(t))
	r.noteWritten("s", 1)
	clock.Time = clock.Add(time.Minute)
	if _, err := r.list(t, "s", "", -1); err != nil {
		t.Fatal(err)
	}
	if err := r.Append(t.Context(), "s", "", []byte("m4")); err != nil {
		t.Fatal(err)
	}
	got, err := r.list(t, "s", "", 0)
	if err != nil || strings.Join(got, " ") != "m3 m4" {
		t.Errorf("%v, %v", got, err)
	}
}

func TestReplayIsBoundedAndAdmitsGaps(t *testing.T) {
	var told []string
	gap := func(id string) { told = append(told, id) }
	r, _ := filled(t, keptItems+10, gap)
	if st := r.sessions["s"].streams[""]; len(st.items) != keptItems || st.first != 10 {
		t.Fatalf("%d items are kept from %d on", len(st.items), st.first)
	}
	if _, err := r.list(t, "s", "", 5); nightcrier.CodeOf(err) != nightcrier.Exhausted || len(told) != 1 {
		t.Errorf("a gap behind an id: %v, told %v", err, told)
	}
	if got, err := r.list(t, "s", "", 9); err != nil || len(got) != keptItems {
		t.Errorf("no gap: %d, %v", len(got), err)
	}
	if got, err := r.list(t, "s", "", -1); err != nil || len(got) != keptItems || len(told) != 2 {
		t.Errorf("anew: %d, %v, told %v", len(got), err, told)
	}
	big := []byte(strings.Repeat("x", keptBytes/2))
	for range 10 {
		if err := r.Append(t.Context(), "s", "", big); err != nil {
			t.Fatal(err)
		}
	}
	if st := r.sessions["s"].streams[""]; st.bytes > keptBytes || len(st.items) != 2 {
		t.Errorf("%d bytes in %d items", st.bytes, len(st.items))
	}
}

func TestReplayKeepsFewAnswers(t *testing.T) {
	r, _ := newTestReplay(noGap(t))
	for i := range 100 {
		id := fmt.Sprint("call", i)
		if err := r.Open(t.Context(), "s", id); err != nil {
			t.Fatal(err)
		}
		if err := r.Append(t.Context(), "s", id, []byte("answer")); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(r.sessions["s"].streams); n != keptAnswers {
		t.Errorf("%d answers are kept", n)
	}
	if _, err := r.list(t, "s", "call1", 0); nightcrier.CodeOf(err) != nightcrier.NotFound {
		t.Errorf("an answer that was let go: %v", err)
	}
	if err := r.Append(t.Context(), "s", "call1", []byte("late")); err != nil || len(r.sessions["s"].streams) != keptAnswers {
		t.Errorf("a late part of it: %v", err)
	}
	if err := r.SessionClosed(t.Context(), "s"); err != nil || len(r.sessions) != 0 {
		t.Errorf("closed: %v, %d sessions", err, len(r.sessions))
	}
	if err := r.Append(t.Context(), "s", "", []byte("late")); err != nil || len(r.sessions) != 0 {
		t.Errorf("after the end: %v, %d sessions", err, len(r.sessions))
	}
}

func TestIndexOf(t *testing.T) {
	for event, want := range map[string]int{"event: message\nid: _7\ndata: {}\n\n": 7, "event: message\nid: ABC_7\ndata: {}\n\n": -1, ": ok\n\n": -1, "id: _7": -1, "x\nid: _z\n": -1} {
		got, ok := indexOf([]byte(event))
		if !ok {
			got = -1
		}
		if got != want {
			t.Errorf("%q: %d", event, got)
		}
	}
}
