package model

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/guard/price"
)

// fuzzedCalls are the calls that a fuzz test makes, by number.
var fuzzedCalls = []struct {
	provider nightcrier.Provider
	base     string
	path     string
}{
	{nightcrier.Anthropic, "", "/v1/messages"},
	{nightcrier.Anthropic, "", "/v1/messages/count_tokens"},
	{nightcrier.OpenAI, "", "/v1/responses"},
	{nightcrier.OpenAI, "", "/v1/chat/completions"},
	{nightcrier.OpenAI, "http://127.0.0.1:8000/v1", "/v1/chat/completions"}, // of somebody else's server
	{nightcrier.Google, "", "/v1beta/models/m:generateContent"},
	{nightcrier.Google, "", "/v1beta/models/m:streamGenerateContent"},
	{nightcrier.Google, "", "/v1beta/models/m:countTokens"},
}

// fuzzedGuard is a guard whose upstream and budget are played by the test, one call after
// the other.
type fuzzedGuard struct {
	*Guard
	path string

	sent    []byte // what reached the upstream, nil for nothing
	granted int64  // of the next call, beneath what it wants; 0 grants all
	wanted  Want   // of the last call
	answer  func(*http.Request) *http.Response
	done    chan Exchange
}

func (g *fuzzedGuard) RoundTrip(r *http.Request) (*http.Response, error) {
	g.sent, _ = io.ReadAll(r.Body)
	return g.answer(r), nil
}

func (g *fuzzedGuard) Reserve(_ context.Context, w Want) (Grant, error) {
	g.wanted = w
	output := w.Output
	if g.granted > 0 {
		output = min(w.Output, max(w.Least, g.granted))
	}
	return fuzzedGrant(output), nil
}

type fuzzedGrant int64

func (n fuzzedGrant) Output() int64           { return int64(n) }
func (fuzzedGrant) Settle(price.Tokens) error { return nil }
func (fuzzedGrant) Release() error            { return nil }
func (fuzzedGrant) Lost()                     {}

// fuzzedSecret is what the guards of fuzz tests mask.
const fuzzedSecret = "hunter2-is-the-known-one"

// fuzzedKey is a key that has a beginning like its end.
const fuzzedKey = "sk-sk-sk-0123456789-sk-sk"

func fuzzedGuards(f *testing.F) (all []*fuzzedGuard) {
	for _, c := range fuzzedCalls {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			f.Fatal(err)
		}
		g := &fuzzedGuard{path: c.path, done: make(chan Exchange, 1)}
		g.Guard, err = Start(l, Config{
			Provider: c.provider, Upstream: c.base, Key: fuzzedKey, Logger: slog.New(slog.DiscardHandler), Transport: g, Budget: g,
			MaxTokens: 5000, Prices: price.Defaults(), Mask: strings.NewReplacer(fuzzedSecret, "‹secret:0f0f›").Replace,
			Record: func(e Exchange) {
				if e.Done {
					g.done <- e
				}
			},
		})
		if err != nil {
			f.Fatal(err)
		}
		f.Cleanup(func() { _ = g.Close() })
		all = append(all, g)
	}
	return all
}

// call makes one call, and returns the status, the answer and what is on record.
func (g *fuzzedGuard) call(body string) (int, string, Exchange) {
	r := httptest.NewRequest("POST", g.path, strings.NewReader(body))
	r.Header = tokenOf(g.Guard, g.cfg.Provider)
	w := httptest.NewRecorder()
	for len(g.slots) > 0 {
		runtime.Gosched() // the last call is put on record
	}
	g.sent = nil
	g.free.Store(0)
	g.ledger.mu.Lock()
	g.ledger.sent = nil // or all that was ever tried stays
	g.ledger.mu.Unlock()
	g.ServeHTTP(w, r)
	var x Exchange
	if g.sent != nil {
		x = <-g.done
	}
	return w.Code, w.Body.String(), x
}

