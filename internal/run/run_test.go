package run

import (
	"bytes"
	"context"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent"
	"nightcrier.dev/nightcrier/internal/agent/backend"
	"nightcrier.dev/nightcrier/internal/mask"
	"nightcrier.dev/nightcrier/internal/record/store"
	"nightcrier.dev/nightcrier/internal/record/workspace"
)

// idle are Workers of which there are those that a test sets, and which start none.
type idle struct {
	Workers
	there []backend.Owned
}

func (w *idle) List(context.Context) ([]backend.Owned, error) { return w.there, nil }

// A server that died between a launch and its checkpoint left a worker: it is awaited, also
// where the run was cancelled in the meantime.
func TestALaunchWithoutItsCheckpointIsAwaited(t *testing.T) {
	dir := t.TempDir()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	root, err := workspace.OpenRoot(filepath.Join(dir, "root"))
	must(err)
	defer root.Close()
	db, err := store.Open(t.Context(), store.Options{Path: filepath.Join(dir, store.FileName), Logger: slog.New(slog.DiscardHandler)})
	must(err)
	defer db.Close()
	now := time.Now()
	ev := nightcrier.Event{ID: nightcrier.NewID(), Cluster: "prod", Source: "test", ReceivedAt: now}
	inc := nightcrier.Incident{ID: nightcrier.NewID(), Cluster: "prod", EventID: ev.ID, Status: nightcrier.Investigating, CreatedAt: now, StartedAt: now}
	run := nightcrier.Run{ID: nightcrier.NewID(), Subject: nightcrier.Subject{Kind: nightcrier.SubjectIncident, ID: inc.ID}, Key: "prod", Executor: "script", QueuedAt: now, AdmittedAt: now}
	inc.RunID = run.ID
	must(db.Adopt(t.Context(), inc, ev, run))
	_, err = db.RequestCancel(t.Context(), inc.ID, "somebody")
	must(err)
	workers := &idle{}
	r := New(Config{Store: db, Root: root, Workers: workers, Mask: mask.New(bytes.Repeat([]byte("k"), 32)), Logger: slog.New(slog.DiscardHandler)})
	s, err := r.OpenSession(t.Context(), Order{RunID: run.ID, Subject: run.Subject, Agent: agent.Spec{Executor: "script"}})
	must(err)
	defer s.Close()
	h := backend.Handle{Backend: "script", ID: run.ID + "-1"}
	for name, tt := range map[string]struct {
		worker backend.Owned
		want   launched
	}{
		"alive":           {backend.Owned{Handle: h, RunID: run.ID, Attempt: 1, Alive: true}, launched{Handle: h, Result: nightcrier.AgentResult{State: nightcrier.StateStarting}}},
		"left something":  {backend.Owned{Handle: h, RunID: run.ID, Attempt: 1, Processes: 1}, launched{Handle: h, Result: nightcrier.AgentResult{State: nightcrier.StateStarting}}},
		"gone":            {backend.Owned{Handle: h, RunID: run.ID, Attempt: 1}, launched{}},
		"another attempt": {backend.Owned{Handle: h, RunID: run.ID, Attempt: 2, Alive: true}, launched{}},
		"another run":     {backend.Owned{Handle: h, RunID: nightcrier.NewID(), Attempt: 1, Alive: true}, launched{}},
	} {
		workers.there = []backend.Owned{tt.worker}
		got, err := s.launchWorker(t.Context(), (&Work{place: place{step: "investigate"}}).firstAttempt(1))
		must(err)
		if tt.want.Handle == h && got.Result.State != tt.want.Result.State || got.Handle != tt.want.Handle || tt.want.Handle != h && got.Result.State != nightcrier.StateCancelled {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestWhatWasAskedAgainIsRecordedOnce(t *testing.T) {
	sent, asked := []byte("# User prompt\n\nlook"), []byte("- nothing")
	once := appendAsked(sent, asked)
	if twice := appendAsked(once, asked); !bytes.Equal(twice, once) || !bytes.HasPrefix(once, sent) || bytes.Count(once, asked) != 1 {
		t.Errorf("recorded as\n%s", twice)
	}
}
