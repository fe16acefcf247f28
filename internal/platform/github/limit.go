package github

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/retry"
	"nightcrier.dev/nightcrier/internal/text"
)

// waits are those after a failure that may pass, and after a limit that does not say how long: GitHub
// asks for a minute, and for more each time.
var (
	waits  = retry.Backoff{Min: time.Second, Max: 30 * time.Second}
	limits = retry.Backoff{Min: 2 * time.Minute, Max: 10 * time.Minute}
)

// judge says whether a request is made once more, and after which wait.
func (c *Client) judge(k call, resp *answered, err error, try int) (again bool, wait time.Duration) {
	switch {
	case try >= maxTries:
		return false, 0
	case err != nil:
		return nightcrier.CodeOf(err) == nightcrier.Unreachable && !errors.Is(err, errLost) && !errors.Is(err, errAnswered), waits.Wait(try)
	case resp.status == http.StatusUnauthorized:
		return c.access.renews() && !k.signed && try == 1, 0
	case resp.status >= 500:
		return k.method == http.MethodGet, waits.Wait(try)
	}
	wait = c.limitOf(resp, try)
	return wait > 0, wait
}

// limitOf returns how long GitHub wants to be left alone; 0 where it does not.
func (c *Client) limitOf(resp *answered, try int) time.Duration {
	if resp.status != http.StatusForbidden && resp.status != http.StatusTooManyRequests {
		return 0
	}
	if after := retry.ReadAfter(resp.header, c.now(), 24*time.Hour); after > 0 {
		return after
	}
	if resp.header.Get("X-RateLimit-Remaining") == "0" {
		if at, err := strconv.ParseInt(resp.header.Get("X-RateLimit-Reset"), 10, 64); err == nil {
			return max(time.Unix(at, 0).Sub(c.now()), 0) + time.Second
		}
	}
	if resp.status == http.StatusTooManyRequests || strings.Contains(string(resp.body), "secondary rate limit") {
		return limits.Wait(try)
	}
	return 0
}

// holdOff has all requests wait: one that is made meanwhile would prolong the limit.
func (c *Client) holdOff(wait time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at := c.now().Add(wait); at.After(c.until) {
		c.until = at
	}
}

// awaitLimit waits for the end of a limit that another request has come upon.
func (c *Client) awaitLimit(ctx context.Context, waited *time.Duration) error {
	c.mu.Lock()
	wait := c.until.Sub(c.now())
	c.mu.Unlock()
	if wait <= 0 {
		return nil
	}
	if *waited += wait; *waited > maxWait {
		return nightcrier.Errorf(nightcrier.Exhausted, "GitHub asks to be left alone for %s; a request waits %s at most", wait.Round(time.Second), maxWait)
	}
	c.tell("GitHub limits how often it may be asked; waiting " + wait.Round(time.Second).String())
	if !c.sleep(ctx, wait) {
		return nightcrier.Errorf(nightcrier.Interrupted, "stopped while waiting for GitHub")
	}
	return nil
}

// sentMark knows whether any of a request may have left this machine.
type sentMark struct{ left atomic.Bool }

func (m *sentMark) watch(req *http.Request) *http.Request {
	return req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
		WroteHeaders: func() { m.left.Store(true) },
		WroteRequest: func(httptrace.WroteRequestInfo) { m.left.Store(true) },
	}))
}

// failure says why there is no answer, without the address.
func (m *sentMark) failure(req *http.Request, err error) error {
	var ue *url.Error
	if errors.As(err, &ue) {
		err = ue.Err
	}
	switch {
	case req.Method != http.MethodGet && m.left.Load():
		return nightcrier.Errorf(nightcrier.Unreachable, "GitHub: %w: %w", errLost, err)
	case errors.Is(err, context.Canceled):
		return nightcrier.Errorf(nightcrier.Interrupted, "GitHub: %w", err)
	}
	return nightcrier.Errorf(nightcrier.Unreachable, "GitHub does not answer: %w", err)
}

// errAnswered marks what GitHub has said itself.
var errAnswered = errors.New("GitHub's answer")

// final is an error after which a request is not made again.
type final struct{ err error }

func (f *final) Error() string        { return f.err.Error() }
func (f *final) Unwrap() error        { return f.err }
func (f *final) Is(target error) bool { return target == errAnswered }

// refusal is an answer of GitHub's that is none of success.
type refusal struct {
	status int
	text   string
}

func (r *refusal) Error() string        { return r.text }
func (r *refusal) Is(target error) bool { return target == errAnswered }

// refusalOf says what GitHub's answer means, and what to do.
func refusalOf(k call, resp *answered) error {
	said := explainRefusal(resp.body)
	r := &refusal{status: resp.status, text: strconv.Itoa(resp.status) + " " + said}
	wrap := func(code nightcrier.Code, why string) error {
		return nightcrier.Errorf(code, "GitHub, %s %s: %s: %w", k.method, k.path, why, r)
	}
	switch status := resp.status; {
	case status == http.StatusUnauthorized:
		return wrap(nightcrier.Unreachable, "the credential is not accepted: look at github.token, or github.app_id and its key")
	case status == http.StatusForbidden || status == http.StatusTooManyRequests:
		if needs := resp.header.Get("X-Accepted-GitHub-Permissions"); needs != "" {
			return wrap(nightcrier.Refused, "the permission "+needs+" is missing: give it to the App or token")
		}
		if resp.header.Get("X-RateLimit-Remaining") == "0" || strings.Contains(said, "rate limit") {
			return wrap(nightcrier.Exhausted, "the limit of requests is used up")
		}
		return wrap(nightcrier.Refused, "it is not permitted")
	case status >= 300 && status < 400:
		return wrap(nightcrier.NotFound, "it was moved or renamed, and redirects are not followed: use its new name")
	case status == http.StatusNotFound || status == http.StatusGone:
		return wrap(nightcrier.NotFound, "there is none, or the App or token may not see it")
	case status == http.StatusConflict:
		return wrap(nightcrier.Conflict, "it cannot be now")
	case status == http.StatusUnprocessableEntity || status == http.StatusBadRequest:
		return wrap(nightcrier.Invalid, "it was not taken")
	case status >= 500 && k.method != http.MethodGet:
		return nightcrier.Errorf(nightcrier.Unreachable, "GitHub, %s %s: %w: %w", k.method, k.path, errLost, r)
	}
	return wrap(nightcrier.Unreachable, "it did not succeed")
}

// explainRefusal is what GitHub says of a refusal, in one line.
func explainRefusal(body []byte) string {
	var said struct {
		Message string
		Errors  []json.RawMessage
	}
	if err := json.Unmarshal(body, &said); err != nil || said.Message == "" {
		return text.CutLine(string(body), maxMessage)
	}
	all := said.Message
	for _, e := range said.Errors {
		var one struct{ Field, Code, Message string }
		plain := ""
		switch {
		case json.Unmarshal(e, &plain) == nil:
		case json.Unmarshal(e, &one) == nil:
			plain = strings.TrimSpace(one.Field + " " + one.Code + " " + one.Message)
		}
		all += "; " + plain
	}
	return text.CutLine(all, maxMessage)
}
