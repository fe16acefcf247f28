package prompt

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
)

// remembering is input with a runbook of n lines and an earlier incident whose
// note has as many.
func remembering(n int) Input {
	in := input()
	in.Agent = kinds["shell"]
	in.Runbooks = []nightcrier.Runbook{
		{Title: "Cart", Source: "cart.md", Text: "Look at the queue first.\n" + strings.Repeat(strings.Repeat("r", 99)+"\n", n)},
		{Title: "KubePodCrashLooping", Source: "https://elsewhere.example/x", Problem: "its host is not allowed"},
	}
	in.Earlier = &nightcrier.Recalled{IncidentID: "0191aaaa-7b3a-7c11-9a9b-0123456789ab", At: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), Summary: "the limit is too low",
		Notes: []nightcrier.Note{{By: "ana", Text: "raised it\n" + strings.Repeat(strings.Repeat("n", 99)+"\n", n)}}}
	return in
}

func TestMemoryReachesTheAgent(t *testing.T) {
	b := build(t, remembering(0))
	text := string(b.User)
	for _, want := range []string{"<earlier_incident>\n", "the limit is too low", "by ana: raised it", "<runbooks>\n", "Look at the queue first.", "(not read: its host is not allowed)",
		"Check that it still holds", "`runbooks` is what"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing", want)
		}
	}
	if !bytes.Contains(b.Files["context/runbooks.md"], []byte("queue first")) || !bytes.Contains(b.Files["context/earlier_incident.md"], []byte("raised it")) {
		t.Error("a file is missing")
	}
	in := remembering(0)
	in.Preload = false
	text = string(build(t, in).User)
	if strings.Contains(text, "the limit is too low") || !strings.Contains(text, "Look at the queue first.") {
		t.Error("without the diagnosis the earlier one must be left out, and runbooks must not")
	}
	text = string(build(t, input()).Sent)
	if strings.Contains(text, "<runbooks>") || strings.Contains(text, "<earlier_incident>") || strings.Contains(text, "`runbooks` is") {
		t.Error("blocks without content")
	}
}

// The triage report is cut before anything else, runbooks before memory, and the
// incident never.
func TestWhatIsCutFirst(t *testing.T) {
	const whole, cut, gone = "whole", "cut", "gone"
	line := strings.Repeat("x", 99) + "\n"
	for name, c := range map[string]struct {
		lines, triage, incident int
		report, runbooks, older string
	}{
		"all fits":                     {lines: 10, triage: 10, report: whole, runbooks: whole, older: whole},
		"the report is long":           {lines: 20, triage: 1000, report: cut, runbooks: whole, older: whole},
		"all are long":                 {lines: 500, triage: 1000, report: cut, runbooks: cut, older: cut},
		"the incident takes the room":  {lines: 25, triage: 100, incident: 36_000, report: cut, runbooks: cut, older: whole},
		"the incident takes it all":    {lines: 25, triage: 100, incident: 50_000, report: gone, runbooks: gone, older: gone},
		"runbooks leave room for more": {lines: 500, triage: 250, report: whole, runbooks: cut, older: cut},
	} {
		t.Run(name, func(t *testing.T) {
			in := remembering(c.lines)
			in.TriageReport = []byte("Begin.\n" + strings.Repeat(line, c.triage) + "End.\n")
			in.Incident.Context = strings.Repeat("y", c.incident)
			b := build(t, in)
			text := string(b.User)
			became := func(tag, start string) string {
				_, body, _ := strings.Cut(text, "<"+tag+">\n")
				body, _, ok := strings.Cut(body, "</"+tag+">")
				switch {
				case !ok:
					t.Errorf("%s is not closed", tag)
				case !strings.Contains(body, "[cut here"):
					return whole
				case strings.Contains(body, start):
					return cut
				}
				return gone
			}
			got := [3]string{became("initial_triage_report", "Begin."), became("runbooks", "Look at the queue"), became("earlier_incident", "the limit is too low")}
			if want := [3]string{c.report, c.runbooks, c.older}; got != want {
				t.Errorf("report, runbooks, earlier: %v, want %v", got, want)
			}
			if !strings.Contains(text, in.Incident.Context) || c.incident < 39_000 && b.Tokens > maxTokens {
				t.Errorf("the incident was cut, or %d tokens", b.Tokens)
			}
			if (b.Incomplete != "") != (got != [3]string{whole, whole, whole}) {
				t.Errorf("incomplete: %q", b.Incomplete)
			}
			if len(b.Files["context/runbooks.md"]) < 100*c.lines {
				t.Error("the file is not whole")
			}
		})
	}
}
