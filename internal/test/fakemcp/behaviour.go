package fakemcp

import (
	"net/http"
	"slices"
)

// Behaviour is what an endpoint does wrong, or differently. The zero value is
// a current, well-behaved server.
type Behaviour struct {
	// Abort cuts every connection without an answer.
	Abort bool
	// Status, when not 0, answers every request with this HTTP status.
	Status int
	// Redirect, when not empty, answers every request with a redirect there.
	Redirect string
	// Hang lists JSON-RPC methods and tools that are never answered, and GET for
	// the notification stream.
	Hang []string
	// NoStream answers 405 to the request for the notification stream.
	NoStream bool
	// EndStream ends every notification stream as soon as it stands.
	EndStream bool
	// Degraded lists every subscription as degraded.
	Degraded bool
	// Garbage answers every call with something that is not JSON-RPC.
	Garbage bool
	// Sessionless refuses initialize, as servers of the protocol 2026-07-28 do.
	Sessionless bool
	// Stateless gives no session id.
	Stateless bool
	// Protocol is the version that initialize answers; default 2025-06-18.
	Protocol string
	// Modes is what the schema of events_subscribe offers; nil is events and faults.
	Modes []string
	// NoSubscribeTool leaves out the subscription tools, as the upstream does.
	NoSubscribeTool bool
	// SubscribeError, when not empty, is the error that events_subscribe returns.
	SubscribeError string
	// LongToolList spreads tools/list over two pages.
	LongToolList bool
}

func (b Behaviour) allowedModes() []string {
	if b.Modes == nil {
		return []string{"events", "faults"}
	}
	return b.Modes
}

// wrapHandler applies what is the same for every request before h.
func (p *Peer) wrapHandler(h func(http.ResponseWriter, *http.Request, Behaviour)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var b Behaviour
		p.updateCluster(clusterOf(r), func(c *cluster) {
			b = c.behaviour
			c.stats.Requests++
			c.stats.Authorization = r.Header.Get("Authorization")
		})
		switch {
		case b.Abort:
			panic(http.ErrAbortHandler)
		case b.Status != 0:
			http.Error(w, http.StatusText(b.Status), b.Status)
		case b.Redirect != "":
			http.Redirect(w, r, b.Redirect, http.StatusTemporaryRedirect)
		default:
			h(w, r, b)
		}
		p.wakeWaiters()
	}
}

// hangIfAsked blocks when what is to hang, until the client or the peer gives up.
func (p *Peer) hangIfAsked(r *http.Request, b Behaviour, what string) bool {
	if !slices.Contains(b.Hang, what) {
		return false
	}
	select {
	case <-r.Context().Done():
	case <-p.closed:
	}
	return true
}
