package triage

import (
	"testing"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/run"
)

// An agent's all-clear needs what ours needs.
func TestAnAgentsAllClear(t *testing.T) {
	cause := &nightcrier.RootCause{Cause: "oom-killed", Summary: "cart needs more memory"}
	for name, c := range map[string]struct {
		theirs, ours nightcrier.Report
		want         nightcrier.Verdict
	}{
		"the rules say so too":           {nightcrier.Report{Verdict: nightcrier.VerdictRecovered}, nightcrier.Report{Verdict: nightcrier.VerdictHealthy}, nightcrier.VerdictRecovered},
		"the rules found a fault":        {nightcrier.Report{Verdict: nightcrier.VerdictHealthy, CheckedShare: 1}, nightcrier.Report{Verdict: nightcrier.VerdictFault, RootCause: cause}, nightcrier.VerdictUndetermined},
		"unproved, and it saw something": {nightcrier.Report{Verdict: nightcrier.VerdictRecovered, CheckedShare: 0.5}, nightcrier.Report{Verdict: nightcrier.VerdictUndetermined}, nightcrier.VerdictRecovered},
		"unproved, and it saw nothing":   {nightcrier.Report{Verdict: nightcrier.VerdictRecovered}, nightcrier.Report{Verdict: nightcrier.VerdictUndetermined}, nightcrier.VerdictUndetermined},
		"another fault than ours":        {nightcrier.Report{Verdict: nightcrier.VerdictFault}, nightcrier.Report{Verdict: nightcrier.VerdictHealthy}, nightcrier.VerdictFault},
	} {
		t.Run(name, func(t *testing.T) {
			got := mergeReport(&c.theirs, &c.ours, run.Order{}, nightcrier.AgentResult{})
			if got.Verdict != c.want || c.want == nightcrier.VerdictUndetermined && len(got.NotChecked) == 0 {
				t.Errorf("%s, not checked %+v", got.Verdict, got.NotChecked)
			}
		})
	}
}
