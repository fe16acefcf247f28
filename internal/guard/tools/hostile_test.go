package tools_test

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"nightcrier.dev/nightcrier/internal/guard/tools"
	"nightcrier.dev/nightcrier/internal/test/kubetest"
)

func TestOnlyTheRunsTokenIsLetIn(t *testing.T) {
	r, other := start(t, nil), start(t, nil)
	list := message(t, "tools/list", nil)
	base := strings.TrimSuffix(r.URL(), "/mcp")
	for name, c := range map[string]struct{ url, token string }{
		"none":                     {r.URL(), ""},
		"another run's":            {r.URL(), other.Token()},
		"its own, in path":         {base + "/t/" + r.Token() + "/mcp", ""},
		"a part of it":             {r.URL(), r.Token()[:len(r.Token())-1]},
		"it and more":              {r.URL(), r.Token() + "0"},
		"empty, in path":           {base + "/t//mcp", ""},
		"header for another path":  {base + "/", r.Token()},
		"wrong path, right header": {base + "/t/x/mcp", r.Token()},
		"without the endpoint":     {base + "/t/" + r.Token(), ""},
		"above the endpoint":       {base + "/t/" + r.Token() + "/../mcp", ""},
	} {
		if code, answer := post(t, c.url, c.token, list); code != http.StatusUnauthorized || strings.Contains(answer, "read_file") {
			t.Errorf("%s: %d %s", name, code, answer)
		}
	}
	if code, answer := post(t, r.URL(), r.Token(), list); code != http.StatusOK || !strings.Contains(answer, "read_file") {
		t.Errorf("the run's own: %d %s", code, answer)
	}
	url, token := r.URL(), r.Token()
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if conn, err := net.Dial("tcp", strings.TrimSuffix(strings.TrimPrefix(url, "http://"), "/mcp")); err == nil {
		conn.Close()
		t.Error("somebody still listens")
	}
	if log := r.log.String(); strings.Contains(log, token) || strings.Contains(log, other.Token()) {
		t.Errorf("a token stands in the log: %s", log)
	}
}

