package collect

import (
	"slices"
	"strings"
	"testing"

	"nightcrier.dev/nightcrier/internal/diagnose/internal/scene"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scenetest"
)

// Whose settings name a Service of another namespace is looked for there, if it fails.
func TestConnectedNamespaces(t *testing.T) {
	client := func(host string) string {
		return scenetest.WellWorkload("web", `{name: DB_HOST, value: "`+host+`"}`, "")
	}
	unready := strings.NewReplacer(`status: "True"`, `status: "False"`, "ready: true", "ready: false")
	for name, c := range map[string]struct {
		manifests string
		want      []string
	}{
		"fails":        {unready.Replace(client("postgres.data.svc.cluster.local")), []string{"data"}},
		"fails, short": {unready.Replace(client("postgres.data.svc:5432")), []string{"data"}},
		"well":         {client("postgres.data.svc.cluster.local"), nil},
		"outside":      {unready.Replace(client("db.example.com")), nil},
		"its own":      {unready.Replace(client("postgres.shop.svc.cluster.local")), nil},
	} {
		all := scenetest.New(t, c.manifests)
		c2 := &Collector{Scene: &scene.Scene{Now: scenetest.Now, Pods: all.Pods, Deployments: all.Deployments, Services: all.Services}}
		c2.Scene.SetComplete("Pod", "shop")
		if got := c2.connectedNamespaces(); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
