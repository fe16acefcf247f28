package mcp

import (
	"context"
	"errors"

	"nightcrier.dev/nightcrier"
)

// Probe goes the way of a source up to the subscription, and returns the mode that it
// would subscribe in. It does not subscribe: some servers keep every subscription for
// ever. Errors hold no credential.
func Probe(ctx context.Context, cfg Config) (mode string, err error) {
	s := New(cfg, nil)
	t, closeIdle := s.transportOrDefault()
	defer closeIdle()
	sess, err := s.openSession(ctx, t)
	if err == nil {
		defer sess.close(ctx)
		err = sess.chooseSubscription(ctx)
	}
	if err != nil {
		return "", nightcrier.Errorf(nightcrier.CodeOf(err), "%w", errors.New(s.redact.redactError(err)))
	}
	return sess.mode, nil
}
