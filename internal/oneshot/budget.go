package oneshot

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/config"
	"nightcrier.dev/nightcrier/internal/guard/budget"
	"nightcrier.dev/nightcrier/internal/run"
)

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
	limits := cfg.Budget.Limits()
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
