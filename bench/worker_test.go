package bench

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/app"
	"nightcrier.dev/nightcrier/internal/record/store"
)

// awaitRunning waits until n agents have printed their first line.
func awaitRunning(b *testing.B, a *app.Investigator, n int) {
	b.Helper()
	until(b, "agents at work", func() bool {
		list, _, err := a.Store().Incidents(b.Context(), store.IncidentFilter{Limit: 100})
		must(b, err)
		running := 0
		for _, inc := range list {
			if inc.State == nightcrier.StateRunning {
				running++
			}
		}
		return running >= n
	})
}

// BenchmarkWorker reports what the two processes beside a waiting agent occupy,
// each the mean over four.
func BenchmarkWorker(b *testing.B) {
	const n = 4
	_, raw := scenario(b)
	for b.Loop() {
		o := options(b, "echo started\nexec sleep 600\n", nil)
		a := start(b, o)
		for i := range n {
			deliver(b, a, delivery(fmt.Sprintf("c-%d", i), raw))
		}
		awaitRunning(b, a, n)
		var workers, inits []memory
		for _, w := range workerPIDs(b, o.Config.WorkspaceRoot) {
			workers = append(workers, memoryOf(b, w))
			for _, i := range children(b, w) {
				inits = append(inits, memoryOf(b, i))
			}
		}
		endAgents(b, a)
		if len(workers) != n || len(inits) != n {
			b.Fatalf("%d workers and %d inits for %d agents", len(workers), len(inits), n)
		}
		reportMemory(b, "worker-", mean(workers))
		reportMemory(b, "init-", mean(inits))
	}
	b.ReportMetric(0, "ns/op")
}

func mean(list []memory) (m memory) {
	n := float64(len(list))
	for _, x := range list {
		m.Rss += x.Rss / n
		m.Pss += x.Pss / n
		m.Private += x.Private / n
	}
	return m
}

// workerPIDs reads what each worker wrote of itself.
func workerPIDs(b *testing.B, root string) (pids []int) {
	b.Helper()
	files, err := filepath.Glob(filepath.Join(root, app.WorkersDir, "*", "pid"))
	must(b, err)
	for _, f := range files {
		data, err := os.ReadFile(f)
		must(b, err)
		var p struct {
			Worker struct {
				PID int `json:"pid"`
			} `json:"worker"`
		}
		must(b, json.Unmarshal(data, &p))
		pids = append(pids, p.Worker.PID)
	}
	return pids
}

// What a run has put on disk at its agent's first line, counted with strace in
// BenchmarkFaultToAgent: files that were each written, synced and renamed,
// further syncs of directories and of logs that grow, and commits of the store
// and the engine.
const (
	bareFiles   = 29
	bareSyncs   = 23
	bareCommits = 14
)

// BenchmarkBare is the floor of BenchmarkFaultToAgent: as many durable files and
// commits, and the three processes (worker, init, script) started one after the
// other, with nothing between them. The product's stages end at once when they
// are started with nothing to do.
func BenchmarkBare(b *testing.B) {
	bin, dir := binary(b), b.TempDir()
	script := filepath.Join(dir, "agent.sh")
	must(b, os.WriteFile(script, []byte("#!/bin/sh\necho started\n"), 0o755))
	log, err := os.Create(filepath.Join(dir, "log"))
	must(b, err)
	defer log.Close()
	db, err := sql.Open("sqlite", filepath.Join(dir, "bare.db")+"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
	must(b, err)
	defer db.Close()
	_, err = db.Exec(`CREATE TABLE t (id INTEGER PRIMARY KEY, body TEXT)`)
	must(b, err)
	var all, files, commits, processes samples
	for i := 0; i < 200 || i < b.N; i++ {
		begin := time.Now()
		for range bareFiles {
			writeFile(b, dir)
		}
		for range bareSyncs {
			_, err := log.WriteString("a line\n")
			must(b, err)
			must(b, log.Sync())
		}
		filed := time.Now()
		for range bareCommits {
			_, err := db.Exec(`INSERT INTO t (body) VALUES (?)`, strings.Repeat("x", 1000))
			must(b, err)
		}
		committed := time.Now()
		_ = exec.Command(bin, "worker", filepath.Join(dir, "none")).Run() // nothing to do is an error
		_ = exec.Command(bin, "sandbox-init").Run()
		must(b, exec.CommandContext(context.Background(), script).Run())
		ended := time.Now()
		files, commits = append(files, filed.Sub(begin)), append(commits, committed.Sub(filed))
		processes, all = append(processes, ended.Sub(committed)), append(all, ended.Sub(begin))
	}
	all.report(b, "all")
	b.ReportMetric(files.at(0.5), "files-p50-ms")
	b.ReportMetric(commits.at(0.5), "commits-p50-ms")
	b.ReportMetric(processes.at(0.5), "processes-p50-ms")
	b.ReportMetric(0, "ns/op")
}

// writeFile writes one file so that a crash leaves it whole or not at all.
func writeFile(b *testing.B, dir string) {
	f, err := os.CreateTemp(dir, "new-")
	must(b, err)
	_, err = f.WriteString(strings.Repeat("x", 2000))
	must(b, err)
	must(b, f.Sync())
	must(b, f.Close())
	must(b, os.Rename(f.Name(), filepath.Join(dir, "file")))
}
