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
func (r *Runner) appendNote(ctx context.Context, runID, key string, it journal.Item) error {
	return r.appendNotes(ctx, runID, remark{key, it})
}

// appendNotes appends entries of our own in one transaction.
func (r *Runner) appendNotes(ctx context.Context, runID string, list ...remark) error {
	entries := make([]nightcrier.JournalEntry, len(list))
	for i, n := range list {
		data, err := n.item.JSON()
		if err != nil {
			return err
		}
		entries[i] = nightcrier.JournalEntry{Run: runID, Key: n.key, Step: step, Time: r.cfg.Now(), Type: n.item.Type, Data: data}
	}
	return r.appendEntries(ctx, runID, entries)
}

// journalPage is how many entries are read at once.
const journalPage = 500

// eachEntry calls fn for every entry of a run's journal, oldest first.
func (r *Runner) eachEntry(ctx context.Context, runID string, fn func(nightcrier.JournalEntry) error) error {
	for from := int64(1); ; {
		entries, err := r.cfg.Store.Journal(ctx, runID, from, journalPage)
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
func (r *Runner) appendEntries(ctx context.Context, runID string, entries []nightcrier.JournalEntry) error {
	for i := range entries {
		data, err := r.maskerFor(runID).Strings(entries[i].Data)
		if err != nil {
			return err
		}
		entries[i].Data = data
	}
	if _, err := r.cfg.Store.AppendJournal(ctx, runID, entries...); err != nil {
		return err
	}
	if r.cfg.Journaled != nil {
		for _, e := range entries {
			r.cfg.Journaled(e)
		}
	}
	return nil
}

// newLogItem makes a note of a run's own progress.
func newLogItem(format string, args ...any) journal.Item {
	return journal.OfLog(journal.Log{Stream: "run", Level: "info", Text: fmt.Sprintf(format, args...)})
}
