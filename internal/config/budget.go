package config

import (
	"nightcrier.dev/nightcrier/internal/guard/budget"
	"nightcrier.dev/nightcrier/internal/guard/price"
)

// Limits are those that are set, as the ledger takes them.
func (b *Budget) Limits() budget.Limits {
	limit := func(usd float64, tokens int) budget.Limit {
		return budget.Limit{Money: price.FromDollars(usd), Tokens: int64(tokens)}
	}
	return budget.Limits{
		Run: limit(b.PerRunUSD, b.PerRunTokens), Incident: limit(b.PerIncidentUSD, b.PerIncidentTokens),
		ClusterDay: limit(b.PerClusterDayUSD, b.PerClusterDayTokens), Day: limit(b.PerDayUSD, b.PerDayTokens),
	}
}
