package model

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
)

const realKey = "sk-ant-api03-real"

// upstream is a model API that shows what reached it.
type upstream struct {
	*httptest.Server
	seen chan *http.Request
}

func newUpstream(t *testing.T, answer http.HandlerFunc) *upstream {
	t.Helper()
	u := &upstream{seen: make(chan *http.Request, 100)}
	u.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		u.seen <- r.Clone(context.Background())
		answer(w, r)
	}))
	t.Cleanup(u.Close)
	return u
}

func newGuard(t *testing.T, base string) (*Guard, *bytes.Buffer) {
	t.Helper()
	return guardOf(t, nightcrier.Anthropic, base)
}

func guardOf(t *testing.T, provider nightcrier.Provider, base string) (*Guard, *bytes.Buffer) {
	t.Helper()
	var log bytes.Buffer
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g, err := Start(l, Config{Provider: provider, Upstream: base, Key: realKey, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = g.Close()
		if strings.Contains(log.String(), realKey) {
			t.Errorf("the key is in the log:\n%s", &log)
		}
	})
	return g, &log
}

func call(t *testing.T, g *Guard, method, path string, header http.Header, body io.Reader) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, g.URL()+path, body)
	if err != nil {
		t.Fatal(err)
	}
	if header != nil {
		req.Header = header
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(answer)
}

// counted is the usage once the first call has been counted: that happens a moment
// after the caller has its answer.
func counted(g *Guard) nightcrier.Usage {
	for deadline := time.Now().Add(3 * time.Minute); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if u := g.Usage(); u.APIRequests > 0 {
			return u
		}
	}
	return g.Usage()
}

func withToken(g *Guard) http.Header { return http.Header{"X-Api-Key": {g.Token()}} }

const plainAnswer = `{"type":"message","usage":{"input_tokens":10,"cache_read_input_tokens":5,"output_tokens":7}}`

func TestForwards(t *testing.T) {
	u := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, plainAnswer)
	})
	g, _ := newGuard(t, u.URL+"/prefix/")
	h := withToken(g)
	h.Set("Anthropic-Version", "2023-06-01")
	h.Set("Authorization", "Bearer something")
	h.Set("Cookie", "a=b")
	h.Set("X-Forwarded-For", "10.0.0.1")
	resp, body := call(t, g, "POST", "/v1/messages?beta=true&evil=1", h, strings.NewReader(`{"model":"x"}`))
	if resp.StatusCode != 200 || body != plainAnswer {
		t.Fatalf("%d %s", resp.StatusCode, body)
	}
	if len(u.seen) == 0 {
		t.Fatal("nothing reached the upstream")
	}
	r := <-u.seen
	if r.URL.String() != "/prefix/v1/messages?beta=true" {
		t.Errorf("upstream was asked for %s", r.URL)
	}
	if r.Header.Get("X-Api-Key") != realKey || r.Header.Get("Anthropic-Version") != "2023-06-01" {
		t.Errorf("headers %v", r.Header)
	}
	for _, name := range []string{"Authorization", "Cookie", "X-Forwarded-For"} {
		if r.Header.Get(name) != "" {
			t.Errorf("%s went through", name)
		}
	}
	if got := counted(g); got.APIRequests != 1 || got.InputTokens != 15 || got.OutputTokens != 7 {
		t.Errorf("usage %+v", got)
	}
}

