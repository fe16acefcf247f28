package report

import (
	"strings"
	"testing"

	"nightcrier.dev/nightcrier"
)

// What is known stands apart from what is suspected, and what contradicts it is told in full.
func TestAReportIsWeighed(t *testing.T) {
	facts := []nightcrier.Fact{{ID: "FACT-1", Text: "the node is cordoned"}, {ID: "FACT-2", Text: "it was never above 40 % of its limit"}}
	hypotheses := []nightcrier.Hypothesis{
		{ID: "H1", Statement: "memory is too small", Confidence: nightcrier.High, For: []string{"FACT-1"}},
		{ID: "H2", Statement: "the image is broken", Confidence: nightcrier.Low},
	}
	for name, c := range map[string]struct {
		change func(*nightcrier.Report)
		want   []string // of known, suspected and contradicted
	}{
		"a cause that is sure": {func(*nightcrier.Report) {}, []string{"H1: memory is too small — nothing", "H2: the image is broken — confidence low, on none", "nothing that was looked at"}},
		"one that something speaks against": {func(r *nightcrier.Report) {
			r.RootCause.Confidence, r.Hypotheses[0].Confidence, r.Hypotheses[0].Against = nightcrier.Medium, nightcrier.Medium, []string{"FACT-2"}
		}, []string{"no cause is known", "H1: memory is too small — confidence medium, on FACT-1", "H1: it was never above 40 % of its limit (FACT-2)"}},
		"none": {func(r *nightcrier.Report) { r.RootCause, r.Hypotheses = nil, nil }, []string{"no cause is known", "_nothing_", "nothing that was looked at"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := nightcrier.Report{Facts: facts, Hypotheses: append([]nightcrier.Hypothesis(nil), hypotheses...), RootCause: &nightcrier.RootCause{Confidence: nightcrier.High}}
			c.change(&r)
			parts := strings.Split(string(Weigh(&r)), "### ")
			if len(parts) != 4 {
				t.Fatalf("%d parts: %q", len(parts)-1, parts)
			}
			for i, want := range c.want {
				if !strings.Contains(parts[i+1], want) {
					t.Errorf("part %d is %q, want %q in it", i+1, parts[i+1], want)
				}
			}
		})
	}
}
