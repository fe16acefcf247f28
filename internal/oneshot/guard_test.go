package oneshot

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/record/audit"
)

// ask asks the guard of a kubeconfig for a path and returns status and body.
func ask(t *testing.T, kubeconfig []byte, path string) (int, string) {
	t.Helper()
	cfg, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	web, err := rest.HTTPClientFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := web.Get(cfg.Host + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var body json.RawMessage
	if err := json.NewDecoder(resp.Body).Decode(&body); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// A guard of its own serves where it is told to, and its journal is a chain that
// its audit is rendered from.
func TestGuardOfItsOwn(t *testing.T) {
	cluster := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"kind":"Pod","apiVersion":"v1","metadata":{"name":"cart"},"spec":{"note":"token-of-the-cluster"}}`))
	}))
	defer cluster.Close()
	kubeconfig := filepath.Join(t.TempDir(), "config")
	text := "apiVersion: v1\nkind: Config\ncurrent-context: x\nclusters: [{name: c, cluster: {server: '" + cluster.URL + "'}}]\n" +
		"users: [{name: u, user: {token: token-of-the-cluster}}]\ncontexts: [{name: x, context: {cluster: c, user: u, namespace: shop}}]\n"
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, listen := range []string{"", "127.0.0.1:0", "127.0.0.2:0"} {
		out := t.TempDir()
		o := GuardOptions{Kubeconfig: kubeconfig, Out: out, Listen: listen, Logger: slog.New(slog.DiscardHandler), Now: time.Now}
		g, err := OpenGuard(o)
		if err != nil {
			t.Fatalf("%q: %v", listen, err)
		}
		if ns := namespaceOf(g.Kubeconfig); ns != "shop" {
			t.Errorf("namespace %q", ns)
		}
		status, body := ask(t, g.Kubeconfig, "/api/v1/namespaces/shop/pods/cart")
		if status != http.StatusOK || !strings.Contains(body, "cart") || strings.Contains(body, "token-of-the-cluster") {
			t.Errorf("%q: %d %s", listen, status, body)
		}
		if status, _ := ask(t, g.Kubeconfig, "/api/v1/namespaces/shop/pods/cart/exec"); status != http.StatusForbidden {
			t.Errorf("%q: exec got %d", listen, status)
		}
		if _, err := OpenGuard(o); nightcrier.CodeOf(err) != nightcrier.Conflict {
			t.Errorf("a second guard with the same record: %v", err)
		}
		if soFar, err := os.ReadFile(filepath.Join(out, guardAudit)); err != nil || strings.Count(string(soFar), "\n") != 2 {
			t.Errorf("while it serves, the audit is %q, %v", soFar, err)
		}
		s, err := g.Close()
		if err != nil || s.Requests != 2 || s.Denied != 1 || s.Kept != 1 {
			t.Errorf("%q: %+v, %v", listen, s, err)
		}
		checkGuardFiles(t, out, s.Head)
	}
}

func checkGuardFiles(t *testing.T, out, head string) {
	t.Helper()
	file, err := os.Open(filepath.Join(out, guardAudit))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, problems, err := audit.Verify(file, head); err != nil || len(problems) > 0 {
		t.Errorf("audit: %v, %v", problems, err)
	}
	journal, err := os.ReadFile(filepath.Join(out, guardJournal))
	if err != nil {
		t.Fatal(err)
	}
	var chain audit.Chain
	entries := 0
	for line := range strings.Lines(string(journal)) {
		var e nightcrier.JournalEntry
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		chain.Add(e)
		entries++
	}
	if entries != 3 || len(chain.Problems()) > 0 {
		t.Errorf("journal: %d entries, %v", entries, chain.Problems())
	}
}

func TestGuardThatCannotOpen(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := `{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: a, user: u}}], users: [{name: u, user: {token: t}}], clusters: [{name: a, cluster: {server: "https://127.0.0.1:1"}}]}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]GuardOptions{
		"no credential": {Kubeconfig: "/does/not/exist", Out: t.TempDir()},
		"no directory":  {Kubeconfig: file, Out: "/does/not/exist"},
		"no address":    {Kubeconfig: file, Out: t.TempDir(), Listen: "nowhere"},
	} {
		o.Logger, o.Now = slog.New(slog.DiscardHandler), time.Now
		if g, err := OpenGuard(o); err == nil {
			t.Errorf("%s: it opened: %+v", name, g)
		}
	}
}
