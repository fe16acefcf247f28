package kept

import (
	"context"
	"errors"
	"sync"

	"nightcrier.dev/nightcrier/internal/mask"
	"nightcrier.dev/nightcrier/internal/record/journal"
	"nightcrier.dev/nightcrier/internal/record/replay"
	"nightcrier.dev/nightcrier/internal/record/workspace"
)

// Step keeps what a step of ours reads, until it is closed.
type Step struct {
	rec *replay.Recorder

	mu       sync.Mutex
	requests []journal.Request
}

// BeginStep begins the record of a step in the workspace of its incident. Version is that of
// this program.
func BeginStep(ws *workspace.Workspace, runID, step, version string, m *mask.Masker) (*Step, error) {
	rec, err := replay.NewRecorder(runID, step, version, m.Bytes, replay.Whole(func(packed []byte) error {
		return ws.WriteFile(replay.File(step), packed, 0o600)
	}))
	return &Step{rec: rec}, err
}

// Keep is c, with all that is asked of it kept.
func (s *Step) Keep(c Cluster) (Cluster, error) { return c.through(s.rec.Take) }

// Again is the cluster as it was then: what is asked of it is answered from then, and kept.
func (s *Step) Again(then *replay.Player) (Cluster, error) {
	return Cluster{}.through(s.rec.Again(then))
}

// Audit keeps which requests a guard tells of, and passes them on.
func (s *Step) Audit(tell func(context.Context, journal.Request) error) func(context.Context, journal.Request) error {
	return func(ctx context.Context, q journal.Request) error {
		s.mu.Lock()
		s.requests = append(s.requests, q)
		s.mu.Unlock()
		return tell(ctx, q)
	}
}

// Close ends the record.
func (s *Step) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return errors.Join(s.rec.Take(replay.Requests, &s.requests, func() error { return nil }), s.rec.Close())
}
