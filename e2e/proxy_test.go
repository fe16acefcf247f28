package e2e

import (
	"io"
	"net"
	"net/url"
	"sync"
	"testing"

	"nightcrier.dev/nightcrier/internal/test/pgtest"
)

// proxy stands between a server and its database and can cut the line.
type proxy struct {
	target string
	l      net.Listener

	mu    sync.Mutex
	down  bool
	conns []net.Conn
}

// proxied is a database behind a proxy.
func proxied(t *testing.T) (dsn string, p *proxy) {
	t.Helper()
	u, err := url.Parse(pgtest.DSN(t))
	if err != nil {
		t.Fatal(err)
	}
	p = &proxy{target: u.Host}
	if p.l, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.l.Close(); p.cut() })
	go p.accept()
	u.Host = p.l.Addr().String()
	return u.String(), p
}

func (p *proxy) accept() {
	for {
		in, err := p.l.Accept()
		if err != nil {
			return
		}
		if !p.keep(in) {
			in.Close()
			continue
		}
		out, err := net.Dial("tcp", p.target)
		if err != nil || !p.keep(out) {
			in.Close()
			continue
		}
		go pipe(in, out)
		go pipe(out, in)
	}
}

func pipe(to, from net.Conn) {
	_, _ = io.Copy(to, from) // it ends when either side does
	to.Close()
	from.Close()
}

// keep remembers a connection, unless the line is cut.
func (p *proxy) keep(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.down {
		return false
	}
	p.conns = append(p.conns, c)
	return true
}

// cut ends all connections and takes no new ones until mend.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = true
	for _, c := range p.conns {
		c.Close()
	}
	p.conns = nil
}

func (p *proxy) mend() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = false
}
