package fakemcp

import (
	"fmt"
	"net/http"
	"sync"
)

// session is guarded by Peer.mu, apart from its stream's own channel.
type session struct {
	level         string
	subscriptions []subscription
	stream        *stream
}

type subscription struct {
	ID      string
	Mode    string
	Context string
}

// stream is one standing GET request. Frames are handed over one by one, so a
// client that does not read holds up who pushes.
type stream struct {
	frames chan []byte
	done   chan struct{}
	once   sync.Once
}

func (s *stream) endStream() { s.once.Do(func() { close(s.done) }) }

func (s *stream) sendFrame(frame []byte) bool {
	select {
	case s.frames <- frame:
		return true
	case <-s.done:
		return false
	}
}

func (s *session) dropStream() {
	if s.stream != nil {
		s.stream.endStream()
		s.stream = nil
	}
}

func (s *session) endSession() {
	s.subscriptions = nil
	s.dropStream()
}

// findSession returns the session that the request names.
func (c *cluster) findSession(r *http.Request) *session {
	return c.sessions[r.Header.Get(sessionHeader)]
}

// handleStream serves the notification stream of a session.
func (p *Peer) handleStream(w http.ResponseWriter, r *http.Request, b Behaviour) {
	if p.hangIfAsked(r, b, "GET") {
		return
	}
	if b.NoStream {
		http.Error(w, "no stream here", http.StatusMethodNotAllowed)
		return
	}
	st, status := p.attachStream(r)
	if status != http.StatusOK {
		http.Error(w, http.StatusText(status), status)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-cache, no-transform")
	w.WriteHeader(http.StatusOK)
	flushResponse(w)
	p.wakeWaiters()
	if !b.EndStream {
		p.pumpFrames(w, r, st)
	}
	p.detachStream(r, st)
}

func (p *Peer) attachStream(r *http.Request) (*stream, int) {
	st := &stream{frames: make(chan []byte), done: make(chan struct{})}
	status := http.StatusNotFound
	p.updateCluster(clusterOf(r), func(c *cluster) {
		s := c.findSession(r)
		switch {
		case s == nil:
		case s.stream != nil:
			status = http.StatusConflict
		default:
			s.stream, status = st, http.StatusOK
		}
	})
	return st, status
}

func (p *Peer) pumpFrames(w http.ResponseWriter, r *http.Request, st *stream) {
	for {
		select {
		case frame := <-st.frames:
			if _, err := w.Write(frame); err != nil {
				return
			}
			flushResponse(w)
		case <-st.done:
			return
		case <-r.Context().Done():
			return
		case <-p.closed:
			return
		}
	}
}

func (p *Peer) detachStream(r *http.Request, st *stream) {
	st.endStream()
	p.updateCluster(clusterOf(r), func(c *cluster) {
		if s := c.findSession(r); s != nil && s.stream == st {
			s.stream = nil
		}
	})
}

func (p *Peer) handleDelete(w http.ResponseWriter, r *http.Request, b Behaviour) {
	if p.hangIfAsked(r, b, "DELETE") {
		return
	}
	p.updateCluster(clusterOf(r), func(c *cluster) {
		c.stats.Deletes++
		if s := c.findSession(r); s != nil {
			s.endSession()
		}
		delete(c.sessions, r.Header.Get(sessionHeader))
	})
	w.WriteHeader(http.StatusNoContent)
}

// openSession makes a session and returns its id.
func (p *Peer) openSession(r *http.Request) string {
	var id string
	p.updateCluster(clusterOf(r), func(c *cluster) {
		p.serial++
		id = fmt.Sprintf("session-%04d", p.serial)
		c.sessions[id] = &session{}
	})
	return id
}

func flushResponse(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() }
