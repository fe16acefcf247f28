package audit

import (
	"bufio"
	"io"
	"maps"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/record/journal"
)

// Log collects the requests of one run from its journal. The zero Log is empty.
type Log struct {
	lines []journal.Request
	open  map[pair]int // where an outcome belongs: the how manyth line of all
	gone  int          // of all lines those that are not in lines any more
}

// pair names a request within a run: an attempt has its own guard.
type pair struct {
	attempt int
	id      int64
}

// noOutcome is the reason of a request that was let through and never told of
// again: whoever asked died in between.
const noOutcome = "let through; what came of it was not recorded"

// Add takes one entry of the journal; entries come in the journal's order.
func (l *Log) Add(e nightcrier.JournalEntry) error {
	r, err := journal.RequestOf(e)
	if err != nil || r == nil {
		return err
	}
	key := pair{e.Attempt, r.ID}
	at, waits := l.open[key]
	if !r.Done || !waits || r.Decision != journal.Allow { // a denial is whole by itself
		at = l.gone + len(l.lines)
		l.lines = append(l.lines, journal.Request{})
	}
	if l.open == nil {
		l.open = map[pair]int{}
	}
	line := &l.lines[at-l.gone]
	decided := line.Time
	*line = *r
	if !decided.IsZero() {
		line.Time = decided
	}
	delete(l.open, key)
	if !isComplete(*r) {
		l.open[key] = at
	}
	return nil
}

// isComplete says that nothing more is told of a request.
func isComplete(r journal.Request) bool { return r.Done || r.Decision != journal.Allow }

// dropFirst forgets the first line; what may still come of it would be one of its own.
func (l *Log) dropFirst() {
	if !isComplete(l.lines[0]) {
		maps.DeleteFunc(l.open, func(_ pair, at int) bool { return at == l.gone })
	}
	l.lines, l.gone = l.lines[1:], l.gone+1
}

// Summary is what a log comes to.
type Summary struct {
	// Requests counts all, Denied those of them that were refused, Kept those whose
	// answer is evidence.
	Requests, Denied, Kept int
	// Head is the last line's hash, "" without any.
	Head string
}

// Write writes the log in its file's form. The same entries make the same bytes.
func (l *Log) Write(w io.Writer) (Summary, error) {
	out := bufio.NewWriter(w)
	var s Summary
	for _, r := range l.lines {
		if err := s.writeRecord(out, r); err != nil {
			return s, err
		}
	}
	return s, out.Flush()
}

// writeRecord writes the next line.
func (s *Summary) writeRecord(w io.Writer, r journal.Request) error {
	rec, err := s.nextRecord(r)
	if err != nil {
		return err
	}
	line, err := rec.encodeLine()
	if err == nil {
		_, err = w.Write(append(line, '\n'))
	}
	return err
}

// nextRecord counts a request and chains its record.
func (s *Summary) nextRecord(r journal.Request) (Record, error) {
	rec := newRecord(r)
	s.Requests++
	switch {
	case r.Decision == journal.Deny:
		s.Denied++
	case !r.Done && r.Reason == "":
		rec.Reason = noOutcome
	}
	if r.Evidence != "" {
		s.Kept++
	}
	rec.Seq, rec.Prev = int64(s.Requests), s.Head
	sum, err := rec.computeHash()
	rec.Hash, s.Head = sum, sum
	return rec, err
}
