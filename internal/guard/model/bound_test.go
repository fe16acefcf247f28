package model

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/guard/price"
	"nightcrier.dev/nightcrier/internal/mask"
)

// boundingGuard is a guard that only reads requests.
func boundingGuard(p nightcrier.Provider) *Guard {
	g := &Guard{cfg: Config{}.withDefaults(), dialect: dialects[p], bounds: newBounds()}
	g.facts = g.dialect.factsAt("")
	return g
}

// admit reads a request.
func admit(tb testing.TB, g *Guard, path, settings, body string) *admittedCall {
	tb.Helper()
	a, err := g.inspectBody(g.facts.callOf("POST", path), path, settings, []byte(body))
	if err != nil {
		tb.Fatalf("%.200s: %v", body, err)
	}
	if a.billed {
		a.writeAnswerLength(a.output)
	}
	return a
}

// However an agent spends, the bound is never less than what a model counts: over several
// conversations that grow, are cut, changed and mixed, with one model or another, with tools and
// settings that come and go, marks that move, and thoughts that the provider leaves out as soon
// as somebody says more. Its tokens are of one byte, of four or words.
func TestBoundIsNeverTooLow(t *testing.T) {
	counts := map[string]func([]byte) int64{
		"bytes": func(b []byte) int64 { return int64(len(b)) },
		"fours": func(b []byte) int64 { return int64(len(b)+3) / 4 },
		"words": func(b []byte) int64 { return int64(len(bytes.Fields(b))) },
	}
	for name, count := range counts {
		for seed := range uint64(10) {
			s := spender{Rand: rand.New(rand.NewPCG(seed, 1)), conversations: make([][]any, 3)}
			g := boundingGuard(nightcrier.Anthropic)
			compared := 0
			for step := range 40 {
				request := s.next()
				body, _ := json.Marshal(request)
				a := admit(t, g, "/v1/messages", "", string(body))
				read, _ := json.Marshal(withoutOldThoughts(request))
				tokens := count(read) + 900
				if request["model"] == "dear" {
					tokens = int64(len(read)) + 900
				}
				bound := g.bounds.mostTokens(a)
				if bound < tokens {
					t.Fatalf("%s, seed %d, step %d: bound %d of a request of %d tokens", name, seed, step, bound, tokens)
				}
				if bound < int64(len(body)) {
					compared++
				}
				if s.IntN(10) > 0 { // or the answer breaks off
					g.bounds.rememberAnswer(a, price.Tokens{Input: tokens})
				}
			}
			if name == "fours" && compared == 0 {
				t.Errorf("seed %d: no request is compared", seed)
			}
		}
	}
}

type dict = map[string]any

// spender is an agent that tries what may be cheaper than it costs.
type spender struct {
	*rand.Rand
	conversations [][]any
}

func (s *spender) next() dict {
	i := s.IntN(len(s.conversations))
	history := slices.Clone(s.conversations[i])
	switch s.IntN(8) {
	case 0:
		history = history[:s.IntN(len(history)+1)]
	case 1:
		if len(history) > 0 {
			history[s.IntN(len(history))] = s.message()
		}
	case 2:
		history = append(history, s.conversations[s.IntN(len(s.conversations))]...)
		history = history[:min(len(history), 40)]
	default:
		history = append(history, s.message(), s.message())
	}
	s.conversations[i] = history
	request := dict{"model": []string{"cheap", "dear"}[s.IntN(8)/7], "messages": history, "system": strings.Repeat("be kind. ", 400+s.IntN(5)/4*400)}
	if s.IntN(4) == 0 {
		request["tools"] = []any{dict{"name": "t", "description": strings.Repeat("a tool. ", 100*s.IntN(20)), "input_schema": dict{}}}
	}
	if s.IntN(6) == 0 {
		request["temperature"] = s.IntN(2)
	}
	return request
}

