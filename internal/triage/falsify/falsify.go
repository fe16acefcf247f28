// Package falsify runs the tests that a report names against its own hypotheses,
// after the report is written, and says what came of them.
//
// A test is a read-only kubectl command. No shell and no kubectl runs: the
// command is taken apart, and what it asks for is read and recorded as evidence.
// A command that means more than a read is not run, and the report says why.
//
// What a rule of ours concluded is decided by asking the rules again; what an
// agent concluded, only by the words that it said would stand in the answer, or
// would not. Anything else is left to the reader, beside the answer.
package falsify

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/text"
	"nightcrier.dev/nightcrier/internal/triage/report"
)

// Bounds of the tests of one report.
const (
	MaxTests = 5
	MaxTime  = 10 * time.Second
)

// The outcomes, as report.json names them.
const (
	Holds    = "holds"
	RuledOut = "ruled-out"
	NotRun   = "not-run"
)

// Reader reads the cluster, through a guard; kube.Client is one.
type Reader interface {
	Get(ctx context.Context, res nightcrier.Resource) ([]byte, error)
	List(ctx context.Context, kind, ns, labelSel, fieldSel string, limit int) ([]byte, error)
	Logs(ctx context.Context, ns, pod, container string, previous bool, tail, maxBytes int64) ([]byte, error)
}

// Recorder keeps what was read and returns its evidence id.
type Recorder interface {
	Record(kind, source string, body []byte) (id string, err error)
}

// Input is what the tests of a report are run with.
type Input struct {
	// Reader is nil where no credential is configured: no test is run then.
	Reader   Reader
	Evidence Recorder
	// Mark tells a read the source under which its answer will be recorded; nil tells
	// nothing.
	Mark func(ctx context.Context, source string) context.Context
	// Clean takes secrets out of what was read.
	Clean func([]byte) []byte
	// Namespace is where a command without one looks.
	Namespace string
	// Again diagnoses the incident anew, for hypotheses of our own rules.
	Again func(context.Context) (nightcrier.Report, error)
	// Still says that the cluster is a recording: asked again, the rules say the same.
	Still bool
	Now   func() time.Time
	// Started is when the investigation began: of another day than Now, an outcome names
	// the day. A zero one is none.
	Started time.Time
}

// Outcome is what came of the test of one hypothesis.
type Outcome struct {
	Hypothesis string                   `json:"hypothesis"`
	Test       nightcrier.Falsification `json:"test"`
}

// Run runs the tests of r's hypotheses, the best first, and returns their
// outcomes and how many reads they took. It returns an error only when ctx ends
// or the evidence cannot be kept.
func Run(ctx context.Context, in Input, r *nightcrier.Report) ([]Outcome, int, error) {
	if in.Mark == nil {
		in.Mark = func(ctx context.Context, _ string) context.Context { return ctx }
	}
	limited, cancel := context.WithTimeout(ctx, MaxTime)
	defer cancel()
	t := &tester{in: in, builtin: r.Source == "builtin", before: r}
	var out []Outcome
	for i, h := range r.Hypotheses {
		test := h.Falsification
		test.Outcome, test.Evidence, test.Shown, test.Why = NotRun, "", "", ""
		if i >= MaxTests {
			test.Why = fmt.Sprintf("only the tests of the first %d hypotheses are run", MaxTests)
		} else if err := t.runTest(limited, h, &test); err != nil {
			return nil, t.reads, err
		}
		if ctx.Err() != nil {
			return nil, t.reads, context.Cause(ctx)
		}
		out = append(out, Outcome{h.ID, test})
	}
	return out, t.reads, nil
}

// tester runs the tests of one report.
type tester struct {
	in      Input
	builtin bool
	before  *nightcrier.Report
	reads   int
	again   *fresh
}

// runTest runs one test. Its error is that the evidence cannot be kept.
func (t *tester) runTest(ctx context.Context, h nightcrier.Hypothesis, test *nightcrier.Falsification) error {
	switch {
	case t.in.Reader == nil:
		test.Why = "no credential is configured for this cluster"
		return nil
	case test.Command == "" && !t.builtin:
		test.Why = "it names no command"
		return nil
	}
	a, asked, err := t.runCommand(ctx, h, test)
	switch {
	case err != nil:
		return err
	case t.builtin:
		t.byRule(ctx, h, test)
	case asked:
		byWords(a, test)
	}
	return nil
}

// runCommand reads what the command asks for; what keeps it from that is the Why.
func (t *tester) runCommand(ctx context.Context, h nightcrier.Hypothesis, test *nightcrier.Falsification) (answer, bool, error) {
	if test.Command == "" {
		return answer{}, false, nil
	}
	q, err := parseCommand(test.Command, t.in.Namespace)
	if err != nil {
		test.Why = err.Error()
		return answer{}, false, nil
	}
	a, err := t.askQuestion(ctx, q, test.Command)
	var lost *unkept
	switch {
	case err == nil:
		test.Evidence = a.evidence
		test.Shown = excerptOf(a, append(report.Quotable(test.IfTrue), report.Quotable(test.IfFalse)...))
		return a, true, nil
	case errors.As(err, &lost):
		return answer{}, false, err
	case ctx.Err() != nil:
		test.Why = fmt.Sprintf("the cluster did not answer within %s", MaxTime)
	default:
		test.Why = "the cluster did not answer: " + text.CutLine(text.MaskClean(err.Error(), func(s string) string { return string(t.in.Clean([]byte(s))) }, text.FoldLine), 300)
	}
	return answer{}, false, nil
}

// Apply writes outcomes into the report that they were run for: a copy of it that
// names the same commands. A first hypothesis that its own test rules out is
// believed less, and the report says so where it speaks of itself.
func Apply(r *nightcrier.Report, outcomes []Outcome) {
	for _, o := range outcomes {
		for i := range r.Hypotheses {
			h := &r.Hypotheses[i]
			if h.ID == o.Hypothesis && h.Falsification.Command == o.Test.Command {
				h.Falsification = o.Test
			}
		}
	}
	if len(r.Hypotheses) == 0 || r.Hypotheses[0].Falsification.Outcome != RuledOut {
		return
	}
	first := &r.Hypotheses[0]
	first.Confidence = nightcrier.Low
	if r.RootCause != nil {
		r.RootCause.Confidence = nightcrier.Low
	}
	r.Problems = append(r.Problems, fmt.Sprintf("%s is ruled out by its own test, which we ran: %s", first.ID, strings.TrimSuffix(first.Falsification.Why, ".")))
}
