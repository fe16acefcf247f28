// Package price says what calls of a model cost.
//
// Money is counted in whole billionths of a dollar, so that sums over many calls and
// several processes are exact.
package price

import (
	"fmt"
	"math"
)

// Money is an amount in billionths of a US dollar.
type Money int64

// Dollar is one.
const Dollar Money = 1_000_000_000

// FromDollars rounds to the nearest billionth.
func FromDollars(usd float64) Money { return Money(math.Round(usd * float64(Dollar))) }

// Dollars is m for people and for JSON.
func (m Money) Dollars() float64 { return float64(m) / float64(Dollar) }

// String writes dollars with as many places as it takes, two at least: $0.02, $0.000125.
func (m Money) String() string {
	sign := ""
	if m < 0 {
		sign, m = "-", -m
	}
	places := fmt.Sprintf("%09d", m%Dollar)
	for len(places) > 2 && places[len(places)-1] == '0' {
		places = places[:len(places)-1]
	}
	return fmt.Sprintf("%s$%d.%s", sign, m/Dollar, places)
}

// Tokens is what a call used. The kinds are disjoint: Input is what was neither read
// from a cache nor written to one, CacheWriteHour what was written to one that is kept
// for an hour, which some sell apart.
type Tokens struct {
	Input          int64 `json:"input,omitempty"`
	CacheWrite     int64 `json:"cacheWrite,omitempty"`
	CacheWriteHour int64 `json:"cacheWriteHour,omitempty"`
	CacheRead      int64 `json:"cacheRead,omitempty"`
	Output         int64 `json:"output,omitempty"`
}

// Request is the tokens of the request, of whichever kind.
func (t Tokens) Request() int64 { return t.Input + t.CacheWrite + t.CacheWriteHour + t.CacheRead }

// Total is all of them.
func (t Tokens) Total() int64 { return t.Request() + t.Output }

// Plus is what both used.
func (t Tokens) Plus(o Tokens) Tokens {
	return Tokens{t.Input + o.Input, t.CacheWrite + o.CacheWrite, t.CacheWriteHour + o.CacheWriteHour, t.CacheRead + o.CacheRead, t.Output + o.Output}
}

// Grown is what a stream has said that said o after t: of the request the later, unless
// it says less of it, and the most output.
func (t Tokens) Grown(o Tokens) Tokens {
	output := max(t.Output, o.Output)
	if o.Request() >= t.Request() {
		t = o
	}
	t.Output = output
	return t
}

// Price is what one token costs, each kind.
type Price struct {
	Input          Money `json:"input"`
	CacheWrite     Money `json:"cacheWrite"`
	CacheWriteHour Money `json:"cacheWriteHour,omitempty"`
	CacheRead      Money `json:"cacheRead"`
	Output         Money `json:"output"`
	// Short is what calls cost whose request has UpTo tokens at most, where that is
	// less; nil where all cost the same.
	UpTo  int64  `json:"upTo,omitempty"`
	Short *Price `json:"short,omitempty"`
}

// For is the price of calls whose request has no more than that many tokens.
func (p Price) For(request int64) Price {
	if p.Short != nil && request <= p.UpTo {
		return *p.Short
	}
	return p
}

// Of is what those tokens cost.
func (p Price) Of(t Tokens) Money {
	p = p.For(t.Request())
	return Money(t.Input)*p.Input + Money(t.CacheWrite)*p.CacheWrite + Money(t.CacheWriteHour)*p.CacheWriteHour +
		Money(t.CacheRead)*p.CacheRead + Money(t.Output)*p.Output
}

// Dearest is the highest price of a token of a request, whichever kind it turns out
// to be: what has to be reserved for it.
func (p Price) Dearest() Money { return max(p.Input, p.CacheWrite, p.CacheWriteHour, p.CacheRead) }
