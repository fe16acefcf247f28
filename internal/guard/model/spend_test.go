package model

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/guard/price"
)

// purse is a budget that writes down what it is asked.
type purse struct {
	mu       sync.Mutex
	wants    []Want
	settled  []price.Tokens
	released int
	lost     int
	output   int64 // granted at most
	refuse   error
}

func (p *purse) Reserve(ctx context.Context, w Want) (Grant, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wants = append(p.wants, w)
	if p.refuse != nil {
		return nil, p.refuse
	}
	return &coin{p, min(w.Output, max(p.output, w.Least))}, nil
}

type coin struct {
	purse  *purse
	output int64
}

func (c *coin) Output() int64 { return c.output }

func (c *coin) Settle(t price.Tokens) error {
	c.purse.mu.Lock()
	defer c.purse.mu.Unlock()
	c.purse.settled = append(c.purse.settled, t)
	return nil
}

func (c *coin) Release() error {
	c.purse.mu.Lock()
	defer c.purse.mu.Unlock()
	c.purse.released++
	return nil
}

func (c *coin) Lost() {
	c.purse.mu.Lock()
	defer c.purse.mu.Unlock()
	c.purse.lost++
}

// spending is a guard with a budget before an upstream that gives one answer.
func spending(t *testing.T, p nightcrier.Provider, budget Budget, answer http.HandlerFunc) (*Guard, chan string) {
	t.Helper()
	got := make(chan string, 100)
	u := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		got <- string(b)
		answer(w, r)
	})
	g, _ := guardOf(t, p, u.URL)
	g.cfg.Budget, g.cfg.Prices = budget, price.Table{{Model: "m", Price: price.Price{Input: 10, CacheRead: 1, CacheWrite: 12, CacheWriteHour: 20, Output: 50}}}
	return g, got
}

func tokenOf(g *Guard, p nightcrier.Provider) http.Header {
	switch p {
	case nightcrier.OpenAI:
		return withBearer(g)
	case nightcrier.Google:
		return withGeminiToken(g)
	}
	return withToken(g)
}

func says(kind, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		_, _ = io.WriteString(w, text)
	}
}

const events = "text/event-stream"

// Each API tells what a call cost in its own way: to the budget it goes exactly, in
// kinds, before the caller has the answer's end.
func TestCallsAreSettled(t *testing.T) {
	anthropicStream := `data: {"type":"message_start","message":{"usage":{"input_tokens":3,"cache_creation_input_tokens":9,"cache_creation":{"ephemeral_5m_input_tokens":5,"ephemeral_1h_input_tokens":4},"cache_read_input_tokens":100,"output_tokens":1}}}` +
		"\n\n" + `data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":7}}` + "\n\n"
	for _, c := range []struct {
		name       string
		provider   nightcrier.Provider
		path, body string
		answer     http.HandlerFunc
		want       price.Tokens
	}{
		{"messages", nightcrier.Anthropic, "/v1/messages", `{"model":"m"}`, says("application/json", plainAnswer), price.Tokens{Input: 10, CacheRead: 5, Output: 7}},
		{"messages stream", nightcrier.Anthropic, "/v1/messages", `{"model":"m"}`, says(events, anthropicStream),
			price.Tokens{Input: 3, CacheWrite: 5, CacheWriteHour: 4, CacheRead: 100, Output: 7}},
		{"an error", nightcrier.Anthropic, "/v1/messages", `{"model":"m"}`, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(529) }, price.Tokens{}},
		{"responses", nightcrier.OpenAI, "/v1/responses", `{"model":"m","store":false}`, says("application/json", `{"usage":{"input_tokens":10,"input_tokens_details":{"cached_tokens":4},"output_tokens":7,"output_tokens_details":{"reasoning_tokens":6}}}`),
			price.Tokens{Input: 6, CacheRead: 4, Output: 7}},
		{"chat stream", nightcrier.OpenAI, "/v1/chat/completions", `{"model":"m","stream":true}`,
			says(events, "data: {\"choices\":[{\"finish_reason\":null}],\"usage\":{\"prompt_tokens\":10,\"completion_tokens\":1}}\n\ndata: {\"choices\":[],\"usage\":{\"prompt_tokens\":10,\"prompt_tokens_details\":{\"cached_tokens\":8},\"completion_tokens\":7}}\n\ndata: [DONE]\n\n"),
			price.Tokens{Input: 2, CacheRead: 8, Output: 7}},
		{"gemini stream", nightcrier.Google, "/v1beta/models/m:streamGenerateContent", `{}`,
			says(events, "data: {\"candidates\":[{}],\"usageMetadata\":{\"promptTokenCount\":10,\"candidatesTokenCount\":1}}\n\ndata: {\"candidates\":[{\"finishReason\":\"STOP\"}],\"usageMetadata\":{\"promptTokenCount\":10,\"cachedContentTokenCount\":8,\"candidatesTokenCount\":3,\"thoughtsTokenCount\":4}}\n\n"),
			price.Tokens{Input: 2, CacheRead: 8, Output: 7}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &purse{output: 1000}
			g, _ := spending(t, c.provider, p, c.answer)
			req, _ := http.NewRequestWithContext(t.Context(), "POST", g.URL()+c.path, strings.NewReader(c.body))
			req.Header = tokenOf(g, c.provider)
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			for lines := bufio.NewReader(resp.Body); ; {
				line, err := lines.ReadString('\n')
				if strings.Contains(line, "end_turn") || strings.Contains(line, "STOP") || strings.Contains(line, "[DONE]") || err != nil {
					break
				}
			}
			p.mu.Lock()
			defer p.mu.Unlock()
			if len(p.settled) != 1 || p.settled[0] != c.want || p.released != 0 {
				t.Errorf("settled %+v, released %d", p.settled, p.released)
			}
			if w := p.wants[0]; w.Model != "m" || w.Output != DefaultMaxTokens || w.Request < int64(len(c.body)) || w.Price.Output != 50 {
				t.Errorf("wanted %+v", w)
			}
		})
	}
}

