package worker

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/fake/fakemodel"
)

// What goose offers its model is what we let it: no shell, no editor, no way to get
// one. Its instructions arrive as they are, however long, and whatever a template
// would make of them.
func TestGooseOffersOurToolsAlone(t *testing.T) {
	c := gooseCLI(nightcrier.Anthropic)
	b := c.bench(t, append([]fakemodel.Step{{Tools: []fakemodel.ToolCall{c.read(".claude/skills/x/SKILL.md")}}}, c.report("# found it\n")...)...)
	b.sec.Cluster = nil
	b.must(os.MkdirAll(filepath.Join(b.ws, ".claude/skills/x"), 0o700))
	b.write(".claude/skills/x/SKILL.md", "Look at the events first.\n")
	const hostile = "{{ 6 * 7 }} {% include '/etc/passwd' %} {# gone #} @/etc/shadow {\"a\": {}}"
	b.write("context/system-instructions.txt", hostile+"\n"+strings.Repeat("0123456789abcde\n", 300<<10/16)+"the end of it")
	b.ends(t, nightcrier.StateSuccess, "")
	all := b.model.Requests("it")
	for _, r := range all {
		if got := slices.Sorted(slices.Values(r.Tools)); !slices.Equal(got, []string{"kube__list_files", "kube__read_file", "kube__read_result"}) {
			t.Errorf("the model was offered %q", got)
		}
		if !strings.Contains(r.Text, hostile) || !strings.Contains(r.Text, "the end of it") {
			t.Error("the model was not shown the instructions as they are")
		}
	}
	if !strings.Contains(all[len(all)-1].Text, "Look at the events first.") {
		t.Error("the skill was not read")
	}
	if len(all) != 2 {
		t.Errorf("%d calls of the model for two turns", len(all))
	}
}

// Behind the list of what is offered stands the list of what may be used: a tool
// that is not on it ends the run, and is not run.
func TestGooseAsksNobody(t *testing.T) {
	c := gooseCLI(nightcrier.Anthropic)
	b := c.bench(t, fakemodel.Step{Tools: []fakemodel.ToolCall{c.read("context/incident.json")}}, fakemodel.Step{Text: "Done."})
	shim := filepath.Join(filepath.Dir(b.ws), "shim.sh")
	b.must(os.WriteFile(shim, fmt.Appendf(nil, "#!/bin/sh\necho 'user: {always_allow: [], ask_before: [], never_allow: []}' > $HOME/.config/goose/permission.yaml\nexec %s \"$@\"\n", b.spec.Command), 0o755))
	real, err := filepath.EvalSymlinks(b.spec.Command)
	b.must(err)
	b.spec.ReadPaths, b.spec.Command = []string{installed(real)}, shim
	r, _ := b.ends(t, nightcrier.StateFailed, nightcrier.FailAgent)
	if b.turns() != 1 || !strings.Contains(r.FailureReason, "approval") {
		t.Errorf("%d turns, %s", b.turns(), r.FailureReason)
	}
}

// A limit of turns is goose's own, though it exits with 0 at it.
func TestGooseTurnsAreLimited(t *testing.T) {
	c := gooseCLI(nightcrier.OpenAI)
	b := c.bench(t, fakemodel.Step{Repeat: true, Tools: []fakemodel.ToolCall{c.read("context/incident.json")}})
	b.spec.MaxTurns = 3
	r, _ := b.ends(t, nightcrier.StateFailed, nightcrier.FailAgent)
	if r.TerminalEvent != "max_turns" || b.turns() != 3 || !strings.Contains(r.FailureReason, "agent.max_turns") {
		t.Errorf("%s after %d turns: %s", r.TerminalEvent, b.turns(), r.FailureReason)
	}
}

// Newer models of OpenAI's are called by the Responses API.
func TestGooseSpeaksResponses(t *testing.T) {
	c := gooseCLI(nightcrier.OpenAI)
	c.model = "gpt-5"
	b := c.bench(t, append([]fakemodel.Step{{Tools: []fakemodel.ToolCall{c.read("context/incident.json")}}}, c.report("# found it\n")...)...)
	r, _ := b.ends(t, nightcrier.StateSuccess, "")
	if all := b.model.Requests("it"); r.FinalMessage != "# found it" || !strings.HasSuffix(all[len(all)-1].Path, "/v1/responses") {
		t.Errorf("%q by %s", r.FinalMessage, all[len(all)-1].Path)
	}
}

// The tools of goose read a real cluster through the guard, and what they read is
// evidence that it is told of.
func TestGooseLooksIntoACluster(t *testing.T) {
	k := newCluster(t)
	ns := k.Namespace(t)
	k.Pod(t, ns, "cart", nil)
	k.secret(t, ns)
	c := gooseCLI(nightcrier.Anthropic)
	call := func(tool, kind, name string) fakemodel.Step {
		return fakemodel.Step{Tools: []fakemodel.ToolCall{{Name: "kube__kubernetes_" + tool, Input: map[string]any{"kind": kind, "namespace": ns, "name": name}}}}
	}
	b := c.bench(t, call("get", "Pod", "cart"), call("get", "Secret", "api"), call("delete", "Pod", "cart"), fakemodel.Step{Text: "Done."})
	b.sec.Cluster, b.spec.Namespace, b.spec.AllowedTools = k.cred, ns, []string{"Bash(kubectl:get*)"}
	b.prepared(t)
	_, entries := b.ends(t, nightcrier.StateSuccess, "")
	read := find(requestsOf(t, entries), "get", "pods", true)
	if read == nil || read.Status != 200 {
		t.Fatalf("the read is journaled as %+v\n%s", read, clip(text(entries)))
	}
	b.kept(t, read)
	all := b.model.Requests("it")
	if last := all[len(all)-1].Text; !strings.Contains(last, "cart") || !strings.Contains(last, read.Evidence) {
		t.Errorf("the model was not told of the Pod and of %s:\n%s", read.Evidence, clip(last))
	}
	if slices.Contains(all[0].Tools, "kube__kubernetes_logs") || !slices.Contains(all[0].Tools, "kube__kubernetes_get") {
		t.Errorf("offered %q to one who may only get", all[0].Tools)
	}
	k.onlyReads(t)
	b.nowhere(t, "hunter2-in-the-cluster", "aHVudGVyMi1pbi10aGUtY2x1c3Rlcg")
}
