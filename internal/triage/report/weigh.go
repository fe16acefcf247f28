package report

import (
	"cmp"
	"fmt"
	"strings"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/triage/report/internal/markdown"
)

// Weigh says of a report of the rules what is known, what is only suspected and what
// speaks against it. An agent reads it first: one that takes a suspicion for a finding
// pursues it.
func Weigh(r *nightcrier.Report) []byte {
	var known, suspected, against []string
	texts := map[string]string{}
	for _, f := range r.Facts {
		texts[f.ID] = f.Text
	}
	for i, h := range r.Hypotheses {
		claim := h.ID + ": " + markdown.EscapeLine(h.Statement)
		if i == 0 && r.RootCause != nil && r.RootCause.Confidence == nightcrier.High {
			known = append(known, claim+" — nothing that was looked at speaks against it")
		} else {
			suspected = append(suspected, fmt.Sprintf("%s — confidence %s, on %s", claim, cmp.Or(string(h.Confidence), "not stated"), orNone(strings.Join(h.For, ", "))))
		}
		for _, id := range h.Against {
			against = append(against, fmt.Sprintf("%s: %s (%s)", h.ID, markdown.EscapeLine(texts[id]), id))
		}
	}
	p := printer{r: r}
	p.writeLine("# How far this can be relied on")
	for _, part := range []struct {
		title string
		items []string
		none  string
	}{
		{"Known", known, "no cause is known; what the verified facts below say is"},
		{"Only suspected: test it before you build on it", suspected, "nothing"},
		{"What contradicts it: explain it, or give the suspicion up", against, "nothing that was looked at"},
	} {
		p.beginSubsection(part.title)
		p.writeList(part.items, part.none)
	}
	p.writeLine("")
	return []byte(p.b.String())
}
