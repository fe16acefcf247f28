package api

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"nightcrier.dev/nightcrier"

	"go.uber.org/goleak"
)

// running starts a Server on loopback and a socket.
func running(t *testing.T, f *fake, change ...func(*Options)) (*Server, string) {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "nightcrier.sock")
	s := NewServer(ServerConfig{API: f.api(t, change...), Listen: "127.0.0.1:0", HealthListen: "127.0.0.1:0", Socket: socket, Logger: slog.New(slog.DiscardHandler)})
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s, socket
}

func TestLocalOnly(t *testing.T) {
	s, _ := running(t, newFake())
	for name, c := range map[string]struct {
		method, host string
		header       http.Header
		want         int
	}{
		"plain":             {"GET", s.Addr(), nil, 200},
		"localhost":         {"GET", "localhost:1", nil, 200},
		"ipv6":              {"GET", "[::1]", nil, 200},
		"rebinding":         {"GET", "evil.example", nil, 403},
		"looks local":       {"GET", "127.0.0.1.evil.example", nil, 403},
		"looks localhost":   {"GET", "localhost.evil.example:80", nil, 403},
		"post":              {"POST", s.Addr(), nil, 202},
		"post cross-site":   {"POST", s.Addr(), http.Header{"Sec-Fetch-Site": {"cross-site"}}, 403},
		"post other origin": {"POST", s.Addr(), http.Header{"Origin": {"https://evil.example"}}, 403},
		"post rebinding":    {"POST", "evil.example", nil, 403},
	} {
		target := path("incidents")
		if c.method == "POST" {
			target = path("incidents", id1, "cancel")
		}
		req, _ := http.NewRequestWithContext(t.Context(), c.method, "http://"+s.Addr()+target, nil)
		req.Host = c.host
		for k, v := range c.header {
			req.Header[k] = v
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if resp.StatusCode != c.want {
			t.Errorf("%s: %d, want %d", name, resp.StatusCode, c.want)
		}
	}
}

// Health tells a page that a browser was lured to no more than the API does, and an
// asker for the API where that is.
func TestHealthAlone(t *testing.T) {
	s, _ := running(t, newFake())
	for name, c := range map[string]struct {
		host, path string
		want       int
		says       string
	}{
		"probe":     {s.HealthAddr(), "/healthz", 200, "ok"},
		"rebinding": {"evil.example", "/healthz", 403, "Host"},
		"API":       {s.HealthAddr(), "/api/v1/incidents", 404, "socket in workspace_root"},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.HealthAddr()+c.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = c.host
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != c.want || !strings.Contains(string(body), c.says) {
			t.Errorf("%s: %d %s %v", name, resp.StatusCode, body, err)
		}
	}
}

func TestListenRefusesTheWorld(t *testing.T) {
	for addr, want := range map[string]nightcrier.Code{":0": nightcrier.Refused, "0.0.0.0:0": nightcrier.Refused, "example.test:80": nightcrier.Refused,
		"8080": nightcrier.Invalid, "127.0.0.1:0": "", "localhost:0": "", "[::1]:0": ""} {
		if got := nightcrier.CodeOf(CheckLoopback(addr)); got != want {
			t.Errorf("%s: %q, want %q", addr, got, want)
		}
	}
}

func TestStartFailsWholly(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	socket := filepath.Join(t.TempDir(), "s")
	s := NewServer(ServerConfig{API: newFake().api(t), Socket: socket, HealthListen: taken.Addr().String(), Logger: slog.New(slog.DiscardHandler)})
	err = s.Start(t.Context())
	if nightcrier.CodeOf(err) != nightcrier.Unreachable || !strings.Contains(err.Error(), "health_listen") {
		t.Errorf("error %v must name the key", err)
	}
	if _, err := os.Stat(socket); !os.IsNotExist(err) {
		t.Error("a failed start leaves its socket behind")
	}
}

func TestPanicsBecomeProblems(t *testing.T) {
	h := recoverPanics(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("boom") }), slog.New(slog.DiscardHandler))
	if rec := ask(h, "GET", "/"); rec.Code != 500 || decode(t, rec)["code"] != "internal" || strings.Contains(rec.Body.String(), "boom") {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
}

