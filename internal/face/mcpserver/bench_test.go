package mcpserver_test

import (
	"runtime"
	"testing"

	"nightcrier.dev/nightcrier/internal/test/kubetest"
)

// BenchmarkEvent is one event from the cluster's watch to the client's handler.
func BenchmarkEvent(b *testing.B) {
	f := newFake()
	url, _ := serve(b, quick(f))
	c := connect(b, url, nil)
	c.level(b, "info")
	c.subscribe(b, map[string]any{"mode": "events"})
	e := event("BackOff", "Warning")
	b.ReportAllocs()
	for b.Loop() {
		f.send(b, f.events, e)
		<-c.notes
	}
}

// BenchmarkList is one kubernetes_list over HTTP, on a real API server.
func BenchmarkList(b *testing.B) {
	s := kubetest.Start(b)
	ns := shop(b, s)
	url, _ := serve(b, config(cluster(b, "prod", s.Kubeconfig)))
	c := connect(b, url, nil)
	args := map[string]any{"kind": "pods", "namespace": ns}
	c.must(b, "kubernetes_list", args)
	for b.Loop() {
		c.must(b, "kubernetes_list", args)
	}
}

// BenchmarkIdleSubscriber reports what one client with one subscription costs,
// both ends of it.
func BenchmarkIdleSubscriber(b *testing.B) {
	f := newFake()
	cfg := quick(f)
	cfg.Limits.Sessions, cfg.Limits.Subscriptions = 1000, 1000
	url, _ := serve(b, cfg)
	first := connect(b, url, nil)
	first.subscribe(b, map[string]any{"mode": "faults"})
	for b.Loop() {
		const n = 200
		before, goroutines := inUse(), runtime.NumGoroutine()
		clients := make([]*client, n)
		for i := range clients {
			clients[i] = connect(b, url, nil)
			clients[i].subscribe(b, map[string]any{"mode": "faults"})
		}
		b.ReportMetric(float64(inUse()-before)/n, "B/client")
		b.ReportMetric(float64(runtime.NumGoroutine()-goroutines)/n, "goroutines/client")
		for _, c := range clients {
			_ = c.Close() // measured already
		}
	}
}

func inUse() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}
