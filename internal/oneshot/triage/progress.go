package triage

import (
	"context"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/record/journal"
	"nightcrier.dev/nightcrier/internal/record/store"
)

// Progress is how far an investigation has come.
type Progress struct {
	// About is what is investigated where that is one of many, "" else.
	About string
	// Doing is the newest thing that was read or done, in a few words.
	Doing string
	// Reads is how many reads of the cluster were answered or refused.
	Reads int
}

// follower tells of an incident's run as its journal grows.
type follower struct {
	store *store.Store
	tell  func(Progress)
	run   string
	last  int64
	now   Progress
}

// readNewEntries reads what is new. What cannot be read now is read the next time: nobody
// waits for it.
func (f *follower) readNewEntries(ctx context.Context, inc nightcrier.Incident) {
	if f.tell == nil || inc.RunID == "" {
		return
	}
	if inc.RunID != f.run {
		f.run, f.last = inc.RunID, 0
	}
	entries, err := f.store.Journal(ctx, f.run, f.last+1, 0)
	if err != nil || len(entries) == 0 {
		return
	}
	for _, e := range entries {
		f.last = e.Seq
		f.noteEntry(e)
	}
	f.tell(f.now)
}

func (f *follower) noteEntry(e nightcrier.JournalEntry) {
	if q, err := journal.RequestOf(e); err == nil && q != nil {
		asked := *q
		if asked.Resource != "" { // how much at most, and of what kind, tells a reader little
			asked.Query = ""
		}
		f.now.Doing = asked.String()
		if q.Done || q.Decision == journal.Deny {
			f.now.Reads++
		}
		return
	}
	if l := journal.Tail(e, nil); l.Text != "" {
		f.now.Doing = l.Label + " " + l.Text
	}
}
