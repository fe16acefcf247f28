// Package endpoint is what the servers that guards show to an agent have in common:
// the token by which a run is known, how a request is read, how many connections an
// agent may hold, and how a server starts and ends. What is decided about a request is
// each guard's own.
package endpoint

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	"golang.org/x/net/netutil"

	"nightcrier.dev/nightcrier"
)

// maxConns bounds the connections that an agent may hold to one guard. More of them
// wait to be accepted.
const maxConns = 64

// NewToken returns a token that nobody can guess, behind a prefix.
func NewToken(prefix string) string {
	b := make([]byte, 24)
	_, _ = rand.Read(b) // never fails
	return prefix + hex.EncodeToString(b)
}

// ReadBody reads a request's whole body, of at most limit bytes. Only the reading must
// be over within the time given; the answer may take longer.
func ReadBody(w http.ResponseWriter, r *http.Request, limit int64, within time.Duration) ([]byte, error) {
	conn := http.NewResponseController(w)
	_ = conn.SetReadDeadline(time.Now().Add(within)) // a writer without deadlines is a test's
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	_ = conn.SetReadDeadline(time.Time{})
	return body, err
}

// Endpoint is where an agent reaches one guard.
type Endpoint struct {
	name     string
	listener net.Listener
	addr     *net.TCPAddr
	server   *http.Server
	done     chan struct{}
}

// New makes the endpoint of a guard, which errors and the log call by its name. It is
// not served yet, and l stays the caller's until Serve.
func New(name string, l net.Listener) (*Endpoint, error) {
	addr, ok := l.Addr().(*net.TCPAddr)
	if !ok {
		return nil, nightcrier.Errorf(nightcrier.Internal, "%s: %s is no TCP address", name, l.Addr())
	}
	return &Endpoint{name: name, listener: l, addr: addr}, nil
}

// Serve takes the listener over and serves on it until Close, over TLS where srv has a
// configuration for it. How long headers may take and a connection may idle is set here.
func (e *Endpoint) Serve(srv *http.Server, log *slog.Logger) {
	srv.ReadHeaderTimeout, srv.IdleTimeout = 10*time.Second, 2*time.Minute
	e.server, e.done = srv, make(chan struct{})
	serve := srv.Serve
	if srv.TLSConfig != nil {
		serve = func(l net.Listener) error { return srv.ServeTLS(l, "", "") }
	}
	go func() {
		defer close(e.done)
		if err := serve(netutil.LimitListener(e.listener, maxConns)); !errors.Is(err, http.ErrServerClosed) {
			log.Error(e.name+" ended", "error", err)
		}
	}()
}

// Addr is the address that is listened on.
func (e *Endpoint) Addr() *net.TCPAddr { return e.addr }

// Port is the TCP port that an agent connects to.
func (e *Endpoint) Port() int { return e.addr.Port }

// Close cuts every connection, and returns when nobody is accepted any more.
func (e *Endpoint) Close() error {
	err := e.server.Close()
	<-e.done
	return err
}
