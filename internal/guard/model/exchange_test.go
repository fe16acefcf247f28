package model

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"nightcrier.dev/nightcrier/internal/guard/price"
)

// recorded is a guard whose calls are on record.
type recorded struct {
	*Guard
	mu    sync.Mutex
	calls []Exchange
}

func newRecorded(tb testing.TB, upstream string) *recorded {
	tb.Helper()
	r := &recorded{}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	r.Guard, err = Start(l, Config{Upstream: upstream, Key: realKey, Logger: slog.New(slog.DiscardHandler), Record: func(e Exchange) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.calls = append(r.calls, e)
	}})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = r.Close() })
	return r
}

// all closes the guard and returns what is on record: what was sent and what ended.
func (r *recorded) all(t *testing.T) (sent, done []Exchange) {
	t.Helper()
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.calls {
		if e.Done {
			done = append(done, e)
		} else {
			sent = append(sent, e)
		}
	}
	slices.SortFunc(done, func(a, b Exchange) int { return int(a.N - b.N) })
	return sent, done
}

func hashOf(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

func TestCallsAreRecorded(t *testing.T) {
	const stream = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":7,\"output_tokens\":1}}}\n\n" +
		"data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":5}}\n\n"
	u := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch {
		case bytes.Contains(body, []byte("fail")):
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = io.WriteString(w, `{"error":1}`)
		case bytes.Contains(body, []byte("cut")):
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, "half")
		default:
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, stream)
		}
	})
	g := newRecorded(t, u.URL)
	ask := func(body string) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.URL()+"/v1/messages", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header = withToken(g.Guard)
		if resp, err := http.DefaultClient.Do(req); err == nil {
			_, _ = io.ReadAll(resp.Body) // one of them is cut
			resp.Body.Close()
		}
	}
	said, failing, cut := `{"model":"sonnet","stream":true,"max_tokens":9}`, `{"model":"m","system":"fail","max_tokens":9}`, `{"system":"cut","max_tokens":9}`
	for _, body := range []string{said, failing, failing, cut, said} {
		ask(body)
	}
	call(t, g.Guard, "POST", "/v1/messages", http.Header{}, strings.NewReader(said)) // without a token
	call(t, g.Guard, "POST", "/v1/files", withToken(g.Guard), strings.NewReader(said))
	sent, done := g.all(t)
	if len(sent) != 5 || len(done) != 5 {
		t.Fatalf("%d sent and %d done are on record", len(sent), len(done))
	}
	for i, want := range []Exchange{
		{N: 1, Sent: 1, Status: 200, Model: "sonnet", Request: Body{Text: []byte(said)}, Response: Body{Text: []byte(stream)}, Tokens: price.Tokens{Input: 7, Output: 5}},
		{N: 2, Sent: 1, Status: 500, Model: "m", Request: Body{Text: []byte(failing)}, Response: Body{Text: []byte(`{"error":1}`)}},
		{N: 3, Sent: 2, Status: 500, Model: "m", Request: Body{Text: []byte(failing)}, Response: Body{Text: []byte(`{"error":1}`)}},
		{N: 4, Sent: 1, Status: 200, Cut: true, Request: Body{Text: []byte(cut)}, Response: Body{Text: []byte("half")}},
		{N: 5, Sent: 2, Status: 200, Model: "sonnet", Request: Body{Text: []byte(said)}, Response: Body{Text: []byte(stream)}, Tokens: price.Tokens{Input: 7, Output: 5}},
	} {
		got := done[i]
		if got.N != want.N || got.Sent != want.Sent || got.Status != want.Status || got.Model != want.Model || got.Cut != want.Cut ||
			got.Tokens != want.Tokens || got.Unknown != want.Cut || got.Method != "POST" || got.Path != "/v1/messages" {
			t.Errorf("call %d is %+v", i+1, got)
		}
		for _, b := range [][2]Body{{got.Request, want.Request}, {got.Response, want.Response}} {
			if text := string(b[1].Text); string(b[0].Text) != text || b[0].Bytes != int64(len(text)) || b[0].SHA256 != hashOf(text) {
				t.Errorf("call %d has %q (%d bytes, %s), not %q", i+1, b[0].Text, b[0].Bytes, b[0].SHA256, text)
			}
		}
		if got.Answer <= 0 || got.Whole < got.Answer {
			t.Errorf("call %d took %s to its first byte, %s in all", i+1, got.Answer, got.Whole)
		}
		if first := sent[i]; first.N != want.N || first.Request.SHA256 != got.Request.SHA256 || first.Request.Text != nil || first.Status != 0 {
			t.Errorf("call %d was sent as %+v", i+1, first)
		}
	}
}

