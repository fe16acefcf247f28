package audit

import (
	"io"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/record/journal"
)

const (
	// latest is how long after it was let through a request is told of, at most: a guard
	// ends a watch after half of it.
	latest = 10 * time.Minute
	// maxHeld bounds the lines that wait for one before them.
	maxHeld = 20_000
)

// Stream writes a log in its file's form while it goes on, for a guard that runs
// without end. It holds the requests that are under way, and the lines behind them.
type Stream struct {
	out io.Writer
	log Log
	sum Summary
	err error
}

// NewStream writes to w, a line at a time.
func NewStream(w io.Writer) *Stream { return &Stream{out: w} }

// Add takes one entry of the journal, in the journal's order. After an error nothing
// more is written.
func (s *Stream) Add(e nightcrier.JournalEntry) error {
	if s.err == nil {
		s.err = s.log.Add(e)
	}
	return s.writeDue(func(r journal.Request) bool {
		return isComplete(r) || e.Time.Sub(r.Time) > latest || len(s.log.lines) > maxHeld
	})
}

// Close writes the lines that are left.
func (s *Stream) Close() (Summary, error) {
	err := s.writeDue(func(journal.Request) bool { return true })
	return s.sum, err
}

// writeDue writes the first lines, as long as they are due.
func (s *Stream) writeDue(due func(journal.Request) bool) error {
	for s.err == nil && len(s.log.lines) > 0 && due(s.log.lines[0]) {
		s.err = s.sum.writeRecord(s.out, s.log.lines[0])
		s.log.dropFirst()
	}
	return s.err
}
