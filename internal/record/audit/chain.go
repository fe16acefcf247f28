package audit

import (
	"fmt"

	"nightcrier.dev/nightcrier"
)

// Chain verifies the hash chain of a run's journal, entry by entry. The zero
// Chain expects the first one.
type Chain struct {
	seq      int64
	head     string
	problems []Problem
}

// Add checks the next entry.
func (c *Chain) Add(e nightcrier.JournalEntry) {
	switch {
	case len(c.problems) == maxProblems:
	case e.Seq != c.seq+1:
		c.addProblem("journal: entry %d stands after entry %d", e.Seq, c.seq)
	case e.Prev != c.head:
		c.addProblem("journal: entry %d does not follow the one before it", e.Seq)
	case e.ChainHash(e.Prev) != e.Hash:
		c.addProblem("journal: entry %d was changed: its content does not carry its hash", e.Seq)
	}
	c.seq, c.head = e.Seq, e.Hash
}

func (c *Chain) addProblem(format string, args ...any) {
	c.problems = append(c.problems, Problem{Text: fmt.Sprintf(format, args...)})
}

// Problems is what was wrong, nil for nothing.
func (c *Chain) Problems() []Problem { return c.problems }
