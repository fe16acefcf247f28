package endpoint

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
)

func TestTokensDiffer(t *testing.T) {
	a, b := NewToken("ncr-run-"), NewToken("ncr-run-")
	if a == b || len(a) != len("ncr-run-")+48 || !strings.HasPrefix(a, "ncr-run-") {
		t.Errorf("tokens %q and %q", a, b)
	}
}

func TestReadBodyIsBounded(t *testing.T) {
	for size, ok := range map[int]bool{0: true, 10: true, 11: false} {
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(strings.Repeat("x", size)))
		body, err := ReadBody(httptest.NewRecorder(), r, 10, time.Minute)
		var tooLarge *http.MaxBytesError
		if (err == nil) != ok || ok && len(body) != size || !ok && !errors.As(err, &tooLarge) {
			t.Errorf("%d bytes: %d read, error %v", size, len(body), err)
		}
	}
}

// TestReadBodyWaitsNoLonger: who sends a request slowly holds no place for ever, and one
// that is read in time may be answered later.
func TestReadBodyWaitsNoLonger(t *testing.T) {
	const within = 200 * time.Millisecond
	e := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := ReadBody(w, r, 10, within); err != nil {
			w.WriteHeader(http.StatusRequestTimeout)
			return
		}
		time.Sleep(2 * within)
	}))
	for sent, want := range map[string]string{"x": "200", "": "408"} {
		c, err := net.Dial("tcp", e.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(20 * time.Second))
		_, err = io.WriteString(c, "POST / HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: 1\r\n\r\n"+sent)
		answer, readErr := io.ReadAll(c)
		if err != nil || readErr != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 "+want) {
			t.Errorf("after %q: %.60q (%v, %v), want %s", sent, answer, err, readErr, want)
		}
	}
}

func TestEndpoint(t *testing.T) {
	e := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "here") }))
	if e.Port() == 0 || e.Port() != e.Addr().Port {
		t.Errorf("port %d of %s", e.Port(), e.Addr())
	}
	resp, err := http.Get("http://" + e.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if text, err := io.ReadAll(resp.Body); err != nil || string(text) != "here" {
		t.Errorf("answer %q, error %v", text, err)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	if c, err := net.Dial("tcp", e.Addr().String()); err == nil {
		c.Close()
		t.Error("it is still listened after Close")
	}
}

// TestConnectionsAreBounded: beyond so many, who connects waits until another hangs up.
func TestConnectionsAreBounded(t *testing.T) {
	e := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "here") }))
	ask := func(within time.Duration) (net.Conn, error) {
		c, err := net.Dial("tcp", e.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		_ = c.SetDeadline(time.Now().Add(within))
		_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: h\r\n\r\n")
		_, err = io.ReadFull(c, make([]byte, len("HTTP/1.1 200 OK")))
		return c, err
	}
	var open []net.Conn
	for range maxConns {
		c, err := ask(20 * time.Second)
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, c)
	}
	late, err := ask(300 * time.Millisecond)
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("one more connection: error %v, want none to answer", err)
	}
	open[0].Close()
	_ = late.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.ReadFull(late, make([]byte, len("HTTP/1.1 200 OK"))); err != nil {
		t.Errorf("after another hung up: %v", err)
	}
}

func TestOnlyTCP(t *testing.T) {
	l, err := net.Listen("unix", t.TempDir()+"/sock")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := New("the guard", l); nightcrier.CodeOf(err) != nightcrier.Internal || !strings.Contains(err.Error(), "the guard: ") {
		t.Errorf("error %v", err)
	}
}

func serve(t *testing.T, h http.Handler) *Endpoint {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e, err := New("the guard", l)
	if err != nil {
		t.Fatal(err)
	}
	e.Serve(&http.Server{Handler: h}, slog.New(slog.DiscardHandler))
	t.Cleanup(func() { e.Close() })
	return e
}
