package model

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"nightcrier.dev/nightcrier"
)

// openAIGuard is a guard before an upstream that says what it was sent.
func openAIGuard(t *testing.T, answer string) (g *Guard, got chan string, u *upstream) {
	t.Helper()
	got = make(chan string, 100)
	u = newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		got <- string(b)
		if strings.HasPrefix(answer, "data:") {
			w.Header().Set("Content-Type", "text/event-stream")
		}
		_, _ = io.WriteString(w, answer)
	})
	g, _ = guardOf(t, nightcrier.OpenAI, u.URL)
	return g, got, u
}

func withBearer(g *Guard) http.Header { return http.Header{"Authorization": {"Bearer " + g.Token()}} }

func TestOpenAIForwards(t *testing.T) {
	g, _, u := openAIGuard(t, "{}")
	h := withBearer(g)
	for _, name := range []string{"OpenAI-Organization", "OpenAI-Project", "Cookie", "X-Api-Key"} {
		h.Set(name, "x")
	}
	resp, body := call(t, g, "POST", "/v1/chat/completions?evil=1", h, strings.NewReader(`{"model":"x","messages":[]}`))
	if resp.StatusCode != http.StatusOK || len(u.seen) == 0 {
		t.Fatalf("%d %s", resp.StatusCode, body)
	}
	r := <-u.seen
	if r.URL.String() != "/v1/chat/completions" || r.Header.Get("Authorization") != "Bearer "+realKey {
		t.Errorf("upstream was asked for %s with %v", r.URL, r.Header)
	}
	for _, name := range []string{"OpenAI-Organization", "OpenAI-Project", "Cookie", "X-Api-Key"} {
		if r.Header.Get(name) != "" {
			t.Errorf("%s went through", name)
		}
	}
}

// A base URL is written with the API's version at its end and without.
func TestBaseURLsVersion(t *testing.T) {
	u := newUpstream(t, func(http.ResponseWriter, *http.Request) {})
	for _, c := range []struct{ base, want string }{
		{"", "/v1/responses"}, {"/", "/v1/responses"}, {"/v1", "/v1/responses"}, {"/v1/", "/v1/responses"},
		{"/gateway", "/gateway/v1/responses"}, {"/gateway/v1", "/gateway/v1/responses"}, {"/notv1", "/notv1/v1/responses"},
	} {
		g, _ := guardOf(t, nightcrier.OpenAI, u.URL+c.base)
		if resp, body := call(t, g, "POST", "/v1/responses", withBearer(g), strings.NewReader(`{"store":false}`)); resp.StatusCode != http.StatusOK {
			t.Fatalf("%q: %d %s", c.base, resp.StatusCode, body)
		}
		if r := <-u.seen; r.URL.Path != c.want {
			t.Errorf("%q: upstream was asked for %s, want %s", c.base, r.URL.Path, c.want)
		}
	}
}

func TestOpenAIUsage(t *testing.T) {
	for name, answer := range map[string]string{
		"responses": `{"usage":{"input_tokens":10,"input_tokens_details":{"cached_tokens":4},"output_tokens":7,"total_tokens":17}}`,
		"responses stream": "data: {\"type\":\"response.created\",\"response\":{\"usage\":null}}\n\n" +
			"data: {\"type\":\"response.completed\",\"response\":{\"usage\":{\"input_tokens\":10,\"output_tokens\":7}}}\n\n",
		"chat": `{"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":7}}`,
		"chat stream": "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}],\"usage\":null}\n\n" +
			"data: {\"choices\":[],\"usage\":{\"prompt_tokens\":10,\"completion_tokens\":7}}\n\ndata: [DONE]\n\n",
	} {
		t.Run(name, func(t *testing.T) {
			g, _, _ := openAIGuard(t, answer)
			if resp, body := call(t, g, "POST", "/v1/responses", withBearer(g), strings.NewReader(`{"store":false}`)); resp.StatusCode != http.StatusOK || body != answer {
				t.Fatalf("%d %s", resp.StatusCode, body)
			}
			if u := counted(g); u.InputTokens != 10 || u.OutputTokens != 7 {
				t.Errorf("usage %+v", u)
			}
		})
	}
}

