package kube

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/guard/internal/endpoint"
	texts "nightcrier.dev/nightcrier/internal/text"
)

const (
	maxHeaders = 32 << 10 // bytes
	slowest    = 30 * time.Second
)

// ServeHTTP answers a request that carries the run's token.
func (g *Guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !g.isAuthentic(r.Header) {
		g.cfg.Logger.Warn("kube guard refused a caller without the run's token", "method", texts.CutBytes(r.Method, maxEchoed))
		g.writeAnswer(w, statusAnswer(http.StatusUnauthorized, "nightcrier guard: this token is not the run's"))
		return
	}
	free, err := g.awaitTurn(r)
	if err != nil {
		g.writeAnswer(w, refusalAnswer(err))
		return
	}
	defer free()
	if r.ContentLength != 0 {
		// Only then: a deadline on a connection that waits for its answer would
		// end it.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(slowest))
	}
	a := g.answerRequest(r.Context(), inbound{
		method: r.Method, target: r.RequestURI, accept: strings.Join(r.Header["Accept"], ","),
		header: r.Header, body: r.Body, length: r.ContentLength,
	})
	if a.stream != nil {
		free()
	}
	g.writeAnswer(w, a)
}

// isAuthentic compares the one Authorization header with the run's token.
func (g *Guard) isAuthentic(h http.Header) bool {
	given := h["Authorization"]
	want := "Bearer " + g.token
	return len(given) == 1 && subtle.ConstantTimeCompare([]byte(given[0]), []byte(want)) == 1 && !g.closed.Load()
}

// awaitTurn waits for the request's turn.
func (g *Guard) awaitTurn(r *http.Request) (free func(), err error) {
	if err := g.pace.Wait(r.Context()); err != nil {
		return nil, newFailuref(http.StatusTooManyRequests, "limit", "too many requests: the guard passes %d a second", g.cfg.Limits.PerSecond)
	}
	select {
	case g.calls <- struct{}{}:
		return sync.OnceFunc(func() { <-g.calls }), nil
	case <-r.Context().Done():
		return nil, newFailuref(http.StatusTooManyRequests, "limit", "%d requests are under way already", cap(g.calls))
	}
}

// writeAnswer sends an answer to a caller, who may be slow for so long only.
func (g *Guard) writeAnswer(w http.ResponseWriter, a answer) {
	h := w.Header()
	h.Set("Content-Type", a.contentType)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	for _, text := range a.warnings {
		h.Add("Warning", "299 - "+strconv.Quote(text))
	}
	if a.retryAfter != "" {
		h.Set("Retry-After", a.retryAfter)
	}
	if a.stream == nil {
		h.Set("Content-Length", strconv.Itoa(len(a.body)))
		_ = writeInTime(w, func() error {
			w.WriteHeader(a.status)
			_, err := w.Write(a.body)
			return err // a caller that hung up needs no answer
		})
		return
	}
	defer a.stream.Close()
	err := writeInTime(w, func() error { w.WriteHeader(a.status); return nil })
	buf := make([]byte, 32<<10)
	for err == nil {
		n, end := a.stream.Read(buf)
		err = errors.Join(end, writeInTime(w, func() error { _, err := w.Write(buf[:n]); return err }))
	}
}

// writeInTime writes something, and waits so long until the caller has taken it. The
// deadline ends a stream of HTTP/2 also when nothing is being written, so it must
// not outlast the writing.
func writeInTime(w http.ResponseWriter, write func() error) error {
	conn := http.NewResponseController(w)
	_ = conn.SetWriteDeadline(time.Now().Add(slowest)) // a writer without deadlines is a test's
	defer func() { _ = conn.SetWriteDeadline(time.Time{}) }()
	return errors.Join(write(), conn.Flush())
}

