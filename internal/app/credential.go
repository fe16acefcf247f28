package app

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent/backend"
	"nightcrier.dev/nightcrier/internal/cluster/kube"
	"nightcrier.dev/nightcrier/internal/config"
)

// ErrNoKubeconfig is that none was named and none is where kubectl looks.
var ErrNoKubeconfig = kube.ErrNoKubeconfig

// ReadCredential reads the credential of one context from a kubeconfig, for a guard to
// hold: one context, certificates and keys inline. An empty kubeconfig or context
// is what kubectl means by it. Of environ only what reaching a cluster needs is
// kept, and what a credential plugin reads where there is one.
func ReadCredential(kubeconfig, context string, environ []string) (*backend.Credential, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	cfg, err := rules.Load()
	kubeconfig = cmp.Or(kubeconfig, "of the environment")
	if err != nil {
		return nil, nightcrier.Errorf(nightcrier.Invalid, "kubeconfig %s: %w", kubeconfig, err)
	}
	if context != "" {
		cfg.CurrentContext = context
	}
	if clientcmdapi.IsConfigEmpty(cfg) {
		return nil, nightcrier.Errorf(nightcrier.Invalid, "no kubeconfig: %w", ErrNoKubeconfig)
	}
	if _, ok := cfg.Contexts[cfg.CurrentContext]; !ok {
		return nil, nightcrier.Errorf(nightcrier.Invalid, "kubeconfig %s: context %q does not exist; there are: %s", kubeconfig, cfg.CurrentContext,
			strings.Join(slices.Sorted(maps.Keys(cfg.Contexts)), ", "))
	}
	if err := clientcmdapi.MinifyConfig(cfg); err != nil {
		return nil, nightcrier.Errorf(nightcrier.Invalid, "kubeconfig %s: %w", kubeconfig, err)
	}
	if err := clientcmdapi.FlattenConfig(cfg); err != nil {
		return nil, nightcrier.Errorf(nightcrier.Invalid, "kubeconfig %s: %w", kubeconfig, err)
	}
	raw, err := clientcmd.Write(*cfg)
	if err != nil {
		return nil, nightcrier.Errorf(nightcrier.Internal, "kubeconfig %s: %w", kubeconfig, err)
	}
	return &backend.Credential{Kubeconfig: raw, Env: builtEnv(environ, usesPlugin(cfg))}, nil
}

func usesPlugin(cfg *clientcmdapi.Config) bool {
	for _, user := range cfg.AuthInfos {
		if user.Exec != nil {
			return true
		}
	}
	return false
}

// routeVars lead to a cluster; pluginVars are what the credential plugins of the
// clouds read, by name or beginning.
var (
	routeVars = []string{"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"}

	pluginVars     = []string{"PATH", "HOME", "USER", "LOGNAME", "LANG", "TZ", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"}
	pluginPrefixes = []string{"AWS_", "AZURE_", "AAD_", "ARM_", "CLOUDSDK_", "GOOGLE_", "OCI_", "DIGITALOCEAN_", "TSH_", "TELEPORT_"}
)

// LogsIn reports whether a variable of that name is one by which the tools of a
// cloud log in. Those that lead to a model's API, such as GOOGLE_API_KEY, are none.
func LogsIn(name string) bool {
	for _, p := range nightcrier.Providers() {
		if slices.Contains(config.KeyVariables(p), name) || slices.Contains(config.AddressVariables(p), name) {
			return false
		}
	}
	return slices.ContainsFunc(pluginPrefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

func builtEnv(environ []string, plugin bool) []string {
	var env []string
	for _, kv := range environ {
		name, _, _ := strings.Cut(kv, "=")
		if slices.Contains(routeVars, name) || plugin && (slices.Contains(pluginVars, name) || LogsIn(name)) {
			env = append(env, kv)
		}
	}
	return env
}
