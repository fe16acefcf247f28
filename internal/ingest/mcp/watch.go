package mcp

import (
	"context"
	"errors"
	"fmt"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/retry"
)

// maxMissed is how many health checks in a row may go unanswered before the
// session is given up; the second comes sooner than a poll.
const maxMissed = 2

// watchSession keeps an eye on a subscribed session until there is a doubt about it
// that only a fresh session can clear, and returns that doubt.
func (s *session) watchSession(ctx context.Context) error {
	closed := make(chan error, 1)
	go func() { closed <- s.client.Wait() }() // ends with close
	poll := time.NewTimer(retry.Spread(s.timings.Poll))
	defer poll.Stop()
	grace := time.NewTimer(s.timings.StreamGrace)
	defer grace.Stop()
	missed := 0
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-closed:
			return nightcrier.Errorf(nightcrier.Unreachable, "the session ended: %w", orUnknown(err))
		case err := <-s.wire.broken:
			return nightcrier.Errorf(nightcrier.Unreachable, "%w", err)
		case <-grace.C:
			if !s.wire.attached.Load() {
				return nightcrier.Errorf(nightcrier.Unreachable, "the notification stream was gone for %v", s.timings.StreamGrace)
			}
			continue
		case <-s.wire.poke:
			if !s.wire.attached.Load() {
				s.src.enterStale(errors.New("the notification stream broke; faults may be missed until it stands again"))
				grace.Reset(s.timings.StreamGrace)
				continue
			}
		case <-poll.C:
		}
		wait, err := s.examineSession(ctx, &missed)
		if err != nil {
			return err
		}
		poll.Reset(wait)
	}
}

// examineSession checks the subscription and returns when to check again, or why the
// session is given up.
func (s *session) examineSession(ctx context.Context, missed *int) (time.Duration, error) {
	err := s.checkSubscription(ctx)
	var gone *lost
	switch {
	case ctx.Err() != nil:
		return 0, ctx.Err()
	case err == nil:
		*missed = 0
		if s.wire.attached.Load() {
			s.src.enterState(nightcrier.SourceSubscribed)
		}
		return retry.Spread(s.timings.Poll), nil
	case errors.As(err, &gone):
		return 0, err
	}
	if *missed++; *missed >= maxMissed {
		return 0, fmt.Errorf("%d health checks in a row failed: %w", maxMissed, err)
	}
	s.src.enterStale(fmt.Errorf("health check failed: %w", err))
	return s.timings.Poll / 6, nil
}

func orUnknown(err error) error {
	if err == nil {
		return errors.New("closed by the server")
	}
	return err
}
