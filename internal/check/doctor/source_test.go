package doctor

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"nightcrier.dev/nightcrier/internal/cluster/kube"
	"nightcrier.dev/nightcrier/internal/config"
	"nightcrier.dev/nightcrier/internal/face/api"
	guardkube "nightcrier.dev/nightcrier/internal/guard/kube"
	"nightcrier.dev/nightcrier/internal/mask"
	"nightcrier.dev/nightcrier/internal/test/apitest"
	"nightcrier.dev/nightcrier/internal/test/fakemcp"
)

// looksLike compares a check with what it should say.
func (c Check) looksLike(t *testing.T, status, says string) {
	t.Helper()
	if c.Status != status || !strings.Contains(c.Detail, says) || (c.Hint == "") != (status == statusOK) {
		t.Errorf("%+v, want %s: %s", c, status, says)
	}
}

// Where a server would be down at once, doctor says so, and why.
func TestDoctorGoesTheWayToTheFaults(t *testing.T) {
	peer := fakemcp.NewPeer()
	faults := httptest.NewServer(peer)
	t.Cleanup(func() { _ = peer.Close(); faults.Close() })
	other := sdk.NewServer(&sdk.Implementation{Name: "other"}, nil)
	other.AddTool(&sdk.Tool{Name: "pods_list", InputSchema: map[string]any{"type": "object"}}, nil)
	tools := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return other }, nil))
	t.Cleanup(tools.Close)
	page := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(page.Close)
	at := func(url, mode string) config.Cluster {
		return config.Cluster{Name: "a", MCP: config.MCP{Endpoint: url, Mode: mode}}
	}
	alerts := func(a config.Alertmanager) config.Cluster {
		a.Given = true
		return config.Cluster{Name: "a", Alertmanager: a}
	}
	for name, c := range map[string]struct {
		cluster      config.Cluster
		cfg          config.Config
		status, says string
	}{
		"pushes faults":               {cluster: at(faults.URL+"/c/a/mcp", ""), status: statusOK, says: "offers faults"},
		"a mode that it lacks":        {cluster: at(faults.URL+"/c/a/mcp", "weather"), status: statusFail, says: "mode weather is not offered"},
		"other tools":                 {cluster: at(tools.URL, ""), status: statusFail, says: "no tool events_subscribe"},
		"no MCP server":               {cluster: at(page.URL, ""), status: statusFail, says: "does not answer as a fault source does"},
		"nobody there":                {cluster: at("http://127.0.0.1:1/mcp", ""), status: statusFail, says: "127.0.0.1:1 does not answer"},
		"no URL":                      {cluster: at("http://a b/", ""), status: statusFail, says: "is not a URL"},
		"alerts":                      {cluster: alerts(config.Alertmanager{}), cfg: config.Config{Listen: "127.0.0.1:0"}, status: statusOK, says: "alerts"},
		"alerts from elsewhere":       {cluster: alerts(config.Alertmanager{TokenEnv: "T", Token: config.NewSecret("t")}), cfg: config.Config{WebhookListen: "127.0.0.1:0"}, status: statusOK, says: "alerts"},
		"alerts without a token":      {cluster: alerts(config.Alertmanager{TokenEnv: "T"}), cfg: config.Config{Listen: "127.0.0.1:0"}, status: statusWarn, says: "the variable T is not set"},
		"alerts that nobody can post": {cluster: alerts(config.Alertmanager{}), cfg: config.Config{WebhookListen: "127.0.0.1:0"}, status: statusWarn, says: "socket only"},
		"webhooks":                    {cluster: config.Cluster{Name: "a"}, cfg: config.Config{Webhooks: []config.Webhook{{Name: "w"}}}, status: statusOK, says: "webhooks"},
		"nothing":                     {cluster: config.Cluster{Name: "a"}, status: statusWarn, says: "no fault source"},
	} {
		t.Run(name, func(t *testing.T) {
			checks := checkFaults(t.Context(), &c.cfg, c.cluster)
			if len(checks) != 1 {
				t.Fatalf("%+v", checks)
			}
			checks[0].looksLike(t, c.status, c.says)
		})
	}
	if n := len(peer.Stats("a").Subscribes); n > 0 {
		t.Errorf("doctor has subscribed %d times", n)
	}
	both := at(faults.URL+"/c/a/mcp", "")
	both.Watch, both.Alertmanager.Given = true, true
	if checks := checkFaults(t.Context(), &config.Config{}, both); len(checks) != 3 {
		t.Errorf("of three sources doctor looks at %+v", checks)
	}
}

