package mcpserver_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/face/mcpserver"
)

// A web page may reach a loopback address; it does not get in.
func TestWebPagesAreRefused(t *testing.T) {
	f := newFake()
	url, _ := serve(t, quick(f))
	host := strings.TrimSuffix(strings.TrimPrefix(url, "http://"), mcpserver.Path)
	for _, c := range []struct {
		name string
		more []string
		want int
	}{
		{"another origin", []string{"Origin", "https://evil.example"}, 403},
		{"no origin at all", []string{"Origin", "null"}, 403},
		{"an origin that only looks like ours", []string{"Origin", "http://127.0.0.1.evil.example"}, 403},
		{"a name that was rebound", []string{"Host", "evil.example", "Origin", "http://evil.example"}, 403},
		{"a rebound name without an origin", []string{"Host", "evil.example"}, 403},
		{"our own origin", []string{"Origin", "http://" + host}, 200},
		{"a page on this machine", []string{"Origin", "http://localhost:3000"}, 200},
	} {
		if code, text := (&raw{t: t, url: url}).status(http.MethodPost, hello, c.more...); code != c.want {
			t.Errorf("%s: %d %s", c.name, code, text)
		}
	}
}

// Clients of the older dialect get what those of the protocol without sessions get, and web pages as
// little.
func TestTheOlderDialect(t *testing.T) {
	url, _ := serve(t, quick(newFake()))
	base := strings.TrimSuffix(url, mcpserver.Path)
	if code, text := (&raw{t: t, url: base + "/tools"}).status(http.MethodGet, ""); code != 200 || !strings.Contains(text, `"name":"kubernetes_list"`) {
		t.Errorf("%d %.200s", code, text)
	}
	if code, text := (&raw{t: t, url: base + "/tools/call"}).status(http.MethodPost, `{"name":"events_subscribe","arguments":{}}`); code != 200 || !strings.Contains(text, "need a session") {
		t.Errorf("%d %s", code, text)
	}
	const call = `{"name":"kubernetes_get","arguments":{"kind":"Pod"}}`
	if code, text := (&raw{t: t, url: base + "/tools/call"}).status(http.MethodPost, call); code != 200 || !strings.Contains(text, `"is_error":true`) || !strings.Contains(text, "name") {
		t.Errorf("%d %s", code, text)
	}
	for _, header := range [][]string{{"Host", "evil.example"}, {"Origin", "https://evil.example"}, {"Host", "evil.example", "Origin", "http://evil.example"}} {
		if code, text := (&raw{t: t, url: base + "/tools/call"}).status(http.MethodPost, call, header...); code != 403 {
			t.Errorf("%v: %d %s", header, code, text)
		}
	}
	if code, text := (&raw{t: t, url: base + "/tools/call"}).status(http.MethodPost, `{"name":"`+strings.Repeat("x", 2<<20)+`"}`); code != 422 {
		t.Errorf("%d %.200s", code, text)
	}
}

func TestToken(t *testing.T) {
	f := newFake()
	cfg := quick(f)
	cfg.Token = "0123456789abcdef-secret"
	url, _ := serve(t, cfg)
	for given, want := range map[string]int{"": 401, "Bearer ": 401, "Bearer 0123456789abcdef-secreT": 401, "Basic " + cfg.Token: 401, cfg.Token: 401, "Bearer " + cfg.Token: 200} {
		r := &raw{t: t, url: url, header: http.Header{"Authorization": {given}}}
		if code, text := r.status(http.MethodPost, hello); code != want || strings.Contains(text, "secret") {
			t.Errorf("%q: %d %s", given, code, text)
		}
	}
}

func TestOpenAddressNeedsAToken(t *testing.T) {
	l, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s, err := mcpserver.New(quick(newFake()))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Serve(t.Context(), l); nightcrier.CodeOf(err) != nightcrier.Refused || !strings.Contains(err.Error(), "token") {
		t.Errorf("%v", err)
	}
}

