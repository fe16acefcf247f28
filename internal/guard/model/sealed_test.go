package model

import (
	"encoding/json"
	"strings"
	"testing"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/mask"
)

// What a tool was called with and what it returned has names that the API knows too:
// they are masked all the same, and what the API reads is left.
func TestNamesInArgumentsAreMasked(t *testing.T) {
	const secret = "hunter2-is-the-known-one"
	masker := mask.New([]byte("key"), secret)
	inner := `{"name":"%s","id":"%s","status":["%s"],"role":"%s","type":"%s","model":"%s","x":{"signature":"%s","name":{"id":"%s"}},"data":"%s","text":"%s","thought":true,"mimeType":"%s"}`
	const inInner = 11
	for _, c := range []struct {
		provider   nightcrier.Provider
		path, body string
		times      int
	}{
		{nightcrier.Anthropic, "/v1/messages", `{"max_tokens":9,"messages":[{"role":"assistant","content":[{"input":` + inner + `,"type":"tool_use","id":"toolu_1","name":"kept_name"}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":[{"type":"text","text":"%s"}]}]}]}`, inInner + 1},
		{nightcrier.OpenAI, "/v1/responses", `{"max_output_tokens":9,"store":false,"input":[{"type":"function_call","call_id":"toolu_1","name":"kept_name","arguments":` + inner + `},{"type":"function_call_output","call_id":"toolu_1","output":{"name":"%s"}},{"type":"local_shell_call","call_id":"toolu_1","action":{"type":"exec","env":{"name":"%s"}}}]}`, inInner + 2},
		{nightcrier.OpenAI, "/v1/chat/completions", `{"max_tokens":9,"messages":[{"role":"assistant","tool_calls":[{"id":"toolu_1","type":"function","function":{"name":"kept_name","arguments":` + inner + `}}]},{"role":"tool","tool_call_id":"toolu_1","content":"{\"name\":\"%s\"}"}]}`, inInner + 1},
		{nightcrier.Google, "/v1beta/models/m:generateContent", `{"contents":[{"parts":[{"functionCall":{"id":"toolu_1","name":"kept_name","args":` + inner + `}},{"function_response":{"id":"toolu_1","name":"kept_name","response":{"name":"%s","status":{"id":"%s"}}}}]}],"generationConfig":{"maxOutputTokens":9}}`, inInner + 2},
	} {
		g, got := spending(t, c.provider, nil, says("application/json", "{}"))
		g.cfg.Mask = masker.String
		call(t, g, "POST", c.path, tokenOf(g, c.provider), strings.NewReader(strings.ReplaceAll(c.body, "%s", secret)))
		sent := <-got
		if strings.Contains(sent, secret) || strings.Count(sent, masker.Tag(secret)) != c.times || !json.Valid([]byte(sent)) {
			t.Errorf("%s %s: sent %s", c.provider, c.path, sent)
		}
	}
	// Where the API reads them they stay, and so does what a picture is made of.
	for path, body := range map[string]string{
		"/v1/messages": `{"max_tokens":9,"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"%s","name":"%s","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"%s","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"%s"}}]}]}]}`,
	} {
		g, got := spending(t, nightcrier.Anthropic, nil, says("application/json", "{}"))
		g.cfg.Mask = masker.String
		body = strings.ReplaceAll(body, "%s", secret)
		call(t, g, "POST", path, withToken(g), strings.NewReader(body))
		if sent := <-got; sent != body {
			t.Errorf("what is sealed became %s", sent)
		}
	}
}

// The names of arguments are masked too, and stay apart: an object that has a name twice
// means one thing to one reader and another to the next.
func TestNamesOfArgumentsAreMasked(t *testing.T) {
	const one, two = "hunter2-is-the-known-one", "hunter3-is-the-known-one"
	g, got := spending(t, nightcrier.Anthropic, nil, says("application/json", "{}"))
	g.cfg.Mask = strings.NewReplacer(one, "masked", two, "masked").Replace
	body := `{"max_tokens":9,"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"i","name":"n","input":{"` + one + `":1,"masked":2,"` + two + `":3,"x":{"` + one + `":4}}}]}]}`
	call(t, g, "POST", "/v1/messages", withToken(g), strings.NewReader(body))
	want := `"input":{"masked 2":1,"masked":2,"masked 3":3,"x":{"masked":4}}`
	if sent := <-got; !strings.Contains(sent, want) {
		t.Errorf("sent %s", sent)
	}
}
