package model

import (
	"bytes"
	"io"
	"strings"
	"sync"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/guard/price"
)

// meter adds up what the answers say they cost.
type meter struct {
	mu    sync.Mutex
	usage nightcrier.Usage
	cost  price.Money
}

func (m *meter) totalUsage() nightcrier.Usage {
	m.mu.Lock()
	defer m.mu.Unlock()
	u := m.usage
	u.CostUSD = m.cost.Dollars()
	return u
}

func (m *meter) add(t price.Tokens, cost price.Money) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.usage.APIRequests++
	m.usage.InputTokens += t.Request()
	m.usage.OutputTokens += t.Output
	m.cost += cost
}

// maxHeld bounds what is kept of an answer to find its usage in. It is larger than a
// request, because an answer can repeat all of one: the dearest call must not be the one
// that is not counted.
const maxHeld = maxBody + 4<<20

// metered finds out what an answer cost before the agent has all of it, because the
// agent's next call may need what is then left of a budget. Of a stream of events it
// holds one line at a time. A JSON document is read whole before it is handed on. Any
// other answer is handed on as it comes, and looked at when it has ended.
type metered struct {
	io.ReadCloser
	guard    *Guard
	exchange *exchange
	kind     string // the content's type
	held     []byte
	seen     usage
	plain    io.Reader // what is handed on of a plain answer
	once     sync.Once
}

func (b *metered) Read(p []byte) (int, error) {
	if strings.HasPrefix(b.kind, "application/json") {
		return b.readWholeAnswer().Read(p)
	}
	n, err := b.ReadCloser.Read(p)
	b.readEvents(p[:n])
	return n, err
}

// readWholeAnswer reads a plain answer.
func (b *metered) readWholeAnswer() io.Reader {
	if b.plain != nil {
		return b.plain
	}
	text, err := io.ReadAll(io.LimitReader(b.ReadCloser, maxHeld))
	b.countUsage(text)
	b.plain = io.MultiReader(bytes.NewReader(text), b.ReadCloser)
	if err != nil {
		b.plain = io.MultiReader(bytes.NewReader(text), broken{err})
	}
	return b.plain
}

// broken is the end of an answer that broke off.
type broken struct{ err error }

func (b broken) Read([]byte) (int, error) { return 0, b.err }

// Close counts the call, if it has not been yet.
func (b *metered) Close() error {
	b.once.Do(func() {
		b.countUsage(b.held)
		x := b.exchange
		cost := x.Cost
		if !x.known && x.call.priced {
			cost = x.call.price.Of(b.seen.tokens) // what is known of it
		}
		x.Tokens = b.seen.tokens
		b.guard.meter.add(b.seen.tokens, cost)
	})
	return b.ReadCloser.Close()
}

func (b *metered) readEvents(p []byte) {
	for strings.HasPrefix(b.kind, "text/event-stream") {
		line, rest, found := bytes.Cut(p, []byte{'\n'})
		if !found {
			break
		}
		b.holdBytes(line)
		b.countUsage(b.held)
		b.held, p = b.held[:0], rest
	}
	b.holdBytes(p)
}

func (b *metered) holdBytes(p []byte) {
	b.held = append(b.held, p[:min(len(p), maxHeld-len(b.held))]...)
}

// countUsage reads the usage of one event or of a whole answer.
func (b *metered) countUsage(text []byte) {
	text = bytes.TrimSpace(bytes.TrimPrefix(text, []byte("data:")))
	if len(text) == 0 || text[0] != '{' && text[0] != '[' {
		return
	}
	u := b.guard.protocol.readUsage(text)
	if !u.said {
		return
	}
	b.seen = usage{tokens: b.seen.tokens.Grown(boundTokens(u.tokens)), said: true, final: u.final}
	if x := b.exchange; u.final && !x.known {
		x.settleCost(b.guard, b.seen.tokens)
		if !x.call.leavesOut {
			b.guard.bounds.rememberAnswer(x.call.kind, x.call.body, b.seen.tokens.Request())
		}
	}
}

// boundTokens is t with no count below zero, and none so large that sums could overflow.
func boundTokens(t price.Tokens) price.Tokens {
	for _, n := range []*int64{&t.Input, &t.CacheWrite, &t.CacheWriteHour, &t.CacheRead, &t.Output} {
		*n = min(max(*n, 0), 1<<31)
	}
	return t
}
