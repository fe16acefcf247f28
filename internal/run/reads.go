package run

import (
	"context"
	"fmt"
	"sync"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/evidence"
	"nightcrier.dev/nightcrier/internal/journal"
)

// reads journals what the preparation asks of the cluster, one read after the
// other. What came of a read waits until it is known under which id it was kept.
type reads struct {
	note func(key string, it journal.Item) error
	rec  *evidence.Recorder
	// try keeps the entries of a repeated step apart: it asks again.
	try string

	mu   sync.Mutex
	n    int
	last *journal.Request // answered, and not journaled yet
	told map[string]bool  // evidence ids that the journal has
}

func (r *Runner) newReads(ctx context.Context, o Order, rec *evidence.Recorder) *reads {
	return &reads{
		note: func(key string, it journal.Item) error { return r.note(ctx, o.RunID, key, it) },
		rec:  rec, try: nightcrier.NewID(), told: map[string]bool{},
	}
}

// audit takes what the guard says of a request.
func (l *reads) audit(q journal.Request) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.tellLast(""); err != nil {
		return err
	}
	if q.Done {
		l.last = &q
		return nil
	}
	return l.tell(journal.OfRequest(q))
}

// Record implements diagnose.Recorder.
func (l *reads) Record(kind, source string, body []byte) (string, error) {
	id, err := l.rec.Record(kind, source, body)
	if err != nil {
		return "", err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return id, l.tellLast(id)
}

// flush journals what still waits.
func (l *reads) flush() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tellLast("")
}

// tellLast journals the answer that waits. The caller holds mu.
func (l *reads) tellLast(id string) error {
	if l.last == nil {
		return nil
	}
	q := *l.last
	l.last = nil
	if kept, ok := l.rec.Item(id); ok {
		q.Evidence, q.SHA256, l.told[id] = id, kept.SHA256, true
	}
	return l.tell(journal.OfRequest(q))
}

// tell journals one entry. The caller holds mu.
func (l *reads) tell(it journal.Item) error {
	l.n++
	return l.note(fmt.Sprintf("read:%s/%d", l.try, l.n), it)
}
