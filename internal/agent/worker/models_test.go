package worker

import (
	"testing"

	"nightcrier.dev/nightcrier/internal/agent"
	"nightcrier.dev/nightcrier/internal/agent/backend"
	"nightcrier.dev/nightcrier/internal/guard/price"
)

// An agent asks for the model that it was given, under the name that its CLI makes of
// it, and for what is configured beside.
func TestModelsThatMayBeAsked(t *testing.T) {
	for _, c := range []struct {
		executor, model string
		models          []string
		yes, no         []string
	}{
		{"claude-code", "sonnet", nil, []string{"sonnet", "claude-sonnet-5-5", "claude-sonnet-5-5-20260801"}, []string{"claude-opus-5-5", "claude-haiku-4-5", "sonnet-x", ""}},
		{"claude-code", "sonnet", []string{"claude-haiku-*"}, []string{"claude-sonnet-5-5", "claude-haiku-4-5-20251001"}, []string{"claude-opus-5-5"}},
		{"claude-code", "opus[1m]", nil, []string{"claude-opus-5-5", "opus[1m]"}, []string{"claude-sonnet-5-5"}},
		{"claude-code", "opusplan", nil, []string{"claude-opus-5-5", "claude-sonnet-5-5"}, []string{"claude-fable-5"}},
		{"claude-code", "claude-sonnet-5-5", nil, []string{"claude-sonnet-5-5", "claude-sonnet-5-5-20260801"}, []string{"claude-sonnet-5"}},
		{"gemini", "flash", nil, []string{"gemini-2.5-flash", "gemini-3-flash-preview"}, []string{"gemini-2.5-flash-lite", "gemini-2.5-pro"}},
		{"gemini", "auto", nil, []string{"gemini-2.5-flash", "gemini-2.5-pro"}, []string{"imagen-4"}},
		{"goose", "anthropic/claude-sonnet-5-5", nil, []string{"anthropic/claude-sonnet-5-5"}, []string{"openai/gpt-5"}},
		{"codex", "", nil, []string{"gpt-5"}, nil},
		{"codex", "", []string{"gpt-5"}, []string{"gpt-5"}, []string{"gpt-5-pro"}},
		{"script", "sonnet", nil, []string{"gpt-5"}, nil},
		{"script", "sonnet", []string{"gpt-5"}, []string{"gpt-5", "claude-sonnet-5-5"}, []string{"gpt-5-pro"}},
	} {
		e, err := agent.For(c.executor)
		if err != nil {
			t.Fatal(err)
		}
		models := (&attempt{worker: &worker{spec: &backend.Spec{Spec: agent.Spec{Model: c.model, Models: c.models}}}, executor: e}).allowedModels()
		asks := func(name string) bool {
			for _, pattern := range models {
				if price.Fits(pattern, name) {
					return true
				}
			}
			return len(models) == 0
		}
		for _, name := range c.yes {
			if !asks(name) {
				t.Errorf("%s with %q and %v may not ask for %s", c.executor, c.model, c.models, name)
			}
		}
		for _, name := range c.no {
			if asks(name) {
				t.Errorf("%s with %q and %v may ask for %q", c.executor, c.model, c.models, name)
			}
		}
	}
}
