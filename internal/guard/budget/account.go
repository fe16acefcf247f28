package budget

import (
	"context"
	"os"
	"sync"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/guard/price"
	"nightcrier.dev/nightcrier/internal/text"
)

// Want is the most that a call may take.
type Want struct {
	Model string
	// Request is an upper bound of the tokens that the request has.
	Request int64
	// Output is the most tokens that the answer may have, as the request says or the
	// guard clamps it; Least is the fewest with which the call is worth being made.
	Output, Least int64
	// Price is what the model costs, of which that of a request as long as Request is
	// reserved, and that of one as long as it was is settled.
	Price price.Price
	// CacheHour says that a part of the request may be kept for an hour, which is dearer.
	CacheHour bool
}

// maxTokens and maxPrice bound what is reckoned with, far above what there is: a
// billion tokens a call and a dollar a token.
const (
	maxTokens = 1_000_000_000
	maxPrice  = price.Dollar
)

func (w Want) checkBounds() error {
	for _, n := range []int64{w.Request, w.Output, w.Least} {
		if n < 0 || n > maxTokens {
			return nightcrier.Errorf(nightcrier.Invalid, "budget: a call of %d tokens", n)
		}
	}
	prices := []price.Price{w.Price}
	if short := w.Price.Short; short != nil {
		prices = append(prices, *short)
		if short.Short != nil || w.Price.UpTo < 0 || w.Price.UpTo > maxTokens {
			return nightcrier.Errorf(nightcrier.Invalid, "budget: the price of %.200q for short requests cannot be told", w.Model)
		}
	}
	for _, each := range prices {
		for _, p := range []price.Money{each.Input, each.CacheWrite, each.CacheWriteHour, each.CacheRead, each.Output} {
			if p < 0 || p > maxPrice {
				return nightcrier.Errorf(nightcrier.Invalid, "budget: a price of %s for a token of %.200q", p, w.Model)
			}
		}
	}
	return nil
}

// reservedPrice is the price that is reserved at.
func (w Want) reservedPrice() price.Price {
	p := w.Price.For(w.Request)
	if !w.CacheHour {
		p.CacheWriteHour = 0 // what is not asked for is not paid
	}
	return p
}

// mostCost is what a call with so many tokens of output may cost.
func (w Want) mostCost(output int64) Amount {
	p := w.reservedPrice()
	return Amount{Money: price.Money(w.Request)*p.Dearest() + price.Money(output)*p.Output, Tokens: w.Request + output}
}

// Account is a run's part of a Ledger. It is safe for concurrent use.
type Account struct {
	ledger *Ledger
	who    Who
	limits Limits
	// refused says that it is on record that a limit is reached: an agent may ask
	// again and again. The ledger's mu guards it.
	refused bool
	ticket  ticket
	waiting int // calls
}

// Reserve sets aside the most that a call may cost, of all limits or of none. A call
// that does not fit may be granted fewer tokens of output, but no fewer than the
// least. When it returns a grant, the reservation is on disk.
//
// A call that what is held for other calls keeps out waits for their end, until ctx
// ends; waits, which may be nil, is told once why.
//
// An error of code Exhausted says which limit is reached. Others say that the record
// cannot be used, or that ctx ended: the call must not be made either.
func (a *Account) Reserve(ctx context.Context, w Want, waits func(why string)) (*Grant, error) {
	if err := w.checkBounds(); err != nil {
		return nil, err
	}
	l := a.ledger
	g := &Grant{account: a, price: w.Price, call: nightcrier.NewID()}
	if err := l.alive.markAlive(g.call); err != nil {
		return nil, err
	}
	err := a.reserveWhenItFits(ctx, w, g, waits)
	if err == nil {
		// Not under the lock: others need not wait for the disk.
		if err = l.sync(g.file); err != nil {
			err = nightcrier.Errorf(nightcrier.Exhausted, "budget: the record cannot be written, so the call is not allowed: %w", err)
		}
	}
	if err != nil {
		l.alive.clearAlive(g.call)
		return nil, err
	}
	return g, nil
}

