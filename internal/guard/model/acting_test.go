package model

import (
	"net/http"
	"strings"
	"testing"

	"nightcrier.dev/nightcrier"
)

// A model that acts by itself is asked when the configuration has its very name, and not
// because a pattern fits it or because nothing bounds the models.
func TestModelsThatActByThemselves(t *testing.T) {
	acting := []string{
		"gpt-4o-search-preview", "gpt-5-search-api", "o3-deep-research", "o4-mini-deep-research-2025-06-26", "computer-use-preview", "x:online", "x:online:nitro", "X:ONLINE",
		"compound", "groq/compound-mini", "sonar-pro", "perplexity/sonar", "deep-research-pro-preview", "gemini-2.5-computer-use-preview-10-2025", "glm-4-alltools", "jina-deepsearch-v1",
	}
	for _, provider := range []nightcrier.Provider{nightcrier.Anthropic, nightcrier.OpenAI, nightcrier.Google} {
		for _, model := range acting {
			if provider == nightcrier.Google && strings.ContainsAny(model, ":/") {
				continue // no path of that API holds it
			}
			for _, c := range []struct {
				models []string
				status int
			}{
				{nil, http.StatusForbidden}, {[]string{"*"}, http.StatusForbidden}, {[]string{"*/*", "*:*"}, http.StatusForbidden},
				{[]string{"other", model[:len(model)-1] + "?"}, http.StatusForbidden}, {[]string{"other", model}, http.StatusOK},
			} {
				if got := ask(t, provider, c.models, model); got != c.status {
					t.Errorf("%s %s with %q: %d", provider, model, c.models, got)
				}
			}
		}
		for _, model := range []string{"gpt-5.2-codex", "claude-opus-5-5", "gemini-2.5-flash", "llama-4-70b", "qwen3-coder", "o4-mini"} {
			if got := ask(t, provider, nil, model); got != http.StatusOK {
				t.Errorf("%s %s: %d", provider, model, got)
			}
		}
	}
}

// ask is the status that a call for a model is answered with.
func ask(t *testing.T, provider nightcrier.Provider, models []string, model string) int {
	t.Helper()
	u := newUpstream(t, func(http.ResponseWriter, *http.Request) {})
	g, _ := guardOf(t, provider, u.URL)
	g.cfg.Models = models
	path, body := "/v1/messages", `{"model":"`+model+`","messages":[]}`
	switch provider {
	case nightcrier.OpenAI:
		path = chatPath
	case nightcrier.Google:
		path, body = "/v1beta/models/"+model+":generateContent", `{"contents":[]}`
	}
	resp, _ := call(t, g, "POST", path, tokenOf(g, provider), strings.NewReader(body))
	return resp.StatusCode
}
