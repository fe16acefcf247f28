package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"nightcrier.dev/nightcrier/internal/config"
	"nightcrier.dev/nightcrier/internal/face/api"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/app"
	"nightcrier.dev/nightcrier/internal/face/api/client"
)

// serving is a `nightcrier serve` with its own process.
type serving struct {
	cmd    *exec.Cmd
	client *client.Client
	ready  time.Duration // from exec to the line that says so
}

// serve starts the product on a root, with n clusters at a peer.
func serve(b *testing.B, root string, n int, p *peer, more string) *serving {
	b.Helper()
	var file strings.Builder
	fmt.Fprintf(&file, "workspace_root: %s\nlisten: none\n%s", root, more)
	if n > 0 {
		file.WriteString("clusters:\n")
	}
	for i := range n {
		fmt.Fprintf(&file, "  - name: c-%d\n    mcp: {endpoint: %q}\n", i, p.url(fmt.Sprintf("c-%d", i)))
	}
	path := filepath.Join(b.TempDir(), "nightcrier.yaml")
	must(b, os.WriteFile(path, []byte(file.String()), 0o600))
	s := &serving{cmd: exec.Command(binary(b), "serve", "--config", path), client: client.Unix(filepath.Join(root, api.SocketName))}
	s.cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	stderr, err := s.cmd.StderrPipe()
	must(b, err)
	begin := time.Now()
	must(b, s.cmd.Start())
	b.Cleanup(s.stop)
	s.awaitReady(b, stderr, begin)
	return s
}

func (s *serving) awaitReady(b *testing.B, stderr io.Reader, begin time.Time) {
	b.Helper()
	log := bufio.NewReader(stderr)
	for {
		line, err := log.ReadString('\n')
		if err != nil {
			b.Fatalf("the server ended before it was ready: %s", line)
		}
		var said struct{ Event string }
		if json.Unmarshal([]byte(line), &said) == nil && said.Event == "ready" {
			s.ready = time.Since(begin)
			go func() { _, _ = io.Copy(io.Discard, log) }()
			return
		}
	}
}

func (s *serving) stop() {
	if s.cmd.ProcessState != nil {
		return
	}
	_ = s.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	_ = s.cmd.Wait()
}

// kill ends the server as a crash does.
func (s *serving) kill() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}

// connected waits until all clusters are subscribed to.
func (s *serving) connected(b *testing.B, n int) {
	b.Helper()
	until(b, "all subscriptions", func() bool {
		list, err := s.client.Clusters(context.Background())
		must(b, err)
		ok := 0
		for _, c := range list.Clusters {
			if c.State == nightcrier.SourceSubscribed {
				ok++
			}
		}
		if ok < n {
			time.Sleep(100 * time.Millisecond) // asking is work as well
		}
		return ok == n
	})
}

// settle is how long a server is left alone before its idle memory is read, and
// watch how long its idle CPU is.
const (
	settle = 10 * time.Second
	watch  = 20 * time.Second
)

