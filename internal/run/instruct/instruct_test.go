package instruct

import (
	"strings"
	"testing"
	"testing/fstest"

	"nightcrier.dev/nightcrier/internal/agent"
	"nightcrier.dev/nightcrier/internal/agent/skill"
)

func systemOf(t *testing.T, body string) string {
	t.Helper()
	s, err := skill.Load("painter", fstest.MapFS{"SKILL.md": {Data: []byte("---\nname: painter\n---\n" + body)}})
	if err != nil {
		t.Fatal(err)
	}
	return string(Build(Input{Pipeline: "p", Step: "paint", Skill: s, Agent: agent.Executor{Instructions: "x"}})[SystemFile])
}

// An agent is told the order of its phases, and how a gate is said and that it stops at one; who has none is
// told of none.
func TestWhatIsToldOfPhases(t *testing.T) {
	said := systemOf(t, "# Paint\n\n### Phase 1: Look\n\n**Gate**: Say one. Say two. Say three.\n\n### Phase 2: Paint it\n")
	for _, want := range []string{"in this order: 1 (Look), 2 (Paint it).", "begins with `Gate N:`", "3 sentences", "cannot be passed, say so in it, and stop there"} {
		if !strings.Contains(said, want) {
			t.Errorf("it is not told %q:\n%s", want, said)
		}
	}
	for _, body := range []string{"# Paint\n", "### Phase 1: Look\n\n### Phase 2: Paint it\n"} {
		if said := systemOf(t, body); strings.Contains(said, "Work phase by phase") {
			t.Errorf("it is told of gates:\n%s", said)
		}
	}
}
