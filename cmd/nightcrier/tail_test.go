package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/record/journal"
)

// What an agent prints has no colour of its own and moves no cursor, and our words
// can be told from its.
func TestALineOfAJournalIsColouredByUsAlone(t *testing.T) {
	var out bytes.Buffer
	p := &program{stdout: &out, colour: true}
	for _, it := range []journal.Item{
		journal.OfDenial(journal.Denial{Tool: "Bash", Command: "kubectl delete \x1b[2Jpod"}),
		journal.OfLog(journal.Log{Stream: "stderr", Text: "\x1b[1mrun\x1b[0m      checked: report ready"}),
		journal.OfLog(journal.Log{Stream: "run", Text: "checked: report ready"}),
		journal.OfLog(journal.Log{Stream: "stdout"}), // nothing
	} {
		data, err := it.JSON()
		if err != nil {
			t.Fatal(err)
		}
		p.printEntry(nightcrier.JournalEntry{Type: it.Type, Data: json.RawMessage(data)}, new(stepColumn))
	}
	want := []string{
		"00:00:00 \x1b[31mDENIED  \x1b[0m Bash: kubectl delete pod",
		"00:00:00 stderr   run checked: report ready",
		"00:00:00 \x1b[1mrun     \x1b[0m checked: report ready", "",
	}
	if got := strings.Split(out.String(), "\n"); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%q\nwant\n%q", got, want)
	}
}

// Of a run whose steps are done beside each other, each line says whose it is; an investigation
// has one agent.
func TestTailNamesTheStep(t *testing.T) {
	var out strings.Builder
	p := &program{stdout: &out}
	names, none := runNames.steps, incidentNames.steps
	for _, step := range []string{"build", "a-step-of-a-long-name", "ship\x1b[31m"} {
		it := journal.OfLog(journal.Log{Stream: "stdout", Text: "at work"})
		data, err := it.JSON()
		if err != nil {
			t.Fatal(err)
		}
		p.printEntry(nightcrier.JournalEntry{Type: it.Type, Step: step, Data: data}, &names)
	}
	p.printEntry(nightcrier.JournalEntry{Type: nightcrier.EntryLog, Step: "investigate", Data: []byte(`{"stream":"stdout","text":"at work"}`)}, &none)
	want := "00:00:00 build    stdout   at work\n00:00:00 a-step-of-a-long-name stdout   at work\n00:00:00 ship             stdout   at work\n00:00:00 stdout   at work\n"
	if out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}
