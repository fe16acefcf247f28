package run

import (
	"context"
	"errors"

	"nightcrier.dev/nightcrier/internal/agent/backend"
	"nightcrier.dev/nightcrier/internal/mask"
)

// maskerFor is what masks all that is said of a run. It learns: what was a secret in one place
// is one in every other.
func (r *Runner) maskerFor(runID string) *mask.Masker {
	r.mu.Lock()
	defer r.mu.Unlock()
	m, ok := r.masks[runID]
	if !ok {
		m = r.cfg.Mask.Learning()
		r.masks[runID] = m
	}
	return m
}

func (r *Runner) forgetMask(runID string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.masks, runID)
}

// learnFrom takes over what a worker has learned. What cannot be read is no reason to stop:
// the worker has masked by it what it handed over.
func (r *Runner) learnFrom(m *mask.Masker, ended backend.Ended) {
	if err := errors.Join(ended.LearnedErr, m.Unseal(ended.Learned)); err != nil {
		r.cfg.Logger.Warn("what a worker has learned of secrets cannot be read", "event", "learned", "error", err)
	}
}

// recallLearned has a run that goes on after a restart of the server know again what its workers
// that have ended had learned.
func (r *Runner) recallLearned(ctx context.Context, runID string) {
	m := r.maskerFor(runID)
	err := r.eachWorker(ctx, runID, func(w backend.Owned) error {
		if w.Alive {
			return nil // it hands it over when it ends
		}
		ended, err := r.cfg.Workers.Follow(ctx, w.Handle, 0, nil)
		if err == nil {
			r.learnFrom(m, ended)
		}
		return err
	})
	if err != nil {
		r.cfg.Logger.Warn("what the workers of a run have learned of secrets cannot be read", "event", "learned", "error", err)
	}
}
