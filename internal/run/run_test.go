package run

import (
	"bytes"
	"context"
	"errors"
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
	_, err = root.Create(inc.ID)
	must(err)
	workers := &idle{}
	r := New(Config{Store: db, Root: root, Workers: workers, Mask: mask.New(bytes.Repeat([]byte("k"), 32)), Logger: slog.New(slog.DiscardHandler)})
	s, err := r.OpenSession(t.Context(), Order{RunID: run.ID, Subject: run.Subject, Agent: agent.Spec{Executor: "script"}})
	must(err)
	defer s.Close()
	h := backend.Handle{Backend: "script", ID: run.ID + "-1"}
	cases := map[string]struct {
		worker backend.Owned
		want   launched
	}{
		"alive":           {backend.Owned{Handle: h, RunID: run.ID, Attempt: 1, Alive: true}, launched{Handle: h, Result: nightcrier.AgentResult{State: nightcrier.StateStarting}}},
		"left something":  {backend.Owned{Handle: h, RunID: run.ID, Attempt: 1, Processes: 1}, launched{Handle: h, Result: nightcrier.AgentResult{State: nightcrier.StateStarting}}},
		"gone":            {backend.Owned{Handle: h, RunID: run.ID, Attempt: 1}, launched{}},
		"another attempt": {backend.Owned{Handle: h, RunID: run.ID, Attempt: 2, Alive: true}, launched{}},
		"another run":     {backend.Owned{Handle: h, RunID: nightcrier.NewID(), Attempt: 1, Alive: true}, launched{}},
	}
	launch := func(end nightcrier.State) {
		for name, tt := range cases {
			workers.there = []backend.Owned{tt.worker}
			got, err := s.launchWorker(t.Context(), (&Work{place: place{step: "investigate"}}).firstAttempt(1))
			must(err)
			if tt.want.Handle == h && got.Result.State != tt.want.Result.State || got.Handle != tt.want.Handle || tt.want.Handle != h && got.Result.State != end {
				t.Errorf("%s, %s: %+v", end, name, got)
			}
		}
	}
	s.Order.Deadline = now
	launch(nightcrier.StateTimeout)
	_, err = db.RequestCancel(t.Context(), inc.ID, "somebody")
	must(err)
	launch(nightcrier.StateCancelled)
}

// refusing are Workers that take a cancellation at the second time only.
type refusing struct {
	Workers
	asked chan string
}

func (w refusing) Cancel(_ context.Context, _ backend.Handle, cause string) error {
	w.asked <- cause
	if len(w.asked) == 1 {
		return errors.New("not now")
	}
	return nil
}

// A cancellation that could not be handed over is handed over again.
func TestACancelIsDeliveredAgain(t *testing.T) {
	dir := t.TempDir()
	db, err := store.Open(t.Context(), store.Options{Path: filepath.Join(dir, store.FileName), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	queued, err := db.EnqueueRun(t.Context(), store.NewRun{Subject: nightcrier.Subject{Kind: nightcrier.SubjectCall, ID: "1"}, Pipeline: "p", Executor: "claude-code"})
	if err == nil {
		_, err = db.AdmitNext(t.Context(), store.Limits{Total: 1, PerKey: 1})
	}
	if err == nil {
		_, err = db.RequestCancelRun(t.Context(), queued.Run.ID, "somebody")
	}
	if err != nil {
		t.Fatal(err)
	}
	workers := refusing{asked: make(chan string, 2)}
	r := New(Config{Store: db, Workers: workers, Logger: slog.New(slog.DiscardHandler), RetryPause: time.Millisecond})
	s := &Session{runner: r, Order: Order{RunID: queued.Run.ID}, Log: slog.New(slog.DiscardHandler)}
	s.forwardCancel(t.Context(), backend.Handle{})
	if len(workers.asked) != 2 {
		t.Errorf("it was asked %d times", len(workers.asked))
	}
}

func TestWhatWasAskedAgainIsRecordedOnce(t *testing.T) {
	sent, asked := []byte("# User prompt\n\nlook"), []byte("- nothing")
	once := appendAsked(sent, asked)
	if twice := appendAsked(once, asked); !bytes.Equal(twice, once) || !bytes.HasPrefix(once, sent) || bytes.Count(once, asked) != 1 {
		t.Errorf("recorded as\n%s", twice)
	}
}
