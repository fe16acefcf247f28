package fakemcp_test

//lint:file-ignore SA1019 Log messages are how servers push faults.

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"nightcrier.dev/nightcrier/internal/test/fakemcp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// subscriber is a plain client of the real library.
type subscriber struct {
	session *sdk.ClientSession
	logs    chan *sdk.LoggingMessageParams
}

func subscribe(t *testing.T, ctx context.Context, url string) *subscriber {
	t.Helper()
	s := &subscriber{logs: make(chan *sdk.LoggingMessageParams, 10)}
	client := sdk.NewClient(&sdk.Implementation{Name: "test"}, &sdk.ClientOptions{
		LoggingMessageHandler: func(_ context.Context, req *sdk.LoggingMessageRequest) { s.logs <- req.Params },
	})
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	session, err := client.Connect(ctx, &sdk.StreamableClientTransport{Endpoint: url, HTTPClient: &http.Client{Transport: transport}},
		&sdk.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() })
	if err := session.SetLoggingLevel(ctx, &sdk.SetLoggingLevelParams{Level: "warning"}); err != nil {
		t.Fatal(err)
	}
	if said := mustCall(t, ctx, session, "events_subscribe", map[string]any{"mode": "faults"}); !strings.Contains(said, "sub-") {
		t.Fatalf("subscribed: %s", said)
	}
	s.session = session
	return s
}

func mustCall(t *testing.T, ctx context.Context, s *sdk.ClientSession, tool string, args map[string]any) string {
	t.Helper()
	res, err := s.CallTool(ctx, &sdk.CallToolParams{Name: tool, Arguments: args})
	if err != nil || len(res.Content) != 1 {
		t.Fatalf("%s: %v", tool, err)
	}
	return res.Content[0].(*sdk.TextContent).Text
}

func listening(t *testing.T) (*fakemcp.Peer, context.Context) {
	t.Helper()
	peer := fakemcp.NewPeer()
	if err := peer.Listen(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for range 2 {
			if err := peer.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return peer, ctx
}

func TestPush(t *testing.T) {
	peer, ctx := listening(t)
	s := subscribe(t, ctx, peer.URL("a"))
	if err := peer.AwaitSubscribed(ctx, "a"); err != nil {
		t.Fatal(err)
	}
	for _, payload := range []string{
		`{"faultType":"X"}`,
		`{"data":{"faultType":"X"},"level":"warning","logger":"kubernetes/faults"}`,
		"{\"jsonrpc\":\"2.0\",\n\"method\":\"notifications/message\",\"params\":{\"data\":{\"faultType\":\"X\"},\"level\":\"warning\",\"logger\":\"kubernetes/faults\"}}",
	} {
		if n, err := peer.Push("a", []byte(payload)); n != 1 || err != nil {
			t.Fatalf("reached %d, %v", n, err)
		}
		got := <-s.logs
		if data, ok := got.Data.(map[string]any); !ok || data["faultType"] != "X" || got.Logger != "kubernetes/faults" {
			t.Errorf("%s arrived as %+v", payload, got)
		}
	}
	if n, err := peer.Push("b", []byte(`{}`)); n != 0 || err != nil {
		t.Errorf("another cluster: reached %d, %v", n, err)
	}
	if _, err := peer.Push("a", []byte("x")); err == nil {
		t.Error("a payload that is no JSON was pushed")
	}
}

// As in the field: a push while no stream is attached cancels silently.
func TestPushWithoutAStreamCancels(t *testing.T) {
	peer, ctx := listening(t)
	s := subscribe(t, ctx, peer.URL("a"))
	if said := mustCall(t, ctx, s.session, "events_list_subscriptions", nil); !strings.Contains(said, `"total": 1`) {
		t.Errorf("listed: %s", said)
	}
	peer.DropStreams("a")
	if n, err := peer.Push("a", []byte(`{}`)); n != 0 || err != nil {
		t.Errorf("reached %d, %v", n, err)
	}
	if said := mustCall(t, ctx, s.session, "events_list_subscriptions", nil); !strings.Contains(said, `"total": 0`) {
		t.Errorf("listed: %s", said)
	}
}

func TestAwaitSubscribedEndsWithItsContext(t *testing.T) {
	peer, ctx := listening(t)
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	if err := peer.AwaitSubscribed(ctx, "nobody"); err == nil {
		t.Error("somebody subscribed")
	}
}
