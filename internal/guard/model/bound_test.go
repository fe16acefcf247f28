package model

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
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
				if bound, n := b.of(k, body), count(body); bound < n {
					t.Fatalf("%s, seed %d, step %d: bound %d of a request of %d tokens", name, seed, step, bound, n)
				}
				b.answer(k, body, count(body))
			}
		}
	}
}

func text(r *rand.Rand) string {
	return strings.Repeat(fmt.Sprintf("line %d of a log ", r.IntN(1000)), r.IntN(600))
}

func TestBoundIsTight(t *testing.T) {
	b := newBounds()
	k := kind{path: "/v1/messages", model: "m"}
	body := func(history string) []byte {
		return []byte(`{"messages":["` + history + `"],"tools":"` + strings.Repeat("a tool ", 5000) + `"}`)
	}
	old := strings.Repeat("what was said ", 10_000)
	b.answer(k, body(old), 40_000)
	if got := b.of(k, body(old+strings.Repeat("new ", 500))); got > 40_000+2000+overhead+2*(block+seam) {
		t.Errorf("bound %d", got)
	}
	for _, other := range []kind{{path: k.path, model: "n"}, {path: "/v1/x", model: "m"}, {path: k.path, model: "m", uncounted: "1"}} {
		if got, whole := b.of(other, body(old)), body(old); got < int64(len(whole)) {
			t.Errorf("%+v is compared: %d", other, got)
		}
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
				a, err := g.inspect("/v1/messages", body)
				if err == nil {
					err = g.allow(b.Context(), a)
				}
				if err != nil {
					b.Fatal(err)
				}
				g.bounds.of(a.kind, a.body)
			}
		})
	}
}
