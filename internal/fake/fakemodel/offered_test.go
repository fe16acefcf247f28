package fakemodel

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestStepInTheClientsWords(t *testing.T) {
	read := ToolCall{Name: "Read", Input: map[string]any{"file_path": "a.md"}}
	write := ToolCall{Name: "Write", Input: map[string]any{"file_path": "r.md", "content": "# Report"}}
	for name, tt := range map[string]struct {
		tools []string
		want  Step
	}{
		"claude": {[]string{"Read", "Write", "Bash"}, Step{Text: "So.", Tools: []ToolCall{read, write}}},
		"gemini": {[]string{"list_directory", "read_file", "write_file"}, Step{Text: "So.", Tools: []ToolCall{
			{Name: "read_file", Input: map[string]any{"file_path": "a.md"}}, {Name: "write_file", Input: write.Input}}}},
		"goose": {[]string{"kube__list_files", "kube__read_file"}, Step{Text: "# Report", Tools: []ToolCall{{Name: "kube__read_file", Input: map[string]any{"path": "a.md"}}}}},
		"codex": {[]string{"update_plan", "list_files", "read_file"}, Step{Text: "# Report", Tools: []ToolCall{{Name: "read_file", Input: map[string]any{"path": "a.md"}}}}},
		"code":  {[]string{"exec"}, Step{Text: "# Report", Tools: []ToolCall{{Name: "read_file", Input: map[string]any{"path": "a.md"}}}}},
	} {
		if diff := cmp.Diff(tt.want, Step{Text: "So.", Tools: []ToolCall{read, write}}.withOfferedTools(tt.tools), cmp.AllowUnexported(Step{})); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
