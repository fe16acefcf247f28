package worker

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/record/evidence"
	"nightcrier.dev/nightcrier/internal/record/journal"
	texts "nightcrier.dev/nightcrier/internal/text"
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

// blocked is what an agent tried to reach that is not there for it: names that it
// looked up, calls of the model's API that are not passed on. CLIs do so behind
// everybody's back, to tell their vendor how they are used or to look for a newer
// version. Each is journaled once; how often it was tried is told at the end.
type blocked struct {
	worker *worker

	mu    sync.Mutex
	times map[string]int // by what was tried
	total int
	told  bool
}

// maxBlocked is how many different attempts are journaled, and maxBlockedText what
// each may take, in bytes: who tries can go on for ever.
const (
	maxBlocked     = 100
	maxBlockedText = 256
)

// noteAttempt journals an attempt that has not been made before. What was tried is masked
// before it is cut: half a secret is known to nobody, and may be one long word.
func (b *blocked) noteAttempt(tool, what, why string) {
	mask := b.worker.mask.String
	what, why = texts.CutBytes(mask(what), maxBlockedText), texts.CutBytes(mask(why), maxBlockedText)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.told {
		return
	}
	if b.total++; b.times == nil {
		b.times = map[string]int{}
	}
	switch known := b.times[what] > 0; {
	case known:
		b.times[what]++
	case len(b.times) < maxBlocked:
		b.times[what] = 1
		b.worker.recordItems(journal.OfDenial(journal.Denial{Tool: tool, Command: what, Message: why}))
	case len(b.times) == maxBlocked:
		b.times["and more"] = 1
		b.worker.appendNote("warn", "the agent goes on trying to reach what is not there for it; no more of it is recorded one by one")
	default:
		b.times["and more"]++
	}
}

// countAttempts counts how often the agent tried.
func (b *blocked) countAttempts() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.total
}

// maxTold is how many of the attempts the last word names.
const maxTold = 10

// noteSummary says, once, what was tried and how often.
func (b *blocked) noteSummary() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.told || b.total == 0 {
		return
	}
	b.told = true
	often := slices.SortedFunc(maps.Keys(b.times), func(x, y string) int {
		return cmp.Or(cmp.Compare(b.times[y], b.times[x]), cmp.Compare(x, y))
	})
	var list []string
	for _, what := range often[:min(len(often), maxTold)] {
		list = append(list, fmt.Sprintf("%s (%d)", what, b.times[what]))
	}
	b.worker.appendNote("info", fmt.Sprintf("%d attempts to reach something beside the model, the cluster and the tools, all in vain: %s", b.total, strings.Join(list, ", ")))
}