// reserveCall puts a call on record that fits, or says why it has to wait.
func (a *Account) reserveCall(w Want, g *Grant, q *queued) (why string, err error) {
	l := a.ledger
	d, err := l.openToday()
	if err != nil {
		return "", err
	}
	least, full := w.mostCost(w.Least), ""
	g.output = w.Output
	for _, s := range l.scopesOf(a.who, a.limits, d) {
		output, ok := s.roomFor(w)
		g.output = min(g.output, output)
		if ok {
			continue
		}
		if _, ok := s.withoutHeld(l.underWay(s, a.who, d)).roomFor(w); !ok {
			return "", a.recordRefusalOnce(d, s, s.exhaustedError(&least))
		}
		if full == "" {
			full, why = s.key, s.reasonToWait(least)
		}
	}
	if full == "" && time.Since(q.since) < l.patience {
		var before bool
		if full, before = l.scopeQueuedAhead(a); before {
			why = "others have waited longer for " + scope{key: full}.limitName("*")
		}
	}
	if full != "" {
		return why, a.enterQueue(d, q, full)
	}
	g.day, g.file = d.name, d.file
	return "", d.appendRecord(record{At: l.now().UTC(), Op: opReserve, Call: g.call, Ticket: a.useTicket(q), Who: a.who, Model: text.KeepBytes(w.Model, maxModel), Amount: w.mostCost(g.output), Price: &w.Price})
}

func (a *Account) recordRefusalOnce(d *day, s scope, why error) error {
	if a.refused {
		return why
	}
	a.refused = true
	return a.ledger.recordRefusal(d, a.who, s, why)
}

// maxModel bounds the name of a model in the record, in bytes.
const maxModel = 200

// Used is what the run has used so far, over all its attempts.
func (a *Account) Used() (Sum, error) {
	var s Sum
	return s, a.ledger.runLocked(func() error {
		d, err := a.ledger.openToday()
		if err == nil {
			s = a.ledger.scopesOf(a.who, a.limits, d)[0].sum
		}
		return err
	})
}

// Grant is what was reserved for one call.
type Grant struct {
	account *Account
	price   price.Price
	call    string
	output  int64
	day     string
	file    *os.File
	once    sync.Once
}

// Output is the most tokens that the answer may have.
func (g *Grant) Output() int64 { return g.output }

// Settle puts what the call cost in the place of what was reserved for it. Later calls
// of it, and of Release, do nothing.
func (g *Grant) Settle(t price.Tokens) error {
	defer g.Lost()
	for _, n := range []int64{t.Input, t.CacheWrite, t.CacheWriteHour, t.CacheRead, t.Output} {
		if n < 0 || n > maxTokens {
			return nightcrier.Errorf(nightcrier.Invalid, "budget: the answer says that it took %d tokens; what was reserved for it stays held", n)
		}
	}
	return g.recordEnd(record{Op: opSettle, Amount: Amount{Money: g.price.Of(t), Tokens: t.Total()}, Used: &t})
}

// Release gives back what was reserved for a call that was not sent.
func (g *Grant) Release() error {
	defer g.Lost()
	return g.recordEnd(record{Op: opRelease})
}

// Lost says that the call has ended. Of one that was not settled nobody will know what
// it cost: what was reserved stays held, and nobody waits for it.
func (g *Grant) Lost() { g.account.ledger.alive.clearAlive(g.call) }

// recordEnd is not waited for until it is on disk: lost, the call stays held.
func (g *Grant) recordEnd(r record) (err error) {
	g.once.Do(func() {
		l := g.account.ledger
		err = l.runLocked(func() error {
			if err := l.readAllDays(); err != nil {
				return err
			}
			d := l.days[g.day]
			if d == nil || d.open[g.call].Call == "" {
				return nightcrier.Errorf(nightcrier.Conflict, "budget: call %s is not on record any more", g.call)
			}
			r.At, r.Call = l.now().UTC().Truncate(time.Microsecond), g.call
			return d.appendRecord(r)
		})
	})
	return err
}
