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

// updateStatus changes the status under the lock and tells those who wait.
func (s *Source) updateStatus(fn func(*nightcrier.SourceStatus)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fn(&s.status)
	close(s.changed)
	s.changed = make(chan struct{})
}

// enterState moves the status to a state; Since stays when it is the same.
func (s *Source) enterState(state nightcrier.SourceState) {
	s.updateStatus(func(st *nightcrier.SourceStatus) { s.moveState(st, state) })
}

func (s *Source) moveState(st *nightcrier.SourceStatus, state nightcrier.SourceState) {
	st.RetryAt = time.Time{}
	if st.State == state {
		return
	}
	s.log.Info("source state changed", "event", "source_state", "from", st.State, "to", state)
	st.State, st.Since = state, s.cfg.Now()
}

func (s *Source) enterSubscribed(mode string, again bool) {
	s.updateStatus(func(st *nightcrier.SourceStatus) {
		s.moveState(st, nightcrier.SourceSubscribed)
		st.Mode = mode
		if again {
			st.Reconnects++
		}
	})
}

func (s *Source) enterStale(err error) {
	s.updateStatus(func(st *nightcrier.SourceStatus) {
		s.moveState(st, nightcrier.SourceStale)
		s.setError(st, err)
	})
}

func (s *Source) enterDown(err error, retryAt time.Time) {
	s.updateStatus(func(st *nightcrier.SourceStatus) {
		s.moveState(st, nightcrier.SourceDown)
		s.setError(st, err)
		st.RetryAt = retryAt
	})
}

func (s *Source) noteError(err error) {
	s.updateStatus(func(st *nightcrier.SourceStatus) { s.setError(st, err) })
}

func (s *Source) setError(st *nightcrier.SourceStatus, err error) {
	st.LastError, st.LastErrorAt = s.redact.redactError(err), s.cfg.Now()
}

// noteEvent counts a received payload. It wakes nobody: the sink tells.
func (s *Source) noteEvent(at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status.Events++
	s.status.LastEventAt = at
}
