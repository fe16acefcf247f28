package mcp_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/ingest/mcp"
	"nightcrier.dev/nightcrier/internal/test/fakemcp"
)

// pipeNet is a network in memory, so that whole sessions run in fake time.
type pipeNet struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipeNet() *pipeNet {
	return &pipeNet{conns: make(chan net.Conn), closed: make(chan struct{})}
}

func (n *pipeNet) Accept() (net.Conn, error) {
	select {
	case c := <-n.conns:
		return c, nil
	case <-n.closed:
		return nil, net.ErrClosed
	}
}

func (n *pipeNet) Close() error   { n.once.Do(func() { close(n.closed) }); return nil }
func (n *pipeNet) Addr() net.Addr { return pipeAddr{} }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "peer.test" }

func (n *pipeNet) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case n.conns <- server:
		return client, nil
	case <-n.closed:
		return nil, errors.New("connection refused")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// harness is a peer, a network and sources in one bubble of fake time.
type harness struct {
	t         *testing.T
	ctx       context.Context
	peer      *fakemcp.Peer
	transport *http.Transport
	sources   []*mcp.Source
	got       chan nightcrier.Delivery
}

// inBubble runs fn in fake time. When a goroutine is left behind at the end,
// the bubble fails the test.
func inBubble(t *testing.T, fn func(h *harness)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		network := newPipeNet()
		ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
		defer cancel()
		h := &harness{
			t: t, ctx: ctx, peer: fakemcp.NewPeer(),
			transport: &http.Transport{DialContext: network.dial, MaxIdleConnsPerHost: 1},
			got:       make(chan nightcrier.Delivery, 1000),
		}
		h.peer.Serve(network)
		fn(h)
		h.stop()
	})
}

func (h *harness) stop() {
	h.t.Helper()
	for _, s := range h.sources {
		begin := time.Now()
		if err := s.Stop(h.ctx); err != nil {
			h.t.Errorf("stop: %v", err)
		}
		if took := time.Since(begin); took > 10*time.Second {
			h.t.Errorf("stop took %v", took)
		}
		if st := s.Status().State; st != nightcrier.SourceStopped {
			h.t.Errorf("state after stop is %s", st)
		}
	}
	h.transport.CloseIdleConnections()
	if err := h.peer.Close(); err != nil {
		h.t.Errorf("closing the peer: %v", err)
	}
}

func (h *harness) config(cluster string) mcp.Config {
	return mcp.Config{
		Cluster:   cluster,
		Endpoint:  h.peer.URL(cluster),
		Transport: h.transport,
		Logger:    slog.New(slog.DiscardHandler),
	}
}

// start starts a source that delivers to h.got.
func (h *harness) start(cfg mcp.Config) *mcp.Source {
	h.t.Helper()
	return h.startWith(cfg, func(_ context.Context, d nightcrier.Delivery) error {
		h.got <- d
		return nil
	})
}

func (h *harness) startWith(cfg mcp.Config, sink mcp.Sink) *mcp.Source {
	h.t.Helper()
	s := mcp.New(cfg, sink)
	h.sources = append(h.sources, s)
	if err := s.Start(h.ctx); err != nil {
		h.t.Fatalf("start: %v", err)
	}
	return s
}

// await waits until the source is in the state and returns its status.
func (h *harness) await(s *mcp.Source, want nightcrier.SourceState) nightcrier.SourceStatus {
	h.t.Helper()
	return awaitState(h.t, h.ctx, s, want)
}

func awaitState(t *testing.T, ctx context.Context, s *mcp.Source, want nightcrier.SourceState) nightcrier.SourceStatus {
	t.Helper()
	for {
		changed := s.Changed()
		st := s.Status()
		if st.State == want {
			return st
		}
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatalf("state is %s (%s), want %s", st.State, st.LastError, want)
		}
	}
}

const crash = `{"subscriptionId":"sub-1","cluster":"ctx","faultId":"077c6d725c2624ea","faultType":"CrashLoop","severity":"critical","resource":{"apiVersion":"v1","kind":"Pod","name":"cart","namespace":"shop","uid":"u1"},"context":"Container entered CrashLoopBackOff state","timestamp":"2026-11-20T05:40:04Z"}`

// push sends a fault and expects it to arrive.
func (h *harness) push(cluster string) nightcrier.Delivery {
	h.t.Helper()
	if n, err := h.peer.Push(cluster, []byte(crash)); err != nil || n != 1 {
		h.t.Fatalf("pushed to %d subscribers (%v), want 1", n, err)
	}
	return h.next()
}

func (h *harness) next() nightcrier.Delivery {
	h.t.Helper()
	select {
	case d := <-h.got:
		return d
	case <-h.ctx.Done():
		h.t.Fatal("nothing was delivered")
		panic("unreachable")
	}
}
