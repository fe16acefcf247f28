package mcpserver_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"nightcrier.dev/nightcrier/internal/fake/fakemodel"
	"nightcrier.dev/nightcrier/internal/test/clitest"
	"nightcrier.dev/nightcrier/internal/test/kubetest"
)

// script has the model list and describe what is broken with our tools, try a
// tool that nobody has, and say what it has read.
const script = `
doc: Looks at a namespace with the tools of our MCP server.
let:
  namespace: 'namespace (t-[a-z0-9]+)'
  pod: '(cart-[a-z0-9]+-[a-z0-9]+)[^a-z0-9]+0/1'
  state: '0/1[^a-zA-Z0-9]+(CrashLoopBackOff)'
  code: 'ended \S+ ago with exit code (\d+)'
steps:
  - text: What is there?
    tools:
      - name: mcp__nightcrier__kubernetes_list
        input: {kind: pods, namespace: '${namespace}'}
  - text: And why?
    tools:
      - name: mcp__nightcrier__kubernetes_describe
        input: {kind: pod, namespace: '${namespace}', name: '${pod}'}
      - name: mcp__nightcrier__kubernetes_get
        input: {kind: pod, name: '../secrets'}
  - text: 'Pod ${pod} is in ${state}, exit code ${code}.'
`

// The real CLI calls our tools on a real API server, over HTTP and with a token.
func TestClaudeUsesOurTools(t *testing.T) {
	claude := clitest.Claude(t)
	s, m := kubetest.Start(t), fakemodel.New(t)
	ns := shop(t, s)
	cfg := config(cluster(t, "prod", s.Kubeconfig))
	cfg.Token = "a-token-of-the-test"
	url, _ := serve(t, cfg)
	sc, err := fakemodel.Parse([]byte(script))
	if err != nil {
		t.Fatal(err)
	}
	m.MustAdd(t, "mcp", sc)
	servers, err := json.Marshal(map[string]any{"mcpServers": map[string]any{"nightcrier": map[string]any{
		"type": "http", "url": url, "headers": map[string]string{"Authorization": "Bearer ${MCP_TOKEN}"},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "mcp.json")
	if err := os.WriteFile(file, servers, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), claude, "-p", "--output-format", "stream-json", "--verbose", "--restricted", "--tools", "Read",
		"--permission-prompts", "none", "--no-session-persistence", "--strict-mcp-config", "--mcp-config", file, "--allowedTools", "mcp__nightcrier")
	cmd.Dir = t.TempDir()
	cmd.Stdin = strings.NewReader("What is wrong in namespace " + ns + "?")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.Env = []string{
		"HOME=" + t.TempDir(), "TMPDIR=" + t.TempDir(), "PATH=" + os.Getenv("PATH"), "MCP_TOKEN=" + cfg.Token,
		"ANTHROPIC_BASE_URL=" + m.URL("mcp"), "ANTHROPIC_API_KEY=test-key",
		"DISABLE_TELEMETRY=1", "DISABLE_AUTOUPDATER=1", "DISABLE_ERROR_REPORTING=1",
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "CLAUDE_CODE_MAX_RETRIES=2",
	}
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s", err, out.Bytes())
	}
	var last struct{ Type, Result string }
	for line := range bytes.Lines(out.Bytes()) {
		var r struct{ Type, Result string }
		if json.Unmarshal(line, &r) == nil && r.Type == "result" {
			last = r
		}
	}
	if !strings.HasPrefix(last.Result, "Pod cart-") || !strings.HasSuffix(last.Result, " is in CrashLoopBackOff, exit code 137.") {
		t.Fatalf("it says %q\n%s", last.Result, out.Bytes())
	}
	asked := m.Requests("mcp")
	if text := asked[len(asked)-1].Text; !strings.Contains(text, "no Kubernetes name has") {
		t.Errorf("the model was not told what is wrong with its argument")
	}
}
