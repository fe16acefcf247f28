package model

import (
	"context"

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
type Want struct {
	Model string
	// Request is an upper bound of the tokens that the request has.
	Request int64
	// Output is the most tokens that the answer may have, as the request says or the
	// guard clamps it; Least is the fewest with which it is worth being made.
	Output, Least int64
	// Price is what the model costs. It may depend on the length of the request: what is
	// reserved is for one of Request tokens, what is settled for the tokens that it had.
	Price price.Price
	// CacheHour says that a part of the request may be kept for an hour, which is dearer.
	CacheHour bool
}

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
