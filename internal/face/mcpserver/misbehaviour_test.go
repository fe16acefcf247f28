package mcpserver_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"
)

// raw is a client that speaks HTTP by hand.
type raw struct {
	t       *testing.T
	url     string
	session string
	id      int
	header  http.Header
}

func (r *raw) do(method, body string, more ...string) *http.Response {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), method, r.url, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header = r.header.Clone()
	if req.Header == nil {
		req.Header = http.Header{}
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if r.session != "" {
		req.Header.Set("Mcp-Session-Id", r.session)
	}
	for i := 0; i+1 < len(more); i += 2 {
		req.Header.Set(more[i], more[i+1])
		if more[i] == "Host" {
			req.Host = more[i+1]
		}
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	return resp
}

func (r *raw) status(method, body string, more ...string) (int, string) {
	r.t.Helper()
	resp := r.do(method, body, more...)
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<16))
	if err != nil {
		r.t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

const hello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`

// open begins a session and asks for everything.
func (r *raw) open() {
	r.t.Helper()
	resp := r.do(http.MethodPost, hello)
	_, _ = io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	if r.session = resp.Header.Get("Mcp-Session-Id"); r.session == "" {
		r.t.Fatalf("no session: %s", resp.Status)
	}
	r.status(http.MethodPost, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	r.rpc("logging/setLevel", `{"level":"debug"}`)
}

// rpc calls a method and returns the answer.
func (r *raw) rpc(method, params string) string {
	r.t.Helper()
	r.id++
	_, text := r.status(http.MethodPost, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, r.id+1, method, params))
	return text
}

func (r *raw) tool(name, args string) string {
	r.t.Helper()
	return r.rpc("tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s}`, name, args))
}

// events is an open notification stream.
type events struct {
	t    *testing.T
	body io.ReadCloser
	in   *bufio.Reader
	last string // id
}

func (r *raw) stream(more ...string) *events {
	r.t.Helper()
	resp := r.do(http.MethodGet, "", more...)
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(resp.Body)
		r.t.Fatalf("stream: %s %s", resp.Status, text)
	}
	e := &events{t: r.t, body: resp.Body, in: bufio.NewReader(resp.Body)}
	r.t.Cleanup(func() { e.close() })
	return e
}

func (e *events) close() { _ = e.body.Close() } // a second time is as good

var resourceName = regexp.MustCompile(`"resource":\{[^}]*"name":"([^"]*)"`)

// fault returns the name of the next fault's object.
func (e *events) fault() string {
	e.t.Helper()
	for {
		line, err := e.in.ReadString('\n')
		if err != nil {
			e.t.Fatalf("stream: %v", err)
		}
		if id, ok := strings.CutPrefix(line, "id: "); ok {
			e.last = strings.TrimSpace(id)
		}
		if m := resourceName.FindStringSubmatch(line); m != nil {
			return m[1]
		}
	}
}

// A stream that breaks costs nothing: the subscription stands, and what was
// sent meanwhile comes with the next stream, once.
func TestStreamIsResumed(t *testing.T) {
	for _, withID := range []bool{true, false} {
		t.Run(fmt.Sprint("last event id: ", withID), func(t *testing.T) {
			f := newFake()
			url, _ := serve(t, quick(f))
			r := &raw{t: t, url: url}
			r.open()
			r.tool("events_subscribe", `{"mode":"faults"}`)
			s := r.stream()
			f.push(t, "one")
			if got := s.fault(); got != "one" {
				t.Fatalf("%s came", got)
			}
			s.close()
			f.push(t, "two")
			f.push(t, "three")
			if text := r.tool("events_list_subscriptions", `{}`); !strings.Contains(text, `\"total\": 1`) || !strings.Contains(text, `\"degraded\": false`) {
				t.Errorf("the subscription is gone with its stream: %s", text)
			}
			var again *events
			if withID {
				again = r.reopen("Last-Event-ID", s.last)
			} else {
				again = r.reopen()
			}
			f.push(t, "four")
			for _, want := range []string{"two", "three", "four"} {
				got := again.fault()
				if got == "one" && !withID { // it cannot be known that it has arrived
					got = again.fault()
				}
				if got != want {
					t.Fatalf("%s came, not %s", got, want)
				}
			}
		})
	}
}

// reopen opens the stream as soon as the server has noticed that the old one is
// gone.
func (r *raw) reopen(more ...string) *events {
	r.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		resp := r.do(http.MethodGet, "", more...)
		if resp.StatusCode == http.StatusOK {
			return &events{t: r.t, body: resp.Body, in: bufio.NewReader(resp.Body)}
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusConflict || time.Now().After(deadline) {
			r.t.Fatalf("stream: %s", resp.Status)
		}
		runtime.Gosched()
	}
}

// A client that does not come back for long is told that it missed something.
func TestMissedIsTold(t *testing.T) {
	f := newFake()
	url, _ := serve(t, quick(f))
	r := &raw{t: t, url: url}
	r.open()
	r.tool("events_subscribe", `{"mode":"faults"}`)
	for i := range 700 { // more than is kept
		f.push(t, fmt.Sprint("pod-", i))
	}
	r.stream().fault()
	if text := r.tool("events_list_subscriptions", `{}`); !strings.Contains(text, `\"degraded\": true`) {
		t.Errorf("%s", text)
	}
}

