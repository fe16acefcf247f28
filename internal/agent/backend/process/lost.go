package process

import (
	"context"
	"errors"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent/backend"
	"nightcrier.dev/nightcrier/internal/agent/internal/workdir"
	"nightcrier.dev/nightcrier/internal/record/journal"
	"nightcrier.dev/nightcrier/internal/sandbox"
)

// endTime bounds how long a worker's agent may take to die that is killed.
const endTime = 30 * time.Second

// reapWorker ends what is left of a dead worker's agent and of its tool servers, verified,
// and writes the result that the worker could not. Whose they are its name says: a spec on disk
// may be damaged, or of another version. The caller holds the worker's lock.
func reapWorker(ctx context.Context, d workdir.Dir, worker, why string, boxes sandbox.Reaper) (nightcrier.AgentResult, error) {
	if err := endSandboxes(ctx, boxes, worker); err != nil {
		return nightcrier.AgentResult{}, err
	}
	r := nightcrier.AgentResult{
		State: nightcrier.StateFailed, FailureClass: nightcrier.FailLost, TerminalEvent: "missing",
		FailureReason: why, EndedAt: time.Now().UTC(),
	}
	return r, writeLostResult(d, specOf(d, worker), r)
}

// specOf is what is known of what a worker was to do: at least which attempt it is.
func specOf(d workdir.Dir, worker string) *backend.Spec {
	var spec backend.Spec
	if d.ReadFile(workdir.SpecFile, &spec) != nil || spec.WorkerName() != worker {
		spec = backend.Spec{}
		spec.RunID, spec.Attempt, _ = parseName(worker) // a handle is one
	}
	return &spec
}

// writeLostResult adds the last transition to the dead worker's spool and writes its
// result. Doing it twice, after a crash in between, adds a second transition
// and no harm.
func writeLostResult(d workdir.Dir, spec *backend.Spec, r nightcrier.AgentResult) error {
	s, err := workdir.OpenSpool(d, spec, time.Now)
	if err != nil {
		return err
	}
	last := nightcrier.State("")
	err = s.ReadEntries(func(e nightcrier.JournalEntry) error {
		if e.Type == nightcrier.EntryState {
			if st, err := journal.Decode[journal.State](e); err == nil {
				last = st.To
			}
		}
		return nil
	})
	if err == nil && last == "" {
		last = nightcrier.StateCreated
		err = s.AppendItem(journal.OfState(journal.State{To: last}))
	}
	if err == nil && !last.Terminal() {
		err = s.AppendItem(journal.OfState(journal.State{From: last, To: r.State, Reason: r.FailureReason, FailureClass: r.FailureClass}))
	}
	if err = errors.Join(err, s.Close()); err != nil {
		return err
	}
	return d.WriteFile(workdir.ResultFile, r)
}
