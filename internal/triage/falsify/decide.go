package falsify

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/text"
	"nightcrier.dev/nightcrier/internal/triage/report"
)

// fresh is what the rules say now.
type fresh struct {
	report nightcrier.Report
	at     string
	failed string
}

// byRule decides a hypothesis of our rules: it holds while the rules find the
// same cause at the same object.
func (t *tester) byRule(ctx context.Context, h nightcrier.Hypothesis, test *nightcrier.Falsification) {
	if t.in.Still {
		test.Outcome, test.Why = Holds, "the cluster is a recording, which does not change: the rules were not asked again"
		return
	}
	now := t.askRules(ctx)
	switch found := findsHypothesis(now.report, h); {
	case now.failed != "":
		test.Why = now.failed
	case isVerified(*t.before) && !isVerified(now.report):
		test.Why = "asked again at " + now.at + ", the cluster told nothing"
	case found && h.Cause == "":
		test.Outcome, test.Why = Holds, "asked again at "+now.at+", the rules still find no cause"
	case found:
		test.Outcome, test.Why = Holds, fmt.Sprintf("asked again at %s, the rules still find %s at %s", now.at, h.Cause, h.Object)
	case len(now.report.NotChecked) > len(t.before.NotChecked):
		test.Why = "asked again at " + now.at + ", less could be read than before"
	case h.Cause != "" && len(now.report.Hypotheses) >= len(t.before.Hypotheses) && h.ID != "H1":
		test.Why = "asked again at " + now.at + ", the rules put other causes first"
	default:
		test.Outcome, test.Why = RuledOut, fmt.Sprintf("asked again at %s, the rules say: %s", now.at, conclusionOf(now.report))
	}
}

// askRules asks the rules once for all hypotheses.
func (t *tester) askRules(ctx context.Context) fresh {
	if t.again != nil {
		return *t.again
	}
	t.again = &fresh{at: t.in.timeOfDay()}
	r, err := t.in.Again(ctx)
	if err != nil || ctx.Err() != nil {
		t.again.failed = fmt.Sprintf("the rules could not be asked again within %s", MaxTime)
		return *t.again
	}
	t.again.report = r
	t.reads += r.Usage.APIRequests
	return *t.again
}

// timeOfDay is the time of the day, with the day where it is not that on which the
// investigation began: a recorded cluster has a time of its own.
func (in Input) timeOfDay() string {
	now, started := in.Now().UTC(), in.Started.UTC()
	if !in.Started.IsZero() && now.Format(time.DateOnly) != started.Format(time.DateOnly) {
		return now.Format("2006-01-02 15:04:05 UTC")
	}
	return now.Format("15:04:05 UTC")
}

// findsHypothesis reports whether a diagnosis comes to the hypothesis.
func findsHypothesis(r nightcrier.Report, h nightcrier.Hypothesis) bool {
	for _, o := range r.Hypotheses {
		if o.Cause == h.Cause && o.Object == h.Object && (o.Cause != "" || o.Statement == h.Statement) {
			return true
		}
	}
	for _, o := range r.Consequences {
		if o.Cause == h.Cause && o.Object == h.Object {
			return true
		}
	}
	return false
}

// isVerified reports whether a diagnosis rests on what the cluster said, and not on
// the event alone.
func isVerified(r nightcrier.Report) bool {
	return slices.ContainsFunc(r.Facts, func(f nightcrier.Fact) bool { return f.Check == nightcrier.Verified })
}

// conclusionOf is what a diagnosis comes to, in a few words.
func conclusionOf(r nightcrier.Report) string {
	if r.RootCause != nil {
		return r.RootCause.Cause + " at " + r.RootCause.Object.String()
	}
	return string(r.Verdict)
}

// unsure finds statements that words alone do not decide: negations, comparisons,
// alternatives.
var unsure = regexp.MustCompile(`(?i)\b(?:no|not|none|never|without|nothing|isn't|doesn't|absent|missing|empty|lacks?|other|another|else|different|unlike|except|or|either|if|unless|` +
	`above|below|over|under|more|less|fewer|greater|higher|lower|least|most|near|close|exceeds?|increas\w+|grow\w*|decreas\w+|older|newer|before|after|within|at least|at most)\b|[<>≤≥≠]|!=`)

// byWords decides an agent's hypothesis by what it said would stand in the
// answer. Only plain statements are taken: what is negated, compared or
// alternative is left to the reader.
func byWords(a answer, test *nightcrier.Falsification) {
	test.Why = "the answer does not decide it by itself"
	ifTrue, ifFalse := expectedValues(test.IfTrue, test.IfFalse+" "+test.Command), expectedValues(test.IfFalse, test.IfTrue+" "+test.Command)
	trueSeen, trueAll := findValues(a.body, ifTrue)
	falseSeen, falseAll := findValues(a.body, ifFalse)
	switch {
	case trueAll && falseSeen == "":
		test.Outcome, test.Why = Holds, fmt.Sprintf("%s stands in the answer, as expected if it is true", quoteValues(ifTrue))
	case falseAll && trueSeen == "" && len(ifTrue) > 0 && !a.cut:
		test.Outcome, test.Why = RuledOut, fmt.Sprintf("%s stands in the answer, as expected if it is false, and %s does not", quoteValues(ifFalse), quoteValues(ifTrue))
	case trueSeen != "" && falseSeen != "":
		test.Why = "the answer holds what is expected if it is true and what is expected if it is false"
	case len(ifTrue) > 0 && trueSeen == "" && !a.cut:
		test.Why = quoteValues(ifTrue) + ", expected if it is true, does not stand in the answer; that alone does not decide it"
	}
}

// expectedValues are the values that a statement quotes and that stand nowhere else: not
// in its opposite, and not in the command, whose answer they would stand in anyway.
func expectedValues(statement, elsewhere string) []string {
	if unsure.MatchString(withoutSpans(statement)) {
		return nil
	}
	var out []string
	for _, v := range report.Quotable(statement) {
		if !report.Stands([]byte(elsewhere), v) {
			out = append(out, v)
		}
	}
	return out
}

var spans = regexp.MustCompile("`[^`]*`|\"[^\"]*\"|“[^”]*”")

// withoutSpans is the statement without what it quotes: a quoted "not found" is
// no negation.
func withoutSpans(s string) string { return spans.ReplaceAllString(s, " ") }

// findValues returns one of the values that stand in body, "" for none, and whether
// all of them do.
func findValues(body []byte, values []string) (one string, all bool) {
	all = len(values) > 0
	for _, v := range values {
		if report.Stands(body, v) {
			one = v
		} else {
			all = false
		}
	}
	return one, all
}

func quoteValues(values []string) string {
	var out []string
	for _, v := range values {
		out = append(out, "“"+text.CutBytes(v, 80)+"”")
	}
	return strings.Join(out, " and ")
}
