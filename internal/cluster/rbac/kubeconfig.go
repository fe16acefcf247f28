package rbac

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	authn "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	api "k8s.io/client-go/tools/clientcmd/api"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/cluster/kube"
	"nightcrier.dev/nightcrier/internal/cluster/preflight"
)

// Request says which account a kubeconfig is made of, and by whom.
type Request struct {
	Account Account
	// Kubeconfig and Context are the credential that may make tokens; both empty
	// means kubectl's own default.
	Kubeconfig, Context string
	// Duration is how long the token is asked to be valid. A cluster may grant less.
	Duration time.Duration
}

// Bounds of a token's life: the API server takes nothing shorter.
const (
	MinDuration = 10 * time.Minute
	MaxDuration = 365 * 24 * time.Hour
)

// Made is a new credential.
type Made struct {
	// Kubeconfig has one context. It holds the token: whoever reads it may read the
	// cluster.
	Kubeconfig []byte
	// Host is the API server's, ExpiresAt when the token ends.
	Host      string
	ExpiresAt time.Time
	// Known is what the new credential may do.
	Known preflight.Result
}

const (
	callTimeout = 30 * time.Second
	maxAnswer   = 1 << 20
)

// Kubeconfig asks the cluster for a token of the account, and returns a
// kubeconfig with it and nothing else. Errors: Invalid for wrong names, times or
// kubeconfigs, NotFound when the account does not exist, Unreachable when the
// cluster does not answer or denies it.
func Kubeconfig(ctx context.Context, r Request) (Made, error) {
	if err := r.checkRequest(); err != nil {
		return Made{}, err
	}
	admin, cluster, err := r.loadCredential()
	if err != nil {
		return Made{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	token, err := r.requestToken(ctx, admin)
	if err != nil {
		return Made{}, err
	}
	m := Made{ExpiresAt: token.ExpirationTimestamp.Time}
	if m.Kubeconfig, err = clientcmd.Write(newKubeconfig(cluster, token.Token)); err != nil {
		return m, fmt.Errorf("encode the kubeconfig: %w", err)
	}
	return m, r.checkCredential(ctx, &m)
}

// checkCredential asks what the new credential may do, with nothing but what was made.
func (r Request) checkCredential(ctx context.Context, m *Made) error {
	cfg, err := clientcmd.RESTConfigFromKubeConfig(m.Kubeconfig)
	if err != nil {
		return nightcrier.Errorf(nightcrier.Invalid, "the new kubeconfig is not usable: %w", err)
	}
	client, err := kube.New(cfg, callTimeout)
	if err != nil {
		return err
	}
	defer client.Close()
	m.Host = client.Host()
	m.Known, err = preflight.Check(ctx, client, m.Host, firstOrEmpty(r.Account.Namespaces), time.Now())
	return err
}

// loadCredential returns the credential that may make tokens, and how its cluster is
// reached: address, trust, proxy.
func (r Request) loadCredential() (*rest.Config, *api.Cluster, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = r.Kubeconfig
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: r.Context})
	cfg, err := loader.ClientConfig()
	if r.Kubeconfig == "" && clientcmd.IsEmptyConfig(err) {
		return nil, nil, nightcrier.Errorf(nightcrier.Invalid, "no kubeconfig: neither KUBECONFIG nor ~/.kube/config leads to one; name an administrator's with --kubeconfig")
	}
	if err != nil {
		return nil, nil, nightcrier.Errorf(nightcrier.Invalid, "kubeconfig: %w", err)
	}
	raw, err := loader.RawConfig()
	if err != nil {
		return nil, nil, nightcrier.Errorf(nightcrier.Invalid, "kubeconfig: %w", err)
	}
	name := cmp.Or(r.Context, raw.CurrentContext)
	in := raw.Contexts[name]
	if in == nil || raw.Clusters[in.Cluster] == nil {
		return nil, nil, nightcrier.Errorf(nightcrier.Invalid, "kubeconfig: context %q names no cluster", name)
	}
	cluster := raw.Clusters[in.Cluster]
	if cluster.CertificateAuthority != "" { // files may lie elsewhere tomorrow
		if cluster.CertificateAuthorityData, err = os.ReadFile(cluster.CertificateAuthority); err != nil {
			return nil, nil, nightcrier.Errorf(nightcrier.Invalid, "certificate authority of the cluster: %w", err)
		}
		cluster.CertificateAuthority = ""
	}
	cluster.LocationOfOrigin, cluster.Extensions = "", nil
	return cfg, cluster, nil
}

