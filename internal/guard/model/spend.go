package model

import (
	"context"
	"fmt"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/guard/budget"
	"nightcrier.dev/nightcrier/internal/guard/price"
)

// Budget is who allows a call before it is made, and is told afterwards what it
// cost. It is called from several goroutines.
type Budget interface {
	// Reserve sets aside the most that a call may cost. A call whose whole want does
	// not fit may be granted fewer tokens of output, but no fewer than the least. An
	// error of code Exhausted says which limit is reached, what was spent of it and
	// that nothing is left: the call is not made. It may wait for calls of others, until
	// ctx ends.
	Reserve(context.Context, Want) (Grant, error)
}

// Want is the most that a call may take.
type Want = budget.Want

// Grant is what was reserved for one call.
type Grant interface {
	// Output is the most tokens that the answer may have.
	Output() int64
	// Settle puts what the call cost in the place of what was reserved for it. It is
	// called once.
	Settle(price.Tokens) error
	// Release gives back what was reserved for a call that was not sent.
	Release() error
	// Lost says that the call has ended and nobody will know what it cost: what was
	// reserved stays spent.
	Lost()
}

// DefaultMaxTokens is how long one answer may be where nothing else is said.
const DefaultMaxTokens = 32_000

// leastOutput is the fewest tokens with which an answer is worth being asked for, and
// leastThinking what a model wants for its thoughts at least.
const (
	leastOutput   = 256
	leastThinking = 1024
)

// fewestTokens is the fewest tokens of output with which a call is worth being made.
func (a *admittedCall) fewestTokens() int64 {
	least := int64(leastOutput)
	if len(a.document.root.membersAt(a.thinkingField)) > 0 {
		least = leastThinking + leastOutput
	}
	return min(least, a.output)
}

// reserveCost asks the budget for the most that a call can cost.
func (g *Guard) reserveCost(ctx context.Context, a *admittedCall) error {
	a.price, a.priced = g.cfg.Prices.Of(g.cfg.Provider, a.model)
	if g.cfg.Budget == nil || !a.billed {
		return nil
	}
	if !a.priced && g.cfg.NeedsPrice {
		return nightcrier.Errorf(nightcrier.Refused,
			"the model %.64q has no price, and dollars are limited: add %q to agent.prices, with what a million tokens cost in dollars (input/output/cache read/cache write), %s",
			a.model, fmt.Sprintf("%s:%.64s=IN/OUT/READ/WRITE", g.cfg.Provider, a.model), g.cfg.Unpriced)
	}
	grant, err := g.cfg.Budget.Reserve(ctx, Want{Model: a.model, Request: g.bounds.mostTokens(a), Output: a.output, Least: a.fewestTokens(), Price: a.price, CacheHour: a.hour})
	if err != nil {
		return err
	}
	a.grant = grant
	return nil
}

// settleCost tells the budget what a call cost, as soon as that is known.
func (x *exchange) settleCost(g *Guard, t price.Tokens) {
	x.known = true
	if x.call.priced {
		x.Cost = x.call.price.Of(t)
	}
	if x.call.grant == nil {
		return
	}
	if err := x.call.grant.Settle(t); err != nil {
		g.cfg.Logger.Error("what a call of the model cost is not on record: what was reserved for it stays spent", "error", err)
	}
}

// settleUnknownCost tells the budget of a call that has ended without having said what it cost:
// what was reserved for one that was not made is given back.
func (x *exchange) settleUnknownCost(g *Guard) {
	switch {
	case x.call.grant == nil || x.known:
		return
	case x.sent:
		x.call.grant.Lost()
		return
	}
	x.known = true
	if err := x.call.grant.Release(); err != nil {
		g.cfg.Logger.Error("what was reserved for a call of the model that was not made stays spent", "error", err)
	}
}