func TestRefuses(t *testing.T) {
	u := newUpstream(t, func(http.ResponseWriter, *http.Request) { t.Error("the upstream was reached") })
	g, _ := newGuard(t, u.URL)
	for _, c := range []struct {
		name, method, path string
		header             http.Header
		status             int
	}{
		{"no token", "POST", "/v1/messages", http.Header{}, 401},
		{"wrong token", "POST", "/v1/messages", http.Header{"X-Api-Key": {"sk-ant-run-0"}}, 401},
		{"the real key", "POST", "/v1/messages", http.Header{"X-Api-Key": {realKey}}, 401},
		{"wrong token before a good one", "POST", "/v1/messages", http.Header{"X-Api-Key": {"x"}, "Authorization": {"Bearer " + g.Token()}}, 401},
		{"files", "POST", "/v1/files", withToken(g), 403},
		{"batches", "POST", "/v1/messages/batches", withToken(g), 403},
		{"models", "GET", "/v1/models", withToken(g), 403},
		{"method", "GET", "/v1/messages", withToken(g), 403},
		{"dots", "POST", "/v1/messages/../files", withToken(g), 403},
		{"encoded dots", "POST", "/v1/messages/%2e%2e/files", withToken(g), 403},
		{"double slash", "POST", "//v1/messages", withToken(g), 403},
		{"root", "GET", "/", withToken(g), 403},
	} {
		resp, body := call(t, g, c.method, c.path, c.header, nil)
		if resp.StatusCode != c.status || !strings.Contains(body, "nightcrier: ") {
			t.Errorf("%s: %d %s, want %d", c.name, resp.StatusCode, body, c.status)
		}
		if strings.Contains(body, realKey) || resp.Header.Get("X-Should-Retry") != "false" {
			t.Errorf("%s: %v %s", c.name, resp.Header, body)
		}
	}
}

func TestBearerToken(t *testing.T) {
	u := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {})
	g, _ := newGuard(t, u.URL)
	resp, _ := call(t, g, "POST", "/v1/messages/count_tokens", http.Header{"Authorization": {"Bearer " + g.Token()}}, strings.NewReader("{}"))
	if resp.StatusCode != 200 {
		t.Errorf("status %d", resp.StatusCode)
	}
	if len(u.seen) == 0 {
		t.Fatal("nothing reached the upstream")
	}
	if r := <-u.seen; r.Header.Get("X-Api-Key") != realKey || r.Header.Get("Authorization") != "" {
		t.Errorf("headers %v", r.Header)
	}
}

// A stream comes through event by event, and its usage is counted.
func TestStreams(t *testing.T) {
	more := make(chan struct{})
	u := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":100,\"output_tokens\":1}}}\n\n")
		w.(http.Flusher).Flush()
		<-more
		_, _ = io.WriteString(w, "event: message_delta\ndata: {\"type\":\"message_delta\",\"usage\":{\"output_tokens\":42}}\n\nevent: message_stop\n")
	})
	g, _ := newGuard(t, u.URL)
	req, err := http.NewRequestWithContext(t.Context(), "POST", g.URL()+"/v1/messages", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = withToken(g)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	r := bufio.NewReader(resp.Body)
	if line, err := r.ReadString('\n'); err != nil || line != "event: message_start\n" {
		t.Fatalf("first line %q, %v", line, err)
	}
	close(more) // only now does the rest exist
	if _, err := io.ReadAll(r); err != nil {
		t.Fatal(err)
	}
	if got := counted(g); got.APIRequests != 1 || got.InputTokens != 100 || got.OutputTokens != 42 {
		t.Errorf("usage %+v", got)
	}
}

func TestUpstreamMisbehaves(t *testing.T) {
	t.Run("redirect", func(t *testing.T) {
		u := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://evil.example/", http.StatusTemporaryRedirect)
		})
		g, _ := newGuard(t, u.URL)
		resp, _ := call(t, g, "POST", "/v1/messages", withToken(g), strings.NewReader("{}"))
		if resp.Header.Get("Location") != "" {
			t.Errorf("the agent was sent to %s", resp.Header.Get("Location"))
		}
	})
	t.Run("down", func(t *testing.T) {
		u := newUpstream(t, func(http.ResponseWriter, *http.Request) {})
		g, _ := newGuard(t, u.URL)
		u.Close()
		resp, body := call(t, g, "POST", "/v1/messages", withToken(g), strings.NewReader("{}"))
		if resp.StatusCode != 502 || resp.Header.Get("X-Should-Retry") != "true" || !strings.Contains(body, "cannot reach") {
			t.Errorf("%d %v %s", resp.StatusCode, resp.Header, body)
		}
	})
	t.Run("hostile usage", func(t *testing.T) {
		u := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, strings.Repeat("x", 3*maxHeld)+"\ndata: {\"usage\":{\"input_tokens\":-5}}\ndata: {\"usage\":\"much\"}\ndata: {\"usage\":{\"input_tokens\":3}}")
		})
		g, _ := newGuard(t, u.URL)
		_, body := call(t, g, "POST", "/v1/messages", withToken(g), strings.NewReader("{}"))
		if got := counted(g); len(body) < 3*maxHeld || got.InputTokens != 3 {
			t.Errorf("%d bytes, usage %+v", len(body), got)
		}
	})
}

