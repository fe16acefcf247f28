package budget

import (
	"fmt"
	"math"
	"strings"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/guard/price"
)

// Who is what a call is counted for.
type Who struct {
	Run string `json:"run,omitempty"`
	// Step is the part of the run, where it has several.
	Step     string `json:"step,omitempty"`
	Incident string `json:"incident,omitempty"`
	Cluster  string `json:"cluster,omitempty"`
}

// Amount is a sum of money and of tokens.
type Amount struct {
	Money  price.Money `json:"money"`
	Tokens int64       `json:"tokens"`
}

func (a Amount) plusAmount(b Amount) Amount {
	return Amount{Money: price.Money(addCapped(int64(a.Money), int64(b.Money))), Tokens: addCapped(a.Tokens, b.Tokens)}
}

func (a Amount) minusAmount(b Amount) Amount { return Amount{a.Money - b.Money, a.Tokens - b.Tokens} }

// addCapped does not wrap around: a sum that is too large stays the largest.
func addCapped(a, b int64) int64 {
	if b > 0 && a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// Sum is what became of the calls of a scope.
type Sum struct {
	// Calls is how many were reserved for and not given back.
	Calls int64
	// Spent is what answered calls cost. Held is what stays reserved: for calls under
	// way, and for those of which nobody knows what they cost.
	Spent, Held Amount
}

func (s Sum) takenAmount() Amount { return s.Spent.plusAmount(s.Held) }

func (s Sum) plusSum(o Sum) Sum {
	return Sum{Calls: s.Calls + o.Calls, Spent: s.Spent.plusAmount(o.Spent), Held: s.Held.plusAmount(o.Held)}
}

// Limit bounds one scope; 0 is no bound.
type Limit struct {
	Money  price.Money `json:"money,omitempty"`
	Tokens int64       `json:"tokens,omitempty"`
	// MoneyOf says whose bound Money is, in words, "" for the configuration's.
	MoneyOf string `json:"moneyOf,omitempty"`
}

// Limits are the bounds of a run's scopes. A day is a day of UTC.
type Limits struct {
	Run        Limit `json:"run,omitzero"`
	Step       Limit `json:"step,omitzero"`
	Incident   Limit `json:"incident,omitzero"`
	ClusterDay Limit `json:"clusterDay,omitzero"`
	Day        Limit `json:"day,omitzero"`
}

// BoundMoney makes it no more than that, in dollars, and says whose bound that is; 0 bounds nothing.
func (l *Limit) BoundMoney(usd float64, of string) {
	if usd <= 0 {
		return
	}
	// Less than can be counted is the least that can: 0 would bound nothing.
	if m := max(price.FromDollars(usd), 1); l.Money == 0 || m < l.Money {
		l.Money, l.MoneyOf = m, of
	}
}

// InMoney reports whether any of them is in money: calls then need a price.
func (l Limits) InMoney() bool {
	return l.Run.Money > 0 || l.Step.Money > 0 || l.Incident.Money > 0 || l.ClusterDay.Money > 0 || l.Day.Money > 0
}

// The keys of the scopes, as the configuration has them without their unit. The limit of a step
// stands in its pipeline.
const (
	perStep       = "per_step"
	perRun        = "per_run"
	perIncident   = "per_incident"
	perClusterDay = "per_cluster_day"
	perDay        = "per_day"
)

// scope is one of the five that a call is counted in.
type scope struct {
	key  string
	what string // of which there is a sum, in words
	sum  Sum
	lim  Limit
}

// roomFor is how many tokens of output fit besides the request, and whether any do.
func (s scope) roomFor(w Want) (output int64, ok bool) {
	output = w.Output
	taken := s.sum.takenAmount()
	if s.lim.Tokens > 0 {
		output = min(output, s.lim.Tokens-taken.Tokens-w.Request)
	}
	if s.lim.Money > 0 {
		p := w.reservedPrice()
		left := s.lim.Money - taken.Money - price.Money(w.Request)*p.Dearest()
		switch {
		case left < 0:
			output = -1
		case p.Output > 0:
			output = min(output, int64(left/p.Output))
		}
	}
	return output, output >= max(w.Least, 0)
}

// withoutHeld is the scope as it is when some of what is held has come back.
func (s scope) withoutHeld(back Amount) scope {
	s.sum.Held = s.sum.Held.minusAmount(back)
	return s
}

// isSpent reports whether so little is left of a limit that no agent is started for it:
// less than a hundredth.
func (s scope) isSpent() bool {
	taken := s.sum.takenAmount()
	return s.lim.Money > 0 && taken.Money > s.lim.Money-max(s.lim.Money/100, 1) ||
		s.lim.Tokens > 0 && taken.Tokens > s.lim.Tokens-max(s.lim.Tokens/100, 1)
}

// limitName names the limit where it is set.
func (s scope) limitName(unit string) string {
	switch {
	case unit == "usd" && s.lim.MoneyOf != "":
		return s.lim.MoneyOf
	case s.key == perStep:
		return "the budget of the step"
	}
	return "budget." + s.key + "_" + unit
}

// exhaustedError says which limit is reached, and by what. Where it is that of one call
// which does not fit, next is the least that this may cost.
func (s scope) exhaustedError(next *Amount) error {
	taken := s.sum.takenAmount()
	money := s.lim.Money > 0 && (next == nil || s.lim.Money-taken.Money < next.Money)
	if next == nil {
		money = s.lim.Money > 0 && taken.Money > s.lim.Money-max(s.lim.Money/100, 1)
	}
	var text strings.Builder
	if money {
		fmt.Fprintf(&text, "%s is reached: %s of %s are spent for %s", s.limitName("usd"), s.sum.Spent.Money, s.lim.Money, s.what)
	} else {
		fmt.Fprintf(&text, "%s is reached: %d of %d tokens are spent for %s", s.limitName("tokens"), s.sum.Spent.Tokens, s.lim.Tokens, s.what)
	}
	switch {
	case money && s.sum.Held.Money > 0:
		fmt.Fprintf(&text, ", and %s are held for calls under way or of unknown cost", s.sum.Held.Money)
	case !money && s.sum.Held.Tokens > 0:
		fmt.Fprintf(&text, ", and %d are held for calls under way or of unknown cost", s.sum.Held.Tokens)
	}
	switch {
	case next != nil && money:
		fmt.Fprintf(&text, "; the next call may cost %s, more than is left: raise the limit to go on", next.Money)
	case next != nil:
		fmt.Fprintf(&text, "; the next call may take %d, more than is left: raise the limit to go on", next.Tokens)
	}
	return nightcrier.Errorf(nightcrier.Exhausted, "%s", &text)
}

// reasonToWait says for which limit a call waits that may cost next.
func (s scope) reasonToWait(next Amount) string {
	taken := s.sum.takenAmount()
	if s.lim.Money > 0 && s.lim.Money-taken.Money < next.Money {
		return fmt.Sprintf("%s: %s of %s are spent and %s held for %s, and this call may cost %s", s.limitName("usd"), s.sum.Spent.Money, s.lim.Money, s.sum.Held.Money, s.what, next.Money)
	}
	return fmt.Sprintf("%s: %d of %d tokens are spent and %d held for %s, and this call may take %d", s.limitName("tokens"), s.sum.Spent.Tokens, s.lim.Tokens, s.sum.Held.Tokens, s.what, next.Tokens)
}
