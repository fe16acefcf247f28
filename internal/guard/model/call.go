package model

import (
	"bytes"
	"context"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"strings"
	"time"

	"nightcrier.dev/nightcrier/internal/guard/endpoint"
)

// ServeHTTP checks a call and forwards it.
func (g *Guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case !g.authentic(r):
		g.cfg.Refused(callOf(r), "this token is not the run's")
		g.refuse(w, http.StatusUnauthorized, "authentication_error", "this token is not the run's")
	case r.Method == http.MethodHead && r.URL.Path == "/":
		g.cfg.Refused(callOf(r), "the guard answers it itself")
		w.WriteHeader(http.StatusOK) // some clients look whether anybody is there
	case !g.protocol.forwards(r.Method, r.URL.Path):
		g.cfg.Logger.Warn("model guard refused a call", "method", r.Method, "path", r.URL.Path)
		g.cfg.Refused(callOf(r), "the guard does not forward this call")
		g.refuse(w, http.StatusForbidden, "permission_error", "the guard does not forward this call")
	default:
		g.forward(w, r)
	}
}

// callOf names a call: method and path, in which any byte may stand.
func callOf(r *http.Request) string {
	return strings.Trim(strconv.QuoteToASCII(r.Method+" "+r.URL.Path), `"`)
}

// forward makes a call. An agent can call from many places at the same time, so at most
// maxCalls are under way at once, each until it is on record.
func (g *Guard) forward(w http.ResponseWriter, r *http.Request) {
	select {
	case g.slots <- struct{}{}:
	default:
		g.refuse(w, http.StatusTooManyRequests, "rate_limit_error", fmt.Sprintf("%d calls are under way already", maxCalls))
		return
	}
	record := func() {}
	defer func() {
		go func() { // the answer to the agent does not wait for the record
			defer func() { <-g.slots }()
			record()
		}()
	}()
	a, ok := g.admit(w, r)
	if !ok {
		return
	}
	x := g.ledger.open(time.Now(), r, a)
	g.cfg.Record(x.Exchange)
	record = func() { g.cfg.Record(x.close()) }
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(a.body)), int64(len(a.body))
	ctx := httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { x.sent = true }})
	defer g.returnTurn(a)
	defer x.conclude(g) // also where the proxy panics, as it does when an answer breaks off
	g.proxy.ServeHTTP(w, r.WithContext(context.WithValue(ctx, exchangeKey{}, x)))
}

// admit reads the whole request, because what is at its end may forbid it, completes it
// and asks the budget. Where the call may not be made, it answers and returns false.
func (g *Guard) admit(w http.ResponseWriter, r *http.Request) (*admittedCall, bool) {
	body, err := endpoint.ReadBody(w, r, maxBody, readTime)
	if err != nil {
		g.unreachable(w, r, err)
		return nil, false
	}
	a, err := g.inspect(r.URL.Path, body)
	if err == nil {
		a.rest += strings.Join(r.Header.Values("Anthropic-Beta"), ",") // some change what is counted
		err = g.allows(a.model)
	}
	if err != nil {
		g.cfg.Logger.Warn("model guard refused a call", "path", r.URL.Path, "reason", err.Error())
		g.cfg.Refused(callOf(r), err.Error())
		g.refuse(w, http.StatusForbidden, "permission_error", err.Error())
		return nil, false
	}
	if !g.takeTurn(a) {
		g.cfg.Exhausted()
		g.refuse(w, http.StatusForbidden, "permission_error", fmt.Sprintf("the run's %d turns are over", g.cfg.Answers))
		return nil, false
	}
	if !a.billed && g.free.Add(1) > maxFree {
		g.refuse(w, http.StatusForbidden, "permission_error", fmt.Sprintf("%d calls that only count were made already", maxFree))
		return nil, false
	}
	if err := g.allow(r.Context(), a); err != nil {
		g.returnTurn(a)
		if r.Context().Err() != nil {
			return nil, false // the agent hung up while the call waited
		}
		g.cfg.Spent(err)
		g.cfg.Logger.Warn("model guard refused a call", "path", r.URL.Path, "reason", err.Error())
		g.refuse(w, http.StatusForbidden, "permission_error", err.Error())
		return nil, false
	}
	return a, true
}

// takeTurn takes one of the run's turns for a call before it is made, as others may be
// under way: of many at once no more may pass than there are turns.
func (g *Guard) takeTurn(a *admittedCall) bool {
	if g.cfg.Answers == 0 || !a.billed {
		return true
	}
	for taken := g.turns.Load(); taken < int64(g.cfg.Answers); taken = g.turns.Load() {
		if g.turns.CompareAndSwap(taken, taken+1) {
			a.turn = true
			return true
		}
	}
	return false
}

// returnTurn gives back the turn of a call, unless an answer to it has begun.
func (g *Guard) returnTurn(a *admittedCall) {
	if a.turn {
		a.turn = false
		g.turns.Add(-1)
	}
}

// allow completes a request that is paid for, and has the budget allow it.
func (g *Guard) allow(ctx context.Context, a *admittedCall) error {
	if !a.billed {
		return nil
	}
	g.shorten(a, a.output)
	if err := g.reserve(ctx, a); err != nil || a.grant == nil {
		return err
	}
	if granted := a.grant.Output(); granted < a.output {
		g.shorten(a, granted)
	}
	return nil
}

// bearer is the token of an Authorization header, "" when it has none.
func bearer(h http.Header) string {
	token, _ := strings.CutPrefix(h.Get("Authorization"), "Bearer ")
	return token
}

func (g *Guard) authentic(r *http.Request) bool {
	given := g.protocol.given(r.Header, r.URL.Query())
	return subtle.ConstantTimeCompare([]byte(given), []byte(g.token)) == 1
}

// refuse answers in the API's own shape, so that clients show the text.
func (g *Guard) refuse(w http.ResponseWriter, status int, kind, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Should-Retry", map[bool]string{true: "true", false: "false"}[status >= 500])
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(g.protocol.refusal(status, kind, "nightcrier: "+message)) // a client that hung up needs no answer
}
