package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	guardkube "nightcrier.dev/nightcrier/internal/guard/kube"
	"nightcrier.dev/nightcrier/internal/mask"
	"nightcrier.dev/nightcrier/internal/record/evidence"
	"nightcrier.dev/nightcrier/internal/test/kubetest"
)

// BenchmarkGuard compares reads through the guard, with masking, evidence on a
// real disk and a record in memory, with the same reads made directly. The
// scripted cluster answers in no time, so that what is left is the guard; the real
// one is a kube-apiserver.
func BenchmarkGuard(b *testing.B) {
	for name, cluster := range map[string]func(*testing.B) guardedCluster{"scripted": scriptedCluster, "apiserver": realCluster} {
		b.Run(name, func(b *testing.B) {
			c := cluster(b)
			for _, path := range []struct{ name, target string }{
				{"get-pod", "/api/v1/namespaces/" + c.ns + "/pods/pod-7"},
				{"list-100-pods", "/api/v1/namespaces/" + c.ns + "/pods"},
			} {
				b.Run(path.name+"/direct", func(b *testing.B) { measureReads(b, c.direct, c.url+path.target) })
				b.Run(path.name+"/guard", func(b *testing.B) { measureReads(b, c.through, c.guardURL+path.target) })
				b.Run(path.name+"/guard-8-at-once", func(b *testing.B) { parallelReads(b, c.through, c.guardURL+path.target) })
				b.Run(path.name+"/direct-8-at-once", func(b *testing.B) { parallelReads(b, c.direct, c.url+path.target) })
			}
		})
	}
}

// guardedCluster is a cluster, and a guard before it.
type guardedCluster struct {
	ns, url, guardURL string
	direct, through   *http.Client
}

func measureReads(b *testing.B, web *http.Client, target string) {
	var took []time.Duration
	b.ReportAllocs()
	for b.Loop() {
		start := time.Now()
		read(b, web, target)
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
}

func parallelReads(b *testing.B, web *http.Client, target string) {
	start := time.Now()
	var wg sync.WaitGroup
	turns := make(chan struct{})
	for range 8 {
		wg.Go(func() {
			for range turns {
				read(b, web, target)
			}
		})
	}
	n := 0
	for b.Loop() {
		turns <- struct{}{}
		n++
	}
	close(turns)
	wg.Wait()
	b.ReportMetric(float64(n)/time.Since(start).Seconds(), "reads/s")
}

func read(b *testing.B, web *http.Client, target string) {
	resp, err := web.Get(target)
	if err != nil {
		b.Error(err)
		return
	}
	defer resp.Body.Close()
	n, err := io.Copy(io.Discard, resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK || n < 1000 {
		b.Errorf("GET %s: %d, %d bytes, %v", target, resp.StatusCode, n, err)
	}
}

func scriptedCluster(b *testing.B) guardedCluster {
	list, pod := podBodies()
	var version atomic.Int64
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		body := pod
		if strings.HasSuffix(r.URL.Path, "/pods") {
			body = list
		}
		// No two answers are the same, so that each is new evidence.
		fmt.Fprintf(w, `{"resourceVersion":"%d",%s`, version.Add(1), body[1:])
	}))
	srv.EnableHTTP2 = true
	srv.StartTLS()
	b.Cleanup(srv.Close)
	base, err := url.Parse(srv.URL)
	must(b, err)
	c := guardedCluster{ns: "shop", url: srv.URL, direct: srv.Client()}
	c.guardURL, c.through = startGuard(b, guardkube.Upstream{Base: base, Transport: srv.Client().Transport})
	return c
}

