package run

import (
	"context"
	"fmt"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/record/journal"
)

// Remark is an entry of our own. The key makes a repeated step say it once.
type Remark struct {
	Key  string
	Item journal.Item
}

// AppendNote appends one entry of our own.
func (s *Session) AppendNote(ctx context.Context, key string, it journal.Item) error {
	return s.AppendNotes(ctx, Remark{key, it})
}

// AppendNotes appends entries of our own in one transaction.
func (s *Session) AppendNotes(ctx context.Context, list ...Remark) error {
	entries := make([]nightcrier.JournalEntry, len(list))
	for i, n := range list {
		data, err := n.Item.JSON()
		if err != nil {
			return err
		}
		entries[i] = nightcrier.JournalEntry{Run: s.Order.RunID, Key: s.place.keys + n.Key, Step: s.place.step, Time: s.runner.cfg.Now(), Type: n.Item.Type, Data: data}
	}
	return s.appendEntries(ctx, entries)
}

func (s *Session) noteState(ctx context.Context, st journal.State) error {
	return s.AppendNote(ctx, "state:"+string(st.To), journal.OfState(st))
}

// journalPage is how many entries are read at once.
const journalPage = 500

// EachEntry calls fn for every entry of a run's journal, oldest first.
func (s *Session) EachEntry(ctx context.Context, fn func(nightcrier.JournalEntry) error) error {
	return s.eachEntryOf(ctx, s.Order.RunID, fn)
}

func (s *Session) eachEntryOf(ctx context.Context, run string, fn func(nightcrier.JournalEntry) error) error {
	for from := int64(1); ; {
		entries, err := s.runner.cfg.Store.Journal(ctx, run, from, journalPage)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if err := fn(e); err != nil {
				return err
			}
			from = e.Seq + 1
		}
		if len(entries) < journalPage {
			return nil
		}
	}
}

// appendEntries masks entries, in place, and stores them in one transaction.
func (s *Session) appendEntries(ctx context.Context, entries []nightcrier.JournalEntry) error {
	for i := range entries {
		data, err := s.Mask.Strings(entries[i].Data)
		if err != nil {
			return err
		}
		entries[i].Data = data
	}
	if _, err := s.runner.cfg.Store.AppendJournal(ctx, s.Order.RunID, entries...); err != nil {
		return err
	}
	for _, e := range entries {
		s.runner.cfg.Supervisor.Journaled(e)
	}
	return nil
}

// NewLogItem makes a note of a run's own progress.
func NewLogItem(format string, args ...any) journal.Item {
	return journal.OfLog(journal.Log{Stream: "run", Level: "info", Text: fmt.Sprintf(format, args...)})
}
