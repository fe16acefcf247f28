package audit

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"nightcrier.dev/nightcrier/internal/record/journal"
)

// While it goes on, and in any order of the outcomes, a stream writes what a log does at
// its end.
func TestAStreamWritesWhatALogDoes(t *testing.T) {
	denied := journal.Request{ID: 7, Time: at, Verb: "delete", Resource: "pods", Decision: journal.Deny, Reason: "reads only", Done: true}
	a1, a2 := read(1, "a", "E1")
	b1, b2 := read(2, "b", "E2")
	c1, c2 := read(3, "c", "")
	d1, _ := read(4, "never told of again", "")
	for name, all := range map[string][]journal.Request{
		"none":      nil,
		"in turn":   {a1, a2, b1, b2, denied, c1, c2},
		"crossed":   {a1, b1, denied, c1, c2, b2, a2},
		"one stays": {a1, d1, b1, a2, b2, c1, denied, c2},
		"a stray":   {a2, b1, b2},
	} {
		var got bytes.Buffer
		s := NewStream(&got)
		for _, r := range all {
			if err := s.Add(entry(t, 1, journal.OfRequest(r))); err != nil {
				t.Fatal(err)
			}
		}
		sum, err := s.Close()
		want, wantSum := written(t, all...)
		if err != nil || got.String() != want || sum != wantSum {
			t.Errorf("%s: %+v, want %+v, %v\n%s\nwant\n%s", name, sum, wantSum, err, got.String(), want)
		}
		if _, problems, err := Verify(bytes.NewReader(got.Bytes()), sum.Head); err != nil || len(problems) > 0 {
			t.Errorf("%s: %v, %v", name, problems, err)
		}
	}
}

// However many requests there are, a stream holds those alone that are under way, and
// does not wait for ever for one of which nothing is heard.
func TestAStreamIsBounded(t *testing.T) {
	s := NewStream(io.Discard)
	add := func(r journal.Request, when time.Time) {
		t.Helper()
		r.Time = when
		e := entry(t, 0, journal.OfRequest(r))
		e.Time = when
		if err := s.Add(e); err != nil {
			t.Fatal(err)
		}
	}
	lost, found := read(1, "lost", "")
	add(lost, at)
	most := 0
	for id := int64(2); id < 5000; id++ {
		before, after := read(id, "x", "")
		when := at.Add(time.Duration(id) * time.Second)
		add(before, when)
		add(after, when)
		most = max(most, len(s.log.lines))
	}
	if want := int(latest/time.Second) + 2; most > want || len(s.log.lines) > 0 || len(s.log.open) > 0 {
		t.Errorf("it held %d lines, want at most %d; %d are left, and %d under way", most, want, len(s.log.lines), len(s.log.open))
	}
	add(found, at.Add(time.Hour)) // it is not lost: it has a line of its own
	if sum, err := s.Close(); err != nil || sum.Requests != 5000 {
		t.Errorf("%+v, %v", sum, err)
	}

	s = NewStream(io.Discard)
	add(lost, at)
	for id := int64(2); id < maxHeld+100; id++ {
		before, after := read(id, "x", "")
		add(before, at)
		add(after, at)
		most = max(most, len(s.log.lines))
	}
	if most > maxHeld+1 {
		t.Errorf("within a moment it held %d lines", most)
	}
}

// failing takes some lines.
type failing struct{ lines int }

func (f *failing) Write(p []byte) (int, error) {
	if f.lines--; f.lines < 0 {
		return 0, errors.New("no space left")
	}
	return len(p), nil
}

// A stream that could not be written once is not written on: a line would be missing.
func TestAStreamThatFailsStaysFailed(t *testing.T) {
	disk := &failing{lines: 1}
	s := NewStream(disk)
	var errs []string
	for id := range int64(3) {
		err := s.Add(entry(t, 1, journal.OfRequest(journal.Request{ID: id, Time: at, Decision: journal.Deny})))
		errs = append(errs, fmt.Sprint(err))
		disk.lines = max(disk.lines, 0) + int(id) // room comes back
	}
	_, err := s.Close()
	if want := []string{"<nil>", "no space left", "no space left"}; !slices.Equal(errs, want) || err == nil || !strings.Contains(err.Error(), "no space") {
		t.Errorf("%q, want %q; closed with %v", errs, want, err)
	}
}