// Every watch that a server would open is opened, at once: what stands between may
// grant each, and not all.
func TestDoctorOpensTheWatches(t *testing.T) {
	for name, c := range map[string]struct {
		streams      int
		behave       map[string]apitest.Behaviour
		status, says string
	}{
		"as many as it likes": {status: statusOK, says: "12 watches stand at once"},
		"too few":             {streams: 3, status: statusFail, says: "9 of 12 watches do not stand at once"},
		"a kind is missing":   {behave: map[string]apitest.Behaviour{"apiservices": {Status: 404}}, status: statusOK, says: "11 watches stand at once; the cluster has no APIService"},
		"a kind is refused":   {behave: map[string]apitest.Behaviour{"apiservices": {Status: 403}}, status: statusWarn, says: "1 of 12 watches are refused"},
		"Pods are missing":    {behave: map[string]apitest.Behaviour{"pods": {Status: 404}}, status: statusFail, says: "1 of 12 watches do not stand"},
		"it hangs":            {behave: map[string]apitest.Behaviour{"pods": {Hang: true}}, status: statusFail, says: "1 of 12 watches do not stand"},
	} {
		t.Run(name, func(t *testing.T) {
			api := apitest.New(t)
			for resource, b := range c.behave {
				api.Behave(resource, b)
			}
			client, err := kube.Dial(behindGuard(t, api, c.streams), "", time.Second)
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			checkWatch(t.Context(), config.Cluster{Name: "a"}, client).looksLike(t, c.status, c.says)
		})
	}
}

// behindGuard is a kubeconfig that leads to api through a guard with so many streams.
func behindGuard(t *testing.T, api *apitest.Server, streams int) string {
	t.Helper()
	raw, err := os.ReadFile(api.Kubeconfig(t))
	if err != nil {
		t.Fatal(err)
	}
	up, err := guardkube.Dial(raw, nil)
	if err != nil {
		t.Fatal(err)
	}
	g, err := guardkube.New(guardkube.Config{
		Upstream: up, Mask: func(b []byte) []byte { return b }, MaskLog: mask.New([]byte("key")).Log,
		Audit:  func(context.Context, guardkube.AuditRecord) error { return nil },
		Logger: slog.New(slog.DiscardHandler), Limits: guardkube.Limits{Streams: streams},
	})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server, err := guardkube.Serve(l, g)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(path, server.Kubeconfig(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// An address that is taken is found before a server is, unless it is that server's.
func TestDoctorTriesTheAddresses(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	root := t.TempDir()
	cfg := &config.Config{WorkspaceRoot: root, Listen: "127.0.0.1:0", HealthListen: taken.Addr().String()}
	looksLike := func(want ...string) {
		t.Helper()
		var got []string
		for _, c := range checkListen(t.Context(), cfg) {
			got = append(got, c.Code+" "+c.Status)
		}
		if !slices.Equal(got, want) {
			t.Errorf("found %q, want %q", got, want)
		}
	}
	looksLike("listen ok", "health_listen fail")
	l, err := net.Listen("unix", filepath.Join(root, api.SocketName))
	if err != nil {
		t.Fatal(err)
	}
	looksLike("listen ok", "health_listen ok")
	_ = l.Close()
	cfg.HealthListen = "127.0.0.1:0"
	looksLike("listen ok", "health_listen ok")
	cfg.Listen, cfg.WebhookListen = "192.0.2.1:80", "127.0.0.1:0"
	looksLike("listen fail", "health_listen ok", "webhook_listen ok")
}

// A workspace root that a server would refuse is refused.
func TestDoctorLooksAtTheRoot(t *testing.T) {
	open := filepath.Join(t.TempDir(), "open")
	if err := os.Mkdir(open, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(open, 0o777); err != nil { // whatever the umask is
		t.Fatal(err)
	}
	for root, want := range map[string]string{
		open: "everybody can write to it", filepath.Join(t.TempDir(), "later", "made"): "", t.TempDir(): "", fmt.Sprintf("%s/file/x", aFile(t)): "not a directory",
	} {
		c := checkDisk(&config.Config{WorkspaceRoot: root})
		if (c.Status == statusFail) != (want != "") || !strings.Contains(c.Detail, want) {
			t.Errorf("%s: %+v", root, c)
		}
		if left, _ := filepath.Glob(filepath.Join(root, "*")); len(left) > 0 {
			t.Errorf("%v is left", left)
		}
	}
}

// aFile is a directory with a file called file.
func aFile(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}
