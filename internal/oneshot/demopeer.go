package oneshot

//lint:file-ignore SA1019 Log messages are how faults are pushed to the clients in the field.

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/fake/demo"
)

// demoPeer is the Kubernetes MCP server of a demo: it pushes what was recorded of each
// cluster to whoever subscribed to it.
type demoPeer struct {
	listener net.Listener
	server   *http.Server
	clusters map[string]*demoCluster
}

// demoCluster is the endpoint of one cluster.
type demoCluster struct {
	mcp *sdk.Server
	// subscribed holds the session of its subscriber.
	subscribed chan *sdk.ServerSession
}

// openDemoPeer serves the scenarios' clusters on a free port of loopback.
func openDemoPeer(scenarios []demo.Scenario) (*demoPeer, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nightcrier.Errorf(nightcrier.Exhausted, "demo: listen: %w", err)
	}
	p := &demoPeer{listener: l, clusters: map[string]*demoCluster{}}
	for _, sc := range scenarios {
		p.clusters[sc.Cluster] = newDemoCluster()
	}
	mux := http.NewServeMux()
	mux.Handle("/c/{cluster}/mcp", sdk.NewStreamableHTTPHandler(func(r *http.Request) *sdk.Server {
		if c := p.clusters[r.PathValue("cluster")]; c != nil {
			return c.mcp
		}
		return nil
	}, nil))
	p.server = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = p.server.Serve(l) }() // it says that it was closed
	return p, nil
}

func newDemoCluster() *demoCluster {
	c := &demoCluster{subscribed: make(chan *sdk.ServerSession, 1)}
	c.mcp = sdk.NewServer(&sdk.Implementation{Name: "nightcrier-demo", Version: "1"}, &sdk.ServerOptions{
		Logger: slog.New(slog.DiscardHandler), SupportedProtocolVersions: []string{"2025-11-25"}, // the newest that pushes
	})
	// In this mode subscribers take notifications of any level.
	takes := json.RawMessage(`{"type": "object", "properties": {"mode": {"type": "string", "enum": ["events"]}}}`)
	c.mcp.AddTool(&sdk.Tool{Name: "events_subscribe", InputSchema: takes}, func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		select {
		case c.subscribed <- r.Session:
		default: // who comes back has missed nothing: a demo pushes when all are there
		}
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: `{"subscriptionId": "sub-demo", "status": "active"}`}}}, nil
	})
	return c
}

// endpointOf is the address of a cluster's endpoint.
func (p *demoPeer) endpointOf(cluster string) string {
	return "http://" + p.listener.Addr().String() + "/c/" + cluster + "/mcp"
}

// pushAll waits until each cluster has a subscriber, calls begin, and pushes what was recorded.
func (p *demoPeer) pushAll(ctx context.Context, scenarios []demo.Scenario, begin func()) error {
	subscribers := map[string]*sdk.ServerSession{}
	for _, sc := range scenarios {
		select {
		case subscribers[sc.Cluster] = <-p.clusters[sc.Cluster].subscribed:
		case <-ctx.Done():
			return nightcrier.Errorf(nightcrier.Interrupted, "the demo was stopped before it began")
		}
	}
	begin()
	for _, sc := range scenarios {
		for _, n := range sc.Notifications {
			var m struct {
				Params sdk.LoggingMessageParams `json:"params"`
			}
			err := json.Unmarshal(n, &m)
			if err == nil {
				err = subscribers[sc.Cluster].Log(ctx, &m.Params)
			}
			if err != nil {
				return nightcrier.Errorf(nightcrier.Internal, "demo scenario %s: %w", sc.Name, err)
			}
		}
	}
	return nil
}

// Close ends all sessions.
func (p *demoPeer) Close() error { return p.server.Close() }
