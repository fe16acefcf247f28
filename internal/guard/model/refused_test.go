package model

import (
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
)

// What is not passed on is told, and nothing of it can end a line.
func TestTellsWhatStaysHere(t *testing.T) {
	u := newUpstream(t, func(http.ResponseWriter, *http.Request) { t.Error("the upstream was reached") })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	told := make(chan string, 10)
	g, err := Start(l, Config{Upstream: u.URL, Key: realKey, Logger: slog.New(slog.DiscardHandler), Refused: func(call, why string) { told <- call + ": " + why }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close() })
	for _, c := range []struct {
		method, path, body string
		header             http.Header
		want               string
	}{
		{"HEAD", "/", "", withToken(g), "HEAD /: the guard answers it itself"},
		{"POST", "/api/event_logging/batch", "{}", withToken(g), "POST /api/event_logging/batch: the guard does not forward this call"},
		{"GET", "/v1/x%0a%1b[2J", "", withToken(g), `GET /v1/x\n\x1b[2J: the guard does not forward this call`},
		{"POST", "/v1/messages", "{}", http.Header{}, "POST /v1/messages: this token is not the run's"},
		{"POST", "/v1/messages", "[]", withToken(g), "POST /v1/messages: the request is not a JSON object"},
	} {
		call(t, g, c.method, c.path, c.header, strings.NewReader(c.body))
		if got := <-told; got != c.want {
			t.Errorf("told %q, want %q", got, c.want)
		}
	}
}
