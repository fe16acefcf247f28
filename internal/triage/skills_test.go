package triage

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent"
	"nightcrier.dev/nightcrier/internal/agent/skill"
	"nightcrier.dev/nightcrier/internal/record/workspace"
	"nightcrier.dev/nightcrier/internal/triage/prompt"
)

// Whoever investigates is told of a SKILL.md that is there, by means that it has.
func TestEveryAgentFindsItsSkills(t *testing.T) {
	root, err := workspace.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	own, err := skill.Embedded(skill.Troubleshooter)
	if err != nil {
		t.Fatal(err)
	}
	team, err := skill.Load("payments", fstest.MapFS{"SKILL.md": {Data: []byte("---\ndescription: for the queue\n---\n")}})
	if err != nil {
		t.Fatal(err)
	}
	r := &Triage{Skill: own, Include: []*skill.Skill{team}}
	all := []string{"Bash(kubectl:get*,kubectl:describe*,kubectl:logs*)"}
	for _, who := range agent.Executors() {
		ws, err := root.Create(nightcrier.NewID())
		if err != nil {
			t.Fatal(err)
		}
		defer ws.Close()
		b, err := prompt.Build(prompt.Input{
			Incident: &nightcrier.Incident{}, Agent: promptAgent(who, all), CanLook: true, SkillPath: own.Path(), Skills: r.includedSkills(),
		})
		if err != nil {
			t.Fatal(err)
		}
		refs, err := r.installFiles(b, ws)
		if err != nil || len(refs) != 2 || refs[1] != team.Ref() {
			t.Errorf("%s: %+v %v", who.Name, refs, err)
		}
		for _, s := range []*skill.Skill{own, team} {
			if _, err := os.Stat(filepath.Join(ws.Dir(), s.Path())); err != nil || !strings.Contains(string(b.Sent), "`"+s.Path()+"`") {
				t.Errorf("%s: %s is not there, or not told: %v", who.Name, s.Path(), err)
			}
		}
		if who.UsesTools && (who.FileTool == "" || len(promptAgent(who, all).Tools) == 0) {
			t.Errorf("%s has no shell, and is told to read and look with one", who.Name)
		}
	}
}
