// Package bench holds the benchmarks whose figures the documentation quotes.
package bench

import (
	"fmt"
	"path/filepath"
	"testing"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/record/store"
	"nightcrier.dev/nightcrier/internal/record/store/storetest"
	"nightcrier.dev/nightcrier/internal/test/pgtest"
)

// onEach runs a benchmark on each database, with a real disk under SQLite.
func onEach(b *testing.B, run func(*testing.B, *store.Store)) {
	for name, options := range map[string]func() store.Options{
		"sqlite":   func() store.Options { return store.Options{Path: filepath.Join(b.TempDir(), "n.db")} },
		"postgres": func() store.Options { return store.Options{URL: pgtest.DSN(b)} },
	} {
		b.Run(name, func(b *testing.B) {
			s, err := store.Open(b.Context(), options())
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			run(b, s)
			b.StopTimer()
			if err := s.Close(); err != nil {
				b.Error(err)
			}
		})
	}
}

// policy is the default of the configuration, without storms where the benchmark
// is not about them.
func policy() store.AcceptPolicy {
	p := storetest.Policy()
	p.QueueMax = 1_000_000
	return p
}

func accept(b *testing.B, s *store.Store, ev nightcrier.Event) {
	if _, err := s.Accept(b.Context(), ev, policy()); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkAcceptNew opens an incident with a queued run for each event.
func BenchmarkAcceptNew(b *testing.B) {
	onEach(b, func(b *testing.B, s *store.Store) {
		for i := 0; b.Loop(); i++ {
			accept(b, s, storetest.Event(fmt.Sprintf("c%d", i%300), fmt.Sprintf("w%d", i)))
		}
	})
}

// BenchmarkAcceptDuplicate joins each event to an open incident that has the
// most events that are kept.
func BenchmarkAcceptDuplicate(b *testing.B) {
	onEach(b, func(b *testing.B, s *store.Store) {
		for range 110 {
			accept(b, s, storetest.Event("prod", "cart"))
		}
		for b.Loop() {
			accept(b, s, storetest.Event("prod", "cart"))
		}
	})
}

// BenchmarkAdmitNext takes and ends one run of 1,000 queued over 300 clusters.
func BenchmarkAdmitNext(b *testing.B) {
	onEach(b, func(b *testing.B, s *store.Store) {
		fill(b, s, 0)
		for i := 0; b.Loop(); i++ {
			run, err := s.AdmitNext(b.Context(), store.Limits{Total: 5, PerKey: 1})
			if err != nil || run == nil {
				b.Fatalf("admit: %v, %v", run, err)
			}
			b.StopTimer()
			if err := s.FinishRun(b.Context(), store.Finish{RunID: run.ID, Status: nightcrier.Failed}); err != nil {
				b.Fatal(err)
			}
			accept(b, s, storetest.Event(run.Key, fmt.Sprintf("again%d", i)))
			b.StartTimer()
		}
	})
}

// BenchmarkAdmitNone asks in vain: all 1,000 runs wait for clusters that hold a
// lease, the worst case.
func BenchmarkAdmitNone(b *testing.B) {
	onEach(b, func(b *testing.B, s *store.Store) {
		fill(b, s, 0)
		for range 300 {
			if run, err := s.AdmitNext(b.Context(), store.Limits{Total: 1000, PerKey: 1}); err != nil || run == nil {
				b.Fatalf("admit: %v, %v", run, err)
			}
		}
		fill(b, s, 1000)
		for b.Loop() {
			if run, err := s.AdmitNext(b.Context(), store.Limits{Total: 1000, PerKey: 1}); err != nil || run != nil {
				b.Fatalf("admit: %v, %v", run, err)
			}
		}
	})
}

// fill queues 1,000 runs over 300 clusters.
func fill(b *testing.B, s *store.Store, from int) {
	for i := range 1000 {
		ev := storetest.Event(fmt.Sprintf("c%d", i%300), fmt.Sprintf("w%d", from+i))
		ev.Severity = nightcrier.Severity(i % 4)
		accept(b, s, ev)
	}
}
