package model

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// Why no answer came is for the one who runs this: the agent is told that none did.
func TestUnreachableIsTold(t *testing.T) {
	u := newUpstream(t, func(http.ResponseWriter, *http.Request) {})
	u.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	told := make(chan Failure, 1)
	g, err := Start(l, Config{Upstream: u.URL, Key: realKey, Failed: func(f Failure) { told <- f }, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close() })
	host := strings.TrimPrefix(u.URL, "http://")
	resp, answer := call(t, g, "POST", "/v1/messages", withToken(g), strings.NewReader(`{"model":"m"}`))
	if resp.StatusCode != http.StatusBadGateway || strings.Contains(answer, host) {
		t.Errorf("%d %s", resp.StatusCode, answer)
	}
	if f := <-told; f.Unreachable == nil || !strings.Contains(f.Unreachable.Error(), host) || f.Status != resp.StatusCode {
		t.Errorf("%+v", f)
	}
}

func TestFailuresAreTold(t *testing.T) {
	status := http.StatusTooManyRequests
	u := newUpstream(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(status)
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	told := make(chan Failure, 1)
	g, err := Start(l, Config{Upstream: u.URL, Key: realKey, Failed: func(f Failure) { told <- f }, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close() })
	ask := func() {
		t.Helper()
		req, err := http.NewRequest(http.MethodPost, g.URL()+"/v1/messages", strings.NewReader(`{"model":"m"}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Api-Key", g.Token())
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != status || resp.Header.Get("Retry-After") != "7" {
			t.Errorf("answer %d %v, %v", resp.StatusCode, resp.Header, err)
		}
	}
	ask()
	if f := <-told; f != (Failure{Status: 429, RetryAfter: 7 * time.Second}) {
		t.Errorf("told %+v", f)
	}
	status = http.StatusOK
	ask()
	select {
	case f := <-told:
		t.Errorf("an answer was told as %+v", f)
	default:
	}
}
