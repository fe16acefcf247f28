package app

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/config"
	"nightcrier.dev/nightcrier/internal/face/notify"
	"nightcrier.dev/nightcrier/internal/face/telemetry"
	"nightcrier.dev/nightcrier/internal/guard/budget"
	"nightcrier.dev/nightcrier/internal/guard/price"
	"nightcrier.dev/nightcrier/internal/run"
)

// limitsOf are the limits that a configuration sets.
func limitsOf(b config.Budget) budget.Limits {
	limit := func(usd float64, tokens int) budget.Limit {
		return budget.Limit{Money: price.FromDollars(usd), Tokens: int64(tokens)}
	}
	return budget.Limits{
		Run: limit(b.PerRunUSD, b.PerRunTokens), Incident: limit(b.PerIncidentUSD, b.PerIncidentTokens),
		ClusterDay: limit(b.PerClusterDayUSD, b.PerClusterDayTokens), Day: limit(b.PerDayUSD, b.PerDayTokens),
	}
}

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
func (a *App) budgetDir() string {
	return cmp.Or(a.opt.budgetDir, filepath.Join(a.root.Path(), run.BudgetDir))
}

// serversBudget is the record of the server whose workspace root is configured, for who
// spends beside it; "" where no server has been.
func serversBudget(cfg *config.Config) (string, error) {
	if _, err := os.Stat(cfg.WorkspaceRoot); errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	dir := filepath.Join(cfg.WorkspaceRoot, run.BudgetDir)
	l, err := budget.Open(dir, time.Now)
	if err != nil {
		return "", err
	}
	return dir, l.Close()
}

func (a *App) openBudget(context.Context) error {
	a.spending = &spending{dir: a.budgetDir(), now: a.opt.Now}
	a.onStop("budget", a.spending.close)
	return nil
}

// checkBudget returns why an agent is not asked.
func (a *App) checkBudget(o run.Order, cluster string) error {
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
func (a *App) spentBy(o run.Order, cluster string) (float64, error) {
	l, err := a.spending.openLedger()
	if err != nil {
		return 0, err
	}
	s, err := l.Account(budget.Who{Run: o.RunID, Incident: o.IncidentID, Cluster: cluster}, o.Agent.Budget).Used()
	return s.Spent.Money.Dollars(), err
}

// tellBudgets tells people, once a day and scope, that a day's budget is used up.
func (a *App) tellBudgets(ctx context.Context) error {
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
func (a *App) spentToday() ([]telemetry.Spent, error) {
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

// Spending is what was spent on models, and what may be. Amounts are in dollars.
type Spending struct {
	// Day is one of UTC, as 2006-01-02.
	Day       string  `json:"day"`
	All       Spent   `json:"all"`
	Clusters  []Spent `json:"clusters"`
	Incidents []Spent `json:"incidents"`
	// Days are all days on record, the newest first.
	Days []Spent `json:"days"`
	// PerRunUSD and PerRunTokens bound each run; absent without a bound.
	PerRunUSD    float64 `json:"perRunUSD,omitempty"`
	PerRunTokens int64   `json:"perRunTokens,omitempty"`
	// PerIncidentUSD and PerIncidentTokens bound each incident; absent without a bound.
	PerIncidentUSD    float64 `json:"perIncidentUSD,omitempty"`
	PerIncidentTokens int64   `json:"perIncidentTokens,omitempty"`
}

// Spent is a sum, and its limit where there is one. What is held was set aside for
// calls under way, and for those of which nobody knows what they cost.
type Spent struct {
	Name         string  `json:"name"`
	Calls        int64   `json:"calls"`
	SpentUSD     float64 `json:"spentUSD"`
	HeldUSD      float64 `json:"heldUSD"`
	LimitUSD     float64 `json:"limitUSD,omitempty"`
	SpentTokens  int64   `json:"spentTokens"`
	HeldTokens   int64   `json:"heldTokens"`
	LimitTokens  int64   `json:"limitTokens,omitempty"`
	LimitReached string  `json:"limitReached,omitempty"`
	// Waiting is how many runs wait now for what is held for calls of others.
	Waiting int `json:"waiting,omitempty"`
}

// ReadSpending reads the record of a configuration's workspace root, whether a server
// runs or not. day is one of UTC, as 2006-01-02; empty is today.
func ReadSpending(cfg *config.Config, day string, now func() time.Time) (Spending, error) {
	limits := limitsOf(cfg.Budget)
	out := Spending{Clusters: []Spent{}, Incidents: []Spent{}, Days: []Spent{}, PerRunUSD: cfg.Budget.PerRunUSD, PerRunTokens: limits.Run.Tokens,
		PerIncidentUSD: cfg.Budget.PerIncidentUSD, PerIncidentTokens: limits.Incident.Tokens}
	s, err := readSpending(filepath.Join(cfg.WorkspaceRoot, run.BudgetDir), day, now)
	if err != nil {
		return out, err
	}
	out.Day, out.All = s.Day, spentOf(s.Line, limits.Day)
	for _, l := range s.Clusters {
		out.Clusters = append(out.Clusters, spentOf(l, limits.ClusterDay))
	}
	for _, l := range s.Incidents {
		out.Incidents = append(out.Incidents, spentOf(l, limits.Incident))
	}
	for _, l := range s.Days {
		out.Days = append(out.Days, spentOf(l, limits.Day))
	}
	return out, nil
}

func readSpending(dir, day string, now func() time.Time) (budget.Spending, error) {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		s := budget.Spending{Line: budget.Line{Name: "all clusters"}, Day: day}
		if day == "" {
			s.Day = now().UTC().Format(time.DateOnly)
		}
		return s, nil // no agent was ever asked, and looking makes no directory
	}
	l, err := budget.Open(dir, now)
	if err != nil {
		return budget.Spending{}, err
	}
	s, err := l.Spending(day)
	return s, errors.Join(err, l.Close())
}

func spentOf(l budget.Line, limit budget.Limit) Spent {
	return Spent{
		Name: l.Name, Calls: l.Calls, SpentUSD: l.Spent.Money.Dollars(), HeldUSD: l.Held.Money.Dollars(), LimitUSD: limit.Money.Dollars(),
		SpentTokens: l.Spent.Tokens, HeldTokens: l.Held.Tokens, LimitTokens: limit.Tokens, LimitReached: l.Refused,
		Waiting: l.Waiting,
	}
}

// CheckDay returns an error of code Invalid for what is no day.
func CheckDay(day string) error {
	if _, err := time.Parse(time.DateOnly, day); day != "" && err != nil {
		return nightcrier.Errorf(nightcrier.Invalid, "%q is no day such as 2026-11-23", day)
	}
	return nil
}