// newKubeconfig makes a kubeconfig with one context.
func newKubeconfig(cluster *api.Cluster, token string) api.Config {
	const name = "nightcrier"
	return api.Config{
		Clusters:       map[string]*api.Cluster{name: cluster},
		AuthInfos:      map[string]*api.AuthInfo{name: {Token: token}},
		Contexts:       map[string]*api.Context{name: {Cluster: name, AuthInfo: name}},
		CurrentContext: name,
	}
}

func (r Request) checkRequest() error {
	if r.Duration < MinDuration || r.Duration > MaxDuration {
		return nightcrier.Errorf(nightcrier.Invalid, "a token cannot be valid for %s: between 10m and 8760h is possible", r.Duration)
	}
	return r.Account.Check()
}

func firstOrEmpty(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[0]
}

// requestToken makes a token of the account. It is a POST, and the only one of this
// program that has an effect.
func (r Request) requestToken(ctx context.Context, cfg *rest.Config) (authn.TokenRequestStatus, error) {
	seconds := int64(r.Duration / time.Second)
	t := authn.TokenRequest{
		TypeMeta: metav1.TypeMeta{APIVersion: authn.SchemeGroupVersion.String(), Kind: "TokenRequest"},
		Spec:     authn.TokenRequestSpec{ExpirationSeconds: &seconds},
	}
	ask, err := json.Marshal(t)
	if err != nil {
		return t.Status, err
	}
	answer, err := r.postTokenRequest(ctx, cfg, ask)
	if err != nil {
		return t.Status, err
	}
	if err := json.Unmarshal(answer, &t); err != nil || t.Status.Token == "" {
		return t.Status, nightcrier.Errorf(nightcrier.Unreachable, "%s does not answer like a Kubernetes API server", cfg.Host)
	}
	return t.Status, nil
}

func (r Request) postTokenRequest(ctx context.Context, cfg *rest.Config, body []byte) ([]byte, error) {
	web, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, nightcrier.Errorf(nightcrier.Invalid, "credential of kubeconfig: %w", err)
	}
	own := *web
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	defer own.CloseIdleConnections()
	base, _, err := rest.DefaultServerUrlFor(cfg)
	if err != nil {
		return nil, nightcrier.Errorf(nightcrier.Invalid, "address of the API server: %w", err)
	}
	target := base.JoinPath("api/v1/namespaces", r.Account.Namespace, "serviceaccounts", r.Account.Name, "token")
	target.User = nil
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	resp, err := own.Do(req)
	if err != nil {
		return nil, nightcrier.Errorf(nightcrier.Unreachable, "cluster at %s cannot be reached: %w", base.Host, err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, nightcrier.Errorf(nightcrier.Unreachable, "cluster at %s: %w", base.Host, err)
	}
	return answer, r.statusError(resp.StatusCode, base.Host, answer)
}

// statusError turns an answer that is no success into an error.
func (r Request) statusError(status int, host string, answer []byte) error {
	who := r.Account.Namespace + "/" + r.Account.Name
	switch status {
	case http.StatusOK, http.StatusCreated:
		return nil
	case http.StatusNotFound:
		return nightcrier.Errorf(nightcrier.NotFound, "ServiceAccount %s does not exist on %s: apply what `nightcrier rbac manifest` prints", who, host)
	case http.StatusUnauthorized:
		return nightcrier.Errorf(nightcrier.Unreachable, "%s does not accept the credential (401): renew it in the kubeconfig", host)
	case http.StatusForbidden:
		return nightcrier.Errorf(nightcrier.Unreachable, "the credential for %s may not make tokens of ServiceAccount %s: use one that may create serviceaccounts/token", host, who)
	}
	var s metav1.Status
	_ = json.Unmarshal(answer, &s) // without a sentence the number must do
	return nightcrier.Errorf(nightcrier.Unreachable, "%s answered %d to the request for a token: %.300q", host, status, s.Message)
}
