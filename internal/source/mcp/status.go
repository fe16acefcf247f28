package mcp

import (
	"time"

	"nightcrier.dev/nightcrier"
)

// Status returns a snapshot.
func (s *Source) Status() nightcrier.SourceStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status
}

// Changed returns a channel that is closed at the next change of state or
// error. Take it before Status, so that no change falls in between.
func (s *Source) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// update changes the status under the lock and tells those who wait.
func (s *Source) update(fn func(*nightcrier.SourceStatus)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fn(&s.status)
	close(s.changed)
	s.changed = make(chan struct{})
}

// enter moves the status to a state; Since stays when it is the same.
func (s *Source) enter(state nightcrier.SourceState) {
	s.update(func(st *nightcrier.SourceStatus) { s.move(st, state) })
}

func (s *Source) move(st *nightcrier.SourceStatus, state nightcrier.SourceState) {
	st.RetryAt = time.Time{}
	if st.State == state {
		return
	}
	s.log.Info("source state changed", "event", "source_state", "from", st.State, "to", state)
	st.State, st.Since = state, s.cfg.Now()
}

func (s *Source) enterSubscribed(mode string, again bool) {
	s.update(func(st *nightcrier.SourceStatus) {
		s.move(st, nightcrier.SourceSubscribed)
		st.Mode = mode
		if again {
			st.Reconnects++
		}
	})
}

func (s *Source) enterStale(err error) {
	s.update(func(st *nightcrier.SourceStatus) {
		s.move(st, nightcrier.SourceStale)
		s.fail(st, err)
	})
}

func (s *Source) enterDown(err error, retryAt time.Time) {
	s.update(func(st *nightcrier.SourceStatus) {
		s.move(st, nightcrier.SourceDown)
		s.fail(st, err)
		st.RetryAt = retryAt
	})
}

func (s *Source) noteError(err error) {
	s.update(func(st *nightcrier.SourceStatus) { s.fail(st, err) })
}

func (s *Source) fail(st *nightcrier.SourceStatus, err error) {
	st.LastError, st.LastErrorAt = s.redact.text(err), s.cfg.Now()
}

// noteEvent counts a received payload. It wakes nobody: the sink tells.
func (s *Source) noteEvent(at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status.Events++
	s.status.LastEventAt = at
}
