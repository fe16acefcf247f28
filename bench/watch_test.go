package bench

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"nightcrier.dev/nightcrier/internal/cluster/kube"
	"nightcrier.dev/nightcrier/internal/cluster/kube/kinds"
	"nightcrier.dev/nightcrier/internal/face/api/client"
	"nightcrier.dev/nightcrier/internal/ingest/detect"
	"nightcrier.dev/nightcrier/internal/test/churn"
)

// apiProcess makes the test binary API servers instead: "CLUSTERS PODS".
const apiProcess = "NIGHTCRIER_BENCH_API"

// serveAPIs prints the addresses of so many API servers, each with a healthy
// cluster of so many Pods in which nothing happens, and serves until stdin ends.
func serveAPIs(order string) {
	var clusters, pods int
	if _, err := fmt.Sscan(order, &clusters, &pods); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	still := newStill(pods)
	for range clusters {
		s := httptest.NewUnstartedServer(still) // a port, and so a connection, of its own
		s.EnableHTTP2 = true
		s.StartTLS()
		fmt.Println(s.URL)
	}
	fmt.Println()
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// still is the API of a cluster in which nothing happens.
type still map[string][]json.RawMessage // by resource

func newStill(pods int) still {
	c, s := churn.New(churn.Config{Seed: 3, Pods: pods, Start: time.Now()}), still{}
	for _, k := range detect.Kinds() {
		if k.Kind != detect.Event {
			s[kinds.MustNamed(string(k.Kind)).Plural] = c.Snapshot(string(k.Kind))
		}
	}
	return s
}

// ServeHTTP implements http.Handler.
func (s still) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	switch {
	case r.Method == http.MethodPost:
		w.WriteHeader(http.StatusCreated)
		fmt.Fprint(w, `{"status":{"allowed":true}}`)
	case r.URL.Path == "/readyz":
		fmt.Fprint(w, "ok")
	case q.Get("watch") == "true":
		s.watch(w, r)
	default:
		s.list(w, s[filepath.Base(r.URL.Path)], q.Get("continue"))
	}
}

func (s still) list(w http.ResponseWriter, all []json.RawMessage, from string) {
	begin, _ := strconv.Atoi(from)
	end, next := min(begin+kube.MaxItems, len(all)), ""
	if end < len(all) {
		next = strconv.Itoa(end)
	}
	fmt.Fprintf(w, `{"metadata":{"resourceVersion":"1","continue":%q},"items":[`, next)
	for i, o := range all[begin:end] {
		if i > 0 {
			fmt.Fprint(w, ",")
		}
		_, _ = w.Write(o)
	}
	fmt.Fprint(w, "]}")
}

// watch sends a bookmark every minute, as API servers do.
func (s still) watch(w http.ResponseWriter, r *http.Request) {
	out := http.NewResponseController(w)
	_ = out.Flush()
	seconds, _ := strconv.Atoi(r.URL.Query().Get("timeoutSeconds"))
	end := time.After(time.Duration(seconds) * time.Second)
	beat := time.NewTicker(time.Minute)
	defer beat.Stop()
	for {
		select {
		case <-beat.C:
			fmt.Fprintln(w, `{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"1"}}}`)
			_ = out.Flush()
		case <-end:
			return
		case <-r.Context().Done():
			return
		}
	}
}

// startAPIs starts API servers in a process of their own, and returns the
// configuration that watches them.
func startAPIs(b *testing.B, clusters, pods int) string {
	b.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d %d", apiProcess, clusters, pods))
	cmd.Stderr = io.Discard // what breaks when the product ends
	stdin, err := cmd.StdinPipe()
	must(b, err)
	stdout, err := cmd.StdoutPipe()
	must(b, err)
	must(b, cmd.Start())
	b.Cleanup(func() {
		_ = stdin.Close()
		_ = cmd.Wait()
	})
	var config strings.Builder
	config.WriteString("clusters:\n")
	lines := bufio.NewScanner(stdout)
	for i := 0; lines.Scan() && lines.Text() != ""; i++ {
		file := filepath.Join(b.TempDir(), "kubeconfig")
		must(b, os.WriteFile(file, fmt.Appendf(nil, `{apiVersion: v1, kind: Config, current-context: c,
clusters: [{name: c, cluster: {server: %q, insecure-skip-tls-verify: true}}],
users: [{name: u, user: {token: t}}], contexts: [{name: c, context: {cluster: c, user: u}}]}
`, lines.Text()), 0o600))
		fmt.Fprintf(&config, "  - {name: c-%d, watch: true, kubeconfig: %q}\n", i, file)
	}
	must(b, lines.Err())
	return config.String()
}

// BenchmarkWatch reports what a server occupies that watches n quiet clusters
// itself, and how long it takes until it has seen all of them.
func BenchmarkWatch(b *testing.B) {
	for _, size := range []struct{ clusters, pods int }{{1, 1000}, {1, 5000}, {100, 1000}} {
		b.Run(fmt.Sprintf("%dx%d", size.clusters, size.pods), func(b *testing.B) {
			config := startAPIs(b, size.clusters, size.pods)
			begin := time.Now()
			s := serve(b, filepath.Join(b.TempDir(), "incidents"), 0, nil, config)
			s.connected(b, size.clusters)
			b.ReportMetric(time.Since(begin).Seconds(), "s-until-seen")
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
			list, err := s.client.Events(b.Context(), client.EventQuery{Limit: 1})
			must(b, err)
			if len(list.Events) > 0 {
				b.Errorf("a fault in a healthy cluster: %+v", list.Events[0])
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}
