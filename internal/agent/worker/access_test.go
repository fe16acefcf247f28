package worker

import (
	"bytes"
	"testing"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/fake/fakemodel"
)

// What an agent reads and writes of its workspace, and what it tries to beyond, is in the
// journal by name, with what came of it.
func TestAccessToTheWorkspaceIsOnRecord(t *testing.T) {
	for _, row := range clis() {
		if row.noShell {
			continue // the same programs
		}
		t.Run(row.named(), func(t *testing.T) {
			t.Parallel()
			report := row.report("# Report\n")
			b := row.bench(t, append([]fakemodel.Step{
				{Text: "What happened?", Tools: []fakemodel.ToolCall{row.read("context/incident.json")}},
				{Text: "And here?", Tools: []fakemodel.ToolCall{row.read("/etc/shadow")}},
			}, report...)...)
			_, entries := b.ends(t, nightcrier.StateSuccess, "")
			said := func(kind nightcrier.EntryType, what string) (n int) {
				for _, e := range entries {
					if e.Type == kind && bytes.Contains(e.Data, []byte(what)) {
						n++
					}
				}
				return n
			}
			if said(nightcrier.EntryToolCall, "context/incident.json") != 1 || said(nightcrier.EntryToolCall, "/etc/shadow") != 1 {
				t.Errorf("reads are not journaled once each:\n%s", clip(text(entries)))
			}
			results := 0
			for _, e := range entries {
				if e.Type == nightcrier.EntryToolResult {
					results++
				}
			}
			if results < 2 || said(nightcrier.EntryDenial, "/etc/shadow") == 0 && said(nightcrier.EntryToolResult, `"error":true`) == 0 {
				t.Errorf("%d results, and the refusal is not told:\n%s", results, clip(text(entries)))
			}
			for _, step := range report {
				for _, call := range step.Tools {
					if said(nightcrier.EntryToolCall, call.Name) == 0 {
						t.Errorf("the call of %s is not journaled:\n%s", call.Name, clip(text(entries)))
					}
				}
			}
		})
	}
}
