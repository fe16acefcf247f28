package api

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/net/netutil"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/face/api/sock"
)

// Bounds of every connection. Streams lift the write timeout for themselves.
const (
	readHeaderTime = 5 * time.Second
	readTime       = 30 * time.Second
	answerTime     = 60 * time.Second
	// maxConns bounds the connections of one TCP address: whoever can reach it must
	// not use up the files that the store and the workers need.
	maxConns = 512
	// maxPageConns is more: on a bad night everybody has the page open, and each that follows
	// something live keeps a connection.
	maxPageConns   = 2048
	idleTime       = 2 * time.Minute
	maxHeaderBytes = 16 << 10
	maxBody        = 64 << 10
)

// SocketName is the Unix socket of the running server, in its workspace root.
const SocketName = "nightcrier.sock"

// ServerConfig says where a Server listens; an empty address opens nothing.
type ServerConfig struct {
	API *API
	// Listen is a loopback host:port for the whole API, which is then everybody's on
	// this machine.
	Listen string
	// HealthListen is a host:port for health and metrics only.
	HealthListen string
	// WebhookListen is a host:port for Webhooks only, which other machines reach.
	WebhookListen string
	Webhooks      *http.ServeMux
	// PageListen is a host:port for Page, which lets in whom it knows.
	PageListen string
	Page       Page
	// Socket is the path of a Unix socket for the whole API, for its owner only.
	Socket string
	Logger *slog.Logger
}

// Page is what people look at, with its live streams.
type Page interface {
	http.Handler
	EndStreams()
}

// Server is the listeners of an API, and of the page beside it.
type Server struct {
	cfg     ServerConfig
	servers []*http.Server
	serving sync.WaitGroup
	addr    string
	health  string
	hooks   string
	page    string
}

// NewServer returns a Server that does not listen yet.
func NewServer(cfg ServerConfig) *Server { return &Server{cfg: cfg} }

// Start opens all listeners, or none, and returns; requests are served until
// Stop. An address that is taken is an Unreachable error that names its key.
func (s *Server) Start(ctx context.Context) error {
	err := errors.Join(
		s.openListener("socket", s.listenSocket, wrapForSocket(s.cfg.API, s.cfg.Logger)),
		s.openListener("listen", s.listenAPI, wrapForLoopback(s.cfg.API, s.cfg.Logger)),
		s.openListener("health_listen", s.listenHealth, wrapForHealth(s.cfg.API.Health(), s.cfg.HealthListen, s.cfg.Logger)),
		s.openListener("webhook_listen", s.listenHooks, recoverPanics(wrapForPublic(s.cfg.Webhooks), s.cfg.Logger)),
		s.openListener("page_listen", s.listenPage, recoverPanics(s.cfg.Page, s.cfg.Logger)))
	if err != nil {
		return errors.Join(err, s.Stop(ctx))
	}
	return nil
}

// Addr is the address of the API, "" when Listen is empty; HealthAddr that of
// the health listener.
func (s *Server) Addr() string { return s.addr }

// HealthAddr is the address of the health listener.
func (s *Server) HealthAddr() string { return s.health }

// WebhookAddr is the address of the webhooks' listener.
func (s *Server) WebhookAddr() string { return s.hooks }

// PageAddr is the address of the page, "" where none is served.
func (s *Server) PageAddr() string { return s.page }

func (s *Server) listenSocket() (net.Listener, error) {
	if s.cfg.Socket == "" {
		return nil, nil
	}
	return sock.Listen(s.cfg.Socket)
}

func (s *Server) listenAPI() (net.Listener, error) {
	if s.cfg.Listen == "" {
		return nil, nil
	}
	if err := CheckLoopback(s.cfg.Listen); err != nil {
		return nil, err
	}
	return listenTCP(s.cfg.Listen, &s.addr, maxConns)
}

func (s *Server) listenHealth() (net.Listener, error) {
	if s.cfg.HealthListen == "" {
		return nil, nil
	}
	return listenTCP(s.cfg.HealthListen, &s.health, maxConns)
}

func (s *Server) listenHooks() (net.Listener, error) {
	if s.cfg.WebhookListen == "" {
		return nil, nil
	}
	return listenTCP(s.cfg.WebhookListen, &s.hooks, maxConns)
}

func (s *Server) listenPage() (net.Listener, error) {
	if s.cfg.PageListen == "" {
		return nil, nil
	}
	return listenTCP(s.cfg.PageListen, &s.page, maxPageConns)
}

func listenTCP(addr string, got *string, most int) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, nightcrier.Errorf(nightcrier.Unreachable, "%w; is another server running, or another program on that port? Choose another address", err)
	}
	*got = l.Addr().String()
	return netutil.LimitListener(l, most), nil
}

// CheckLoopback returns a Refused error unless addr is a loopback host:port: the
// API asks for no password.
func CheckLoopback(addr string) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nightcrier.Errorf(nightcrier.Invalid, "%q is not host:port: %w", addr, err)
	}
	if !isLoopback(host) {
		return nightcrier.Errorf(nightcrier.Refused, "%s is not a loopback address, and the API has no authentication; use 127.0.0.1, and health_listen for probes from outside", addr)
	}
	return nil
}

func (s *Server) openListener(key string, listen func() (net.Listener, error), h http.Handler) error {
	l, err := listen()
	if err != nil {
		return nightcrier.Errorf(nightcrier.CodeOf(err), "%s: %w", key, err)
	}
	if l == nil {
		return nil
	}
	srv := &http.Server{
		Handler:           limitBodies(h),
		ReadHeaderTimeout: readHeaderTime, ReadTimeout: readTime, WriteTimeout: answerTime, IdleTimeout: idleTime,
		MaxHeaderBytes: maxHeaderBytes,
		ErrorLog:       slog.NewLogLogger(s.cfg.Logger.Handler(), slog.LevelDebug),
	}
	s.servers = append(s.servers, srv)
	s.serving.Go(func() {
		if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			s.cfg.Logger.Error("listener ended", "listener", key, "error", err)
		}
	})
	return nil
}

// Stop ends streams, lets answers under way finish until ctx ends, and closes
// all listeners. It may be called twice, and without Start.
func (s *Server) Stop(ctx context.Context) error {
	s.cfg.API.EndStreams()
	if s.cfg.Page != nil {
		s.cfg.Page.EndStreams()
	}
	var errs []error
	for _, srv := range s.servers {
		if err := srv.Shutdown(ctx); err != nil {
			errs = append(errs, err, srv.Close())
		}
	}
	s.serving.Wait()
	s.servers = nil
	return errors.Join(errs...)
}
