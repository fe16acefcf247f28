package e2e

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/face/api"
	"nightcrier.dev/nightcrier/internal/face/api/client"
	"nightcrier.dev/nightcrier/internal/fake/fakemodel"
	"nightcrier.dev/nightcrier/internal/test/kubetest"
)

// A question about an incident is answered by the real claude CLI from the report and from what it
// reads through the guard, once, though the server is killed meanwhile. What it cites is held
// against what there is, and the next question is told what was answered before.
func TestAQuestionAboutAnIncident(t *testing.T) {
	t.Parallel()
	i := newInquiry(t, kubetest.Start(t), handsOf(claudeCLI(t)))
	i.begin()
	midAnswer(i)()
	inc := i.end(1)
	i.up()
	const holding = "answering"
	asked := func(r fakemodel.Request) bool { return strings.Contains(r.Text, "# A question about an incident") }
	var scripted fakemodel.Scenario
	scripted.Answer = func(r fakemodel.Request) fakemodel.Step {
		switch {
		case !asked(r):
			return fakemodel.Step{Text: "Nobody is asked for this."}
		case strings.Contains(r.Text, "and who must mend it?"):
			return fakemodel.Step{Text: "I do not know."}
		case r.Turn == 0:
			return fakemodel.Step{Tools: []fakemodel.ToolCall{i.hands.look(look{kubectl: "get deployment cart -n " + inc.Namespace() + " -o yaml"})}}
		case r.Turn == 1:
			return fakemodel.Step{Tools: []fakemodel.ToolCall{i.hands.look(look{kubectl: "delete deployment cart -n " + inc.Namespace()})}}
		}
		return fakemodel.Step{Text: "It may not open its ledger (FACT-1), as its Deployment says (E1). It was so before (FACT-77, E99).\x1b[2J", Hold: holding}
	}
	i.model.MustAdd(t, i.hands.cli, scripted)
	c := client.Unix(filepath.Join(i.root, api.SocketName))

	cut := make(chan nightcrier.Question, 1)
	go func() {
		q, err := c.AskIncident(context.Background(), inc.ID, api.NewQuestion{Question: "why? The token is password: hunter2-Zx81-secret", By: "ann"}, func(client.Step) {})
		if nightcrier.CodeOf(err) != nightcrier.Unreachable {
			t.Errorf("the stream of a server that was killed ended with %v", err)
		}
		cut <- q
	}()
	select {
	case <-i.model.Held(holding):
	case q := <-cut:
		t.Fatalf("it ended before it was answered: %+v", q)
	}
	_, err := c.AskIncident(t.Context(), inc.ID, api.NewQuestion{Question: "and now?"}, func(client.Step) {})
	if nightcrier.CodeOf(err) != nightcrier.Conflict {
		t.Errorf("a second question beside the first: %v", err)
	}
	i.v.kill()
	if q := <-cut; q.Seq != 1 || strings.Contains(q.Text, "hunter2") {
		t.Errorf("%+v", q)
	}
	i.up()
	i.model.Release(holding)

	var q nightcrier.Question
	i.eventually(func() string {
		conv, err := c.Questions(t.Context(), inc.ID)
		i.must(err)
		if len(conv.Questions) != 1 || conv.Questions[0].Open() {
			return "the question is not answered"
		}
		q = conv.Questions[0]
		return ""
	})
	if !strings.HasPrefix(q.Answer, "It may not open its ledger") || strings.Contains(q.Answer, "\x1b") || q.Failure != "" || q.By != "ann" ||
		!slices.Equal(q.Facts, []string{"FACT-1"}) || !slices.Equal(q.Evidence, []string{"E1"}) || !slices.Equal(q.Unknown, []string{"E99", "FACT-77"}) {
		t.Errorf("%+v", q)
	}
	turns := map[int]int{}
	for _, r := range i.model.Requests(i.hands.cli) {
		if asked(r) && len(r.Tools) > 0 {
			turns[r.Turn]++
		}
	}
	if turns[0] != 1 || turns[1] != 1 || turns[2] != 1 {
		t.Errorf("the model was asked so often in each turn: %v", turns)
	}
	next, err := c.AskIncident(t.Context(), inc.ID, api.NewQuestion{Question: "and who must mend it?"}, func(client.Step) {})
	i.must(err)
	if next.Answer != "I do not know." || next.Seq != 2 || len(next.Facts)+len(next.Evidence)+len(next.Unknown) != 0 {
		t.Errorf("%+v", next)
	}
	all := i.model.Requests(i.hands.cli)
	if last := all[len(all)-1].Text; !strings.Contains(last, "It may not open its ledger (FACT-1)") || !strings.Contains(last, "incident:E") || strings.Contains(last, "hunter2") {
		t.Errorf("the next was told:\n%s", last)
	}
	i.v.term()
}