func realCluster(b *testing.B) guardedCluster {
	s := kubetest.Start(b)
	c := guardedCluster{ns: s.Namespace(b), url: s.URL}
	for i := range 100 {
		pod := s.Pod(b, c.ns, fmt.Sprintf("pod-%d", i), nil)
		s.CrashLoop(b, pod, 3, 4)
	}
	web, err := rest.HTTPClientFor(s.Config)
	must(b, err)
	c.direct = web
	file, err := os.ReadFile(s.Kubeconfig)
	must(b, err)
	up, err := guardkube.Dial(file, nil)
	must(b, err)
	c.guardURL, c.through = startGuard(b, up)
	return c
}

// startGuard runs a guard and returns its address and an agent's client.
func startGuard(b *testing.B, up guardkube.Upstream) (string, *http.Client) {
	kept := &manyRuns{b: b}
	b.Cleanup(func() { must(b, kept.Close()) })
	masker := mask.New([]byte("key"))
	g, err := guardkube.New(guardkube.Config{
		Upstream: up, Mask: masker.Bytes, MaskLog: masker.Log, Evidence: kept,
		Audit:  func(context.Context, guardkube.AuditRecord) error { return nil },
		Logger: slog.New(slog.DiscardHandler), Limits: guardkube.Limits{PerSecond: 1_000_000},
	})
	must(b, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(b, err)
	srv, err := guardkube.Serve(l, g)
	must(b, err)
	b.Cleanup(func() { _ = srv.Close() })
	cfg, err := clientcmd.RESTConfigFromKubeConfig(srv.Kubeconfig())
	must(b, err)
	web, err := rest.HTTPClientFor(cfg)
	must(b, err)
	return cfg.Host, web
}

// manyRuns is the evidence of one run after the other: a run's is bounded.
type manyRuns struct {
	b    *testing.B
	mu   sync.Mutex
	left int
	*evidence.Recorder
}

const itemsPerRun = 200

// Record keeps body in the present run's evidence.
func (m *manyRuns) Record(kind, source string, body []byte) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.left--; m.left < 0 {
		if err := m.next(); err != nil {
			return "", err
		}
	}
	return m.Recorder.Record(kind, source, body)
}

func (m *manyRuns) next() (err error) {
	if err := m.Close(); err != nil {
		return err
	}
	m.left = itemsPerRun
	m.Recorder, err = evidence.Open(filepath.Join(m.b.TempDir(), "evidence"))
	return err
}

// Close closes the present run's evidence.
func (m *manyRuns) Close() error {
	if m.Recorder == nil {
		return nil
	}
	return m.Recorder.Close()
}

// podBodies are the answers of the scripted cluster: a Pod as large as they are in
// production, and a list of 100.
func podBodies() (list, pod []byte) {
	var env []map[string]string
	for i := range 20 {
		env = append(env, map[string]string{"name": fmt.Sprintf("SETTING_%d", i), "value": fmt.Sprintf("value of setting %d", i)})
	}
	env = append(env, map[string]string{"name": "DB_PASSWORD", "value": "correct-horse-7"})
	object := map[string]any{
		"metadata": map[string]any{"name": "pod-7", "namespace": "shop", "uid": "8a1b", "labels": map[string]string{"app": "cart"},
			"managedFields": []any{map[string]any{"manager": "kubelet", "fieldsV1": map[string]any{"f:status": map[string]any{"f:conditions": strings.Split(strings.Repeat("f:type,", 60), ",")}}}}},
		"spec":   map[string]any{"containers": []any{map[string]any{"name": "app", "image": "registry.example/app:1.2.3", "env": env, "args": strings.Fields(strings.Repeat("--flag=value ", 30))}}},
		"status": map[string]any{"phase": "Running", "conditions": strings.Fields(strings.Repeat("Ready=True ", 60))},
	}
	items := make([]any, 100)
	for i := range items {
		items[i] = object
	}
	list, _ = json.Marshal(map[string]any{"kind": "PodList", "apiVersion": "v1", "metadata": map[string]any{}, "items": items})
	object["kind"], object["apiVersion"] = "Pod", "v1"
	pod, _ = json.Marshal(object) // maps and strings always marshal
	return list, pod
}
