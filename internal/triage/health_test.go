package triage

import (
	"strings"
	"testing"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent"
	"nightcrier.dev/nightcrier/internal/record/store"
	"nightcrier.dev/nightcrier/internal/run"
	"nightcrier.dev/nightcrier/internal/run/pipeline"
)

// A look that fails for good ends its run: the next one waits for its key.
func TestALookThatFailsForGoodEnds(t *testing.T) {
	b := newBench(t, "claude-code", nil)
	b.clusters.err = nightcrier.Errorf(nightcrier.Internal, "what was kept is damaged")
	all, problems := pipeline.Load("")
	p, err := all.Freeze("cluster-health", nil)
	if err != nil || len(problems) > 0 {
		t.Fatal(err, problems)
	}
	e, err := b.store.EnqueueRun(t.Context(), store.NewRun{Subject: nightcrier.Subject{Kind: nightcrier.SubjectCall, ID: "1"}, Pipeline: "cluster-health", Executor: "claude-code"})
	b.must(err)
	_, err = b.store.AdmitNext(t.Context(), store.Limits{Total: 9, PerKey: 9})
	b.must(err)
	changed, stop := b.store.WatchJournal(e.Run.ID)
	defer stop()
	b.must(b.engine.Start(run.Workflow, e.Run.ID, run.Order{RunID: e.Run.ID, Subject: e.Run.Subject, Pipeline: p, Agent: agent.Spec{Executor: "claude-code"}}))
	for {
		r, err := b.store.Run(t.Context(), e.Run.ID)
		b.must(err)
		if r.Status == nightcrier.Finished {
			if r.Outcome != nightcrier.StateFailed || r.FailureClass != nightcrier.FailInternal || !strings.Contains(r.FailureReason, "what was kept is damaged") {
				t.Errorf("%+v", r)
			}
			return
		}
		<-changed
	}
}
