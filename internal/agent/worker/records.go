package worker

import (
	"errors"
	"path/filepath"
	"sync"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/record/evidence"
	"nightcrier.dev/nightcrier/internal/record/journal"
)

// evidenceDir is where answers are kept, below the workspace and out of the
// agent's reach. Its ids go on after those of the preparation.
const evidenceDir = "output/evidence"

// maxAudit bounds, in bytes, what the requests of one agent take in the journal:
// room for some 10,000. requestCost is that of one without its texts; it has two
// entries, and in each the texts stand twice.
const (
	maxAudit    = 16 << 20
	requestCost = 1536
)

// records are what one agent's looking leaves: evidence of what it was shown, and
// entries of what it asked for. All guards that look for it share them.
type records struct {
	worker *worker
	rec    *evidence.Recorder

	full sync.Once // it was said that nothing more can be kept
	over sync.Once // it was said that nothing more is answered

	mu    sync.Mutex
	spent int // of maxAudit
	ended bool
	shown map[string]bool // the ids of what this agent was shown
}

func (w *worker) openRecords() (*records, error) {
	rec, err := evidence.Open(filepath.Join(w.spec.Workspace, evidenceDir))
	if err != nil {
		return nil, err
	}
	return &records{worker: w, rec: rec, shown: map[string]bool{}}, nil
}

// close ends them. What is still being answered belongs to nobody any more, and is
// not told of.
func (r *records) close() {
	r.mu.Lock()
	r.ended = true
	r.mu.Unlock()
	if err := r.rec.Close(); err != nil {
		r.worker.log.Warn("close the evidence", "error", err)
	}
}

// Record implements guardkube.Recorder. Once the evidence is full nothing is
// answered: an agent shall know nothing that cannot be shown.
func (r *records) Record(kind, source string, body []byte) (string, error) {
	id, err := r.rec.Record(kind, source, body)
	r.worker.lacksRoom("evidence", err)
	if errors.Is(err, evidence.ErrFull) {
		r.full.Do(func() { r.worker.appendNote("warn", err.Error()+"; the agent gets no more answers") })
	}
	if err == nil {
		r.mu.Lock()
		r.shown[id] = true
		r.mu.Unlock()
	}
	return id, err
}

// Result is what was kept under an id, if this agent was shown it.
func (r *records) Result(id string) ([]byte, error) {
	r.mu.Lock()
	shown := r.shown[id]
	r.mu.Unlock()
	if !shown {
		return nil, nightcrier.Errorf(nightcrier.NotFound, "no result of this run is kept as %.20q", id)
	}
	return r.rec.Load(id)
}

// countDecision counts a decision with texts of that length, and tells when no more of them
// can be told of. Without its entry nothing is asked and nothing is answered.
func (r *records) countDecision(texts int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.spent += requestCost + 4*texts
	if r.spent <= maxAudit {
		return nil
	}
	r.over.Do(func() { r.worker.appendNote("warn", "the agent has asked for too much; it gets no more answers") })
	return nightcrier.Errorf(nightcrier.Exhausted, "the requests of this attempt take more than %d bytes of journal", maxAudit)
}

// appendItem journals what was decided or what came of it, while there is an agent.
func (r *records) appendItem(item journal.Item) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return nightcrier.Errorf(nightcrier.Interrupted, "the agent has ended")
	}
	return r.worker.appendItem(item)
}
