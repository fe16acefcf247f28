package price

import (
	"cmp"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"nightcrier.dev/nightcrier"
)

// Entry is the price of the models of a name.
type Entry struct {
	// Provider is whose API the model is called by; empty means any.
	Provider nightcrier.Provider `json:"provider,omitempty"`
	// Model is a name, or a pattern in which * stands for any text without a slash.
	Model string `json:"model"`
	Price Price  `json:"price"`
}

// Table tells what models cost.
type Table []Entry

// date is how names of models end that mean the model of a certain day.
var date = regexp.MustCompile(`[-@](\d{8}|\d{4}-\d{2}-\d{2})$`)

// Of is what a model costs. An entry of its very name goes before one of its name
// without the date at its end, and both before patterns, of which the longest counts;
// of two that are alike, the first.
func (t Table) Of(provider nightcrier.Provider, model string) (Price, bool) {
	model = strings.TrimPrefix(model, "models/")
	var found *Entry
	best := 0
	for i, e := range t {
		if e.Provider != "" && e.Provider != cmp.Or(provider, nightcrier.Anthropic) {
			continue
		}
		if fit := e.fitRank(model); fit > best {
			best, found = fit, &t[i]
		}
	}
	if found == nil {
		return Price{}, false
	}
	return found.Price, true
}

// longest is more than any pattern's length.
const longest = 1 << 20

// fitRank says how well an entry fits a model's name, 0 for not at all.
func (e Entry) fitRank(model string) int {
	switch {
	case e.Model == model:
		return longest + 1
	case e.Model == date.ReplaceAllString(model, ""):
		return longest
	}
	if Fits(e.Model, model) {
		return len(e.Model)
	}
	return 0
}

// Fits reports whether a name is one of a pattern's. The day that a name ends with
// need not be in it.
func Fits(pattern, name string) bool {
	if pattern == name || pattern == date.ReplaceAllString(name, "") {
		return true
	}
	ok, err := path.Match(pattern, name)
	return err == nil && ok
}

// ParseEntry reads "[provider:]model=input/output[/cache read[/cache write]]", in dollars
// for a million tokens. What is not said of a cache costs what the input does.
func ParseEntry(s string) (Entry, error) {
	name, amounts, ok := strings.Cut(s, "=")
	var e Entry
	e.Model = name
	for _, p := range nightcrier.Providers() {
		if model, of := strings.CutPrefix(name, string(p)+":"); of {
			e.Provider, e.Model = p, model
		}
	}
	parts := strings.Split(amounts, "/")
	if _, err := path.Match(e.Model, ""); err != nil || !ok || e.Model == "" || len(parts) < 2 || len(parts) > 4 {
		return Entry{}, fmt.Errorf("%.100q is no price such as gpt-5=1.25/10/0.125: model=input/output/cache read/cache write, in dollars for a million tokens", s)
	}
	usd := make([]float64, 4)
	for i, part := range parts {
		f, err := strconv.ParseFloat(part, 64)
		if err != nil || !(f >= 0 && f <= 100_000) {
			return Entry{}, fmt.Errorf("%.100q in the price of %.100q is not an amount of dollars", part, e.Model)
		}
		usd[i] = f
	}
	for i := len(parts); i < len(usd); i++ {
		usd[i] = usd[0]
	}
	e.Price = PerMillion(usd[0], usd[1], usd[2], usd[3])
	return e, nil
}

// With has further entries go before those of t.
func (t Table) With(entries []string) (Table, error) {
	var own Table
	for _, s := range entries {
		e, err := ParseEntry(s)
		if err != nil {
			return nil, err
		}
		own = append(own, e)
	}
	return slices.Concat(own, t), nil
}

// PerMillion is a price by what a million tokens cost in dollars, as they are sold.
func PerMillion(input, output, cacheRead, cacheWrite float64) Price {
	write := perMillion(cacheWrite)
	return Price{Input: perMillion(input), Output: perMillion(output), CacheRead: perMillion(cacheRead), CacheWrite: write, CacheWriteHour: write}
}

func perMillion(usd float64) Money { return FromDollars(usd / 1e6) }
