package mcpserver_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/ingest/dialect"
	"nightcrier.dev/nightcrier/internal/ingest/mcp"
	"nightcrier.dev/nightcrier/internal/test/kubetest"
)

// source starts our own MCP source against an endpoint.
func source(t *testing.T, url string) (*mcp.Source, <-chan nightcrier.Event) {
	t.Helper()
	got := make(chan nightcrier.Event, 1000)
	transport := mcp.NewTransport()
	t.Cleanup(transport.CloseIdleConnections)
	src := mcp.New(mcp.Config{Cluster: "prod", Endpoint: url, Transport: transport, Logger: slog.New(slog.DiscardHandler)},
		func(_ context.Context, d nightcrier.Delivery) error {
			ev, err := dialect.Parse(d.Raw)
			if err != nil {
				t.Errorf("our own source cannot read %s: %v", d.Raw, err)
			}
			got <- ev
			return nil
		})
	if err := src.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := src.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return src, got
}

// What a real API server shows goes through our server and our source, and is
// read as what it is.
func TestOurSourceReadsOurServer(t *testing.T) {
	s := kubetest.Start(t)
	ns := shop(t, s)
	url, _ := serve(t, config(cluster(t, "prod", s.Kubeconfig)))
	_, got := source(t, url)
	first := await(t, got, func(ev nightcrier.Event) bool { return ev.Resource.Namespace == ns })
	if first.FaultType != "CrashLoop" || first.Severity != nightcrier.Critical || first.Dialect != dialect.Faults || first.Container != "app" || !strings.HasPrefix(first.Owner.Name, "cart") || first.Cleared {
		t.Errorf("%+v", first)
	}
	s.OOMKill(t, s.Pod(t, ns, "fresh", nil), 1)
	second := await(t, got, func(ev nightcrier.Event) bool { return ev.Resource.Name == "fresh" })
	if second.FaultType != "OOMKilled" {
		t.Errorf("%+v", second)
	}
}

// A fault that is healed is told to be over, to our source too.
func TestOurSourceHearsOfHealing(t *testing.T) {
	s := kubetest.Start(t)
	ns := s.Namespace(t)
	pod := s.Pod(t, ns, "alone", nil)
	s.CrashLoop(t, pod, 1, 3)
	cfg := config(cluster(t, "prod", s.Kubeconfig))
	cfg.Patience = 0.005
	url, _ := serve(t, cfg)
	_, got := source(t, url)
	await(t, got, func(ev nightcrier.Event) bool { return ev.Resource.Namespace == ns && !ev.Cleared })
	s.Running(t, pod)
	over := await(t, got, func(ev nightcrier.Event) bool { return ev.Resource.Namespace == ns && ev.Cleared })
	if over.Owner.Name != "alone" || over.FaultType != "CrashLoop" {
		t.Errorf("%+v", over)
	}
}

// A cluster that cannot be watched makes the source say so.
func TestOurSourceIsToldOfADeadCluster(t *testing.T) {
	f := newFake()
	url, _ := serve(t, quick(f))
	src, _ := source(t, url)
	awaitState(t, src, nightcrier.SourceSubscribed)
	f.set(func(f *fake) { f.down = nightcrier.Errorf(nightcrier.Unreachable, "connection refused") })
	if st := awaitState(t, src, nightcrier.SourceDown); !strings.Contains(st.LastError, "watch") {
		t.Errorf("%+v", st)
	}
}

func await(t *testing.T, got <-chan nightcrier.Event, fits func(nightcrier.Event) bool) nightcrier.Event {
	t.Helper()
	timeout := time.After(patience)
	for {
		select {
		case ev := <-got:
			if fits(ev) {
				return ev
			}
		case <-timeout:
			t.Fatal("no such fault came")
		}
	}
}

func awaitState(t *testing.T, s *mcp.Source, want nightcrier.SourceState) nightcrier.SourceStatus {
	t.Helper()
	timeout := time.After(patience)
	for {
		changed := s.Changed()
		if st := s.Status(); st.State == want {
			return st
		}
		select {
		case <-changed:
		case <-timeout:
			t.Fatalf("state is %+v", s.Status())
		}
	}
}
