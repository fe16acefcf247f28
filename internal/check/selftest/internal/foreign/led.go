package foreign

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/check/selftest/internal/target"
)

// modelEnv leads the clients of each vendor to a scripted model. No key of the user's
// is sent to it.
func modelEnv(base string) map[string]string {
	const key = "selftest"
	return map[string]string{
		"ANTHROPIC_BASE_URL": base, "ANTHROPIC_HOST": base, "ANTHROPIC_API_KEY": key,
		"OPENAI_BASE_URL": base + "/v1", "OPENAI_API_BASE": base + "/v1", "OPENAI_HOST": base, "OPENAI_API_KEY": key, "CODEX_API_KEY": key,
		"GOOGLE_GEMINI_BASE_URL": base, "GOOGLE_HOST": base, "GEMINI_API_KEY": key, "GOOGLE_API_KEY": key,
		// goose, which may be configured for any vendor, and gemini, which else asks
		// whether the directory is trusted, and starts itself once more.
		"GOOSE_PROVIDER": "openai", "GOOSE_MODEL": "scripted",
		"GEMINI_CLI_TRUST_WORKSPACE": "true", "GEMINI_CLI_NO_RELAUNCH": "true",
	}
}

// ledByFiles are what some read in the directory that they are started in: gemini how
// its key is given, codex that it is in a repository. What is a user's own elsewhere
// holds beside them.
var ledByFiles = map[string]string{
	".gemini/settings.json": `{"security":{"auth":{"selectedType":"gemini-api-key"}}}`,
	".git/HEAD":             "ref: refs/heads/main\n",
	".git/objects/.keep":    "",
	".git/refs/.keep":       "",
}

// leadTo has the agent find its model, where variables alone do not do it. All else that
// its user configured stays: that is what is attacked.
func (at *aimed) leadTo(base string) (err error) {
	for name, text := range ledByFiles {
		err = errors.Join(err, target.WriteFile(filepath.Join(at.dir, "work", name), text, 0o600))
	}
	i := slices.IndexFunc(at.argv, func(word string) bool { return filepath.Base(word) == "codex" })
	if err != nil || i < 0 {
		return err
	}
	words, err := codexWords(base)
	at.argv = slices.Insert(at.argv, i+1, words...)
	return err
}

// codexWords are codex's, which takes no address from a variable. They stand before the
// user's own, which so have the last word.
func codexWords(base string) (words []string, err error) {
	address, err := json.Marshal(base + "/v1")
	if err != nil {
		return nil, nightcrier.Errorf(nightcrier.Internal, "selftest: %w", err)
	}
	for _, setting := range []string{
		`model_provider="selftest"`,
		fmt.Sprintf(`model_providers.selftest={name="selftest",base_url=%s,env_key="OPENAI_API_KEY",wire_api="responses",supports_websockets=false,request_max_retries=1}`, address),
		"analytics.enabled=false",
		"check_for_update_on_startup=false",
	} {
		words = append(words, "-c", setting)
	}
	return words, nil
}
