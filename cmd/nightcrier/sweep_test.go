package main

import (
	"bytes"
	"strings"
	"testing"

	"nightcrier.dev/nightcrier/internal/oneshot/triage"

	"nightcrier.dev/nightcrier"
)

func TestBoundsOfASweep(t *testing.T) {
	onCard := nightcrier.NotChecked{What: "kubectl logs cart", Why: "forbidden"}
	only := nightcrier.NotChecked{What: "list nodes", Why: "the credential may not read it, or the snapshot does not hold it"}
	found := triage.Result{Report: &nightcrier.Report{NotChecked: []nightcrier.NotChecked{onCard}}}
	swept := triage.Swept{
		Whole: triage.Result{Report: &nightcrier.Report{NotChecked: []nightcrier.NotChecked{onCard, only}}},
		Left:  []nightcrier.Object{{Kind: "Deployment", Namespace: "fleet", Name: "tracking"}},
	}
	for name, c := range map[string]struct {
		found  []triage.Result
		format string
		told   bool // what a card tells is told here too
	}{
		"on the card that is shown":   {[]triage.Result{found}, "text", false},
		"on no card":                  {nil, "text", true},
		"of a fault that is one line": {[]triage.Result{{Report: &nightcrier.Report{}}, {Report: &nightcrier.Report{}}, {Report: &nightcrier.Report{}}, found}, "text", true},
		"of a fault shown in full":    {[]triage.Result{{Report: &nightcrier.Report{}}, {Report: &nightcrier.Report{}}, {Report: &nightcrier.Report{}}, found}, "full", false},
	} {
		var out bytes.Buffer
		p := &program{stderr: &out, width: 60, format: c.format}
		swept.Found = c.found
		p.printBounds(swept)
		got := out.String()
		flat := strings.Join(strings.Fields(got), " ")
		if !strings.HasPrefix(got, "\nIn trouble too") || !strings.Contains(flat, "Deployment fleet/tracking") || !strings.Contains(flat, "Not looked at: list nodes (") {
			t.Errorf("%s: %q", name, got)
		}
		if told := strings.Contains(got, onCard.What); told != c.told {
			t.Errorf("%s: told %v: %q", name, told, got)
		}
		for line := range strings.Lines(got) {
			if len(line) > 61 {
				t.Errorf("%s: too wide: %q", name, line)
			}
		}
	}
}
