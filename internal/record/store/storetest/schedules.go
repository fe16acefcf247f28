package storetest

import (
	"encoding/json"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/record/store"
)

// followSchedule follows the schedule of these tests.
func (b *bench) followSchedule(t *testing.T) store.Schedule {
	t.Helper()
	s, err := b.FollowSchedule(t.Context(), "report", "nightly")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// fireSchedule fires it at so many minutes after the bench's beginning.
func (b *bench) fireSchedule(t *testing.T, minutes ...int) store.Enqueued {
	t.Helper()
	var ticks []time.Time
	for _, m := range minutes {
		ticks = append(ticks, NewClock().Now().Add(time.Duration(m)*time.Minute))
	}
	e, err := b.FireSchedule(t.Context(), "report", "nightly", ticks, store.NewRun{Executor: "codex", Input: json.RawMessage(`{"a":1}`)})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func scheduleTicks(t *testing.T, b *bench) {
	ctx, start := t.Context(), b.clock.Now()
	_, err := b.FireSchedule(ctx, "report", "nightly", []time.Time{start}, store.NewRun{})
	wantCode(t, err, nightcrier.Conflict) // nobody follows it
	_, err = b.FollowSchedule(ctx, "report", "")
	wantCode(t, err, nightcrier.Invalid)
	want := store.Schedule{Pipeline: "report", Trigger: "nightly", LastTick: start}
	if diff := cmp.Diff(want, b.followSchedule(t)); diff != "" {
		t.Errorf("a new schedule:\n%s", diff)
	}
	if e := b.fireSchedule(t, -5, 0); !e.Repeated || e.Run.ID != "" {
		t.Errorf("what was before it was followed ran: %+v", e)
	}
	b.clock.Advance(time.Minute)
	e := b.fireSchedule(t, 1)
	run := b.readRun(t, e.Run.ID)
	if e.Repeated || run.Status != nightcrier.Queued || run.TriggeredBy != "schedule" || run.Pipeline != "report" ||
		run.Subject != (nightcrier.Subject{Kind: nightcrier.SubjectSchedule, ID: "nightly", Title: start.Add(time.Minute).Format(time.RFC3339)}) {
		t.Errorf("fired %+v", e)
	}
	if input, err := b.RunInput(ctx, run.ID); err != nil || string(input) != `{"a":1}` {
		t.Errorf("input %s, %v", input, err)
	}
	b.clock.Advance(-time.Hour) // the clock jumps back
	for _, again := range [][]int{{1}, {0, 1}, {-59}, nil} {
		if e := b.fireSchedule(t, again...); !e.Repeated && again != nil || e.Run.ID != "" {
			t.Errorf("%v fired again: %+v", again, e)
		}
	}
	want.LastTick = start.Add(-59 * time.Minute)
	if diff := cmp.Diff(want, b.followSchedule(t)); diff != "" {
		t.Errorf("followed again behind a clock that was put back:\n%s", diff)
	}
	if e := b.fireSchedule(t, -30); e.Repeated { // no tick that was considered before
		t.Error("a tick did not run because of a clock that went wrong for a while")
	}
	if e := b.fireSchedule(t, -10, 1); !e.Repeated {
		t.Errorf("fired again: %+v", e)
	}
	if err := b.LeaveSchedule(ctx, "report", "nightly"); err != nil {
		t.Fatal(err)
	}
	if left, err := b.Schedules(ctx); err != nil || len(left) != 0 {
		t.Errorf("followed after it was left: %+v, %v", left, err)
	}
	b.followSchedule(t)
	if e := b.fireSchedule(t, 1); !e.Repeated {
		t.Errorf("a tick ran again, as its schedule had been left: %+v", e)
	}
	if n := b.readCounts(t); n.Queued != 2 {
		t.Errorf("%d are queued", n.Queued)
	}
}

// Of what was missed the newest runs, and the rest is counted.
func scheduleMissed(t *testing.T, b *bench) {
	ctx, start := t.Context(), b.clock.Now()
	b.followSchedule(t)
	first := b.fireSchedule(t, 1)
	b.clock.Advance(time.Hour)
	second := b.fireSchedule(t, 4, 1, 3, 2, 3)
	got, err := b.Ticks(ctx, "report", "nightly", 0)
	want := []store.Tick{
		{At: start.Add(4 * time.Minute), RunID: second.Run.ID}, {At: start.Add(3 * time.Minute)}, {At: start.Add(2 * time.Minute)},
		{At: start.Add(time.Minute), RunID: first.Run.ID},
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("ticks (%v):\n%s", err, diff)
	}
	var many []int
	for i := range 3000 {
		many = append(many, 5+i)
	}
	b.fireSchedule(t, many...)
	list, err := b.Schedules(ctx)
	if err != nil || len(list) != 1 || list[0].Missed != 2+2999 || !list[0].LastTick.Equal(start.Add(3004*time.Minute)) {
		t.Errorf("schedules %+v, %v", list, err)
	}
	if newest, err := b.Ticks(ctx, "report", "nightly", 2); err != nil || len(newest) != 2 || newest[0].RunID == "" || newest[1].RunID != "" {
		t.Errorf("the newest are %+v, %v", newest, err)
	}
	if _, err := b.Prune(ctx, start.Add(3004*time.Minute)); err != nil {
		t.Fatal(err)
	}
	if left, err := b.Ticks(ctx, "report", "nightly", 0); err != nil || len(left) != 1 {
		t.Errorf("%d ticks are left, %v", len(left), err)
	}
	if n := b.readCounts(t); n.Queued != 3 {
		t.Errorf("%d are queued", n.Queued)
	}
}

// Many fire the same ticks at once: each tick runs once.
func scheduleAtOnce(t *testing.T, b *bench) {
	b.followSchedule(t)
	g, ctx := errgroup.WithContext(t.Context())
	var fired atomic.Int32
	for range 8 {
		g.Go(func() error {
			for i := range 10 {
				at := NewClock().Now().Add(time.Duration(i+1) * time.Minute)
				e, err := b.FireSchedule(ctx, "report", "nightly", []time.Time{at}, store.NewRun{})
				if err != nil {
					return err
				}
				if !e.Repeated {
					fired.Add(1)
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	n := b.readCounts(t)
	ticks, err := b.Ticks(t.Context(), "report", "nightly", 0)
	if err != nil || n.Queued != int(fired.Load()) || n.Queued != len(ticks) {
		t.Errorf("%d are queued, %d fired, %d recorded, %v", n.Queued, fired.Load(), len(ticks), err)
	}
}
