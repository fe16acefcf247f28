package bench

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/app"
	"nightcrier.dev/nightcrier/internal/cluster/kube"
	"nightcrier.dev/nightcrier/internal/config"
	"nightcrier.dev/nightcrier/internal/fake/demo"
	"nightcrier.dev/nightcrier/internal/ingest/dialect"
	"nightcrier.dev/nightcrier/internal/test/pgtest"
)

// options are those of a server with an agent that is a script. The database is
// SQLite unless the variable of database_url says otherwise.
func options(b *testing.B, script string, flags map[string]string, env ...string) app.Options {
	b.Helper()
	path := filepath.Join(b.TempDir(), "agent.sh")
	must(b, os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o755))
	all := map[string]string{
		"workspace_root": filepath.Join(b.TempDir(), "incidents"), "agent.executor": "script", "agent.script_path": path,
		"listen": "none", "queue.max": "1000000",
	}
	for k, v := range flags {
		all[k] = v
	}
	cfg, _, err := config.Load(config.Options{Env: append(env, "PATH="+os.Getenv("PATH")), Flags: all})
	must(b, err)
	return app.Options{
		Config: cfg, Logger: slog.New(slog.DiscardHandler), Version: "bench",
		WorkerCommand: []string{binary(b), "worker"},
	}
}

// start starts a server. When the benchmark ends it is stopped, and then its
// agents are: in the other order it would start the next.
func start(b *testing.B, o app.Options) *app.Investigator {
	b.Helper()
	a, err := app.NewInvestigator(o)
	must(b, err)
	must(b, a.Start(context.Background()))
	b.Cleanup(func() {
		if err := a.Stop(context.Background()); err != nil {
			b.Error(err)
		}
		endAgents(b, a)
	})
	return a
}

// scenario is a recorded fault with the cluster that it happened in.
func scenario(b *testing.B) (app.ClusterAccess, []byte) {
	b.Helper()
	all, err := demo.Load(time.Now())
	must(b, err)
	return recorded{all[0].Snapshot.Client()}, all[0].Notifications[0]
}

// recorded reads a snapshot, on which nobody has any permission but to read.
type recorded struct{ *kube.Client }

func (recorded) Permissions(context.Context, string) (map[string]any, error) { return nil, nil }

// direct reads a recorded cluster without a guard, and hands no credential to anybody.
type direct struct{ app.ClusterAccess }

// Connect implements app.Reach.
func (d direct) Connect() (app.Connection, error) {
	return app.Connection{Direct: d.ClusterAccess}, nil
}

// Secrets implements app.Reach.
func (direct) Secrets() ([]string, bool) { return nil, false }

// ChangedAt implements app.Reach.
func (direct) ChangedAt() time.Time { return time.Time{} }

// Now implements app.Reach.
func (direct) Now() time.Time { return time.Now() }

func delivery(cluster string, raw []byte) nightcrier.Delivery {
	return nightcrier.Delivery{Source: "mcp", Cluster: cluster, ReceivedAt: time.Now(), Raw: raw}
}

// onBoth runs a benchmark on a server with each database. Its one agent is at
// work and never ends, so that nothing but intake goes on.
func onBoth(b *testing.B, bench func(*testing.B, *app.Investigator)) {
	for _, db := range []string{"sqlite", "postgres-nofsync"} {
		b.Run(db, func(b *testing.B) {
			var env []string
			if db != "sqlite" {
				env = []string{"NIGHTCRIER_DATABASE_URL=" + pgtest.DSN(b)}
			}
			a := start(b, options(b, "echo started\nexec sleep 600\n", map[string]string{"max_concurrent_agents": "1"}, env...))
			_, raw := scenario(b)
			deliver(b, a, delivery("first", raw))
			awaitRunning(b, a, 1)
			bench(b, a)
		})
	}
}

// endAgents leaves no agent behind.
func endAgents(b *testing.B, a *app.Investigator) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := a.StopWorkers(ctx, "the benchmark is over"); err != nil {
		b.Error(err)
	}
}

func deliver(b *testing.B, a *app.Investigator, d nightcrier.Delivery) string {
	dec, err := a.Deliver(b.Context(), d)
	if err != nil {
		b.Error(err)
	}
	return dec.Incident.ID
}

// BenchmarkIntakeNew takes in faults that each open an incident with a queued
// run: parsed, fingerprinted and on disk. 16 sources deliver at once.
func BenchmarkIntakeNew(b *testing.B) {
	_, raw := scenario(b)
	onBoth(b, func(b *testing.B, a *app.Investigator) {
		var n atomic.Int64
		b.SetParallelism(8)
		b.ReportAllocs()
		b.ResetTimer()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				deliver(b, a, delivery(fmt.Sprintf("c-%d", n.Add(1)), raw))
			}
		})
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "incidents/s")
	})
}

// BenchmarkIntakeDuplicate takes in the same fault again and again.
func BenchmarkIntakeDuplicate(b *testing.B) {
	_, raw := scenario(b)
	onBoth(b, func(b *testing.B, a *app.Investigator) {
		deliver(b, a, delivery("c", raw))
		b.SetParallelism(8)
		b.ReportAllocs()
		b.ResetTimer()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				deliver(b, a, delivery("c", raw))
			}
		})
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "duplicates/s")
	})
}

// BenchmarkDialect reads one recorded notification.
func BenchmarkDialect(b *testing.B) {
	_, raw := scenario(b)
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := dialect.Parse(raw); err != nil {
			b.Fatal(err)
		}
	}
}
