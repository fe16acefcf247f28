package report

import (
	"fmt"
	"slices"
	"strings"

	"nightcrier.dev/nightcrier"
	texts "nightcrier.dev/nightcrier/internal/text"
)

// Card is what somebody who was just woken asks of a report: is it broken, what is
// to be mended and why, how sure is that, what to do first, and what nobody looked
// at. Every face of a report shows this card; its texts are as they stand in the
// report, so a face escapes them in its own way.
type Card struct {
	Status Status
	// Severity is P1 to P4, Impact how far it reaches.
	Severity, Impact string
	Cluster          string
	// Target is what was asked about, Mend what an engineer would go and mend: it
	// has no name where there is nothing, or nothing that is known.
	Target, Mend nightcrier.Object
	// Cause is one sentence, also where there is none; CauseID is empty then.
	Cause, CauseID string
	// Confidence is empty where there is no cause to be sure of.
	Confidence nightcrier.Confidence
	// Test is the read-only command that would refute the cause.
	Test Test
	// Facts is how many there are, Checked how many of them stand in recorded evidence.
	Facts, Checked int
	First          Step
	// Follows is how many symptoms go away with the cause.
	Follows int
	// Unseen says why no cluster was looked at, "" when one was.
	Unseen string
	// NotChecked is how many things could not be looked at, Worst the one that could
	// have told most.
	NotChecked int
	Worst      nightcrier.NotChecked
}

// Tone is how alarming a report is.
type Tone string

// The tones.
const (
	Alarm Tone = "alarm"
	Warn  Tone = "warn"
	Calm  Tone = "calm"
)

// Status is how it stands, in a word or two.
type Status struct {
	Words string
	Tone  Tone
}

// Step is something to do. Command is one to copy, "" where the step names none, and
// Effect what that does to the cluster.
type Step struct {
	Action, Command, Outcome, Risk string
	Effect                         Effect
}

// Test is a command that changes nothing and decides whether a cause holds.
type Test struct {
	Command string
	// Says is what came of it, behind "its test".
	Says string
	// Refuted is that it spoke against the cause.
	Refuted bool
}

// NewCard takes the card out of a report.
func NewCard(r *nightcrier.Report) Card {
	c := Card{
		Status: statusOf(r), Severity: r.Severity, Impact: r.Impact, Cluster: r.Cluster, Target: r.Target,
		Facts: len(r.Facts), Checked: countChecked(r), First: firstAction(r), Follows: len(r.Consequences), Unseen: whyUnseen(r),
	}
	c.fillCause(r)
	c.NotChecked = len(r.NotChecked)
	if c.NotChecked > 0 {
		c.Worst = slices.MinFunc(r.NotChecked, func(a, b nightcrier.NotChecked) int { return rankMissed(a) - rankMissed(b) })
	}
	return c
}

// fillCause fills in what is known of the cause.
func (c *Card) fillCause(r *nightcrier.Report) {
	if len(r.Hypotheses) > 0 && !isOver(r) {
		c.Test = testOfHypothesis(r, r.Hypotheses[0])
	}
	switch {
	case r.RootCause != nil:
		c.Cause, c.CauseID, c.Mend, c.Confidence = r.RootCause.Summary, r.RootCause.Cause, r.RootCause.Object, r.RootCause.Confidence
	case len(r.Hypotheses) > 0 && !isOver(r):
		c.Cause = "undetermined; the first to test is: " + r.Hypotheses[0].Statement
	default:
		c.Cause = noCause(r)
	}
}

// maxGround is how much of a fact stands on a screen, in characters.
const maxGround = 160

// Grounds are the facts that the first hypothesis rests on, or else the first of all, with the ids
// of their evidence; n at most.
func Grounds(r *nightcrier.Report, n int) (all []string) {
	facts := slices.Clone(r.Facts)
	if len(r.Hypotheses) > 0 && !isOver(r) {
		isGround := func(f nightcrier.Fact) bool { return slices.Contains(r.Hypotheses[0].For, f.ID) }
		if slices.ContainsFunc(facts, isGround) {
			facts = slices.DeleteFunc(facts, func(f nightcrier.Fact) bool { return !isGround(f) })
		}
	}
	for _, f := range facts[:min(n, len(facts))] {
		said := texts.CutRunes(texts.FoldLine(f.Text), maxGround)
		if len(f.Evidence) > 0 {
			said += " (" + strings.Join(f.Evidence, ", ") + ")"
		}
		all = append(all, said)
	}
	return all
}

func statusOf(r *nightcrier.Report) Status {
	switch {
	case r.Verdict == nightcrier.VerdictHealthy:
		return Status{"Healthy", Calm}
	case r.Verdict == nightcrier.VerdictRecovered:
		return Status{"Recovered", Calm}
	case r.Verdict == nightcrier.VerdictUndetermined:
		return Status{"Undetermined", Warn}
	case statusLine(r) == statusActive:
		return Status{"Active incident", Alarm}
	}
	return Status{"Degraded", Warn}
}

// firstAction is what to do first.
func firstAction(r *nightcrier.Report) Step {
	if len(r.Actions) == 0 {
		return Step{}
	}
	return StepOf(r, r.Actions[0])
}

// StepOf is an action of a report as a person takes it.
func StepOf(r *nightcrier.Report, a nightcrier.Action) Step {
	s := Step{Action: a.Action, Outcome: a.Outcome, Risk: a.Risk}
	if command := commandOf(a); command != "" {
		s.Command, s.Effect = InContext(r, command), effectOf(command)
	}
	return s
}

// testOfHypothesis is the test of a hypothesis. A cluster is no object that a command names.
func testOfHypothesis(r *nightcrier.Report, h nightcrier.Hypothesis) Test {
	f := h.Falsification
	if h.Object.Kind == "Cluster" || effectOf(f.Command) != Reads { // an agent's may be anything
		return Test{}
	}
	t := Test{Command: InContext(r, f.Command), Says: "was not run", Refuted: f.Outcome == ruledOut}
	switch {
	case f.Outcome == holds:
		t.Says = "holds"
	case t.Refuted:
		t.Says = "speaks against it"
	case f.Evidence != "":
		t.Says = "decided nothing"
	}
	return t
}

// whyUnseen is why nothing of the cluster was looked at.
func whyUnseen(r *nightcrier.Report) string {
	for _, n := range r.NotChecked {
		if n.What == nightcrier.TheCluster {
			return n.Why
		}
	}
	return ""
}

// tellingMost are the words for what shows most of a fault, the best first.
var tellingMost = []string{"cluster", "agent", "pod", "log", "event", "node", "deployment", "statefulset", "daemonset"}

// rankMissed ranks what could not be looked at: the lower, the more is missed.
func rankMissed(n nightcrier.NotChecked) int {
	best := len(tellingMost)
	for word := range strings.FieldsFuncSeq(strings.ToLower(n.What), func(r rune) bool { return r < 'a' || r > 'z' }) {
		if rank := slices.Index(tellingMost, strings.TrimSuffix(word, "s")); rank >= 0 {
			best = min(best, rank)
		}
	}
	return best
}

// FactsChecked says how many facts stand in evidence.
func (c Card) FactsChecked() string {
	return fmt.Sprintf("%d of %d facts stand in recorded evidence", c.Checked, c.Facts)
}
