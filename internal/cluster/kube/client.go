// Package kube reads a Kubernetes cluster: single objects, bounded lists, logs,
// and what the credential may do. It speaks plain HTTP with JSON answers over
// client-go's transport, and has no call that changes anything.
//
// Every call has a timeout and every answer a size limit. Failures carry a code:
// nightcrier.Unreachable (no answer, or the credential is not accepted),
// nightcrier.Refused (the cluster's policy forbids the read),
// nightcrier.NotFound, nightcrier.Invalid and nightcrier.Exhausted (too big).
// Their texts name the host and never hold a credential.
package kube

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"nightcrier.dev/nightcrier"
)

// DefaultTimeout is how long one call may take when Dial is given no timeout.
const DefaultTimeout = 10 * time.Second

// maxBody is the largest answer that is read, in bytes.
const maxBody = 16 << 20

// Client reads one cluster. It is safe for concurrent use.
type Client struct {
	http      *http.Client
	base      *url.URL
	namespace string
	timeout   time.Duration
	kinds     kindCache
}

// ErrNoKubeconfig is that none was named and none is where kubectl looks.
var ErrNoKubeconfig = errors.New("neither KUBECONFIG nor ~/.kube/config leads to a kubeconfig; name one with --kubeconfig")

// Dial prepares a client; it does not connect, so a cluster that is down is
// noticed by the first read or by Check.
//
// An empty kubeconfig means what kubectl means by it: $KUBECONFIG, then
// ~/.kube/config, then the Pod's own ServiceAccount. An empty context is the
// file's current one. A kubeconfig that names a credential plugin runs it, as
// kubectl does. A timeout of zero is DefaultTimeout.
//
// A kubeconfig that is missing or not usable is an Invalid error naming it.
func Dial(kubeconfig, context string, timeout time.Duration) (*Client, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	over := &clientcmd.ConfigOverrides{CurrentContext: context}
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, over)
	cfg, err := loader.ClientConfig()
	switch {
	case kubeconfig == "" && context == "" && clientcmd.IsEmptyConfig(err):
		return nil, nightcrier.Errorf(nightcrier.Invalid, "no credential for a cluster: %w", ErrNoKubeconfig)
	case err != nil:
		return nil, nightcrier.Errorf(nightcrier.Invalid, "kubeconfig %s: %w", describeKubeconfig(kubeconfig), err)
	}
	c, err := New(cfg, timeout)
	if err != nil {
		return nil, err
	}
	if c.namespace, _, err = loader.Namespace(); err != nil {
		return nil, nightcrier.Errorf(nightcrier.Invalid, "kubeconfig %s: %w", describeKubeconfig(kubeconfig), err)
	}
	return c, nil
}

// ContextName is the context that Dial would use, as kubectl shows it; "" where there is
// none, as in a Pod, or where the kubeconfig cannot be read.
func ContextName(kubeconfig, context string) string {
	if context != "" {
		return context
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	cfg, err := rules.Load()
	if err != nil {
		return ""
	}
	return cfg.CurrentContext
}

func describeKubeconfig(kubeconfig string) string {
	return cmp.Or(kubeconfig, "(from KUBECONFIG, ~/.kube/config or the Pod)")
}

// New is Dial for a configuration that is already at hand.
func New(cfg *rest.Config, timeout time.Duration) (*Client, error) {
	base, _, err := rest.DefaultServerUrlFor(cfg)
	if err != nil {
		return nil, nightcrier.Errorf(nightcrier.Invalid, "address of the cluster's API server is not a URL: %w", withoutURL(err))
	}
	web, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, nightcrier.Errorf(nightcrier.Invalid, "credential for %s: %w", base.Host, err)
	}
	own := *web
	// The transport adds the credential to every request, so a redirect would
	// carry it to wherever the answer points.
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	if timeout <= 0 {
		timeout = DefaultTimeout
	}
	base.User = nil
	return &Client{http: &own, base: base, namespace: metav1.NamespaceDefault, timeout: timeout}, nil
}

// Host is the address of the API server, for people: host and port only.
func (c *Client) Host() string { return c.base.Host }

// Namespace is where its context looks when no namespace is named.
func (c *Client) Namespace() string { return c.namespace }

// Close drops idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// request is one read. path is absolute below the server's base, its segments
// already escaped.
type request struct {
	what   string // for errors: "get shop/Pod/cart-1"
	path   string
	query  url.Values
	accept string
	method string
	body   io.Reader
	limit  int64
}

// fetchBody sends r and returns the whole body of a successful answer.
func (c *Client) fetchBody(ctx context.Context, r request) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	req, err := c.newRequest(ctx, r)
	if err != nil {
		return nil, nightcrier.Errorf(nightcrier.Invalid, "%s: %w", r.what, withoutURL(err))
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.unreachableError(ctx, r.what, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, r.limit+1))
	switch {
	case err != nil:
		return nil, c.unreachableError(ctx, r.what, err)
	case resp.StatusCode/100 != 2:
		return nil, c.refusalError(r.what, resp.StatusCode, body)
	case int64(len(body)) > r.limit:
		return nil, nightcrier.Errorf(nightcrier.Exhausted, "%s: the answer is larger than %d bytes", r.what, r.limit)
	}
	return body, nil
}

func (c *Client) newRequest(ctx context.Context, r request) (*http.Request, error) {
	r.method = cmp.Or(r.method, http.MethodGet)
	target := c.base.Scheme + "://" + c.base.Host + trimSlash(c.base.EscapedPath()) + r.path
	if len(r.query) > 0 {
		target += "?" + r.query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, r.method, target, r.body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", r.accept)
	if r.body != nil {
		req.Header.Set("Content-Type", acceptJSON)
	}
	return req, nil
}

func trimSlash(path string) string {
	for len(path) > 0 && path[len(path)-1] == '/' {
		path = path[:len(path)-1]
	}
	return path
}
