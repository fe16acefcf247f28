package model

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/guard/price"
)

// DefaultMaxTokens is how long one answer may be where nothing else is said.
const DefaultMaxTokens = 32_000

// leastOutput is the fewest tokens with which an answer is worth being asked for, and
// leastThinking what a model wants for its thoughts at least.
const (
	leastOutput   = 256
	leastThinking = 1024
)

// admittedCall is a request that may be forwarded, and the most that its answer may have.
type admittedCall struct {
	kind
	weight
	document *document
	billed   bool
	turn     bool  // one of the run's turns is taken for it, and it can still be given back
	output   int64 // 0 for one that is not billed
	body     []byte
	grant    Grant // nil without a budget
	priced   bool
	price    price.Price
}

// limitAnswer finds how long the answer to a request may be: as long as it asks for, and no
// longer than the guard allows.
func (g *Guard) limitAnswer(a *admittedCall) error {
	if !a.billed {
		a.body = a.document.applyEdits()
		return nil
	}
	a.output = g.cfg.MaxTokens
	for _, path := range g.protocol.lengthFields(a.path) {
		for _, at := range a.document.places[plainPath(path)] {
			if a.document.isNullAt(at) {
				continue
			}
			n, ok := a.document.numberAt(at)
			if !ok || n < 1 {
				return fmt.Errorf("%s is no number of tokens", path)
			}
			a.output = min(a.output, n)
		}
	}
	return nil
}

// writeAnswerLength writes into the body how long the answer may be.
func (g *Guard) writeAnswerLength(a *admittedCall, output int64) {
	a.output = output
	d := a.document
	kept := len(d.edits)
	said := false
	for _, path := range g.protocol.lengthFields(a.path) {
		for _, at := range d.places[plainPath(path)] {
			n, ok := d.numberAt(at)
			if said = true; !ok || n != output {
				d.replaceSpan(at, strconv.FormatInt(output, 10))
			}
		}
	}
	if !said {
		d.addNumberField(g.protocol.lengthFields(a.path)[0], output)
	}
	for _, at := range d.places[plainPath(g.protocol.thinkingField())] {
		if n, ok := d.numberAt(at); ok && n >= output {
			d.replaceSpan(at, strconv.FormatInt(output-1, 10))
		}
	}
	a.body = d.applyEdits()
	d.edits = d.edits[:kept]
}

// fewestTokens is the fewest tokens of output with which a call is worth being made.
func (g *Guard) fewestTokens(a *admittedCall) int64 {
	least := int64(leastOutput)
	if path := g.protocol.thinkingField(); path != "" && len(a.document.places[plainPath(path)]) > 0 {
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
	request := g.bounds.mostTokens(a.kind, a.body) + imageTokens*int64(a.images) + toolTokens*int64(a.explained)
	grant, err := g.cfg.Budget.Reserve(ctx, Want{Model: a.model, Request: request, Output: a.output, Least: g.fewestTokens(a), Price: a.price, CacheHour: a.hour})
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

func (d *document) isNullAt(at span) bool { return string(d.body[at.from:at.to]) == "null" }

// plainPath is a path in plain names.
func plainPath(path string) string {
	names := strings.Split(path, ".")
	for i, n := range names {
		names[i] = plainName(n)
	}
	return strings.Join(names, ".")
}
