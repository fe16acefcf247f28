package worker

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent/backend"
	"nightcrier.dev/nightcrier/internal/agent/internal/workdir"
)

// BenchmarkLaunch measures the way from Launch to the agent's first line, and
// what the worker and its init occupy meanwhile, without and with a guard before a
// cluster.
func BenchmarkLaunch(b *testing.B) {
	b.Run("blind", func(b *testing.B) { benchmarkLaunch(b, nil) })
	b.Run("seeing", func(b *testing.B) {
		benchmarkLaunch(b, &backend.Credential{Kubeconfig: []byte("apiVersion: v1\nkind: Config\ncurrent-context: x\n" +
			"clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\nusers: [{name: u, user: {token: t}}]\ncontexts: [{name: x, context: {cluster: c, user: u}}]\n")})
	})
}

func benchmarkLaunch(b *testing.B, cred *backend.Credential) {
	var toAgent time.Duration
	var worker, init float64
	n := 0
	for b.Loop() {
		bench := newBench(b, "echo up; sleep 0.2")
		bench.sec.Cluster = cred
		start := time.Now()
		bench.launch()
		bench.until(`"up"`)
		toAgent += time.Since(start)
		var p workdir.PIDs
		bench.must(bench.dir().ReadFile(workdir.PIDFile, &p))
		worker += pss(b, p.Worker.PID)
		init += pss(b, bench.init())
		if r, _ := bench.follow(); r.State != nightcrier.StateSuccess {
			b.Fatalf("%+v", r)
		}
		n++
	}
	b.ReportMetric(float64(toAgent.Milliseconds())/float64(n), "ms-to-agent")
	b.ReportMetric(worker/float64(n), "KiB-worker")
	b.ReportMetric(init/float64(n), "KiB-init")
}

// pss returns the proportional set size of a process in KiB.
func pss(b *testing.B, pid int) float64 {
	b.Helper()
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/smaps_rollup")
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "Pss:" {
			n, err := strconv.ParseFloat(f[1], 64)
			if err != nil {
				b.Fatal(err)
			}
			return n
		}
	}
	b.Fatal("no Pss")
	return 0
}
