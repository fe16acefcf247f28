package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestNarrowedAloud(t *testing.T) {
	cfg, warnings := mustLoad(t, "", "AGENT_ALLOWED_TOOLS=Read,Write,Grep,Glob,Bash,Skill")
	if diff := cmp.Diff([]string{"Read", "Write", "Grep", "Glob", strings.Replace(readOnlyBash, "logs*", "logs*,kubectl:events*,kubectl:top*,kubectl:explain*,kubectl:api-resources*,kubectl:api-versions*,kubectl:version*", 1)}, cfg.Agent.AllowedTools); diff != "" {
		t.Error(diff)
	}
	if len(warnings) != 1 || !strings.HasPrefix(warnings[0].String(), "env AGENT_ALLOWED_TOOLS: ") || !hasWarning(warnings, "Skill is not available") {
		t.Errorf("warnings %v", warnings)
	}
	cfg, _ = mustLoad(t, "agent: {allowed_tools: []}")
	if len(cfg.Agent.AllowedTools) != 0 {
		t.Errorf("an empty list grants %v", cfg.Agent.AllowedTools)
	}
}
