// Package fakemcp is a scripted Kubernetes MCP server with fault subscriptions:
// what the servers in the field do on the wire, and on demand what they do
// wrong. Tests push faults through it.
//
// One Peer serves any number of clusters, each at its own path. It is written
// against the wire, not on an MCP library, because a library cannot misbehave.
package fakemcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Peer is a scripted MCP server. The zero value is not usable; call NewPeer.
type Peer struct {
	mux    *http.ServeMux
	closed chan struct{}

	mu       sync.Mutex
	clusters map[string]*cluster
	changed  chan struct{} // closed and replaced at every change
	server   *http.Server
	addr     string
	serial   int
}

// cluster is guarded by Peer.mu.
type cluster struct {
	behaviour Behaviour
	sessions  map[string]*session
	stats     Stats
}

// Stats counts what clients did to one cluster's endpoint.
type Stats struct {
	// Initializes, Deletes and Unsubscribes count requests; Requests counts all.
	Requests, Initializes, Deletes, Unsubscribes int
	// Subscribes are the arguments of the events_subscribe calls, oldest first.
	Subscribes []map[string]any
	// Level is the last level that was set.
	Level string
	// Authorization is the last value of that header.
	Authorization string
}

// NewPeer returns a well-behaved peer that does not listen yet.
func NewPeer() *Peer {
	p := &Peer{
		mux:      http.NewServeMux(),
		closed:   make(chan struct{}),
		clusters: map[string]*cluster{},
		changed:  make(chan struct{}),
	}
	p.mux.HandleFunc("POST /c/{cluster}/mcp", p.wrapHandler(p.handlePost))
	p.mux.HandleFunc("GET /c/{cluster}/mcp", p.wrapHandler(p.handleStream))
	p.mux.HandleFunc("DELETE /c/{cluster}/mcp", p.wrapHandler(p.handleDelete))
	return p
}

// ServeHTTP serves /c/<cluster>/mcp.
func (p *Peer) ServeHTTP(w http.ResponseWriter, r *http.Request) { p.mux.ServeHTTP(w, r) }

// Listen serves on a free port of the loopback interface until Close.
func (p *Peer) Listen() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listening on loopback: %w", err)
	}
	p.Serve(l)
	return nil
}

// Serve serves on l until Close.
func (p *Peer) Serve(l net.Listener) {
	srv := &http.Server{Handler: p, ReadHeaderTimeout: 10 * time.Second}
	p.mu.Lock()
	p.server, p.addr = srv, l.Addr().String()
	p.mu.Unlock()
	go func() { _ = srv.Serve(l) }() // ends with ErrServerClosed at Close
}

// Close ends every stream and stops listening. It may be called twice.
func (p *Peer) Close() error {
	p.mu.Lock()
	srv := p.server
	p.server = nil
	p.mu.Unlock()
	if srv == nil {
		return nil
	}
	close(p.closed)
	if err := srv.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("closing the peer: %w", err)
	}
	return nil
}

// URL returns the endpoint of a cluster. The peer must be listening.
func (p *Peer) URL(name string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return "http://" + p.addr + "/c/" + name + "/mcp"
}

// Behave sets how a cluster's endpoint behaves from now on. Requests that the
// old behaviour left hanging stay so.
func (p *Peer) Behave(name string, b Behaviour) {
	p.updateCluster(name, func(c *cluster) { c.behaviour = b })
}

// Stats returns what clients did to a cluster's endpoint so far.
func (p *Peer) Stats(name string) Stats {
	var s Stats
	p.updateCluster(name, func(c *cluster) {
		s = c.stats
		s.Subscribes = append([]map[string]any(nil), s.Subscribes...)
	})
	return s
}

// ForgetSubscriptions cancels a cluster's subscriptions, telling nobody.
func (p *Peer) ForgetSubscriptions(name string) {
	p.updateCluster(name, func(c *cluster) {
		for _, s := range c.sessions {
			s.subscriptions = nil
		}
	})
}

// ForgetSessions drops a cluster's sessions, as a restart of the server does.
func (p *Peer) ForgetSessions(name string) {
	p.updateCluster(name, func(c *cluster) {
		for id, s := range c.sessions {
			s.endSession()
			delete(c.sessions, id)
		}
	})
}

// DropStreams ends a cluster's notification streams; the sessions stand.
func (p *Peer) DropStreams(name string) {
	p.updateCluster(name, func(c *cluster) {
		for _, s := range c.sessions {
			s.dropStream()
		}
	})
}

// AwaitSubscribed waits until a client of the cluster is subscribed, has set a
// log level and listens.
func (p *Peer) AwaitSubscribed(ctx context.Context, name string) error {
	for {
		var ready bool
		changed := p.updateCluster(name, func(c *cluster) { ready = len(c.listeningStreams()) > 0 })
		if ready {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("waiting for a subscription of cluster %s: %w", name, ctx.Err())
		}
	}
}

// Push sends a fault to the cluster's subscribers and returns how many it
// reached. The payload is a data object, a notification's params, or a whole
// notification. As in the field, a subscription whose client has no stream at
// that moment is silently cancelled.
func (p *Peer) Push(name string, payload []byte) (int, error) {
	msg, err := completeNotification(payload)
	if err != nil {
		return 0, err
	}
	return p.PushFrame(name, append(append([]byte("event: message\ndata: "), msg...), "\n\n"...))
}

// PushFrame writes bytes to the cluster's notification streams as they are.
func (p *Peer) PushFrame(name string, frame []byte) (int, error) {
	var to []*stream
	p.updateCluster(name, func(c *cluster) {
		to = c.listeningStreams()
		for _, s := range c.sessions {
			if s.stream == nil {
				s.subscriptions = nil
			}
		}
	})
	reached := 0
	for _, s := range to {
		if s.sendFrame(frame) {
			reached++
		}
	}
	return reached, nil
}

// completeNotification completes a payload to a JSON-RPC notification.
func completeNotification(payload []byte) ([]byte, error) {
	var shape map[string]json.RawMessage
	if err := json.Unmarshal(payload, &shape); err != nil {
		return nil, fmt.Errorf("the payload is not a JSON object: %w", err)
	}
	params := any(json.RawMessage(payload))
	if _, whole := shape["method"]; whole {
		return compactJSON(payload)
	}
	if _, enveloped := shape["data"]; !enveloped {
		params = map[string]any{"data": params, "level": "warning", "logger": "kubernetes/faults"}
	}
	return json.Marshal(map[string]any{"jsonrpc": "2.0", "method": "notifications/message", "params": params})
}

// compactJSON removes the newlines that would end a frame's data.
func compactJSON(raw []byte) ([]byte, error) { return json.Marshal(json.RawMessage(raw)) }

// updateCluster runs fn on the cluster under the lock, wakes those who wait, and
// returns the channel that the next change closes.
func (p *Peer) updateCluster(name string, fn func(*cluster)) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.clusters[name]
	if c == nil {
		c = &cluster{sessions: map[string]*session{}}
		p.clusters[name] = c
	}
	fn(c)
	return p.changed
}

// wakeWaiters tells those who wait that something changed.
func (p *Peer) wakeWaiters() {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.changed)
	p.changed = make(chan struct{})
}

// listeningStreams returns the streams on which notifications can arrive.
func (c *cluster) listeningStreams() []*stream {
	var out []*stream
	for _, s := range c.sessions {
		if s.stream != nil && len(s.subscriptions) > 0 && s.level != "" {
			out = append(out, s.stream)
		}
	}
	return out
}

func clusterOf(r *http.Request) string { return strings.ToValidUTF8(r.PathValue("cluster"), "") }
