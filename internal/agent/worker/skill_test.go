package worker

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent"
	"nightcrier.dev/nightcrier/internal/agent/skill"
	"nightcrier.dev/nightcrier/internal/fake/fakemodel"
)

// toDisk writes files below a directory.
type toDisk string

func (d toDisk) WriteFile(rel string, data []byte, perm fs.FileMode) error {
	path := filepath.Join(string(d), rel)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return os.WriteFile(path, data, perm)
}

// TestCLIsReadTheirSkill has every real CLI read SKILL.md and a reference by their
// paths, with the tool that the prompt names.
func TestCLIsReadTheirSkill(t *testing.T) {
	own, err := skill.Embedded(skill.Troubleshooter)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range clis() {
		t.Run(c.named(), func(t *testing.T) {
			t.Parallel()
			who, err := agent.For(c.executor)
			if err != nil {
				t.Fatal(err)
			}
			if name := c.read("").Name; !strings.HasSuffix(who.FileTool, name) {
				t.Errorf("the prompt would name the tool %s, which is called %s", who.FileTool, name)
			}
			dir := own.Path()
			steps := append([]fakemodel.Step{
				{Tools: []fakemodel.ToolCall{c.read(dir)}},
				{Tools: []fakemodel.ToolCall{c.read(filepath.Join(filepath.Dir(dir), "references/oom.md"))}},
			}, c.report("# found it\n")...)
			b := c.bench(t, steps...)
			if _, err := own.Install(toDisk(b.ws)); err != nil {
				t.Fatal(err)
			}
			_, entries := b.ends(t, nightcrier.StateSuccess, "")
			asked := b.model.Requests("it")
			last := asked[len(asked)-1].Text
			for _, want := range []string{"do those first, the cheapest first", "Not an OOM kill"} {
				if strings.Contains(asked[0].Text, want) || !strings.Contains(last, want) {
					t.Errorf("%q was not read:\n%s", want, clip(text(entries)))
				}
			}
		})
	}
}
