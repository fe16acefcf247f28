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
	"slices"
	"strconv"
	"strings"
	"time"

	"nightcrier.dev/nightcrier/internal/guard/internal/endpoint"
	"nightcrier.dev/nightcrier/internal/guard/price"
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
	case g.facts.callOf(r.Method, r.URL.Path) == nil:
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
	a.document = nil // all is decided, and an answer can take long
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
	settings := strings.Join(r.Header.Values(g.facts.betaHeader), ",") + "?" + g.facts.forwardedQuery(r.URL.Query()).Encode()
	a, err := g.inspectBody(g.facts.callOf(r.Method, r.URL.Path), r.URL.Path, settings, body)
	if err == nil {
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
	a.writeAnswerLength(a.output)
	if err := g.reserveCost(ctx, a); err != nil || a.grant == nil {
		return err
	}
	if granted := a.grant.Output(); granted < a.output {
		a.writeAnswerLength(granted)
	}
	return nil
}

// acting are pieces of the names of models that act by themselves, at the provider and
// unasked: they search and read the web, run code, or send others to. No field of a
// request says so, and none keeps them from it.
var acting = []string{":online", "search", "research", "sonar", "compound", "computer-use", "alltools"}

// ActsByItself reports whether a model is one of those, as far as its name tells.
func ActsByItself(model string) bool {
	model = strings.ToLower(model)
	return slices.ContainsFunc(acting, func(piece string) bool { return strings.Contains(model, piece) })
}

// checkModel refuses a model that the run is not for, and one that acts by itself unless the
// configuration has its very name: a pattern may have been meant for others.
func (g *Guard) checkModel(model string) error {
	if ActsByItself(model) && !slices.Contains(g.cfg.Models, model) {
		return fmt.Errorf("the model %.64q is not asked: it acts by itself at the provider, as those do that search the web, and neither agent.model nor agent.models has this very name", model)
	}
	if len(g.cfg.Models) == 0 || slices.ContainsFunc(g.cfg.Models, func(pattern string) bool { return price.Fits(pattern, model) }) {
		return nil
	}
	return fmt.Errorf("the model %.64q is not asked: it is not agent.model, and agent.models does not name it", model)
}

func (g *Guard) isAuthentic(r *http.Request) bool {
	given := g.facts.givenToken(r.Header, r.URL.Query())
	return subtle.ConstantTimeCompare([]byte(given), []byte(g.token)) == 1
}

// writeRefusal answers in the API's own shape, so that clients show the text.
func (g *Guard) writeRefusal(w http.ResponseWriter, status int, kind, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Should-Retry", map[bool]string{true: "true", false: "false"}[status >= 500])
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(g.dialect.refusalBody(status, kind, "nightcrier: "+message)) // a client that hung up needs no answer
}
