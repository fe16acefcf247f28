package worker

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"nightcrier.dev/nightcrier/internal/record/journal"
	texts "nightcrier.dev/nightcrier/internal/text"
)

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

// noteAttempt journals an attempt that has not been made before.
func (b *blocked) noteAttempt(tool, what, why string) {
	what, why = texts.CutWords(what, maxBlockedText), texts.CutWords(why, maxBlockedText)
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
