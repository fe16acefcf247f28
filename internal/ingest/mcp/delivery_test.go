package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/ingest/dialect"
	"nightcrier.dev/nightcrier/internal/ingest/mcp"
	"nightcrier.dev/nightcrier/internal/retry"
	"nightcrier.dev/nightcrier/internal/test/fakemcp"
)

// One bad frame becomes one delivery that says what it was; the session stands
// and the next fault arrives.
func TestBadFrames(t *testing.T) {
	big := `{"jsonrpc":"2.0","method":"notifications/message","params":{"data":{"faultType":"X","context":"` + strings.Repeat("a", 3<<20) + `"},"logger":"kubernetes/faults"}}`
	tests := []struct {
		name  string
		frame string
		code  nightcrier.Code
	}{
		{"no JSON", "data: <html>\n\n", nightcrier.Invalid},
		{"no JSON-RPC", "data: {\"a\":1}\n\n", nightcrier.Invalid},
		{"a batch", "data: []\n\n", nightcrier.Invalid},
		{"params of a wrong type", `data: {"jsonrpc":"2.0","method":"notifications/message","params":[1]}` + "\n\n", nightcrier.Invalid},
		{"data of a wrong type", `data: {"jsonrpc":"2.0","method":"notifications/message","params":{"logger":"kubernetes/faults","data":"x"}}` + "\n\n", nightcrier.Invalid},
		{"a huge line", "data: " + big + "\n\n", nightcrier.Exhausted},
		{"many lines", strings.Repeat("data: "+strings.Repeat("x", 100)+"\n", 20000) + "\n", nightcrier.Exhausted},
		{"a huge comment", ":" + strings.Repeat("x", 2<<20) + "\n\n", nightcrier.Exhausted},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(h *harness) {
				s := h.start(h.config("c"))
				h.await(s, nightcrier.SourceSubscribed)
				if _, err := h.peer.PushFrame("c", []byte(tt.frame)); err != nil {
					t.Fatal(err)
				}
				d := h.next()
				if _, err := dialect.Parse(d.Raw); nightcrier.CodeOf(err) != tt.code || len(d.Raw) > 2*dialect.HeadSize || !json.Valid(d.Raw) {
					t.Errorf("%d bytes delivered, read as %v", len(d.Raw), err)
				}
				h.push("c")
				synctest.Wait()
				if st := s.Status(); st.State != nightcrier.SourceSubscribed || st.Events != 2 {
					t.Errorf("status %+v", st)
				}
			})
		})
	}
}

// What is harmless on the stream is neither delivered nor held against it.
func TestIgnoredFrames(t *testing.T) {
	frames := []string{
		": keep-alive\n\n", "\n\n\n", "retry: 100000000\n\n", "id: 7\n\n", "event\n\n", "nonsense without a colon\n\n",
		`data: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}` + "\n\n",
		`data: {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"a log line"}}` + "\n\n",
		`data: {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","logger":"http","data":{"path":"/"}}}` + "\n\n",
		`data: {"jsonrpc":"2.0","id":999,"result":{}}` + "\n\n",
		`data: {"jsonrpc":"2.0","id":5,"method":"ping"}` + "\n\n",
		`data: {"jsonrpc":"2.0","id":6,"method":"sampling/createMessage","params":{}}` + "\n\n",
	}
	inBubble(t, func(h *harness) {
		s := h.start(h.config("c"))
		h.await(s, nightcrier.SourceSubscribed)
		for _, f := range frames {
			if _, err := h.peer.PushFrame("c", []byte(f)); err != nil {
				t.Fatal(err)
			}
			h.push("c")
		}
		time.Sleep(time.Minute)
		if st := s.Status(); st.State != nightcrier.SourceSubscribed || st.Reconnects != 0 || st.Events != int64(len(frames)) {
			t.Errorf("status %+v", st)
		}
	})
}

// The frames of a fault may be split anywhere and use any line end.
func TestSplitFrames(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.await(h.start(h.config("c")), nightcrier.SourceSubscribed)
		whole := "event: message\r\nid: 1\r\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\r\ndata: \"params\":{\"data\":" + crash + "}}\r\n\r\n"
		for i := range whole {
			if _, err := h.peer.PushFrame("c", []byte{whole[i]}); err != nil {
				t.Fatal(err)
			}
		}
		if d := h.next(); string(d.Raw) != `{"data":`+crash+`}` {
			t.Errorf("delivered %s", d.Raw)
		}
	})
}