// fuzzedRequests are seeds, by number of the call.
var fuzzedRequests = map[int][]string{
	0: {
		`{"model":"m","max_tokens":9000,"messages":[{"role":"user","content":"hunter2-is-the-known-one"}],"thinking":{"type":"enabled","budget_tokens":8000}}`,
		`{"model":"m","messages":[{"role":"assistant","content":[{"type":"tool_use","id":"i","name":"n","input":{"hunter2-is-the-known-one":1,"id":"hunter2-is-the-known-one"}}]}],"tools":[{"name":"t","input_schema":{}}]}`,
		`{"model":"m","max_tokens":null,"system":[{"type":"text","text":"a\ud800\u2028","cache_control":{"ttl":"1h"}}]}`,
	},
	1: {`{"model":"m","messages":[]}`},
	2: {`{"model":"m","store":false,"input":[{"type":"function_call","call_id":"c","name":"f","arguments":"{\"a\":1}"}],"max_output_tokens":7}`, `{"model":"m","store":false,"input":"x"}`},
	3: {`{"model":"m","stream":true,"messages":[{"role":"tool","tool_call_id":"c","content":"x"}]}`, `{"model":"m","max_tokens":10,"max_completion_tokens":20}`},
	4: {`{"model":"m","stream":true,"messages":[]}`},
	5: {
		`{"contents":[{"parts":[{"functionCall":{"name":"n","args":{"id":"hunter2-is-the-known-one"}}}]}],"generation_config":{"max_output_tokens":70000}}`,
		`{"contents":[],"generationConfig":{"thinkingConfig":{"thinkingBudget":9000}}}`, `{"generationConfig":null}`, `{"generationConfig":{},"generation_config":{}}`,
	},
	6: {`{"contents":[{"parts":[{"text":"x"}]}]}`},
	7: {`{"generateContentRequest":{"contents":[]}}`},
}

// FuzzInspect: what is let through of a request asks for no more than was granted, would
// be let through again, and is then the same to the byte.
func FuzzInspect(f *testing.F) {
	guards := fuzzedGuards(f)
	for n, bodies := range fuzzedRequests {
		for _, body := range bodies {
			f.Add(byte(n), uint16(0), body)
			f.Add(byte(n), uint16(700), body)
		}
	}
	f.Fuzz(func(t *testing.T, n byte, granted uint16, body string) {
		g := guards[int(n)%len(guards)]
		g.answer = func(r *http.Request) *http.Response {
			return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader("{}")), Request: r}
		}
		g.granted, g.wanted = int64(granted), Want{}
		status, said, _ := g.call(body)
		if status != http.StatusOK {
			if g.sent != nil || status != http.StatusForbidden || !json.Valid([]byte(said)) {
				t.Fatalf("refused by %d %s, and sent %q", status, said, g.sent)
			}
			return
		}
		first, want := g.sent, g.wanted
		if !json.Valid(first) || len(first) > 6*len(body)+4096 {
			t.Fatalf("%q became %q", body, first)
		}
		billed := g.facts.callOf("POST", g.path).billed
		if billed && (want.Least < 1 || want.Least > want.Output || want.Output > 5000 || want.Request < 0) {
			t.Errorf("%q wants %+v", body, want)
		}
		allowed := want.Output
		if granted > 0 {
			allowed = min(want.Output, max(want.Least, int64(granted)))
		}
		g.granted = 0
		if status, said, _ := g.call(string(first)); status != http.StatusOK {
			t.Fatalf("%q became %q, which is refused: %s", body, first, said)
		}
		if !bytes.Equal(g.sent, first) {
			t.Errorf("%q became %q, and that %q", body, first, g.sent)
		}
		if g.wanted.Output > allowed {
			t.Errorf("%q became %q, which wants %d of %d", body, first, g.wanted.Output, allowed)
		}
	})
}

