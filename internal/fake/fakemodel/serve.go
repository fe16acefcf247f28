package fakemodel

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
)

// serveDialect answers calls in one dialect.
func (s *Server) serveDialect(d dialect) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		req, err := readRequest(d, r)
		if err != nil {
			writeFailure(w, d, Failure{Status: http.StatusBadRequest, Message: err.Error()})
			return
		}
		sc, attempt := s.recordRequest(req)
		if sc == nil {
			writeFailure(w, d, Failure{Status: http.StatusNotFound, Message: "no scenario " + strconv.Quote(req.Scenario)})
			return
		}
		st, err := chooseStep(sc, req)
		if err != nil {
			msg := fmt.Sprintf("scenario %s, turn %d: %v", req.Scenario, req.Turn, err)
			writeFailure(w, d, Failure{Status: http.StatusBadRequest, Message: msg})
			return
		}
		s.playStep(w, r, d, req, st, attempt)
	}
}

func readRequest(d dialect, r *http.Request) (Request, error) {
	at := time.Now()
	body, err := io.ReadAll(io.LimitReader(r.Body, maxRequestBytes))
	if err != nil {
		return Request{}, err
	}
	req, err := d.parseRequest(body)
	if err != nil {
		return Request{}, err
	}
	req.At, req.Scenario, req.Path, req.Header, req.Body = at, r.PathValue("scenario"), r.URL.Path, r.Header.Clone(), body
	return req, nil
}

// recordRequest keeps the request and returns its scenario, if there is one, and how
// many times this very turn was asked for before.
func (s *Server) recordRequest(req Request) (*Scenario, int) {
	key := sha256.Sum256(append([]byte(req.Scenario+"\x00"), req.history...))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, req)
	before := s.attempts[key]
	if len(req.Tools) > 0 || s.isScripted(req.Scenario) {
		s.attempts[key]++
	}
	return s.scenarios[req.Scenario], before
}

// isScripted says whether requests without tools follow the script too.
// s.mu is held.
func (s *Server) isScripted(scenario string) bool {
	sc := s.scenarios[scenario]
	return sc != nil && sc.WithoutTools == "script"
}

// canned answers the side questions that CLIs ask without offering tools; a
// title is what they mostly want.
var canned = Step{Text: `{"title": "Scripted investigation"}`}

// chooseStep returns the step that answers the request.
func chooseStep(sc *Scenario, req Request) (Step, error) {
	if sc.Answer != nil {
		return sc.Answer(req), nil
	}
	if len(req.Tools) == 0 && sc.WithoutTools != "script" {
		return canned, nil
	}
	st, ok := sc.stepFor(req.Turn)
	if !ok {
		return Step{}, fmt.Errorf("the script has only %d steps", len(sc.Steps))
	}
	st, err := sc.fillStep(st, req.Text)
	return st.withOfferedTools(req.Tools), err
}

// playStep answers with the step, or with what goes wrong in it.
func (s *Server) playStep(w http.ResponseWriter, r *http.Request, d dialect, req Request, st Step, attempt int) {
	hold := func() error { return nil }
	if st.Hold != "" {
		hold = func() error { return s.signalNamed(st.Hold).awaitRelease(r.Context()) }
	}
	if (st.HoldAfter == 0 || !req.Stream) && hold() != nil {
		return // the caller is gone
	}
	faulty := st.Times == 0 || attempt < st.Times
	if st.Error != nil && faulty {
		writeFailure(w, d, *st.Error)
		return
	}
	cut := 0
	if faulty {
		cut = st.Cut
	}
	rep := newReply(req, st)
	if req.Stream {
		writeStream(w, stream{d.answerEvents(req, rep), cut, st.Endless, st.HoldAfter, hold})
		return
	}
	writePlain(w, d.plainAnswer(req, rep), cut)
}

func newReply(req Request, st Step) reply {
	rep := reply{
		id:   fmt.Sprintf("%s_%d", req.Scenario, req.Turn),
		text: st.Text, tools: st.Tools, stop: st.Stop,
		usage: Usage{Input: estimateTokens(req.Text), Output: estimateTokens(st.Text) + 20*len(st.Tools)},
	}
	if st.Usage != nil {
		rep.usage = *st.Usage
	}
	return rep
}

// estimateTokens estimates, at four characters each.
func estimateTokens(text string) int { return len(text)/4 + 1 }

func writeFailure(w http.ResponseWriter, d dialect, f Failure) {
	for k, v := range f.Headers {
		w.Header().Set(k, v)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(f.Status)
	answer := d.failureBody(f)
	if f.Foreign {
		answer = map[string]string{"error": f.Message}
	}
	_ = json.NewEncoder(w).Encode(answer) // the caller may be gone
}

// writePlain writes one JSON document, or half of it.
func writePlain(w http.ResponseWriter, doc any, cut int) {
	data, err := json.Marshal(doc)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	if cut > 0 {
		data = data[:len(data)/2]
	}
	_, _ = w.Write(data) // the caller may be gone
	if cut > 0 {
		abortConnection(w)
	}
}

// stream is an answer in events, and what becomes of it on its way.
type stream struct {
	events  []event
	cut     int  // breaks after so many; 0 never
	endless bool // says a piece of its text for ever
	// holdAfter is how many events come before hold, 0 for none.
	holdAfter int
	hold      func() error
}

// writeStream writes server-sent events.
func writeStream(w http.ResponseWriter, st stream) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-cache")
	for i, e := range st.events {
		if st.cut > 0 && i == st.cut {
			abortConnection(w)
		}
		if st.holdAfter > 0 && i == st.holdAfter && st.hold() != nil {
			return // the caller is gone
		}
		if writeEvent(w, e) != nil {
			return
		}
		for st.endless && e.more {
			time.Sleep(endlessPace)
			if writeEvent(w, e) != nil {
				return
			}
		}
	}
}

// endlessPace is between two pieces of an endless text: it is to fill a memory in
// the end, but not all of this machine's at once.
const endlessPace = time.Millisecond

func writeEvent(w http.ResponseWriter, e event) error {
	data, err := e.encodeData()
	if err != nil {
		abortConnection(w)
	}
	if e.name != "" {
		fmt.Fprintf(w, "event: %s\n", e.name)
	}
	if _, err := fmt.Fprintf(w, "data: %s\n\n", data); err != nil {
		return err // the caller is gone
	}
	return http.NewResponseController(w).Flush()
}

// abortConnection sends what was written and breaks the connection, which is what the
// server makes of this panic.
func abortConnection(w http.ResponseWriter) {
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}
