package model

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"net/http"
	"sync"
	"time"

	"nightcrier.dev/nightcrier/internal/guard/price"
	"nightcrier.dev/nightcrier/internal/text"
)

// Exchange is one call that was forwarded. It is told of twice: when it is sent,
// without bodies and answer, and, Done, when its answer has ended.
type Exchange struct {
	// N numbers the calls of a guard, from 1, in the order in which they were sent.
	N    int64
	Time time.Time // of sending
	Done bool

	Method, Path string
	Model        string // as the request names it, "" when it does not
	Billed       bool   // it has the model answer; others only count
	Request      Body
	// Sent is how often this request, byte for byte, was sent by this guard until now;
	// above 1 the client tried again.
	Sent int

	// Status is HTTP's, 0 when no answer came.
	Status      int
	ContentType string
	Response    Body
	// Cut says that the answer did not come to its end: either side hung up.
	Cut bool
	// Answer is how long the first byte of an answer took, 0 when none came; Whole how
	// long all of it took.
	Answer, Whole time.Duration
	// Tokens is what a billed answer says that it took, and Cost what that is in
	// dollars where the model has a price. Unknown says that nobody knows all of it: the
	// call was sent, and its answer broke off before it said.
	Tokens  price.Tokens
	Cost    price.Money
	Unknown bool
}

// Body is what was sent one way, as it went over the wire.
type Body struct {
	Bytes  int64
	SHA256 string // of all of it
	// Text is its beginning, up to maxKept bytes.
	Text []byte
}

// maxKept bounds what is kept of one answer, in bytes.
const maxKept = 8 << 20

// exchange is a call that is under way. It is used by one goroutine at a time.
type exchange struct {
	Exchange
	path  string // that the agent called: the upstream's has a prefix of its own
	hash  hash.Hash
	kept  bytes.Buffer
	ended bool // the answer came to its end
	call  *admittedCall
	sent  bool // something of it may have reached the upstream
	known bool // what it cost
}

// exchangeKey is the context key of a call's exchange.
type exchangeKey struct{}

func exchangeOf(ctx context.Context) *exchange {
	x, _ := ctx.Value(exchangeKey{}).(*exchange)
	return x
}

// ledger numbers the calls of a guard.
type ledger struct {
	mu   sync.Mutex
	n    int64
	sent map[string]int // by method, path and hash; calls are paid for or few, which bounds it
}

// openExchange begins the record of a call.
func (l *ledger) openExchange(now time.Time, r *http.Request, a *admittedCall) *exchange {
	x := &exchange{path: r.URL.Path, hash: sha256.New(), call: a, Exchange: Exchange{
		Time: now, Method: r.Method, Path: r.URL.Path, Model: a.model, Billed: a.billed,
		Request: Body{Bytes: int64(len(a.body)), SHA256: text.DigestOf(a.body)},
	}}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sent == nil {
		l.sent = map[string]int{}
	}
	key := r.Method + " " + r.URL.Path + " " + x.Request.SHA256
	l.sent[key]++
	l.n++
	x.N, x.Sent = l.n, l.sent[key]
	return x
}

// watchBody returns an answer's body that is kept as it is read.
func (x *exchange) watchBody(resp *http.Response) io.ReadCloser {
	x.Status, x.ContentType = resp.StatusCode, resp.Header.Get("Content-Type")
	return &recordedBody{resp.Body, x}
}

type recordedBody struct {
	io.ReadCloser
	x *exchange
}

// Read implements io.Reader.
func (b *recordedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	x := b.x
	if n > 0 && x.Answer == 0 {
		x.Answer = max(time.Since(x.Time), 1)
	}
	x.hash.Write(p[:n])
	x.kept.Write(p[:min(n, maxKept-x.kept.Len())])
	x.Response.Bytes += int64(n)
	x.ended = x.ended || errors.Is(err, io.EOF)
	return n, err
}

// closeRecord returns the record of a call whose answer has ended one way or another.
func (x *exchange) closeRecord() Exchange {
	x.Done, x.Whole = true, time.Since(x.Time)
	x.Request.Text, x.Unknown = x.call.body, x.call.billed && x.sent && !x.known
	x.Cut = x.Status != 0 && !x.ended
	x.Response.SHA256, x.Response.Text = hex.EncodeToString(x.hash.Sum(nil)), x.kept.Bytes()
	return x.Exchange
}
