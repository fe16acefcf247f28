package store

import "sync"

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
