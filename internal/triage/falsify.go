package triage

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/diagnose"
	"nightcrier.dev/nightcrier/internal/run"
	"nightcrier.dev/nightcrier/internal/triage/falsify"
)

// testHypotheses runs the tests that the report to be delivered names against its own
// hypotheses. It only reads, and its outcomes are a checkpoint: a server that dies
// behind it does not ask again.
func (s *session) testHypotheses(ctx context.Context, res nightcrier.AgentResult, asked run.Review) ([]falsify.Outcome, error) {
	if res.FailureClass == nightcrier.FailCancelled {
		return nil, nil // whoever cancelled wants an end, not an answer
	}
	if s.Workspace == nil {
		return nil, nil // check says why
	}
	_, err := s.Workspace.Collect()
	if err == nil {
		err = s.OpenEvidence(ctx)
	}
	if err != nil && run.CanBeRepeated(ctx, err) {
		return nil, err
	}
	if err != nil {
		return nil, nil // check meets the same, and ends the run
	}
	rep, err := s.chooseReport(&run.Outcome{Result: res}, asked)
	if err != nil || rep == nil {
		return nil, nil
	}
	out, err := s.runFalsification(ctx, rep)
	if err != nil && run.CanBeRepeated(ctx, err) {
		return nil, err
	}
	if err != nil { // a report without outcomes is worth more than none
		s.Log.Warn("the report's tests could not be run", "event", "tests_failed", "error", err)
		return nil, nil
	}
	return out, nil
}

func (s *session) runFalsification(ctx context.Context, rep *nightcrier.Report) ([]falsify.Outcome, error) {
	look, err := s.lookIntoCluster(ctx, "test")
	if err != nil {
		return nil, err
	}
	in := falsify.Input{
		Evidence: look, Namespace: s.Incident.Namespace(), Now: look.clock, Started: s.Incident.StartedAt, Mark: diagnose.WithSource,
		Clean: func(b []byte) []byte { return []byte(s.Mask.String(string(diagnose.Scrub(b)))) },
		Still: look.Still,
		Again: func(ctx context.Context) (nightcrier.Report, error) {
			d, err := s.diagnose(ctx, look, nil)
			return d.Report, err
		},
	}
	if look.Reader != nil { // else a nil interface
		in.Reader = look.Reader
	}
	out, reads, err := falsify.Run(ctx, in, rep)
	if err = errors.Join(err, look.close()); err != nil {
		return nil, err
	}
	return out, s.AppendNotes(ctx, append(look.untoldEvidence(), run.Remark{Key: "tested", Item: run.NewLogItem("the report's tests were run: %s, %d reads", inShort(out), reads)})...)
}

// inShort tells outcomes in a line.
func inShort(out []falsify.Outcome) string {
	var said []string
	for _, o := range out {
		said = append(said, fmt.Sprintf("%s %s", o.Hypothesis, o.Test.Outcome))
	}
	if len(said) == 0 {
		return "none"
	}
	return strings.Join(said, ", ")
}
