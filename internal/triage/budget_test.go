package triage

import (
	"strings"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
)

// TestAtTheLimit: a run that the budget ended delivers what there is by then, what was
// spent, and what it lacks.
func TestAtTheLimit(t *testing.T) {
	const why = "budget.per_run_usd is reached: $1.95 of $2.00 are spent for this run; the next call may cost $0.12"
	for name, c := range map[string]struct{ report, source string }{
		"before a report": {"", "builtin"},
		"after a report":  {"facts", "agent"},
		"half a report":   {"broken", "builtin"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			res := ended(20 * time.Second)
			res.State, res.FailureClass, res.FailureReason = nightcrier.StateFailed, nightcrier.FailBudget, why
			res.Layers = []string{"netns"}
			b := newBench(t, "claude-code", nil, attempt{report: c.report, result: res})
			b.told.spent = 1.95
			inc := b.investigate()
			if inc.Status != nightcrier.Failed || inc.FailureClass != nightcrier.FailBudget || inc.FailureReason != why || len(b.agents.launched()) != 1 {
				t.Errorf("%s %s: %s", inc.Status, inc.FailureClass, inc.FailureReason)
			}
			rep := b.report()
			if last := rep.NotChecked[len(rep.NotChecked)-1]; rep.Source != c.source || last.Why != why {
				t.Errorf("a report of %s that lacks %+v", rep.Source, last)
			}
			if u := rep.Usage; u.CostUSD != 1.95 || u.InputTokens != 100 || u.OutputTokens != 10 {
				t.Errorf("usage %+v", u)
			}
			for _, want := range []string{"budget.per_run_usd is reached", "- $1.95: 100 tokens in, 10 out", "### Sandbox\n\n- netns\n"} {
				if !strings.Contains(b.read("output/final-report.md"), want) {
					t.Errorf("final-report.md does not say %s", want)
				}
			}
		})
	}
}
