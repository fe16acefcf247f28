package triage

import (
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/config"
	"nightcrier.dev/nightcrier/internal/fake/demo"
	"nightcrier.dev/nightcrier/internal/guard/recorded"
	"nightcrier.dev/nightcrier/internal/triage/report"
)

// The namespaces of a cluster are those that its configured credential is good
// for: another one has bounds of its own.
func TestTriageTakesTheNamespacesOfTheCredential(t *testing.T) {
	cfg := &config.Config{Clusters: []config.Cluster{{Name: "prod", Kubeconfig: "/team", Namespaces: []string{"shop"}}}}
	for name, tt := range map[string]struct {
		options Options
		want    []string
	}{
		"the only cluster":   {Options{}, []string{"shop"}},
		"another context":    {Options{Context: "b"}, []string{"shop"}},
		"another credential": {Options{Kubeconfig: "/mine"}, nil},
		"another cluster":    {Options{Cluster: "dev"}, nil},
	} {
		if got := tt.options.chooseCluster(cfg); !slices.Equal(got.Namespaces, tt.want) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestAnEventIsLookedAtInTheCluster: what an event or an alert tells of is read with the
// credential that kubectl would take, and where there is none the report says so first.
func TestAnEventIsLookedAtInTheCluster(t *testing.T) {
	scenarios, err := demo.Load(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	sc := scenarios[0]
	server, err := recorded.ServeSnapshot(sc.Snapshot, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	alert := []byte(`[{"labels": {"alertname": "KubePodCrashLooping", "namespace": "shop", "deployment": "cart", "severity": "critical"}, "startsAt": "2026-01-02T03:04:05Z", "status": "firing"}]`)
	nowhere := filepath.Join(t.TempDir(), "none")
	for name, tt := range map[string]struct {
		variable string
		options  Options
		unseen   string // "" for none
		refused  string
	}{
		"an event, with KUBECONFIG":         {server.Kubeconfig, Options{Event: sc.Notifications[0]}, "", ""},
		"an alert, with KUBECONFIG":         {server.Kubeconfig, Options{Alert: alert}, "", ""},
		"an alert, with --kubeconfig":       {nowhere, Options{Alert: alert, Kubeconfig: server.Kubeconfig}, "", ""},
		"an alert, with its context":        {server.Kubeconfig, Options{Alert: alert, Context: contextOf(t, server.Kubeconfig)}, "", ""},
		"an event, with no credential":      {nowhere, Options{Event: sc.Notifications[0]}, "no credential is configured", ""},
		"an alert, with no credential":      {nowhere, Options{Alert: alert}, "no credential is configured", ""},
		"an object, with no credential":     {nowhere, Options{Target: nightcrier.Resource{Kind: "Pod", Name: "x"}}, "", "no credential for a cluster"},
		"an alert, in a context of no file": {nowhere, Options{Alert: alert, Context: "prod"}, "", `"prod" does not exist`},
		"an alert, in a context of no name": {server.Kubeconfig, Options{Alert: alert, Context: "prod"}, "", `"prod" does not exist`},
		"an alert, with a missing file":     {server.Kubeconfig, Options{Alert: alert, Kubeconfig: nowhere}, "", "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("KUBECONFIG", tt.variable)
			o := tt.options
			o.Config, o.Logger, o.Version, o.Executor = defaults(t), slog.New(slog.DiscardHandler), "test", config.Builtin
			got, err := Run(t.Context(), o)
			if tt.refused != "" {
				if nightcrier.CodeOf(err) != nightcrier.Invalid || !strings.Contains(err.Error(), tt.refused) {
					t.Errorf("%v, not %q", err, tt.refused)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			card := report.NewCard(got.Report)
			if !strings.HasPrefix(card.Unseen, tt.unseen) || (card.Unseen == "") != (tt.unseen == "") {
				t.Errorf("not looked at because %q, want %q", card.Unseen, tt.unseen)
			}
			if read := got.Report.Usage.APIRequests > 0; read != (tt.unseen == "") {
				t.Errorf("%d reads", got.Report.Usage.APIRequests)
			}
		})
	}
}

// contextOf is the name of a kubeconfig's one context.
func contextOf(t *testing.T, kubeconfig string) string {
	t.Helper()
	file, err := clientcmd.LoadFromFile(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	return file.CurrentContext
}

// Who looks once subscribes to nothing and watches nothing.
func TestOneLookHasNoSources(t *testing.T) {
	known := config.Cluster{Name: "c1", Watch: true, MCP: config.MCP{Endpoint: "http://h/"}, Kubeconfig: "/k"}
	c := Options{Cluster: "c1"}.chooseCluster(&config.Config{Clusters: []config.Cluster{known}})
	if c.Watch || c.MCP.Endpoint != "" || c.Kubeconfig != "/k" {
		t.Errorf("%+v", c)
	}
}

// defaults is a configuration of which nothing is set.
func defaults(t *testing.T) *config.Config {
	t.Helper()
	cfg, _, err := config.Load(config.Options{Env: []string{"NIGHTCRIER_WORKSPACE_ROOT=" + t.TempDir(), "PATH=/usr/bin:/bin"}})
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}