// A sink that is slow holds the sender up; what has arrived stays bounded.
func TestFloodIsHeldBack(t *testing.T) {
	inBubble(t, func(h *harness) {
		const total = 2000
		release := make(chan struct{})
		var stored atomic.Int64
		s := h.startWith(h.config("c"), func(ctx context.Context, _ nightcrier.Delivery) error {
			select {
			case <-release:
			case <-ctx.Done():
				return ctx.Err()
			}
			stored.Add(1)
			return nil
		})
		h.await(s, nightcrier.SourceSubscribed)
		pushed := make(chan error, 1)
		go func() {
			for range total {
				if _, err := h.peer.Push("c", []byte(crash)); err != nil {
					pushed <- err
					return
				}
			}
			pushed <- nil
		}()
		synctest.Wait()
		if n := s.Status().Events; n > 40 {
			t.Errorf("%d events were taken from the wire while none was stored", n)
		}
		close(release)
		if err := <-pushed; err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if n := stored.Load(); n != total {
			t.Errorf("%d of %d were stored", n, total)
		}
	})
}

func TestSinkErrorsAreRetried(t *testing.T) {
	inBubble(t, func(h *harness) {
		var calls atomic.Int64
		s := h.startWith(h.config("c"), func(_ context.Context, d nightcrier.Delivery) error {
			if n := calls.Add(1); n <= 5 {
				return fmt.Errorf("disk is full (%d)", n)
			}
			h.got <- d
			return nil
		})
		h.await(s, nightcrier.SourceSubscribed)
		h.push("c")
		st := s.Status()
		if !strings.Contains(st.LastError, "storing an event: disk is full (5)") || st.State != nightcrier.SourceSubscribed {
			t.Errorf("%+v", st)
		}
	})
}

func TestSinkRefusalIsFinal(t *testing.T) {
	inBubble(t, func(h *harness) {
		var calls atomic.Int64
		s := h.startWith(h.config("c"), func(_ context.Context, d nightcrier.Delivery) error {
			if calls.Add(1) == 1 {
				return nightcrier.Errorf(nightcrier.Invalid, "never")
			}
			h.got <- d
			return nil
		})
		h.await(s, nightcrier.SourceSubscribed)
		if _, err := h.peer.Push("c", []byte(crash)); err != nil {
			t.Fatal(err)
		}
		h.push("c")
		if calls.Load() != 2 {
			t.Errorf("%d calls of the sink", calls.Load())
		}
	})
}

