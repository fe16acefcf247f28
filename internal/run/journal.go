package run

import (
	"context"
	"fmt"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/record/journal"
)

// remark is an entry of our own. The key makes a repeated step say it once.
type remark struct {
	key  string
	item journal.Item
}

// appendNote appends one entry of our own.
func (s *session) appendNote(ctx context.Context, key string, it journal.Item) error {
	return s.appendNotes(ctx, remark{key, it})
}

// appendNotes appends entries of our own in one transaction.
func (s *session) appendNotes(ctx context.Context, list ...remark) error {
	entries := make([]nightcrier.JournalEntry, len(list))
	for i, n := range list {
		data, err := n.item.JSON()
		if err != nil {
			return err
		}
		entries[i] = nightcrier.JournalEntry{Run: s.order.RunID, Key: n.key, Step: step, Time: s.cfg.Now(), Type: n.item.Type, Data: data}
	}
	return s.appendEntries(ctx, entries)
}

// journalPage is how many entries are read at once.
const journalPage = 500

// eachEntry calls fn for every entry of a run's journal, oldest first.
func (s *session) eachEntry(ctx context.Context, fn func(nightcrier.JournalEntry) error) error {
	for from := int64(1); ; {
		entries, err := s.cfg.Store.Journal(ctx, s.order.RunID, from, journalPage)
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
func (s *session) appendEntries(ctx context.Context, entries []nightcrier.JournalEntry) error {
	for i := range entries {
		data, err := s.mask.Strings(entries[i].Data)
		if err != nil {
			return err
		}
		entries[i].Data = data
	}
	if _, err := s.cfg.Store.AppendJournal(ctx, s.order.RunID, entries...); err != nil {
		return err
	}
	if s.cfg.Journaled != nil {
		for _, e := range entries {
			s.cfg.Journaled(e)
		}
	}
	return nil
}

// newLogItem makes a note of a run's own progress.
func newLogItem(format string, args ...any) journal.Item {
	return journal.OfLog(journal.Log{Stream: "run", Level: "info", Text: fmt.Sprintf(format, args...)})
}
