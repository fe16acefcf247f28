package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nightcrier.dev/nightcrier/internal/fake/fakemodel"
	"nightcrier.dev/nightcrier/internal/record/evidence"
	"nightcrier.dev/nightcrier/internal/test/clitest"
	"nightcrier.dev/nightcrier/internal/test/kubetest"
)

// ask calls a tool and returns what it said.
func ask(t *testing.T, c *sdk.ClientSession, tool string, args map[string]any) (text string, isError bool) {
	t.Helper()
	res, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		t.Fatalf("%s: %v", tool, err)
	}
	for _, part := range res.Content {
		text += part.(*sdk.TextContent).Text
	}
	return text, res.IsError
}

// The command over stdio, with a credential that could do anything: the tools
// read through the guard, and an investigation ends in a report.
func TestMCPOverStdio(t *testing.T) {
	t.Parallel()
	s := kubetest.Start(t)
	ns := s.Namespace(t)
	_, rs := s.Deployment(t, ns, "cart")
	pod := s.Pod(t, ns, rs.Name+"-x7k2p", rs)
	s.CrashLoop(t, pod, 137, 7)
	s.SetLogs(pod, true, "panic: password=canary-log\n")
	s.Create(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "db"}, StringData: map[string]string{"password": "canary-secret"}})
	kept := filepath.Join(t.TempDir(), "evidence")
	cmd := exec.Command(binary(t), "mcp", "--kubeconfig", s.Kubeconfig, "--stdio", "--workspace-root", filepath.Join(t.TempDir(), "none"), "--evidence", kept)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "TMPDIR=" + t.TempDir()}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	client := sdk.NewClient(&sdk.Implementation{Name: "e2e", Version: "1"}, nil)
	c, err := client.Connect(t.Context(), &sdk.CommandTransport{Command: cmd}, nil)
	if err != nil {
		t.Fatalf("%v\n%s", err, &stderr)
	}
	defer func() {
		if err := c.Close(); err != nil {
			t.Errorf("close: %v\n%s", err, &stderr)
		}
	}()
	inNS := func(more ...any) map[string]any {
		m := map[string]any{"namespace": ns}
		for i := 0; i < len(more); i += 2 {
			m[more[i].(string)] = more[i+1]
		}
		return m
	}
	for _, q := range []struct {
		tool string
		args map[string]any
		want string
	}{
		{"kubernetes_list", inNS("kind", "pods"), "CrashLoopBackOff"},
		{"kubernetes_list", inNS("kind", "secrets"), "db"},
		{"kubernetes_list", map[string]any{"kind": "nodes"}, "Ready"},
		{"kubernetes_list", inNS("kind", "leases.coordination.k8s.io"), ": 0"},
		{"kubernetes_get", inNS("kind", "secret", "name", "db"), "name: db"},
		{"kubernetes_get", inNS("kind", "deploy", "name", "cart", "path", "spec.template.spec.containers[0].image"), "registry.invalid"},
		{"kubernetes_describe", inNS("kind", "pod", "name", pod.Name), "exit code 137"},
		{"kubernetes_describe", inNS("kind", "deploy", "name", "cart"), pod.Name},
		{"kubernetes_describe", inNS("kind", "secret", "name", "db"), "Secret/db"},
		{"kubernetes_logs", inNS("name", pod.Name, "previous", true), "panic: password="},
		{"kubernetes_events", inNS(), "events: "},
		{"kubernetes_changes", inNS(), "Deployment/cart"},
		{"events_list", inNS(), "# No events found"},
		{"investigate", inNS("kind", "deployment", "name", "cart"), "incident: "},
	} {
		text, isError := ask(t, c, q.tool, q.args)
		if isError || !strings.Contains(text, q.want) || strings.Contains(text, "canary") {
			t.Errorf("%s %v: %t\n%s", q.tool, q.args, isError, text)
		}
		if strings.HasPrefix(q.tool, "kubernetes_") && !strings.Contains(text, "\n[evidence E") {
			t.Errorf("%s does not name its evidence:\n%s", q.tool, text)
		}
		if q.tool == "investigate" {
			checkFinding(t, c, text)
		}
	}
	rec, err := evidence.Open(kept)
	if err != nil {
		t.Fatal(err)
	}
	for _, it := range rec.Items() {
		if body, err := rec.Load(it.ID); err != nil || strings.Contains(string(body), "canary") {
			t.Errorf("evidence of %s: %v\n%s", it.Source, err, body)
		}
	}
	if err := rec.Close(); err != nil {
		t.Error(err)
	}
	if text, isError := ask(t, c, "kubernetes_top", nil); !isError || !strings.Contains(text, "metrics.k8s.io") {
		t.Errorf("top: %t %s", isError, text)
	}
	if text, isError := ask(t, c, "investigate", inNS("kind", "pod", "name", "nobody")); !isError || !strings.Contains(text, "not found") {
		t.Errorf("investigating nothing: %t %s", isError, text)
	}
}

