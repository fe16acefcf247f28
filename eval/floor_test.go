package eval

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"text/tabwriter"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/oneshot"

	"nightcrier.dev/nightcrier/internal/check/eval"
	"nightcrier.dev/nightcrier/internal/config"
)

// What the rules must reach over the corpus.
const minExact = 0.90

// TestFloor runs the rules over all recorded cases.
func TestFloor(t *testing.T) {
	if *record {
		return
	}
	res, err := oneshot.Eval(t.Context(), oneshot.EvalOptions{Dir: "cases", Executor: config.Builtin, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Log("\n" + table(res))
	s := res.Totals
	if s.ExactShare < minExact {
		t.Errorf("%.3f of the cases are exactly right, less than %.2f", s.ExactShare, minExact)
	}
	if s.FalseAlarms > 0 {
		t.Errorf("%d false alarms", s.FalseAlarms)
	}
	for _, level := range []nightcrier.Confidence{nightcrier.High, nightcrier.Medium, nightcrier.Low} {
		// That the rules are right more often than they say on cases that they were built on
		// tells nothing; that they are less often is too sure by any measure.
		stated, right := 0, 0
		for _, c := range res.Cases {
			if c.Confidence == level {
				stated++
				if c.Exact {
					right++
				}
			}
		}
		if float64(right) < level.Probability()*float64(stated) {
			t.Errorf("%d of %d root causes of confidence %s are right, fewer than it says", right, stated, level)
		}
	}
	if s.Errors > 0 {
		t.Errorf("%d cases could not be investigated", s.Errors)
	}
}

// table prints the cases that are not exactly right, and the totals.
func table(res eval.Result) string {
	var out bytes.Buffer
	w := tabwriter.NewWriter(&out, 0, 1, 2, ' ', 0)
	for _, s := range res.Cases {
		word, expected := s.Outcome()
		if word == eval.Exact {
			continue
		}
		says := s.Cause
		if s.Object != nil {
			says += " " + s.Object.String()
		}
		fmt.Fprintln(w, strings.Join([]string{s.Case, word, string(s.Confidence), says + s.Error, expected}, "\t"))
	}
	w.Flush()
	t := res.Totals
	fmt.Fprintf(&out, "%d cases: %d exact (%.3f), %d with the right object, %d abstained, %d false alarms, calibration error %.3f, %.1f reads, %d ms p50, %d ms p95\n",
		t.Cases, t.Exact, t.ExactShare, t.ObjectRight, t.Abstained, t.FalseAlarms, t.CalibrationError, t.ReadsMean, t.MSP50, t.MSP95)
	return out.String()
}

// Every published cause has a case that expects it.
func TestEveryCauseHasACase(t *testing.T) {
	cases, err := eval.Load("cases")
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]bool{}
	for _, c := range cases {
		have[c.Expect.Cause], have[string(c.Expect.Verdict)] = true, true
		for _, also := range c.Expect.AlsoCauses {
			have[also] = true
		}
	}
	var missing []string
	for _, c := range eval.Causes() {
		if !have[c.ID] {
			missing = append(missing, c.ID)
		}
	}
	if len(missing) > 0 {
		t.Errorf("%d causes have no case: %s", len(missing), strings.Join(missing, " "))
	}
}
