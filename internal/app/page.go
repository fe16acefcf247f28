package app

import (
	"context"
	"encoding/json"
	"strings"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/config"
	"nightcrier.dev/nightcrier/internal/face/ui"
	"nightcrier.dev/nightcrier/internal/guard/budget"
	"nightcrier.dev/nightcrier/internal/record/evidence"
	"nightcrier.dev/nightcrier/internal/run"
	"nightcrier.dev/nightcrier/internal/run/pipeline"
)

// newPage makes the page of the server.
func (a *App) newPage() (*ui.UI, error) {
	access := ui.Access{Key: ui.KeyFrom(a.maskKey), URL: a.cfg.Page.URL}
	for _, s := range a.cfg.Page.Tokens {
		t, err := ui.ParseToken(s)
		if err != nil {
			return nil, err
		}
		access.Tokens = append(access.Tokens, t)
	}
	return ui.New(ui.Options{
		Version: a.opt.Version, Incidents: a.store, Runs: a.store, Events: a.store, Control: a, Server: a, Limits: a.admitter.Limits,
		Access: access, Mask: a.masker.String, Logger: a.log.With("component", "page"), Now: a.opt.Now,
	}), nil
}

// PageLink is an address that logs a browser in on the page, once and soon; "" where no page is
// served.
func (a *App) PageLink() string {
	if a.page == nil {
		return ""
	}
	return a.page.LoginLink("http://" + a.server.PageAddr())
}

// Evidence is an answer that was kept of an incident's investigation.
func (a *Investigator) Evidence(_ context.Context, incidentID, id string) (evidence.Item, []byte, error) {
	ws, err := a.root.Open(incidentID)
	if err != nil {
		return evidence.Item{}, nil, nightcrier.Errorf(nightcrier.NotFound, "the workspace of incident %s is gone: it is kept for %s after its end (retention)", incidentID, a.cfg.Retention)
	}
	defer ws.Close()
	return evidence.Find(func(name string) ([]byte, error) { return ws.ReadFile(run.EvidenceDir + "/" + name) }, id)
}

// Graphs are the pipelines as they are now.
func (a *Investigator) Graphs() (all []ui.Graph) {
	for _, e := range a.pipelines.Library().List() {
		g := ui.Graph{Name: e.Name, Description: e.Description}
		for _, t := range e.On {
			g.Starts = append(g.Starts, startWords(t))
		}
		for _, p := range e.Phases {
			phase := ui.GraphPhase{Name: p.Name, Parallel: p.Parallel}
			for _, s := range p.Steps {
				phase.Steps = append(phase.Steps, ui.GraphStep{ID: s.ID, Uses: s.Uses(), If: s.If})
			}
			g.Phases = append(g.Phases, phase)
		}
		all = append(all, g)
	}
	return all
}

// startWords say what starts a pipeline.
func startWords(t pipeline.Trigger) string {
	switch t.Type {
	case pipeline.OnIncident:
		return "with each incident"
	case pipeline.OnGitHubPR:
		return "with a pull request"
	case pipeline.OnCron:
		return strings.TrimSpace("at " + t.Cron + " " + t.TimeZone)
	case pipeline.OnManual:
		return "when somebody calls it"
	}
	return "by " + t.Type
}

// Spending is what models cost, as far as it is on record.
func (a *Investigator) Spending() (ui.Spending, error) {
	l, err := a.spending.openLedger()
	if err != nil {
		return ui.Spending{}, err
	}
	s, err := l.Spending("")
	if err != nil {
		return ui.Spending{}, err
	}
	out := ui.Spending{PerDay: a.cfg.Budget.PerDayUSD, Refused: s.Refused}
	for _, d := range s.Days {
		out.Days = append(out.Days, ui.Spent{Name: d.Name, USD: d.Spent.Money.Dollars(), Tokens: d.Spent.Tokens})
	}
	for _, c := range s.Clusters {
		out.Clusters = append(out.Clusters, ui.Spent{Name: c.Name, USD: c.Spent.Money.Dollars(), Tokens: c.Spent.Tokens, Limit: a.cfg.Budget.PerClusterDayUSD})
	}
	return out, nil
}

// RunSpending is what a run cost so far, of how much.
func (a *Investigator) RunSpending(runID string) (ui.Spent, error) {
	l, err := a.spending.openLedger()
	if err != nil {
		return ui.Spent{}, err
	}
	used, err := l.Account(budget.Who{Run: runID}, budget.Limits{}).Used()
	return ui.Spent{USD: used.Spent.Money.Dollars(), Tokens: used.Spent.Tokens, Limit: a.cfg.Budget.PerRunUSD}, err
}

// Settings are the effective configuration.
func (a *Investigator) Settings() (all []ui.Setting, err error) {
	for _, s := range config.Effective(a.cfg) {
		value, err := json.Marshal(s.Value)
		if err != nil {
			return nil, nightcrier.Errorf(nightcrier.Internal, "show %s: %w", s.Key, err)
		}
		shown := strings.Trim(string(value), `"`)
		if shown == "null" || shown == "[]" || shown == "{}" {
			shown = ""
		}
		all = append(all, ui.Setting{Key: s.Key, Value: a.masker.String(shown), Origin: s.Origin})
	}
	return all, nil
}

// Doctor looks whether the setup works.
func (a *Investigator) Doctor(ctx context.Context) ([]ui.Check, error) {
	if a.opt.Doctor == nil {
		return nil, nightcrier.Errorf(nightcrier.Unreachable, "this server cannot look at itself; `nightcrier doctor` does")
	}
	return a.opt.Doctor(ctx), nil
}

var _ ui.Server = (*App)(nil)