// frames reads a stream until it ends and returns its frames.
func frames(r io.Reader) []string {
	var all []string
	frame := ""
	for lines := bufio.NewScanner(r); lines.Scan(); {
		if lines.Text() == "" {
			all = append(all, frame)
			frame = ""
			continue
		}
		frame += lines.Text() + "\n"
	}
	return all
}

func openStream(t *testing.T, s *Server, query, last string) *http.Response {
	t.Helper()
	req, _ := http.NewRequestWithContext(t.Context(), "GET", "http://"+s.Addr()+path("incidents", id1, "journal"+query), nil)
	if last != "" {
		req.Header.Set("Last-Event-ID", last)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	if got := resp.Header.Get("Content-Type"); resp.StatusCode != 200 || got != "text/event-stream" {
		t.Fatalf("%d %s", resp.StatusCode, got)
	}
	return resp
}

func TestStreamSendsAllThenEnds(t *testing.T) {
	f := newFake()
	s, _ := running(t, f)
	f.write(205) // more than one page
	resp := openStream(t, s, "", "")
	f.write(3)
	f.end()
	got := frames(resp.Body)
	if len(got) != 1+208+1 {
		t.Fatalf("%d frames", len(got))
	}
	if !strings.HasPrefix(got[1], "id: 1\ndata: {") || !strings.HasPrefix(got[208], "id: 208\n") || !strings.HasPrefix(got[len(got)-1], "event: end\n") {
		t.Errorf("first %q, last %q", got[1], got[len(got)-1])
	}
}

func TestStreamResumes(t *testing.T) {
	f := newFake()
	s, _ := running(t, f)
	f.write(5)
	f.end()
	for last, first := range map[string]string{"3": "id: 4\n", "5": "event: end\n", "999": "event: end\n"} {
		if got := frames(openStream(t, s, "", last).Body); !strings.HasPrefix(got[1], first) {
			t.Errorf("after %s came %q, want %q", last, got[1], first)
		}
	}
}

func TestStreamWithoutFollow(t *testing.T) {
	f := newFake()
	s, _ := running(t, f)
	f.write(2)
	got := frames(openStream(t, s, "?follow=false", "").Body)
	if len(got) != 3 || strings.Contains(got[2], "event: end") {
		t.Errorf("%q: the run has not ended, so no end is announced", got)
	}
}

func TestStopEndsStreams(t *testing.T) {
	f := newFake()
	s, _ := running(t, f)
	f.write(1)
	resp := openStream(t, s, "", "")
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := frames(resp.Body); len(got) != 2 {
		t.Errorf("%q", got)
	}
}

// sink is a writer for a stream in a bubble of fake time.
type sink struct {
	http.ResponseWriter
	out chan string
}

func (s sink) Header() http.Header { return http.Header{} }
func (s sink) WriteHeader(int)     {}
func (s sink) Flush()              {}
func (s sink) Write(p []byte) (int, error) {
	s.out <- string(p)
	return len(p), nil
}

func TestKeepAliveAndPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		a := f.api(t, func(o *Options) { o.KeepAlive, o.Poll = 15*time.Second, time.Second })
		out := make(chan string, 10)
		st := &stream{api: a, w: sink{out: out}, run: run1, follow: true}
		st.rc = http.NewResponseController(st.w)
		done := make(chan error, 1)
		go func() { done <- st.serveStream(t.Context()) }()
		<-out // the opening comment
		began := time.Now()
		if got := <-out; got != ": keep-alive\n\n" || time.Since(began) != 15*time.Second {
			t.Errorf("%q after %s", got, time.Since(began))
		}
		f.mu.Lock() // the run ends, and nobody wakes the stream
		run := f.runs[run1]
		run.Status = nightcrier.Dropped
		f.runs[run1] = run
		f.mu.Unlock()
		if got := <-out; !strings.HasPrefix(got, "event: end") || time.Since(began) > 17*time.Second {
			t.Errorf("%q after %s", got, time.Since(began))
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreTopFunction("net/http.(*persistConn).readLoop"),
		goleak.IgnoreTopFunction("net/http.(*persistConn).writeLoop"))
}
