package storetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/record/store"
)

func listRuns(t *testing.T, b *bench) {
	ctx := t.Context()
	var ids []string
	for i := range 4 {
		n := newCall(fmt.Sprintf("k%d", i%2))
		n.Pipeline = fmt.Sprintf("p%d", i%2)
		n.Subject.ID = fmt.Sprintf("s%d", i)
		ids = append(ids, b.enqueueRun(t, n).Run.ID)
		b.clock.Advance(time.Minute)
	}
	d := b.acceptEvent(t, b.newEvent("prod", "cart", nightcrier.Critical), Policy())
	b.admitRun(t)
	ids = append(ids, d.Run.ID)
	start := b.clock.Now().Add(-4 * time.Minute)
	for name, c := range map[string]struct {
		filter store.RunFilter
		want   []int
	}{
		"all":      {store.RunFilter{}, []int{4, 3, 2, 1, 0}},
		"pipeline": {store.RunFilter{Pipeline: "p1"}, []int{3, 1}},
		"kind":     {store.RunFilter{SubjectKind: nightcrier.SubjectIncident}, []int{4}},
		"subject":  {store.RunFilter{SubjectKind: nightcrier.SubjectCall, SubjectID: "s2"}, []int{2}},
		"status":   {store.RunFilter{Status: nightcrier.Admitted}, []int{4}},
		"key":      {store.RunFilter{Key: "k0", Status: nightcrier.Queued}, []int{2, 0}},
		"since":    {store.RunFilter{Since: start.Add(2 * time.Minute)}, []int{4, 3, 2}},
		"until":    {store.RunFilter{Until: start.Add(2 * time.Minute)}, []int{1, 0}},
		"nothing":  {store.RunFilter{Pipeline: "p1", Key: "k0"}, nil},
	} {
		var got []int
		for f, more := c.filter, true; more; {
			f.Limit = 2
			list, next, err := b.ListRuns(ctx, f)
			if err != nil || len(list) > 2 {
				t.Fatalf("%s: %d runs, %v", name, len(list), err)
			}
			for _, run := range list {
				got = append(got, slices.Index(ids, run.ID))
			}
			f.Cursor, more = next, next != ""
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	_, _, err := b.ListRuns(ctx, store.RunFilter{Cursor: "x"})
	wantCode(t, err, nightcrier.Invalid)
}

// waitOf is what a run waits for as it stands.
func (b *bench) waitOf(t *testing.T, l store.Limits, id string) *nightcrier.Wait {
	t.Helper()
	leased, err := b.LeasedRuns(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return l.WaitOf(b.readRun(t, id), leased)
}

func whatRunsWaitFor(t *testing.T, b *bench) {
	ctx := t.Context()
	l := store.Limits{Total: 2, PerKey: 1}
	first := b.enqueueRun(t, newCall("k")).Run.ID
	b.clock.Advance(time.Second)
	second := b.enqueueRun(t, newCall("k")).Run.ID
	if w := b.waitOf(t, l, first); w != nil {
		t.Errorf("the next waits for %+v", w)
	}
	b.admitRun(t)
	n := newCall("other")
	n.Executor = "gemini"
	b.enqueueRun(t, n)
	other := b.admitRun(t).ID
	third := b.enqueueRun(t, newCall("third")).Run.ID
	wants := func(id string, l store.Limits, want nightcrier.WaitKind, words string) {
		t.Helper()
		if w := b.waitOf(t, l, id); w == nil || w.For != want || !strings.Contains(w.Text, words) {
			t.Errorf("it waits for %+v, want %s with %q", w, want, words)
		}
	}
	wants(second, l, nightcrier.WaitKey, first)
	wants(third, l, nightcrier.WaitLimit, "2 runs")
	wants(third, store.Limits{Total: 9, PerKey: 1, Closed: []string{"codex"}}, nightcrier.WaitBreaker, "codex")
	// What is under way says itself what it waits for.
	for _, w := range []nightcrier.Wait{{For: nightcrier.WaitApproval, Text: "somebody to say yes\n"}, {}} {
		if _, err := b.NoteProgress(ctx, other, store.Progress{WaitsFor: &w}); err != nil {
			t.Fatal(err)
		}
		if _, err := b.NoteProgress(ctx, other, store.Progress{Executor: "goose"}); err != nil {
			t.Fatal(err)
		}
		if w.For != "" {
			wants(other, l, nightcrier.WaitApproval, "somebody to say yes")
		} else if got := b.waitOf(t, l, other); got != nil {
			t.Errorf("it went on, and waits for %+v", got)
		}
	}
	if _, err := b.NoteProgress(ctx, other, store.Progress{WaitsFor: &nightcrier.Wait{For: nightcrier.WaitBudget}}); err != nil {
		t.Fatal(err)
	}
	b.endRun(t, other)
	if w := b.waitOf(t, l, other); w != nil {
		t.Errorf("it ended, and waits for %+v", w)
	}
}

// What waits for nothing is admitted, and what is admitted waited for nothing.
func waitsMatchAdmission(t *testing.T, b *bench) {
	ctx, random := t.Context(), rand.New(rand.NewPCG(3, 4))
	for i := range 60 {
		key, executor := fmt.Sprintf("k%d", random.IntN(6)), []string{"codex", "gemini"}[random.IntN(2)]
		if random.IntN(2) == 0 {
			p := Policy()
			p.Executor = executor
			b.acceptEvent(t, b.newEvent(key, fmt.Sprint(i), nightcrier.Severity(random.IntN(4))), p)
		} else {
			n := newCall(key)
			n.Executor = executor
			b.enqueueRun(t, n)
		}
		l := store.Limits{Total: 1 + random.IntN(6), PerKey: 1 + random.IntN(3)}
		if random.IntN(3) == 0 {
			l.Closed = []string{"gemini"}
		}
		leased, err := b.LeasedRuns(ctx)
		if err != nil {
			t.Fatal(err)
		}
		queued, _, err := b.ListRuns(ctx, store.RunFilter{Status: nightcrier.Queued})
		if err != nil {
			t.Fatal(err)
		}
		free := map[string]bool{}
		for _, run := range queued {
			if l.WaitOf(run, leased) == nil {
				free[run.ID] = true
			}
		}
		run, err := b.AdmitNext(ctx, l)
		if err != nil || run == nil && len(free) > 0 || run != nil && !free[run.ID] {
			t.Fatalf("round %d, %+v: admitted %+v, %v; these waited for nothing: %v", i, l, run, err, free)
		}
		if len(leased) > 0 && random.IntN(3) == 0 {
			f := store.Finish{RunID: leased[0].ID, Outcome: nightcrier.StateSuccess, Status: nightcrier.Failed}
			if err := b.FinishRun(ctx, f); err != nil {
				t.Fatal(err)
			}
		}
	}
}