// A client that opens its stream and never reads holds up nobody, and no memory.
func TestClientThatNeverReads(t *testing.T) {
	f := newFake()
	cfg := quick(f)
	cfg.Limits.Write = 500 * time.Millisecond
	endpoint, _ := serve(t, cfg)
	stuck := &raw{t: t, url: endpoint}
	stuck.open()
	stuck.tool("events_subscribe", `{"mode":"faults"}`)
	conn := deaf(t, endpoint, stuck.session)
	defer conn.Close()
	good := connect(t, endpoint, nil)
	good.level(t, "warning")
	good.subscribe(t, map[string]any{"mode": "faults"})
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	const n = 8000
	for i := range n {
		f.push(t, fmt.Sprintf("pod-%d-%s", i, strings.Repeat("x", 60)))
		if i%100 == 99 {
			good.next(t, named(fmt.Sprintf("pod-%d-%s", i, strings.Repeat("x", 60))))
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 64<<20 {
		t.Errorf("memory grew by %d MiB", grown>>20)
	}
	if text := stuck.tool("events_list_subscriptions", `{}`); !strings.Contains(text, `\"total\": 1`) {
		t.Errorf("%s", text)
	}
}

// deaf opens a stream on a connection that nobody reads from.
func deaf(t *testing.T, endpoint, session string) net.Conn {
	t.Helper()
	u, err := url.Parse(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", u.Host)
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.(*net.TCPConn).SetReadBuffer(4096); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\nAccept: text/event-stream\r\nMcp-Session-Id: %s\r\n\r\n", u.Path, u.Host, session)
	first := make([]byte, 12)
	if _, err := io.ReadFull(conn, first); err != nil || !strings.HasSuffix(string(first), "200") {
		t.Fatalf("%q, %v", first, err)
	}
	return conn
}

func TestSessionsAreBoundedAndExpire(t *testing.T) {
	f := newFake()
	cfg := quick(f)
	cfg.Limits.Sessions, cfg.Limits.Idle = 20, time.Second
	url, _ := serve(t, cfg)
	kept := connect(t, url, nil) // has its stream open, so it is not idle
	kept.subscribe(t, map[string]any{"mode": "faults"})
	refused := 0
	for range 200 {
		r := &raw{t: t, url: url}
		resp := r.do(http.MethodPost, hello)
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if resp.StatusCode == http.StatusServiceUnavailable {
			refused++
		}
	}
	if refused < 100 {
		t.Errorf("%d of 200 sessions were refused", refused)
	}
	deadline := time.Now().Add(patience)
	for {
		r := &raw{t: t, url: url}
		resp := r.do(http.MethodPost, hello)
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("idle sessions are not ended")
		}
		runtime.Gosched()
	}
	if text := kept.must(t, "events_list_subscriptions", nil); !strings.Contains(text, `"total": 1`) {
		t.Errorf("a session with an open stream was ended: %s", text)
	}
}

func TestGarbage(t *testing.T) {
	f := newFake()
	url, _ := serve(t, quick(f))
	r := &raw{t: t, url: url}
	r.open()
	deep := strings.Repeat(`{"a":`, 20000) + "1" + strings.Repeat("}", 20000)
	for name, body := range map[string]string{
		"nothing": "", "no JSON": "<html>", "a list": "[]", "a string": `"x"`, "no method": `{"jsonrpc":"2.0","id":1}`,
		"unknown method": `{"jsonrpc":"2.0","id":7,"method":"rm -rf"}`, "deep": `{"jsonrpc":"2.0","id":8,"method":"tools/call","params":` + deep + `}`,
		"huge":       `{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"` + strings.Repeat("x", 2<<20) + `"}}`,
		"zero bytes": "\x00\x00", "answer to nothing": `{"jsonrpc":"2.0","id":99,"result":{}}`,
		"wrong params": `{"jsonrpc":"2.0","id":10,"method":"tools/call","params":[1,2]}`,
		"no tool":      `{"jsonrpc":"2.0","id":11,"method":"tools/call","params":{"name":"kubernetes_delete"}}`,
		"level":        `{"jsonrpc":"2.0","id":12,"method":"logging/setLevel","params":{"level":7}}`,
	} {
		code, text := r.status(http.MethodPost, body)
		if len(text) > 4096 {
			t.Errorf("%s: %d, %d bytes", name, code, len(text))
		}
	}
	for name, c := range map[string]struct {
		method string
		more   []string
		want   int
	}{
		"unknown session":         {http.MethodPost, []string{"Mcp-Session-Id", "nobody"}, http.StatusNotFound},
		"stream of nobody":        {http.MethodGet, []string{"Mcp-Session-Id", "nobody"}, http.StatusNotFound},
		"PUT":                     {http.MethodPut, nil, http.StatusMethodNotAllowed},
		"wrong type":              {http.MethodPost, []string{"Content-Type", "text/plain"}, http.StatusUnsupportedMediaType},
		"broken last event id":    {http.MethodGet, []string{"Last-Event-ID", "../../x"}, http.StatusBadRequest},
		"last event id of no one": {http.MethodGet, []string{"Last-Event-ID", "ABC_7"}, http.StatusBadRequest},
		"unknown protocol":        {http.MethodPost, []string{"Mcp-Protocol-Version", "1999-01-01"}, http.StatusBadRequest},
	} {
		if code, text := r.status(c.method, `{"jsonrpc":"2.0","id":3,"method":"ping"}`, c.more...); code != c.want {
			t.Errorf("%s: %d %s", name, code, text)
		}
	}
	if text := r.rpc("ping", "{}"); !strings.Contains(text, `"result":{}`) {
		t.Errorf("the session did not survive: %s", text)
	}
}
