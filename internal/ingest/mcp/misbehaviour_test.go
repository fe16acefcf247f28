package mcp_test

import (
	"strings"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/test/fakemcp"
)

// From the first attempt on the endpoint misbehaves: the source is down and
// says why, a good one beside it is not touched, and it recovers by itself.
func TestNeverUp(t *testing.T) {
	tests := []struct {
		name      string
		behaviour fakemcp.Behaviour
		says      string
	}{
		{"cut off", fakemcp.Behaviour{Abort: true}, "EOF"},
		{"503", fakemcp.Behaviour{Status: 503}, "Service Unavailable"},
		{"401", fakemcp.Behaviour{Status: 401}, "Unauthorized"},
		{"404", fakemcp.Behaviour{Status: 404}, "Not Found"},
		{"redirect", fakemcp.Behaviour{Redirect: "http://elsewhere.test/c/elsewhere/mcp"}, "redirect"},
		{"hangs in initialize", fakemcp.Behaviour{Hang: []string{"initialize"}}, "initialize got no answer in time"},
		{"hangs in initialized", fakemcp.Behaviour{Hang: []string{"notifications/initialized"}}, "no answer in time"},
		{"hangs in the stream", fakemcp.Behaviour{Hang: []string{"GET"}}, "notification stream: no answer within 30s"},
		{"hangs in tools/list", fakemcp.Behaviour{Hang: []string{"tools/list"}}, "tools/list got no answer in time"},
		{"hangs in setLevel", fakemcp.Behaviour{Hang: []string{"logging/setLevel"}}, "logging/setLevel got no answer in time"},
		{"hangs in subscribe", fakemcp.Behaviour{Hang: []string{"events_subscribe"}}, "events_subscribe got no answer in time"},
		{"hangs in everything", fakemcp.Behaviour{Hang: []string{"initialize", "GET", "DELETE", "events_subscribe"}}, "no answer in time"},
		{"no stream", fakemcp.Behaviour{NoStream: true}, "no notification stream: it answers 405"},
		{"garbage", fakemcp.Behaviour{Garbage: true}, "not readable"},
		{"sessionless protocol", fakemcp.Behaviour{Sessionless: true}, "speaks only protocol 2026-07-28"},
		{"answers a newer protocol", fakemcp.Behaviour{Protocol: "2026-07-28"}, "speaks only protocol 2026-07-28"},
		{"unknown protocol", fakemcp.Behaviour{Protocol: "1999-01-01"}, "1999-01-01"},
		{"stateless", fakemcp.Behaviour{Stateless: true}, "without sessions"},
		{"upstream", fakemcp.Behaviour{NoSubscribeTool: true}, "no tool events_subscribe"},
		{"subscribe refused", fakemcp.Behaviour{SubscribeError: "too many subscriptions\x1b[2J"}, "too many subscriptions"},
		{"mode not offered", fakemcp.Behaviour{Modes: []string{"pods"}}, "mode auto is not offered by the server, which has pods"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(h *harness) {
				h.peer.Behave("bad", tt.behaviour)
				bad, good := h.start(h.config("bad")), h.start(h.config("good"))
				st := h.await(bad, nightcrier.SourceDown)
				if !strings.Contains(st.LastError, tt.says) || st.RetryAt.IsZero() || st.LastErrorAt.IsZero() {
					t.Errorf("status %+v does not say %q", st, tt.says)
				}
				h.await(good, nightcrier.SourceSubscribed)
				h.push("good")

				if n := h.peer.Stats("elsewhere").Requests; n != 0 {
					t.Errorf("a redirect was followed %d times, with credentials", n)
				}
				h.peer.Behave("bad", fakemcp.Behaviour{})
				st = h.await(bad, nightcrier.SourceSubscribed)
				if !strings.Contains(st.LastError, tt.says) || !st.RetryAt.IsZero() {
					t.Errorf("after recovery %+v", st)
				}
				h.push("bad")
			})
		})
	}
}