// The CLI of an agent starts the command by itself, as its users configure it.
func TestClaudeStartsMCP(t *testing.T) {
	t.Parallel()
	claude, s, m := clitest.Claude(t), kubetest.Start(t), fakemodel.New(t)
	ns := s.Namespace(t)
	s.CrashLoop(t, s.Pod(t, ns, "cart", nil), 137, 7)
	m.MustAdd(t, "mcp", fakemodel.Scenario{Steps: []fakemodel.Step{
		{Text: "Look.", Tools: []fakemodel.ToolCall{{Name: "mcp__nightcrier__kubernetes_describe", Input: map[string]any{"kind": "pod", "namespace": ns, "name": "cart"}}}},
		{Text: "Done."},
	}})
	servers, err := json.Marshal(map[string]any{"mcpServers": map[string]any{"nightcrier": map[string]any{
		"command": binary(t), "args": []string{"mcp", "--stdio", "--kubeconfig", s.Kubeconfig},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), claude, "-p", "--output-format", "stream-json", "--verbose", "--restricted", "--tools", "Read",
		"--permission-prompts", "none", "--no-session-persistence", "--strict-mcp-config", "--mcp-config", string(servers), "--allowedTools", "mcp__nightcrier")
	cmd.Dir, cmd.Stdin = t.TempDir(), strings.NewReader("What is wrong?")
	cmd.Env = []string{
		"HOME=" + t.TempDir(), "TMPDIR=" + t.TempDir(), "PATH=" + os.Getenv("PATH"), "ANTHROPIC_BASE_URL=" + m.URL("mcp"), "ANTHROPIC_API_KEY=test-key",
		"DISABLE_TELEMETRY=1", "DISABLE_AUTOUPDATER=1", "DISABLE_ERROR_REPORTING=1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "CLAUDE_CODE_MAX_RETRIES=2",
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	asked := m.Requests("mcp")
	if text := asked[len(asked)-1].Text; !strings.Contains(text, "exit code 137") || !strings.Contains(text, "CrashLoopBackOff") {
		t.Errorf("the model was told\n%s", text)
	}
}

// checkFinding finds the report of an investigation again.
func checkFinding(t *testing.T, c *sdk.ClientSession, text string) {
	t.Helper()
	id := regexp.MustCompile(`incident: (\S+)\nverdict: \w+`).FindStringSubmatch(text)
	if id == nil || !strings.Contains(text, "# Kubernetes Incident Triage Report") {
		t.Fatalf("investigate:\n%s", text)
	}
	for form, want := range map[string]string{"markdown": "# Kubernetes Incident Triage Report", "json": `"incidentId": "` + id[1] + `"`} {
		if text, isError := ask(t, c, "get_report", map[string]any{"incident": id[1], "output": form}); isError || !strings.Contains(text, want) {
			t.Errorf("get_report %s: %t\n%s", form, isError, text)
		}
	}
	if text, isError := ask(t, c, "search_incidents", map[string]any{"query": "CART deployment", "since": "1h"}); isError || !strings.Contains(text, id[1]) {
		t.Errorf("search_incidents: %t\n%s", isError, text)
	}
	if text, isError := ask(t, c, "search_incidents", map[string]any{"query": "cart elsewhere"}); isError && !strings.Contains(text, "no server runs") || strings.Contains(text, id[1]) {
		t.Errorf("search_incidents for what is not there: %t\n%s", isError, text)
	}
}

// A fault of a real API server goes through our MCP server and our MCP source,
// and becomes one incident with a report; other clients find it there.
func TestMCPServerFeedsAServer(t *testing.T) {
	t.Parallel()
	s := kubetest.Isolated(t) // the whole cluster is watched
	ns := s.Namespace(t)
	_, rs := s.Deployment(t, ns, "cart")
	pod := s.Pod(t, ns, rs.Name+"-x7k2p", rs)
	bin, dir := binary(t), t.TempDir()
	root := filepath.Join(dir, "root")
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "TMPDIR=" + t.TempDir()}
	mcp := start(t, bin, env, "mcp", "--kubeconfig", s.Kubeconfig, "--listen", "127.0.0.1:0", "--workspace-root", root)
	url := mcp.says(t, `MCP at (http://127\.0\.0\.1:\d+/mcp)`)
	file := filepath.Join(dir, "nightcrier.yaml")
	conf := fmt.Sprintf("workspace_root: %s\nlisten: none\nclusters: [{name: real, kubeconfig: %s, mcp: {endpoint: %s}}]\nagent: {executor: builtin}\n", root, s.ReadOnly(t), url)
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	serve := start(t, bin, env, "serve", "--config", file)
	serve.says(t, `subscribed`)
	s.CrashLoop(t, pod, 137, 7)
	serve.says(t, `"event":"investigation_ended","status":"resolved"`)

	client := sdk.NewClient(&sdk.Implementation{Name: "e2e", Version: "1"}, nil)
	c, err := client.Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: url}, nil)
	if err != nil {
		t.Fatal(err)
	}
	text, isError := ask(t, c, "search_incidents", map[string]any{"query": ns, "status": "resolved", "cluster": "real"})
	if isError || !strings.Contains(text, `"total": 1`) || !strings.Contains(text, `"faultType": "CrashLoop"`) {
		t.Fatalf("search_incidents: %t\n%s", isError, text)
	}
	id := regexp.MustCompile(`"incidentId": "([^"]+)"`).FindStringSubmatch(text)[1]
	if text, isError := ask(t, c, "get_report", map[string]any{"incident": id}); isError || !strings.Contains(text, "# Kubernetes Incident Triage Report") {
		t.Errorf("get_report: %t\n%s", isError, text)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	serve.stop(t)
	mcp.stop(t)
}

// child is a command of ours whose stderr is read.
type child struct {
	cmd   *exec.Cmd
	lines chan string
	seen  []string
}

func start(t *testing.T, bin string, env []string, args ...string) *child {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	c := &child{cmd: exec.CommandContext(ctx, bin, args...), lines: make(chan string, 10000)}
	c.cmd.Env = env
	out, err := c.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { // ends with the child
		defer close(c.lines)
		for in := bufio.NewScanner(io.LimitReader(out, 64<<20)); in.Scan(); {
			c.lines <- in.Text()
		}
	}()
	return c
}

// says waits for a line that matches, and returns its first group.
func (c *child) says(t *testing.T, pattern string) string {
	t.Helper()
	re := regexp.MustCompile(pattern)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		select {
		case line, ok := <-c.lines:
			if !ok {
				t.Fatalf("it ended without %q:\n%s", pattern, strings.Join(c.seen, "\n"))
			}
			c.seen = append(c.seen, line)
			if m := re.FindStringSubmatch(line); m != nil {
				return m[len(m)-1]
			}
		case <-ctx.Done():
			t.Fatalf("nothing like %q in:\n%s", pattern, strings.Join(c.seen, "\n"))
		}
	}
}

// stop ends it as a service manager does.
func (c *child) stop(t *testing.T) {
	t.Helper()
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	for range c.lines { // to the end
	}
	if err := c.cmd.Wait(); err != nil {
		t.Errorf("%s: %v", c.cmd.Args[1], err)
	}
}
