package data

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/mask"
	"nightcrier.dev/nightcrier/internal/record/journal"
	"nightcrier.dev/nightcrier/internal/text"
)

// Bounds of one question and its answer.
const (
	callTime = 15 * time.Second
	// maxBody is what evidence keeps of one body, less what our own text takes.
	maxBody   = 3 << 20
	maxHeader = 64 << 10
	// maxGet is the length of options from which on a form is posted: servers and what
	// stands before them bound the length of an address.
	maxGet = 2000
	// maxWords bounds what is passed on of a server's own words, in bytes.
	maxWords = 400
)

// newClient follows no redirect, so that a credential goes where it was meant for, and
// takes no compression: a small answer must not become a large one. It keeps no
// connection: a run asks seldom, and nobody would have to end it.
func newClient() *http.Client {
	return &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, DisableCompression: true, MaxResponseHeaderBytes: maxHeader,
			DisableKeepAlives: true, TLSHandshakeTimeout: 10 * time.Second,
			DialContext: (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
		},
	}
}

// question is one request that is put together here. Path is one of a few that stand
// in this package; only the name of a label, which is checked, comes from outside.
type question struct {
	system  *system
	path    string
	options url.Values
	// label is the one whose values are asked for, "" for another question.
	label string
}

// askQuestion puts the question, and returns the answer, masked. The outcome is put on record by
// finish.
func (g *Guard) askQuestion(ctx context.Context, q question) (_ []byte, finish func(kept journal.Request) error, err error) {
	select {
	case g.calls <- struct{}{}:
		defer func() { <-g.calls }()
	case <-ctx.Done():
		return nil, nil, nightcrier.Errorf(nightcrier.Interrupted, "%s: %w", q.system.name, ctx.Err())
	}
	rec := q.newJournalRequest(g)
	if err := g.cfg.Audit(ctx, rec); err != nil {
		return nil, nil, nightcrier.Errorf(nightcrier.Exhausted, "%s: the question cannot be put on record, so it is not asked: %w", q.system.name, err)
	}
	finish = func(kept journal.Request) error {
		rec.Done, rec.Status, rec.Bytes, rec.Evidence, rec.SHA256 = true, kept.Status, kept.Bytes, kept.Evidence, kept.SHA256
		return g.cfg.Audit(ctx, rec)
	}
	r, err := g.fetchReply(ctx, q)
	if err != nil {
		return nil, nil, errors.Join(err, finish(journal.Request{Status: r.status, Bytes: r.bytes}))
	}
	return r.text, finish, nil
}

// newJournalRequest returns the question as it stands in the record of the run.
func (q question) newJournalRequest(g *Guard) journal.Request {
	return journal.Request{
		ID: g.ids.Add(1), Time: g.cfg.Now().UTC(), Verb: "get", Resource: q.system.name, Subresource: q.path,
		Query: string(g.cfg.Mask([]byte(q.options.Encode()))), Decision: journal.Allow, Reason: "data: a question that only reads",
	}
}

// recordDenial puts on record what is not asked, and returns it as an error.
func (g *Guard) recordDenial(ctx context.Context, system, what string, why error) error {
	r := journal.Request{
		ID: g.ids.Add(1), Time: g.cfg.Now().UTC(), Verb: "get", Resource: system, Query: url.Values{"query": {text.CutBytes(string(g.cfg.Mask([]byte(what))), 512)}}.Encode(),
		Decision: journal.Deny, Reason: why.Error(), Done: true,
	}
	if err := g.cfg.Audit(ctx, r); err != nil {
		return nightcrier.Errorf(nightcrier.Exhausted, "%s: the denial cannot be put on record: %w", system, err)
	}
	g.cfg.Logger.Info("data guard refused a question", "system", system, "reason", why.Error())
	return why
}

