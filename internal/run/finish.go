package run

import (
	"context"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/record/journal"
	"nightcrier.dev/nightcrier/internal/record/store"
)

// finishRun ends the run: one transaction in the store, then incident.json.
func (s *Session) finishRun(ctx context.Context, out Outcome) error {
	f := store.Finish{
		RunID: s.Order.RunID, Outcome: out.State, Status: out.Status, Result: out.Result, FailureReason: out.Reason, FailureClass: out.Class,
		RootCause: out.RootCause, Diagnosis: out.Diagnosis, Conclusion: out.Conclusion, Artifacts: out.Artifacts, LookAgainAt: out.LookAgainAt,
	}
	if s.Workspace != nil && out.Report != "" {
		var err error
		if f.Report, err = s.Workspace.ReadFile(out.Report); err != nil {
			return err
		}
	}
	if err := s.noteEnd(ctx, out); err != nil {
		return err
	}
	if s.Workspace != nil {
		s.renderLog(ctx)
		if s.Incident.ID != "" {
			s.writePreview(f)
		}
	}
	if err := s.reportToBreaker(ctx, out.Result); err != nil {
		return err
	}
	if err := s.runner.cfg.Store.FinishRun(ctx, f); err != nil {
		return err
	}
	return s.showEnd(ctx, out)
}

// reportToBreaker tells the circuit breaker how the executor did, before the lease goes:
// the next run must not be admitted on what was known before. A crash between the
// two tells it twice.
func (s *Session) reportToBreaker(ctx context.Context, res nightcrier.AgentResult) error {
	run, err := s.runner.cfg.Store.Run(ctx, s.Order.RunID)
	if err != nil || run.Status == nightcrier.Finished {
		return err
	}
	return s.runner.cfg.Supervisor.Learn(ctx, s.Order.Agent.Executor, res)
}

// writePreview writes incident.json as it will be, so that whoever hears from the
// store that an incident has ended finds it so in its workspace. What cannot be
// written now is no reason not to end.
func (s *Session) writePreview(f store.Finish) {
	if !s.Incident.Status.Open() {
		return // it was told before a crash
	}
	inc := f.Preview(s.Incident, s.runner.cfg.Now())
	if err := s.Workspace.WriteIncident(&inc); err != nil {
		s.Log.Warn("incident.json is not current", "event", "incident_file", "error", err)
	}
}

// noteEnd says in the journal how the run ended, before the lease goes. A state
// that no worker has told is told here: of the built-in rules, and of an agent that
// never came to be, or whose worker died.
func (s *Session) noteEnd(ctx context.Context, out Outcome) error {
	if s.Order.Agent.Executor == Builtin || out.Result.StartedAt.IsZero() {
		if err := s.noteState(ctx, journal.State{To: out.Result.State, Reason: out.Reason, FailureClass: out.Class}); err != nil {
			return err
		}
	}
	if s.Incident.ID == "" {
		return s.AppendNote(ctx, "finished", NewLogItem("run ended: %s%s", out.State, ReasonSuffix(out.Reason)))
	}
	return s.AppendNote(ctx, "finished", NewLogItem("incident closed: %s%s", out.Status.Words(), ReasonSuffix(out.Reason)))
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
func (s *Session) showEnd(ctx context.Context, out Outcome) error {
	inc, err := s.runner.incidentOf(ctx, s.Order)
	if err != nil {
		return err
	}
	run, err := s.runner.cfg.Store.Run(ctx, s.Order.RunID)
	if err != nil {
		return err
	}
	if inc.ID == "" {
		s.Log.Info("run ended", "event", "run_ended", "outcome", run.Outcome, "failure_reason", run.FailureReason, "cost_usd", run.CostUSD)
		s.runner.cfg.Supervisor.Ended(run, inc, out.Result, out.Audit)
		return nil
	}
	s.Log.Info("investigation ended", "event", "investigation_ended", "status", inc.Status, "object", workloadToMend(inc), "root_cause", inc.RootCause,
		"verdict", string(out.Verdict), "failure_reason", inc.FailureReason, "took", investigationTime(inc).String(), "workspace", inc.Workspace, "run", s.Order.RunID,
		"cluster_requests", out.Audit.Requests, "denied", out.Audit.Denied, "blocked", out.Result.Blocked, "audit_head", out.Audit.Head)
	s.runner.cfg.Supervisor.Ended(run, inc, out.Result, out.Audit)
	if s.Workspace == nil {
		return nil
	}
	return s.Workspace.WriteIncident(&inc)
}
