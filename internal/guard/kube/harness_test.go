package kube_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	guardkube "nightcrier.dev/nightcrier/internal/guard/kube"
	"nightcrier.dev/nightcrier/internal/mask"
	"nightcrier.dev/nightcrier/internal/record/evidence"
	"nightcrier.dev/nightcrier/internal/test/kubetest"
)

// guarded is a running guard and all that it put down.
type guarded struct {
	guard      *guardkube.Guard
	server     *guardkube.Server
	evidence   *evidence.Recorder
	kubeconfig string
	addr       string

	mu      sync.Mutex
	records []guardkube.AuditRecord
	broken  bool // the record cannot be kept
	logs    bytes.Buffer
}

// serve runs a guard in front of an upstream.
func serve(tb testing.TB, up guardkube.Upstream, adjust func(*guardkube.Config)) *guarded {
	tb.Helper()
	g := &guarded{}
	var err error
	if g.evidence, err = evidence.Open(filepath.Join(tb.TempDir(), "evidence")); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = g.evidence.Close() })
	masker := mask.New([]byte("key"))
	cfg := guardkube.Config{
		Upstream: up, Mask: masker.Bytes, MaskLog: masker.Log, Evidence: g.evidence, Audit: g.audit,
		Logger: slog.New(slog.NewTextHandler(&lockedBuffer{g: g}, nil)),
	}
	if adjust != nil {
		adjust(&cfg)
	}
	if g.guard, err = guardkube.New(cfg); err != nil {
		tb.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	g.addr = l.Addr().String()
	if g.server, err = guardkube.Serve(l, g.guard); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = g.server.Close() })
	g.kubeconfig = filepath.Join(tb.TempDir(), "kubeconfig")
	if err := os.WriteFile(g.kubeconfig, g.server.Kubeconfig(), 0o600); err != nil {
		tb.Fatal(err)
	}
	return g
}

// inFront runs a guard that holds the administrator's credential of s.
func inFront(tb testing.TB, s *kubetest.Server) *guarded {
	tb.Helper()
	return serve(tb, administrator(tb, s), nil)
}

func administrator(tb testing.TB, s *kubetest.Server) guardkube.Upstream {
	tb.Helper()
	file, err := os.ReadFile(s.Kubeconfig)
	if err != nil {
		tb.Fatal(err)
	}
	up, err := guardkube.Dial(file, nil)
	if err != nil {
		tb.Fatal(err)
	}
	return up
}

var discard = slog.New(slog.DiscardHandler)

type lockedBuffer struct{ g *guarded }

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.g.mu.Lock()
	defer b.g.mu.Unlock()
	return b.g.logs.Write(p)
}

func (g *guarded) audit(_ context.Context, r guardkube.AuditRecord) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.broken {
		return errors.New("disk full")
	}
	g.records = append(g.records, r)
	return nil
}

// audited returns the records so far.
func (g *guarded) audited() []guardkube.AuditRecord {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.records)
}

// outcome returns the last record.
func (g *guarded) outcome(tb testing.TB) guardkube.AuditRecord {
	tb.Helper()
	all := g.audited()
	if len(all) == 0 {
		tb.Fatal("nothing is on record")
	}
	return all[len(all)-1]
}

// written is everything that the guard put down.
func (g *guarded) written(tb testing.TB) string {
	tb.Helper()
	var all bytes.Buffer
	for _, item := range g.evidence.Items() {
		body, err := g.evidence.Load(item.ID)
		if err != nil {
			tb.Fatal(err)
		}
		all.WriteString(item.Source + "\n")
		all.Write(body)
	}
	for _, r := range g.audited() {
		all.WriteString(r.Query + r.Reason + r.Name + "\n")
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	all.Write(g.logs.Bytes())
	return all.String()
}
