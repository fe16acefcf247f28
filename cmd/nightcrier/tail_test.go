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
		p.printEntry(journal.Tail(nightcrier.JournalEntry{Type: it.Type, Data: json.RawMessage(data)}, nil))
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
