package run

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/diagnose"
	"nightcrier.dev/nightcrier/internal/record/evidence"
	"nightcrier.dev/nightcrier/internal/record/workspace"
	"nightcrier.dev/nightcrier/internal/triage/falsify"
)

// testHypotheses runs the tests that the report to be delivered names against its own
// hypotheses. It only reads, and its outcomes are a checkpoint: a server that dies
// behind it does not ask again.
func (r *Runner) testHypotheses(ctx context.Context, o Order, res nightcrier.AgentResult, asked repair) ([]falsify.Outcome, error) {
	if res.FailureClass == nightcrier.FailCancelled {
		return nil, nil // whoever cancelled wants an end, not an answer
	}
	inc, err := r.cfg.Store.Incident(ctx, o.IncidentID)
	if err != nil {
		return nil, err
	}
	ws, err := r.cfg.Root.Open(o.IncidentID)
	if err != nil {
		return nil, nil // check says why
	}
	defer ws.Close()
	if _, err := ws.Collect(); err != nil {
		return nil, nil // check meets the same, and ends the run
	}
	rep, err := r.chooseReport(ctx, &outcome{Result: res}, o, asked, &inc, ws)
	if err != nil || rep == nil {
		return nil, nil
	}
	rec, err := evidence.Open(filepath.Join(ws.Dir(), evidenceDir))
	if err != nil {
		return nil, nil
	}
	defer rec.Close()
	out, err := r.runFalsification(ctx, o, inc, rep, rec, ws)
	if err != nil && (ctx.Err() != nil || nightcrier.CodeOf(err) == nightcrier.Unreachable) {
		return nil, err
	}
	if err != nil { // a report without outcomes is worth more than none
		r.loggerFor(inc).Warn("the report's tests could not be run", "event", "tests_failed", "error", err)
		return nil, nil
	}
	return out, nil
}

func (r *Runner) runFalsification(ctx context.Context, o Order, inc nightcrier.Incident, rep *nightcrier.Report, rec *evidence.Recorder, ws *workspace.Workspace) ([]falsify.Outcome, error) {
	ev, err := r.cfg.Store.Event(ctx, inc.EventID)
	if err != nil {
		return nil, err
	}
	look, err := r.newReads(ctx, o, inc.StartedAt, rec)
	if err != nil {
		return nil, err
	}
	view, err := r.cfg.Clusters.Look(Look{Cluster: inc.Cluster, RunID: o.RunID, Step: "test", Workspace: ws, Mask: r.maskerFor(o.RunID), Audit: look.auditRequest})
	if err != nil {
		return nil, err
	}
	clock := func() time.Time { return view.Now }
	in := falsify.Input{
		Evidence: look, Namespace: inc.Namespace(), Now: clock, Started: inc.StartedAt, Mark: diagnose.WithSource,
		Clean: func(b []byte) []byte { return []byte(r.maskerFor(o.RunID).String(string(diagnose.Scrub(b)))) },
		Again: func(ctx context.Context) (nightcrier.Report, error) {
			d, err := diagnose.Run(ctx, diagnose.Input{Incident: &inc, Event: ev, Reader: view.Reader, Evidence: look, Mask: r.maskerFor(o.RunID).String, Now: clock})
			return d.Report, err
		},
	}
	if view.Reader != nil { // else a nil interface
		in.Reader = view.Reader
	}
	out, reads, err := falsify.Run(ctx, in, rep)
	if err = errors.Join(err, look.flushAnswers(), view.Close()); err != nil {
		return nil, err
	}
	return out, r.appendNotes(ctx, o.RunID, append(look.untoldEvidence(), remark{"tested", newLogItem("the report's tests were run: %s, %d reads", inShort(out), reads)})...)
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
