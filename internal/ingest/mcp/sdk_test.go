package mcp_test

//lint:file-ignore SA1019 The real library is the server here, and log messages are how it pushes.

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/ingest/mcp"
	"nightcrier.dev/nightcrier/internal/test/fakemcp"
)

// sdkServer is a fault server made of the real library, over real HTTP.
func sdkServer(t *testing.T, opts sdk.StreamableHTTPOptions) (endpoint string, sessions <-chan *sdk.ServerSession) {
	t.Helper()
	subscribed := make(chan *sdk.ServerSession, 1)
	server := sdk.NewServer(&sdk.Implementation{Name: "kubernetes-mcp-server", Version: "1"}, nil)
	schema := json.RawMessage(`{"type":"object","properties":{"mode":{"type":"string","enum":["events","faults"]}}}`)
	server.AddTool(&sdk.Tool{Name: "events_subscribe", InputSchema: schema}, func(_ context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		subscribed <- req.Session
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: `# Created {"subscriptionId":"sub-1","status":"active"}`}}}, nil
	})
	handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, &opts)
	srv := httptest.NewServer(handler)
	t.Cleanup(func() {
		srv.CloseClientConnections()
		srv.Close()
		for s := range server.Sessions() {
			_ = s.Close()
		}
	})
	return srv.URL, subscribed
}

func startReal(t *testing.T, cfg mcp.Config) (*mcp.Source, <-chan nightcrier.Delivery) {
	t.Helper()
	got := make(chan nightcrier.Delivery, 10)
	cfg.Cluster, cfg.Logger = "c", slog.New(slog.DiscardHandler)
	cfg.Timings.BackoffMin, cfg.Timings.BackoffMax = 10*time.Millisecond, 20*time.Millisecond
	s := mcp.New(cfg, func(_ context.Context, d nightcrier.Delivery) error { got <- d; return nil })
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return s, got
}

func TestAgainstTheRealLibrary(t *testing.T) {
	for name, opts := range map[string]sdk.StreamableHTTPOptions{
		"answers as streams": {},
		"answers as JSON":    {JSONResponse: true},
	} {
		t.Run(name, func(t *testing.T) {
			endpoint, sessions := sdkServer(t, opts)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			s, got := startReal(t, mcp.Config{Endpoint: endpoint})
			awaitState(t, ctx, s, nightcrier.SourceSubscribed)
			if err := (<-sessions).Log(ctx, &sdk.LoggingMessageParams{Level: "warning", Logger: "kubernetes/faults", Data: json.RawMessage(crash)}); err != nil {
				t.Fatal(err)
			}
			select {
			case d := <-got:
				if !strings.Contains(string(d.Raw), `"faultId":"077c6d725c2624ea"`) {
					t.Errorf("delivered %s", d.Raw)
				}
			case <-ctx.Done():
				t.Fatal("nothing was delivered")
			}
		})
	}
}

func TestAgainstTheRealLibraryStateless(t *testing.T) {
	endpoint, _ := sdkServer(t, sdk.StreamableHTTPOptions{Stateless: true})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	s, _ := startReal(t, mcp.Config{Endpoint: endpoint})
	if st := awaitState(t, ctx, s, nightcrier.SourceDown); !strings.Contains(st.LastError, "cannot push faults") {
		t.Errorf("status %+v", st)
	}
}

// Over real TCP: nobody listens, then somebody does.
func TestConnectionRefused(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	s, got := startReal(t, mcp.Config{Endpoint: fmt.Sprintf("http://%s/c/c/mcp", addr)})
	if st := awaitState(t, ctx, s, nightcrier.SourceDown); !strings.Contains(st.LastError, "refused") {
		t.Errorf("status %+v", st)
	}
	if l, err = net.Listen("tcp", addr); err != nil {
		t.Fatal(err)
	}
	peer := fakemcp.NewPeer()
	peer.Serve(l)
	t.Cleanup(func() {
		if err := peer.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := peer.AwaitSubscribed(ctx, "c"); err != nil {
		t.Fatal(err)
	}
	if _, err := peer.Push("c", []byte(crash)); err != nil {
		t.Fatal(err)
	}
	select {
	case <-got:
	case <-ctx.Done():
		t.Fatal("nothing was delivered")
	}
}