// Clients of the protocol without sessions get the tools; for a subscription
// they are told what they need. One that speaks both gets a session.
func TestProtocols(t *testing.T) {
	f := newFake()
	url, _ := serve(t, quick(f))
	for _, version := range []string{"2025-06-18", "2025-11-25", ""} {
		c := over(t, &sdk.StreamableClientTransport{Endpoint: url}, version)
		if got := c.InitializeResult().ProtocolVersion; c.ID() == "" || version != "" && got != version {
			t.Errorf("%q: protocol %s, session %q", version, got, c.ID())
		}
		c.subscribe(t, map[string]any{"mode": "faults"})
	}
	body := func(method, params string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"x","version":"1"}}}}`, method, params)
	}
	r := &raw{t: t, url: url}
	ask := func(method, name, params string) string {
		more := []string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", method}
		if name != "" {
			more = append(more, "Mcp-Name", name)
		}
		_, text := r.status(http.MethodPost, body(method, params), more...)
		return text
	}
	if text := ask("tools/list", "", ""); !strings.Contains(text, "kubernetes_list") {
		t.Errorf("tools/list: %s", text)
	}
	if text := ask("tools/call", "kubernetes_list", `"name":"kubernetes_list","arguments":{"kind":"nope"},`); !strings.Contains(text, "has no kind") {
		t.Errorf("tools/call: %s", text)
	}
	if text := ask("tools/call", "events_subscribe", `"name":"events_subscribe","arguments":{"mode":"faults"},`); !strings.Contains(text, "need a session") {
		t.Errorf("events_subscribe: %s", text)
	}
}

func TestStdio(t *testing.T) {
	f := newFake()
	f.listed = []string{crashing("old")}
	s, err := mcpserver.New(quick(f))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	serverIn, clientOut := io.Pipe()
	clientIn, serverOut := io.Pipe()
	var wire bytes.Buffer
	done := make(chan error, 1)
	go func() { done <- s.ServeStdio(t.Context(), serverIn, tee{serverOut, &wire}) }()
	c := over(t, &sdk.IOTransport{Reader: clientIn, Writer: clientOut}, "")
	c.level(t, "warning")
	c.subscribe(t, map[string]any{"mode": "faults"})
	c.next(t, named("old"))
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Errorf("%v", err)
	}
	f.await(t, func(n int) bool { return n == 0 })
	for line := range strings.Lines(wire.String()) {
		if !json.Valid([]byte(line)) {
			t.Errorf("stdout carries %q", line)
		}
	}
}

// tee copies what is written; only its writer's goroutine touches the copy.
type tee struct {
	io.WriteCloser
	copy *bytes.Buffer
}

func (t tee) Write(b []byte) (int, error) {
	t.copy.Write(b)
	return t.WriteCloser.Write(b)
}

func TestStreamsShowLife(t *testing.T) {
	cfg := quick(newFake())
	cfg.Limits.KeepAlive = 10 * time.Millisecond
	url, _ := serve(t, cfg)
	r := &raw{t: t, url: url}
	r.open()
	in := r.stream().in
	for range 10 { // the greeting and its end come first
		line, err := in.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if line == ": keep-alive\n" {
			return
		}
	}
	t.Error("nothing is heard on a quiet stream")
}

// A line that is no message is answered, and the next one is read.
func TestGarbageOnStdin(t *testing.T) {
	const hello = `{"jsonrpc":"2.0","id":"hello","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`
	ping := func(id string) string { return `{"jsonrpc":"2.0","id":"` + id + `","method":"ping"}` }
	for name, c := range map[string]struct {
		line string
		code int // of the answer; 0 for none
		id   any
	}{
		"nothing":             {line: ""},
		"white space":         {line: " \t\r"},
		"text":                {line: "hello", code: -32700},
		"zero bytes":          {line: "\x00\x00", code: -32700},
		"no UTF-8":            {line: "\"\xff\xfe", code: -32700},
		"half a message":      {line: ping("x")[:20], code: -32700},
		"more than a message": {line: ping("x") + " hello", code: -32700},
		"a huge line":         {line: strings.Repeat("x", 3<<20), code: -32700},
		"a huge message":      {line: `{"jsonrpc":"2.0","id":1,"method":"` + strings.Repeat("x", 3<<20) + `"}`, code: -32700},
		"deep":                {line: strings.Repeat("[", 100_000), code: -32700},
		"deep and whole":      {line: strings.Repeat("[", 9_000) + strings.Repeat("]", 9_000), code: -32600},
		"a number":            {line: "17", code: -32600},
		"null":                {line: "null", code: -32600},
		"a text":              {line: `"ping"`, code: -32600},
		"another version":     {line: `{"jsonrpc":"1.0","id":"me","method":"ping"}`, code: -32600, id: "me"},
		"no version":          {line: `{"id":7,"method":"ping"}`, code: -32600, id: 7.0},
		"an id of its own":    {line: `{"jsonrpc":"2.0","id":{"a":1},"method":"ping"}`, code: -32600},
		"a method of its own": {line: `{"jsonrpc":"2.0","id":3,"method":{}}`, code: -32600, id: 3.0},
		"an unknown method":   {line: `{"jsonrpc":"2.0","id":3,"method":"brew"}`, code: -32601, id: 3.0},
		"an unknown note":     {line: `{"jsonrpc":"2.0","method":"notifications/brew"}`},
		"an answer":           {line: `{"jsonrpc":"2.0","id":99,"result":{}}`},
		"an answer to nobody": {line: `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"?"}}`},
		"an empty batch":      {line: "[]", code: -32600},
		"a batch of nothing":  {line: "[1]", code: -32600},
		"a batch":             {line: "[" + ping("in a batch") + "]", id: "in a batch"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := mcpserver.New(quick(newFake()))
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			serverIn, clientOut := io.Pipe()
			clientIn, serverOut := io.Pipe()
			done := make(chan error, 1)
			go func() { done <- s.ServeStdio(t.Context(), serverIn, serverOut) }()
			in := json.NewDecoder(clientIn)
			answered := func(id any) (code int) {
				t.Helper()
				var m struct {
					ID    any
					Error struct{ Code int }
				}
				if err := in.Decode(&m); err != nil || m.ID != id {
					t.Fatalf("%+v, %v, not an answer to %v", m, err, id)
				}
				return m.Error.Code
			}
			write := func(lines ...string) {
				go func() { _, _ = io.WriteString(clientOut, strings.Join(lines, "\n")+"\n") }()
			}
			write(hello)
			answered("hello")
			write(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, c.line)
			if c.code != 0 || c.id != nil {
				if code := answered(c.id); code != c.code {
					t.Errorf("it is answered with %d", code)
				}
			}
			write(ping("last"))
			answered("last")
			_ = clientOut.Close()
			if err := <-done; err != nil {
				t.Errorf("the end of stdin: %v", err)
			}
		})
	}
}

func TestServeEnds(t *testing.T) {
	before := goleak.IgnoreCurrent()
	defer goleak.VerifyNone(t, before)
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	s, err := mcpserver.New(quick(newFake()))
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, l) }()
	for _, mode := range []string{"faults", "events"} {
		c := connect(t, "http://"+l.Addr().String()+mcpserver.Path, &http.Client{Transport: transport})
		c.subscribe(t, map[string]any{"mode": mode})
		if mode == "events" {
			defer c.Close() // after its server
			continue
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("%v", err)
	}
	s.Close()
	s.Close()
}