// BenchmarkIdle reports what a server occupies that watches n quiet clusters.
func BenchmarkIdle(b *testing.B) {
	for _, n := range []int{1, 100, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := serve(b, filepath.Join(b.TempDir(), "incidents"), n, startPeer(b), "")
			s.connected(b, n)
			for b.Loop() {
				time.Sleep(settle)
				before := cpuTime(b, s.cmd.Process.Pid)
				time.Sleep(watch)
				used := cpuTime(b, s.cmd.Process.Pid) - before
				b.ReportMetric(100*float64(used)/float64(watch), "cpu-%")
				m := memoryOf(b, s.cmd.Process.Pid)
				reportMemory(b, "", m)
				b.ReportMetric(m.Peak/mib, "peak-MiB")
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkStart reports the time from exec to ready.
func BenchmarkStart(b *testing.B) {
	b.Run("empty", func(b *testing.B) {
		restart(b, func() string { return filepath.Join(b.TempDir(), fmt.Sprint(time.Now().UnixNano())) }, "")
	})
	b.Run("1000-finished", func(b *testing.B) {
		root := filepath.Join(b.TempDir(), "incidents")
		finished(b, root, 1000)
		restart(b, func() string { return root }, "")
	})
	b.Run("5-interrupted", func(b *testing.B) {
		root := filepath.Join(b.TempDir(), "incidents")
		more := interrupted(b, root, 5)
		restart(b, func() string { return root }, more)
	})
}

// restart starts servers, at least ten, and ends each as a crash does.
func restart(b *testing.B, root func() string, more string) {
	b.Helper()
	var took samples
	for i := 0; i < 10 || i < b.N; i++ {
		s := serve(b, root(), 0, nil, more)
		took = append(took, s.ready)
		s.kill()
	}
	b.ReportMetric(took.at(0.5), "ready-p50-ms")
	b.ReportMetric(took.at(1), "ready-max-ms")
	b.ReportMetric(0, "ns/op")
}

// finished fills a root with n incidents that have ended with a report.
func finished(b *testing.B, root string, n int) {
	b.Helper()
	cluster, raw := scenario(b)
	o := options(b, "", map[string]string{"workspace_root": root, "agent.executor": "builtin", "max_concurrent_agents": "8"})
	o.Reach = func(config.Cluster) app.Reach { return direct{cluster} }
	a, err := app.NewInvestigator(o)
	must(b, err)
	must(b, a.Start(context.Background()))
	for i := range n {
		deliver(b, a, delivery(fmt.Sprintf("c-%d", i), raw))
	}
	until(b, "the end of all runs", func() bool {
		time.Sleep(100 * time.Millisecond)
		c, err := a.Store().Counts(b.Context())
		must(b, err)
		return c.Queued+c.Leases == 0
	})
	must(b, a.Stop(context.Background()))
}

// interrupted leaves a root whose server was stopped while n agents worked. They
// go on until the benchmark ends.
func interrupted(b *testing.B, root string, n int) (more string) {
	b.Helper()
	_, raw := scenario(b)
	o := options(b, "echo started\nexec sleep 600\n", map[string]string{"workspace_root": root, "agent.timeout": "10m"})
	a, err := app.NewInvestigator(o)
	must(b, err)
	must(b, a.Start(context.Background()))
	b.Cleanup(func() { endAgents(b, a) })
	for i := range n {
		deliver(b, a, delivery(fmt.Sprintf("c-%d", i), raw))
	}
	awaitRunning(b, a, n)
	must(b, a.Stop(context.Background()))
	return fmt.Sprintf("agent: {executor: script, script_path: %q, timeout: 10m}\n", o.Config.Agent.ScriptPath)
}

// BenchmarkBurst pushes 900 faults of 300 clusters at a server that investigates
// by facts alone, and reports its peak memory once all are taken in, and the
// time that took.
func BenchmarkBurst(b *testing.B) {
	const clusters, faults = 300, 900
	for b.Loop() {
		p := startPeer(b)
		s := serve(b, filepath.Join(b.TempDir(), "incidents"), clusters, p, "")
		s.connected(b, clusters)
		before := memoryOf(b, s.cmd.Process.Pid)
		begin := time.Now()
		for i := range faults {
			p.push(b, fmt.Sprintf("c-%d", i%clusters), fault(i))
		}
		until(b, "all faults on record", func() bool { return s.stored(b) == faults })
		b.ReportMetric(time.Since(begin).Seconds(), "s-until-stored")
		b.ReportMetric(before.Rss/mib, "before-rss-MiB")
		b.ReportMetric(memoryOf(b, s.cmd.Process.Pid).Peak/mib, "peak-rss-MiB")
		s.stop()
	}
	b.ReportMetric(0, "ns/op")
}

// stored counts the events on record, by the API as anybody would.
func (s *serving) stored(b *testing.B) (n int) {
	b.Helper()
	time.Sleep(200 * time.Millisecond)
	q := client.EventQuery{Limit: 1000}
	list, err := s.client.Events(context.Background(), q)
	must(b, err)
	return len(list.Events)
}

// fault is a distinct fault.
func fault(i int) string {
	return fmt.Sprintf(`{"subscriptionId":"s","cluster":"x","faultId":"f%d","faultType":"CrashLoop","severity":"critical",`+
		`"resource":{"apiVersion":"v1","kind":"Pod","name":"app%d-6d9f8b7c5d-x2k9q","namespace":"shop","uid":"5a0c6f0e-8a54-4c53-9b0d-%012d"},`+
		`"context":"restart count: 4","timestamp":"%s"}`, i, i, i, time.Now().UTC().Format(time.RFC3339))
}

// BenchmarkBinary reports the size of the product and how long `version` takes.
func BenchmarkBinary(b *testing.B) {
	bin := binary(b)
	info, err := os.Stat(bin)
	must(b, err)
	for b.Loop() {
		must(b, exec.Command(bin, "version").Run())
	}
	b.ReportMetric(float64(info.Size())/mib, "size-MiB")
}
