package worker

import (
	"strings"
	"testing"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/fake/fakemodel"
)

// What an agent says itself gets other tags in the calls of its model than the cluster's
// answers have: else it could say what it guesses, and be told.
func TestTagsOfTheAgentsWordsAreApart(t *testing.T) {
	const guess = "hunter2-Q9x7"
	c := claudeCLI()
	b := c.bench(t, append([]fakemodel.Step{{Text: "Is it db_password=" + guess + "?", Tools: []fakemodel.ToolCall{c.read("context/incident.json")}}}, c.report("# Report\n")...)...)
	b.write("context/incident.json", `{"note":"db_password=`+guess+`"}`)
	b.sec.MaskKey = []byte("0123456789abcdef0123456789abcdef")
	if r, entries := b.run(); r.State != nightcrier.StateSuccess {
		t.Fatalf("%+v\n%s", r, text(entries))
	}
	reqs := b.model.Requests("it")
	said := reqs[len(reqs)-1].Text
	if strings.Contains(said, guess) || strings.Count(said, "‹secret:") < 2 {
		t.Errorf("the model is told\n%s", clip(said))
	}
	cluster, model, tools := b.sec.NewMasker().Tag(guess), b.sec.NewSeparateMasker("model").Tag(guess), b.sec.NewSeparateMasker("tools").Tag(guess)
	if strings.Contains(said, cluster) || !strings.Contains(said, model) || cluster == model || model == tools || cluster == tools {
		t.Errorf("tags %s, %s and %s; the model is told\n%s", cluster, model, tools, clip(said))
	}
}
