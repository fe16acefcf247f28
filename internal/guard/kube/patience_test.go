package kube_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	guardkube "nightcrier.dev/nightcrier/internal/guard/kube"
	"nightcrier.dev/nightcrier/internal/mask"
)

// pipes is a network within the process, on which time can be the test's.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
	ends  []net.Conn // of those who dialled
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), done: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error { close(p.done); return nil }

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 6443} }

func (p *pipes) dial(context.Context, string, string) (net.Conn, error) {
	here, there := net.Pipe()
	p.conns <- there
	p.ends = append(p.ends, here)
	return here, nil
}

// cut breaks all connections. A server that is closed says farewell to each while it
// holds a lock, and the test's time stands still for whoever waits for a lock: a
// farewell that nobody reads would never be given up.
func (p *pipes) cut() {
	for _, c := range p.ends {
		c.Close()
	}
}

// streaming is a cluster whose watches say what is written to the pipe.
type streaming struct{ body io.ReadCloser }

func (s streaming) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"application/json"}}, Body: s.body}, nil
}

// TestQuietWatch: a watch on which nothing happens for a while goes on.
func TestQuietWatch(t *testing.T) {
	for _, protocol := range []string{"http/1.1", "h2"} {
		t.Run(protocol, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { quietWatch(t, protocol) }) })
	}
}

func quietWatch(t *testing.T, protocol string) {
	resp, cluster, end := watchOverPipes(t, protocol)
	lines := bufio.NewReader(resp.Body)
	for _, name := range []string{"first", "second"} {
		time.Sleep(2 * time.Minute) // of the test's own time
		if _, err := io.WriteString(cluster, event(name)); err != nil {
			t.Fatal(err)
		}
		if line, err := lines.ReadString('\n'); err != nil || !strings.Contains(line, name) {
			t.Fatalf("after two quiet minutes: %q, %v", line, err)
		}
	}
	end()
}

// TestCallerWhoDoesNotRead: who takes nothing of an answer holds it for a while
// only.
func TestCallerWhoDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, cluster, end := watchOverPipes(t, "http/1.1")
		start := time.Now()
		var err error
		for err == nil && time.Since(start) < time.Hour {
			_, err = io.WriteString(cluster, event("again"))
		}
		if took := time.Since(start); err == nil || took > time.Minute {
			t.Errorf("the stream ended after %s: %v", took, err)
		}
		end()
	})
}

// watchOverPipes opens a watch through a guard. What is written to cluster is what
// the cluster says.
func watchOverPipes(t *testing.T, protocol string) (resp *http.Response, cluster *io.PipeWriter, end func()) {
	body, cluster := io.Pipe()
	g, err := guardkube.New(guardkube.Config{
		Upstream: guardkube.Upstream{Base: &url.URL{Scheme: "https", Host: "x"}, Transport: streaming{body}},
		Mask:     bytes.Clone, MaskLog: mask.New([]byte("key")).Log, Audit: func(context.Context, guardkube.AuditRecord) error { return nil }, Logger: discard,
	})
	if err != nil {
		t.Fatal(err)
	}
	network := newPipes()
	srv, err := guardkube.Serve(network, g)
	if err != nil {
		t.Fatal(err)
	}
	file, err := clientcmd.Load(srv.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(file.Clusters["nightcrier"].CertificateAuthorityData)
	web := &http.Transport{
		DialContext: network.dial, ForceAttemptHTTP2: protocol == "h2",
		TLSClientConfig: &tls.Config{RootCAs: roots, NextProtos: []string{protocol}},
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://127.0.0.1:6443"+podsURL+"?watch=true", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+g.Token())
	if resp, err = web.RoundTrip(req); err != nil {
		t.Fatal(err)
	}
	return resp, cluster, func() {
		cluster.Close()
		network.cut()
		resp.Body.Close()
		web.CloseIdleConnections()
		if err := srv.Close(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute) // until connections have given up their farewells
	}
}