// A call that was sent and whose answer breaks off stays reserved; one that was not
// sent is given back.
func TestCallsThatNobodyKnowsTheCostOf(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"before it begins": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"in the middle": func(w http.ResponseWriter, r *http.Request) {
			says(events, `data: {"type":"message_start","message":{"usage":{"input_tokens":3,"output_tokens":1}}}`+"\n\n")(w, r)
		},
		"without a word of it": says("application/json", `{}`),
	} {
		p := &purse{output: 1000}
		g, _ := spending(t, nightcrier.Anthropic, p, answer)
		call(t, g, "POST", "/v1/messages", withToken(g), strings.NewReader(`{"model":"m"}`))
		_ = g.Close()
		if len(p.wants) != 1 || len(p.settled) != 0 || p.released != 0 || p.lost != 1 {
			t.Errorf("%s: %+v", name, p)
		}
	}
	p := &purse{output: 1000}
	g, _ := spending(t, nightcrier.Anthropic, p, says(events, ""))
	other := newUpstream(t, nil)
	other.Close()
	g.proxy.Transport = transportOrDefault(nil)
	h, _ := guardOf(t, nightcrier.Anthropic, other.URL)
	h.cfg.Budget, h.cfg.Prices = p, g.cfg.Prices
	call(t, h, "POST", "/v1/messages", withToken(h), strings.NewReader(`{"model":"m"}`))
	_ = h.Close()
	if len(p.wants) != 1 || len(p.settled) != 0 || p.released != 1 || p.lost != 0 {
		t.Errorf("not sent: %+v", p)
	}
}

// Where nothing is left no call is made, and the caller is told why for good.
func TestNothingIsLeft(t *testing.T) {
	for _, p := range []nightcrier.Provider{nightcrier.Anthropic, nightcrier.OpenAI, nightcrier.Google} {
		purse := &purse{refuse: nightcrier.Errorf(nightcrier.Exhausted, "budget.per_run_usd: $2.00 of $2.00 are spent")}
		g, got := spending(t, p, purse, says("application/json", `{}`))
		var told error
		g.cfg.Spent = func(err error) { told = err }
		path := map[nightcrier.Provider]string{nightcrier.Anthropic: "/v1/messages", nightcrier.OpenAI: "/v1/chat/completions", nightcrier.Google: "/v1beta/models/m:generateContent"}[p]
		resp, answer := call(t, g, "POST", path, tokenOf(g, p), strings.NewReader(`{"model":"m"}`))
		if resp.StatusCode != http.StatusForbidden || resp.Header.Get("X-Should-Retry") != "false" || !strings.Contains(answer, "$2.00 of $2.00") {
			t.Errorf("%s: %d %v %s", p, resp.StatusCode, resp.Header, answer)
		}
		if nightcrier.CodeOf(told) != nightcrier.Exhausted || len(got) != 0 {
			t.Errorf("%s: told %v, %d calls were made", p, told, len(got))
		}
	}
	g, got := spending(t, nightcrier.Anthropic, &purse{}, says("application/json", `{}`))
	g.cfg.NeedsPrice = true
	if resp, answer := call(t, g, "POST", "/v1/messages", withToken(g), strings.NewReader(`{"model":"unheard-of"}`)); resp.StatusCode != http.StatusForbidden || !strings.Contains(answer, `add \"anthropic:unheard-of=IN/OUT/READ/WRITE\" to agent.prices`) || len(got) != 0 {
		t.Errorf("without a price: %d %s", resp.StatusCode, answer)
	}
}