// Of a streamed chat the usage is asked for, so that no call goes uncounted.
func TestChatUsageIsAskedFor(t *testing.T) {
	g, got, _ := openAIGuard(t, "{}")
	for _, c := range []struct {
		body, want string
		status     int
	}{
		{` {"stream":true,"max_tokens":9}`, ` {"stream_options":{"include_usage":true},"stream":true,"max_tokens":9}`, 200},
		{`{"stream":true,"stream_options":{"include_usage":true},"max_tokens":9}`, `{"stream":true,"stream_options":{"include_usage":true},"max_tokens":9}`, 200},
		{`{"stream":false,"max_tokens":9}`, `{"stream":false,"max_tokens":9}`, 200},
		{`{"max_tokens":9}`, `{"max_tokens":9}`, 200},
		{`{"stream":true,"stream_options":{"include_usage":false}}`, "", 403},
		{`{"stream":true,"stream_options":{}}`, "", 403},
		{`{"stream":true,"stream_options":null}`, "", 403},
		{`{"stream":true,"stream_options":[]}`, "", 403},
	} {
		resp, answer := call(t, g, "POST", "/v1/chat/completions", withBearer(g), strings.NewReader(c.body))
		if resp.StatusCode != c.status {
			t.Errorf("%s: %d %s", c.body, resp.StatusCode, answer)
			continue
		}
		if c.status == 200 {
			if sent := <-got; sent != c.want {
				t.Errorf("%s became %s", c.body, sent)
			}
		}
	}
}

// What would make OpenAI, or a server that speaks as it does, act for the agent.
func TestOpenAIDoesNotAct(t *testing.T) {
	u := newUpstream(t, func(http.ResponseWriter, *http.Request) { t.Error("the upstream was reached") })
	g, _ := guardOf(t, nightcrier.OpenAI, u.URL)
	refused := func(path, body string) {
		t.Helper()
		resp, answer := call(t, g, "POST", path, withBearer(g), strings.NewReader(body))
		if resp.StatusCode != http.StatusForbidden || !strings.Contains(answer, "nightcrier: ") {
			t.Errorf("%s %.100s: %d %s", path, body, resp.StatusCode, answer)
		}
	}
	for _, tool := range []string{
		`{"type":"web_search"}`, `{"type":"web_search_preview_2025_03_11"}`, `{"type":"file_search","vector_store_ids":["v"]}`,
		`{"type":"code_interpreter","container":{"type":"auto"}}`, `{"type":"computer_use_preview"}`, `{"type":"image_generation"}`,
		`{"type":"mcp","server_url":"https://evil.example","server_label":"x"}`, `{"type":"mcp","connector_id":"connector_gmail"}`,
		`{"type":"shell","environment":{"type":"container_auto"}}`, `{"type":"tool_search"}`, `{"type":"tool_search","execution":"server"}`,
		`{"type":"namespace","name":"n","tools":[{"type":"mcp","server_url":"https://evil.example"}]}`,
		`{"type":["web_search"]}`, `{"type":""}`, `{"Type":"web_search"}`, `{"type":"function","TOOLS":[]}`, `{"type":"functional"}`,
		`{"type":"openrouter:web_search"}`,
	} {
		refused("/v1/responses", `{"store":false,"tools":[{"type":"function","name":"a"},`+tool+`]}`)
		refused("/v1/chat/completions", `{"tools":[`+tool+`]}`)
		refused("/v1/responses", `{"store":false,"input":[{"type":"additional_tools","tools":[`+tool+`]}]}`)
	}
	for _, field := range []string{
		`"background":true`, `"store":true`, `"previous_response_id":"resp_1"`, `"conversation":"conv_1"`, `"conversation":{"id":"c"}`,
		`"prompt":{"id":"pmpt_1"}`, `"plugins":[{"id":"web"}]`, `"web_search_options":{}`, `"search_parameters":{"mode":"on"}`,
		`"data_sources":[]`, `"mcp_servers":[]`, `"enable_search":true`, `"extra_body":{"x":1}`, `"Tools":[]`, `"container":"c"`,
		`"tools":{"type":"web_search"}`, `"tools":"web_search"`, `"model":"x:online"`, `"model":"x:online:nitro"`, `"prediction":{"type":"content","content":"x"}`, `"model":"gpt-4o-search-preview"`,
		`"t\u006fols":[{"type":"web\u005fsearch"}]`, `"tools":[],"tools":[{"type":"web_search"}]`,
	} {
		refused("/v1/responses", `{`+field+`,"store":false}`) // a name twice is refused as well
		refused("/v1/chat/completions", `{`+field+`}`)
	}
	for _, part := range []string{
		`{"type":"input_image","image_url":"https://evil.example/?secret"}`, `{"type":"input_image","image_url":"DATA:https://evil.example"}`,
		`{"type":"input_image","file_id":"file_1"}`, `{"type":"input_file","file_url":"https://evil.example"}`, `{"type":"input_file","file_id":"file_1"}`,
		`{"type":"image_url","image_url":{"url":"https://evil.example"}}`, `{"type":"image_url","image_url":{"URL":"https://evil.example","url":"data:x"}}`,
		`{"type":"video_url","video_url":{"url":"https://evil.example/?secret"}}`, `{"type":"audio_url","audio_url":{"url":"https://evil.example"}}`,
		`{"type":"file","file":{"filename":"a.pdf","file_data":"https://evil.example/?secret"}}`, `{"type":"input_file","file_data":"data:application/pdf;base64,AA=="}`,
		`{"type":"input_audio","input_audio":{"data":"AA==","format":"mp3"}}`, `{"type":"image_url","image_url":{"url":"data:application/pdf;base64,AA=="}}`,
		`{"type":"something_new"}`, `{"type":["text"]}`, `{"type":"text","content":[{"type":"something_new"}]}`, `{"Content":[]}`, `{"image_embeds":"AA=="}`,
		`{"type":"file","file":{"file_id":"file_1"}}`, `{"type":"input_image","image_url":7}`, `{"type":"x","File_ID":"file_1"}`,
	} {
		refused("/v1/responses", `{"store":false,"input":[{"role":"user","content":[`+part+`]}]}`)
		refused("/v1/responses", `{"store":false,"input":[{"type":"function_call_output","call_id":"c","output":[`+part+`]}]}`)
		refused("/v1/chat/completions", `{"messages":[{"role":"user","content":[`+part+`]}]}`)
	}
	for _, item := range []string{
		`{"type":"item_reference","id":"msg_1"}`, `{"type":"mcp_approval_response","approve":true}`, `{"type":"mcp_list_tools"}`,
		`{"type":"shell_call"}`, `{"type":"computer_call_output","output":{}}`, `{"id":"msg_1"}`, `{"type":null,"id":"msg_1"}`, `{"id":"msg_1","role":"user"}`, `{"type":"message","id":"msg_1"}`,
		`{"type":"message","id":"msg_1","role":"assistant","content":null}`, `{"type":"reasoning","id":"rs_1","summary":[]}`, `{"type":"reasoning","id":"rs_1","encrypted_content":null}`, `{"type":"compaction","id":"cmp_1"}`,
		`{"Type":"item_reference","type":"message","role":"user","content":"x","id":"msg_1"}`, `{"type":"message","role":"user","content":"x","ID":"msg_1"}`, `{"type":"web_search_call","id":"ws_1"}`, `{"type":"image_generation_call","id":"ig_1"}`,
		`{"type":"tool_search_call","execution":"server"}`, `{"type":"tool_search_output","tools":[]}`, `{"type":"something_new"}`, `{"type":["message"]}`, `"msg_1"`, `{"type":"message","role":"user","content":[{"type":"input_image","fileId":"file_1"}]}`,
	} {
		refused("/v1/responses", `{"store":false,"input":[`+item+`]}`)
	}
	refused("/v1/responses", `{"store":false,"input":{"type":"item_reference","id":"msg_1"}}`)
	refused("/v1/responses", `{"input":"x"}`) // a response is stored unless it says no
	refused("/v1/responses", `{"store":null,"input":"x"}`)
	for _, path := range []string{"/v1/responses/resp_1", "/v1/files", "/v1/conversations", "/v1/vector_stores", "/v1/images/generations", "/v1/responses/compact", "/v1/chat/completions/x", "/responses"} {
		refused(path, `{"store":false}`)
	}
}

