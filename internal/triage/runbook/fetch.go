package runbook

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/text"
)

const (
	maxLink      = 2 << 10
	maxRedirects = 3
	// maxHeader bounds what a server may send before a page.
	maxHeader = 64 << 10
)

// fetcher gets pages that alerts name. Whoever can raise an alert chooses the
// address, so all of it is checked: scheme, host, port, and, once more when a
// connection is made, the address that the host has then.
type fetcher struct {
	allowed allowed
	client  *http.Client
	lookup  func(ctx context.Context, host string) ([]netip.Addr, error)
}

func newFetcher(hosts []string, timeout time.Duration) (*fetcher, error) {
	f := &fetcher{lookup: func(ctx context.Context, host string) ([]netip.Addr, error) {
		return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	}}
	for _, h := range hosts {
		if err := f.allowed.addEntry(h); err != nil {
			return nil, nightcrier.Errorf(nightcrier.Invalid, "runbooks.allowed_hosts: %w", err)
		}
	}
	f.client = &http.Client{
		Timeout:       timeout,
		CheckRedirect: f.checkRedirect,
		// No proxy: it would look the name up again, behind our check. No compression:
		// a small answer must not become a large one.
		Transport: &http.Transport{DialContext: f.dial, DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: maxHeader},
	}
	return f, nil
}

// fetchPage returns what the link leads to, or why it was not fetched.
func (f *fetcher) fetchPage(ctx context.Context, alert, link string) nightcrier.Runbook {
	r := nightcrier.Runbook{Title: cmp.Or(readableLine(alert), "Runbook of the alert"), Source: readableLine(link)}
	u, err := f.checkLink(link)
	if err != nil {
		r.Problem = err.Error()
		return r
	}
	r.Source = u.String()
	name, text, err := f.getPage(ctx, u)
	if err != nil {
		r.Problem = readableLine(f.reasonOf(err))
		return r
	}
	r.Title, r.Text = cmp.Or(name, r.Title), text
	return r
}

// reasonOf drops the address from a client's error: it stands beside it.
func (f *fetcher) reasonOf(err error) string {
	var late net.Error
	if errors.As(err, &late) && late.Timeout() {
		return fmt.Sprintf("it did not answer within %s", f.client.Timeout)
	}
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	return err.Error()
}

// checkLink reads a link and says why it may not be followed.
func (f *fetcher) checkLink(link string) (*url.URL, error) {
	u, err := url.Parse(strings.TrimSpace(link))
	switch {
	case err != nil || len(link) > maxLink || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		return nil, errors.New("it is not an https address")
	case u.User != nil:
		return nil, errors.New("the address holds a user name or a password")
	}
	u.Fragment, u.RawFragment = "", ""
	port := u.Port()
	if u.Scheme == "http" {
		ip, err := netip.ParseAddr(u.Hostname())
		if err != nil || !ip.IsLoopback() {
			return nil, errors.New("it is http, and only https is fetched")
		}
		port = cmp.Or(port, "80")
	}
	if !f.allowed.allowsHost(u.Hostname(), cmp.Or(port, "443")) {
		return nil, fmt.Errorf("%s is not in runbooks.allowed_hosts", readableLine(u.Host))
	}
	return u, nil
}

// checkRedirect follows within one host only.
func (f *fetcher) checkRedirect(next *http.Request, via []*http.Request) error {
	switch {
	case len(via) > maxRedirects:
		return errors.New("it redirects too often")
	case !strings.EqualFold(next.URL.Host, via[0].URL.Host) || next.URL.Scheme != via[0].URL.Scheme:
		return errors.New("it redirects to " + readableLine(next.URL.Host) + ", and only redirects within one host are followed")
	}
	_, err := f.checkLink(next.URL.String())
	return err
}

func (f *fetcher) getPage(ctx context.Context, u *url.URL) (name, said string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return "", "", err
	}
	req.Header.Set("Accept", "text/markdown, text/plain, text/html;q=0.5")
	req.Header.Set("User-Agent", "nightcrier")
	resp, err := f.client.Do(req)
	if err != nil {
		return "", "", err
	}
	defer resp.Body.Close()
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	switch {
	case resp.StatusCode != http.StatusOK:
		return "", "", fmt.Errorf("it answered %d", resp.StatusCode)
	case !slices.Contains([]string{"text/markdown", "text/x-markdown", "text/plain", "text/html"}, kind):
		return "", "", fmt.Errorf("it is %q, neither text nor HTML", readableLine(kind))
	case resp.Header.Get("Content-Encoding") != "":
		return "", "", errors.New("it is compressed, although that was not asked for")
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, MaxText+1))
	if err != nil {
		return "", "", err
	}
	if len(data) > MaxText {
		return "", "", fmt.Errorf("it is larger than %d KiB", MaxText>>10)
	}
	if kind == "text/html" {
		name, said = textOfPage(string(data))
	} else {
		said = string(data)
		name = firstHeading(said)
	}
	if said = strings.TrimSpace(text.DropHidden(text.KeepBytes(said, MaxText))); said == "" {
		return "", "", errors.New("it holds no text")
	}
	return readableLine(name), said, nil
}

// dial connects to an address that was checked: the name is looked up here, once,
// so that it cannot mean another one by the time of the connection.
func (f *fetcher) dial(ctx context.Context, network, target string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(target)
	if err != nil {
		return nil, err
	}
	addrs := []netip.Addr{}
	if ip, err := netip.ParseAddr(host); err == nil {
		addrs = append(addrs, ip)
	} else if addrs, err = f.lookup(ctx, host); err != nil {
		return nil, fmt.Errorf("%s is not resolved", readableLine(host))
	}
	last := fmt.Errorf("%s has no address that may be reached: it is private; if that is meant, add the address or its network to runbooks.allowed_hosts", readableLine(host))
	for _, ip := range addrs {
		if !f.allowed.allowsAddress(ip.Unmap()) {
			continue
		}
		conn, err := (&net.Dialer{}).DialContext(ctx, network, net.JoinHostPort(ip.Unmap().String(), port))
		if err == nil {
			return conn, nil
		}
		last = err
	}
	return nil, last
}
