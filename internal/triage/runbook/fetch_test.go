package runbook

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// wiki is a server that says what it is asked.
func wiki(t *testing.T, h http.HandlerFunc) (base, host string) {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	u, err := url.Parse(srv.URL)
	must(t, err)
	return srv.URL, u.Host
}

func fetcherFor(t *testing.T, hosts ...string) *fetcher {
	t.Helper()
	f, err := newFetcher(hosts, 5*time.Second)
	must(t, err)
	return f
}

func says(kind, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		fmt.Fprint(w, body)
	}
}

func TestPagesThatAreFetched(t *testing.T) {
	for name, c := range map[string]struct{ kind, body, title, text string }{
		"markdown": {"text/markdown; charset=utf-8", "# Crash loops\n\nLook at the queue.\x1b[2J\u202e", "Crash loops", "# Crash loops\n\nLook at the queue."},
		"plain":    {"text/plain", "just text", "KubeAlert", "just text"},
		"html": {"text/html", `<html><head><title>Crash &amp; loops</title><style>p{}</style><script>alert("x")</script></head><body onload="evil()">
			<nav>menu</nav><h1>Crash loops</h1><p>Look <b>at</b> the&nbsp;<a href="javascript:evil()">queue</a>.</p><ul><li>one</li><li>two &lt;script&gt;</li></ul><pre>kubectl  get
pods</pre><img src="http://169.254.169.254/" alt="x"><svg><text>no</text></svg></body></html>`,
			"Crash & loops", "# Crash loops\n\nLook at the queue.\n\n- one\n- two <script>\n\nkubectl  get\npods"},
	} {
		t.Run(name, func(t *testing.T) {
			base, host := wiki(t, says(c.kind, c.body))
			r := fetcherFor(t, host).fetchPage(t.Context(), "KubeAlert", base+"/x#part")
			if r.Problem != "" || r.Title != c.title || r.Text != c.text || r.Source != base+"/x" {
				t.Errorf("%+v\nwant %q", r, c.text)
			}
		})
	}
}

func TestPagesThatAreNot(t *testing.T) {
	elsewhere, elsewhereHost := wiki(t, says("text/plain", "another host"))
	for name, c := range map[string]struct {
		h    http.HandlerFunc
		want string
	}{
		"too large": {says("text/plain", strings.Repeat("x", MaxText+1)), "larger than 256 KiB"},
		"an image":  {says("image/png", "x"), "neither text nor HTML"},
		"no type":   {says("", "x"), "neither text nor HTML"},
		"nothing":   {says("text/html", "<script>while(1){}"), "holds no text"},
		"missing":   {http.NotFound, "answered 404"},
		"compressed": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			says("text/plain", "x")(w, nil)
		}, "compressed"},
		"another host": {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, elsewhere, http.StatusFound) }, "it redirects to " + elsewhereHost},
		"the metadata": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://169.254.169.254/latest", http.StatusFound)
		}, "it redirects to 169.254.169.254"},
		"a file": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "file:///etc/passwd", http.StatusFound)
		}, "redirects"},
		"round in circles": {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/again", http.StatusFound) }, "redirects too often"},
		"a very long head": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X", strings.Repeat("x", 2*maxHeader))
			says("text/plain", "x")(w, nil)
		}, "exceeded"},
		"cut in the middle": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "99")
			says("text/plain", "x")(w, nil)
		}, "EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			base, host := wiki(t, c.h)
			r := fetcherFor(t, host, elsewhereHost).fetchPage(t.Context(), "KubeAlert", base)
			if r.Text != "" || !strings.Contains(r.Problem, c.want) || r.Title != "KubeAlert" || r.Source != base {
				t.Errorf("%+v, want …%s…", r, c.want)
			}
		})
	}
}

