package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"sync"

	"nightcrier.dev/nightcrier"
)

// AppendJournal adds entries to a run's journal in one transaction: it numbers
// them, chains them by hash and returns the hash of the newest. An entry whose
// Key the run has already is dropped, so the same call may be made twice. Data
// is stored the way encoding/json writes it, so that the chain can be verified
// from any rendering; "{}" stands for none.
func (s *Store) AppendJournal(ctx context.Context, run string, entries ...nightcrier.JournalEntry) (head string, err error) {
	err = s.writeTransaction(ctx, "append to the journal", func(t *tx) error {
		seq, prev, err := t.journalHead(run)
		if err != nil {
			return err
		}
		before := seq
		for _, e := range entries {
			e.Run, e.Seq, e.Prev = run, seq+1, prev
			added, err := t.appendEntry(&e)
			if err != nil {
				return err
			}
			if added {
				seq, prev = e.Seq, e.Hash
			}
		}
		if seq > before {
			t.wake = append(t.wake, run)
		}
		head = prev
		return nil
	})
	return head, err
}

// Journal returns the entries of a run from fromSeq on, in order; at most limit,
// 1000 when that is 0.
func (s *Store) Journal(ctx context.Context, run string, fromSeq int64, limit int) ([]nightcrier.JournalEntry, error) {
	if limit <= 0 {
		limit = maxPageSize
	}
	list := []nightcrier.JournalEntry{}
	err := s.readConn(ctx).eachRow(func(rows *sql.Rows) error {
		e, err := scanEntry(rows)
		list = append(list, e)
		return err
	}, `SELECT run_id, seq, key, at, step, attempt, type, data, prev, hash FROM journal
		WHERE run_id = ? AND seq >= ? ORDER BY seq LIMIT ?`, run, fromSeq, limit)
	return list, s.wrapError("read a journal", err)
}

// JournalHead returns the number and the hash of a run's newest entry, 0 and ""
// for an empty journal.
func (s *Store) JournalHead(ctx context.Context, run string) (seq int64, hash string, err error) {
	seq, hash, err = s.readConn(ctx).journalHead(run)
	return seq, hash, s.wrapError("read the head of a journal", err)
}

func (c conn) journalHead(run string) (seq int64, hash string, err error) {
	err = c.queryRow(`SELECT seq, hash FROM journal WHERE run_id = ? ORDER BY seq DESC LIMIT 1`, run).Scan(&seq, &hash)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, "", nil
	}
	return seq, hash, err
}

// appendEntry stores e and fills in its hash; false when its key is known.
func (t *tx) appendEntry(e *nightcrier.JournalEntry) (bool, error) {
	if e.Run == "" || e.Key == "" || e.Type == "" {
		return false, nightcrier.Errorf(nightcrier.Invalid, "a journal entry needs a run, a type and a key")
	}
	data, err := canonicalJSON(e.Data)
	if err != nil {
		return false, nightcrier.Errorf(nightcrier.Invalid, "data of the journal entry %q: %w", e.Key, err)
	}
	e.Data, e.Time = data, truncateTime(e.Time)
	if e.Time.IsZero() {
		e.Time = t.now
	}
	e.Key, e.Step, e.Type = cleanText(e.Key), cleanText(e.Step), nightcrier.EntryType(cleanText(string(e.Type)))
	e.Hash = e.ChainHash(e.Prev)
	n, err := t.execStatement(`INSERT INTO journal (run_id, seq, key, at, step, attempt, type, data, prev, hash)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (run_id, key) DO NOTHING`,
		e.Run, e.Seq, e.Key, toMicros(e.Time), e.Step, e.Attempt, string(e.Type), []byte(e.Data), e.Prev, e.Hash)
	return n == 1, err
}

func canonicalJSON(data json.RawMessage) (json.RawMessage, error) {
	if len(data) == 0 {
		return json.RawMessage("{}"), nil
	}
	return json.Marshal(data)
}

func scanEntry(row interface{ Scan(...any) error }) (nightcrier.JournalEntry, error) {
	var e nightcrier.JournalEntry
	var at int64
	var data []byte
	err := row.Scan(&e.Run, &e.Seq, &e.Key, &at, &e.Step, &e.Attempt, &e.Type, &data, &e.Prev, &e.Hash)
	e.Time, e.Data = fromMicros(at), data
	return e, err
}

// watchers wakes those who follow a run. A wake-up carries nothing: the
// follower reads the journal from where it stands.
type watchers struct {
	mu    sync.Mutex
	byRun map[string]map[chan struct{}]bool
}

func newWatchers() *watchers { return &watchers{byRun: map[string]map[chan struct{}]bool{}} }

// WatchJournal wakes its receiver after each change to the run: entries were
// appended, a cancel was requested, it ended. The channel holds one wake-up, so
// a slow follower is never waited for. Subscribe first, then read, then wait.
// The second result ends the subscription.
func (s *Store) WatchJournal(run string) (<-chan struct{}, func()) {
	ch := make(chan struct{}, 1)
	s.watch.mu.Lock()
	defer s.watch.mu.Unlock()
	set := s.watch.byRun[run]
	if set == nil {
		set = map[chan struct{}]bool{}
		s.watch.byRun[run] = set
	}
	set[ch] = true
	return ch, func() { s.watch.dropWatcher(run, ch) }
}

// allIncidents stands for the incidents where one who waits names a run: a run has an id.
const allIncidents = ""

// WatchIncidents wakes its receiver after each change to an incident, in the way of
// WatchJournal.
func (s *Store) WatchIncidents() (<-chan struct{}, func()) { return s.WatchJournal(allIncidents) }

func (w *watchers) dropWatcher(run string, ch chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.byRun[run], ch)
	if len(w.byRun[run]) == 0 {
		delete(w.byRun, run)
	}
}

func (w *watchers) wakeWatchers(runs []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, run := range runs {
		for ch := range w.byRun[run] {
			select {
			case ch <- struct{}{}:
			default:
			}
		}
	}
}