// What codex and clients of Chat Completions send goes through, byte for byte.
func TestOpenAIAgentsWorkGoesThrough(t *testing.T) {
	g, got, _ := openAIGuard(t, "{}")
	for path, body := range map[string]string{
		"/v1/responses": ` {"model":"x","max_output_tokens":9,"store":false,"stream":true,"background":false,"include":["reasoning.encrypted_content"],"reasoning":{"effort":"low"},
			"text":{"verbosity":"low"},"prompt_cache_key":"k","client_metadata":{"a":"b"},"previous_response_id":null,"tool_choice":"auto","parallel_tool_calls":true,
			"tools":[{"type":"function","name":"f","parameters":{"properties":{"image_url":{"type":"string"},"File_Id":{"type":"mcp"}}}},{"type":"custom","name":"exec"},
				{"type":"namespace","name":"mcp__k","tools":[{"type":"function","name":"pods_list"}]},{"type":"tool_search","execution":"client"}],
			"input":[{"type":"additional_tools","role":"developer","tools":[{"type":"custom","name":"exec"}]},{"type":"message","role":"user","content":[{"type":"input_text","text":"see https://x/ mcp_ file_id"},
				{"type":"input_image","image_url":"data:image/png;base64,AA=="}]},{"type":"reasoning","encrypted_content":"x","summary":[]},
				{"type":"function_call","name":"f","arguments":"{\"file_id\":\"f\"}","call_id":"c"},{"type":"function_call_output","call_id":"c","output":"x"}]} `,
		"/v1/chat/completions": `{"model":"x","stream":true,"stream_options":{"include_usage":true},"max_tokens":1e3,"temperature":0,
			"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}],
			"messages":[{"role":"system","content":"s"},{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},
				{"role":"tool","tool_call_id":"c","content":"x"},{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AA=="}}]}]}`,
	} {
		resp, answer := call(t, g, "POST", path, withBearer(g), strings.NewReader(body))
		if resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: %d %s", path, resp.StatusCode, answer)
		}
		if sent := <-got; sent != body {
			t.Errorf("%s: the upstream got %q", path, sent)
		}
	}
}
