package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestNarrowTools(t *testing.T) {
	tests := []struct {
		asked string
		kept  []string
		notes int
	}{
		{readOnlyTools, []string{"Read", "Grep", "Glob", readOnlyBash}, 0},
		{"Read,Write,Grep,Glob,Bash,Skill", []string{"Read", "Write", "Grep", "Glob", readOnlyBash}, 3},
		{"Bash(kubectl get:*)", []string{"Bash(kubectl get:*)"}, 0},
		{"Bash(kubectl:get*,kubectl:delete*)", []string{"Bash(kubectl:get*)"}, 1},
		{"Bash(kubectl:*)", nil, 1},
		{"Bash(*)", nil, 1},
		{"Bash()", nil, 1},
		{"Bash(kubectl get; rm -rf /)", nil, 1},
		{"Bash(kubectl:getsecrets*)", nil, 1},
		{"Bash(kubectl get * && sh)", nil, 1},
		{"Edit,WebFetch,mcp__k8s__pods_delete,Task", nil, 4},
		{"Read(//etc/shadow)", []string{"Read"}, 1},
		{"Read,Read,", []string{"Read"}, 0},
		{"read", nil, 1},
	}
	for _, tt := range tests {
		t.Run(tt.asked, func(t *testing.T) {
			kept, notes := narrowTools(list().words(tt.asked))
			if diff := cmp.Diff(tt.kept, kept); diff != "" {
				t.Error(diff)
			}
			if len(notes) != tt.notes {
				t.Errorf("notes %q, want %d", notes, tt.notes)
			}
		})
	}
}

func TestNarrowedAloud(t *testing.T) {
	cfg, warnings := mustLoad(t, "", "AGENT_ALLOWED_TOOLS=Read,Write,Grep,Glob,Bash,Skill")
	if diff := cmp.Diff([]string{"Read", "Write", "Grep", "Glob", readOnlyBash}, cfg.Agent.AllowedTools); diff != "" {
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

func TestDistance(t *testing.T) {
	tests := []struct {
		a, b string
		want int
	}{{"", "", 0}, {"a", "", 1}, {"timeout", "timeuot", 1}, {"kitten", "sitting", 3}, {"agent", "agents", 1}, {strings.Repeat("x", 200), strings.Repeat("x", 300), 0}}
	for _, tt := range tests {
		if got := distance(tt.a, tt.b); got != tt.want {
			t.Errorf("distance(%q, %q) = %d, want %d", tt.a, tt.b, got, tt.want)
		}
	}
}
