package kube

import (
	"net/http"
	"net/url"
	"path/filepath"
	"strings"

	"golang.org/x/net/http/httpproxy"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/transport"

	"nightcrier.dev/nightcrier"
)

// Dial prepares the way to the cluster of a kubeconfig's current context. It does not connect.
//
// A credential plugin runs on this side, and it and the choice of a proxy see
// exactly env (NAME=value), nothing of this process's environment. Unusual ways
// to the cluster are said in the result's Notes. A kubeconfig that cannot be used
// is an Invalid error that names the field.
func Dial(kubeconfig []byte, env []string) (Upstream, error) {
	file, err := clientcmd.Load(kubeconfig)
	if err != nil {
		return Upstream{}, nightcrier.Errorf(nightcrier.Invalid, "kubeconfig: %w", err)
	}
	context := file.CurrentContext
	user, cluster, err := pickContext(file, context)
	if err != nil {
		return Upstream{}, err
	}
	if err := checkUsable(user, cluster); err != nil {
		return Upstream{}, nightcrier.Errorf(nightcrier.Invalid, "kubeconfig: context %q: %w", context, err)
	}
	cfg, err := clientcmd.NewNonInteractiveClientConfig(*file, context, nil, nil).ClientConfig()
	if err != nil {
		return Upstream{}, nightcrier.Errorf(nightcrier.Invalid, "kubeconfig: context %q: %w", context, err)
	}
	return newUpstream(cfg, cluster, env)
}

func pickContext(file *clientcmdapi.Config, context string) (*clientcmdapi.AuthInfo, *clientcmdapi.Cluster, error) {
	c, ok := file.Contexts[context]
	if !ok {
		return nil, nil, nightcrier.Errorf(nightcrier.Invalid, "kubeconfig: no context %q", context)
	}
	cluster, ok := file.Clusters[c.Cluster]
	if !ok {
		return nil, nil, nightcrier.Errorf(nightcrier.Invalid, "kubeconfig: context %q: no cluster %q", context, c.Cluster)
	}
	user, ok := file.AuthInfos[c.AuthInfo]
	if !ok {
		return nil, nil, nightcrier.Errorf(nightcrier.Invalid, "kubeconfig: context %q: no user %q", context, c.AuthInfo)
	}
	return user, cluster, nil
}

// checkUsable refuses what only looks as if it worked.
func checkUsable(user *clientcmdapi.AuthInfo, cluster *clientcmdapi.Cluster) error {
	if user.AuthProvider != nil {
		return nightcrier.Errorf(nightcrier.Invalid, "auth-provider %q was removed from Kubernetes: use an exec plugin", user.AuthProvider.Name)
	}
	for field, path := range map[string]string{
		"certificate-authority": cluster.CertificateAuthority,
		"client-certificate":    user.ClientCertificate, "client-key": user.ClientKey, "tokenFile": user.TokenFile,
	} {
		if path != "" && !filepath.IsAbs(path) {
			return nightcrier.Errorf(nightcrier.Invalid, "%s is the relative path %q: inline it (kubectl config view --flatten) or make it absolute", field, path)
		}
	}
	return nil
}

func newUpstream(cfg *rest.Config, cluster *clientcmdapi.Cluster, env []string) (Upstream, error) {
	base, _, err := rest.DefaultServerUrlFor(cfg)
	if err != nil || base.Host == "" || base.User != nil || base.Scheme != "https" && base.Scheme != "http" {
		return Upstream{}, nightcrier.Errorf(nightcrier.Invalid, "kubeconfig: server is not an http(s) URL without credentials")
	}
	up := Upstream{Base: base, Notes: upstreamNotes(cfg, cluster, base)}
	if cluster.ProxyURL == "" {
		cfg.Proxy = proxyFromEnv(env)
	}
	command := cfg.ExecProvider
	cfg.ExecProvider = nil
	settings, err := cfg.TransportConfig()
	if err != nil {
		return Upstream{}, nightcrier.Errorf(nightcrier.Invalid, "kubeconfig: credential for %s: %w", base.Host, err)
	}
	if command != nil {
		p, err := newPlugin(command, cluster, env)
		if err != nil {
			return Upstream{}, err
		}
		settings.TLS.GetCertHolder = &transport.GetCertHolder{GetCert: p.clientCertificate}
		settings.Wrap(p.wrapTransport)
	}
	if up.Transport, err = transport.New(settings); err != nil {
		return Upstream{}, nightcrier.Errorf(nightcrier.Invalid, "kubeconfig: credential for %s: %w", base.Host, err)
	}
	return up, nil
}

// upstreamNotes tells what is unusual about the way to the cluster.
func upstreamNotes(cfg *rest.Config, cluster *clientcmdapi.Cluster, base *url.URL) []string {
	var out []string
	if cluster.InsecureSkipTLSVerify {
		out = append(out, "insecure-skip-tls-verify: whoever is on the way to "+base.Host+" can pretend to be the cluster")
	}
	if base.Scheme == "http" {
		out = append(out, "the way to "+base.Host+" is not encrypted")
	}
	if u, err := url.Parse(cluster.ProxyURL); err == nil && u.Host != "" {
		out = append(out, "the cluster is reached through the proxy "+u.Host)
	}
	if cfg.Impersonate.UserName != "" {
		out = append(out, "the credential acts as "+cfg.Impersonate.UserName)
	}
	return out
}

// proxyFromEnv chooses a proxy by the environment that was built for this run.
func proxyFromEnv(env []string) func(*http.Request) (*url.URL, error) {
	get := func(names ...string) string {
		for _, name := range names {
			if v := lookupEnv(env, name); v != "" {
				return v
			}
		}
		return ""
	}
	choose := (&httpproxy.Config{
		HTTPProxy:  get("HTTP_PROXY", "http_proxy"),
		HTTPSProxy: get("HTTPS_PROXY", "https_proxy"),
		NoProxy:    get("NO_PROXY", "no_proxy"),
	}).ProxyFunc()
	return func(r *http.Request) (*url.URL, error) { return choose(r.URL) }
}

// lookupEnv finds a variable in env; the last one counts.
func lookupEnv(env []string, name string) string {
	value := ""
	for _, e := range env {
		if v, ok := strings.CutPrefix(e, name+"="); ok {
			value = v
		}
	}
	return value
}
