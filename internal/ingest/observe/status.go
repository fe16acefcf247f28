package observe

import (
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/ingest/detect"
)

// Status is how observing a cluster goes.
type Status struct {
	State nightcrier.SourceState
	// Since is when it entered the state.
	Since time.Time
	// Problems name the kinds that are not followed, and why.
	Problems []string
	// Faults counts the edges that were stored, Relists the snapshots that had to
	// be taken again.
	Faults, Relists int64
	LastFaultAt     time.Time
	LastError       string
	LastErrorAt     time.Time
	// RetryAt is when the next attempt is due, while down.
	RetryAt time.Time
	// Detector counts what it holds, as of a minute ago at most.
	Detector detect.Stats
}

// persistent is how many attempts in a row must fail before a kind counts as
// not followed: a watch that is renewed after a hiccup misses nothing.
const persistent = 2

// kindState is where the loop of one kind, in one namespace or in all, stands.
type kindState struct {
	what     detect.Watched
	listed   bool // there was a snapshot
	watching bool
	denied   bool
	failures int
	err      error
	retryAt  time.Time
}

// displayName is "Pod", or "Pod in shop" where only some namespaces are looked at.
func (k *kindState) displayName() string {
	if k.what.Namespace == "" {
		return string(k.what.Kind)
	}
	return string(k.what.Kind) + " in " + k.what.Namespace
}

// isFailing reports whether the kind ought to be followed and is not.
func (k *kindState) isFailing() bool { return !k.denied && k.failures >= persistent }

// board is the status that the loops write and others read.
type board struct {
	log    *slog.Logger
	synced chan struct{}

	mu     sync.Mutex
	status Status
	kinds  []*kindState
}

func newBoard(kinds []detect.Watched, log *slog.Logger) *board {
	b := &board{log: log, synced: make(chan struct{})}
	for _, w := range kinds {
		b.kinds = append(b.kinds, &kindState{what: w})
	}
	b.status.State, b.status.Since = nightcrier.SourceConnecting, time.Now()
	return b
}

func (b *board) readStatus() Status {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.status
	for _, k := range b.kinds {
		if k.denied || k.isFailing() {
			s.Problems = append(s.Problems, k.displayName()+": "+k.err.Error())
		}
	}
	return s
}

// changeKind changes what is known of a kind, and what follows from it.
func (b *board) changeKind(what detect.Watched, change func(*kindState)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.IndexFunc(b.kinds, func(k *kindState) bool { return k.what == what })
	change(b.kinds[i])
	b.concludeState()
}

func (b *board) markListed(what detect.Watched) {
	b.changeKind(what, func(k *kindState) {
		if k.listed {
			b.status.Relists++
		}
		*k = kindState{what: what, listed: true, watching: k.watching}
	})
}

func (b *board) markWatching(what detect.Watched) {
	b.changeKind(what, func(k *kindState) { *k = kindState{what: what, listed: true, watching: true} })
}

func (b *board) markFailed(what detect.Watched, err error, failures int, retryAt time.Time) {
	b.changeKind(what, func(k *kindState) {
		k.failures, k.err, k.retryAt, k.denied = failures, err, retryAt, false
		k.watching = k.watching && !k.isFailing()
		b.noteError(err)
	})
	b.log.Debug("a kind is not followed", "event", "kind_failed", "kind", what.Kind, "namespace", what.Namespace, "error", err, "attempt", failures, "retry_at", retryAt)
}

// markDenied writes down that a kind cannot be had. It is told once, and again when
// the reason is another one.
func (b *board) markDenied(what detect.Watched, err error) {
	known := false
	b.changeKind(what, func(k *kindState) {
		known = k.denied && k.err.Error() == err.Error()
		k.denied, k.err, k.watching = true, err, false
		if nightcrier.CodeOf(err) != nightcrier.NotFound {
			b.noteError(err)
		}
	})
	if !known {
		b.log.Warn("a kind cannot be followed", "event", "kind_denied", "kind", what.Kind, "namespace", what.Namespace, "error", err)
	}
}

func (b *board) noteError(err error) {
	b.status.LastError, b.status.LastErrorAt = err.Error(), time.Now()
}

// noteStoreError writes down that the sink failed.
func (b *board) noteStoreError(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.noteError(nightcrier.Errorf(nightcrier.CodeOf(err), "storing a fault: %w", err))
}

// countFault counts a fault that was stored.
func (b *board) countFault() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.status.Faults++
	b.status.LastFaultAt = time.Now()
}

func (b *board) setStats(s detect.Stats) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.status.Detector = s
}

// concludeState finds the state that the kinds together make.
func (b *board) concludeState() {
	watching, failing, open := 0, 0, 0
	b.status.RetryAt = time.Time{}
	for _, k := range b.kinds {
		switch {
		case k.isFailing():
			failing++
			if b.status.RetryAt.IsZero() || k.retryAt.Before(b.status.RetryAt) {
				b.status.RetryAt = k.retryAt
			}
		case k.watching:
			watching++
		case !k.denied:
			open++
		}
	}
	state := b.status.State
	switch {
	case watching > 0 && failing > 0:
		state = nightcrier.SourceStale
	case watching == 0 && (failing > 0 || open == 0):
		state = nightcrier.SourceDown
	case open == 0:
		state = nightcrier.SourceSubscribed
	}
	if state != nightcrier.SourceDown {
		b.status.RetryAt = time.Time{}
	}
	b.enterState(state)
	if !slices.ContainsFunc(b.kinds, func(k *kindState) bool { return !k.listed && !k.denied }) {
		b.markSynced()
	}
}

func (b *board) enterState(state nightcrier.SourceState) {
	if b.status.State == state {
		return
	}
	b.log.Info("source state changed", "event", "source_state", "from", b.status.State, "to", state, "error", b.currentProblem())
	b.status.State, b.status.Since = state, time.Now()
}

// currentProblem says what is wrong now, "" when nothing is.
func (b *board) currentProblem() string {
	var kinds []string
	for _, k := range b.kinds {
		if k.isFailing() {
			kinds = append(kinds, k.displayName())
		}
	}
	if len(kinds) == 0 {
		return ""
	}
	return strings.Join(kinds, ", ") + ": " + b.status.LastError
}

func (b *board) markSynced() {
	select {
	case <-b.synced:
	default:
		close(b.synced)
	}
}
