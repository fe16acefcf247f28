package journal

import (
	"context"

	"nightcrier.dev/nightcrier"
)

// pageSize is how many entries are read at once.
const pageSize = 200

// Reader is where journals are read, such as a store.
type Reader interface {
	// Journal returns at most limit entries of a run, those from one number on.
	Journal(ctx context.Context, run string, from int64, limit int) ([]nightcrier.JournalEntry, error)
}

// EachEntry calls do for the entries of a run's journal from one number on, oldest first, until it
// fails.
func EachEntry(ctx context.Context, r Reader, run string, from int64, do func(nightcrier.JournalEntry) error) error {
	for {
		entries, err := r.Journal(ctx, run, from, pageSize)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if err := do(e); err != nil {
				return err
			}
			from = e.Seq + 1
		}
		if len(entries) < pageSize {
			return nil
		}
	}
}