// chunked is a body that comes in pieces of n bytes.
func chunked(body string, n byte) io.Reader {
	if n == 0 {
		return strings.NewReader(body)
	}
	return &pieces{[]byte(body), int(n)}
}

type pieces struct {
	left []byte
	n    int
}

func (p *pieces) Read(b []byte) (int, error) {
	if len(p.left) == 0 {
		return 0, io.EOF
	}
	n := copy(b, p.left[:min(len(p.left), p.n)])
	p.left = p.left[n:]
	return n, nil
}

// FuzzStream: an answer costs the same and says the same however it comes in pieces or
// breaks off, never holds the key, and no count of it is out of bounds.
func FuzzStream(f *testing.F) {
	guards := fuzzedGuards(f)
	requests := make([]string, len(guards))
	for n := range guards {
		requests[n] = fuzzedRequests[n][0]
	}
	types := []string{"text/event-stream", "application/json", "text/plain", ""}
	for _, s := range []struct {
		n    byte
		text string
	}{
		{0, "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":9,\"cache_creation_input_tokens\":3,\"cache_creation\":{\"ephemeral_1h_input_tokens\":7}}}}\n\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":5}}\n\n"},
		{0, `{"usage":{"input_tokens":-1,"output_tokens":9223372036854775807}} ` + fuzzedKey},
		{2, "data: {\"response\":{\"usage\":{\"input_tokens\":9,\"input_tokens_details\":{\"cached_tokens\":99},\"output_tokens\":1}}}\r\n\r\n"},
		{3, "data: {\"choices\":[{\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":4}}\n\ndata: [DONE]\n\n"},
		{5, `[{"usageMetadata":{"promptTokenCount":9}},{"usageMetadata":{"candidatesTokenCount":4},"candidates":[{"finishReason":"STOP"}]}]`},
		{6, "data: {\"usageMetadata\":{\"promptTokenCount\":9,\"cachedContentTokenCount\":-5,\"thoughtsTokenCount\":4},\"candidates\":[{\"finishReason\":\"STOP\"}]}\n\n"},
		{6, "sk-sk-" + fuzzedKey + "sk-sk-sk-0123456789-sk-s"},
	} {
		for kind := range types {
			f.Add(s.n, byte(kind), byte(3), false, s.text)
		}
		f.Add(s.n, byte(0), byte(20), true, s.text)
	}
	f.Fuzz(func(t *testing.T, n, kind, size byte, breaks bool, text string) {
		g := guards[int(n)%len(guards)]
		play := func(size byte) (string, Exchange) {
			g.granted = 0
			g.answer = func(r *http.Request) *http.Response {
				body := chunked(text, size)
				if breaks {
					body = io.MultiReader(body, iotest.ErrReader(io.ErrUnexpectedEOF))
				}
				return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {types[int(kind)%len(types)]}}, Body: io.NopCloser(body), Request: r}
			}
			status, said, x := g.call(requests[int(n)%len(guards)])
			if status != http.StatusOK || g.sent == nil {
				t.Fatalf("the call was answered by %d %s", status, said)
			}
			return said, x
		}
		whole, one := play(0)
		apart, other := play(size)
		if want := strings.ReplaceAll(text, fuzzedKey, strings.Repeat("*", len(fuzzedKey))); whole != want || apart != want {
			t.Errorf("%q came as %q, and in pieces as %q", text, whole, apart)
		}
		if one.Tokens != other.Tokens || one.Cost != other.Cost || one.Unknown != other.Unknown {
			t.Errorf("%q costs %+v, and in pieces %+v", text, one.Tokens, other.Tokens)
		}
		c := one.Tokens
		for _, count := range []int64{c.Input, c.CacheWrite, c.CacheWriteHour, c.CacheRead, c.Output} {
			if count < 0 || count > 1<<31 {
				t.Errorf("%q has %+v", text, c)
			}
		}
		if one.Cost < 0 {
			t.Errorf("%q costs %s", text, one.Cost)
		}
	})
}
