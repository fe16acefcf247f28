package main

import (
	"fmt"

	"nightcrier.dev/nightcrier/internal/oneshot"

	"nightcrier.dev/nightcrier/internal/guard/price"

	"github.com/spf13/cobra"
)

func (p *program) budgetCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "budget", Short: "Show what agents have spent on models, and the limits", Args: checkArgs(noArgs),
		Long: `Shows what was spent on models on one day (UTC): in all, by cluster and by incident,
beside the limits of budget.* in the configuration. It reads the record in the
workspace root, whether a server runs or not.

HELD is set aside for calls in progress, and for calls whose cost is unknown because
the worker died before the answer ended. It counts as spent. A call that would fit
once calls in progress have settled waits for them.`}
	var day string
	cmd.Flags().StringVar(&day, "day", "", "day in UTC, as 2006-01-02 (default today)")
	p.formatFlag(cmd, "text", "json")
	configFlags(cmd, "workspace-root")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := oneshot.CheckDay(day); err != nil {
			return usageError(cmd, fmt.Errorf("--day: %w", err))
		}
		cfg, err := p.loadConfig(cmd)
		if err != nil {
			return err
		}
		s, err := oneshot.ReadSpending(cfg, day, p.now)
		switch {
		case err != nil:
			return err
		case p.format == "json":
			return p.printJSON(s)
		}
		p.printSpending(s)
		return nil
	}
	return cmd
}

func (p *program) printSpending(s oneshot.Spending) {
	t := table{heading: []string{"SPENT FOR", "CALLS", "SPENT", "HELD", "LIMIT", "TOKENS", "TOKENS HELD", "TOKEN LIMIT"}, expendable: []string{"TOKEN LIMIT", "TOKENS HELD", "CALLS"}}
	limits := func(l oneshot.Spent) (usd, tokens cell) {
		usd, tokens = plainCell("none"), plainCell("none")
		if l.LimitUSD > 0 {
			usd = plainCell(formatMoney(l.LimitUSD))
		}
		if l.LimitTokens > 0 {
			tokens = plainCell(fmt.Sprint(l.LimitTokens))
		}
		return usd, tokens
	}
	add := func(what string, l oneshot.Spent) {
		colour := ""
		if l.LimitReached != "" {
			colour = red
		}
		usd, tokens := limits(l)
		t.addRow(cell{what, colour}, plainCell(fmt.Sprint(l.Calls)), plainCell(formatMoney(l.SpentUSD)), plainCell(formatMoney(l.HeldUSD)), usd,
			plainCell(fmt.Sprint(l.SpentTokens)), plainCell(fmt.Sprint(l.HeldTokens)), tokens)
	}
	each := func(what string, l oneshot.Spent) {
		usd, tokens := limits(l)
		t.addRow(plainCell(what), cell{}, cell{}, cell{}, usd, cell{}, cell{}, tokens)
	}
	add(s.Day+" (UTC)", s.All)
	for _, l := range s.Clusters {
		add("cluster "+l.Name, l)
	}
	for _, l := range s.Incidents {
		add("incident "+l.Name, l)
	}
	for _, l := range s.Days {
		if l.Name != s.Day {
			add(l.Name, l)
		}
	}
	each("each run", oneshot.Spent{LimitUSD: s.PerRunUSD, LimitTokens: s.PerRunTokens})
	each("each incident", oneshot.Spent{LimitUSD: s.PerIncidentUSD, LimitTokens: s.PerIncidentTokens})
	p.printTable(t)
	if n := s.All.Waiting; n > 0 {
		p.printMessage("%s for budget held by others", map[bool]string{true: "1 run waits", false: fmt.Sprintf("%d runs wait", n)}[n == 1])
	}
	for _, l := range append([]oneshot.Spent{s.All}, s.Clusters...) {
		if l.LimitReached != "" {
			p.printMessage("%s", l.LimitReached)
		}
	}
}

func formatMoney(usd float64) string { return price.FromDollars(usd).String() }
