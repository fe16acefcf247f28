package eval

import (
	"context"
	"log/slog"
	"testing"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/check/eval"
)

// What may be left of the cases that a gate was tried on: the share that did not pass.
const (
	maxUnmoved  = 0.12
	maxMoved    = 0.0
	maxUntested = 0.20 // of the faults, of which nothing could be taken out
)

// TestGates holds every diagnosis of the corpus against its own evidence, and against noise.
func TestGates(t *testing.T) {
	if *record {
		return
	}
	cases, err := eval.Load("cases")
	if err != nil {
		t.Fatal(err)
	}
	trials, err := eval.TryGates(t.Context(), cases, func(ctx context.Context, c eval.Case) (*nightcrier.Report, error) {
		return eval.Diagnose(ctx, c, slog.New(slog.DiscardHandler))
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range eval.SumGates(trials) {
		allowed := map[string]float64{eval.CauseGate: maxUnmoved, eval.NoiseGate: maxMoved}[s.Gate]
		t.Logf("%s: %d passed, %d did not, %d skipped", s.Gate, s.Passed, s.Failed, s.Skipped)
		if s.Passed == 0 || float64(s.Failed) > allowed*float64(s.Passed+s.Failed) {
			t.Errorf("%s: %d of %d did not pass, more than a share of %.2f", s.Gate, s.Failed, s.Passed+s.Failed, allowed)
		}
		if s.Gate == eval.CauseGate && float64(s.Skipped) > maxUntested*float64(s.Passed+s.Failed+s.Skipped) {
			t.Errorf("%s: %d could not be tried", s.Gate, s.Skipped)
		}
	}
	for _, tr := range trials {
		if !tr.Passed && tr.Skipped == "" {
			t.Logf("%s: %s: %q before, %q after", tr.Gate, tr.Case, tr.Before, tr.After)
		}
	}
}
