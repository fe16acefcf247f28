package app

import (
	"slices"
	"testing"

	"nightcrier.dev/nightcrier/internal/config"
)

// The namespaces of a cluster are those that its configured credential is good
// for: another one has bounds of its own.
func TestTriageTakesTheNamespacesOfTheCredential(t *testing.T) {
	cfg := &config.Config{Clusters: []config.Cluster{{Name: "prod", Kubeconfig: "/team", Namespaces: []string{"shop"}}}}
	for name, tt := range map[string]struct {
		options TriageOptions
		want    []string
	}{
		"the only cluster":   {TriageOptions{}, []string{"shop"}},
		"another context":    {TriageOptions{Context: "b"}, []string{"shop"}},
		"another credential": {TriageOptions{Kubeconfig: "/mine"}, nil},
		"another cluster":    {TriageOptions{Cluster: "dev"}, nil},
	} {
		if got := tt.options.cluster(cfg); !slices.Equal(got.Namespaces, tt.want) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
