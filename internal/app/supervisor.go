package app

import (
	"context"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/config"
	"nightcrier.dev/nightcrier/internal/face/notify"
	"nightcrier.dev/nightcrier/internal/guard/budget"
	"nightcrier.dev/nightcrier/internal/record/audit"
	"nightcrier.dev/nightcrier/internal/run"
	"nightcrier.dev/nightcrier/internal/run/admit"
)

// supervisor is whom runs answer to.
type supervisor struct{ *Investigator }

// announce tells people how an incident ended, once.
func (a *Investigator) announce(ctx context.Context, inc nightcrier.Incident, rep *nightcrier.Report, runID string) error {
	if rep != nil {
		a.metrics.ReportChecked(rep.CheckedShare)
	}
	if err := a.notifier.Notify(ctx, notify.OutcomeOf(inc, runID, rep, inc.Workspace)); err != nil {
		return err
	}
	now, err := a.store.Incident(ctx, inc.ID)
	if err != nil || now.Severity <= inc.Severity {
		return err
	}
	// It rose while this was told; the message about that waited for this one.
	return a.notifier.Notify(ctx, notify.RiseOf(now, inc.Severity, now.Workspace))
}

// Afford implements run.Supervisor.
func (s supervisor) Afford(o run.Order, step, cluster string) error {
	if o.Agent.Executor == config.Script && !s.cfg.ModelKey(o.Agent.Provider).IsSet() {
		return nil // it asks no model
	}
	l, err := s.spending.openLedger()
	if err != nil {
		return err
	}
	return l.Check(budget.Who{Run: o.RunID, Step: step, Incident: o.BudgetID(), Cluster: cluster}, o.Agent.Budget)
}

// Spent implements run.Supervisor.
func (s supervisor) Spent(o run.Order) (float64, error) {
	l, err := s.spending.openLedger()
	if err != nil {
		return 0, err
	}
	used, err := l.Account(budget.Who{Run: o.RunID}, o.Agent.Budget).Used()
	return used.Spent.Money.Dollars(), err
}

// Ended implements run.Supervisor: it counts.
func (s supervisor) Ended(_ nightcrier.Run, inc nightcrier.Incident, res nightcrier.AgentResult, asked audit.Summary) {
	if inc.ID == "" {
		return // what is counted is of clusters
	}
	s.metrics.ClusterAsked(inc.Cluster, asked.Requests-asked.Denied, asked.Denied)
	s.metrics.AgentEnded(inc.Cluster, res)
	s.metrics.IncidentClosed(inc.Cluster, inc.Status)
	if res.FailureClass == nightcrier.FailBudget && s.opt.BudgetDir == "" { // else the server tells
		s.housekeeper.runLater(s.tellBudgets)
	}
}

// Learn implements run.Supervisor: it lets the circuit breaker know, and tells people when
// that opens or closes it.
func (s supervisor) Learn(ctx context.Context, executor string, res nightcrier.AgentResult) error {
	tr, err := s.breaker.Report(ctx, executor, res)
	if err != nil || tr == "" {
		return err
	}
	open := tr == admit.BreakerOpened
	s.metrics.BreakerChanged(executor, open)
	s.log.Warn("circuit breaker", "component", "admission", "event", string(tr), "executor", executor, "failure_class", res.FailureClass)
	s.housekeeper.runLater(func(ctx context.Context) error { return s.tellBreaker(ctx, executor, open, res) })
	return nil
}

// Tell implements run.Supervisor.
func (s supervisor) Tell(ctx context.Context, o run.Order) error {
	r, err := s.store.Run(ctx, o.RunID)
	if err != nil {
		return err
	}
	return s.tellRun(ctx, r, o.Pipeline)
}

// Journaled implements run.Supervisor.
func (s supervisor) Journaled(e nightcrier.JournalEntry) {
	if s.opt.Journaled != nil {
		s.opt.Journaled(e)
	}
}
