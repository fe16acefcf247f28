package doctor

import (
	"strings"
	"testing"

	"nightcrier.dev/nightcrier/internal/config"
)

// doctor tells of an address that an agent would be refused for, and does not try it, or
// its key, elsewhere.
func TestDoctorRefusesSignedUpstreams(t *testing.T) {
	const bedrock = "https://bedrock-runtime.cn-north-1.amazonaws.com.cn"
	env := []string{"ANTHROPIC_API_KEY=k", "OPENAI_API_KEY=k", "OPENAI_BASE_URL=" + bedrock, "AGENT_EXECUTOR=claude-code"}
	cfg, _, err := config.Load(config.Options{Env: env})
	if err != nil {
		t.Fatal(err)
	}
	checks := checkOther(t.Context(), cfg, cfg.AgentToLookAt("codex"), Options{CheckKey: true})
	if len(checks) != 1 || checks[0].Status != statusFail || !strings.Contains(checks[0].Detail, "OPENAI_BASE_URL") || !strings.Contains(checks[0].Detail, "signed") {
		t.Errorf("found %+v", checks)
	}
}