// A session that breaks takes nothing with it that had arrived.
func TestNothingIsLostWithASession(t *testing.T) {
	inBubble(t, func(h *harness) {
		release := make(chan struct{})
		var stored atomic.Int64
		s := h.startWith(h.config("c"), func(context.Context, nightcrier.Delivery) error {
			<-release
			stored.Add(1)
			return nil
		})
		h.await(s, nightcrier.SourceSubscribed)
		for range 10 {
			if _, err := h.peer.Push("c", []byte(crash)); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		h.peer.ForgetSessions("c")
		h.await(s, nightcrier.SourceDown)
		h.await(s, nightcrier.SourceSubscribed)
		close(release)
		synctest.Wait()
		if stored.Load() != 10 {
			t.Errorf("%d of 10 were stored", stored.Load())
		}
	})
}

func TestStopSaysGoodbyeAndDrains(t *testing.T) {
	inBubble(t, func(h *harness) {
		var stored atomic.Int64
		s := h.startWith(h.config("c"), func(context.Context, nightcrier.Delivery) error {
			time.Sleep(time.Second) // fake
			stored.Add(1)
			return nil
		})
		h.await(s, nightcrier.SourceSubscribed)
		for range 20 {
			if _, err := h.peer.Push("c", []byte(crash)); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		for range 2 {
			if err := s.Stop(h.ctx); err != nil {
				t.Fatal(err)
			}
		}
		// What was still on the wire, behind what was held back, is not ours yet.
		if got := h.peer.Stats("c"); stored.Load() != s.Status().Events || stored.Load() < 15 || got.Unsubscribes != 1 || got.Deletes != 1 {
			t.Errorf("%d stored, the peer saw %+v", stored.Load(), got)
		}
		if err := s.Start(h.ctx); nightcrier.CodeOf(err) != nightcrier.Conflict {
			t.Errorf("second start: %v", err)
		}
	})
}

func TestStopIsBounded(t *testing.T) {
	inBubble(t, func(h *harness) {
		s := mcp.New(h.config("c"), func(ctx context.Context, _ nightcrier.Delivery) error {
			<-ctx.Done()
			return ctx.Err()
		})
		if err := s.Stop(h.ctx); err != nil {
			t.Errorf("stopping what was never started: %v", err)
		}
		if err := s.Start(h.ctx); err != nil {
			t.Fatal(err)
		}
		h.await(s, nightcrier.SourceSubscribed)
		if _, err := h.peer.Push("c", []byte(crash)); err != nil {
			t.Fatal(err)
		}
		h.peer.Behave("c", fakemcp.Behaviour{Hang: []string{"events_unsubscribe", "DELETE", "notifications/cancelled"}})
		ctx, cancel := context.WithTimeout(h.ctx, 20*time.Second)
		defer cancel()
		begin := time.Now()
		err := s.Stop(ctx)
		if nightcrier.CodeOf(err) != nightcrier.Interrupted || !strings.Contains(err.Error(), "1 deliveries not stored") {
			t.Errorf("stop: %v", err)
		}
		if took := time.Since(begin); took > 20*time.Second {
			t.Errorf("stop took %v", took)
		}
	})
}

func TestCredentials(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.peer.Behave("c", fakemcp.Behaviour{SubscribeError: "denied for key-abcdef, hunter2 and tok=s3cr3t"})
		cfg := h.config("c")
		cfg.Endpoint = strings.Replace(cfg.Endpoint, "http://", "http://user:hunter2@", 1) + "?tok=s3cr3t"
		cfg.APIKey = func() string { return "key-abcdef" }
		s := h.start(cfg)
		st := h.await(s, nightcrier.SourceDown)
		h.transport.CloseIdleConnections()
		h.peer.Behave("c", fakemcp.Behaviour{Abort: true})
		h.await(s, nightcrier.SourceDown)
		time.Sleep(10 * time.Minute)
		for _, st := range []nightcrier.SourceStatus{st, s.Status()} {
			shown := fmt.Sprintf("%+v", st)
			for _, secret := range []string{"hunter2", "s3cr3t", "key-abcdef", "session-0"} {
				if strings.Contains(shown, secret) {
					t.Errorf("%s is shown in %s", secret, shown)
				}
			}
			if st.Endpoint != "http://peer.test/c/c/mcp" {
				t.Errorf("endpoint %q", st.Endpoint)
			}
		}
		if got := h.peer.Stats("c").Authorization; got != "Bearer key-abcdef" {
			t.Errorf("authorization %q", got)
		}
	})
}

func TestUnusableEndpoints(t *testing.T) {
	for _, endpoint := range []string{"", "::", "ftp://x/", "http://", "http://u:p%zz@x/", "http://refused.invalid/mcp"} {
		t.Run(endpoint, func(t *testing.T) {
			inBubble(t, func(h *harness) {
				cfg := h.config("c")
				cfg.Endpoint = endpoint
				if endpoint == "http://refused.invalid/mcp" {
					cfg.Transport = refusing{}
				}
				if st := h.await(h.start(cfg), nightcrier.SourceDown); st.LastError == "" {
					t.Errorf("status %+v", st)
				}
			})
		})
	}
}

type refusing struct{}

func (refusing) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, errors.New("connection refused")
}

// Endpoints that hang in the gate hold the others up for seconds, not for ever.
func TestGateIsNotBlockedByHungEndpoints(t *testing.T) {
	inBubble(t, func(h *harness) {
		gate := retry.NewGate(2)
		begin := time.Now()
		for i := range 20 {
			name := fmt.Sprintf("hung-%d", i)
			h.peer.Behave(name, fakemcp.Behaviour{Hang: []string{"initialize"}})
			cfg := h.config(name)
			cfg.Gate = gate
			h.start(cfg)
		}
		synctest.Wait()
		cfg := h.config("good")
		cfg.Gate = gate
		h.await(h.start(cfg), nightcrier.SourceSubscribed)
		if took := time.Since(begin); took > 30*time.Second {
			t.Errorf("the good endpoint waited %v", took)
		}
	})
}

func TestManyClusters(t *testing.T) {
	inBubble(t, func(h *harness) {
		const n = 300
		gate := retry.NewGate(16)
		var sources []*mcp.Source
		for i := range n {
			cfg := h.config(fmt.Sprintf("c-%d", i))
			cfg.Gate = gate
			sources = append(sources, h.start(cfg))
		}
		for _, s := range sources {
			h.await(s, nightcrier.SourceSubscribed)
		}
		for i := range n {
			if d := h.push(fmt.Sprintf("c-%d", i)); d.Cluster != fmt.Sprintf("c-%d", i) {
				t.Fatalf("delivered as %s", d.Cluster)
			}
		}
	})
}
