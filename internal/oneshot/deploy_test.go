package oneshot

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
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	rbacv1 "k8s.io/api/rbac/v1"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/config"
	"nightcrier.dev/nightcrier/internal/guard/deploy"
	"nightcrier.dev/nightcrier/internal/guard/mcp"
	"nightcrier.dev/nightcrier/internal/guard/toolserver"
	"nightcrier.dev/nightcrier/internal/test/kubetest"
)

const oneConfigMap = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {a: b}"

// writerOptions are a server that may apply ConfigMaps in a namespace of a real cluster.
func writerOptions(t *testing.T) MCPOptions {
	t.Helper()
	api := kubetest.Start(t)
	ns := api.Namespace(t)
	rule := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "list", "create", "patch", "delete"}}
	return MCPOptions{
		Config: &config.Config{WorkspaceRoot: t.TempDir()}, Logger: slog.New(slog.DiscardHandler), Kubeconfig: api.AccessIn(t, ns, rule),
		Write: &WritePolicy{Namespaces: []string{ns}, Kinds: []string{"cm"}}, Ready: func() {},
	}
}

type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

// checkWriter applies an object as a client of any protocol does.
func checkWriter(t *testing.T, transport sdk.Transport, protocol string) {
	t.Helper()
	c, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), transport, &sdk.ClientSessionOptions{ProtocolVersion: protocol})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	list, err := c.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
		if writes := tool.Name == "kubectl_apply" || tool.Name == "kubectl_delete"; tool.Annotations.ReadOnlyHint == writes {
			t.Errorf("%s says that it only reads: %t", tool.Name, !writes)
		}
	}
	if got := strings.Join(names, " "); got != "kubectl_apply kubectl_delete kubectl_get kubectl_rollout_status" {
		t.Errorf("it serves %s", got)
	}
	res, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: "kubectl_apply", Arguments: map[string]any{"manifest": oneConfigMap}})
	if err != nil || res.IsError || res.StructuredContent == nil {
		t.Errorf("%+v, %v", res, err)
	}
	res, err = c.CallTool(t.Context(), &sdk.CallToolParams{Name: "kubectl_apply", Arguments: map[string]any{"manifest": strings.Replace(oneConfigMap, "ConfigMap", "Secret", 1)}})
	if err != nil || !res.IsError {
		t.Errorf("a Secret: %+v, %v", res, err)
	}
}

// askWriter makes one request, and returns what is answered.
func askWriter(t *testing.T, method, url, body string, headers ...string) (code int, answer string, header http.Header) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	said, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(said), resp.Header
}

