package run

import (
	"context"
	"encoding/json"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/record/journal"
	"nightcrier.dev/nightcrier/internal/record/store"
)

// finishRun ends the run: one transaction in the store, then incident.json.
func (s *session) finishRun(ctx context.Context, out outcome) error {
	f := store.Finish{
		RunID: s.order.RunID, Status: out.Status, Result: out.Result, FailureReason: out.Reason, FailureClass: out.Class,
		RootCause: out.RootCause, Diagnosis: out.Diagnosis, Conclusion: out.Conclusion, Artifacts: out.Artifacts,
	}
	if s.ws != nil && out.HasReport {
		var err error
		if f.Report, err = s.ws.ReadFile(machineFile); err != nil {
			return err
		}
	}
	if err := s.noteEnd(ctx, out); err != nil {
		return err
	}
	if s.ws != nil {
		s.renderLog(ctx)
		s.writePreview(f)
	}
	if err := s.reportToBreaker(ctx, out.Result); err != nil {
		return err
	}
	if err := s.cfg.Store.FinishRun(ctx, f); err != nil {
		return err
	}
	return s.showEnd(ctx, out)
}

// reportToBreaker tells the circuit breaker how the executor did, before the lease goes:
// the next run must not be admitted on what was known before. A crash between the
// two tells it twice.
func (s *session) reportToBreaker(ctx context.Context, res nightcrier.AgentResult) error {
	if s.cfg.Learn == nil {
		return nil
	}
	run, err := s.cfg.Store.Run(ctx, s.order.RunID)
	if err != nil || run.Status == nightcrier.Finished {
		return err
	}
	return s.cfg.Learn(ctx, s.order.Agent.Executor, res)
}

// writePreview writes incident.json as it will be, so that whoever hears from the
// store that an incident has ended finds it so in its workspace. What cannot be
// written now is no reason not to end.
func (s *session) writePreview(f store.Finish) {
	if !s.incident.Status.Open() {
		return // it was told before a crash
	}
	inc := f.Preview(s.incident, s.cfg.Now())
	if err := s.ws.WriteIncident(&inc); err != nil {
		s.log.Warn("incident.json is not current", "event", "incident_file", "error", err)
	}
}

// noteEnd says in the journal how the run ended, before the lease goes. A state
// that no worker has told is told here: of the built-in rules, and of an agent that
// never came to be, or whose worker died.
func (s *session) noteEnd(ctx context.Context, out outcome) error {
	if s.order.Agent.Executor == Builtin || out.Result.StartedAt.IsZero() {
		if err := s.noteState(ctx, journal.State{To: out.Result.State, Reason: out.Reason, FailureClass: out.Class}); err != nil {
			return err
		}
	}
	return s.appendNote(ctx, "finished", newLogItem("incident closed: %s%s", out.Status.Words(), reasonSuffix(out.Reason)))
}

// workloadToMend names the workload to be mended, where it is known.
func workloadToMend(inc nightcrier.Incident) string {
	if inc.Owner.IsZero() {
		return inc.Resource.String()
	}
	return inc.Owner.String()
}

// investigationTime is how long an incident was investigated, to the unit that a person reads.
func investigationTime(inc nightcrier.Incident) time.Duration {
	d := inc.CompletedAt.Sub(inc.StartedAt)
	if inc.StartedAt.IsZero() || d < 0 {
		return 0
	}
	if d < time.Second {
		return d.Round(time.Millisecond)
	}
	return d.Round(100 * time.Millisecond)
}

// showEnd refreshes incident.json and tells whoever counts.
func (s *session) showEnd(ctx context.Context, out outcome) error {
	inc, err := s.cfg.Store.Incident(ctx, s.order.IncidentID)
	if err != nil {
		return err
	}
	run, err := s.cfg.Store.Run(ctx, s.order.RunID)
	if err != nil {
		return err
	}
	s.log.Info("investigation ended", "event", "investigation_ended", "status", inc.Status, "object", workloadToMend(inc), "root_cause", inc.RootCause,
		"verdict", string(out.Verdict), "failure_reason", inc.FailureReason, "took", investigationTime(inc).String(), "workspace", inc.Workspace, "run", s.order.RunID,
		"cluster_requests", out.Audit.Requests, "denied", out.Audit.Denied, "blocked", out.Result.Blocked, "audit_head", out.Audit.Head)
	if s.cfg.Ended != nil {
		s.cfg.Ended(run, inc, out.Result, out.Audit)
	}
	if s.ws == nil {
		return nil
	}
	return s.ws.WriteIncident(&inc)
}

// announceEnd tells people, once. A retried incident is announced again: the key
// is the run's.
func (r *Runner) announceEnd(ctx context.Context, o Order) error {
	inc, err := r.cfg.Store.Incident(ctx, o.IncidentID)
	if err != nil {
		return err
	}
	var rep *nightcrier.Report
	raw, err := r.cfg.Store.Report(ctx, o.IncidentID)
	if err == nil {
		rep = &nightcrier.Report{}
		err = json.Unmarshal(raw, rep)
	}
	if code := nightcrier.CodeOf(err); err != nil && code != nightcrier.NotFound && code != nightcrier.NoReport {
		return err
	}
	return r.cfg.Announce.Ended(ctx, inc, rep, o.RunID)
}
