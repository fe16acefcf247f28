package model

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/guard/price"
	"nightcrier.dev/nightcrier/internal/retry"
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
	if !bytes.Contains(text, []byte(b.guard.facts.usageName)) {
		return
	}
	document, err := readJSON(bytes.TrimPrefix(text, []byte("data:")))
	if err != nil {
		return
	}
	u := b.guard.dialect.readUsage(document)
	if !u.said {
		return
	}
	b.seen = usage{tokens: b.seen.tokens.Grown(boundTokens(u.tokens)), said: true, final: u.final}
	if x := b.exchange; u.final && !x.known {
		x.settleCost(b.guard, b.seen.tokens)
		b.guard.bounds.rememberAnswer(x.call, b.seen.tokens)
	}
}

// boundTokens is t with no count below zero, and none so large that sums could overflow.
func boundTokens(t price.Tokens) price.Tokens {
	for _, n := range []*int64{&t.Input, &t.CacheWrite, &t.CacheWriteHour, &t.CacheRead, &t.Output} {
		*n = min(max(*n, 0), 1<<31)
	}
	return t
}

// leastKey is the length in bytes from which on a key is looked for in answers. Shorter
// ones are words for servers that ask for no key, and an answer may have such a word.
const leastKey = 16

// hideKey keeps an answer from repeating the key to the agent, as gateways do that refuse
// it. As many stars take its place as it has bytes.
func (g *Guard) hideKey(resp *http.Response) {
	if len(g.cfg.Key) < leastKey {
		return
	}
	stars := strings.Repeat("*", len(g.cfg.Key))
	for _, values := range resp.Header {
		for i, v := range values {
			values[i] = strings.ReplaceAll(v, g.cfg.Key, stars)
		}
	}
	resp.Body = &withoutKey{ReadCloser: resp.Body, key: []byte(g.cfg.Key), stars: []byte(stars)}
}

// withoutKey is a body without the key. Bytes that may be its beginning are held until
// more has come; all others are handed on at once.
type withoutKey struct {
	io.ReadCloser
	key, stars []byte
	held       []byte // was read, and not handed on
	ready      int    // so many bytes of held may go
	err        error  // of the last read
}

// Read implements io.Reader.
func (b *withoutKey) Read(p []byte) (int, error) {
	for b.ready == 0 && b.err == nil && len(p) > 0 {
		n, err := b.ReadCloser.Read(p)
		b.held, b.err = bytes.ReplaceAll(append(b.held, p[:n]...), b.key, b.stars), err
		b.ready = len(b.held)
		if err == nil {
			b.ready -= keyBytesAtEnd(b.held, b.key)
		}
	}
	if b.ready == 0 {
		return 0, b.err
	}
	n := copy(p, b.held[:b.ready])
	b.held, b.ready = b.held[n:], b.ready-n
	return n, nil
}

// keyBytesAtEnd is how many bytes at the end of text are the beginning of key.
func keyBytesAtEnd(text, key []byte) int {
	for n := min(len(text), len(key)-1); n > 0; n-- {
		if bytes.HasSuffix(text, key[:n]) {
			return n
		}
	}
	return 0
}

// Failure is an answer of the upstream that is an error, or that no answer came. CLIs
// differ in what they tell of one, and some wait for as long as the upstream asks them
// to, without a word.
type Failure struct {
	Status int
	// RetryAfter is how long the upstream asks its caller to wait; 0 is that it does
	// not say.
	RetryAfter time.Duration
	// Unreachable is why there was no answer, nil where there was one; Status is then
	// what the agent gets.
	Unreachable error
}

// readFailure reads an answer that is an error.
func readFailure(resp *http.Response, now time.Time) Failure {
	return Failure{Status: resp.StatusCode, RetryAfter: retry.ReadAfter(resp.Header, now, maxRetryAfter)}
}

// maxRetryAfter bounds what an upstream may ask for.
const maxRetryAfter = 365 * 24 * time.Hour
