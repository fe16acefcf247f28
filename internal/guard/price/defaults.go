package price

import (
	"maps"
	"regexp"
	"slices"

	"nightcrier.dev/nightcrier"
)

// Defaults are what the vendors ask for models, as far as it was known on
// 2026-11-23. A model of a certain day that costs something else than those of its name has
// an entry of its own: of these models the first gpt-4o alone. What the others of a day cost
// is what their name costs.
func Defaults() Table {
	vendors := vendorPrices()
	return slices.Concat(vendors, passedOn(vendors))
}

// passedOn are the prices by which OpenRouter passes calls on: those of the vendors, whose names
// stand in front of those of their models. It writes the numbers of Anthropic's with a dot.
func passedOn(vendors Table) (t Table) {
	for _, e := range vendors {
		name := string(e.Provider) + "/" + e.Model
		t = append(t, Entry{Provider: nightcrier.OpenRouter, Model: name, Price: e.Price})
		if dotted := dashedNumber.ReplaceAllString(name, "-$1.$2"); dotted != name {
			t = append(t, Entry{Provider: nightcrier.OpenRouter, Model: dotted, Price: e.Price})
		}
	}
	return t
}

var dashedNumber = regexp.MustCompile(`-(\d)-(\d)$`)

// vendorPrices are those of the vendors themselves.
func vendorPrices() Table {
	return slices.Concat(
		tableOf(nightcrier.Anthropic, map[string]Price{
			"claude-haiku-4-5":  claudePrice(1, 5, 0.1),
			"claude-haiku-5-5":  priceAbove(100_000, claudePrice(0.1, 0.5, 0.01), claudePrice(0.5, 2.5, 0.05)),
			"claude-sonnet-4-0": claudePrice(3, 15, 0.3),
			"claude-sonnet-4":   claudePrice(3, 15, 0.3),
			"claude-sonnet-4-5": claudePrice(3, 15, 0.3),
			"claude-sonnet-4-6": claudePrice(3, 15, 0.3),
			"claude-sonnet-5":   claudePrice(2, 10, 0.2),
			"claude-sonnet-5-5": claudePrice(2, 10, 0.1),
			"claude-opus-4-0":   claudePrice(15, 75, 1.5),
			"claude-opus-4":     claudePrice(15, 75, 1.5),
			"claude-opus-4-1":   claudePrice(15, 75, 1.5),
			"claude-opus-4-5":   claudePrice(5, 25, 0.5),
			"claude-opus-4-6":   claudePrice(5, 25, 0.5),
			"claude-opus-4-7":   claudePrice(5, 25, 0.5),
			"claude-opus-4-8":   claudePrice(5, 25, 0.5),
			"claude-opus-5":     claudePrice(5, 25, 0.5),
			"claude-opus-5-5":   claudePrice(4, 20, 0.2),
			"claude-fable-5":    claudePrice(10, 50, 1),
			"claude-fable-5-1":  claudePrice(10, 50, 0.25),
			"claude-fable-5-2":  claudePrice(8, 40, 0.2),
		}),
		tableOf(nightcrier.OpenAI, map[string]Price{
			"gpt-4.1":           PerMillion(2, 8, 0.5, 2),
			"gpt-4o":            PerMillion(2.5, 10, 1.25, 2.5),
			"gpt-4o-2024-05-13": PerMillion(5, 15, 5, 5),
			"gpt-4o-mini":       PerMillion(0.15, 0.6, 0.075, 0.15),
			"gpt-5":             PerMillion(1.25, 10, 0.125, 1.25),
			"gpt-5-mini":        PerMillion(0.25, 2, 0.025, 0.25),
			"gpt-5-nano":        PerMillion(0.05, 0.4, 0.005, 0.05),
			"gpt-5.1":           PerMillion(1.25, 10, 0.125, 1.25),
			"gpt-5.2":           PerMillion(1.75, 14, 0.175, 1.75),
			"gpt-5.3-codex":     PerMillion(1.75, 14, 0.175, 1.75),
			"gpt-5.4":           priceAbove(272_000, PerMillion(2.5, 15, 0.25, 2.5), PerMillion(5, 22.5, 0.5, 5)),
			"gpt-5.4-mini":      PerMillion(0.75, 4.5, 0.075, 0.75),
			"gpt-5.4-nano":      PerMillion(0.2, 1.25, 0.02, 0.2),
			"gpt-5.5":           priceAbove(272_000, PerMillion(5, 30, 0.5, 5), PerMillion(10, 45, 1, 10)),
			"gpt-5.6":           priceAbove(272_000, PerMillion(4, 20, 0.4, 5), PerMillion(8, 30, 0.8, 10)),
			"gpt-5.6-sol":       priceAbove(272_000, PerMillion(4, 20, 0.4, 5), PerMillion(8, 30, 0.8, 10)),
			"gpt-5.6-terra":     priceAbove(272_000, PerMillion(2, 12, 0.2, 2.5), PerMillion(4, 18, 0.4, 5)),
			"gpt-5.6-luna":      priceAbove(272_000, PerMillion(0.2, 1.2, 0.02, 0.25), PerMillion(0.4, 1.8, 0.04, 0.5)),
			"gpt-6-sol":         priceAbove(272_000, PerMillion(2, 10, 0.2, 2.5), PerMillion(4, 15, 0.4, 5)),
			"gpt-6-luna":        priceAbove(272_000, PerMillion(0.1, 0.5, 0.01, 0.125), PerMillion(0.2, 0.75, 0.02, 0.25)),
			"gpt-6.1-sol":       priceAbove(272_000, PerMillion(2, 10, 0.1, 2.5), PerMillion(4, 15, 0.2, 5)),
		}),
		tableOf(nightcrier.Google, map[string]Price{
			"gemini-2.5-pro":        priceAbove(200_000, PerMillion(1.25, 10, 0.125, 1.25), PerMillion(2.5, 15, 0.25, 2.5)),
			"gemini-2.5-flash":      PerMillion(0.3, 2.5, 0.03, 0.3),
			"gemini-2.5-flash-lite": PerMillion(0.1, 0.4, 0.01, 0.1),
		}),
	)
}

// tableOf is a table of one vendor's models.
func tableOf(p nightcrier.Provider, prices map[string]Price) Table {
	var t Table
	for _, model := range slices.Sorted(maps.Keys(prices)) {
		t = append(t, Entry{Provider: p, Model: model, Price: prices[model]})
	}
	return t
}

// claudePrice is a price of Anthropic's: writing to the cache costs a quarter more than
// reading afresh, for an hour twice as much.
func claudePrice(input, output, cacheRead float64) Price {
	p := PerMillion(input, output, cacheRead, 1.25*input)
	p.CacheWriteHour = perMillion(2 * input)
	return p
}

// priceAbove is a price that is another one for requests of more than so many tokens.
func priceAbove(tokens int64, short, long Price) Price {
	long.UpTo, long.Short = tokens, &short
	return long
}