func (s *spender) message() any {
	block := dict{"type": "text", "text": someText(s.Rand)}
	role := "user"
	switch s.IntN(3) {
	case 0:
		role, block = "assistant", dict{"type": "thinking", "thinking": someText(s.Rand), "signature": "c2ln"}
	case 1:
		block = dict{"type": "tool_result", "tool_use_id": "i", "content": someText(s.Rand)}
	}
	if s.IntN(3) == 0 {
		block["cache_control"] = dict{"type": "ephemeral", "ttl": someText(s.Rand)}
	}
	return dict{"role": role, "content": []any{block}}
}

// withoutOldThoughts is a request as a provider reads it that leaves out thoughts before the
// last words of a user.
func withoutOldThoughts(request dict) dict {
	var read []any
	said := false
	for _, m := range slices.Backward(request["messages"].([]any)) {
		kind := m.(dict)["content"].([]any)[0].(dict)["type"]
		if said = said || kind == "text"; !said || kind != "thinking" {
			read = append(read, m)
		}
	}
	request = maps.Clone(request)
	request["messages"] = read
	return request
}

func someText(r *rand.Rand) string {
	return strings.Repeat(fmt.Sprintf("line %d of a log ", r.IntN(1000)), r.IntN(2)*r.IntN(300))
}