// A client that hangs up in the middle of an answer, and a model that is not there,
// leave a record as well.
func TestCallsThatDoNotEndAreRecorded(t *testing.T) {
	u := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "data: 1\n\n")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	g := newRecorded(t, u.URL)
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, g.URL()+"/v1/messages", strings.NewReader(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = withToken(g.Guard)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(resp.Body, make([]byte, 9)); err != nil {
		t.Fatal(err)
	}
	cancel()
	resp.Body.Close()
	if _, done := g.all(t); len(done) != 1 || !done[0].Cut || string(done[0].Response.Text) != "data: 1\n\n" {
		t.Errorf("on record is %+v", done)
	}
	gone := httptest.NewServer(nil)
	gone.Close()
	h := newRecorded(t, gone.URL)
	call(t, h.Guard, "POST", "/v1/messages", withToken(h.Guard), strings.NewReader(`{"max_tokens":9}`))
	if _, done := h.all(t); len(done) != 1 || done[0].Status != 0 || done[0].Cut || done[0].Unknown || string(done[0].Request.Text) != `{"max_tokens":9}` {
		t.Errorf("on record is %+v", done)
	}
}

// What is kept of an answer is bounded; its size and hash are those of all of it.
func TestRecordIsBounded(t *testing.T) {
	body := strings.Repeat("0123456789abcdef", maxKept/16+1000)
	u := newUpstream(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) })
	g := newRecorded(t, u.URL)
	call(t, g.Guard, "POST", "/v1/messages", withToken(g.Guard), strings.NewReader(`{"model":"`+strings.Repeat("m", 100_000)+`"}`))
	_, done := g.all(t)
	if len(done) != 1 || len(done[0].Response.Text) != maxKept || done[0].Response.Bytes != int64(len(body)) ||
		done[0].Response.SHA256 != hashOf(body) || len(done[0].Model) > maxName {
		t.Fatalf("%d calls, %d bytes kept of %d", len(done), len(done[0].Response.Text), done[0].Response.Bytes)
	}
}

// BenchmarkFirstByte is how long the first byte of a streamed answer takes to come
// for a request of 200 KB: from the model, through the guard, and with the record.
func BenchmarkFirstByte(b *testing.B) {
	u := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: {}\n\n")
	}))
	defer u.Close()
	body := `{"messages":[{"role":"user","content":"` + strings.Repeat("a line of a log. ", 200<<10/17) + `"}]}`
	plain, kept := newRecorded(b, u.URL), newRecorded(b, u.URL)
	plain.cfg.Record = func(Exchange) {}
	for _, c := range []struct {
		name, url string
		header    http.Header
	}{{"model", u.URL, nil}, {"guard", plain.URL(), withToken(plain.Guard)}, {"record", kept.URL(), withToken(kept.Guard)}} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, c.url+"/v1/messages", strings.NewReader(body))
				if err != nil {
					b.Fatal(err)
				}
				req.Header = c.header
				resp, err := http.DefaultClient.Do(req)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := io.ReadFull(resp.Body, make([]byte, 1)); err != nil {
					b.Fatal(err)
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		})
	}
}