// checkStatelessWriter applies by one request of the protocol without sessions: nothing goes before
// it, and no session comes of it.
func checkStatelessWriter(t *testing.T, url, token string) {
	t.Helper()
	const protocol = "2026-07-28"
	manifest, err := json.Marshal(oneConfigMap)
	if err != nil {
		t.Fatal(err)
	}
	code, answer, header := askWriter(t, http.MethodPost, url, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"kubectl_apply","arguments":{"manifest":`+string(manifest)+`},
		"_meta":{"io.modelcontextprotocol/protocolVersion":"`+protocol+`","io.modelcontextprotocol/clientInfo":{"name":"test","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`,
		"Authorization", "Bearer "+token, "Content-Type", "application/json", "Accept", "application/json, text/event-stream",
		"Mcp-Protocol-Version", protocol, "Mcp-Method", "tools/call", "Mcp-Name", "kubectl_apply")
	if code != http.StatusOK || !strings.Contains(answer, "unchanged") || strings.Contains(answer, `"isError":true`) || header.Get("Mcp-Session-Id") != "" {
		t.Errorf("%d %s %v", code, answer, header)
	}
	if code, answer, _ = askWriter(t, http.MethodPost, url, "{}", "Mcp-Protocol-Version", protocol); code != http.StatusUnauthorized {
		t.Errorf("without the token: %d %s", code, answer)
	}
}

// checkOlderWriter applies as a client of the older platform does.
func checkOlderWriter(t *testing.T, base, token string) {
	t.Helper()
	key := []string{"Authorization", "Bearer " + token}
	if code, answer, _ := askWriter(t, http.MethodGet, base+"/health", ""); code != http.StatusOK || strings.TrimSpace(answer) != `{"status":"ready"}` {
		t.Errorf("%d %s", code, answer)
	}
	for _, path := range []string{"GET /tools", "POST /tools/call"} {
		method, where, _ := strings.Cut(path, " ")
		if code, answer, _ := askWriter(t, method, base+where, "{}"); code != http.StatusUnauthorized || strings.Contains(answer, "kubectl") {
			t.Errorf("%s without the token: %d %s", path, code, answer)
		}
		if code, _, _ := askWriter(t, method, base+where, "{}", append(key, "Origin", "https://evil.example")...); code != http.StatusForbidden {
			t.Errorf("%s of a web page: %d", path, code)
		}
	}
	code, answer, _ := askWriter(t, http.MethodGet, base+"/tools", "", key...)
	if code != http.StatusOK || !strings.HasPrefix(answer, `[{"name":"kubectl_apply","description":"Applies `) || !strings.Contains(answer, `"input_schema":{`) {
		t.Errorf("%d %s", code, answer)
	}
	for call, want := range map[string]string{
		`{"name":"kubectl_get","arguments":{"resource":"configmaps"}}`: `"is_error":false`,
		`{"name":"kubectl_get","arguments":{"resource":"secrets"}}`:    `"is_error":true`,
		`{"name":"kubectl_get"}`:      `"is_error":true`,
		`{"name":"x","arguments":{}}`: `{"content":"Unknown tool: x","is_error":true}`,
		`{"name":`:                    `{"detail":"`,
	} {
		if code, answer, _ := askWriter(t, http.MethodPost, base+"/tools/call", call, key...); !strings.Contains(answer, want) || (code == http.StatusOK) != json.Valid([]byte(call)) {
			t.Errorf("%s: %d %s", call, code, answer)
		}
	}
}

// checkOwnClient looks at it as our own guard does, where only the older dialect is.
func checkOwnClient(t *testing.T, base, token string) {
	t.Helper()
	offers, err := mcp.Look(t.Context(), toolserver.Server{Name: "k8s", URL: base, TokenEnv: "K", Tools: []string{"kubectl_apply", "kubectl_get"}, Writes: true, Timeout: time.Minute},
		mcp.Options{Variables: map[string]string{"K": token}, Mask: bytes.Clone, Note: func(string) {}})
	if err != nil || len(offers) != 4 || !offers[0].Offered || offers[0].ShownAs != "k8s_kubectl_apply" || len(offers[0].Hints) != 0 || offers[1].Offered {
		t.Errorf("%+v, %v", offers, err)
	}
}

// The server that deploys is served over HTTP to those who have the token, with sessions and
// without, and keeps its record.
func TestWriterOverHTTP(t *testing.T) {
	o := writerOptions(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	o.Listener = l
	if err := ServeMCP(t.Context(), o); nightcrier.CodeOf(err) != nightcrier.Refused {
		t.Fatalf("without a token: %v", err)
	}
	ready := make(chan struct{})
	o.Token, o.Ready = "a-token-of-this-test", func() { close(ready) }
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- ServeMCP(ctx, o) }()
	<-ready
	url := "http://" + l.Addr().String() + "/mcp"
	resp, err := http.Post(url, "application/json", strings.NewReader("{}"))
	if err != nil || resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("%v, %v", resp, err)
	}
	resp.Body.Close()
	for _, protocol := range []string{"", "2025-06-18", "2024-11-05"} {
		checkWriter(t, &sdk.StreamableClientTransport{Endpoint: url, HTTPClient: &http.Client{Transport: bearer(o.Token)}}, protocol)
	}
	checkStatelessWriter(t, url, o.Token)
	checkOlderWriter(t, strings.TrimSuffix(url, "/mcp"), o.Token)
	checkOwnClient(t, strings.TrimSuffix(url, "/mcp"), o.Token)
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	kept, err := os.ReadFile(filepath.Join(o.Config.WorkspaceRoot, "deploy.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	var last deploy.Write
	lines := strings.Split(strings.TrimSpace(string(kept)), "\n")
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil || len(lines) != 2 || last.Outcome != "created" || last.Name != "a" {
		t.Errorf("%s, %v", kept, err)
	}
}

func TestWriterOverStdio(t *testing.T) {
	o := writerOptions(t)
	theirs, ours := io.Pipe()
	reader, writer := io.Pipe()
	o.In, o.Out = theirs, writer
	ended := make(chan error, 1)
	go func() { ended <- ServeMCP(t.Context(), o) }()
	checkWriter(t, &sdk.IOTransport{Reader: reader, Writer: ours}, "")
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// What a crash or a full disk left of a line takes no other with it.
func TestATornLineIsAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), writesFile)
	if err := os.WriteFile(path, []byte(`{"call":"1"}`+"\n"+`{"call":"2","ver`), 0o600); err != nil {
		t.Fatal(err)
	}
	w, err := openWrites(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, call := range []string{"3", "4"} {
		if err := w.keep(deploy.Write{Call: call}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.file.Close(); err != nil {
		t.Fatal(err)
	}
	kept, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var calls []string
	for line := range strings.Lines(string(kept)) {
		var one deploy.Write
		if json.Unmarshal([]byte(line), &one) == nil {
			calls = append(calls, one.Call)
		}
	}
	if got := strings.Join(calls, " "); got != "1 3 4" {
		t.Errorf("%s can be read of:\n%s", got, kept)
	}
}
