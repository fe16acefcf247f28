package worker

import (
	"context"
	"errors"
	"strings"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/record/journal"
	"nightcrier.dev/nightcrier/internal/sandbox"
	"nightcrier.dev/nightcrier/internal/sandbox/process"
)

// sweepTimeout bounds how long a dead worker's agent may take to die.
const sweepTimeout = 30 * time.Second

// buryWorker ends what is left of a dead worker's agent and of its tool servers, verified,
// and writes the result that the worker could not. The caller holds the worker's lock.
func buryWorker(ctx context.Context, d directory, boxes sandbox.Reaper) (nightcrier.AgentResult, error) {
	var spec Spec
	if err := d.readFile("spec.json", &spec); err != nil {
		return nightcrier.AgentResult{}, err
	}
	ours := func(l sandbox.Leftover) bool {
		return l.Name == spec.boxName() || strings.HasPrefix(l.Name, spec.boxName()+"-")
	}
	if _, err := destroySandboxes(ctx, boxes, ours); err != nil {
		return nightcrier.AgentResult{}, err
	}
	r := nightcrier.AgentResult{
		State: nightcrier.StateFailed, FailureClass: nightcrier.FailLost, TerminalEvent: "missing",
		FailureReason: "the worker died while the agent ran; the agent was ended", EndedAt: time.Now().UTC(),
	}
	return r, writeLostResult(d, &spec, r)
}

// Clean ends the sandboxes that dead workers left and returns their names. dir is the
// one that holds the workers' directories. Nobody may follow such a worker any more,
// and its directory may be gone.
func Clean(ctx context.Context, dir string) ([]string, error) {
	k := process.Reaper{Owner: process.OwnerOf(dir)}
	return destroySandboxes(ctx, k, func(l sandbox.Leftover) bool { return l.Orphan })
}

// destroySandboxes ends the sandboxes that are chosen and returns their names.
func destroySandboxes(ctx context.Context, boxes sandbox.Reaper, chosen func(sandbox.Leftover) bool) (names []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, sweepTimeout)
	defer cancel()
	list, err := boxes.List(ctx)
	for _, l := range list {
		if !chosen(l) {
			continue
		}
		names = append(names, l.Name)
		err = errors.Join(err, boxes.Destroy(ctx, l.Name))
	}
	return names, err
}

// writeLostResult adds the last transition to the dead worker's spool and writes its
// result. Doing it twice, after a crash in between, adds a second transition
// and no harm.
func writeLostResult(d directory, spec *Spec, r nightcrier.AgentResult) error {
	s, err := openSpool(d, spec, time.Now)
	if err != nil {
		return err
	}
	last := nightcrier.State("")
	_, err = readSpool(s.file, 0, func(e nightcrier.JournalEntry) error {
		if e.Type == nightcrier.EntryState {
			if st, err := journal.Decode[journal.State](e); err == nil {
				last = st.To
			}
		}
		return nil
	})
	if err == nil && last == "" {
		last = nightcrier.StateCreated
		err = s.appendItem(journal.OfState(journal.State{To: last}))
	}
	if err == nil && !last.Terminal() {
		err = s.appendItem(journal.OfState(journal.State{From: last, To: r.State, Reason: r.FailureReason, FailureClass: r.FailureClass}))
	}
	if err = errors.Join(err, s.close()); err != nil {
		return err
	}
	return d.writeFile("exit.json", r)
}
