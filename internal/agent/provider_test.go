package agent

import (
	"slices"
	"testing"

	"nightcrier.dev/nightcrier"
)

// A script finds the guard by the names that its provider's clients read, and by
// no other's.
func TestScriptFindsTheModelOfItsProvider(t *testing.T) {
	for provider, want := range map[nightcrier.Provider][]string{
		"":                   {"ANTHROPIC_API_KEY=run", "ANTHROPIC_BASE_URL=http://127.0.0.1:1"},
		nightcrier.Anthropic: {"ANTHROPIC_API_KEY=run", "ANTHROPIC_BASE_URL=http://127.0.0.1:1"},
		nightcrier.OpenAI:    {"OPENAI_API_KEY=run", "OPENAI_BASE_URL=http://127.0.0.1:1/v1"},
		nightcrier.Google:    {"GEMINI_API_KEY=run", "GOOGLE_GEMINI_BASE_URL=http://127.0.0.1:1"},
	} {
		env := map[string]string{}
		addModel(env, Job{Spec: Spec{Provider: provider}, ModelURL: "http://127.0.0.1:1", ModelToken: "run"})
		if got := listEnv(env); !slices.Equal(got, want) {
			t.Errorf("%q: %v", provider, got)
		}
	}
}
