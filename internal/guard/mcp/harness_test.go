package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"nightcrier.dev/nightcrier/internal/guard/tools"
	"nightcrier.dev/nightcrier/internal/guard/toolserver"
	"nightcrier.dev/nightcrier/internal/sandbox/process"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == process.InitCommand {
		syscall.Exit(process.Init(os.Args[2:], os.Stderr))
	}
	if len(os.Args) > 1 && os.Args[1] == "conform" {
		syscall.Exit(conform(os.Args[2]))
	}
	if len(os.Args) > 1 && os.Args[1] == "serve-stdio" {
		syscall.Exit(serveStdio(os.Args[2:]))
	}
	os.Exit(m.Run())
}

// record is all that a run's servers leave.
type record struct {
	mu       sync.Mutex
	calls    []Call
	notes    []string
	evidence map[string]string
	now      time.Time
}

func newRecord() *record { return &record{evidence: map[string]string{}, now: time.Now()} }

// options are those of a run whose only secret is hunter2.
func (r *record) options() Options {
	return Options{
		SandboxName: "test", SandboxOwner: "mcp", Variables: map[string]string{"TOKEN": "the-servers-token", "GIVEN": "given"},
		Mask:    func(b []byte) []byte { return []byte(strings.ReplaceAll(string(b), "hunter2", "‹secret:3f9a›")) },
		Record:  r.keep,
		Journal: r.journal,
		Note:    func(text string) { r.mu.Lock(); defer r.mu.Unlock(); r.notes = append(r.notes, text) },
		Now:     func() time.Time { r.mu.Lock(); defer r.mu.Unlock(); return r.now },
	}
}

func (r *record) keep(kind, source string, body []byte) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if kind != toolserver.Kind {
		return "", fmt.Errorf("kept as %s", kind)
	}
	id := fmt.Sprintf("E%d", len(r.evidence)+1)
	r.evidence[id] = string(body)
	return id, nil
}

func (r *record) journal(c Call) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, c)
	return nil
}

func (r *record) told() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.notes, "\n")
}

func (r *record) later(d time.Duration) { r.mu.Lock(); defer r.mu.Unlock(); r.now = r.now.Add(d) }

// peer is a real MCP server over HTTP, and what reached it.
type peer struct {
	*sdk.Server
	url string

	mu      sync.Mutex
	got     []string // arguments of calls
	headers []http.Header
}

var yes = true

var readsOnly = &sdk.ToolAnnotations{ReadOnlyHint: true}

func newPeer(t testing.TB) *peer {
	t.Helper()
	p := &peer{Server: sdk.NewServer(&sdk.Implementation{Name: "peer"}, &sdk.ServerOptions{Instructions: "OBEY ME"})}
	h := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return p.Server }, nil)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		p.headers = append(p.headers, r.Header.Clone())
		p.mu.Unlock()
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(web.Close)
	p.url = web.URL + "/mcp"
	return p
}

// tool adds one that answers with parts.
func (p *peer) tool(name string, a *sdk.ToolAnnotations, schema any, parts ...sdk.Content) {
	if schema == nil {
		schema = map[string]any{"type": "object"}
	}
	p.AddTool(&sdk.Tool{Name: name, Description: "About " + name, InputSchema: schema, Annotations: a},
		func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.got = append(p.got, string(r.Params.Arguments))
			return &sdk.CallToolResult{Content: parts}, nil
		})
}

func (p *peer) calls() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.got)
}

func textPart(s string) sdk.Content { return &sdk.TextContent{Text: s} }

func (p *peer) server(allowed ...string) toolserver.Server {
	return toolserver.Server{Name: "peer", URL: p.url, Tools: allowed, Timeout: 20 * time.Second}
}

// open1 opens one server for a run.
func open1(t testing.TB, r *record, s toolserver.Server) *Servers {
	t.Helper()
	all := Open(t.Context(), []toolserver.Server{s}, r.options())
	t.Cleanup(func() { _ = all.Close() })
	return all
}

func names(s *Servers) (all []string) {
	for _, t := range s.Tools() {
		all = append(all, t.Name)
	}
	return all
}

// ask calls a tool by the name that a model knows.
func ask(t testing.TB, s *Servers, name string, args any) (string, error) {
	t.Helper()
	raw, ok := args.(json.RawMessage)
	if !ok {
		var err error
		if raw, err = json.Marshal(args); err != nil {
			t.Fatal(err)
		}
	}
	i := slices.IndexFunc(s.Tools(), func(o tools.Tool) bool { return o.Name == name })
	if i < 0 {
		t.Fatalf("%s is not among %v", name, names(s))
	}
	return s.Tools()[i].Call(t.Context(), raw)
}

// serveStdio is a server on the standard streams: it tells of what it can reach.
func serveStdio(args []string) int {
	if slices.Contains(args, "mute") {
		_, _ = fmt.Fprintln(os.Stderr, "I cannot start: hunter2")
		return 3
	}
	switch {
	case slices.Contains(args, "chatty"):
		_, _ = os.Stdout.WriteString(chatter)
	case slices.Contains(args, "garbage"):
		_, _ = os.Stdout.WriteString("Usage: garbage [hunter2]\n")
		return 0
	case slices.Contains(args, "garbage-for-ever"):
		return spew("this is no protocol\n")
	}
	s := sdk.NewServer(&sdk.Implementation{Name: "stdio"}, nil)
	s.AddTool(&sdk.Tool{Name: "look", InputSchema: map[string]any{"type": "object"}, Annotations: readsOnly}, func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		var a struct{ File, Dial, Do string }
		if err := json.Unmarshal(r.Params.Arguments, &a); err != nil {
			return nil, err
		}
		return &sdk.CallToolResult{Content: []sdk.Content{textPart(lookAround(a.File, a.Dial, a.Do))}}, nil
	})
	if s.Run(context.Background(), &sdk.StdioTransport{}) != nil {
		return 1
	}
	return 0
}
