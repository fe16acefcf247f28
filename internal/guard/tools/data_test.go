package tools_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"nightcrier.dev/nightcrier/internal/guard/data"
	"nightcrier.dev/nightcrier/internal/guard/tools"
	"nightcrier.dev/nightcrier/internal/mask"
	"nightcrier.dev/nightcrier/internal/record/journal"
	"nightcrier.dev/nightcrier/internal/test/datatest"
)

// counter is a Recorder that keeps kinds.
type counter struct {
	mu    sync.Mutex
	kinds []string
}

func (c *counter) Record(kind, _ string, _ []byte) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kinds = append(c.kinds, kind)
	return fmt.Sprint("E", len(c.kinds)), nil
}

// asking starts an endpoint with the tools of a guard, and returns how to call them.
func asking(t *testing.T, a data.Access) func(tool string, args map[string]any) (string, bool) {
	t.Helper()
	g, err := data.New(data.Config{
		Access: a, Mask: bytes.Clone, MaskLog: mask.New([]byte("key")).Log, Evidence: &counter{}, Logger: slog.New(slog.DiscardHandler),
		Audit: func(context.Context, journal.Request) error { return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s, err := tools.Start(l, tools.Config{Workspace: t.TempDir(), More: []tools.Source{tools.Data(g)}, Denied: func(string, string, string) {}, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	session := connect(t, s.URL(), s.Token())
	return func(tool string, args map[string]any) (string, bool) { return call(t, session, tool, args) }
}

func TestMetricsAndLogsAreAskedFor(t *testing.T) {
	now := time.Now().UTC()
	var samples []datatest.Sample
	for m := 30; m >= 0; m-- {
		samples = append(samples, datatest.Sample{At: now.Add(-time.Duration(m) * time.Minute), Value: float64(1000 - m)})
	}
	prometheus := datatest.Prometheus(t, datatest.Series{Name: "queue_length", Labels: `namespace="shop",pod="cart-1"`, Samples: samples})
	loki := datatest.NewLoki(t, datatest.Stream{Labels: map[string]string{"pod": "cart-1"}, Lines: []datatest.Line{{At: now.Add(-time.Minute), Text: "queue is full"}}})
	ask := asking(t, data.Access{Prometheus: &data.Endpoint{URL: prometheus}, Loki: &data.Endpoint{URL: loki.URL}})
	for _, c := range []struct {
		tool    string
		args    map[string]any
		want    string
		refused bool
	}{
		{"prometheus_query", map[string]any{"query": "queue_length", "end": "1m"}, `pod="cart-1"`, false},
		{"prometheus_query", map[string]any{"query": "queue_length", "start": "20m", "step": "1m"}, "course", false},
		{"prometheus_query", map[string]any{"values_of": "__name__"}, "queue_length", false},
		{"prometheus_query", map[string]any{"query": "sum("}, "parse error", true},
		{"prometheus_query", map[string]any{"query": "up", "start": "yesterday"}, "argument start", true},
		{"prometheus_query", map[string]any{"query": "up", "path": "/api/v1/admin/tsdb/delete_series"}, `argument "path" is not known`, true},
		{"prometheus_query", map[string]any{"query": "up", "values_of": "../admin"}, "not the name of a label", true},
		{"prometheus_query", map[string]any{}, "the query is empty", true},
		{"loki_query", map[string]any{"query": `{pod="cart-1"}`}, "queue is full", false},
		{"loki_query", map[string]any{"query": `{pod="cart-1"}`, "limit": 100000}, "from 1 to 500", true},
	} {
		text, failed := ask(c.tool, c.args)
		if failed != c.refused || !strings.Contains(text, c.want) {
			t.Errorf("%s %v: failed %v:\n%s", c.tool, c.args, failed, text)
		}
		if !c.refused && !strings.Contains(text, "[evidence E") {
			t.Errorf("%s %v names no evidence:\n%s", c.tool, c.args, text)
		}
	}
}
