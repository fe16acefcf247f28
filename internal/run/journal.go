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

// EachEntry calls fn for every entry of a run's journal, oldest first.
func (s *Session) EachEntry(ctx context.Context, fn func(nightcrier.JournalEntry) error) error {
	return journal.EachEntry(ctx, s.runner.cfg.Store, s.Order.RunID, 1, fn)
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
