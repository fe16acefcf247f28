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
	"nightcrier.dev/nightcrier/internal/mask"
)

// However a history grows, is cut or is changed, the bound is never less than what a
// model counts, be its tokens of one byte, of four or words; and it is far below the
// bytes where only the end of a history is new.
func TestBoundIsNeverTooLow(t *testing.T) {
	counts := map[string]func([]byte) int64{
		"bytes": func(b []byte) int64 { return int64(len(b)) + 900 },
		"fours": func(b []byte) int64 { return int64(len(b)+3)/4 + 900 },
		"words": func(b []byte) int64 { return int64(len(bytes.Fields(b))) + 900 },
	}
	for name, count := range counts {
		for seed := range uint64(40) {
			r := rand.New(rand.NewPCG(seed, 1))
			b := newBounds()
			history := []string{}
			for step := range 30 {
				switch r.IntN(6) {
				case 0:
					history = history[:r.IntN(len(history)+1)]
				case 1:
					if len(history) > 0 {
						history[r.IntN(len(history))] = text(r)
					}
				default:
					history = append(history, text(r))
				}
				body, _ := json.Marshal(map[string]any{"messages": history, "system": strings.Repeat("be kind. ", 400)})
				k := kind{path: "/v1/messages", model: "m"}
				if bound, n := b.mostTokens(k, body), count(body); bound < n {
					t.Fatalf("%s, seed %d, step %d: bound %d of a request of %d tokens", name, seed, step, bound, n)
				}
				b.rememberAnswer(k, body, count(body))
			}
		}
	}
}

func text(r *rand.Rand) string {
	return strings.Repeat(fmt.Sprintf("line %d of a log ", r.IntN(1000)), r.IntN(600))
}

// What a long investigation has set aside: its first call has its bytes, each further one
// what is new in it beside what the one before had.
func TestLongHistory(t *testing.T) {
	type dict = map[string]any
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

// A request that is counted in another way has its length set aside.
func TestOnlyAlikeIsCompared(t *testing.T) {
	b := newBounds()
	k := kind{path: "/v1/messages", model: "m"}
	body := []byte(`{"messages":[{"role":"user","content":"` + strings.Repeat("what was said ", 10_000) + `"}]}`)
	b.rememberAnswer(kind{path: k.path, model: "o", alone: true}, body, 10)
	b.rememberAnswer(k, body, 40_000)
	if got := b.mostTokens(k, body); got > 40_000+overhead {
		t.Errorf("the same again: %d", got)
	}
	for _, other := range []kind{{path: k.path, model: "n"}, {path: "/v1/x", model: "m"}, {path: k.path, model: "m", rest: "1"}, {path: k.path, model: "m", alone: true}, {path: k.path, model: "o", alone: true}} {
		if got := b.mostTokens(other, body); got < int64(len(body)) {
			t.Errorf("%+v is compared: %d", other, got)
		}
	}
}

// Thoughts and the model's other words count again where a history parts before the
// answered one's end: what came behind may have kept them from being counted.
func TestThoughtsAreCountedAgain(t *testing.T) {
	long := strings.Repeat("thought ", 10_000)
	ask := `{"role":"user","content":"find it"}`
	for name, thought := range map[string]string{
		"signed":    `{"role":"assistant","content":[{"type":"thinking","thinking":"` + long + `","signature":"s"},{"type":"tool_use","id":"i","name":"n","input":{}}]}`,
		"in text":   `{"role":"assistant","content":"<think>` + long + `</think>well"}`,
		"by a name": `{"role":"assistant","reasoning_content":"` + long + `","content":"well"}`,
		"in a tool": `{"role":"tool","reasoning_content":"` + long + `","content":"well"}`,
		"an item":   `{"type":"reasoning","encrypted_content":"` + long + `"}`,
		"a part":    `{"role":"user","parts":[{"thought":true,"text":"` + long + `"}]}`,
	} {
		b := newBounds()
		k := kind{path: "/v1/messages", model: "m"}
		request := func(messages ...string) []byte { return []byte(`{"messages":[` + strings.Join(messages, ",") + `]}`) }
		b.rememberAnswer(k, request(ask, thought, `{"role":"user","content":"and now?"}`), 20)
		if got := b.mostTokens(k, request(ask, thought, `{"role":"user","content":[{"type":"tool_result","tool_use_id":"i","content":"x"}]}`)); got < int64(len(long)) {
			t.Errorf("%s: %d tokens are set aside for %d bytes", name, got, len(long))
		}
		if got := b.mostTokens(k, request(ask, thought, `{"role":"user","content":"and now?"}`, `{"role":"user","content":"more"}`)); got > 20+overhead+100 {
			t.Errorf("%s, going on: %d", name, got)
		}
	}
	b := newBounds()
	k := kind{path: "/v1/messages", model: "m"}
	told := `{"role":"user","content":[{"type":"tool_result","tool_use_id":"i","content":"` + long + `"}]}`
	b.rememberAnswer(k, []byte(`{"messages":[`+told+`,`+ask+`]}`), 20_000)
	if got := b.mostTokens(k, []byte(`{"messages":[`+told+`,`+strings.Replace(ask, "it", "her", 1)+`]}`)); got > 20_000+overhead+100 {
		t.Errorf("what a tool said counts again: %d", got)
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
		{name: "a mode", provider: nightcrier.Google, path: generate, a: gemini("NONE"), b: gemini("AUTO")},
		{name: "a choice", path: "/v1/messages", a: `{"model":"m","messages":[],"tool_choice":{"type":"none"},"tools":[{"name":"x","description":"` + long + `"}]}`, b: `{"model":"m","messages":[],"tool_choice":{"type":"auto"},"tools":[{"name":"x","description":"` + long + `"}]}`},
		{name: "a beta", path: "/v1/messages", beta: "effort-2025-11-24", a: messages(`{"type":"text","text":"` + long + `"}`), b: messages(`{"type":"text","text":"` + long + `"}`)},
		{name: "a kind that is no plain text", path: "/v1/messages", a: messages(`{"type":"document","title":"` + long + `"}`), b: messages(`{"type":"document","title":"` + long + `"}`)},
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
	body := []byte(`{"max_tokens":64000,"messages":[{"role":"user","content":"` + strings.Repeat("a line of a log. ", 200<<10/17) + `"}]}`)
	for _, m := range []struct {
		name string
		mask func(string) string
	}{{"plain", nil}, {"masked", mask.New([]byte("key"), "some-known-value").String}} {
		g := &Guard{cfg: Config{Mask: m.mask}.withDefaults(), protocol: anthropic{}, bounds: newBounds()}
		b.Run(m.name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				a, err := g.inspectBody("/v1/messages", body)
				if err == nil {
					err = g.allowCall(b.Context(), a)
				}
				if err != nil {
					b.Fatal(err)
				}
				g.bounds.mostTokens(a.kind, a.body)
			}
		})
	}
}