func TestTooLarge(t *testing.T) {
	u := newUpstream(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
	g, _ := newGuard(t, u.URL)
	r := httptest.NewRequestWithContext(t.Context(), "POST", "/v1/messages", io.LimitReader(zeros{}, maxBody+1))
	r.Header = withToken(g)
	w := httptest.NewRecorder()
	g.ServeHTTP(w, r)
	if w.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("status %d %s", w.Code, w.Body)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestStartRefuses(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, c := range []Config{
		{Upstream: "ftp://x", Key: "k"}, {Upstream: "not a url", Key: "k"}, {Upstream: "https://user:pw@x", Key: "k"}, {Upstream: "https://x"},
	} {
		c.Logger = slog.New(slog.DiscardHandler)
		_, err := Start(l, c)
		if nightcrier.CodeOf(err) != nightcrier.Invalid {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// An agent has so many answers; a call that failed is none.
func TestAnswersAreLimited(t *testing.T) {
	calls := 0
	u := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		if calls++; calls == 1 {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	g, err := Start(l, Config{Upstream: u.URL, Key: realKey, Answers: 2, Exhausted: func() { asked++ }, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	for i, want := range []int{500, 200, 200, 403, 403} {
		if resp, body := call(t, g, "POST", "/v1/messages", withToken(g), strings.NewReader("{}")); resp.StatusCode != want {
			t.Errorf("call %d: %d %s, want %d", i, resp.StatusCode, body, want)
		}
	}
	if resp, _ := call(t, g, "POST", "/v1/messages/count_tokens", withToken(g), strings.NewReader("{}")); resp.StatusCode != 200 {
		t.Errorf("counting tokens: %d", resp.StatusCode)
	}
	if asked != 2 || calls != 4 {
		t.Errorf("%d calls went through and %d were one too many", calls, asked)
	}
}

// Calls that are made at once share the turns: as many pass as there are, also while no
// answer has begun yet. One that comes to nothing leaves its turn to another.
func TestTurnsHoldForCallsAtOnce(t *testing.T) {
	const turns, calls = 3, 12
	here, answer := make(chan struct{}, calls), make(chan int)
	u := newUpstream(t, func(w http.ResponseWriter, _ *http.Request) {
		here <- struct{}{}
		w.WriteHeader(<-answer)
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var over atomic.Int64
	g, err := Start(l, Config{Upstream: u.URL, Key: realKey, Answers: turns, Exhausted: func() { over.Add(1) }, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	// round makes calls at once, of which so many pass, and has those answered.
	round := func(made, pass int, statuses ...int) {
		t.Helper()
		over.Store(0)
		got := make(chan int, made)
		for range made {
			go func() {
				status := 0
				req := httptest.NewRequestWithContext(t.Context(), "POST", g.URL()+"/v1/messages", strings.NewReader("{}"))
				req.RequestURI, req.Header = "", withToken(g)
				if resp, err := http.DefaultClient.Do(req); err == nil {
					status = resp.StatusCode
					resp.Body.Close()
				}
				got <- status
			}()
		}
		for range pass {
			<-here
		}
		for range made - pass {
			if status := <-got; status != http.StatusForbidden {
				t.Errorf("a call beyond the turns: %d", status)
			}
		}
		for _, status := range statuses {
			answer <- status
			if s := <-got; s != status {
				t.Errorf("a call within the turns: %d, want %d", s, status)
			}
		}
		if n := int(over.Load()); n != made-pass || len(here) > 0 {
			t.Errorf("%d calls were told to be one too many, want %d; %d more passed", n, made-pass, len(here))
		}
	}
	round(calls, turns, 529, 529, 200) // two are given back
	round(calls, turns-1, 500, 200)    // one is given back
	round(calls, turns-2, 200)
	round(calls, 0)
}
