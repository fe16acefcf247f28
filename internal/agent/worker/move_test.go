package worker

import (
	"log/slog"
	"os"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent/backend"
	"nightcrier.dev/nightcrier/internal/agent/internal/workdir"
	"nightcrier.dev/nightcrier/internal/mask"
	"nightcrier.dev/nightcrier/internal/record/journal"
)

// Each transition says how long the state before it lasted; one that is not legal
// is left out.
func TestATransitionIsTimed(t *testing.T) {
	now := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	clock := func() time.Time { return now }
	w := &worker{dir: workdir.Dir(t.TempDir()), spec: &backend.Spec{Attempt: 1}, now: clock, mask: mask.New(nil), log: slog.New(slog.DiscardHandler)}
	var err error
	if w.spool, err = workdir.OpenSpool(w.dir, w.spec, clock); err != nil {
		t.Fatal(err)
	}
	for _, to := range []nightcrier.State{nightcrier.StateCreated, nightcrier.StateStarting, nightcrier.StateCreated, nightcrier.StateRunning, nightcrier.StateTimeout, nightcrier.StateSuccess} {
		w.moveState(journal.State{To: to})
		now = now.Add(1500 * time.Millisecond)
	}
	want := []journal.State{{To: nightcrier.StateCreated}, {From: nightcrier.StateCreated, To: nightcrier.StateStarting, AfterMS: 1500},
		{From: nightcrier.StateStarting, To: nightcrier.StateRunning, AfterMS: 3000}, {From: nightcrier.StateRunning, To: nightcrier.StateTimeout, AfterMS: 1500}}
	f, err := os.Open(w.dir.PathOf("spool.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	n := 0
	if _, err := workdir.ReadSpool(f, 0, func(e nightcrier.JournalEntry) error {
		s, err := journal.Decode[journal.State](e)
		if n >= len(want) || s.From != want[n].From || s.To != want[n].To || s.AfterMS != want[n].AfterMS {
			t.Errorf("transition %d is %+v", n+1, s)
		}
		n++
		return err
	}); err != nil || n != len(want) {
		t.Errorf("%d transitions, %v", n, err)
	}
}
