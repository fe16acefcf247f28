package tools_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	guardkube "nightcrier.dev/nightcrier/internal/guard/kube"
	"nightcrier.dev/nightcrier/internal/guard/tools"
	"nightcrier.dev/nightcrier/internal/mask"
	"nightcrier.dev/nightcrier/internal/record/evidence"
	"nightcrier.dev/nightcrier/internal/test/kubetest"
)

// run is an endpoint, what it reads, and all that was put down.
type run struct {
	*tools.Server
	ws       string
	evidence *evidence.Recorder

	mu      sync.Mutex
	records []guardkube.AuditRecord
	denials []string
	log     bytes.Buffer
}

// files are what agents may read in these tests.
var files = []string{".claude", "context", "incident.json", "gone.json"}

// start serves the tools of a workspace, and of s when it is not nil.
func start(t testing.TB, s *kubetest.Server) *run {
	t.Helper()
	r := &run{ws: t.TempDir()}
	r.write(t, "incident.json", `{"incidentId":"1"}`)
	r.write(t, "context/event.json", "{\"reason\":\"BackOff\"}\n")
	r.write(t, ".claude/skills/k8s-troubleshooter/SKILL.md", "# How to look\n")
	r.write(t, "home/token", secretText)
	r.write(t, "output/evidence/E1.json", secretText)
	r.write(t, "prompt-sent.md", secretText)
	cfg := tools.Config{ClusterName: "prod", Workspace: r.ws, Files: files, Logger: slog.New(slog.NewTextHandler(r, nil)), Denied: r.denied}
	if s != nil {
		cfg.Cluster = r.guard(t, s)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if r.Server, err = tools.Start(l, cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// secretText stands in what agents may not read.
const secretText = "not-for-agents"

func (r *run) write(t testing.TB, name, text string) {
	t.Helper()
	path := filepath.Join(r.ws, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// guard is a kube guard that holds the administrator's credential.
func (r *run) guard(t testing.TB, s *kubetest.Server) *guardkube.Guard {
	t.Helper()
	kubeconfig, err := os.ReadFile(s.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	up, err := guardkube.Dial(kubeconfig, nil)
	if err != nil {
		t.Fatal(err)
	}
	if r.evidence, err = evidence.Open(filepath.Join(t.TempDir(), "evidence")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.evidence.Close() })
	masker := mask.New([]byte("key"))
	g, err := guardkube.New(guardkube.Config{
		Upstream: up, Mask: masker.Bytes, MaskLog: masker.Log, Evidence: r.evidence, Audit: r.audit, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func (r *run) audit(_ context.Context, a guardkube.AuditRecord) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.records = append(r.records, a)
	return nil
}

func (r *run) denied(tool, what, why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.denials = append(r.denials, tool+" "+what+": "+why)
}

func (r *run) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.log.Write(p)
}

// outcomes are the answers that the guard put on record.
func (r *run) outcomes() (done []guardkube.AuditRecord) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.records {
		if a.Done {
			done = append(done, a)
		}
	}
	return done
}

func (r *run) refusals() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.denials)
}

// client is an MCP client with the run's token in the header.
func (r *run) client(t testing.TB) *sdk.ClientSession {
	t.Helper()
	return connect(t, r.URL(), r.Token())
}

func connect(t testing.TB, url, token string) *sdk.ClientSession {
	t.Helper()
	web := &http.Client{Transport: bearer(token)}
	c := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	s, err := c.Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: url, HTTPClient: web, MaxRetries: -1, DisableStandaloneSSE: true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// bearer adds a token, unless it is empty.
type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	if b != "" {
		r.Header.Set("Authorization", "Bearer "+string(b))
	}
	return http.DefaultTransport.RoundTrip(r)
}

// call calls a tool and returns its text, and whether it is an error.
func call(t testing.TB, s *sdk.ClientSession, tool string, args map[string]any) (string, bool) {
	t.Helper()
	res, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		t.Fatalf("%s: %v", tool, err)
	}
	var text strings.Builder
	for _, c := range res.Content {
		text.WriteString(c.(*sdk.TextContent).Text)
	}
	return text.String(), res.IsError
}

// post sends one message as it is and returns the status and the answer.
func post(t testing.TB, url, token, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	resp, err := (&http.Client{Transport: bearer(token)}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(answer)
}

// message is a JSON-RPC request.
func message(t testing.TB, method string, params any) string {
	t.Helper()
	b, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
