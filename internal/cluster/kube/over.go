package kube

import (
	"net/http"
	"net/url"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Over returns a client whose requests rt answers, such as a guard of this
// process: it holds no credential, and the host is for people alone.
func Over(host string, rt http.RoundTripper, timeout time.Duration) *Client {
	return Through(&url.URL{Scheme: "https", Host: host}, rt, timeout)
}

// Through returns a client of the API server at base, which rt reaches and shows a
// credential.
func Through(base *url.URL, rt http.RoundTripper, timeout time.Duration) *Client {
	if timeout <= 0 {
		timeout = DefaultTimeout
	}
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Client{http: &http.Client{Transport: rt, CheckRedirect: stay}, base: base, namespace: metav1.NamespaceDefault, timeout: timeout}
}

// Upstream returns the address of the API server and what carries the credential
// there, for a guard to stand before.
func (c *Client) Upstream() (*url.URL, http.RoundTripper) {
	if c.http.Transport == nil {
		return c.base, http.DefaultTransport
	}
	return c.base, c.http.Transport
}
