package triage

import (
	"slices"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/run"
)

// An agent's all-clear needs what ours needs.
func TestAnAgentsAllClear(t *testing.T) {
	seen := func(check nightcrier.Check, evidence ...string) []nightcrier.Fact {
		return []nightcrier.Fact{{ID: "FACT-1", Text: "the alert fires on", Check: check, Evidence: evidence}}
	}
	cause := &nightcrier.RootCause{Cause: "oom-killed", Summary: "cart needs more memory"}
	for name, c := range map[string]struct {
		theirs, ours nightcrier.Report
		want         nightcrier.Verdict
	}{
		"the rules say so too":    {nightcrier.Report{Verdict: nightcrier.VerdictRecovered}, nightcrier.Report{Verdict: nightcrier.VerdictHealthy}, nightcrier.VerdictRecovered},
		"the rules found a fault": {nightcrier.Report{Verdict: nightcrier.VerdictHealthy, CheckedShare: 1}, nightcrier.Report{Verdict: nightcrier.VerdictFault, RootCause: cause}, nightcrier.VerdictUndetermined},
		"unproved, and it saw more": {nightcrier.Report{Verdict: nightcrier.VerdictRecovered, Facts: seen(nightcrier.Seen, "E1", "E2")},
			nightcrier.Report{Verdict: nightcrier.VerdictUndetermined, Facts: seen(nightcrier.Verified, "E1")}, nightcrier.VerdictRecovered},
		"unproved, and it saw no more": {nightcrier.Report{Verdict: nightcrier.VerdictRecovered, Facts: seen(nightcrier.Seen, "E1")},
			nightcrier.Report{Verdict: nightcrier.VerdictUndetermined, Facts: seen(nightcrier.Verified, "E1")}, nightcrier.VerdictUndetermined},
		"unproved, and it saw nothing": {nightcrier.Report{Verdict: nightcrier.VerdictRecovered, Facts: seen(nightcrier.Unseen, "E2")},
			nightcrier.Report{Verdict: nightcrier.VerdictUndetermined}, nightcrier.VerdictUndetermined},
		"another fault than ours": {nightcrier.Report{Verdict: nightcrier.VerdictFault}, nightcrier.Report{Verdict: nightcrier.VerdictHealthy}, nightcrier.VerdictFault},
	} {
		t.Run(name, func(t *testing.T) {
			got := mergeReport(&c.theirs, &c.ours, run.Order{}, nightcrier.AgentResult{})
			if got.Verdict != c.want || c.want == nightcrier.VerdictUndetermined && len(got.NotChecked) == 0 {
				t.Errorf("%s, not checked %+v", got.Verdict, got.NotChecked)
			}
		})
	}
}

// An agent's cause is no surer than ours where what speaks against it is passed over.
func TestAnAgentsCauseMeetsWhatSpeaksAgainstIt(t *testing.T) {
	cart := nightcrier.Object{Kind: "Deployment", Namespace: "shop", Name: "cart"}
	until := time.Date(2026, 3, 1, 3, 15, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		cause   string
		against []string
		want    nightcrier.Confidence
	}{
		"passed over":   {"oom-killed", nil, nightcrier.Medium},
		"named":         {"oom-killed", []string{"FACT-9"}, nightcrier.High},
		"another cause": {"image-not-found", nil, nightcrier.High},
	} {
		t.Run(name, func(t *testing.T) {
			theirs := nightcrier.Report{
				Verdict: nightcrier.VerdictFault, RootCause: &nightcrier.RootCause{Cause: c.cause, Object: cart, Confidence: nightcrier.High},
				Hypotheses: []nightcrier.Hypothesis{{ID: "H1", Cause: c.cause, Object: cart, Confidence: nightcrier.High, Against: c.against}},
			}
			ours := nightcrier.Report{
				Verdict: nightcrier.VerdictFault, LookAgainAt: until, Facts: []nightcrier.Fact{{ID: "FACT-2", Text: "its memory was never near the limit"}},
				Hypotheses: []nightcrier.Hypothesis{{ID: "H1", Cause: "oom-killed", Object: cart, Confidence: nightcrier.Medium, Against: []string{"FACT-2"}}},
			}
			got := mergeReport(&theirs, &ours, run.Order{}, nightcrier.AgentResult{})
			told := slices.ContainsFunc(got.NotChecked, func(n nightcrier.NotChecked) bool { return n.Why == ours.Facts[0].Text })
			if got.RootCause.Confidence != c.want || got.Hypotheses[0].Confidence != c.want || told != (c.want == nightcrier.Medium) {
				t.Errorf("confidence %s and %s, not checked %+v", got.RootCause.Confidence, got.Hypotheses[0].Confidence, got.NotChecked)
			}
			if !got.LookAgainAt.Equal(until) {
				t.Errorf("it is looked at again at %s", got.LookAgainAt)
			}
		})
	}
}