// What a long investigation has set aside: its first call has its bytes, each further one
// what is new in it beside what the one before had.
func TestLongHistory(t *testing.T) {
	tools := []any{}
	for i := range 12 {
		tools = append(tools, dict{"name": fmt.Sprintf("tool_%d", i), "description": strings.Repeat("what it reads. ", 60), "input_schema": dict{"type": "object"}})
	}
	history := []any{dict{"role": "user", "content": []any{dict{"type": "text", "text": "Investigate the incident."}}}}
	// Claude's CLI moves its mark on to the last message, and says the time anew in each call.
	turn := func(n int) []byte {
		marked := slices.Clone(history)
		last := maps.Clone(marked[len(marked)-1].(dict))
		part := maps.Clone(last["content"].([]any)[0].(dict))
		part["cache_control"] = dict{"type": "ephemeral"}
		last["content"] = []any{part}
		marked[len(marked)-1] = last
		body, err := json.Marshal(dict{
			"model": "m", "max_tokens": 32000, "tools": tools, "messages": marked,
			"system": []any{dict{"type": "text", "text": fmt.Sprintf("it is %d o'clock", n)}, dict{"type": "text", "text": strings.Repeat("be kind. ", 1000), "cache_control": dict{"type": "ephemeral"}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		return body
	}
	var sum, real, plain int64
	p := &purse{output: 1000}
	counted := func(body []byte) int64 { return int64(len(body))/4 + 300 }
	g, _ := spending(t, nightcrier.Anthropic, p, func(w http.ResponseWriter, r *http.Request) {
		says("application/json", fmt.Sprintf(`{"usage":{"input_tokens":%d,"output_tokens":1}}`, counted(turn(0))))(w, r)
	})
	for n := range 40 {
		body := turn(n)
		if resp, answer := call(t, g, "POST", "/v1/messages", withToken(g), bytes.NewReader(body)); resp.StatusCode != http.StatusOK {
			t.Fatalf("%d %s", resp.StatusCode, answer)
		}
		want := p.wants[len(p.wants)-1].Request
		if want < counted(body) {
			t.Fatalf("turn %d: %d of %d tokens are set aside", n, want, counted(body))
		}
		if most := counted(body) + 20_000; n > 0 && want > most {
			t.Fatalf("turn %d: %d tokens are set aside for %d", n, want, counted(body))
		}
		sum, real, plain = sum+want, real+counted(body), plain+int64(len(body))
		id := fmt.Sprintf("toolu_%d", n)
		history = append(history,
			dict{"role": "assistant", "content": []any{dict{"type": "thinking", "thinking": strings.Repeat("hm ", 200), "signature": "c2ln"}, dict{"type": "tool_use", "id": id, "name": "tool_1", "input": dict{"name": "cart"}}}},
			dict{"role": "user", "content": []any{dict{"type": "tool_result", "tool_use_id": id, "content": strings.Repeat("a line of a log. ", 250)}}})
	}
	t.Logf("40 turns: %d tokens had, %d set aside, %d bytes", real, sum, plain)
	if sum > 2*real {
		t.Errorf("%d tokens are set aside for %d", sum, real)
	}
}

// A request that may be counted in another way has its length set aside: where anything but
// the prompt and the end of the history is another.
func TestOnlyAlikeIsCompared(t *testing.T) {
	long := strings.Repeat("what was said ", 10_000)
	ask := `{"role":"user","content":"` + long + `"}`
	request := func(fields string, messages ...string) string {
		return `{"model":"m","stream":true,"system":"be kind",` + fields + `"messages":[` + strings.Join(messages, ",") + `]}`
	}
	first := request("", ask)
	for _, c := range []struct {
		name, path, settings, body string
		compared                   bool
	}{
		{name: "the same again", body: first, compared: true},
		{name: "what follows", body: request("", ask, `{"role":"assistant","content":"I look"}`), compared: true},
		{name: "another prompt", body: strings.Replace(first, "kind", "strict", 1), compared: true},
		{name: "spaces", body: strings.Replace(first, `"messages":[`, ` "messages" : [ `, 1), compared: true},
		{name: "another model", body: strings.Replace(first, `"m"`, `"n"`, 1)},
		{name: "a beta", settings: "effort-2025-11-24", body: first},
		{name: "another call", path: "/v1/messages/count_tokens", body: first},
		{name: "a setting", body: request(`"temperature":1,`, ask)},
		{name: "another order of the fields", body: `{"stream":true,"model":"m","system":"be kind","messages":[` + ask + `]}`},
		{name: "a tool before the messages", body: request(`"tools":[{"name":"x"}],`, ask)},
		{name: "another order within a message", body: request("", `{"content":"`+long+`","role":"user"}`)},
		{name: "another speaker", body: request("", strings.Replace(ask, "user", "assistant", 1))},
		{name: "something before it", body: request("", `{"role":"user","content":"hi"}`, ask)},
		{name: "a part of it, and more", body: request("", strings.Replace(ask, "what", "WHAT", 1), ask)},
		{name: "the same as a block", body: request("", `{"role":"user","content":[{"type":"text","text":"`+long+`","cache_control":{"type":"ephemeral"}}]}`), compared: true},
		{name: "the same as a block of another kind", body: request("", `{"role":"user","content":[{"type":"connector_text","text":"`+long+`"}]}`)},
		{name: "the same as the first of two blocks", body: request("", `{"role":"user","content":[{"type":"text","text":"`+long+`"},{"type":"text","text":"`+long+`"}]}`)},
		{name: "a spelling", body: request("", strings.Replace(ask, "what", `w\u0068at`, 1))},
		{name: "the history as the prompt", body: `{"model":"m","system":"` + long + `","messages":[]}`},
		{name: "a picture behind it", body: request("", ask, `{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AA=="}}]}`)},
	} {
		g := boundingGuard(nightcrier.Anthropic)
		g.bounds.rememberAnswer(admit(t, g, "/v1/messages", "", first), price.Tokens{Input: 40_000})
		a := admit(t, g, cmp.Or(c.path, "/v1/messages"), c.settings, c.body)
		got := g.bounds.mostTokens(a)
		if compared := got <= 40_000+overhead+100; compared != c.compared || !compared && got < int64(len(c.body)) {
			t.Errorf("%s: %d tokens are set aside", c.name, got)
		}
	}
}

// An answer that says less than can be is not believed: one that leaves out what was cached,
// or that says next to nothing, would be a discount on the next call.
func TestLowAnswersAreNotBelieved(t *testing.T) {
	long := strings.Repeat("what was said ", 10_000)
	request := func(system string, n int) string {
		return `{"model":"m","system":"` + system + `","messages":[{"role":"user","content":"` + long + `"}` + strings.Repeat(`,{"role":"user","content":"go on"}`, n) + `]}`
	}
	g := boundingGuard(nightcrier.Anthropic)
	g.bounds.rememberAnswer(admit(t, g, "/v1/messages", "", request("a", 0)), price.Tokens{Input: 10})
	if got := g.bounds.mostTokens(admit(t, g, "/v1/messages", "", request("a", 1))); got < int64(len(long))/bytesOfToken {
		t.Errorf("after an answer of 10 tokens: %d are set aside for %d bytes", got, len(long))
	}
	g.bounds.rememberAnswer(admit(t, g, "/v1/messages", "", request("a", 1)), price.Tokens{Input: 40_000})
	for n := 2; n < 3*maxAnswered; n++ { // each goes on from the one before, in a prompt of its own
		a := admit(t, g, "/v1/messages", "", request(fmt.Sprint(n), n))
		if got := g.bounds.mostTokens(a); got < 40_000 || got > 40_000+overhead+40*int64(n) {
			t.Errorf("call %d: %d tokens are set aside", n, got)
		}
		g.bounds.rememberAnswer(a, price.Tokens{Input: 10})
	}
}

// What marks hold counts, wherever they stand: in what a tool was called with the same name is
// text for the model.
func TestMarksCount(t *testing.T) {
	const times = 1000
	request := func(mark string) string {
		return `{"model":"m","messages":[{"role":"assistant","content":[{"type":"tool_use","id":"i","name":"n","input":[` + strings.Repeat(`{`+mark+`},`, times) + `{}]}]}]}`
	}
	g := boundingGuard(nightcrier.Anthropic)
	g.bounds.rememberAnswer(admit(t, g, "/v1/messages", "", request("")), price.Tokens{Input: 4 * times})
	for _, mark := range []string{`"cache\u005fcontrol":"` + strings.Repeat("x", 50) + `"`, `"content":[{"text":"","type":"text","cache_control":"` + strings.Repeat("x", 50) + `"}]`} {
		if got := g.bounds.mostTokens(admit(t, g, "/v1/messages", "", request(mark))); got < int64(times*len(mark)) {
			t.Errorf("%d tokens are set aside for %d bytes", got, times*len(mark))
		}
	}
}

// A letter that a provider writes as many counts as those, however it is spelled.
func TestLettersThatGrow(t *testing.T) {
	for _, spelled := range []string{"\ufdfa", `\ufdfa`} {
		const times = 1000
		g := boundingGuard(nightcrier.OpenAI)
		for _, text := range []string{`"content":"` + strings.Repeat(spelled, times) + `"`, `"content":null,"` + strings.Repeat(spelled, times) + `":1`} {
			if got := g.bounds.mostTokens(admit(t, g, chatPath, "", `{"model":"m","messages":[{"role":"user",`+text+`}]}`)); got < 33*times {
				t.Errorf("%.40s: %d tokens are set aside", text, got)
			}
		}
	}
}

// A tool that the provider explains by itself costs that wherever it is offered.
func TestExplainedToolsCount(t *testing.T) {
	const times = 20
	added := `{"type":"tool_addition","tool":{"type":"tool_definition","definition":{"type":"bash_20250124","name":"bash"}}}`
	g := boundingGuard(nightcrier.Anthropic)
	body := `{"model":"m","messages":[{"role":"system","content":[` + added + strings.Repeat(","+added, times-1) + `]}]}`
	if got := g.bounds.mostTokens(admit(t, g, "/v1/messages", "", body)); got < times*toolTokens {
		t.Errorf("%d tokens are set aside", got)
	}
}

// What an answered request began with is looked for in the same field alone, and in
// pieces: bytes that stood elsewhere, or did not count, are no discount.
func TestSharedBytesAreNoDiscount(t *testing.T) {
	const abc = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	data := make([]byte, 300_000)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range data {
		data[i] = abc[r.IntN(len(abc))]
	}
	long := string(data)
	messages := func(part string) string {
		return `{"model":"m","max_tokens":300,"messages":[{"role":"user","content":[` + part + `]}]}`
	}
	input := func(part string) string {
		return `{"model":"m","store":false,"max_output_tokens":300,"input":[{"role":"user","content":[` + part + `]}]}`
	}
	deferred := `"tools":[{"name":"small","description":"s","input_schema":{"type":"object"}},{"name":"big","defer_loading":true,"description":"` + long + `","input_schema":{"type":"object"}}]}`
	gemini := func(mode string) string {
		return `{"contents":[{"role":"user","parts":[{"text":"hi"}]}],"toolConfig":{"functionCallingConfig":{"mode":"` + mode + `"}},"tools":[{"functionDeclarations":[{"name":"f","description":"` + long + `"}]}]}`
	}
	usages := map[nightcrier.Provider]string{
		nightcrier.Anthropic: `{"usage":{"input_tokens":10,"output_tokens":1}}`, nightcrier.OpenAI: `{"usage":{"input_tokens":10,"output_tokens":1}}`,
		nightcrier.Google: `{"candidates":[{"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":10,"candidatesTokenCount":1}}`,
	}
	generate := "/v1beta/models/m:generateContent"
	for _, c := range []struct {
		name     string
		provider nightcrier.Provider
		path     string
		a, b     string
		beta     string // of the first
	}{
		{name: "a picture, then a text", path: "/v1/messages", a: messages(`{"type":"image","source":{"type":"base64","media_type":"image/png","data":"` + long + `"}}`), b: messages(`{"type":"document","source":{"type":"text","media_type":"text/plain","data":"` + long + `"}}`)},
		{name: "a picture, then the same and a text", path: "/v1/messages", a: messages(`{"type":"image","source":{"type":"base64","media_type":"image/png","data":"` + long + `"}}`), b: messages(`{"type":"text","text":"` + long + `"}`)},
		{name: "a picture of Responses", provider: nightcrier.OpenAI, path: responsesPath, a: input(`{"type":"input_image","image_url":"data:image/png;base64,` + long + `"}`), b: input(`{"type":"input_text","text":"` + long + `"}`)},
		{name: "a user", provider: nightcrier.OpenAI, path: responsesPath, a: `{"model":"m","store":false,"input":"hi","user":"` + long + `"}`, b: `{"model":"m","store":false,"input":"` + long + `"}`},
		{name: "metadata", provider: nightcrier.OpenAI, path: chatPath, a: `{"model":"m","messages":[],"metadata":{"a":"` + long + `"}}`, b: `{"model":"m","messages":[{"role":"user","content":"` + long + `"}]}`},
		{name: "a stop", provider: nightcrier.OpenAI, path: chatPath, a: `{"model":"m","messages":[],"stop":"` + long + `"}`, b: `{"model":"m","messages":[{"role":"user","content":"` + long + `"}]}`},
		{name: "a deferred tool", path: "/v1/messages", a: `{"model":"m","messages":[{"role":"user","content":"hi"}],` + deferred, b: `{"model":"m","messages":[{"role":"user","content":"hi"},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":[{"type":"tool_reference","tool_name":"big"}]}]}],` + deferred},
		{name: "a deferred tool that is called", path: "/v1/messages", a: `{"model":"m","messages":[{"role":"user","content":"hi"}],` + deferred, b: `{"model":"m","messages":[{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"tool_use","id":"i","name":"big","input":{}}]}],` + deferred},
		{name: "a mode", provider: nightcrier.Google, path: generate, a: gemini("NONE"), b: gemini("AUTO")},
		{name: "a choice", path: "/v1/messages", a: `{"model":"m","messages":[],"tool_choice":{"type":"none"},"tools":[{"name":"x","description":"` + long + `"}]}`, b: `{"model":"m","messages":[],"tool_choice":{"type":"auto"},"tools":[{"name":"x","description":"` + long + `"}]}`},
		{name: "a beta", path: "/v1/messages", beta: "effort-2025-11-24", a: messages(`{"type":"text","text":"` + long + `"}`), b: messages(`{"type":"text","text":"` + long + `"}`)},
		{name: "a mark", path: "/v1/messages", a: messages(`{"type":"text","text":"hi"}`), b: messages(`{"type":"text","text":"hi","cache_control":{"ttl":"` + long + `"}}`)},
	} {
		p := &purse{output: 1000}
		g, _ := spending(t, c.provider, p, says("application/json", usages[cmp.Or(c.provider, nightcrier.Anthropic)]))
		for i, body := range []string{c.a, c.b} {
			h := tokenOf(g, c.provider)
			if i == 0 && c.beta != "" {
				h.Set("Anthropic-Beta", c.beta)
			}
			if resp, said := call(t, g, "POST", c.path, h, strings.NewReader(body)); resp.StatusCode != http.StatusOK {
				t.Fatalf("%s: %d %s", c.name, resp.StatusCode, said)
			}
		}
		if got := p.wants[1].Request; got < int64(len(c.b)) {
			t.Errorf("%s: %d tokens are set aside for %d bytes", c.name, got, len(c.b))
		}
	}
}

// Each reference to a tool may stand for all of it.
func TestReferencesCount(t *testing.T) {
	p := &purse{output: 1000}
	g, _ := spending(t, nightcrier.Anthropic, p, says("application/json", `{"usage":{"input_tokens":10,"output_tokens":1}}`))
	const times, size = 100, 20_000
	body := `{"model":"m","messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[{"type":"tool_reference","tool_name":"big"}` +
		strings.Repeat(`,{"type":"tool_reference","tool_name":"big"}`, times-1) + `]}]}],"tools":[{"name":"big","defer_loading":true,"description":"` + strings.Repeat("x", size) + `"}]}`
	if resp, said := call(t, g, "POST", "/v1/messages", withToken(g), strings.NewReader(body)); resp.StatusCode != http.StatusOK {
		t.Fatalf("%d %s", resp.StatusCode, said)
	}
	if got := p.wants[0].Request; got < times*size {
		t.Errorf("%d tokens are set aside", got)
	}
}

// Secrets leave in no text of a request, the same tag stands for the same secret in
// each call, what the API checks stays as it is, and no answer brings one back.
func TestRequestsAreMasked(t *testing.T) {
	const secret = "hunter2-is-the-known-one"
	masker := mask.New([]byte("key"), secret)
	for _, c := range []struct {
		provider   nightcrier.Provider
		path, body string
	}{
		{nightcrier.Anthropic, "/v1/messages", `{"max_tokens":9,"system":"%s","messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"x","content":"a\n%s \u003cb>"}]},{"role":"assistant","content":[{"type":"tool_use","id":"i","name":"n","input":{"a":["%s"]}}]}]}`},
		{nightcrier.OpenAI, "/v1/responses", `{"max_output_tokens":9,"store":false,"instructions":"%s","input":[{"type":"function_call_output","call_id":"c","output":"%s"},{"type":"function_call","call_id":"c","name":"f","arguments":"{\"a\":\"%s\"}"}]}`},
		{nightcrier.OpenAI, "/v1/chat/completions", `{"max_tokens":9,"messages":[{"role":"user","content":"%s"},{"role":"tool","tool_call_id":"c","content":[{"type":"text","text":"%s"}]},{"role":"user","content":"%s"}]}`},
		{nightcrier.Google, "/v1beta/models/m:generateContent", `{"contents":[{"parts":[{"text":"%s"},{"functionResponse":{"name":"n","response":{"output":"%s"}}}]}],"systemInstruction":{"parts":[{"text":"%s"}]},"generationConfig":{"maxOutputTokens":9}}`},
	} {
		answer := `{"text":"` + masker.Tag(secret) + `"}`
		g, got := spending(t, c.provider, nil, says("application/json", answer))
		g.cfg.Mask = masker.String
		body := strings.ReplaceAll(c.body, "%s", secret)
		_, said := call(t, g, "POST", c.path, tokenOf(g, c.provider), strings.NewReader(body))
		first := <-got
		call(t, g, "POST", c.path, tokenOf(g, c.provider), strings.NewReader(body))
		if again := <-got; again != first {
			t.Errorf("%s: twice the same became %s and %s", c.path, first, again)
		}
		if strings.Contains(first, secret) || strings.Count(first, masker.Tag(secret)) != 3 || !json.Valid([]byte(first)) || said != answer {
			t.Errorf("%s: %s was answered with %s", c.path, first, said)
		}
	}
	for path, body := range map[string]string{
		"/v1/messages": `{"max_tokens":9,"messages":[{"role":"assistant","content":[{"type":"thinking","thinking":"%s","signature":"%s"},{"type":"redacted_thinking","data":"%s"}]},{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"%s"}}]}]}`,
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

// Betas that are not known stay here: one of them could act, or cost more.
func TestBetas(t *testing.T) {
	u := newUpstream(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "{}") })
	g, _ := newGuard(t, u.URL)
	var log bytes.Buffer
	g.cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	h := withToken(g)
	h["Anthropic-Beta"] = []string{"claude-code-20250219,interleaved-thinking-2025-05-14", "mcp-client-2025-11-20,context-1m-2025-08-07, effort-2025-11-24"}
	call(t, g, "POST", "/v1/messages", h, strings.NewReader(`{"model":"m"}`))
	if got := (<-u.seen).Header.Get("Anthropic-Beta"); got != "claude-code-20250219,interleaved-thinking-2025-05-14,effort-2025-11-24" {
		t.Errorf("asked for %q", got)
	}
	call(t, g, "POST", "/v1/messages", h, strings.NewReader(`{"model":"m"}`))
	for i := range 2 * maxDropped {
		h["Anthropic-Beta"] = []string{fmt.Sprintf("made-up-%d", i)}
		call(t, g, "POST", "/v1/messages", h, strings.NewReader(`{"model":"m"}`))
	}
	_ = g.Close()
	if said := log.String(); strings.Count(said, "mcp-client-2025-11-20") != 1 || strings.Count(said, "beta=") != maxDropped {
		t.Errorf("the log says %s", said)
	}
}

// BenchmarkInspect is what a request of 200 KB costs before it is sent: it is read,
// masked, bounded and shortened.
func BenchmarkInspect(b *testing.B) {
	body := `{"max_tokens":64000,"messages":[{"role":"user","content":"` + strings.Repeat("a line of a log. ", 200<<10/17) + `"}]}`
	turns := []string{}
	for n := range 40 {
		turns = append(turns, fmt.Sprintf(`{"role":"assistant","content":[{"type":"tool_use","id":"t%d","name":"n","input":{"a":"b"}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t%d","content":"%s"}]}`, n, n, strings.Repeat("a line\\nof a log. ", 200<<10/40/18)))
	}
	history := `{"max_tokens":64000,"messages":[` + strings.Join(turns, ",") + `]}`
	for _, m := range []struct {
		name, body string
		mask       func(string) string
	}{{"plain", body, nil}, {"masked", body, mask.New([]byte("key"), "some-known-value").String}, {"history", history, nil}} {
		b.Run(m.name, func(b *testing.B) {
			g := boundingGuard(nightcrier.Anthropic)
			g.cfg.Mask = m.mask
			b.SetBytes(int64(len(m.body)))
			for b.Loop() {
				a := admit(b, g, "/v1/messages", "", m.body)
				if err := g.allowCall(b.Context(), a); err != nil {
					b.Fatal(err)
				}
				g.bounds.mostTokens(a)
			}
		})
	}
}
