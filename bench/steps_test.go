package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent"
	"nightcrier.dev/nightcrier/internal/mask"
	"nightcrier.dev/nightcrier/internal/record/audit"
	"nightcrier.dev/nightcrier/internal/record/store"
	"nightcrier.dev/nightcrier/internal/record/workspace"
	"nightcrier.dev/nightcrier/internal/run"
	"nightcrier.dev/nightcrier/internal/run/engine"
	"nightcrier.dev/nightcrier/internal/run/pipeline"
)

// own is a step of ours that does nothing but to say so, and who looks after its run.
type own struct{ run.Supervisor }

func (own) Due() run.Due { return run.UnlessStopped }

func (own) Do(w *run.Work) (run.Done, error) {
	_, err := run.Checkpoint(w, "do", func(ctx context.Context, s *run.Session) (bool, error) {
		return true, s.AppendNote(ctx, "done", run.NewLogItem("it is done"))
	})
	return run.Done{Result: w.Result}, err
}

func (own) Spent(run.Order) (float64, error)                                                 { return 0, nil }
func (own) Learn(context.Context, string, nightcrier.AgentResult) error                      { return nil }
func (own) Ended(nightcrier.Run, nightcrier.Incident, nightcrier.AgentResult, audit.Summary) {}
func (own) Journaled(nightcrier.JournalEntry)                                                {}

// BenchmarkOwnStep is what one more step of ours costs a run: its checkpoint, its rows, its entry in
// the journal and its condition. A run of twenty is held against one of one.
func BenchmarkOwnStep(b *testing.B) {
	dir, quiet := b.TempDir(), slog.New(slog.DiscardHandler)
	root, err := workspace.OpenRoot(filepath.Join(dir, "root"))
	must(b, err)
	defer root.Close()
	db, err := store.Open(b.Context(), store.Options{Path: filepath.Join(dir, store.FileName), Logger: quiet})
	must(b, err)
	defer db.Close()
	e, err := engine.Open(b.Context(), engine.Options{SQLitePath: filepath.Join(dir, "engine.db"), Logger: quiet})
	must(b, err)
	run.New(run.Config{
		Store: db, Root: root, Supervisor: own{}, Mask: mask.New(make([]byte, 32)), Logger: quiet,
		Actions: map[string]run.Action{pipeline.ActionCollect: own{}},
	}).Register(e)
	must(b, e.Launch())
	defer func() { must(b, e.Stop(10*time.Second)) }()

	one, twenty := frozenSteps(b, 1), frozenSteps(b, 20)
	var took [2]time.Duration
	for b.Loop() {
		for i, p := range []pipeline.Frozen{one, twenty} {
			began := time.Now()
			must(b, execute(b.Context(), db, e, p))
			took[i] += time.Since(began)
		}
	}
	b.ReportMetric(float64((took[1]-took[0]).Microseconds())/float64(b.N)/19/1000, "ms/step")
	b.ReportMetric(float64(took[0].Microseconds())/float64(b.N)/1000, "ms/run-of-one")
}

// frozenSteps is a pipeline of so many steps of ours.
func frozenSteps(b *testing.B, n int) pipeline.Frozen {
	b.Helper()
	file := "name: p\non: manual\nsteps:\n"
	for i := range n {
		file += fmt.Sprintf("  - {id: s%d, agent_id: s%d, action: collect, if: input.n > 1}\n", i, i)
	}
	dir := b.TempDir()
	must(b, os.WriteFile(filepath.Join(dir, "p.yaml"), []byte(file), 0o600))
	all, problems := pipeline.Load(dir)
	if len(problems) > 0 {
		b.Fatal(problems)
	}
	p, err := all.Freeze("p", nil)
	must(b, err)
	return p
}

// execute executes a pipeline to its end.
func execute(ctx context.Context, db *store.Store, e *engine.Engine, p pipeline.Frozen) error {
	subject := nightcrier.Subject{Kind: nightcrier.SubjectCall, ID: "1"}
	queued, err := db.EnqueueRun(ctx, store.NewRun{Subject: subject, Pipeline: "p", Executor: "claude-code", Input: []byte(`{"n": 3}`)})
	if err != nil {
		return err
	}
	changed, stop := db.WatchJournal(queued.Run.ID)
	defer stop()
	if _, err := db.AdmitNext(ctx, store.Limits{Total: 9, PerKey: 9}); err != nil {
		return err
	}
	o := run.Order{RunID: queued.Run.ID, Subject: subject, Pipeline: p, Input: []byte(`{"n": 3}`), Agent: agent.Spec{Executor: "claude-code"}}
	if err := e.Start(run.Workflow, o.RunID, o); err != nil {
		return err
	}
	for {
		r, err := db.Run(ctx, o.RunID)
		if err == nil && r.Status == nightcrier.Finished && r.Outcome != nightcrier.StateSuccess {
			err = errors.New(r.FailureReason)
		}
		if err != nil || r.Status == nightcrier.Finished {
			return err
		}
		<-changed
	}
}