func TestASlowPageEnds(t *testing.T) {
	over := make(chan struct{})
	base, host := wiki(t, func(w http.ResponseWriter, r *http.Request) {
		says("text/plain", "a beginning")(w, r)
		_ = http.NewResponseController(w).Flush()
		<-over
	})
	defer close(over)
	f, err := newFetcher([]string{host}, 50*time.Millisecond)
	must(t, err)
	if r := f.fetchPage(t.Context(), "", base); r.Text != "" || r.Problem != "it did not answer within 50ms" {
		t.Errorf("%+v", r)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if r := fetcherFor(t, host).fetchPage(ctx, "", base); r.Problem == "" {
		t.Errorf("%+v", r)
	}
}

func TestAddressesThatAreRefused(t *testing.T) {
	var asked atomic.Int32
	base, host := wiki(t, func(http.ResponseWriter, *http.Request) { asked.Add(1) })
	_, port, _ := strings.Cut(host, ":")
	f := fetcherFor(t, "runbooks.example.com", "*.wiki.example", "10.0.0.0/8", "127.0.0.1:1")
	for link, want := range map[string]string{
		base:                                                   "not in runbooks.allowed_hosts", // another port of it
		"https://elsewhere.example/x":                          "elsewhere.example is not in",
		"https://runbooks.example.com.evil/x":                  "not in",
		"https://evilrunbooks.example.com/":                    "not in",
		"https://wiki.example/":                                "not in",
		"https://evilwiki.example/":                            "not in",
		"https://runbooks.example.com:8443/":                   "not in",
		"https://runbooks.example.com@evil.example/":           "user name",
		"https://u:p@runbooks.example.com/":                    "user name",
		"http://runbooks.example.com/":                         "only https",
		"http://localhost:" + port:                             "only https",
		"https://10.1.2.3/":                                    "not in", // a network allows addresses of names, not every host in it
		"https://[::ffff:169.254.169.254]/":                    "not in",
		"ftp://runbooks.example.com/":                          "not an https address",
		"javascript:alert(1)":                                  "not an https address",
		"file:///etc/passwd":                                   "not an https address",
		"//runbooks.example.com/":                              "not an https address",
		"https:///x":                                           "not an https address",
		"https://runbooks.example.com/\x00":                    "not an https address",
		"https://runbooks.example.com/" + longPath:             "not an https address",
		"https://runbooks.example.com\\@169.254.169.254/":      "not an https address",
		"https://runbooks.example.com%2f@169.254.169.254/":     "user name",
		"https://r\u0443nbooks.example.com/ <!channel> \u202e": "not",
	} {
		r := f.fetchPage(t.Context(), "A\u202e\n", link)
		if r.Text != "" || !strings.Contains(r.Problem, want) || r.Title != "A" || len(r.Source) > maxTitle || strings.ContainsAny(r.Source+r.Problem, "\n\x00\u202e") {
			t.Errorf("%q: %+v, want …%s…", link, r, want)
		}
	}
	if asked.Load() > 0 {
		t.Error("somebody was asked")
	}
}

var longPath = strings.Repeat("x", maxLink)

// A name that is allowed may lead into the network, at once or by the time of the
// connection: what is dialled is what was checked.
func TestNamesThatLeadInside(t *testing.T) {
	base, host := wiki(t, says("text/plain", "inside"))
	_, port, _ := strings.Cut(host, ":")
	name := "runbooks.example.com:" + port
	for _, c := range []struct {
		address string
		allowed []string
		reached bool
	}{
		{"127.0.0.1", []string{name}, false},
		{"127.0.0.1", []string{name, "127.0.0.0/8"}, true},
		{"::ffff:127.0.0.1", []string{name}, false},
		{"::ffff:127.0.0.1", []string{name, "127.0.0.1"}, true},
		{"0.0.0.0", []string{name}, false},
		{"10.0.0.1", []string{name}, false},
		{"169.254.169.254", []string{name, "10.0.0.0/8"}, false},
		{"64:ff9b::7f00:1", []string{name}, false},
		{"fd00::1", []string{name}, false},
	} {
		f := fetcherFor(t, c.allowed...)
		lookups := 0
		f.lookup = func(_ context.Context, host string) ([]netip.Addr, error) {
			if lookups++; lookups > 1 || host != "runbooks.example.com" {
				t.Errorf("%s: %s is looked up, for the %d. time", c.address, host, lookups)
			}
			return []netip.Addr{netip.MustParseAddr(c.address)}, nil
		}
		conn, err := f.dial(t.Context(), "tcp", name)
		if err == nil {
			conn.Close()
		}
		if (err == nil) != c.reached || err != nil && !strings.Contains(err.Error(), "runbooks.allowed_hosts") {
			t.Errorf("%s with %v: %v", c.address, c.allowed, err)
		}
	}
	f := fetcherFor(t, "localhost:"+port)
	f.lookup = func(context.Context, string) ([]netip.Addr, error) { return nil, context.DeadlineExceeded }
	if _, err := f.dial(t.Context(), "tcp", "localhost:"+port); err == nil || !strings.Contains(err.Error(), "not resolved") {
		t.Errorf("%s: %v", base, err)
	}
}

func TestHTTPSNeedsACertificate(t *testing.T) {
	srv := httptest.NewTLSServer(says("text/plain", "secured"))
	defer srv.Close()
	host := strings.TrimPrefix(srv.URL, "https://")
	f := fetcherFor(t, host)
	if r := f.fetchPage(t.Context(), "", srv.URL); r.Text != "" || !strings.Contains(r.Problem, "certificate") {
		t.Errorf("without its authority: %+v", r)
	}
	f.client.Transport.(*http.Transport).TLSClientConfig = &tls.Config{RootCAs: srv.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs}
	if r := f.fetchPage(t.Context(), "", srv.URL); r.Text != "secured" {
		t.Errorf("%+v", r)
	}
}

func TestCheckHost(t *testing.T) {
	for s, ok := range map[string]bool{
		"runbooks.example.com": true, "*.Example.com": true, "wiki": true, "wiki:8443": true, "10.1.2.3": true, "10.1.2.3:8080": true, "10.0.0.0/8": true,
		"[::1]:80": true, "::1": true, "fd00::/8": true,
		"": false, "*": false, "*.": false, "https://x": false, "x/y": false, "x:0": false, "x:99999": false, "a b": false, "*x.com": false, "x.*": false, "fe80::1%eth0": false, "10.0.0.0/33": false,
	} {
		if err := CheckHost(s); (err == nil) != ok {
			t.Errorf("%q: %v", s, err)
		}
	}
	if _, err := New(Options{AllowedHosts: []string{"https://x"}}); err == nil {
		t.Error("a host that is none was taken")
	}
}

func FuzzPlain(f *testing.F) {
	f.Add("<p>a<script>b</script><pre>c")
	f.Fuzz(func(t *testing.T, s string) {
		name, text := textOfPage(s)
		if len(name)+len(text) > 8*len(s)+64 {
			t.Errorf("%d bytes became %d", len(s), len(name)+len(text))
		}
	})
}