// A subscribed endpoint begins to misbehave: the state shows it, and the source
// recovers by itself when it stops.
func TestGoesBad(t *testing.T) {
	tests := []struct {
		name     string
		provoke  func(p *fakemcp.Peer)
		state    nightcrier.SourceState
		says     string
		within   time.Duration
		gentle   bool // recovers without a fresh session
		stillBad bool // stays so until Behave
	}{
		{name: "forgets the subscription", provoke: func(p *fakemcp.Peer) { p.ForgetSubscriptions("c") },
			state: nightcrier.SourceDown, says: "forgotten the subscription", within: time.Minute},
		{name: "restarts", provoke: func(p *fakemcp.Peer) { p.ForgetSessions("c") },
			state: nightcrier.SourceDown, says: "session ended", within: time.Minute},
		{name: "degraded", provoke: func(p *fakemcp.Peer) { p.Behave("c", fakemcp.Behaviour{Degraded: true}) },
			state: nightcrier.SourceDown, says: "degraded", within: time.Minute, stillBad: true},
		{name: "reports an error", provoke: func(p *fakemcp.Peer) {
			_, _ = p.Push("c", []byte(`{"data":{"subscriptionId":"sub-1","cluster":"c","error":"Watch connection failed","degraded":true},"logger":"kubernetes/subscription_error"}`))
		}, state: nightcrier.SourceDown, says: "watch failed: Watch connection failed", within: time.Second},
		{name: "polls hang", provoke: func(p *fakemcp.Peer) {
			p.Behave("c", fakemcp.Behaviour{Hang: []string{"events_list_subscriptions"}})
		}, state: nightcrier.SourceStale, says: "health check failed", within: 2 * time.Minute, stillBad: true, gentle: true},
		{name: "polls hang for long", provoke: func(p *fakemcp.Peer) {
			p.Behave("c", fakemcp.Behaviour{Hang: []string{"events_list_subscriptions"}})
		}, state: nightcrier.SourceDown, says: "2 health checks in a row failed", within: 3 * time.Minute, stillBad: true},
		{name: "polls fail", provoke: func(p *fakemcp.Peer) { p.Behave("c", fakemcp.Behaviour{Status: 502}) },
			state: nightcrier.SourceStale, says: "Bad Gateway", within: time.Minute, stillBad: true, gentle: true},
		{name: "drops the stream", provoke: func(p *fakemcp.Peer) { p.DropStreams("c") },
			state: nightcrier.SourceStale, says: "stream broke", within: time.Second, gentle: true},
		{name: "drops the stream for ever", provoke: func(p *fakemcp.Peer) {
			p.Behave("c", fakemcp.Behaviour{Hang: []string{"GET"}})
			p.DropStreams("c")
		}, state: nightcrier.SourceDown, says: "stream was gone for 15s", within: 30 * time.Second, stillBad: true},
		{name: "ends each stream", provoke: func(p *fakemcp.Peer) {
			p.Behave("c", fakemcp.Behaviour{EndStream: true})
			p.DropStreams("c")
		}, state: nightcrier.SourceDown, says: "ended the notification stream", within: time.Minute, stillBad: true},
		{name: "loses a fault without a stream", provoke: func(p *fakemcp.Peer) {
			p.DropStreams("c")
			_, _ = p.Push("c", []byte(crash))
		}, state: nightcrier.SourceDown, says: "forgotten the subscription", within: time.Minute},
		{name: "sends garbage without end", provoke: func(p *fakemcp.Peer) {
			for range 16 {
				_, _ = p.PushFrame("c", []byte("data: <html>\n\n"))
			}
		}, state: nightcrier.SourceDown, says: "16 unreadable frames", within: time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(h *harness) {
				s := h.start(h.config("c"))
				h.await(s, nightcrier.SourceSubscribed)
				time.Sleep(45 * time.Second) // fake: the first checks are through
				begin := time.Now()
				tt.provoke(h.peer)
				st := h.await(s, tt.state)
				if took := time.Since(begin); !strings.Contains(st.LastError, tt.says) || took > tt.within || strings.Contains(st.LastError, "session-0") {
					t.Errorf("after %v status %+v does not say %q", took, st, tt.says)
				}
				if tt.stillBad {
					h.peer.Behave("c", fakemcp.Behaviour{})
				}
				before := len(h.got)
				st = h.await(s, nightcrier.SourceSubscribed)
				if fresh := st.Reconnects > 0; fresh == tt.gentle {
					t.Errorf("%d fresh sessions", st.Reconnects)
				}
				for range before {
					h.next()
				}
				h.push("c")
			})
		})
	}
}

// The state is stale while polls fail, and nothing is rebuilt when the next one
// succeeds.
func TestOneMissedPollIsForgiven(t *testing.T) {
	inBubble(t, func(h *harness) {
		s := h.start(h.config("c"))
		h.await(s, nightcrier.SourceSubscribed)
		h.peer.Behave("c", fakemcp.Behaviour{Status: 503})
		h.await(s, nightcrier.SourceStale)
		h.peer.Behave("c", fakemcp.Behaviour{})
		if st := h.await(s, nightcrier.SourceSubscribed); st.Reconnects != 0 {
			t.Errorf("%d fresh sessions", st.Reconnects)
		}
		if n := h.peer.Stats("c").Initializes; n != 1 {
			t.Errorf("%d sessions were made", n)
		}
	})
}

// A proxy that ends quiet streams every minute must not cost a session each
// time: servers leak watches with every subscription.
func TestIdleProxyDoesNotCostSessions(t *testing.T) {
	inBubble(t, func(h *harness) {
		s := h.start(h.config("c"))
		h.await(s, nightcrier.SourceSubscribed)
		for range 30 {
			time.Sleep(time.Minute)
			h.peer.DropStreams("c")
			h.await(s, nightcrier.SourceStale)
			h.await(s, nightcrier.SourceSubscribed)
		}
		if n := h.peer.Stats("c").Initializes; n != 1 {
			t.Errorf("%d sessions in half an hour", n)
		}
		h.push("c")
	})
}

func TestBackoffGrowsAndIsReset(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.peer.Behave("c", fakemcp.Behaviour{Status: 503})
		s := h.start(h.config("c"))
		down := h.await(s, nightcrier.SourceDown)
		time.Sleep(time.Hour)
		// Uniform waits below 60 s make about 120 attempts an hour.
		if n := h.peer.Stats("c").Initializes + h.peer.Stats("c").Requests; n < 60 || n > 400 {
			t.Errorf("%d requests in an hour of outage", n)
		}
		if st := s.Status(); st.Since != down.Since || time.Until(st.RetryAt) > time.Minute {
			t.Errorf("after an hour of outage %+v", st)
		}
		h.peer.Behave("c", fakemcp.Behaviour{})
		h.await(s, nightcrier.SourceSubscribed)
		time.Sleep(2 * time.Minute) // fake: stable
		h.peer.ForgetSessions("c")
		st := h.await(s, nightcrier.SourceDown)
		if wait := st.RetryAt.Sub(st.LastErrorAt); wait > time.Second {
			t.Errorf("waits %v after a stable session", wait)
		}
	})
}