// No spelling of a path, and no link, leads to what is not open.
func TestNothingElseIsRead(t *testing.T) {
	r := start(t, nil)
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, []byte(secretText), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{
		"context/out": outside, "context/up": "../home/token", "context/dir": "..", "context/abs": "/", "context/root": "../home",
		".claude/skills/evidence": "../../output/evidence", "context/inner": "event.json",
	} {
		if err := os.Symlink(target, filepath.Join(r.ws, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(r.ws, "context/pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := r.client(t)
	denied := 0
	for _, path := range []string{
		"home/token", "./home/token", "context/../home/token", "context/../../etc/passwd", "../etc/passwd", "/etc/passwd", outside,
		r.ws + "/incident.json", "output/evidence/E1.json", "prompt-sent.md", "context/out", "context/up", "context/dir/home/token", "context/abs/etc/passwd",
		"context/root/token", ".claude/skills/evidence/E1.json", "context/inner", ".", "..", "/proc/self/environ", "context\\..\\home\\token",
		"home", "CONTEXT/event.json", "context/event.json\x00/../../home/token", "@/etc/passwd", "file:///etc/passwd", strings.Repeat("../", 2000) + "etc/passwd",
	} {
		text, failed := call(t, c, "read_file", map[string]any{"path": path})
		if !failed || strings.Contains(text, secretText) || strings.Contains(strings.ReplaceAll(text, path, ""), r.ws) || len(text) > 1000 {
			t.Errorf("%.80q: %.300q", path, text)
		}
		denied++
	}
	if got := len(r.refusals()); got != denied {
		t.Errorf("%d of %d are on record", got, denied)
	}
	if text, failed := call(t, c, "read_file", map[string]any{"path": "context/pipe"}); !failed {
		t.Errorf("a pipe: %q", text)
	}
	for _, path := range []string{".", "context", ".claude", "context/dir", "context/root", "home", "output", ".."} {
		text, _ := call(t, c, "list_files", map[string]any{"path": path})
		for _, word := range []string{"token", "E1", "passwd", "pipe", "prompt-sent"} {
			if strings.Contains(text, word) {
				t.Errorf("list of %s tells of %s:\n%s", path, word, text)
			}
		}
	}
}

// What is a link when the run begins is not opened at all.
func TestLinkInPlaceOfWhatIsOpen(t *testing.T) {
	for _, name := range files[:3] {
		ws := t.TempDir()
		if err := os.Mkdir(filepath.Join(ws, "home"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("home", filepath.Join(ws, name)); err != nil {
			t.Fatal(err)
		}
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		r := &run{}
		if s, err := tools.Start(l, tools.Config{Workspace: ws, Files: files, Denied: r.denied, Logger: discard}); err == nil {
			s.Close()
			t.Errorf("%s is a link and was opened", name)
		}
	}
}

func TestNothingSecretComesOut(t *testing.T) {
	s := kubetest.Start(t)
	ns := s.Namespace(t)
	s.Create(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "api", Namespace: ns}, StringData: map[string]string{"password": "hunter2-in-the-cluster"}})
	s.Create(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "app", Namespace: ns}, Data: map[string]string{"url": "postgres://app:hunter2-in-the-cluster@db/app"}})
	r := start(t, s)
	c := r.client(t)
	for _, args := range []map[string]any{
		{"kind": "secret", "name": "api", "namespace": ns}, {"kind": "configmap", "name": "app", "namespace": ns},
		{"kind": "secret", "name": "api", "namespace": ns, "output": "json"},
	} {
		for _, tool := range []string{"kubernetes_get", "kubernetes_describe"} {
			if args["output"] != nil && tool != "kubernetes_get" {
				continue
			}
			text, _ := call(t, c, tool, args)
			if strings.Contains(text, "hunter2") || strings.Contains(text, "aHVudGVyMi") {
				t.Errorf("%s %v: %s", tool, args, text)
			}
		}
	}
	for _, item := range r.evidence.Items() {
		body, err := r.evidence.Load(item.ID)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(body), "hunter2") || strings.Contains(string(body), "aHVudGVyMi") {
			t.Errorf("%s holds the secret", item.ID)
		}
	}
}

func TestHugeAndMalformedCalls(t *testing.T) {
	r := start(t, nil)
	args := func(v any) string {
		return message(t, "tools/call", map[string]any{"name": "read_file", "arguments": v})
	}
	for name, body := range map[string]string{
		"an argument of 100 KB":   args(map[string]any{"path": strings.Repeat("a", 100<<10)}),
		"a message of 3 MB":       args(map[string]any{"path": strings.Repeat("a", 3<<20)}),
		"an argument too many":    args(map[string]any{"path": "incident.json", "command": "rm"}),
		"arguments that are none": args("rm -rf /"),
		"a tool that is not here": message(t, "tools/call", map[string]any{"name": "kubernetes_delete", "arguments": map[string]any{}}),
		"a tool with a path":      message(t, "tools/call", map[string]any{"name": "../read_file"}),
		"no JSON":                 "{", "nothing": "", "a list": "[]", "deep": strings.Repeat("[", 100_000),
	} {
		code, answer := post(t, r.URL(), r.Token(), body)
		refused := code >= 400 || strings.Contains(answer, `"isError":true`) || strings.Contains(answer, `"error":`)
		if !refused || len(answer) > 4096 || strings.Contains(answer, "incidentId") {
			t.Errorf("%s: %d %.300s", name, code, answer)
		}
	}
	if text, failed := call(t, r.client(t), "read_file", map[string]any{"path": "incident.json"}); failed {
		t.Errorf("afterwards it does not work: %s", text)
	}
}

func TestHundredCallsAtOnce(t *testing.T) {
	s := kubetest.Start(t)
	ns := s.Namespace(t)
	for i := range 10 {
		s.Pod(t, ns, fmt.Sprintf("cart-%d", i), nil)
	}
	r := start(t, s)
	c := r.client(t)
	call(t, c, "kubernetes_list", map[string]any{"kind": "pods", "namespace": ns}) // the kinds are known
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() {
			name := fmt.Sprintf("cart-%d", i%10)
			res, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: "kubernetes_get", Arguments: map[string]any{"kind": "pod", "name": name, "namespace": ns}})
			if err != nil || res.IsError {
				t.Errorf("%s: %v %+v", name, err, res)
				return
			}
			text := res.Content[0].(*sdk.TextContent).Text
			id := cited.FindStringSubmatch(text)
			if id == nil {
				t.Errorf("%s: no evidence: %s", name, text)
				return
			}
			body, err := r.evidence.Load(id[1])
			if err != nil || !strings.Contains(string(body), `"`+name+`"`) {
				t.Errorf("%s is cited for %s and is another answer: %v", id[1], name, err)
			}
		})
	}
	all.Wait()
	if n := count(r, "get", "pods"); n != 100 {
		t.Errorf("%d reads are on record", n)
	}
}
