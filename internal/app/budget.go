package app

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"sync"
	"time"

	"nightcrier.dev/nightcrier/internal/config"
	"nightcrier.dev/nightcrier/internal/face/notify"
	"nightcrier.dev/nightcrier/internal/face/telemetry"
	"nightcrier.dev/nightcrier/internal/guard/budget"
	"nightcrier.dev/nightcrier/internal/run"
)

// spending is the server's view of what is spent on models. A record that cannot be
// used keeps agents from being asked, and nothing else: it is looked at again.
type spending struct {
	dir string
	now func() time.Time

	mu     sync.Mutex
	opened *budget.Ledger
}

func (s *spending) openLedger() (*budget.Ledger, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.opened != nil {
		return s.opened, nil
	}
	l, err := budget.Open(s.dir, s.now)
	if err != nil {
		return nil, err
	}
	s.opened = l
	return l, nil
}

// tidyLedger shortens what is on record of days that are over.
func (s *spending) tidyLedger(context.Context) error {
	l, err := s.openLedger()
	if err != nil {
		return err
	}
	return l.Tidy()
}

func (s *spending) close(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.opened == nil {
		return nil
	}
	return s.opened.Close()
}

// budgetDir has the record of what is spent on models.
func (a *Investigator) budgetDir() string {
	return cmp.Or(a.opt.BudgetDir, filepath.Join(a.root.Path(), run.BudgetDir))
}

func (a *Investigator) openBudget(context.Context) error {
	a.spending = &spending{dir: a.budgetDir(), now: a.opt.Now}
	a.onStop("budget", a.spending.close)
	return nil
}

// checkBudget returns why an agent is not asked.
func (a *Investigator) checkBudget(o run.Order, cluster string) error {
	if o.Agent.Executor == config.Script && !a.cfg.ModelKey(o.Agent.Provider).IsSet() {
		return nil // it asks no model
	}
	l, err := a.spending.openLedger()
	if err != nil {
		return err
	}
	return l.Check(budget.Who{Run: o.RunID, Incident: o.IncidentID, Cluster: cluster}, o.Agent.Budget)
}

// spentBy is what a run spent, in dollars.
func (a *Investigator) spentBy(o run.Order, cluster string) (float64, error) {
	l, err := a.spending.openLedger()
	if err != nil {
		return 0, err
	}
	s, err := l.Account(budget.Who{Run: o.RunID, Incident: o.IncidentID, Cluster: cluster}, o.Agent.Budget).Used()
	return s.Spent.Money.Dollars(), err
}

// tellBudgets tells people, once a day and scope, that a day's budget is used up.
func (a *Investigator) tellBudgets(ctx context.Context) error {
	l, err := a.spending.openLedger()
	if err != nil {
		return err
	}
	s, err := l.Spending("")
	if err != nil {
		return err
	}
	var all error
	tell := func(cluster, why string) {
		if why != "" {
			all = errors.Join(all, a.notifier.Notify(ctx, notify.BudgetOf(notify.Budget{Cluster: cluster, Day: s.Day, Detail: why})))
		}
	}
	tell("", s.Refused)
	for _, c := range s.Clusters {
		tell(c.Name, c.Refused)
	}
	return all
}

// spentToday is what the metrics show of today.
func (a *Investigator) spentToday() ([]telemetry.Spent, error) {
	l, err := a.spending.openLedger()
	if err != nil {
		return nil, err
	}
	s, err := l.Spending("")
	if err != nil {
		return nil, err
	}
	list := make([]telemetry.Spent, len(s.Clusters))
	for i, c := range s.Clusters {
		list[i] = telemetry.Spent{Cluster: c.Name, USD: c.Spent.Money.Dollars(), HeldUSD: c.Held.Money.Dollars(), Tokens: c.Spent.Tokens, Waiting: c.Waiting}
	}
	return list, nil
}
