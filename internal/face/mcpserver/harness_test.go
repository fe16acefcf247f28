package mcpserver_test

//lint:file-ignore SA1019 Log messages are how faults are pushed.

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/cluster/kube"
	"nightcrier.dev/nightcrier/internal/cluster/kubetool"
	"nightcrier.dev/nightcrier/internal/face/mcpserver"
	"nightcrier.dev/nightcrier/internal/ingest/intake"
	"nightcrier.dev/nightcrier/internal/mask"
	"nightcrier.dev/nightcrier/internal/test/kubetest"
)

// patience is how long a test waits for what another process does.
const patience = 3 * time.Minute

// cluster is a real one, as the server is given it.
func cluster(t testing.TB, name, kubeconfig string) mcpserver.Cluster {
	t.Helper()
	c, err := kube.Dial(kubeconfig, "", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	masked := mask.New([]byte("key")).Bytes
	tools := kubetool.New(kubetool.Config{Reader: c, Releases: c, Mask: masked, Cluster: name})
	return mcpserver.Cluster{Name: name, Tools: tools, API: c, Mask: masked}
}

func config(clusters ...mcpserver.Cluster) mcpserver.Config {
	return mcpserver.Config{Clusters: clusters, Class: intake.ClassOf, OwnerByName: intake.OwnerByName, Version: "test", Logger: slog.New(slog.DiscardHandler)}
}

// serve starts a server on loopback and returns the URL of its endpoint.
func serve(t testing.TB, cfg mcpserver.Config) (url string, s *mcpserver.Server) {
	t.Helper()
	s, err := mcpserver.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
		s.Close()
	})
	return "http://" + l.Addr().String() + mcpserver.Path, s
}

// client is an MCP client of the SDK that collects notifications.
type client struct {
	*sdk.ClientSession
	notes chan *sdk.LoggingMessageParams
}

func connect(t testing.TB, url string, httpClient *http.Client) *client {
	t.Helper()
	return over(t, &sdk.StreamableClientTransport{Endpoint: url, HTTPClient: httpClient}, "")
}

func over(t testing.TB, transport sdk.Transport, protocol string) *client {
	t.Helper()
	c := &client{notes: make(chan *sdk.LoggingMessageParams, 10000)}
	cl := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, &sdk.ClientOptions{
		LoggingMessageHandler: func(_ context.Context, r *sdk.LoggingMessageRequest) { c.notes <- r.Params },
	})
	cs, err := cl.Connect(t.Context(), transport, &sdk.ClientSessionOptions{ProtocolVersion: protocol})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cs.Close() }) // may have been closed, or its server
	c.ClientSession = cs
	return c
}

// call calls a tool and returns what it said.
func (c *client) call(t testing.TB, name string, args map[string]any) (text string, isError bool) {
	t.Helper()
	res, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: name, Arguments: args})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	for _, part := range res.Content {
		text += part.(*sdk.TextContent).Text
	}
	return text, res.IsError
}

// must is call for what must work.
func (c *client) must(t testing.TB, name string, args map[string]any) string {
	t.Helper()
	text, bad := c.call(t, name, args)
	if bad {
		t.Fatalf("%s %v: %s", name, args, text)
	}
	return text
}

// level asks for notifications of at least this level.
func (c *client) level(t testing.TB, level sdk.LoggingLevel) {
	t.Helper()
	if err := c.SetLoggingLevel(t.Context(), &sdk.SetLoggingLevelParams{Level: level}); err != nil {
		t.Fatal(err)
	}
}

// subscribe returns the id of a new subscription.
func (c *client) subscribe(t testing.TB, args map[string]any) string {
	t.Helper()
	var answer struct {
		ID string `json:"subscriptionId"`
	}
	embedded(t, c.must(t, "events_subscribe", args), &answer)
	return answer.ID
}

// embedded decodes the JSON object that stands in prose.
func embedded(t testing.TB, prose string, v any) {
	t.Helper()
	start := strings.IndexByte(prose, '{')
	if start < 0 {
		t.Fatalf("no JSON in %q", prose)
	}
	if err := json.NewDecoder(strings.NewReader(prose[start:])).Decode(v); err != nil {
		t.Fatalf("%v in %q", err, prose)
	}
}

// notification is the union of what is pushed.
type notification struct {
	SubscriptionID, Cluster, FaultID, FaultType, Severity, Condition, Context, Error string
	Degraded                                                                         bool
	Resource, Owner                                                                  nightcrier.Resource
	Event                                                                            *struct {
		Reason, Type, Message string
		InvolvedObject        nightcrier.Resource
	}
	raw    string
	logger string
}

// next returns the next notification that fits.
func (c *client) next(t testing.TB, fits func(notification) bool) notification {
	t.Helper()
	timeout := time.After(patience)
	for {
		select {
		case p := <-c.notes:
			if n := read(t, p); fits(n) {
				return n
			}
		case <-timeout:
			t.Fatal("no such notification came")
		}
	}
}

func read(t testing.TB, p *sdk.LoggingMessageParams) notification {
	t.Helper()
	raw, err := json.Marshal(p.Data)
	if err != nil {
		t.Fatal(err)
	}
	var n notification
	if err := json.Unmarshal(raw, &n); err != nil {
		t.Fatalf("%v in %s", err, raw)
	}
	n.raw, n.logger = string(raw), p.Logger
	return n
}

func of(ns string) func(notification) bool {
	return func(n notification) bool { return n.Resource.Namespace == ns }
}

// shop is a namespace with a crash-looping Pod.
func shop(t testing.TB, s *kubetest.Server) (ns string) {
	t.Helper()
	ns = s.Namespace(t)
	_, rs := s.Deployment(t, ns, "cart")
	s.CrashLoop(t, s.Pod(t, ns, rs.Name+"-x7k2p", rs), 137, 7)
	return ns
}
