package mcp

import (
	"net"
	"net/http"
	"time"
)

// transport is what the sessions of one source share.
type transport = http.RoundTripper

// NewTransport returns a transport for this kind of traffic: one standing
// stream and one request now and then per endpoint. A connection that died
// without a word is found within about 75 seconds. It may be shared by sources.
func NewTransport() *http.Transport {
	dialer := &net.Dialer{
		Timeout:         10 * time.Second,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 15 * time.Second, Count: 4},
	}
	return &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         dialer.DialContext,
		TLSHandshakeTimeout: 10 * time.Second,
		ForceAttemptHTTP2:   true,
		HTTP2:               &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second},
		MaxIdleConnsPerHost: 1,
		IdleConnTimeout:     90 * time.Second,
		ReadBufferSize:      2 << 10,
		WriteBufferSize:     1 << 10,
	}
}

// transportOrDefault returns the configured transport, or one of its own and how to
// close its idle connections.
func (s *Source) transportOrDefault() (transport, func()) {
	if s.cfg.Transport != nil {
		return s.cfg.Transport, func() {}
	}
	t := NewTransport()
	return t, t.CloseIdleConnections
}
