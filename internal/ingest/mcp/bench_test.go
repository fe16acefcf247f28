package mcp_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/ingest/mcp"
	"nightcrier.dev/nightcrier/internal/retry"
	"nightcrier.dev/nightcrier/internal/test/fakemcp"
)

// peerProcess makes the test binary a peer instead, so that a benchmark measures
// the client alone.
const peerProcess = "NIGHTCRIER_TEST_PEER"

func TestMain(m *testing.M) {
	if os.Getenv(peerProcess) != "" {
		servePeer()
		return
	}
	if len(os.Args) > 2 && os.Args[1] == conformCommand {
		os.Exit(mcp.Conform(os.Args[2], os.Getenv("MCP_CONFORMANCE_SCENARIO")))
	}
	goleak.VerifyTestMain(m)
}

// servePeer prints the peer's address and serves until stdin ends.
func servePeer() {
	peer := fakemcp.NewPeer()
	if err := peer.Listen(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(peer.URL("%"))
	_, _ = io.Copy(io.Discard, os.Stdin) // ends with the parent
}

func startPeerProcess(b *testing.B) (url string) {
	b.Helper()
	cmd := exec.CommandContext(b.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), peerProcess+"=1")
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = stdin.Close()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	return strings.TrimSpace(line)
}

// BenchmarkIdleCluster reports what one connected, quiet cluster costs.
func BenchmarkIdleCluster(b *testing.B) {
	url := startPeerProcess(b)
	transport := mcp.NewTransport()
	for b.Loop() {
		const n = 200
		before, goroutines := inUse(), runtime.NumGoroutine()
		sources := startIdle(b, n, func(i int) mcp.Config {
			return mcp.Config{Endpoint: strings.Replace(url, "%", fmt.Sprint("c-", i), 1), Transport: transport}
		})
		b.ReportMetric(float64(inUse()-before)/n, "B/cluster")
		b.ReportMetric(float64(runtime.NumGoroutine()-goroutines)/n, "goroutines/cluster")
		for _, s := range sources {
			if err := s.Stop(context.Background()); err != nil {
				b.Fatal(err)
			}
		}
	}
	transport.CloseIdleConnections()
}

func startIdle(b *testing.B, n int, config func(int) mcp.Config) []*mcp.Source {
	b.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	gate := retry.NewGate(16)
	sources := make([]*mcp.Source, n)
	for i := range sources {
		cfg := config(i)
		cfg.Cluster, cfg.Gate, cfg.Logger = fmt.Sprint("c-", i), gate, slog.New(slog.DiscardHandler)
		sources[i] = mcp.New(cfg, func(context.Context, nightcrier.Delivery) error { return nil })
		if err := sources[i].Start(ctx); err != nil {
			b.Fatal(err)
		}
	}
	for _, s := range sources {
		for s.Status().State != nightcrier.SourceSubscribed {
			select {
			case <-s.Changed():
			case <-time.After(100 * time.Millisecond): // it changed in between
			case <-ctx.Done():
				b.Fatalf("not subscribed: %+v", s.Status())
			}
		}
	}
	return sources
}

// inUse returns the bytes of live heap and of stacks.
func inUse() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}
