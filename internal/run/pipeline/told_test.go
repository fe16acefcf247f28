package pipeline

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent/skill"
)

// Who is told follows from how the run and its steps ended, and from what the steps delivered.
func TestWhoIsTold(t *testing.T) {
	t.Parallel()
	const first = "name: p\nnotifications:\n"
	text := "  - {channel: slack, text: '\"built \" + steps.b.output.image + \" for \" + input.app'}\n"
	good := nightcrier.Run{Status: nightcrier.Finished, Outcome: nightcrier.StateSuccess, Steps: []nightcrier.Step{{ID: "b", State: nightcrier.StateSuccess, Output: json.RawMessage(`{"image":"x:1","n":3}`)}}}
	bad := nightcrier.Run{Status: nightcrier.Finished, Outcome: nightcrier.StateFailed, Steps: []nightcrier.Step{{ID: "b", State: nightcrier.StateFailed}}}
	cancelled := nightcrier.Run{Status: nightcrier.Finished, Outcome: nightcrier.StateCancelled, Steps: []nightcrier.Step{{ID: "b", State: nightcrier.StateCancelled}}}
	expired := nightcrier.Run{Status: nightcrier.Dropped, Reason: nightcrier.QueueExpired}
	replaced := nightcrier.Run{Status: nightcrier.Dropped, Reason: nightcrier.Superseded}
	on := func(words string) string { return "  - {channel: slack, on: [" + words + "]}\n" }
	said := func(text string) []Telling { return []Telling{{"slack", text}} }
	for name, tt := range map[string]struct {
		rules string
		skill []skill.Notification
		run   nightcrier.Run
		want  []Telling
		wrong string
	}{
		"text":                  {text, nil, good, said("built x:1 for shop"), ""},
		"text without its step": {text, nil, bad, said(""), "p.yaml:3: notifications[0].text"},
		"success, failed":       {on("success"), nil, bad, nil, ""},
		"failure, failed":       {on("failure"), nil, bad, said(""), ""},
		"error, failed":         {on("error"), nil, bad, said(""), ""},
		"failure, well":         {on("failure"), nil, good, nil, ""},
		"both, cancelled":       {on("success, failure"), nil, cancelled, nil, ""},
		"always, cancelled":     {on("always"), nil, cancelled, said(""), ""},
		"never began":           {on("failure"), nil, expired, said(""), ""},
		"replaced":              {on("failure"), nil, replaced, nil, ""},
		"condition":             {"  - {channel: slack, if: steps.b.output.n > 3}\n", nil, good, nil, ""},
		"condition that fails":  {"  - {channel: slack, if: steps.b.output.n > 3}\n", nil, bad, said(""), "p.yaml:3: notifications[0].if"},
		"once a channel":        {text + on("always"), []skill.Notification{{Channel: "slack"}}, good, said("built x:1 for shop"), ""},
		"the skill's":           {on("failure"), []skill.Notification{{Channel: "slack", On: []string{"success"}}}, good, said(""), ""},
		"not the skill's":       {on("failure"), []skill.Notification{{Channel: "slack", On: []string{"error"}}}, good, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := mustRead(t, first+tt.rules+"steps: [{id: b, skill: x/b}]\n")
			f := Frozen{Version: FrozenVersion, Definition: *d, Skills: map[string]SkillPin{"x/b": {Notifications: tt.skill}}}
			got, wrong := f.ListTold(t.Context(), tt.run, map[string]any{"app": "shop"})
			if diff := cmp.Diff(tt.want, got); diff != "" || (wrong == nil) != (tt.wrong == "") || wrong != nil && !strings.Contains(wrong.Error(), tt.wrong) {
				t.Errorf("%v\n%s", wrong, diff)
			}
			if !f.Tells() {
				t.Error("nobody may be told")
			}
		})
	}
}
