package model

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/guard/price"
)

// An agent that spells a word in its request another way, for the provider to read all
// the same, has the same set aside as one that does not.
func TestSpellingIsNoDiscount(t *testing.T) {
	wanted := func(t *testing.T, bodies ...string) Want {
		t.Helper()
		p := &purse{output: 1000}
		g, _ := spending(t, nightcrier.Anthropic, p, says("application/json", `{"usage":{"input_tokens":10,"output_tokens":1}}`))
		for _, body := range bodies {
			if resp, answer := call(t, g, "POST", "/v1/messages", withToken(g), strings.NewReader(body)); resp.StatusCode != http.StatusOK {
				t.Fatalf("%.100s: %d %s", body, resp.StatusCode, answer)
			}
		}
		return p.wants[len(p.wants)-1]
	}
	picture := `{"model":"m","messages":[{"role":"user","content":[{"type":"%s","source":{"type":"base64","media_type":"%s","data":"AA=="}}]}]}`
	for _, words := range [][]any{{"image", "image/png"}, {`\u0069mage`, `\u0069mage\/png`}} {
		if got := wanted(t, fmt.Sprintf(picture, words...)).Request; got < imageTokens {
			t.Errorf("a picture as %s: %d tokens are set aside", words, got)
		}
	}
	if got := wanted(t, `{"model":"m","messages":[{"role":"user","content":"{\"image\":\"image/x\", \"a\":\"data:image/\"}"}]}`).Request; got > imageTokens {
		t.Errorf("words in a text count as pictures: %d", got)
	}
	for ttl, dear := range map[string]bool{"5m": false, "1h": true, `\u0031h`: true} {
		if w := wanted(t, `{"model":"m","cache_control":{"type":"ephemeral","t\u0074l":"`+ttl+`"}}`); w.CacheHour != dear {
			t.Errorf("kept for %s: %+v", ttl, w)
		}
	}
	long := `{"model":"m","max_tokens":900,"messages":[{"role":"user","content":"` + strings.Repeat("a log ", 20_000) + `"}]`
	for edits, compared := range map[string]bool{
		``: true,
		`{"type":"clear_thinking_20251015","keep":"all"}`:       true,
		`{"type":"clear_thinking_20251015"}`:                    false,
		`{"type":"clear_tool_uses_20250919"}`:                   false,
		`{"type":"\u0063lear_tool_uses_20250919"}`:              false,
		`{"type":"clear_\u0074ool_uses_20250919","keep":"all"}`: false,
	} {
		cleared := long + `,"context_management":{"edits":[` + edits + `]}}`
		if got := wanted(t, cleared, cleared).Request; got < int64(len(long)) != compared {
			t.Errorf("after %s: %d tokens are set aside for %d bytes", edits, got, len(long))
		}
	}
}

// Where the path names the model, the body cannot name another one: that would be
// priced, and allowed, in its place.
func TestModelOfThePath(t *testing.T) {
	p := &purse{output: 1000}
	g, _ := spending(t, nightcrier.Google, p, says("application/json", "{}"))
	g.cfg.Models, g.cfg.NeedsPrice = []string{"m"}, true
	g.cfg.Prices = append(g.cfg.Prices, price.Entry{Model: "dear", Price: price.Price{Output: 5000}})
	for _, c := range []struct {
		path, body string
		status     int
	}{
		{"m", `{"model":"models/m"}`, 200},
		{"m", `{"model":"m"}`, 200},
		{"m", `{}`, 200},
		{"dear", `{"model":"m"}`, 403},
		{"dear", `{"model":"models/m"}`, 403},
		{"dear", `{"MODEL":"m"}`, 403},
		{"m", `{"mo_del":"dear"}`, 403},
		{"m", `{"model":["m"]}`, 403},
		{"dear", `{}`, 403},
	} {
		resp, answer := call(t, g, "POST", "/v1beta/models/"+c.path+":generateContent", withGeminiToken(g), strings.NewReader(c.body))
		if resp.StatusCode != c.status {
			t.Errorf("%s %s: %d %s", c.path, c.body, resp.StatusCode, answer)
		}
	}
}

// Counting costs nothing, so that no budget ends it.
func TestFreeCallsEnd(t *testing.T) {
	u := newUpstream(t, func(http.ResponseWriter, *http.Request) {})
	g, _ := newGuard(t, u.URL)
	g.free.Store(maxFree - 1)
	for i, want := range []int{200, 403, 403} {
		resp, _ := call(t, g, "POST", "/v1/messages/count_tokens", withToken(g), strings.NewReader(`{"model":"m"}`))
		if resp.StatusCode != want {
			t.Errorf("call %d: %d", i, resp.StatusCode)
		}
	}
	if resp, _ := call(t, g, "POST", "/v1/messages", withToken(g), strings.NewReader(`{"model":"m"}`)); resp.StatusCode != 200 {
		t.Errorf("a paid call after them: %d", resp.StatusCode)
	}
}