// RoundTrip answers readers of this process: the same policy, record and
// evidence, without a token.
func (g *Guard) RoundTrip(r *http.Request) (*http.Response, error) {
	body := r.Body
	if body == nil {
		body = http.NoBody
	}
	defer body.Close()
	target := r.URL.EscapedPath()
	if r.URL.RawQuery != "" {
		target += "?" + r.URL.RawQuery
	}
	free, err := g.awaitTurn(r)
	if err != nil {
		return newResponse(r, refusalAnswer(err)), nil
	}
	defer free()
	return newResponse(r, g.answerRequest(r.Context(), inbound{
		method: r.Method, target: target, accept: strings.Join(r.Header["Accept"], ","),
		header: r.Header, body: body, length: r.ContentLength,
	})), nil
}

func newResponse(r *http.Request, a answer) *http.Response {
	resp := &http.Response{
		Status: strconv.Itoa(a.status) + " " + http.StatusText(a.status), StatusCode: a.status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r, ContentLength: int64(len(a.body)),
		Header: http.Header{"Content-Type": {a.contentType}},
		Body:   io.NopCloser(bytes.NewReader(a.body)),
	}
	for _, text := range a.warnings {
		resp.Header.Add("Warning", "299 - "+strconv.Quote(text))
	}
	if a.stream != nil {
		resp.Body, resp.ContentLength = a.stream, -1
	}
	return resp
}

// Server serves one Guard to an agent.
type Server struct {
	guard      *Guard
	endpoint   *endpoint.Endpoint
	kubeconfig []byte
}

// Serve serves g over TLS on l, which it takes over, until Close. The
// certificate is made for this server and signed by nobody else.
func Serve(l net.Listener, g *Guard) (*Server, error) {
	at, err := endpoint.New("kube guard", l)
	if err != nil {
		return nil, err
	}
	host := at.Addr().IP
	if host.IsUnspecified() {
		host = net.IPv4(127, 0, 0, 1)
	}
	cert, ca, err := selfSigned(g.cfg.Now(), host)
	if err != nil {
		return nil, nightcrier.Errorf(nightcrier.Internal, "kube guard: certificate: %w", err)
	}
	s := &Server{guard: g, endpoint: at}
	if s.kubeconfig, err = newKubeconfig("https://"+net.JoinHostPort(host.String(), strconv.Itoa(at.Port())), ca, g.token); err != nil {
		return nil, nightcrier.Errorf(nightcrier.Internal, "kube guard: kubeconfig: %w", err)
	}
	at.Serve(&http.Server{
		Handler: g, MaxHeaderBytes: maxHeaders,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}},
		ErrorLog:  slog.NewLogLogger(g.cfg.Logger.Handler(), slog.LevelDebug),
		HTTP2:     &http.HTTP2Config{MaxConcurrentStreams: g.cfg.Limits.Streams + 100},
	}, g.cfg.Logger)
	return s, nil
}

// Kubeconfig is what an agent's kubectl needs: the address, the certificate, the
// run's token, and one context.
func (s *Server) Kubeconfig() []byte { return s.kubeconfig }

// KubeconfigIn is Kubeconfig with a namespace for commands that name none.
func (s *Server) KubeconfigIn(namespace string) ([]byte, error) {
	cfg, err := clientcmd.Load(s.kubeconfig)
	if err != nil {
		return nil, nightcrier.Errorf(nightcrier.Internal, "kubeconfig of the guard: %w", err)
	}
	for _, c := range cfg.Contexts {
		c.Namespace = namespace
	}
	return clientcmd.Write(*cfg)
}

// Port is the TCP port that agents connect to.
func (s *Server) Port() int { return s.endpoint.Port() }

// Close ends the server, what is under way, and the token.
func (s *Server) Close() error {
	s.guard.closed.Store(true)
	return s.endpoint.Close()
}

var _ io.Closer = (*Server)(nil)

// selfSigned makes a certificate for one address.
func selfSigned(now time.Time, host net.IP) (tls.Certificate, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: "nightcrier guard"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(7 * 24 * time.Hour),
		IPAddresses: []net.IP{host}, DNSNames: []string{"localhost"},
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IsCA:        true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, ca, nil
}

func newKubeconfig(url string, ca []byte, token string) ([]byte, error) {
	const name = "nightcrier"
	return clientcmd.Write(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{name: {Server: url, CertificateAuthorityData: ca}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{name: {Token: token}},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: name}},
		CurrentContext: name,
	})
}