func (g *Guard) sendQuestion(ctx context.Context, q question) (status int, body []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	req, err := q.newRequest(ctx)
	if err != nil {
		return 0, nil, err
	}
	resp, err := g.client.Do(req)
	if err != nil {
		return 0, nil, g.unreachableError(q.system, err)
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	switch {
	case err != nil:
		return resp.StatusCode, nil, g.unreachableError(q.system, err)
	case resp.StatusCode >= 300 && resp.StatusCode < 400:
		err = nightcrier.Errorf(nightcrier.Refused, "%s redirects (HTTP %d), and redirects are not followed: set the address that it leads to", q.system.name, resp.StatusCode)
	case resp.Header.Get("Content-Encoding") != "":
		err = nightcrier.Errorf(nightcrier.Refused, "%s answers in a compressed form, although that was not asked for", q.system.name)
	case len(body) > maxBody:
		err = nightcrier.Errorf(nightcrier.Exhausted, "%s answers with more than %d MiB: ask for less, such as sum by (pod) (...), topk(10, ...), or a shorter time", q.system.name, maxBody>>20)
	case resp.StatusCode != http.StatusOK:
		err = g.refusedError(q, resp.StatusCode, body)
	}
	return resp.StatusCode, body, err
}

// newRequest makes the request: a GET, or the same as a form where that is too long.
func (q question) newRequest(ctx context.Context) (*http.Request, error) {
	u := *q.system.base
	// The name of a label may hold no character that means anything in a path.
	u.Path += q.system.api + q.path
	options := q.options.Encode()
	method, body := http.MethodGet, io.Reader(nil)
	if len(options) > maxGet {
		method, body = http.MethodPost, strings.NewReader(options)
	} else {
		u.RawQuery = options
	}
	req, err := http.NewRequestWithContext(ctx, method, u.String(), body)
	if err != nil {
		return nil, nightcrier.Errorf(nightcrier.Invalid, "%s: %w", q.system.name, err)
	}
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	q.system.signRequest(req)
	return req, nil
}

// signRequest puts the credential into a request of ours.
func (s *system) signRequest(req *http.Request) {
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "nightcrier")
	switch {
	case s.Token != "":
		req.Header.Set("Authorization", "Bearer "+s.Token)
	case s.Username != "" || s.Password != "":
		req.SetBasicAuth(s.Username, s.Password)
	}
	if s.Tenant != "" {
		req.Header.Set("X-Scope-OrgID", s.Tenant)
	}
}

// unreachableError drops the address from a client's error: it may hold the query.
func (g *Guard) unreachableError(s *system, err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return nightcrier.Errorf(nightcrier.Unreachable, "%s did not answer in time", s.name)
	}
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	return nightcrier.Errorf(nightcrier.Unreachable, "%s cannot be reached: %s", s.name, g.cleanServerText(err.Error()))
}

// refusedError is a server's refusal, with its own words where it has some, and without those
// of whoever asked.
func (g *Guard) refusedError(q question, status int, body []byte) error {
	code := nightcrier.Unreachable
	switch status {
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		code = nightcrier.Invalid
	case http.StatusUnauthorized, http.StatusForbidden:
		code = nightcrier.Refused
	}
	var said struct {
		Error string `json:"error"`
	}
	text := string(body)
	if json.Unmarshal(body, &said) == nil && said.Error != "" {
		text = said.Error
	}
	return nightcrier.Errorf(code, "%s answers HTTP %d: %s", q.system.name, status, g.cleanServerText(text, q.askedWords()...))
}

// askedWords are those of whoever asked that stand in a question.
func (q question) askedWords() []string {
	words := []string{q.label, q.options.Encode()}
	for _, values := range q.options {
		words = append(words, values...)
	}
	return words
}

// cleanServerText makes text of a server fit to be shown: without what was asked, masked, on one
// line, bounded.
func (g *Guard) cleanServerText(said string, asked ...string) string {
	said = string(g.cfg.Mask([]byte(mask.WithoutEchoes(text.CutWords(text.FoldLine(said), 4*maxWords), asked...))))
	return text.CutLine(said, maxWords)
}

// recordEvidence records an answer with what we say of it, and puts the outcome on record.
func (g *Guard) recordEvidence(kind, source string, body []byte, finish func(journal.Request) error) (string, error) {
	id := ""
	if g.cfg.Evidence != nil {
		var err error
		if id, err = g.cfg.Evidence.Record(kind, source, body); err != nil {
			return "", errors.Join(err, finish(journal.Request{Status: http.StatusOK, Bytes: int64(len(body))}))
		}
	}
	err := finish(journal.Request{Status: http.StatusOK, Bytes: int64(len(body)), Evidence: id, SHA256: text.DigestOf(body)})
	if err != nil {
		return "", nightcrier.Errorf(nightcrier.Exhausted, "the answer cannot be put on record, so it is not told: %w", err)
	}
	return id, nil
}

// Check asks whether a system answers, for people who set it up, and returns what it
// says of itself.
func (g *Guard) Check(ctx context.Context, name string) (string, error) {
	s, err := g.systemByName(name)
	if err != nil {
		return "", err
	}
	q := question{system: s, path: "labels", options: url.Values{"limit": {"1"}}}
	body, finish, err := g.askQuestion(ctx, q)
	if err != nil {
		return "", err
	}
	var answer struct {
		Status string `json:"status"`
	}
	err = json.Unmarshal(body, &answer)
	if err == nil && answer.Status == "success" {
		return s.base.Host + " answers", finish(journal.Request{Status: http.StatusOK, Bytes: int64(len(body))})
	}
	return "", errors.Join(nightcrier.Errorf(nightcrier.Unreachable, "what answers at %s is no %s", s.base.Host, name), finish(journal.Request{Status: http.StatusOK}))
}
