package model

import (
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"

	"nightcrier.dev/nightcrier"
)

// wire is a transport that keeps what would be sent.
type wire struct{ got *http.Request }

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	w.got = r
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
}

// A server without keys gets none, and not the run's token either; without the word for
// it, a guard needs a key.
func TestKeyless(t *testing.T) {
	for _, p := range []nightcrier.Provider{nightcrier.Anthropic, nightcrier.OpenAI} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		w := &wire{}
		c := Config{Provider: p, Upstream: "http://10.0.0.7:11434/v1", Transport: w, Logger: slog.New(slog.DiscardHandler)}
		if _, err := Start(l, c); nightcrier.CodeOf(err) != nightcrier.Invalid {
			t.Fatalf("without a key: %v", err)
		}
		c.Keyless = true
		g, err := Start(l, c)
		if err != nil {
			t.Fatal(err)
		}
		sent := func(what string) {
			t.Helper()
			if w.got == nil || w.got.Header.Get("Authorization")+w.got.Header.Get("X-Api-Key")+w.got.Header.Get("Api-Key") != "" {
				t.Errorf("%s: %s got %+v", p, what, w.got)
			}
			w.got = nil
		}
		path := map[nightcrier.Provider]string{nightcrier.Anthropic: "/v1/messages", nightcrier.OpenAI: "/v1/chat/completions"}[p]
		if resp, _ := call(t, g, "POST", path, http.Header{"Authorization": {"Bearer another"}}, strings.NewReader(`{"model":"m"}`)); resp.StatusCode != http.StatusUnauthorized || w.got != nil {
			t.Errorf("%s: another token: %d", p, resp.StatusCode)
		}
		call(t, g, "POST", path, tokenOf(g, p), strings.NewReader(`{"model":"m"}`))
		sent("a call")
		if err := CheckKey(t.Context(), c); err != nil {
			t.Error(err)
		}
		sent("the question whether it answers")
		_ = g.Close()
	}
}

// Servers that speak one of the APIs at a base URL get the call where they look for it,
// with the key in their header.
func TestUpstreams(t *testing.T) {
	for _, c := range []struct {
		name             string
		provider         nightcrier.Provider
		base, path, want string
		header, key      string
	}{
		{"openrouter", nightcrier.OpenAI, "https://openrouter.ai/api/v1", "/v1/chat/completions", "https://openrouter.ai/api/v1/chat/completions", "Authorization", "Bearer "},
		{"openrouter as anthropic", nightcrier.Anthropic, "https://openrouter.ai/api", "/v1/messages", "https://openrouter.ai/api/v1/messages", "X-Api-Key", ""},
		{"azure", nightcrier.OpenAI, "https://x.openai.azure.com/openai/v1", "/v1/chat/completions", "https://x.openai.azure.com/openai/v1/chat/completions", "Api-Key", ""},
		{"azure's deployments", nightcrier.OpenAI, "https://x.openai.azure.com/openai/deployments/mine?api-version=2026-01-01", "/v1/chat/completions", "https://x.openai.azure.com/openai/deployments/mine/chat/completions?api-version=2026-01-01", "Api-Key", ""},
		{"azure's responses", nightcrier.OpenAI, "https://x.openai.azure.com/openai/deployments/mine/?api-version=2026-01-01", "/v1/responses", "https://x.openai.azure.com/openai/responses?api-version=2026-01-01", "Api-Key", ""},
		{"ollama", nightcrier.OpenAI, "http://127.0.0.1:11434/v1", "/v1/chat/completions", "http://127.0.0.1:11434/v1/chat/completions", "Authorization", "Bearer "},
		{"vllm", nightcrier.OpenAI, "http://10.0.0.7:8000", "/v1/chat/completions", "http://10.0.0.7:8000/v1/chat/completions", "Authorization", "Bearer "},
		{"a gateway", nightcrier.Anthropic, "https://llm.example/anthropic/v1", "/v1/messages", "https://llm.example/anthropic/v1/messages", "X-Api-Key", ""},
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		w := &wire{}
		g, err := Start(l, Config{Provider: c.provider, Upstream: c.base, Key: realKey, Transport: w, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		call(t, g, "POST", c.path, tokenOf(g, c.provider), strings.NewReader(map[bool]string{true: `{"model":"m","store":false}`, false: `{"model":"m"}`}[c.provider == nightcrier.OpenAI]))
		_ = g.Close()
		if w.got == nil || w.got.URL.String() != c.want || w.got.Header.Get(c.header) != c.key+realKey {
			t.Errorf("%s: sent %+v", c.name, w.got)
		}
	}
	for _, base := range []string{
		"https://bedrock-runtime.eu-west-1.amazonaws.com", "https://bedrock-runtime.cn-north-1.amazonaws.com.cn", "https://Bedrock-Runtime.us-east-1.AmazonAWS.com./v1",
		"https://vpce-1-2.bedrock-runtime.us-east-1.vpce.amazonaws.com", "https://bedrock-runtime.us-east-1.api.aws",
		"https://europe-west1-aiplatform.googleapis.com/v1", "https://aiplatform.googleapis.com",
	} {
		if _, _, err := (Config{Upstream: base}).withDefaults().resolveDialect(); nightcrier.CodeOf(err) != nightcrier.Invalid || !strings.Contains(err.Error(), "signed") {
			t.Errorf("%s: %v", base, err)
		}
	}
	for _, base := range []string{"https://gateway.amazonaws.com", "https://bedrock.example", "https://generativelanguage.googleapis.com"} {
		if _, _, err := (Config{Upstream: base}).withDefaults().resolveDialect(); err != nil {
			t.Errorf("%s: %v", base, err)
		}
	}
}
