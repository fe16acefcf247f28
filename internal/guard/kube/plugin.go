package kube

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"nightcrier.dev/nightcrier"
	texts "nightcrier.dev/nightcrier/internal/text"
)

const (
	pluginTime   = time.Minute
	pluginOutput = 1 << 20          // bytes of a credential
	pluginSays   = 2 << 10          // bytes of what it says on stderr
	pluginEarly  = 10 * time.Second // a credential is renewed this long before it ends
)

// plugin gets credentials from a program that the kubeconfig names. client-go has
// the same and gives the program the whole environment of this process; here it
// gets what it was built for.
type plugin struct {
	path string
	args []string
	env  []string

	mu   sync.Mutex
	held credential
}

// credential is what a plugin answers, of which a token or a certificate is set.
type credential struct {
	Kind   string `json:"kind"`
	Status *struct {
		Expires *time.Time `json:"expirationTimestamp"`
		Token   string     `json:"token"`
		Cert    string     `json:"clientCertificateData"`
		Key     string     `json:"clientKeyData"`
	} `json:"status"`
	cert *tls.Certificate
}

var pluginVersions = []string{"client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"}

func newPlugin(c *clientcmdapi.ExecConfig, cluster *clientcmdapi.Cluster, env []string) (*plugin, error) {
	if !slices.Contains(pluginVersions, c.APIVersion) {
		return nil, nightcrier.Errorf(nightcrier.Invalid, "kubeconfig: exec.apiVersion %q is not %s", c.APIVersion, strings.Join(pluginVersions, " or "))
	}
	if c.InteractiveMode == clientcmdapi.AlwaysExecInteractiveMode {
		return nil, nightcrier.Errorf(nightcrier.Invalid, "kubeconfig: exec.interactiveMode is Always, and nobody is there to answer")
	}
	own := slices.Clone(env)
	for _, e := range c.Env {
		own = append(own, e.Name+"="+e.Value)
	}
	path, err := findProgram(c.Command, lookupEnv(own, "PATH"))
	if err != nil {
		return nil, nightcrier.Errorf(nightcrier.Invalid, "kubeconfig: exec.command: %w", err)
	}
	info, err := execInfo(c, cluster)
	if err != nil {
		return nil, nightcrier.Errorf(nightcrier.Internal, "credential plugin %s: %w", c.Command, err)
	}
	return &plugin{path: path, args: c.Args, env: append(own, "KUBERNETES_EXEC_INFO="+info)}, nil
}

// findProgram looks for the program in the PATH that it will have.
func findProgram(command, path string) (string, error) {
	if filepath.IsAbs(command) {
		return command, nil
	}
	if strings.Contains(command, "/") {
		return "", fmt.Errorf("%q is a relative path: make it absolute", command)
	}
	for _, dir := range filepath.SplitList(path) {
		file := filepath.Join(dir, command)
		if info, err := os.Stat(file); filepath.IsAbs(dir) && err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return file, nil
		}
	}
	return "", fmt.Errorf("%q is not in the PATH that plugins are given (%s)", command, path)
}

// execInfo is what a plugin is told.
func execInfo(c *clientcmdapi.ExecConfig, cluster *clientcmdapi.Cluster) (string, error) {
	spec := map[string]any{"interactive": false}
	if c.ProvideClusterInfo {
		spec["cluster"] = map[string]any{
			"server": cluster.Server, "tls-server-name": cluster.TLSServerName, "proxy-url": cluster.ProxyURL,
			"insecure-skip-tls-verify": cluster.InsecureSkipTLSVerify, "certificate-authority-data": cluster.CertificateAuthorityData,
		}
	}
	info, err := json.Marshal(map[string]any{"apiVersion": c.APIVersion, "kind": "ExecCredential", "spec": spec})
	return string(info), err
}

// getCredential returns the credential, asking the program when there is none that lasts.
func (p *plugin) getCredential(ctx context.Context) (credential, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.held.Status; s != nil && (s.Expires == nil || time.Until(*s.Expires) > pluginEarly) {
		return p.held, nil
	}
	fresh, err := p.askProgram(ctx)
	if err == nil {
		p.held = fresh
	}
	return fresh, err
}

// forget drops a credential that the cluster does not accept.
func (p *plugin) forget(c credential) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held.Status == c.Status {
		p.held = credential{}
	}
}

func (p *plugin) askProgram(ctx context.Context) (credential, error) {
	ctx, cancel := context.WithTimeout(ctx, pluginTime)
	defer cancel()
	out, says := &texts.Head{Max: pluginOutput}, &texts.Head{Max: pluginSays}
	cmd := exec.CommandContext(ctx, p.path, p.args...)
	cmd.Env, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = p.env, out, says, time.Second
	cmd.Dir = "/"
	if err := cmd.Run(); err != nil {
		return credential{}, nightcrier.Errorf(nightcrier.Unreachable, "credential plugin %s: %w: %s", p.path, err, texts.CutLine(string(says.Kept), maxSaid))
	}
	var c credential
	if err := json.Unmarshal(out.Kept, &c); err != nil || c.Kind != "ExecCredential" || c.Status == nil {
		return c, nightcrier.Errorf(nightcrier.Unreachable, "credential plugin %s: its output is no ExecCredential with a status", p.path)
	}
	if c.Status.Cert != "" {
		pair, err := tls.X509KeyPair([]byte(c.Status.Cert), []byte(c.Status.Key))
		if err != nil {
			return c, nightcrier.Errorf(nightcrier.Unreachable, "credential plugin %s: its certificate and key are no pair", p.path)
		}
		c.cert = &pair
	}
	if c.cert == nil && c.Status.Token == "" {
		return c, nightcrier.Errorf(nightcrier.Unreachable, "credential plugin %s: it gave neither token nor certificate", p.path)
	}
	return c, nil
}

// clientCertificate is the client's in a TLS handshake; none when the plugin has none.
func (p *plugin) clientCertificate() (*tls.Certificate, error) {
	c, err := p.getCredential(context.Background())
	return c.cert, err
}

// wrapTransport puts the plugin's token into requests.
func (p *plugin) wrapTransport(next http.RoundTripper) http.RoundTripper { return &authorized{p, next} }

type authorized struct {
	plugin *plugin
	next   http.RoundTripper
}

func (a *authorized) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, used, err := a.attemptRequest(r)
	if err != nil || resp.StatusCode != http.StatusUnauthorized {
		return resp, err
	}
	// The credential may have been revoked: once more with a fresh one. A read
	// has no body that would be gone by now.
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, pluginSays))
	resp.Body.Close()
	a.plugin.forget(used)
	utilnet.CloseIdleConnectionsFor(a.next) // a certificate lasts as long as its connection
	resp, _, err = a.attemptRequest(r)
	return resp, err
}

func (a *authorized) attemptRequest(r *http.Request) (*http.Response, credential, error) {
	c, err := a.plugin.getCredential(r.Context())
	if err != nil {
		return nil, c, err
	}
	if c.Status.Token != "" {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+c.Status.Token)
	}
	resp, err := a.next.RoundTrip(r)
	return resp, c, err
}