// How long an answer may be is bounded, by us and by what is left.
func TestAnswersAreShortened(t *testing.T) {
	for _, c := range []struct {
		provider         nightcrier.Provider
		path, body, want string
		granted          int64
	}{
		{nightcrier.Anthropic, "/v1/messages", `{"model":"m","max_tokens":128000 , "top_k":1}`, `{"model":"m","max_tokens":32000 , "top_k":1}`, 1 << 30},
		{nightcrier.Anthropic, "/v1/messages", `{"model":"m", "max_tokens":1000}`, `{"model":"m", "max_tokens":400}`, 400},
		{nightcrier.Anthropic, "/v1/messages", `{"model":"m"}`, `{"max_tokens":400,"model":"m"}`, 400},
		{nightcrier.Anthropic, "/v1/messages", `{"max_tokens":null}`, `{"max_tokens":32000}`, 1 << 30},
		{nightcrier.Anthropic, "/v1/messages", `{"max_tokens":9000,"thinking":{"type":"enabled","budget_tokens":8000}}`, `{"max_tokens":2000,"thinking":{"type":"enabled","budget_tokens":1999}}`, 2000},
		{nightcrier.Anthropic, "/v1/messages", `{"max_tokens":9000,"thinking":{"type":"enabled","budget_tokens":8000}}`, `{"max_tokens":1280,"thinking":{"type":"enabled","budget_tokens":1279}}`, 10},
		{nightcrier.Anthropic, "/v1/messages/count_tokens", `{"model":"m"}`, `{"model":"m"}`, 1 << 30},
		{nightcrier.OpenAI, "/v1/responses", `{"store":false}`, `{"max_output_tokens":32000,"store":false}`, 1 << 30},
		{nightcrier.OpenAI, "/v1/chat/completions", `{"max_tokens":1e6}`, `{"max_tokens":32000}`, 1 << 30},
		{nightcrier.OpenAI, "/v1/chat/completions", `{"max_tokens":900,"max_completion_tokens":800}`, `{"max_tokens":500,"max_completion_tokens":500}`, 500},
		{nightcrier.Google, "/v1beta/models/m:generateContent", `{}`, `{"generationConfig":{"maxOutputTokens":32000}}`, 1 << 30},
		{nightcrier.Google, "/v1beta/models/m:generateContent", `{"generation_config":{}}`, `{"generation_config":{"maxOutputTokens":32000}}`, 1 << 30},
		{nightcrier.Google, "/v1beta/models/m:generateContent", `{"generationConfig":{"max_output_tokens":65536,"thinkingConfig":{"thinkingBudget":-1}}}`, `{"generationConfig":{"max_output_tokens":1500,"thinkingConfig":{"thinkingBudget":-1}}}`, 1500},
		{nightcrier.Google, "/v1beta/models/m:generateContent", `{"generationConfig":{"thinkingConfig":{"thinkingBudget":8192}}}`, `{"generationConfig":{"maxOutputTokens":1500,"thinkingConfig":{"thinkingBudget":1499}}}`, 1500},
	} {
		g, got := spending(t, c.provider, &purse{output: c.granted}, says("application/json", `{}`))
		body := c.body
		if resp, answer := call(t, g, "POST", c.path, tokenOf(g, c.provider), strings.NewReader(body)); resp.StatusCode != http.StatusOK {
			t.Errorf("%s: %d %s", body, resp.StatusCode, answer)
			continue
		}
		if sent := <-got; strings.Replace(sent, `{"x":1,`, "{", 1) != c.want {
			t.Errorf("%s with %s became %s, want %s", body, strconv.FormatInt(c.granted, 10), sent, c.want)
		}
	}
	g, _ := spending(t, nightcrier.Anthropic, nil, says("application/json", `{}`))
	for _, bad := range []string{`"9"`, `0`, `-5`, `[]`, `true`} {
		if resp, answer := call(t, g, "POST", "/v1/messages", withToken(g), strings.NewReader(`{"max_tokens":`+bad+`}`)); resp.StatusCode != http.StatusForbidden {
			t.Errorf("max_tokens %s: %d %s", bad, resp.StatusCode, answer)
		}
	}
}

// crowd is a budget of which others hold all.
type crowd struct{ waits chan struct{} }

func (c crowd) Reserve(ctx context.Context, _ Want) (Grant, error) {
	c.waits <- struct{}{}
	<-ctx.Done()
	return nil, ctx.Err()
}

// An agent that hangs up while its call waits for others has not spent its budget.
func TestHangingUpWhileWaiting(t *testing.T) {
	c := crowd{make(chan struct{})}
	g, _ := spending(t, nightcrier.Anthropic, c, says("application/json", plainAnswer))
	g.cfg.Spent = func(err error) { t.Errorf("the run would end: %v", err) }
	ctx, hangUp := context.WithCancel(t.Context())
	req, _ := http.NewRequestWithContext(ctx, "POST", g.URL()+"/v1/messages", strings.NewReader(`{"model":"m"}`))
	req.Header = withToken(g)
	done := make(chan error)
	go func() {
		resp, err := http.DefaultClient.Do(req)
		if err == nil {
			resp.Body.Close()
		}
		done <- err
	}()
	<-c.waits
	hangUp()
	if err := <-done; err == nil {
		t.Error("the call was answered")
	}
	_ = g.Close() // when the call is over
}
