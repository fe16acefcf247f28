package run

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/mask"
	"nightcrier.dev/nightcrier/internal/record/evidence"
	"nightcrier.dev/nightcrier/internal/record/journal"
	"nightcrier.dev/nightcrier/internal/record/workspace"
	"nightcrier.dev/nightcrier/internal/run/engine"
)

// session is a run in one of its steps, with all open that its order names. A step opens it
// once and hands it down.
type session struct {
	*Runner
	order    Order
	incident nightcrier.Incident // as it was when the step began
	mask     *mask.Masker        // of all that is said of the run
	log      *slog.Logger

	// ws is the incident's workspace, nil where there is none, and noWorkspace why.
	ws          *workspace.Workspace
	noWorkspace error
	// evidence is what was recorded of the incident, ofRun the ids that this run recorded:
	// what an earlier one saw shows nothing about now. Both are there after openEvidence.
	evidence *evidence.Recorder
	ofRun    map[string]bool
}

// inSession makes a step of a run, in a session of its own.
func inSession[T any](ctx engine.Context, r *Runner, o Order, name string, do func(context.Context, *session) (T, error)) (T, error) {
	return engine.Step(ctx, name, func(c context.Context) (result T, err error) {
		s, err := r.openSession(c, o)
		if err != nil {
			return result, err
		}
		defer s.close()
		return do(c, s)
	})
}

// openSession opens what a run has made already.
func (r *Runner) openSession(ctx context.Context, o Order) (*session, error) {
	inc, err := r.cfg.Store.Incident(ctx, o.IncidentID)
	if err != nil {
		return nil, err
	}
	ws, err := r.cfg.Root.Open(o.IncidentID)
	return r.newSession(o, inc, ws, err), nil
}

// beginSession begins a run, and makes its workspace.
func (r *Runner) beginSession(ctx context.Context, o Order) (*session, error) {
	inc, err := r.cfg.Store.BeginRun(ctx, o.RunID)
	if err != nil {
		return nil, err
	}
	ws, err := r.cfg.Root.Create(o.IncidentID)
	return r.newSession(o, inc, ws, err), nil
}

func (r *Runner) newSession(o Order, inc nightcrier.Incident, ws *workspace.Workspace, err error) *session {
	s := &session{Runner: r, order: o, incident: inc, mask: r.maskerFor(o.RunID), log: r.loggerFor(inc), noWorkspace: err}
	if err == nil {
		s.ws = ws
	}
	return s
}

// openEvidence opens what was recorded until now.
func (s *session) openEvidence(ctx context.Context) (err error) {
	if s.evidence, err = evidence.Open(filepath.Join(s.ws.Dir(), evidenceDir)); err != nil {
		return err
	}
	s.ofRun = map[string]bool{}
	return s.eachEntry(ctx, func(e nightcrier.JournalEntry) error {
		if e.Type != nightcrier.EntryEvidence {
			return nil
		}
		kept, err := journal.Decode[journal.Evidence](e)
		s.ofRun[kept.ID] = true
		return err
	})
}

func (s *session) close() {
	var err error
	if s.evidence != nil {
		err = s.evidence.Close()
	}
	if s.ws != nil {
		err = errors.Join(err, s.ws.Close())
	}
	if err != nil {
		s.log.Warn("what a step had open could not be closed", "event", "session", "error", err)
	}
}
