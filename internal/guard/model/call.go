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

	"nightcrier.dev/nightcrier/internal/guard/internal/endpoint"
)

// ServeHTTP checks a call and forwards it.
func (g *Guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case !g.isAuthentic(r):
		g.cfg.Refused(callOf(r), "this token is not the run's")
		g.writeRefusal(w, http.StatusUnauthorized, "authentication_error", "this token is not the run's")
	case r.Method == http.MethodHead && r.URL.Path == "/":
		g.cfg.Refused(callOf(r), "the guard answers it itself")
		w.WriteHeader(http.StatusOK) // some clients look whether anybody is there
	case !g.protocol.mayForward(r.Method, r.URL.Path):
		g.cfg.Logger.Warn("model guard refused a call", "method", r.Method, "path", r.URL.Path)
		g.cfg.Refused(callOf(r), "the guard does not forward this call")
		g.writeRefusal(w, http.StatusForbidden, "permission_error", "the guard does not forward this call")
	default:
		g.forwardCall(w, r)
	}
}

// callOf names a call: method and path, in which any byte may stand.
func callOf(r *http.Request) string {
	return strings.Trim(strconv.QuoteToASCII(r.Method+" "+r.URL.Path), `"`)
}

// forwardCall makes a call. An agent can call from many places at the same time, so at most
// maxCalls are under way at once, each until it is on record.
func (g *Guard) forwardCall(w http.ResponseWriter, r *http.Request) {
	select {
	case g.slots <- struct{}{}:
	default:
		g.writeRefusal(w, http.StatusTooManyRequests, "rate_limit_error", fmt.Sprintf("%d calls are under way already", maxCalls))
		return
	}
	record := func() {}
	defer func() {
		go func() { // the answer to the agent does not wait for the record
			defer func() { <-g.slots }()
			record()
		}()
	}()
	a, ok := g.admitCall(w, r)
	if !ok {
		return
	}
	x := g.ledger.openExchange(time.Now(), r, a)
	g.cfg.Record(x.Exchange)
	record = func() { g.cfg.Record(x.closeRecord()) }
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(a.body)), int64(len(a.body))
	ctx := httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { x.sent = true }})
	defer g.returnTurn(a)
	defer x.settleUnknownCost(g) // also where the proxy panics, as it does when an answer breaks off
	g.proxy.ServeHTTP(w, r.WithContext(context.WithValue(ctx, exchangeKey{}, x)))
}

// admitCall reads the whole request, because what is at its end may forbid it, completes it
// and asks the budget. Where the call may not be made, it answers and returns false.
func (g *Guard) admitCall(w http.ResponseWriter, r *http.Request) (*admittedCall, bool) {
	body, err := endpoint.ReadBody(w, r, maxBody, readTime)
	if err != nil {
		g.handleCallError(w, r, err)
		return nil, false
	}
	a, err := g.inspectBody(r.URL.Path, body)
	if err == nil {
		a.rest += strings.Join(r.Header.Values("Anthropic-Beta"), ",") // some change what is counted
		err = g.checkModel(a.model)
	}
	if err != nil {
		g.cfg.Logger.Warn("model guard refused a call", "path", r.URL.Path, "reason", err.Error())
		g.cfg.Refused(callOf(r), err.Error())
		g.writeRefusal(w, http.StatusForbidden, "permission_error", err.Error())
		return nil, false
	}
	if !g.takeTurn(a) {
		g.cfg.Exhausted()
		g.writeRefusal(w, http.StatusForbidden, "permission_error", fmt.Sprintf("the run's %d turns are over", g.cfg.Answers))
		return nil, false
	}
	if !a.billed && g.free.Add(1) > maxFree {
		g.writeRefusal(w, http.StatusForbidden, "permission_error", fmt.Sprintf("%d calls that only count were made already", maxFree))
		return nil, false
	}
	if err := g.allowCall(r.Context(), a); err != nil {
		g.returnTurn(a)
		if r.Context().Err() != nil {
			return nil, false // the agent hung up while the call waited
		}
		g.cfg.Spent(err)
		g.cfg.Logger.Warn("model guard refused a call", "path", r.URL.Path, "reason", err.Error())
		g.writeRefusal(w, http.StatusForbidden, "permission_error", err.Error())
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

// allowCall completes a request that is paid for, and has the budget allow it.
func (g *Guard) allowCall(ctx context.Context, a *admittedCall) error {
	if !a.billed {
		return nil
	}
	g.writeAnswerLength(a, a.output)
	if err := g.reserveCost(ctx, a); err != nil || a.grant == nil {
		return err
	}
	if granted := a.grant.Output(); granted < a.output {
		g.writeAnswerLength(a, granted)
	}
	return nil
}

// bearerToken is the token of an Authorization header, "" when it has none.
func bearerToken(h http.Header) string {
	token, _ := strings.CutPrefix(h.Get("Authorization"), "Bearer ")
	return token
}

func (g *Guard) isAuthentic(r *http.Request) bool {
	given := g.protocol.givenToken(r.Header, r.URL.Query())
	return subtle.ConstantTimeCompare([]byte(given), []byte(g.token)) == 1
}

// writeRefusal answers in the API's own shape, so that clients show the text.
func (g *Guard) writeRefusal(w http.ResponseWriter, status int, kind, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Should-Retry", map[bool]string{true: "true", false: "false"}[status >= 500])
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(g.protocol.refusalBody(status, kind, "nightcrier: "+message)) // a client that hung up needs no answer
}
