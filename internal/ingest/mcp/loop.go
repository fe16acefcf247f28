package mcp

import (
	"context"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/retry"
)

// runSessions keeps a session until ctx ends.
func (s *Source) runSessions(ctx context.Context) {
	defer close(s.done)
	defer s.enterState(nightcrier.SourceStopped)
	transport, closeIdle := s.transportOrDefault()
	defer closeIdle()
	s.enterState(nightcrier.SourceConnecting)
	backoff := retry.Backoff{Min: s.cfg.Timings.BackoffMin, Max: s.cfg.Timings.BackoffMax}
	sessions, failures := 0, 0
	for {
		stood, err := s.attemptSession(ctx, transport, sessions > 0)
		if ctx.Err() != nil {
			return
		}
		if stood > 0 {
			sessions++
		}
		if stood >= s.cfg.Timings.Stable {
			failures = 0
		}
		failures++
		wait := backoff.Wait(failures)
		s.enterDown(err, s.cfg.Now().Add(wait))
		s.log.Warn("source is down", "event", "source_down", "error", s.redact.redactError(err), "attempt", failures, "retry_in", wait)
		if !retry.Sleep(ctx, wait) {
			return
		}
	}
}

// attemptSession makes one session and keeps it as long as it is sound. It returns for
// how long it was subscribed and what ended it.
func (s *Source) attemptSession(ctx context.Context, t transport, again bool) (time.Duration, error) {
	leave, err := s.cfg.Gate.Enter(ctx)
	if err != nil {
		return 0, err
	}
	defer leave()
	sess, err := s.openSession(ctx, t)
	if err != nil {
		return 0, err
	}
	defer sess.close(ctx)
	if err := sess.subscribeFaults(ctx); err != nil {
		return 0, err
	}
	leave()
	since := time.Now()
	s.enterSubscribed(sess.mode, again)
	err = sess.watchSession(ctx)
	return max(time.Since(since), 1), err
}
