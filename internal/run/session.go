package run

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/mask"
	"nightcrier.dev/nightcrier/internal/record/evidence"
	"nightcrier.dev/nightcrier/internal/record/journal"
	"nightcrier.dev/nightcrier/internal/record/workspace"
)

// EvidenceDir is where a workspace has what was recorded.
const EvidenceDir = "output/evidence"

// Session is a run in one of its checkpoints, with all open that its order names. A checkpoint
// opens it once and hands it down.
type Session struct {
	Order    Order
	Incident nightcrier.Incident // as it was when the checkpoint began
	Mask     *mask.Masker        // of all that is said of the run
	Log      *slog.Logger

	// Workspace is the incident's, nil where there is none, and NoWorkspace why.
	Workspace   *workspace.Workspace
	NoWorkspace error
	// Evidence is what was recorded of the incident, OfRun the ids that this run recorded:
	// what an earlier one saw shows nothing about now. Both are there after OpenEvidence.
	Evidence *evidence.Recorder
	OfRun    map[string]bool

	runner *Runner
	place  place
}

// OpenSession opens what a run has made already.
func (r *Runner) OpenSession(ctx context.Context, o Order) (*Session, error) {
	return r.openPlace(ctx, o, place{})
}

// openPlace opens what a run has made already, for a step of it.
func (r *Runner) openPlace(ctx context.Context, o Order, at place) (*Session, error) {
	inc, err := r.incidentOf(ctx, o)
	if err != nil {
		return nil, err
	}
	ws, err := r.cfg.Root.Open(o.WorkspaceID())
	if err == nil && at.own {
		ws, err = openOwn(ws, nightcrier.DerivedID(o.RunID, at.step), true)
	}
	return r.newSession(o, at, inc, ws, err), nil
}

// incidentOf is the incident that a run is about, the zero one where it is about anything else.
func (r *Runner) incidentOf(ctx context.Context, o Order) (nightcrier.Incident, error) {
	if o.IncidentID() == "" {
		return nightcrier.Incident{}, nil
	}
	return r.cfg.Store.Incident(ctx, o.IncidentID())
}

// ownDir is where a run's workspace has those of the agents of its steps.
const ownDir = "agents"

// openOwn opens, and may make, the workspace of one agent in that of its run, which it closes.
func openOwn(of *workspace.Workspace, id string, mayMake bool) (*workspace.Workspace, error) {
	root, err := workspace.OpenRoot(filepath.Join(of.Dir(), ownDir))
	if err != nil {
		return nil, errors.Join(err, of.Close())
	}
	open := root.Open
	if mayMake {
		open = root.Create
	}
	ws, err := open(id)
	if closed := errors.Join(root.Close(), of.Close()); err == nil {
		err = closed
	}
	return ws, err
}

// beginSession begins a run, and makes its workspace.
func (r *Runner) beginSession(ctx context.Context, o Order, at place) (*Session, error) {
	inc, err := r.cfg.Store.BeginRun(ctx, o.RunID)
	if err != nil {
		return nil, err
	}
	ws, err := r.cfg.Root.Create(o.WorkspaceID())
	if err == nil && at.own {
		ws, err = openOwn(ws, nightcrier.DerivedID(o.RunID, at.step), true)
	}
	s := r.newSession(o, at, inc, ws, err)
	if inc.ID != "" {
		s.Log.Info("investigation begins", "event", "investigation_started", "run", o.RunID)
	} else {
		s.Log.Info("run begins", "event", "run_started")
	}
	if s.Workspace == nil {
		return s, nil
	}
	if err := s.noteState(ctx, journal.State{To: nightcrier.StateCreated}); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (r *Runner) newSession(o Order, at place, inc nightcrier.Incident, ws *workspace.Workspace, err error) *Session {
	s := &Session{runner: r, place: at, Order: o, Incident: inc, Mask: r.maskerFor(o.RunID), Log: r.loggerFor(o, inc), NoWorkspace: err}
	if err == nil {
		s.Workspace = ws
	}
	return s
}

// Now is the time by the runner's clock.
func (s *Session) Now() time.Time { return s.runner.cfg.Now() }

// Step is the name of the step that is under way.
func (s *Session) Step() string { return s.place.step }

// OpenEvidence opens what was recorded until now.
func (s *Session) OpenEvidence(ctx context.Context) (err error) {
	if s.Evidence, err = evidence.Open(filepath.Join(s.Workspace.Dir(), EvidenceDir)); err != nil {
		return err
	}
	s.OfRun = map[string]bool{}
	for _, run := range s.Order.runs() {
		if err := journal.EachEntry(ctx, s.runner.cfg.Store, run, 1, func(e nightcrier.JournalEntry) error {
			if e.Type != nightcrier.EntryEvidence {
				return nil
			}
			kept, err := journal.Decode[journal.Evidence](e)
			s.OfRun[kept.ID] = true
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

// Close closes what is open.
func (s *Session) Close() {
	var err error
	if s.Evidence != nil {
		err = s.Evidence.Close()
	}
	if s.Workspace != nil {
		err = errors.Join(err, s.Workspace.Close())
	}
	if err != nil {
		s.Log.Warn("what a step had open could not be closed", "event", "session", "error", err)
	}
}
